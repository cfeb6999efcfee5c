# SPDX-License-Identifier: Apache-2.0
"""How far a rule scales."""

from __future__ import annotations

import pytest

from penstock.policies.rules.sizes import kept, scaled
from penstock.records import Allocation, Limits
from penstock.rules.nodes import Direction, Keep, Quantity, Scale, Side

LIMITS = Limits(1, 10, (0.4, 0.55, 0.7, 0.85, 1.0))
OUT, IN, UP, DOWN = Direction.OUT, Direction.IN, Direction.UP, Direction.DOWN


@pytest.mark.parametrize(
    ("direction", "amount", "is_relative", "limit", "before", "after", "note"),
    [
        (OUT, 2, False, None, 3, 5, None),
        (OUT, 2, False, Quantity(4), 3, 4, "its limit is 4 executors"),  # clamped, not skipped
        (OUT, 2, False, Quantity(4), 6, 6, "its limit is 4 executors"),  # never the other way
        (OUT, 20, False, None, 3, 10, "may have 10 executors"),
        (OUT, 2, True, None, 3, 6, None),
        (OUT, 1.5, True, None, 3, 5, None),  # growth is rounded up
        (OUT, 2, True, Quantity(3, is_relative=True), 4, 6, "its limit is 6 executors"),  # three times the original 2
        (OUT, 1e308, True, Quantity(1e308, is_relative=True), 3, 10, "may have 10 executors"),
        (IN, 2, False, Quantity(1e308, is_relative=True), 3, 3, "its limit is"),
        (IN, 1e308, True, Quantity(1e-308, is_relative=True), 3, 1, None),
        (IN, 2, False, None, 5, 3, None),
        (IN, 2, False, Quantity(4), 5, 4, "its limit is 4 executors"),
        (IN, 2, False, Quantity(4), 3, 3, "its limit is 4 executors"),
        (IN, 7, False, None, 5, 1, None),
        (IN, 2, True, None, 5, 3, None),
        (IN, 3, True, None, 1, 1, None),  # never below one
        (IN, 9, False, Quantity(1, is_relative=True), 5, 2, "its limit is 2 executors"),  # never below the original
    ],
)
def test_executors(  # noqa: PLR0917 - the columns of the table
    direction: Direction, amount: float, is_relative: bool, limit: Quantity | None, before: int, after: int, note: str
) -> None:
    """Executors are added, taken, multiplied or divided, and clamped to the rule's limit and the operator's."""
    found = scaled(Scale(direction, Quantity(amount, is_relative), limit), Allocation(before), Allocation(2), LIMITS)
    assert found.allocation == Allocation(after)
    assert (note is None) == (found.notes == ())
    assert note is None or note in " ".join(found.notes)


@pytest.mark.parametrize(
    ("direction", "amount", "is_relative", "limit", "before", "after"),
    [
        (UP, 0.15, False, None, 0.4, 0.55),
        (UP, 0.2, False, None, 0.4, 0.7),  # at least what is asked for: the level above
        (UP, 0.2, False, Quantity(0.6), 0.4, 0.55),  # and never beyond the limit
        (UP, 0.9, False, None, 0.4, 1.0),
        (UP, 2, True, None, 0.4, 0.85),
        (UP, 0.1, False, None, 1.0, 1.0),
        (DOWN, 0.3, False, None, 1.0, 0.7),
        (DOWN, 0.2, False, None, 0.7, 0.55),  # at most what is asked for
        (DOWN, 0.05, False, None, 0.7, 0.7),  # there is no level so near
        (DOWN, 0.9, False, Quantity(0.5), 1.0, 0.55),
        (DOWN, 2, True, None, 1.0, 0.55),
    ],
)
def test_shares(  # noqa: PLR0917 - the columns of the table
    direction: Direction, amount: float, is_relative: bool, limit: Quantity | None, before: float, after: float
) -> None:
    """CPU shares go to a level of the operator: growing gives at least what is asked for, shrinking takes at most."""
    scale = Scale(direction, Quantity(amount, is_relative), limit)
    found = scaled(scale, Allocation(2, before), Allocation(2, 1.0), LIMITS)
    assert found.allocation == Allocation(2, after)
    is_exact = after == pytest.approx(before + amount * (1 if direction is UP else -1))
    assert found.notes or is_exact or is_relative


def test_nodes_are_left_to_the_cluster_when_their_number_changes() -> None:
    """A choice of nodes does not fit another number of executors."""
    base = Allocation(2, nodes=(("a", 1), ("b", 1)))
    assert scaled(Scale(OUT, Quantity(1)), base, base, LIMITS).allocation == Allocation(3)


@pytest.mark.parametrize(
    ("keep", "before", "after"),
    [
        (Keep(Side.LEAST, executors=3), Allocation(1), Allocation(3)),
        (Keep(Side.LEAST, executors=3), Allocation(5), Allocation(5)),
        (Keep(Side.LEAST, executors=30), Allocation(1), Allocation(10)),  # the operator's own limits come first
        (Keep(Side.MOST, executors=3), Allocation(5), Allocation(3)),
        (Keep(Side.LEAST, cpu_share=0.6), Allocation(1, 0.4), Allocation(1, 0.7)),
        (Keep(Side.MOST, cpu_share=0.6), Allocation(1, 1.0), Allocation(1, 0.55)),
        (Keep(Side.MOST, cpu_share=0.2), Allocation(1, 1.0), Allocation(1, 0.4)),
    ],
)
def test_bounds(keep: Keep, before: Allocation, after: Allocation) -> None:
    """A bound moves what lies beyond it, to something that the operator may have."""
    assert kept(keep, before, LIMITS).allocation == after
