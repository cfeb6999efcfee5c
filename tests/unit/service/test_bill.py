# SPDX-License-Identifier: Apache-2.0
"""What a pipeline costs while it is looked at."""

from __future__ import annotations

from penstock.loop import CycleReport
from penstock.money import CostBasis, Prices
from penstock.records import Allocation, ClusterState, Observation, Quality
from penstock.service.bill import Bill

HOUR = 3600.0


def look(at: float) -> Observation:
    """Two whole executors at an instant."""
    return Observation("matcher", at, 15.0, Quality.GOOD, ClusterState(observed=Allocation(2, 1.0)))


def cost_of(*instants: float) -> float | None:
    """What it cost, seen at these instants, at a price of 1 for an executor's hour."""
    bill = Bill({"matcher": CostBasis(Prices(executor_hour=1.0), 1, 4.0, 4.0)})
    bill.read(EmptyStore(), 0.0, 0.0)  # type: ignore[arg-type]
    for at in instants:
        bill.take(CycleReport(look(at)))
    cost = bill.of("matcher")
    return None if cost is None else cost.amount


class EmptyStore:
    """Remembers nothing."""


def test_each_look_counts_once() -> None:
    """What is seen holds since the look before."""
    assert cost_of(0.0, HOUR, HOUR, 2 * HOUR) == 4.0


def test_a_clock_that_is_set_back_makes_nothing_free() -> None:
    """What runs goes on costing from the next look on, not when the clock shows the old time once more."""
    assert cost_of(10 * HOUR, 11 * HOUR, 9 * HOUR, 10 * HOUR) == 4.0


def test_a_pass_costs_the_time_that_passed() -> None:
    """An hour that a clock was set forward by is not paid for: the loop says how long it took."""
    bill = Bill({"matcher": CostBasis(Prices(executor_hour=1.0), 1, 4.0, 4.0)})
    bill.read(EmptyStore(), 0.0, 0.0)  # type: ignore[arg-type]
    bill.take(CycleReport(look(0.0)))
    bill.take(CycleReport(look(2 * HOUR), passed_seconds=HOUR))
    cost = bill.of("matcher")
    assert cost is not None
    assert cost.amount == 2.0
