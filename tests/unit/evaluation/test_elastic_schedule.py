# SPDX-License-Identifier: Apache-2.0
"""Elastic scheduling: machines for rates, cost and violations worked out by hand, the backlog, and scale."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.elastic_schedule import (
    AHEAD,
    BY_INTERVAL,
    GROUND_TRUTH,
    LEAST_OVER,
    STATIC_AVERAGE,
    STATIC_PEAK,
    Workload,
    account,
    least_machines,
    least_over_provisioning,
    over_name,
    over_provisioned,
    schedule_all,
    usual_rises,
    worthwhile_machines,
)

TEN_EACH = 10.0 * np.arange(1.0, 11.0)


def test_the_fewest_machines_are_taken() -> None:
    """A rate that is just reached needs no more; a fall of the truth does not hide that fewer machines do."""
    assert least_machines(TEN_EACH, [0.0, 10.0, 10.1, 99.0, 101.0]).tolist() == [1, 1, 2, 10, 10]
    assert least_machines(np.array([10.0, 30.0, 20.0, 40.0]), [25.0, 35.0]).tolist() == [2, 4]


def test_over_provisioning_rounds_up_exactly() -> None:
    """5 % of 20 machines are one more, not two by rounding; 20 % of one machine is one more; no more than there are."""
    assert over_provisioned(np.array([20, 1, 99]), 5, 100).tolist() == [21, 2, 100]
    assert over_provisioned(np.array([20, 1]), 0, 100).tolist() == [20, 1]


def test_a_rise_is_a_violation_for_the_delay() -> None:
    """Two hours at 10 and 20: the second machine comes a minute late, which is 1 of 120 minutes."""
    workload = Workload(np.array([10.0, 20.0]))
    told = account(workload, TEN_EACH, np.array([1, 2]))
    assert told.violation_percent == pytest.approx(100.0 / 120.0)
    assert told.cost_per_hour == pytest.approx(0.15)
    assert told.changes == 1
    assert account(workload, TEN_EACH, np.array([1, 2]), is_instant=True).violation_percent == 0.0


def test_what_is_left_is_caught_up_with_what_is_to_spare() -> None:
    """In the late minute 600 records are left; 5/s to spare work them off in 120 s; the last waited 24 s."""
    # Rate 20, one machine (10/s) for 60 s: 600 wait. Then 25/s: 5/s to spare, 120 s. 600 / 25 = 24 s of waiting.
    truth = np.array([10.0, 25.0])
    told = account(Workload(np.array([10.0, 20.0])), truth, np.array([1, 2]))
    assert told.waiting_percent == pytest.approx(100.0 * (60.0 + 120.0) / 7200.0)
    assert told.longest_wait_seconds == pytest.approx(60.0)  # just before the second machine comes: 600 / 10
    assert told.left_over == 0.0


def test_a_lasting_lack_grows_and_is_left_over() -> None:
    """One machine for twice its rate: violated all the time, and an hour's load is left after two."""
    told = account(Workload(np.array([20.0, 20.0])), TEN_EACH, np.array([1, 1]))
    assert (told.violation_percent, told.waiting_percent) == (100.0, 100.0)
    assert told.left_over == pytest.approx(3600.0)


def test_asking_ahead_covers_the_rise_and_is_paid_for_twice_the_delay() -> None:
    """With two machines asked for ahead nothing is violated; one more for two minutes of the hour is paid."""
    workload = Workload(np.array([10.0, 20.0]))
    told = account(workload, TEN_EACH, np.array([1, 2]), ahead=np.array([2, 2]))
    assert told.violation_percent == 0.0
    assert told.cost_per_hour == pytest.approx(0.15 + 0.5 * 0.10 * 2.0 / 60.0)


def test_usual_rises_know_the_past_alone() -> None:
    """The factor for the next period comes of rises already seen, is at least 1, and leaves out rises from nothing."""
    assert usual_rises(np.array([10.0, 20.0, 10.0, 5.0])).tolist() == [1.0, 2.0, 2.0, 2.0]
    assert usual_rises(np.array([0.0, 5.0, 4.0])).tolist() == [1.0, 1.0, 1.0]


def test_machines_that_promise_nothing_more_are_not_taken() -> None:
    """On a flat curve one machine is all that is worthwhile, whatever an interval says."""
    flat = np.full(8, 50.0)
    assert worthwhile_machines(flat) == 1
    low = 40.0 + np.arange(8.0)
    found = {p.name: p for p in schedule_all(Workload(np.array([45.0, 49.0])), flat, flat, low)}
    assert found[BY_INTERVAL].machines.tolist() == [1, 1]


def test_the_least_over_provisioning_is_the_least() -> None:
    """One percent less would break the bound; None where even all machines break it."""
    rates = np.full(10, 100.0)
    truth = np.arange(1.0, 201.0)
    workload = Workload(rates)
    assert least_over_provisioning(workload, truth, np.full(10, 80)) == 24  # 80 x 1.24 = 99.2, rounded up
    assert least_over_provisioning(workload, truth / 10.0, np.full(10, 80)) is None


def test_all_policies_are_there_and_ordered_by_what_they_know() -> None:
    """The ground truth is never violated, and cheaper than static for the peak; more machines never violate more."""
    generator = np.random.default_rng(0)
    rates = 40.0 * (1.2 + np.sin(np.arange(500) / 4.0)) * generator.uniform(0.9, 1.1, 500)
    truth = 1.0 / (0.005 + 0.6 / np.arange(1.0, 129.0))
    found = {p.name: p.account for p in schedule_all(Workload(rates), truth, truth, 0.9 * truth)}
    assert set(found) == {
        STATIC_PEAK, STATIC_AVERAGE, GROUND_TRUTH, *map(over_name, (0, 5, 10, 20)), LEAST_OVER, BY_INTERVAL, AHEAD
    }  # fmt: skip
    assert found[GROUND_TRUTH].violation_percent == 0.0
    assert found[STATIC_PEAK].violation_percent == 0.0
    assert found[GROUND_TRUTH].cost_per_hour < found[STATIC_PEAK].cost_per_hour
    percents = [found[over_name(x)].violation_percent for x in (0, 5, 10, 20)]
    assert percents == sorted(percents, reverse=True)
    assert found[AHEAD].violation_percent < found[BY_INTERVAL].violation_percent


def test_ten_thousand_machines_are_as_good_as_ten() -> None:
    """Rates and truth a thousand times as large give the same violations for ten thousand machines."""
    generator = np.random.default_rng(1)
    shape = generator.uniform(0.1, 1.0, 500)
    truth = np.arange(1.0, 10_001.0)
    found = schedule_all(Workload(9000.0 * shape), truth, truth, 0.95 * truth)
    assert max(p.account.machines_max for p in found) <= 10_000
    assert found[0].account.machines_mean == pytest.approx(np.ceil(9000.0 * shape.max()))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"rates": np.array([])}, "rates"),
        ({"rates": np.array([1.0, np.nan])}, "finite"),
        ({"rates": np.array([-1.0])}, "at least 0"),
        ({"delay_seconds": 7200.0}, "delay"),
        ({"cost_per_hour": -1.0}, "cost per hour"),
    ],
)
def test_an_impossible_workload_is_refused(change: dict[str, object], says: str) -> None:
    """Every part of a workload is checked, and the mistake is named."""
    with pytest.raises(ConfigurationError, match=says):
        Workload(**({"rates": np.array([1.0])} | change))  # type: ignore[arg-type]
