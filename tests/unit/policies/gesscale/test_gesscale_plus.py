# SPDX-License-Identifier: Apache-2.0
"""gesscale+: sizes planned in one step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.policies.gesscale.gesscale_worlds import LIMITS, a_context, a_request, on, seen, show_maximum

from penstock.policies.gesscale.change_time import ChangeTime
from penstock.policies.gesscale.expected_load import expected_load
from penstock.policies.gesscale.options import plus_options
from penstock.policies.gesscale.plus import GesscalePlusPolicy
from penstock.records import Allocation, ClusterState, Limits


def calibrated(**options: object) -> GesscalePlusPolicy:
    """A policy that saw 1, 2 and 3 executors at their maximum: 20, 39 and 56 records a second."""
    policy = GesscalePlusPolicy(a_context(), plus_options(**options))  # type: ignore[arg-type]
    for number, (has, rate) in enumerate([(on("a"), 20.0), (on("a", "b"), 39.0), (on("a", "b", "c"), 56.0)]):
        show_maximum(policy, has, rate, at=200.0 * number)
    return policy


def test_a_rate_that_needs_four_gets_four_at_once() -> None:
    """Where the published policy adds one after the other."""
    limits = Limits(1, 8)
    policy = GesscalePlusPolicy(a_context(limits=limits, round_trips=None))
    for number, rate in enumerate((20.0, 39.0, 56.0)):
        show_maximum(policy, Allocation(number + 1), rate, at=200.0 * number)
    decision = policy.plan(a_request(Allocation(2), limits, arrival_rate_rows_per_second=65.0, back_pressure=0.9))
    assert decision.target == Allocation(4)
    assert decision.workload is not None


def test_a_step_goes_no_further_than_twice_what_there_is() -> None:
    """A model that has seen one and two executors says little about eight."""
    decision = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=45.0, back_pressure=0.9))
    assert decision.target == on("a", "b")


def test_the_backlog_and_the_change_itself_are_worked_off() -> None:
    """40 records a second fit three executors; 2,000 that wait do not go within a minute."""
    calm, late = (
        calibrated(catch_up="60s").plan(
            a_request(on("a", "b"), arrival_rate_rows_per_second=40.0, backlog_records=backlog)
        )
        for backlog in (0, 2000)
    )
    assert calm.evidence["needed_records_per_second"] == pytest.approx(40.0 + 40.0 * 15.0 / 60.0)
    assert late.evidence["needed_records_per_second"] == pytest.approx(50.0 + 2000.0 / 60.0)


def test_a_backlog_that_will_be_gone_changes_nothing() -> None:
    """It sustains 39 of 20 that arrive: 500 records are gone within half a minute."""
    decision = calibrated().plan(
        a_request(on("a", "b"), arrival_rate_rows_per_second=20.0, backlog_records=500, back_pressure=0.7)
    )
    assert not decision.is_growth


def test_a_rise_is_followed_before_it_arrives() -> None:
    """19 records a second that rise by six a minute are more than 20 when a change would be in force."""
    history = tuple(seen(on("a"), 800.0 + 10.0 * i, arrival_rate_rows_per_second=i - 1.0) for i in range(20))
    decision = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=19.0, history=history))
    assert decision.target.executors >= 2


def test_executors_are_kept_while_the_busiest_time_is_not_over() -> None:
    """A dip of a minute is no reason to change."""
    busy = tuple(seen(on("a", "b"), 700.0 + 10.0 * i, arrival_rate_rows_per_second=30.0) for i in range(10))
    policy = calibrated()
    assert not policy.plan(a_request(on("a", "b"), history=busy)).is_change
    assert policy.plan(a_request(on("a", "b"))).target.executors == 1


def test_the_lower_end_of_the_interval_is_counted_on() -> None:
    """What fewer sustain in the middle is not enough to give some up."""
    decision = calibrated(confidence=0.99).plan(
        a_request(on("a", "b"), arrival_rate_rows_per_second=19.5, processed_rows_per_second=19.5)
    )
    assert not decision.is_change


def test_the_best_set_of_nodes_is_taken() -> None:
    """From a node that is far from all others it moves to near ones as it grows."""
    decision = calibrated().plan(a_request(on("d"), arrival_rate_rows_per_second=35.0, back_pressure=0.9))
    assert "d" not in dict(decision.target.nodes)


@pytest.mark.parametrize("rate", [1.0, 1000.0])
def test_with_one_size_only_nothing_changes(rate: float) -> None:
    """n_min = n_max: whatever the load."""
    limits = replace(LIMITS, min_executors=2, max_executors=2)
    assert not calibrated().plan(a_request(on("a", "b"), limits, arrival_rate_rows_per_second=rate)).is_change


def test_without_arrivals_it_holds() -> None:
    """Not known is not none."""
    decision = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=None, back_pressure=0.9))
    assert decision.reason.startswith("holding: arrival rate")


def test_what_a_change_takes_is_learnt() -> None:
    """From asking until it is there; the second one counts half."""
    change = ChangeTime()
    for began, took in ((0.0, 100.0), (1000.0, 50.0)):
        asked = on("a", "b") if began == 0.0 else on("a")
        has = on("a") if began == 0.0 else on("a", "b")
        change.watch(began, ClusterState(asked, asked, has))
        change.watch(began + took, ClusterState(asked, asked, asked))
    assert change.measured == 2
    assert change.seconds == pytest.approx(75.0)


def test_noise_is_no_trend() -> None:
    """A rate that goes up and down has no slope."""
    history = tuple(
        seen(on("a"), 820.0 + 10.0 * i, arrival_rate_rows_per_second=20.0 + (1.0 if i % 2 else -1.0)) for i in range(18)
    )
    assert expected_load(a_request(on("a"), history=history, arrival_rate_rows_per_second=20.0), 600.0).slope == 0.0


def test_a_strong_fall_is_followed_at_once() -> None:
    """30 records a second that have become 10, and still fall, will not be 30 again in a moment."""
    falling = tuple(seen(on("a", "b"), 800.0 + 10.0 * i, arrival_rate_rows_per_second=30.0 - i) for i in range(20))
    assert expected_load(a_request(on("a", "b"), history=falling), 600.0).busiest == 10.0
    decision = calibrated().plan(a_request(on("a", "b"), history=falling))
    assert decision.target.executors == 1
