# SPDX-License-Identifier: Apache-2.0
"""Gesscale's policies on an operator in real-time mode, with what its monitor makes of checkpoints and latencies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.unit.monitor.test_latency import a_batch

from penstock.monitor import Monitor
from penstock.policies import make_policy
from penstock.ports import AnalysisPlace, DoneRecords, FloatArray, OperatorSite, PolicyContext
from penstock.records import (
    Allocation,
    ClusterState,
    CpuReading,
    Decision,
    ExecutorState,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    SourceProgress,
    Telemetry,
)
from penstock.topology import Topology

LIMITS = Limits(1, 4)
EACH = 20.0
"""Records a second that an executor does, waiting for its broker: half of its CPU is used then."""
BATCH_SECONDS = 60
BUSY_UNTIL, BUSY_RATE, CALM_RATE = 1800, 70, 5


class Topic:
    """70 records a second for half an hour, then five."""

    def arrived_by(self, at: float) -> int | None:
        """How many by then."""
        return int(BUSY_RATE * min(at, BUSY_UNTIL) + CALM_RATE * max(0.0, at - BUSY_UNTIL))

    def of(self, source: SourceProgress) -> FloatArray | None:
        """No batch of a real-time query is asked for its records."""
        raise AssertionError(source)

    def done_index(self, source: SourceProgress) -> int | None:
        """Its end."""
        return None if source.end_offset is None else int(source.end_offset)


class RealTimeQuery:
    """Does what its executors sustain; shows what it has read at the end of each minute, and latency all the time."""

    def __init__(self) -> None:
        self.topic, self.has, self.asked = Topic(), Allocation(1), Allocation(1)
        self.at, self.done, self.read_at_checkpoint, self.used = 0, 0.0, 0, 0.0
        self.monitor = Monitor("operator", self.topic, record_latencies=self)

    @property
    def waiting(self) -> float:
        """Records that have come and are not done."""
        return (self.topic.arrived_by(self.at) or 0) - self.done

    def since_last(self) -> DoneRecords | None:
        """Not one by one."""
        return None

    def window(self, now: float) -> LatencySummary | None:
        """A record waits for those before it."""
        seconds = 0.01 + self.waiting / (EACH * self.has.executors)
        return LatencySummary(100, seconds, seconds, seconds, seconds, seconds)

    def whole(self) -> LatencySummary | None:
        """Nobody asks."""
        return None

    def second(self) -> tuple[Telemetry, ClusterState]:
        """One second later; executors come and go within it."""
        self.at += 1
        self.has = self.asked
        did = min(EACH * self.has.executors, self.waiting)
        self.done += did
        self.used += 0.5 * did / EACH
        batches = []
        if self.at % BATCH_SECONDS == 0:
            read = int(self.done)
            batches = [a_batch(self.at // BATCH_SECONDS, self.read_at_checkpoint, read, self.at - 60.0, float(self.at))]
            self.read_at_checkpoint = read
        executors = tuple(ExecutorState(str(n), "h", 1, True, 0, 0.0) for n in range(self.has.executors))
        cpu = CpuReading(float(self.at), self.used, 0.0, float(self.has.executors), self.has.executors)
        telemetry = Telemetry("operator", float(self.at), tuple(batches), executors, cpu)
        return telemetry, ClusterState(self.asked, self.asked, self.has)


@pytest.mark.parametrize(
    ("name", "options"),
    [("gesscale", {"model": "fetch-time"}), ("gesscale+", {"model": "fetch-time"}), ("gesscale+", {})],
)
def test_executors_come_under_overload_and_go_when_it_is_over(name: str, options: dict[str, str]) -> None:
    """Half of the CPU is used at most: backlog and rate at checkpoints say what is needed, and later what is not."""
    query = RealTimeQuery()
    site = OperatorSite(LIMITS, is_real_time=True)
    topology = Topology.from_inputs({"operator": ["arrivals"]})
    context = PolicyContext(
        topology, {"operator": site}, dict.fromkeys(topology.paths, Objective()), AnalysisPlace("here")
    )
    policy = make_policy(name, context, options)
    history, recent, most = list[Observation](), list[Decision](), 0
    while query.at < 3.5 * BUSY_UNTIL:
        telemetry, cluster = query.second()
        look = query.monitor.look(telemetry, float(query.at), cluster)
        policy.watch(look)  # type: ignore[attr-defined]
        history = [*history[-2000:], look.observation]
        if query.at % policy.every_seconds == 0:
            decision = policy.plan(
                PlanRequest(
                    "operator", float(query.at), look.observation, query.has, LIMITS, Objective(),
                    recent=tuple(recent), history=tuple(history),
                )
            )  # fmt: skip
            if decision.is_change:
                recent.append(decision)
                query.asked = decision.target
        if query.at <= BUSY_UNTIL:
            most = max(most, query.asked.executors)
    assert most == 4, "four executors do 80 records a second"
    times = [change.at for change in recent]
    assert min(later - one for one, later in pairwise(times)) > BATCH_SECONDS, "a checkpoint shows what each change did"
    assert query.asked.executors == 1, [f"{one.at:.0f}: {one.reason}" for one in recent]
