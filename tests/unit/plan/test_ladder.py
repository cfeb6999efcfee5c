# SPDX-License-Identifier: Apache-2.0
"""The ladder of allocations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.errors import ConfigurationError
from penstock.plan.ladder import direction, ladder, nearest, step
from penstock.records import Allocation, ExecutorSize, Limits

SHARES = (0.4, 0.55, 0.7, 0.85, 1.0)
LIMITS = Limits(1, 2, SHARES)


def test_two_executors_and_five_shares_give_nine_rungs() -> None:
    """An allocation that needs more executors for no more capacity is left out."""
    # 2 x 0.4 = 0.8 < 0.85 = 1 x 0.85, which needs one executor less; 2 x 0.55 = 1.1 > 1 = 1 x 1 stays.
    assert ladder(LIMITS) == (
        Allocation(1, 0.4),
        Allocation(1, 0.55),
        Allocation(1, 0.7),
        Allocation(1, 0.85),
        Allocation(1, 1.0),
        Allocation(2, 0.55),
        Allocation(2, 0.7),
        Allocation(2, 0.85),
        Allocation(2, 1.0),
    )


def test_equal_capacity_keeps_fewer_executors() -> None:
    """Of two allocations with the same capacity the one with fewer executors is a rung."""
    # 2 x 0.5 = 1 x 1.0; 3 x 0.5 = 1.5 < 2 = 2 x 1.0.
    assert ladder(Limits(1, 3, (0.5, 1.0))) == (
        Allocation(1, 0.5),
        Allocation(1, 1.0),
        Allocation(2, 1.0),
        Allocation(3, 1.0),
    )


def test_rounding_makes_no_rung() -> None:
    """Capacities that differ by rounding alone count as one."""
    # 3 x (1/3) may be 1.0 or a hair below it; either way it is 1 x 1.0 with two executors too many.
    assert Allocation(3, 1 / 3) not in ladder(Limits(1, 3, (1 / 3, 1.0)))


def test_shares_apart_by_rounding_keep_the_top() -> None:
    """The largest allocation is always the last rung, even when its neighbour is a hair away."""
    limits = Limits(1, 1, (0.5, 1.0 - 1e-12, 1.0))
    assert ladder(limits) == (Allocation(1, 0.5), Allocation(1, 1.0))


def test_one_allocation_is_a_ladder_of_one_rung() -> None:
    """Where nothing can be scaled, the ladder has one rung and a step stays on it."""
    limits = Limits(3, 3, (0.7,))
    assert ladder(limits) == (Allocation(3, 0.7),)
    assert step(limits, Allocation(3, 0.7), 1) == step(limits, Allocation(3, 0.7), -1) == Allocation(3, 0.7)


@pytest.mark.parametrize(
    ("current", "levels", "wanted"),
    [
        (Allocation(1, 0.55), 1, Allocation(1, 0.7)),
        (Allocation(1, 0.55), -1, Allocation(1, 0.4)),
        (Allocation(1, 1.0), 1, Allocation(2, 0.55)),
        (Allocation(2, 0.55), -1, Allocation(1, 1.0)),
        (Allocation(2, 1.0), 1, Allocation(2, 1.0)),
        (Allocation(1, 0.4), -1, Allocation(1, 0.4)),
        (Allocation(1, 0.4), 3, Allocation(1, 0.85)),
        (Allocation(1, 0.4), 99, Allocation(2, 1.0)),
        (Allocation(2, 1.0), -2, Allocation(2, 0.7)),
        (Allocation(2, 1.0), -99, Allocation(1, 0.4)),
    ],
)
def test_step_goes_along_the_rungs(current: Allocation, levels: int, wanted: Allocation) -> None:
    """A step goes so many rungs up or down and stops at the ends."""
    assert step(LIMITS, current, levels) == wanted


@pytest.mark.parametrize(
    ("current", "up", "down"),
    [
        # 2 x 0.4 = 0.8, between 0.7 and 0.85
        (Allocation(2, 0.4), Allocation(1, 0.85), Allocation(1, 0.7)),
        # 1 x 0.6, between 0.55 and 0.7
        (Allocation(1, 0.6), Allocation(1, 0.7), Allocation(1, 0.55)),
        # 5 x 1 = 5, above all: "up" cannot go higher than the top
        (Allocation(5, 1.0), Allocation(2, 1.0), Allocation(2, 1.0)),
        # 1 x 0.1, below all
        (Allocation(1, 0.1), Allocation(1, 0.4), Allocation(1, 0.4)),
    ],
)
def test_step_from_beside_the_ladder(current: Allocation, up: Allocation, down: Allocation) -> None:
    """What is no rung steps to the next rung above or below its capacity."""
    assert step(LIMITS, current, 1) == up
    assert step(LIMITS, current, -1) == down


def test_a_step_of_nothing_is_refused() -> None:
    """Zero levels is no step, and the error names the field."""
    with pytest.raises(ConfigurationError, match="levels") as caught:
        step(LIMITS, Allocation(1, 0.4), 0)
    assert caught.value.field == "levels"


def test_direction_ignores_rounding() -> None:
    """The direction of a move is that of its capacity, zero where it differs by rounding alone."""
    assert direction(Allocation(1, 0.4), Allocation(1, 0.55)) == 1
    assert direction(Allocation(2, 0.55), Allocation(1, 1.0)) == -1  # 1.1 -> 1.0
    assert direction(Allocation(3, 0.1), Allocation(1, 0.3)) == 0  # 3 * 0.1 = 0.30000000000000004


@pytest.mark.parametrize(
    ("allocation", "wanted"),
    [
        (Allocation(1, 0.7), Allocation(1, 0.7)),
        (Allocation(9, 0.7), Allocation(2, 0.7)),
        (Allocation(0, 0.7), Allocation(1, 0.7)),
        (Allocation(1, 0.6), Allocation(1, 0.7)),
        (Allocation(1, 0.7 + 1e-12), Allocation(1, 0.7)),
        (Allocation(1, 3.0), Allocation(1, 1.0)),
        (Allocation(1, -1.0), Allocation(1, 0.4)),
        (Allocation(1, float("nan")), Allocation(1, 1.0)),
    ],
)
def test_nearest_is_allowed_and_rather_too_much(allocation: Allocation, wanted: Allocation) -> None:
    """The nearest allowed allocation clamps executors and takes the next share above."""
    assert nearest(LIMITS, allocation) == wanted
    assert LIMITS.allows(wanted)


def test_steps_keep_the_size() -> None:
    """One level up or down needs no restart; the ladder of larger executors has the same rungs of that size."""
    large = ExecutorSize(2, "1g", worth=2.0)
    limits = Limits(1, 2, (0.5, 1.0), sizes=(large,))
    assert step(limits, Allocation(1, 1.0, large), 1) == Allocation(2, 1.0, large)
    assert step(limits, Allocation(1, 1.0, large), -1) == Allocation(1, 0.5, large)
    assert ladder(limits, large) == tuple(replace(rung, size=large) for rung in ladder(limits))
    assert direction(Allocation(1, 1.0), Allocation(1, 0.5, large)) == 0, "half of two cores is one core"
