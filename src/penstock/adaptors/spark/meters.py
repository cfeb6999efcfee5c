# SPDX-License-Identifier: Apache-2.0
"""Metrics of a running query that its batches do not carry: heap, garbage collection, skew of tasks, and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.adaptors.agent.meters import Meters

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

Entries = Callable[[], Iterable[Mapping[str, Any]]]


def query_meters(query: StreamingQuery, context: SparkContext, entries: Entries) -> Meters:
    """The metrics of a query in this process; `entries` gives executors as the driver's REST interface lists them."""
    meters = Meters()
    meters.add_known(["heap_used"], lambda: {"heap_used": _heap_used(context)})
    meters.add_known(["executor_heap_peak", "gc_time", "task_skew"], TaskMeters(entries).read)
    meters.add_known(["state_rows", "state_memory"], lambda: state_of(query.lastProgress))
    return meters


class TaskMeters:
    """Reads what the executors' tasks cost, from one reading to the next.

    Parameters
    ----------
    entries
        Gives the executors as the REST interface lists them.
    """

    def __init__(self, entries: Entries) -> None:
        self._entries = entries
        self._before: dict[str, tuple[int, int]] = {}

    def read(self) -> dict[str, float | None]:
        """Heap peak, part of garbage collection, and skew since the last reading; None: no task ran meanwhile."""
        now: dict[str, tuple[int, int]] = {}
        peaks = []
        for entry in self._entries():
            if entry["id"] == "driver" and int(entry["totalCores"]) == 0:
                continue
            now[str(entry["id"])] = (int(entry["totalDuration"]), int(entry["totalGCTime"]))
            peak = (entry.get("peakMemoryMetrics") or {}).get("JVMHeapMemory")
            if peak:
                peaks.append(float(peak))
        before, self._before = self._before, now
        spent = [(now[name][0] - before[name][0], now[name][1] - before[name][1]) for name in now if name in before]
        total = sum(tasks for tasks, _ in spent)
        return {
            "executor_heap_peak": max(peaks, default=None),
            # Garbage may be collected while no task runs, so the quotient is bounded.
            "gc_time": min(1.0, sum(gc for _, gc in spent) / total) if total > 0 else None,
            "task_skew": max(tasks for tasks, _ in spent) * len(spent) / total if total > 0 else None,
        }


def state_of(progress: Any) -> dict[str, float | None]:
    """Rows and memory of the state, as the newest progress report has them; None: the query keeps none."""
    states = (progress or {}).get("stateOperators") or ()
    if not states:
        return {"state_rows": None, "state_memory": None}
    return {
        "state_rows": float(sum(int(state["numRowsTotal"]) for state in states)),
        "state_memory": float(sum(int(state["memoryUsedBytes"]) for state in states)),
    }


def _heap_used(context: SparkContext) -> float:
    assert context._jvm is not None
    runtime = context._jvm.java.lang.Runtime.getRuntime()
    return float(runtime.totalMemory() - runtime.freeMemory())
