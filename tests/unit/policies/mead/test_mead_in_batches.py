# SPDX-License-Identifier: Apache-2.0
"""MEAD on a running pipeline: what it learns, when it plans, and what it does until it can."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from tests.unit.policies.contexts import a_context, a_fork
from tests.unit.policies.mead.toy_query import LIMITS, PATIENCE, TOP, Query, RisingArrivals, mead, step

from penstock.errors import ConfigurationError
from penstock.policies import make_policy
from penstock.policies.mead.operator_knowledge import BatchKnowledge
from penstock.policies.mead.options import mead_options
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import WatchingPolicy
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    ExecutorRoom,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    decode,
    encode,
)


def test_it_learns_and_goes_down_level_by_level_to_the_cheapest_that_keeps_the_bound() -> None:
    """From the top, one level for each plan, until the next one down would break the bound; it says why."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(400) / 7.0))
    policy = mead()
    assert isinstance(policy, WatchingPolicy)
    first = step(policy, query)
    assert first.reason.startswith("holding: 0 inter-arrival times so far")
    assert first.target == TOP
    changes = []
    while query.at < 300.0:
        decision = step(policy, query)
        changes += [decision] if decision.is_change else []
    policy.close()
    # 150 records a second of 2 ms on 0.4 of a core saturate it at the crests (0.75 to 1.05).
    assert [str(d.target) for d in changes] == [
        "2 executors x 70% CPU", "1 executor x 100% CPU", "1 executor x 70% CPU"
    ]  # fmt: skip
    assert all(two.at - one.at >= 20.0 for one, two in pairwise(changes))
    last = changes[-1]
    assert last.evidence["fixed_seconds"] == pytest.approx(0.2, rel=0.05)
    assert last.evidence["per_record_seconds"] == pytest.approx(0.002, rel=0.05)
    assert "keeps every bound" in last.reason
    assert any("40% CPU" in str(rejected.allocation) for rejected in last.rejected)


def test_a_plan_that_a_guard_holds_back_is_not_gone_on_from() -> None:
    """Plans start from what the operator is meant to have: held back for a time, it still loses one level alone."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(400) / 7.0))
    policy = mead()
    while query.at < 200.0:  # several plans, none of them carried out
        decision = step(policy, query)
        query.has = TOP
    policy.close()
    assert decision.target == Allocation(2, 0.7)


def test_a_backlog_brings_the_highest_level_at_once_and_afterwards_the_plan_again() -> None:
    """Between plans, records that would wait too long raise the operator; when they are done it is as planned."""
    rates = 150.0 + 60.0 * np.sin(np.arange(900) / 7.0)
    rates[212:216] = 1500.0
    query = Query(rates)
    policy = mead(bound=3.0, margins=False)  # with a margin the plan after the burst keeps the top
    raised, back = None, None
    while query.at < 260.0:
        decision = step(policy, query)
        if "records wait" in decision.reason and raised is None:
            raised = decision
        if raised is not None and decision.reason.startswith("as planned: "):
            back = decision
            break
    policy.close()
    assert raised is not None
    assert 212.0 < raised.at < 218.0
    assert raised.target == TOP
    assert back is not None
    assert back.target.capacity < TOP.capacity


def test_batches_that_are_all_alike_are_probed_with_a_step_that_cannot_harm() -> None:
    """Even batches do not show f apart from c: where the CPU is idle a level is taken, and then both are known."""
    query = Query(np.full(200, 100.0), utilisation=0.1)
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    policy = mead()
    decisions = []
    while query.at < 60.0:
        decisions.append(step(policy, query))
    policy.close()
    first, *_ = (d for d in decisions if d.is_change)
    assert "which cannot break the bound" in first.reason
    planned = next(d for d in reversed(decisions) if d.is_change and "would do" in d.reason)
    # Records and the fixed part both stretch with 1 / s, so part of the split is what is usual of a Spark batch.
    assert planned.evidence["per_record_seconds"] == pytest.approx(0.002, rel=0.15)
    assert planned.evidence["fixed_seconds"] == pytest.approx(0.2, rel=0.05)
    probes = [d.at for d in decisions if "which cannot break" in d.reason]
    assert all(two - one > 5 * 0.2 for one, two in pairwise(probes))  # five batches of a fifth of a second and more


def test_a_busy_operator_is_not_probed_and_a_late_one_gets_everything() -> None:
    """Without a plan nothing is taken from a busy operator, and one whose records are late goes to the top."""
    query = Query(np.full(200, 100.0), utilisation=0.95, has=Allocation(1, 1.0))
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    policy = mead()
    while query.at < 20.0:
        decision = step(policy, query)
        assert not decision.is_change
        assert decision.reason.startswith("holding")
    query.latency = 2.0
    late = step(policy, query)
    policy.close()
    assert late.target == TOP
    assert "beyond 50% of its bound" in late.reason


def test_a_plan_to_scale_down_is_dropped_when_more_arrives_by_now() -> None:
    """A plan is some seconds old: what it would take away stays while arrivals are above what it was made for."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0), arriving=900.0)
    policy = mead()
    decisions = []
    while query.at < 100.0:
        decisions.append(step(policy, query))
    policy.close()
    assert not any(d.is_change for d in decisions)
    assert any("and 900 come" in d.reason for d in decisions)


def test_nothing_is_taken_away_while_arrivals_rise() -> None:
    """A rate a quarter above the least of the last 20 s holds what there is; when it has settled the plan is done."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0), arriving=100.0)
    policy = mead()
    reasons = []
    while query.at < 60.0:
        query.arriving = 50.0 * 1.02**query.at  # by half within 20 s
        decision = step(policy, query)
        if query.at > 15.0:
            assert not decision.is_change
            reasons.append(decision.reason)
    assert any("no less now: arrivals rise" in reason for reason in reasons)
    query.arriving = 120.0
    changes = []
    while query.at < 100.0:
        decision = step(policy, query)
        changes += [decision] if decision.is_change else []
    policy.close()
    assert changes
    assert changes[0].target.capacity < TOP.capacity


def test_a_rise_is_planned_for_as_it_will_be() -> None:
    """While arrivals grow, the plan rests on more of them than came: on the line through the last 20 s."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0), arriving=150.0)
    policy = mead()
    planned = None
    while query.at < 75.0:
        query.arriving = 150.0 if query.at < 50.0 else 150.0 + 4.0 * (query.at - 50.0)
        decision = step(policy, query)
        if query.at > 60.0 and "binding_seconds" in decision.evidence:
            planned = decision
    policy.close()
    assert planned is not None
    rate, age = planned.evidence["arrivals_per_second"], planned.evidence["plan_age_seconds"]
    assert isinstance(rate, float)
    assert isinstance(age, float)
    risen = 4.0 * (planned.at - age - 50.0)
    # Half of the monitor's 15 s, half of the 30 s between plans, and 5 s ahead, at the mean slope of the last 20 s.
    assert rate == pytest.approx(150.0 + risen + risen / 20.0 * 27.5, rel=0.1)


def test_batches_during_a_change_are_not_learnt_from() -> None:
    """A batch that began before the allocation was seen says nothing about it."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(100) / 7.0))
    policy = mead()
    for _ in range(30):
        policy.watch(query.look())
    known = policy._known["log"]
    assert isinstance(known, BatchKnowledge)
    assert known._learnt is not None
    before = known._learnt.batches
    look = query.look()
    late = Observation("log", query.at, 15.0, Quality.GOOD, ClusterState(None, None, Allocation(1, 0.4)))
    policy.watch(replace(look, observation=late))
    policy.close()
    assert known._learnt is not None
    assert known._learnt.batches == pytest.approx(before)


def test_a_failed_plan_is_reported_and_the_loop_goes_on() -> None:
    """What the queues cannot do is a note for the user, not the end of the control."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(100) / 7.0))
    policy = mead(queues="gi/g/1", statistic="mean")
    notes: tuple[str, ...] = ()
    while query.at < 40.0 and not notes:
        look = query.look()
        notes = policy.watch(look)
        policy._background.wait(PATIENCE)
    decision = policy.plan(PlanRequest("log", query.at, look.observation, query.has, LIMITS, Objective("p95", 3.0)))
    policy.close()
    assert "a plan was failed" in notes[0]
    assert "gi/g/1 has no form for micro-batches, in which log works" in notes[0]
    assert not decision.is_change


def test_without_a_bound_it_is_refused() -> None:
    """To keep up is no latency bound, and neither is a path of which nothing is said."""
    with pytest.raises(ConfigurationError, match="plans for a latency bound"):
        MeadPolicy(a_context(Objective()), mead_options())
    with pytest.raises(ConfigurationError, match="plans for a latency bound"):
        MeadPolicy(a_fork({("parser", "counter"): Objective("p95", 8.0)}), mead_options())


def test_every_path_needs_a_bound_and_may_have_its_own() -> None:
    """A path without one is named; with one for each, an operator is held to the tightest through it."""
    slow, quick = ("parser", "counter"), ("parser", "matcher")
    with pytest.raises(ConfigurationError, match="the path parser -> matcher has none"):
        make_policy("mead", a_fork({slow: Objective("p95", 8.0)}))
    objectives: dict[tuple[str, ...], Objective] = {slow: Objective("p95", 8.0), quick: Objective("mean", 3.0)}
    policy = MeadPolicy(a_fork(objectives, LIMITS), mead_options())
    late = Observation(
        "matcher", 9.0, 15.0, Quality.GOOD, ClusterState(None, None, Allocation(1, 1.0)),
        latency=LatencySummary(9, 2.0, 2.0, 2.0, 2.0, 2.0),
    )  # fmt: skip
    matcher = PlanRequest("matcher", 9.0, late, Allocation(1, 1.0), LIMITS, objectives[quick])
    counter = replace(
        matcher, operator="counter", observation=replace(late, operator="counter"), objective=objectives[slow]
    )
    assert policy.plan(matcher).target == TOP  # 2 s is beyond half of its 3 s
    assert policy.plan(counter).target == Allocation(1, 1.0)  # and not beyond half of 8 s
    policy.close()


def test_asked_the_same_again_it_says_the_same_again() -> None:
    """A request has one answer, the very same decision, whatever was decided for it before."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(100) / 7.0))
    policy = mead(worker="here")
    while query.at < 40.0:
        look = query.look()
        policy.watch(look)
        request = PlanRequest("log", query.at, look.observation, query.has, LIMITS, Objective("p95", 3.0))
        first, again = policy.plan(request), policy.plan(request)
        assert first is again
        query.has = first.target
    assert query.has != TOP  # a plan was handed on meanwhile


def test_a_decision_carries_its_workload_and_its_prediction() -> None:
    """What was expected to arrive and what was predicted stand in the record of a planned decision."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0))
    policy = mead(worker="here")
    planned = None
    while planned is None:
        decision = step(policy, query)
        planned = decision if decision.prediction is not None else None
    assert planned.workload is not None
    assert planned.workload.arrivals_per_second == pytest.approx(150.0, rel=0.35)
    assert planned.workload.is_exact
    assert len(planned.workload.windows) == 1
    assert planned.prediction is not None
    assert planned.prediction.path == ("log",)
    assert planned.prediction.is_met
    assert decode(Decision, encode(planned)) == planned


def test_late_records_at_the_top_are_held_with_that_reason() -> None:
    """Where an operator has all it may have, a hold says so, and what a plan waits for."""
    query = Query(np.full(200, 100.0), utilisation=0.95, has=TOP)
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    policy = mead()
    while query.at < 20.0:
        step(policy, query)
    query.latency = 2.0
    late = step(policy, query)
    policy.close()
    assert not late.is_change
    assert "and no plan yet: the demand of log is not known yet: " in late.reason
    assert late.reason.endswith("; it is at the top of its limits already")


def test_an_operator_that_was_raised_before_any_plan_reached_it_is_still_planned_for() -> None:
    """The first plan comes too late and is dropped, then records wait: plans go on from what the operator has."""
    rates = 150.0 + 60.0 * np.sin(np.arange(200) / 7.0)
    rates[22:25] = 1500.0
    query = Query(rates, arriving=900.0, has=Allocation(1, 1.0))
    policy = mead(worker="here")
    decisions = []
    while query.at < 75.0:
        if query.at > 40.0:
            query.arriving = None
        decisions.append(step(policy, query))
    policy.close()
    raised = next(d for d in decisions if "records wait" in d.reason)
    planned = [d for d in decisions if d.prediction is not None and d.target != d.current]
    assert not any(d.at < raised.at for d in planned)
    assert any(d.at > raised.at and d.prediction is not None for d in decisions)


def test_executors_that_the_cluster_does_not_give_are_not_planned_for() -> None:
    """A plan chooses among what can be had by then: CPU of the executors there are, in place of more of them."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0), has=Allocation(1, 1.0))
    policy = mead(worker="here")
    known = policy._known["log"]
    while known.demand is None:
        policy.watch(query.look())
    assert policy._limits(known).max_executors == 2
    look = query.look()
    policy.watch(replace(look, telemetry=replace(look.telemetry, room=ExecutorRoom(1, "the queue is full"))))
    assert policy._limits(known) == Limits(1, 1, LIMITS.cpu_shares)
    policy.watch(replace(look, telemetry=replace(look.telemetry, why_no_shares="no agent holds executor 2")))
    assert policy._limits(known) == Limits(1, 2, (1.0,))
    policy.close()


def test_it_stays_ready_for_the_load_of_the_last_minutes_though_its_window_has_forgotten_it() -> None:
    """Spells of 60 s at 400 a second, lulls of 60 s at 40: a window of 1,000 records is over within a lull's 25 s."""
    rates = np.where(np.arange(400) % 120 < 60, 400.0, 40.0)

    def in_lulls(look_back: str | None) -> set[str]:
        query, has = Query(rates, fixed=1.0), set()
        policy = mead(bound=8.0, window=1000, rescue=False, every_seconds=10.0, look_back=look_back)
        while query.at < 350.0:
            step(policy, query)
            if query.at > 200.0 and query.at % 120 > 112:
                has.add(str(query.has))
        policy.close()
        return has

    # 400 records a second of 2 ms are 0.8 of an executor: with less than one a backlog grows through the whole spell.
    assert in_lulls(None) <= {"1 executor x 40% CPU", "1 executor x 70% CPU"}
    assert in_lulls("2m") <= {"1 executor x 100% CPU", "2 executors x 70% CPU", "2 executors x 100% CPU"}
