# SPDX-License-Identifier: Apache-2.0
"""The controller's memory over an hour of a replay, under a virtual clock and the policies that ship."""

import gc
import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.account import OperatorAccount
from penstock.arrivals.due import ReplayArrivals
from penstock.arrivals.shapes import Periodic
from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.plan.guards import default_guards
from penstock.policies import default_policy, make_policy
from penstock.ports import AnalysisPlace, KnowledgeStore, OperatorSite, PolicyContext, WatchingPolicy
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    SourceProgress,
    Telemetry,
)
from penstock.topology import Topology

LIMITS = Limits(1, 2, (0.5, 1.0))
OBJECTIVE = Objective("p95", 10.0)
LOAD = Periodic(base=200.0, peak=800.0, period_seconds=600.0, width_seconds=400.0, duration_seconds=4000.0)
FIXED_SECONDS, PER_RECORD_SECONDS = 0.2, 0.002
FULL_SECONDS, END_SECONDS = 1200, 3596
"""By the first every history is full."""


class ToyReplayOperator:
    """A query that reads a replay, one batch a look, and whose load comes and goes every ten minutes."""

    can_set_cpu_share = True

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._used = 0.0
        self._done = 0
        self._batch = 0
        self._allocation = Allocation(2, 1.0)

    def collect(self) -> Telemetry:
        """All records due since the last batch, done at once."""
        now = self._clock.now()
        start, self._done = self._done, LOAD.count_until(now)
        records = self._done - start
        seconds = FIXED_SECONDS + PER_RECORD_SECONDS * records / self._allocation.capacity
        self._used += FIXED_SECONDS + PER_RECORD_SECONDS * records
        first, last = (json.dumps({"epoch_us": 0, "index": i}) for i in (start, self._done))
        source = SourceProgress("replay", first, last, None, records)
        batch = BatchProgress("a", "q", "r", self._batch, now - seconds, now, records, {}, (source,))
        self._batch += 1
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self._allocation.executors))
        quota = None if self._allocation == LIMITS.top else self._allocation.capacity
        return Telemetry("a", now, (batch,), executors, CpuReading(now, self._used, 0.0, quota, 1))

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self._allocation = action.target

    def release(self) -> None:
        """Nothing to put back."""


@pytest.mark.parametrize(
    ("name", "options", "kind"),
    [
        # Neither of a policy and a store knows the other: what one of them keeps shows in either pair.
        ("threshold", {}, "memory"),
        # Few arrivals, states and plans make the test quick; what is kept from plan to plan is the same.
        (default_policy([OBJECTIVE]), {"window": 5000, "max_states": 2, "best": 1, "every_seconds": 120.0}, "sqlite"),
    ],
)
def test_memory_is_flat_over_an_hour(name: str, options: Mapping[str, Any], kind: str, tmp_path: Path) -> None:
    """After the histories are full, forty more minutes of an hour-long replay add less than one megabyte."""
    clock = VirtualClock(0.0)
    operator = ToyReplayOperator(clock)
    store: KnowledgeStore = (
        MemoryStore(bound=100) if kind == "memory" else SqliteStore(tmp_path / "k.sqlite", bound_rows=100)
    )
    topology = Topology.of_one("a")
    context = PolicyContext(
        topology, {"a": OperatorSite(LIMITS)}, dict.fromkeys(topology.paths, OBJECTIVE), AnalysisPlace("here")
    )
    policy = make_policy(name, context, options)
    path, account = PathMonitor(batches_kept=100), OperatorAccount()
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", ReplayArrivals(LOAD), path=path),
        policy=policy,
        guards=default_guards(),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=OBJECTIVE,
        mode=Mode.ACT,
    )
    sizes: dict[int, int] = {}
    plans: set[float] = set()

    def watch(report: CycleReport) -> None:
        account.add(report)
        if report.decision is not None and report.decision.workload is not None:
            plans.add(report.decision.workload.at)
        if int(clock.now()) in (FULL_SECONDS, END_SECONDS):
            gc.collect()
            sizes[int(clock.now())] = tracemalloc.get_traced_memory()[0]

    runner = Runner([cycle], clock, interval_seconds=4.0, on_report=watch)
    tracemalloc.start()
    try:
        runner.run(until=3600.0)
    finally:
        tracemalloc.stop()
        store.close()
        if isinstance(policy, WatchingPolicy):
            policy.close()
    assert runner.passes == 900
    assert runner.faults == 0
    assert account.decisions  # it did scale
    assert path.latency_of_run() is not None  # and records were followed
    if isinstance(policy, WatchingPolicy):
        assert sum(at > FULL_SECONDS for at in plans) >= 10, "it hardly planned: what plans keep was not tried"
    assert sizes[END_SECONDS] - sizes[FULL_SECONDS] < 1 << 20
