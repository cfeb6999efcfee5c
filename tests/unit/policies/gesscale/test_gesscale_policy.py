# SPDX-License-Identifier: Apache-2.0
"""Gesscale as published: Algorithms 1 to 4."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.policies.gesscale.gesscale_worlds import CAP, LIMITS, a_context, a_request, on, seen, show_maximum

from penstock.errors import ConfigurationError
from penstock.latency_map import LatencyMap
from penstock.policies import make_policy
from penstock.policies.gesscale.options import gesscale_options, plus_options
from penstock.policies.gesscale.policy import GesscalePolicy
from penstock.ports import Look
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    Telemetry,
)


def calibrated(**options: object) -> GesscalePolicy:
    """A policy that saw 1, 2 and 3 executors at their maximum: 20, 39 and 56 records a second."""
    policy = GesscalePolicy(a_context(), gesscale_options(**options))  # type: ignore[arg-type]
    for number, (has, rate) in enumerate([(on("a"), 20.0), (on("a", "b"), 39.0), (on("a", "b", "c"), 56.0)]):
        show_maximum(policy, has, rate, at=200.0 * number)
    return policy


def test_an_operator_under_pressure_gets_one_executor_on_the_nearest_node() -> None:
    """Algorithms 1 and 3, and the choice of Section IV-E, before anything is calibrated."""
    decision = GesscalePolicy(a_context()).plan(a_request(on("a"), back_pressure=0.8, busy_fraction=1.0))
    assert decision.target == on("a", "b")
    assert "0.80 is above 0.5" in decision.reason


def test_the_root_of_an_overload_is_the_operator_whose_outputs_are_not_under_pressure() -> None:
    """Algorithm 1: of two in a row that are both under pressure only the second is scaled."""
    policy = GesscalePolicy(a_context("first", "second"))
    for name in ("first", "second"):
        policy.watch(Look(Telemetry(name, 1000.0), seen(on("a"), operator=name, back_pressure=0.9)))
    first = policy.plan(a_request(on("a"), operator="first", back_pressure=0.9))
    second = policy.plan(a_request(on("a"), operator="second", back_pressure=0.9))
    assert not first.is_change
    assert "second behind it" in first.reason
    assert second.target.executors == 2


@pytest.mark.parametrize("spoilt", [{"at": 880.0}, {"quality": Quality.STALE}, {"quality": Quality.STOPPED}])
def test_an_operator_that_is_not_heard_of_keeps_none_before_it_from_growing(spoilt: dict[str, Any]) -> None:
    """It was under pressure two minutes ago, and died."""
    policy = GesscalePolicy(a_context("first", "second"))
    dead = replace(seen(on("a"), operator="second", back_pressure=0.9), **spoilt)
    policy.watch(Look(Telemetry("second", dead.at), dead))
    assert policy.plan(a_request(on("a"), operator="first", back_pressure=0.9)).target.executors == 2


def test_an_operator_with_as_few_executors_as_it_may_have_is_not_judged() -> None:
    """The decision does not say that fewer would not do, which nobody has computed."""
    decision = calibrated().plan(a_request(on("a"), processed_rows_per_second=1.0, arrival_rate_rows_per_second=1.0))
    assert not decision.is_change
    assert decision.reason.endswith("it has as few executors as it may have")


def test_an_operator_under_pressure_gives_nothing_up_though_another_is_the_root() -> None:
    """10 of 56 records a second would leave two of three executors free, but what waits at its input says no."""
    policy = GesscalePolicy(a_context("first", "second"))
    for number, (has, rate) in enumerate([(on("a"), 20.0), (on("a", "b"), 39.0), (on("a", "b", "c"), 56.0)]):
        show_maximum(policy, has, rate, at=200.0 * number, operator="first")
    policy.watch(Look(Telemetry("second", 1000.0), seen(on("a"), operator="second", back_pressure=0.9)))
    three = on("a", "b", "c")
    assert policy.plan(a_request(three, operator="first")).target.executors == 1
    assert not policy.plan(a_request(three, operator="first", back_pressure=0.9)).is_change


def test_as_many_executors_go_as_the_model_allows() -> None:
    """Algorithms 2 and 4: 10 records a second are done by one of three; the farthest goes first."""
    decision = calibrated().plan(a_request(on("a", "b", "c")))
    assert decision.target.executors == 1
    assert decision.evidence["calibration"]


def test_once_enough_is_free_as_many_go_as_the_rest_sustains() -> None:
    """The threshold is of the size that is left (Algorithm 2): 27 of 56 are done, and two that do 39 need no slack."""
    decision = calibrated(slack=50.0).plan(
        a_request(on("a", "b", "c"), arrival_rate_rows_per_second=27.0, processed_rows_per_second=27.0)
    )
    assert decision.target == on("a", "b")


def test_while_too_little_is_free_none_goes() -> None:
    """30 of 56 leave less than half; two would sustain them, but the next wave would bring the third back."""
    decision = calibrated().plan(
        a_request(on("a", "b", "c"), arrival_rate_rows_per_second=30.0, processed_rows_per_second=30.0)
    )
    assert not decision.is_change
    assert "% of what it sustains" in decision.reason


def test_a_hole_in_the_map_never_makes_a_node_look_near() -> None:
    """Of a node that nobody measured and one that somebody did, the latter is added, however they are called."""
    holes = LatencyMap.of([("b", "c", 0.02), ("b", "d", 0.3)], ("a", "b", "c", "d"))
    decision = GesscalePolicy(a_context(round_trips=holes)).plan(a_request(on("b"), back_pressure=0.9))
    assert decision.target == on("b", "c")


def test_none_goes_where_the_rest_would_not_sustain_what_arrives() -> None:
    """Algorithm 4 as its text says: as printed it would remove just here, where MST <= IR."""
    decision = calibrated(slack=10.0).plan(
        a_request(on("a", "b", "c"), arrival_rate_rows_per_second=45.0, processed_rows_per_second=45.0)
    )
    assert not decision.is_change
    assert decision.rejected[0].allocation.executors == 2


def test_what_arrives_counts_though_less_is_done() -> None:
    """An operator that lags behind is not made smaller because it does little."""
    decision = calibrated().plan(a_request(on("a", "b"), arrival_rate_rows_per_second=30.0))
    assert not decision.is_change


def test_nothing_is_given_up_before_the_model_is_calibrated() -> None:
    """What fewer sustain is not known while the operator was never seen at its maximum."""
    decision = GesscalePolicy(a_context()).plan(a_request(on("a", "b")))
    assert not decision.is_change
    assert "never seen at its maximum" in decision.reason


def test_calibration_needs_full_batches() -> None:
    """Batches that took all there was say nothing about a maximum."""
    policy = calibrated()
    before = policy.plan(a_request(on("a"))).evidence["samples"]
    policy.watch(Look(Telemetry("operator", 5000.0), seen(on("a", "b"), 5000.0)))
    assert policy.plan(a_request(on("a"))).evidence["samples"] == before


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -5.0, 0.0, 1e300])
def test_a_batch_of_an_absurd_time_is_no_sample_and_spoils_none(seconds: float) -> None:
    """Batches that come after it are taken: thirteen of 5 s make three samples."""
    policy = GesscalePolicy(a_context())
    policy.watch(Look(Telemetry("operator", 0.0), seen(on("a"), 0.0)))
    absurd = tuple(BatchProgress("operator", "q", "r", i, 1.0, 1.0 + seconds, CAP, {}, ()) for i in range(3))
    policy.watch(Look(Telemetry("operator", 10.0, absurd), seen(on("a"), 10.0, back_pressure=0.9)))
    show_maximum(policy, on("a"), 20.0, at=100.0)
    evidence = policy.plan(a_request(on("a"))).evidence
    assert evidence["samples"] == 3
    assert evidence["alpha"] == pytest.approx(20.0, rel=0.01)


@pytest.mark.parametrize(("every", "samples"), [("10m", 3), ("60s", 3), ("15s", 12)])
def test_a_shorter_period_takes_its_samples_over_less_time(every: str, samples: int) -> None:
    """Twelve batches of 5 s: three of the default 20 s, and one each for who decides every 15 s, not every minute."""
    policy = GesscalePolicy(a_context(), gesscale_options(every_seconds=every))
    show_maximum(policy, on("a"), 20.0)
    assert policy._known["operator"].samples.taken == samples


@pytest.mark.parametrize(("rows", "samples"), [(97, 2), (96, 0)])
def test_a_batch_that_lacks_less_than_a_record_of_each_partition_is_full(rows: int, samples: int) -> None:
    """Kafka's source shares a cap out over partitions, and rounds down: four of them may lack three records of 100."""
    policy = GesscalePolicy(a_context(tasks=4))
    show_maximum(policy, on("a"), 20.0, rows=rows)
    assert policy.plan(a_request(on("a"))).evidence["samples"] == samples


@pytest.mark.parametrize("pressure", [0.05, 0.9])
def test_with_one_size_only_nothing_changes(pressure: float) -> None:
    """n_min = n_max: whatever the load."""
    limits = replace(LIMITS, min_executors=2, max_executors=2)
    decision = calibrated().plan(a_request(on("a", "b"), limits, back_pressure=pressure))
    assert not decision.is_change


def test_with_one_node_only_there_is_no_room() -> None:
    """The decision says so."""
    decision = GesscalePolicy(a_context()).plan(a_request(on("a"), replace(LIMITS, nodes=("a",)), back_pressure=0.9))
    assert not decision.is_change
    assert "no room" in decision.reason


def test_executors_leave_a_node_that_is_gone() -> None:
    """With the next change; nothing outside the limits is asked for."""
    limits = replace(LIMITS, nodes=("a", "c", "d"))
    decision = GesscalePolicy(a_context()).plan(a_request(on("a", "b"), limits, back_pressure=0.9))
    assert limits.allows(decision.target)
    assert decision.target.executors == 3


def test_a_node_that_does_not_give_its_executor_is_left_out() -> None:
    """After five minutes without the executor the node counts as lost, and the user hears of it once."""
    policy, has = GesscalePolicy(a_context()), on("a")
    waiting = ClusterState(on("a", "b"), on("a", "b"), has)
    notes = [
        policy.watch(Look(Telemetry("operator", at), seen(has, at, cluster=waiting)))
        for at in (0.0, 200.0, 400.0, 500.0)
    ]
    assert [len(note) for note in notes] == [0, 0, 1, 0]
    decision = policy.plan(a_request(has, back_pressure=0.9, cluster=waiting))
    assert decision.target == on("a", "c")


def test_a_change_that_never_comes_about_is_given_up() -> None:
    """After five minutes plans go on from what is there, also where the cluster chooses the nodes."""
    limits = Limits(1, 4)
    policy = GesscalePolicy(a_context(limits=limits, round_trips=None))
    waiting = ClusterState(Allocation(2), Allocation(2), Allocation(1))
    for at in (0.0, 299.0):
        policy.watch(Look(Telemetry("operator", at), seen(Allocation(1), at, cluster=waiting)))
    early, late = (
        policy.plan(a_request(Allocation(1), limits, at=at, back_pressure=0.9, cluster=waiting))
        for at in (299.0, 300.0)
    )
    assert early.reason == "holding: the last change is not over"
    assert late.target == Allocation(2)


def test_after_one_that_was_given_up_the_next_change_is_waited_for() -> None:
    """Each has five minutes of its own, also where nothing of the one before ever came."""
    limits, one = Limits(1, 4), Allocation(1)
    policy = GesscalePolicy(a_context(limits=limits, round_trips=None))
    first, second = (ClusterState(Allocation(n), Allocation(n), one) for n in (2, 3))
    for at in (0.0, 300.0):
        policy.watch(Look(Telemetry("operator", at), seen(one, at, cluster=first)))
    policy.watch(Look(Telemetry("operator", 310.0), seen(one, 310.0, cluster=second)))
    assert policy.plan(a_request(one, limits, at=310.0, back_pressure=0.9, cluster=second)).reason == (
        "holding: the last change is not over"
    )
    policy.watch(Look(Telemetry("operator", 610.0), seen(one, 610.0, cluster=second)))
    assert policy.plan(a_request(one, limits, at=610.0, back_pressure=0.9, cluster=second)).is_change


def under_pressure(
    policy: GesscalePolicy, holds: dict[str, int], minutes: int, gone: str = "", gone_at: int = 0
) -> tuple[Allocation, list[str]]:
    """Let an operator be under pressure on nodes that give so many executors each; gives what it has in the end.

    The node `gone` disappears in the minute `gone_at`.
    """
    limits = Limits(1, 6, nodes=("a", "b", "c"))
    asked = has = Allocation(1, nodes=(("a", 1),))
    notes, history = list[str](), list[Observation]()
    for minute in range(minutes):
        at = 1000.0 + 60.0 * minute
        if gone and minute == gone_at:
            holds = holds | {gone: 0}
        given = tuple((node, min(count, holds[node])) for node, count in asked.nodes if holds[node] > 0)
        has = Allocation(sum(count for _, count in given), nodes=given)
        cluster = ClusterState(asked, asked, has)
        look = seen(has, at, cluster=cluster, back_pressure=0.9)
        notes += policy.watch(Look(Telemetry("operator", at), look))
        request = PlanRequest("operator", at, look, has, limits, Objective(), history=tuple(history))
        history.append(look)
        decision = policy.plan(request)
        asked = decision.target if decision.is_change else asked
    return has, notes


def test_a_node_that_gives_no_more_executors_is_full_and_others_are_used() -> None:
    """Without a number of executors per node the nearest is asked for all, until it does not give one more."""
    policy = GesscalePolicy(a_context(limits=Limits(1, 6, nodes=("a", "b", "c"))))
    has, notes = under_pressure(policy, {"a": 2, "b": 1, "c": 4}, 30)
    assert has == Allocation(6, nodes=(("a", 2), ("b", 1), ("c", 3)))
    assert [note.split(": ")[1].split(" of")[0] for note in notes] == [
        "node a gives no more than 2", "node b gives no more than 1"
    ]  # fmt: skip


def test_a_node_that_disappears_is_left_out_and_others_are_used() -> None:
    """It held two; the operator goes on with as many on other nodes."""
    policy = GesscalePolicy(a_context(limits=Limits(1, 6, nodes=("a", "b", "c"))))
    has, notes = under_pressure(policy, {"a": 2, "b": 2, "c": 3}, 40, gone="a", gone_at=12)
    assert has == Allocation(5, nodes=(("b", 2), ("c", 3)))
    assert "operator: node a does not give the executor that was asked for; other nodes are used" in notes


def test_it_waits_for_the_last_change() -> None:
    """A change under way makes every measurement one of something else."""
    cluster = ClusterState(on("a", "b"), on("a", "b"), on("a"))
    decision = GesscalePolicy(a_context()).plan(a_request(on("a", "b"), back_pressure=0.9, cluster=cluster))
    assert decision.reason == "holding: the last change is not over"


@pytest.mark.parametrize(
    "fields", [{"quality": Quality.STALE}, {"back_pressure": None}, {"back_pressure": float("nan")}]
)
def test_it_holds_without_data(fields: dict[str, object]) -> None:
    """Whatever else is known."""
    request = a_request(on("a"), back_pressure=0.9)
    decision = GesscalePolicy(a_context()).plan(replace(request, observation=replace(request.observation, **fields)))  # type: ignore[arg-type]
    assert not decision.is_change


@pytest.mark.parametrize("throughput", [float("nan"), float("inf"), -5.0, None])
def test_nothing_is_given_up_by_a_throughput_that_is_no_number(throughput: float | None) -> None:
    """No size is too small for it."""
    decision = calibrated().plan(a_request(on("a", "b", "c"), processed_rows_per_second=throughput))
    assert not decision.is_change


def test_a_cluster_that_chooses_nodes_itself_is_scaled_too() -> None:
    """Without nodes and without a map."""
    policy = GesscalePolicy(a_context(limits=Limits(1, 3), round_trips=None))
    assert policy.plan(a_request(Allocation(1), Limits(1, 3), back_pressure=0.9)).target == Allocation(2)


def test_wrong_options_are_reported_at_once() -> None:
    """Each with its field and what it may be."""
    with pytest.raises(ConfigurationError) as fault:
        gesscale_options(every_seconds="0s", high_pressure=2.0, slack=-1.0, model="magic", nodes="luck", seed=-1)
    assert len(fault.value.faults) == 6
    with pytest.raises(ConfigurationError) as fault:
        plus_options(confidence=2.0, catch_up="0s", calm="0s", ahead="-1s")
    assert len(fault.value.faults) == 4


def test_it_is_built_by_its_name() -> None:
    """Both are in the registry, with their options."""
    assert make_policy("gesscale", a_context(), {"every_seconds": "30s"}).every_seconds == 30.0
    assert make_policy("gesscale+", a_context(), {"nodes": "nearest"}).name == "gesscale+"
