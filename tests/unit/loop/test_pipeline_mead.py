# SPDX-License-Identifier: Apache-2.0
"""MEAD on a running pipeline: what it learns, when it plans, and what it does until it can."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.loop.known_operator import InBatches, Place
from penstock.loop.mead import PipelineMead
from penstock.plan.mead_options import mead_options
from penstock.ports import FloatArray, WatchingPolicy
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    SourceProgress,
    Telemetry,
)

LIMITS = Limits(1, 2, (0.4, 0.7, 1.0))
TOP = Allocation(2, 1.0)
OPTIONS = {"window": 10_000, "sub_windows": 0, "best": 1, "max_states": 2, "every_seconds": 30.0, "rescue_every": 1.0}
PATIENCE = 60.0


class RisingArrivals:
    """Arrival times by index, written into the offsets."""

    def __init__(self, times: FloatArray) -> None:
        self.times = times

    def of(self, source: SourceProgress) -> FloatArray | None:
        """The records from one index to the other."""
        return self.times[int(source.start_offset or 0) : int(source.end_offset or 0)]

    def arrived_by(self, at: float) -> int | None:
        """How many by then."""
        return int(np.searchsorted(self.times, at, side="right"))

    def done_index(self, source: SourceProgress) -> int | None:
        """The index reached."""
        return int(source.end_offset or 0)


@dataclass
class Query:
    """A query whose batches take f + c n / capacity, looked at after each of them."""

    rates: FloatArray
    """Records per second, by the second."""
    fixed: float = 0.2
    per_record: float = 0.002
    has: Allocation = TOP
    at: float = 0.0
    batches: int = 0
    utilisation: float | None = 0.3
    latency: float | None = None
    arriving: float | None = None
    arrivals: RisingArrivals = field(init=False)
    done: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(3)
        second = [i + np.sort(rng.random(rng.poisson(rate))) for i, rate in enumerate(self.rates)]
        self.arrivals = RisingArrivals(np.concatenate(second))

    def look(self) -> tuple[Telemetry, Observation]:
        """Run one batch of what has arrived, and look."""
        start = max(self.at, float(self.arrivals.times[self.done]))
        until = int(np.searchsorted(self.arrivals.times, start, side="right"))
        seconds = self.fixed + self.per_record * (until - self.done) / self.has.capacity
        source = SourceProgress("replay", str(self.done), str(until), None, until - self.done)
        self.batches += 1
        self.at = start + seconds
        batch = BatchProgress("log", "q", "r", self.batches, start, self.at, until - self.done, {}, (source,))
        self.done = until
        backlog = (self.arrivals.arrived_by(self.at) or 0) - until
        late = self.latency
        latency = None if late is None else LatencySummary(9, late, late, late, late, late)
        seen = Observation(
            "log", self.at, 15.0, Quality.GOOD, ClusterState(None, None, self.has),
            backlog_records=backlog, utilisation=self.utilisation, batch_seconds=seconds, latency=latency,
            arrival_rate_rows_per_second=self.arriving,
        )  # fmt: skip
        return Telemetry("log", self.at, (batch,)), seen


def mead(query: Query, bound: float = 3.0, **changes: object) -> PipelineMead:
    """The policy of one operator, planning in a thread."""
    options = mead_options(**{**OPTIONS, **changes})  # type: ignore[arg-type]
    return PipelineMead([Place("log", LIMITS)], Objective("p95", bound), options, worker="thread")


def step(policy: PipelineMead, query: Query) -> Decision:
    """One look, its analysis waited for, and what is decided; it is carried out at once."""
    telemetry, seen = query.look()
    policy.watch("log", telemetry, seen, query.arrivals)
    assert policy._beside.wait(PATIENCE)
    policy.watch("log", Telemetry("log", query.at), seen, query.arrivals)
    decision = policy.plan(PlanRequest("log", query.at, seen, query.has, LIMITS, Objective("p95", 3.0)))
    query.has = decision.target
    return decision


def test_it_learns_and_goes_down_level_by_level_to_the_cheapest_that_keeps_the_bound() -> None:
    """From the top, one level for each plan, until the next one down would break the bound; it says why."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(400) / 7.0))
    policy = mead(query)
    assert isinstance(policy.policy("log"), WatchingPolicy)
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
    policy = mead(query)
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
    policy = mead(query, bound=3.0, believed=1.0)
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
    """Even batches do not tell f from c: where the CPU is idle a level is taken, and then both are known."""
    query = Query(np.full(200, 100.0), utilisation=0.1)
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    policy = mead(query)
    decisions = []
    while query.at < 60.0:
        decisions.append(step(policy, query))
    policy.close()
    first, *_ = (d for d in decisions if d.is_change)
    assert "which cannot break the bound" in first.reason
    planned = next(d for d in decisions if "keeps every bound" in d.reason)
    assert planned.evidence["per_record_seconds"] == pytest.approx(0.002, rel=0.05)
    probes = [d.at for d in decisions if "which cannot break" in d.reason]
    assert all(two - one > 5 * 0.2 for one, two in pairwise(probes))  # five batches of a fifth of a second and more


def test_a_busy_operator_is_not_probed_and_a_late_one_gets_everything() -> None:
    """Without a plan nothing is taken from a busy operator, and one whose records are late goes to the top."""
    query = Query(np.full(200, 100.0), utilisation=0.95, has=Allocation(1, 1.0))
    query.arrivals = RisingArrivals(np.arange(0.0, 200.0, 0.01))
    policy = mead(query)
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
    policy = mead(query)
    decisions = []
    while query.at < 100.0:
        decisions.append(step(policy, query))
    policy.close()
    assert not any(d.is_change for d in decisions)
    assert any("and 900 come" in d.reason for d in decisions)


def test_nothing_is_taken_away_while_arrivals_rise() -> None:
    """A rate a quarter above the least of the last 20 s holds what there is; when it has settled the plan is done."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(200) / 7.0), arriving=100.0)
    policy = mead(query)
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
    policy = mead(query)
    told = None
    while query.at < 75.0:
        query.arriving = 150.0 if query.at < 50.0 else 150.0 + 4.0 * (query.at - 50.0)
        decision = step(policy, query)
        if query.at > 60.0 and "binding_seconds" in decision.evidence:
            told = decision
    policy.close()
    assert told is not None
    rate, age = told.evidence["arrivals_per_second"], told.evidence["plan_age_seconds"]
    assert isinstance(rate, float)
    assert isinstance(age, float)
    risen = 4.0 * (told.at - age - 50.0)
    # Half of the monitor's 15 s, half of the 30 s between plans, and 5 s ahead, at the mean slope of the last 20 s.
    assert rate == pytest.approx(150.0 + risen + risen / 20.0 * 27.5, rel=0.1)


def test_batches_during_a_change_are_not_learnt_from() -> None:
    """A batch that began before the allocation was seen tells nothing of it."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(100) / 7.0))
    policy = mead(query)
    for _ in range(30):
        telemetry, seen = query.look()
        policy.watch("log", telemetry, seen, query.arrivals)
    known = policy._known["log"]
    assert isinstance(known, InBatches)
    assert known._learnt is not None
    before = known._learnt.batches
    telemetry, _ = query.look()
    late = Observation("log", query.at, 15.0, Quality.GOOD, ClusterState(None, None, Allocation(1, 0.4)))
    policy.watch("log", telemetry, late, query.arrivals)
    policy.close()
    assert known._learnt is not None
    assert known._learnt.batches == pytest.approx(before)


def test_a_failed_plan_is_told_and_the_loop_goes_on() -> None:
    """What the queues cannot do is a note for the user, not the end of the control."""
    query = Query(150.0 + 60.0 * np.sin(np.arange(100) / 7.0))
    policy = mead(query, queues="gi/g/1")
    notes: tuple[str, ...] = ()
    while query.at < 40.0 and not notes:
        telemetry, seen = query.look()
        notes = policy.watch("log", telemetry, seen, query.arrivals)
        policy._beside.wait(PATIENCE)
    decision = policy.plan(PlanRequest("log", query.at, seen, query.has, LIMITS, Objective("p95", 3.0)))
    policy.close()
    assert "a plan was failed" in notes[0]
    assert "gi/g/1 gives means only" in notes[0]
    assert not decision.is_change


def test_without_a_bound_it_is_refused() -> None:
    """To keep up is no latency bound; it says what to give, or what to use instead."""
    with pytest.raises(ConfigurationError, match=r"latency bound.*use threshold"):
        PipelineMead([Place("log", LIMITS)], Objective(), mead_options())


def test_every_path_needs_a_bound_and_may_have_its_own() -> None:
    """A path without one is named; with one for each, an operator is held to the tightest through it."""
    places = [Place("parser", LIMITS), Place("counter", LIMITS, ("parser",)), Place("matcher", LIMITS, ("parser",))]
    slow, quick = ("parser", "counter"), ("parser", "matcher")
    with pytest.raises(ConfigurationError, match="the path parser -> matcher has none"):
        PipelineMead(places, {slow: Objective("p95", 8.0)}, mead_options())
    objectives: dict[tuple[str, ...], Objective] = {slow: Objective("p95", 8.0), quick: Objective("mean", 3.0)}
    policy = PipelineMead(places, objectives, mead_options(), worker="here")
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
