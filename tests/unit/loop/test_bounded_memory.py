# SPDX-License-Identifier: Apache-2.0
"""The controller's memory over an hour of a replay, under a virtual clock."""

import gc
import json
import tracemalloc
from pathlib import Path

import pytest

from penstock.account import OperatorAccount
from penstock.arrivals.due import ReplayArrivals
from penstock.arrivals.shapes import Constant
from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, Runner
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.plan.guards import default_guards
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import KnowledgeStore
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

RATE = 500.0
LIMITS = Limits(1, 2, (0.5, 1.0))


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
        busy = 1.8 if int(now // 600) % 2 else 0.1
        self._used += 4.0 * min(busy, self._allocation.capacity)
        start, self._done = self._done, int(now * RATE)
        first, last = (json.dumps({"epoch_us": 0, "index": i}) for i in (start, self._done))
        source = SourceProgress("replay", first, last, None, self._done - start)
        batch = BatchProgress("a", "q", "r", self._batch, now - 0.5, now, self._done - start, {}, (source,))
        self._batch += 1
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self._allocation.executors))
        quota = None if self._allocation == LIMITS.top else self._allocation.capacity
        return Telemetry("a", now, (batch,), executors, CpuReading(now, self._used, 0.0, quota, 1))

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self._allocation = action.target

    def release(self) -> None:
        """Nothing to put back."""


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_memory_is_flat_over_an_hour(kind: str, tmp_path: Path) -> None:
    """After the histories are full, forty more minutes of an hour-long replay add less than one megabyte."""
    clock = VirtualClock(0.0)
    arrivals = ReplayArrivals(Constant(RATE, 4000.0))
    operator = ToyReplayOperator(clock)
    store: KnowledgeStore = (
        MemoryStore(bound=100) if kind == "memory" else SqliteStore(tmp_path / "k.sqlite", bound_rows=100)
    )
    path, account = PathMonitor(batches_kept=100), OperatorAccount()
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", arrivals, path=path),
        policy=ThresholdPolicy(),
        guards=default_guards(),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective("p95", 10.0),
        mode=Mode.ACT,
    )
    sizes = {}

    def watch(report: object) -> None:
        account.add(report)  # type: ignore[arg-type]
        if int(clock.now()) in (1200, 3596):
            gc.collect()
            sizes[int(clock.now())] = tracemalloc.get_traced_memory()[0]

    runner = Runner([cycle], clock, interval_seconds=4.0, on_report=watch)
    tracemalloc.start()
    try:
        runner.run(until=3600.0)
    finally:
        tracemalloc.stop()
        store.close()
    assert runner.passes == 900
    assert runner.faults == 0
    assert account.decisions  # it did scale
    assert path.latency_of_run() is not None  # and records were followed
    assert sizes[3596] - sizes[1200] < 1 << 20
