# SPDX-License-Identifier: Apache-2.0
"""CPU levels, their costs, and allocations as vectors."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigurationError
from penstock.plan.levels import AllocationSpace, Levels
from penstock.records import Allocation, Limits
from penstock.testing.path_latencies import FakePathLatency, single_executors


@pytest.mark.parametrize(
    ("shares", "costs", "named"),
    [
        ((), None, "at least one"),
        ((0.5, 0.4), None, "must rise"),
        ((0.5, 0.5), None, "must rise"),
        ((0.0, 1.0), None, "above 0"),
        ((0.5, 1.2), None, "at most at 1"),
        ((0.5, 1.0), (1.0,), "one for each"),
        ((0.5, 1.0), (2.0, 1.0), "rise with the levels"),
        ((0.5, 1.0), (1.0, float("inf")), "finite"),
    ],
)
def test_levels_that_make_no_ladder_are_refused(
    shares: tuple[float, ...], costs: tuple[float, ...] | None, named: str
) -> None:
    """Shares and costs must rise, lie in range and match; the message says what is wrong."""
    with pytest.raises(ConfigurationError, match=named):
        Levels(shares, costs)


def test_a_share_between_levels_counts_as_the_one_above() -> None:
    """Rounding is forgiven; what lies above the highest level counts as the highest."""
    levels = Levels((1 / 3, 0.5))
    assert [levels.at_least(Allocation(1, share)) for share in (0.1, 1 / 3, 0.34, 0.5, 1.0)] == [0, 0, 1, 1, 1]


def test_executors_and_shares_make_one_ladder() -> None:
    """Within limits the levels rise in capacity, whichever of the two grows, and cost what they have of it."""
    levels = Levels.within(Limits(1, 3, (0.6, 1.0)))
    assert [str(level) for level in levels.allocations] == [
        "1 executor x 60% CPU", "1 executor x 100% CPU", "2 executors x 60% CPU", "2 executors x 100% CPU",
        "3 executors x 100% CPU",
    ]  # fmt: skip
    assert [levels.cost(i) for i in range(5)] == pytest.approx([0.6, 1.0, 1.2, 2.0, 3.0])
    assert levels.at_least(Allocation(3, 0.6)) == 3
    with pytest.raises(ConfigurationError, match="one for each"):
        Levels((0.5, 1.0), executors=(1,))


def test_a_level_that_costs_no_less_than_one_above_it_is_left_out() -> None:
    """Costs are those of an executor at each share; nobody would take a dearer or equally dear smaller level."""
    limits = Limits(1, 2, (0.6, 1.0))
    flat = Levels.within(limits, costs=(1.0, 1.0))
    assert [str(level) for level in flat.allocations] == ["1 executor x 100% CPU", "2 executors x 100% CPU"]
    assert [flat.cost(i) for i in range(2)] == [1.0, 2.0]
    with pytest.raises(ConfigurationError, match="1 costs for 2 CPU shares"):
        Levels.within(limits, costs=(1.0,))


def test_predictions_are_asked_for_once() -> None:
    """The same vector is predicted once; cost and shares follow the operators' own levels."""
    pipeline = FakePathLatency({("a", "b"): 2.0}, {"a": 1.0, "b": 0.1})
    space = AllocationSpace(pipeline, {"a": Levels((0.5, 1.0), (1.0, 4.0)), "b": Levels((0.2, 1.0))})
    assert space.allocations((1, 0)) == single_executors({"a": 1.0, "b": 0.2})
    assert space.cost((1, 0)) == pytest.approx(4.2)
    for _ in range(3):
        assert space.is_met((1, 0))
        assert not space.is_met((0, 0))
    assert space.evaluations == 2
    assert space.binding((0, 1)).seconds == pytest.approx(2.1)


def test_missing_levels_and_paths_are_refused() -> None:
    """An operator without levels and a pipeline without paths are errors."""
    with pytest.raises(ConfigurationError, match="none given for b"):
        AllocationSpace(FakePathLatency({("a", "b"): 1.0}, {"a": 1.0, "b": 1.0}), {"a": Levels()})
    with pytest.raises(ConfigurationError, match="paths"):
        AllocationSpace(FakePathLatency({}, {"a": 1.0}), {"a": Levels()})
