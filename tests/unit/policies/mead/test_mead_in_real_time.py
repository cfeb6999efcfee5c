# SPDX-License-Identifier: Apache-2.0
"""MEAD on an operator in real-time mode: CPU per record, records one by one, and measured latency for a rescue."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from tests.unit.policies.contexts import a_context

from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.notebook import StoreNotebook
from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.performance.demand import RecordDemand
from penstock.policies import make_policy
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import AnalysisPlace, FloatArray, Look, Notebook, OperatorSite
from penstock.records import (
    Allocation,
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

LIMITS = Limits(2, 4, (0.4, 0.7, 1.0))
OPTIONS = {"window": 10_000, "sub_windows": 0, "best": 1, "max_states": 2, "every_seconds": 10.0, "rescue_every": 1.0}
FULL = Allocation(2, 1.0)
BOUND = 0.5
PATIENCE = 60.0


class Topic:
    """Poisson arrivals, known as they come."""

    def __init__(self, rate: float) -> None:
        rng = np.random.default_rng(1)
        self.times: FloatArray = np.cumsum(rng.exponential(1.0 / rate, int(400 * rate)))

    def of(self, source: SourceProgress) -> FloatArray | None:
        """No batch shows any."""
        raise AssertionError(f"nobody may wait for the batch {source}")

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`."""
        low, high = np.searchsorted(self.times, [start, end], side="right")
        return self.times[low:high]

    def arrived_by(self, at: float) -> int | None:
        """How many by then."""
        return int(np.searchsorted(self.times, at, side="right"))

    def done_index(self, source: SourceProgress) -> int | None:
        """Not asked for."""
        raise AssertionError(str(source))


@dataclass
class RealTimeQuery:
    """A query that uses so much CPU for each record, looked at once a second, and never ends a batch."""

    rate: float = 100.0
    cpu_seconds: float = 0.004
    has: Allocation = FULL
    late: float | None = 0.01
    knows_cpu: bool = True
    waiting: int | None = None
    at: float = 0.0

    def __post_init__(self) -> None:
        self.arrivals = ArrivalResolver(Topic(self.rate))

    def look(self) -> Look:
        """One second later."""
        self.at += 1.0
        used, late = self.rate * self.cpu_seconds, self.late
        seen = Observation(
            "m", self.at, 5.0, Quality.GOOD, ClusterState(None, None, self.has),
            arrival_rate_rows_per_second=self.rate, backlog_records=self.waiting,
            utilisation=min(1.0, used / self.has.capacity) if self.knows_cpu else None,
            cpu_used_cores=used if self.knows_cpu else None,
            latency=None if late is None else LatencySummary(9, late, late, late, late, late),
        )  # fmt: skip
        return Look(Telemetry("m", self.at), seen, self.arrivals.since_last(self.at))


def mead(notebook: Notebook | None = None, **changes: object) -> MeadPolicy:
    """The policy of one real-time operator, planning in a thread."""
    site = OperatorSite(LIMITS, is_real_time=True, tasks=2)
    context = a_context(Objective("p95", BOUND), site=site, analysis=AnalysisPlace("thread"), operator="m")
    context = replace(context, notebook=notebook)
    made = make_policy("mead", context, {**OPTIONS, **changes})
    assert isinstance(made, MeadPolicy)
    return made


def step(policy: MeadPolicy, query: RealTimeQuery) -> Decision:
    """One look, its analysis waited for, and what is decided; it is carried out at once."""
    look = query.look()
    policy.watch(look)
    assert policy._background.wait(PATIENCE)
    policy.watch(Look(Telemetry("m", query.at), look.observation))
    decision = policy.plan(PlanRequest("m", query.at, look.observation, query.has, LIMITS, Objective("p95", BOUND)))
    query.has = decision.target
    return decision


def test_it_plans_by_records_and_chooses_the_cpu_share_alone() -> None:
    """CPU per record is learnt without any batch; the share goes down while the bound holds, executors stay."""
    query, policy = RealTimeQuery(has=Allocation(4, 1.0)), mead()
    first = step(policy, query)
    assert first.reason.startswith("holding: ")
    changes = []
    while query.at < 100.0:
        decision = step(policy, query)
        changes += [decision] if decision.is_change else []
    policy.close()
    # 0.4 cores of 2 x 0.4: a utilisation of one half, and a queue of 10 ms services far within 500 ms.
    assert [str(d.target) for d in changes] == ["2 executors x 70% CPU", "2 executors x 40% CPU"]
    last = changes[-1]
    assert last.evidence["cpu_seconds_per_record"] == pytest.approx(0.004, rel=1e-6)
    assert "fixed_seconds" not in last.evidence
    demand = policy._known["m"].demand
    assert isinstance(demand, RecordDemand)
    assert demand.service.mean == pytest.approx(0.004)


def test_the_share_is_as_high_as_the_records_need() -> None:
    """At 8 ms and 100 records a second, two executors at 40 % would be full: 70 % it is."""
    query, policy = RealTimeQuery(cpu_seconds=0.008), mead()
    while query.at < 80.0:
        decision = step(policy, query)
    policy.close()
    assert query.has == Allocation(2, 0.7)
    assert decision.evidence["cpu_seconds_per_record"] == pytest.approx(0.008, rel=1e-6)


def test_what_waited_at_the_last_checkpoint_asks_for_no_rescue() -> None:
    """Measured latency is of now: what a checkpoint showed a minute ago may be done long since."""
    query, policy = RealTimeQuery(), mead()
    while query.has != Allocation(2, 0.4):
        step(policy, query)
    query.waiting = 5000
    decision = step(policy, query)
    policy.close()
    assert decision.target == Allocation(2, 0.4)


def test_late_records_get_all_cpu_and_their_level_is_not_gone_back_to() -> None:
    """Measured latency stands for the backlog: the model does not know every pause, the measurement does."""
    query, policy = RealTimeQuery(), mead()
    while query.has != Allocation(2, 0.4):
        step(policy, query)
    query.late = 0.3
    rescue = step(policy, query)
    assert rescue.target == Allocation(2, 1.0)
    assert rescue.reason == "p95 is 0.3 s, beyond 50% of its bound of 0.5 s"
    assert step(policy, query).target == Allocation(2, 1.0)  # as long as it is late
    query.late = 0.01
    back = step(policy, query)
    assert back.target == Allocation(2, 0.7)
    assert back.reason == "records were late at 2 executors x 40% CPU not long ago"
    until = query.at + 60.0
    while query.at < until:
        step(policy, query)
        assert query.has == Allocation(2, 0.7)
    until = query.at + 300.0
    while query.at < until and query.has != Allocation(2, 0.4):
        step(policy, query)
    policy.close()
    assert query.has == Allocation(2, 0.4)  # forgotten after five minutes


def test_a_query_that_is_stuck_without_cpu_is_raised() -> None:
    """Nothing comes out and all CPU is used: more CPU is what it lacks."""
    query, policy = RealTimeQuery(), mead()
    while query.has != Allocation(2, 0.4):
        step(policy, query)
    query.late, query.cpu_seconds = None, 0.1
    decision = step(policy, query)
    policy.close()
    assert decision.target == Allocation(2, 1.0)
    assert decision.reason == "no record comes out, and all CPU is used"


def test_without_cpu_counters_it_holds_and_says_why() -> None:
    """What a record costs is not guessed."""
    query, policy = RealTimeQuery(knows_cpu=False), mead()
    while query.at < 30.0:
        decision = step(policy, query)
    policy.close()
    assert not decision.is_change
    assert decision.reason == (
        "holding: the demand of m is not known yet: how much CPU its executors use is not known: that needs control "
        "groups"
    )


def test_windows_of_a_query_that_falls_behind_teach_nothing() -> None:
    """What is served then is less than what arrives, and a record would look too cheap."""
    query, policy = RealTimeQuery(cpu_seconds=0.004), mead()
    while query.at < 40.0:
        step(policy, query)
    query.cpu_seconds, query.late = 0.5, None
    for _ in range(30):
        step(policy, query)
    policy.close()
    known = policy._known["m"]
    assert known.evidence()["cpu_seconds_per_record"] == pytest.approx(0.004, rel=1e-6)


def test_a_later_run_begins_with_the_cpu_of_a_record() -> None:
    """It is kept in the store; the next run plans with it before any CPU was seen, unless `remember: false`."""
    notebook = StoreNotebook(MemoryStore())
    query, policy = RealTimeQuery(cpu_seconds=0.008), mead(notebook)
    while query.at < 80.0:
        step(policy, query)
    policy.close()
    for remember in (True, False):
        blind, later = RealTimeQuery(knows_cpu=False), mead(notebook, remember=remember)
        while blind.at < 20.0:
            decision = step(later, blind)
        later.close()
        if remember:
            assert decision.evidence["cpu_seconds_per_record"] == pytest.approx(0.008, rel=1e-6)
            assert later._known["m"].demand is not None
        else:
            assert later._known["m"].demand is None
