# SPDX-License-Identifier: Apache-2.0
"""A query in micro-batches without Spark, for tests of MEAD."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from tests.unit.policies.contexts import a_context

from penstock.policies import make_policy, policy_entry
from penstock.policies.mead.policy import MeadPolicy
from penstock.ports import AnalysisPlace, FloatArray, Look, OperatorSite, Worker
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

    def look(self) -> Look:
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
        return Look(Telemetry("log", self.at, (batch,)), seen, (self.arrivals.of(source),))


def mead(
    bound: float = 3.0,
    *,
    name: str = "mead",
    worker: Worker = "thread",
    limits: Limits = LIMITS,
    statistic: str = "p95",
    **changes: object,
) -> MeadPolicy:
    """The policy of one operator, from the registry."""
    context = a_context(
        Objective(statistic, bound), site=OperatorSite(limits), analysis=AnalysisPlace(worker), operator="log"
    )
    known = [option.name for option in policy_entry(name).options]
    made = make_policy(name, context, {**{k: v for k, v in OPTIONS.items() if k in known}, **changes})
    assert isinstance(made, MeadPolicy)
    return made


def step(policy: MeadPolicy, query: Query) -> Decision:
    """One look, its analysis waited for, and what is decided; it is carried out at once."""
    look = query.look()
    policy.watch(look)
    assert policy._background.wait(PATIENCE)
    policy.watch(Look(Telemetry("log", query.at), look.observation))
    decision = policy.plan(PlanRequest("log", query.at, look.observation, query.has, LIMITS, Objective("p95", 3.0)))
    query.has = decision.target
    return decision
