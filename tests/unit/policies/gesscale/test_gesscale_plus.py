# SPDX-License-Identifier: Apache-2.0
"""gesscale+: sizes planned in one step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.policies.gesscale.gesscale_worlds import LIMITS, a_context, a_request, on, seen, show_maximum

from penstock.errors import ConfigurationError
from penstock.latency_map import FreshLatencyMap, LatencyMap
from penstock.policies.gesscale.change_time import ChangeTime
from penstock.policies.gesscale.expected_load import BusiestRate, expected_load
from penstock.policies.gesscale.options import plus_options
from penstock.policies.gesscale.plus import GesscalePlusPolicy
from penstock.ports import Look
from penstock.records import Allocation, ClusterState, Limits, Observation, Telemetry


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


def test_no_executor_comes_for_which_there_is_no_task() -> None:
    """Batches of two tasks keep two executors busy, whatever arrives."""
    limits = Limits(1, 8)
    policy = GesscalePlusPolicy(a_context(limits=limits, round_trips=None, tasks=2))
    for number, rate in enumerate((20.0, 39.0)):
        show_maximum(policy, Allocation(number + 1), rate, at=200.0 * number)
    asked = a_request(Allocation(1), limits, arrival_rate_rows_per_second=500.0, back_pressure=0.9)
    assert policy.plan(asked).target == Allocation(2)


def test_a_real_time_query_may_be_planned_by_its_fetches() -> None:
    """Its two tasks keep two executors busy; what a third would do is known without trying."""
    limits = Limits(1, 8)
    policy = GesscalePlusPolicy(a_context(limits=limits, round_trips=None, tasks=2), plus_options(model="fetch-time"))
    for number, rate in enumerate((20.0, 39.0)):
        show_maximum(policy, Allocation(number + 1), rate, at=200.0 * number)
    asked = a_request(Allocation(1), limits, arrival_rate_rows_per_second=500.0, back_pressure=0.9)
    decision = policy.plan(asked)
    assert decision.target == Allocation(2)
    assert decision.evidence["per_record_seconds"] == pytest.approx(0.05, rel=0.05)


@pytest.mark.parametrize(("is_real_time", "parameter"), [(True, "alpha"), (False, "per_record_seconds")])
def test_the_law_is_the_one_that_was_measured_best_in_the_mode_of_the_query(is_real_time: bool, parameter: str) -> None:
    """The published one in real-time mode, and that of batches where there are batches; `model` overrules both."""
    for model, expected in ((None, parameter), ("batch-time", "per_record_seconds")):
        policy = GesscalePlusPolicy(a_context(round_trips=None, is_real_time=is_real_time), plus_options(model=model))
        show_maximum(policy, Allocation(1), 20.0)
        evidence = policy.plan(a_request(Allocation(1), arrival_rate_rows_per_second=10.0)).evidence
        assert {"alpha", "per_record_seconds"} & evidence.keys() == {expected}


def test_no_executor_comes_to_a_real_time_query_that_has_a_task_for_none_more() -> None:
    """The law that it is planned by does not know the tasks; the plan does."""
    limits = Limits(1, 8)
    policy = GesscalePlusPolicy(a_context(limits=limits, round_trips=None, tasks=2, is_real_time=True))
    for number, rate in enumerate((20.0, 39.0)):
        show_maximum(policy, Allocation(number + 1), rate, at=200.0 * number)
    asked = a_request(Allocation(1), limits, arrival_rate_rows_per_second=500.0, back_pressure=0.9)
    decision = policy.plan(asked)
    assert "alpha" in decision.evidence
    assert decision.target == Allocation(2)
    asked = a_request(Allocation(2), limits, arrival_rate_rows_per_second=500.0, back_pressure=0.9)
    assert not policy.plan(asked).is_change


def test_a_step_goes_no_further_than_twice_what_was_seen() -> None:
    """A model that has seen one executor says little about three, one that has seen two does."""
    policy = GesscalePlusPolicy(a_context())
    show_maximum(policy, on("a"), 20.0)
    request = a_request(on("a"), arrival_rate_rows_per_second=50.0, back_pressure=0.9)
    assert policy.plan(request).target.executors == 2
    show_maximum(policy, on("a", "b"), 39.0, at=200.0)
    assert policy.plan(request).target.executors == 3


def test_the_backlog_and_the_change_itself_are_worked_off() -> None:
    """45 records a second and those of a change of 15 s, gone within a minute; 2,000 that wait come on top."""
    calm, late = (
        calibrated(catch_up="60s").plan(a_request(on("a"), arrival_rate_rows_per_second=45.0, backlog_records=backlog))
        for backlog in (0, 2000)
    )
    assert calm.evidence["needed_records_per_second"] == pytest.approx(45.0 + 45.0 * 15.0 / 60.0)
    assert late.evidence["needed_records_per_second"] == pytest.approx(45.0 + (45.0 * 15.0 + 2000.0) / 60.0)


def test_a_backlog_that_will_be_gone_changes_nothing() -> None:
    """It sustains 39 of 20 that arrive: 500 records are gone within half a minute."""
    decision = calibrated().plan(
        a_request(on("a", "b"), arrival_rate_rows_per_second=20.0, backlog_records=500, back_pressure=0.7)
    )
    assert not decision.is_growth


def test_a_wait_shorter_than_the_objective_allows_is_no_reason_to_grow() -> None:
    """21 of 20 a second: in ten minutes records would wait for half a minute, and the objective allows a whole one."""
    slightly = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=21.0, back_pressure=0.9))
    assert not slightly.is_change


def test_an_overload_that_lasts_is_acted_on_before_the_wait_is_full() -> None:
    """23 of 20 a second break the objective in seven minutes for certain, though hardly anything waits yet."""
    lasting = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=23.0, back_pressure=0.9))
    assert lasting.target == on("a", "b")
    assert "in 600 s they would wait for longer than 60 s" in lasting.reason


def rates(
    values: Iterable[float], has: Allocation, until: float = 1000.0, every: float = 10.0
) -> tuple[Observation, ...]:
    """Looks so many seconds apart that saw these arrival rates, the last one just before `until`."""
    found = list(values)
    start = until - every * len(found)
    return tuple(
        seen(has, start + every * number, arrival_rate_rows_per_second=rate) for number, rate in enumerate(found)
    )


def test_a_rise_to_a_new_height_is_followed_before_it_arrives() -> None:
    """19 records a second that rise by six a minute, as they did before, are far above 20 when a change is in force."""
    history = rates(np.maximum(2.0, np.arange(60) - 41.0), on("a"))
    policy = calibrated(catch_up="10m")
    policy.watch(Look(Telemetry("operator", -3000.0), seen(on("a"), -3000.0, arrival_rate_rows_per_second=60.0)))
    decision = policy.plan(a_request(on("a"), arrival_rate_rows_per_second=19.0, history=history))
    assert decision.is_growth
    assert "will arrive before long" in decision.reason


def test_a_wave_is_not_followed() -> None:
    """It rises as steeply every ten minutes, and was as high before: nobody scales for it, or undoes it after."""
    has, policy = on("a"), calibrated()
    for now in np.arange(1800.0, 2400.0, 20.0):
        wave = 18.0 + 1.8 * np.sin(2.0 * np.pi * np.arange(now - 1200.0, now + 1.0, 10.0) / 600.0)
        request = a_request(
            has, at=float(now), arrival_rate_rows_per_second=float(wave[-1]),
            history=rates(wave[:-1].tolist(), has, float(now)),
        )  # fmt: skip
        assert not policy.plan(request).is_change


def test_a_rise_is_followed_to_the_busiest_rate_that_was_ever_seen() -> None:
    """And beyond that half as far, at most by a quarter: a line drawn on for ten minutes promises what never comes."""
    history = rates(np.maximum(5.0, np.arange(60) - 41.0), on("a"))
    request = a_request(on("a"), arrival_rate_rows_per_second=19.0, history=history)
    assert expected_load(request, highest=10.0).rate_in(30.0) == pytest.approx(19.0 + 0.5 * 0.1 * (30.0 + 30.0))
    assert expected_load(request, highest=10.0).rate_in(600.0) == pytest.approx(1.25 * 19.0)
    assert expected_load(request, highest=18.0).rate_in(600.0) == pytest.approx(1.1 * 19.0)
    assert expected_load(request, highest=30.0).rate_in(600.0) == pytest.approx(30.0)
    assert expected_load(request, highest=1000.0).rate_in(60.0) == pytest.approx(19.0 + 0.1 * (30.0 + 60.0))


def test_the_busiest_rate_is_remembered_for_a_day() -> None:
    """Yesterday's rush hour says how far today's may go, that of the day before no more, and that of now not yet."""
    busiest = BusiestRate()
    assert busiest.before(0.0) == 0.0
    for hour, rate in (
        (0, 50.0),
        (6, 40.0),
        (12, 45.0),
        (20, 10.0),
        (21, None),
        (22, float("nan")),
        (22.5, 1e300),
        (22.6, -5.0),
        (23, 90.0),
    ):
        busiest.watch(3600.0 * hour, rate)
    assert busiest.before(3600.0 * 23) == 50.0
    busiest.watch(3600.0 * 25, 5.0)
    assert busiest.before(3600.0 * 22) == 45.0


def test_executors_are_kept_while_the_busiest_time_is_not_over() -> None:
    """A dip of a minute is no reason to change."""
    policy, has = calibrated(), on("a", "b")
    busy, calm = rates([30.0] * 30 + [10.0] * 30, has), rates([10.0] * 60, has)
    assert not policy.plan(a_request(has, history=busy)).is_change
    assert policy.plan(a_request(has, history=calm)).target.executors == 1


def test_near_the_top_what_the_top_needs_is_kept() -> None:
    """17 a second fit one executor; where 21 came earlier that day, they may come again any moment."""
    has, kept, given_up = on("a", "b"), calibrated(), calibrated()
    kept.watch(Look(Telemetry("operator", -3000.0), seen(has, -3000.0, arrival_rate_rows_per_second=21.0)))
    request = a_request(has, history=rates([17.0] * 65, has), arrival_rate_rows_per_second=17.0)
    assert not kept.plan(request).is_change
    assert given_up.plan(request).target.executors == 1


def test_nothing_is_given_up_while_arrivals_rise() -> None:
    """One of two would cover all of the last ten minutes, but perhaps not the next one."""
    has = on("a", "b")
    flat, rising = rates([15.0] * 65, has), rates([*[11.0] * 53, *np.linspace(11.0, 15.0, 12)], has)
    calm, soon = (
        calibrated().plan(a_request(has, history=history, arrival_rate_rows_per_second=15.0))
        for history in (flat, rising)
    )
    assert calm.target.executors == 1
    assert not soon.is_change


def test_what_is_given_up_must_last_until_the_change_has_paid() -> None:
    """Changes take two minutes: one of three executors pays after 3 * 3 * 120 s, and so long it has to be too many."""
    policy, has = calibrated(), on("a", "b", "c")
    asked, still = on("a", "b", "d"), on("a", "b")
    for at, there in ((700.0, still), (820.0, asked)):
        policy.watch(Look(Telemetry("operator", at), seen(has, at, cluster=ClusterState(asked, asked, there))))
    early, late = (
        policy.plan(a_request(has, arrival_rate_rows_per_second=30.0, history=rates([30.0] * looks, has)))
        for looks in (105, 108)
    )
    assert not early.is_change
    assert early.evidence["change_seconds"] == 120.0
    assert late.target.executors == 2


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


def test_it_plans_without_pressure() -> None:
    """Arrivals and backlog are known, and it reads nothing else."""
    request = a_request(on("a"), arrival_rate_rows_per_second=35.0, back_pressure=None)
    assert calibrated().plan(request).target.executors > 1


def test_at_the_least_it_says_so() -> None:
    """It has not computed what fewer would do."""
    decision = calibrated().plan(a_request(on("a"), arrival_rate_rows_per_second=1.0))
    assert decision.reason.endswith("it has as few executors as it may have")


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
    history = rates([21.0, 19.0] * 9, on("a"))
    assert expected_load(a_request(on("a"), history=history, arrival_rate_rows_per_second=20.0)).slope == 0.0


def test_a_strong_fall_is_followed_at_once() -> None:
    """30 records a second that have become 10, and still fall, will not be 30 again in a moment."""
    falling = rates(np.arange(30.0, 10.0, -1.0), on("a", "b"))
    request = a_request(on("a", "b"), history=falling)
    assert expected_load(request).is_falling
    assert calibrated().plan(request).target.executors == 1


def test_a_trend_may_be_seen_over_less_time() -> None:
    """In accelerated time, where a fall is over within half a minute, two minutes hardly show it."""
    falling = rates([*[30.0] * 110, *np.arange(30.0, 10.0, -2.0)], on("a", "b"), every=1.0)
    request = a_request(on("a", "b"), history=falling)
    assert -0.1 < expected_load(request).slope < 0.0
    fast = expected_load(request, trend_seconds=10.0)
    assert fast.is_falling
    assert fast.slope == pytest.approx(-2.0, rel=0.1)
    assert fast.mean < 28.0 < expected_load(request).mean
    assert plus_options(trend="10s").trend_seconds == 10.0
    with pytest.raises(ConfigurationError, match="trend"):
        plus_options(trend=0)


def test_no_time_is_forgotten_between_what_is_of_late_and_what_was_before() -> None:
    """A height between the two would be forgotten, and the next rise to it be taken for a new one."""
    assert GesscalePlusPolicy(a_context(), plus_options(trend="10m")).history_seconds == 15 * 600.0
    assert GesscalePlusPolicy(a_context(), plus_options()).history_seconds == 3600.0


def test_in_a_fall_a_size_is_kept_for_a_while() -> None:
    """The next size will be too large as well: not every minute of a long fall is one for a change."""
    has = on("a", "b", "c")
    request = a_request(has, history=rates(np.arange(35.0, 15.0, -1.0), has), arrival_rate_rows_per_second=15.0)
    last = calibrated().plan(request)
    assert last.target.executors == 1
    early, late = (
        calibrated().plan(replace(request, recent=(replace(last, at=request.at - ago),))) for ago in (60.0, 130.0)
    )
    assert not early.is_change
    assert late.target.executors == 1


def test_a_hole_in_the_map_never_makes_a_node_look_near() -> None:
    """Of two nodes the one that was measured is taken, however the other is called."""
    holes = LatencyMap.of([("b", "c", 0.02), ("b", "d", 0.3)], ("a", "b", "c", "d"))
    policy = GesscalePlusPolicy(a_context(round_trips=holes))
    for number, (has, rate) in enumerate([(on("b"), 20.0), (on("b", "c"), 39.0)]):
        show_maximum(policy, has, rate, at=200.0 * number)
    decision = policy.plan(a_request(on("b"), arrival_rate_rows_per_second=35.0, back_pressure=0.9))
    assert decision.target == on("b", "c")


def test_a_lost_node_is_left_out_of_the_best_set() -> None:
    """Plans go on with the others from what is there."""
    policy, has = calibrated(), on("a")
    waiting = ClusterState(on("a", "b"), on("a", "b"), has)
    for at in (700.0, 1000.0):
        policy.watch(Look(Telemetry("operator", at), seen(has, at, cluster=waiting)))
    decision = policy.plan(a_request(has, arrival_rate_rows_per_second=35.0, back_pressure=0.9, cluster=waiting))
    assert decision.target == on("a", "c")
    assert decision.evidence["lost_nodes"] == "b"


def test_with_one_node_only_there_is_no_room() -> None:
    """The decision says so, and asks for nothing outside the limits."""
    limits = replace(LIMITS, nodes=("a",))
    decision = calibrated().plan(a_request(on("a"), limits, arrival_rate_rows_per_second=60.0, back_pressure=0.9))
    assert not decision.is_change
    assert "no room for more" in decision.reason


@pytest.mark.parametrize("model", ["power-law", "batch-time", "fetch-time"])
def test_samples_that_fall_with_executors_buy_none_in_vain(model: str) -> None:
    """Where three were seen to do less than one, more than one is not expected to help, and nothing breaks."""
    limits = replace(LIMITS, nodes=("a", "b", "c"))  # none is farther away than those that were seen
    policy = GesscalePlusPolicy(a_context(limits=limits), plus_options(model=model))
    for number, (has, rate) in enumerate([(on("a"), 40.0), (on("a", "b"), 30.0), (on("a", "b", "c"), 20.0)]):
        show_maximum(policy, has, rate, at=200.0 * number)
    for has in (on("a"), on("a", "b")):
        decision = policy.plan(a_request(has, limits, arrival_rate_rows_per_second=60.0, back_pressure=0.9))
        assert not decision.is_change
        assert "more would not do more" in decision.reason


def test_nodes_farther_apart_than_any_before_are_tried() -> None:
    """What a law says of delays that it has not seen is a guess: an overload is worth one trial, and no second one."""
    policy = GesscalePlusPolicy(a_context())
    for number, (has, rate) in enumerate([(on("a"), 40.0), (on("a", "b"), 30.0), (on("a", "b", "c"), 20.0)]):
        show_maximum(policy, has, rate, at=200.0 * number)
    request = a_request(on("a", "b", "c"), arrival_rate_rows_per_second=60.0, back_pressure=0.9)
    assert policy.plan(request).target == on("a", "b", "c", "d")
    show_maximum(policy, on("a", "b", "c", "d"), 15.0, at=600.0)
    assert not policy.plan(request).is_change


def test_no_executor_is_bought_for_a_batch_that_waits_for_its_trigger() -> None:
    """Full batches of 100 that take 5, 2.6 and 1.8 s start every 10 s: 10 records a second, whatever the executors."""
    limits = Limits(1, 8)
    policy = GesscalePlusPolicy(a_context(limits=limits, round_trips=None, trigger=10.0))
    for number, rate in enumerate((20.0, 39.0, 56.0)):
        show_maximum(policy, Allocation(number + 1), rate, at=200.0 * number)
    decision = policy.plan(a_request(Allocation(1), limits, arrival_rate_rows_per_second=15.0, backlog_records=900))
    assert decision.evidence["sustained_records_per_second"] == 10.0
    assert not decision.is_change


def test_a_sample_keeps_the_round_trip_that_it_was_taken_with() -> None:
    """Where a way becomes longer, samples of before it say what the nodes did when it was short."""
    seconds = [0.01]
    fresh = FreshLatencyMap(lambda: LatencyMap.of([("a", "b", seconds[0])]), keep_seconds=0.0)
    policy = GesscalePlusPolicy(a_context(round_trips=fresh, limits=replace(LIMITS, nodes=("a", "b"))))
    show_maximum(policy, on("a"), 20.0)
    show_maximum(policy, on("a", "b"), 40.0, at=200.0)
    seconds[0] = 0.3
    show_maximum(policy, on("a", "b"), 25.0, at=400.0)  # 1.5 s more for a batch of 100: five round trips of 0.3 s
    evidence = policy.plan(a_request(on("a", "b"))).evidence
    assert evidence["round_trips"] == pytest.approx(5.0, rel=0.1)
