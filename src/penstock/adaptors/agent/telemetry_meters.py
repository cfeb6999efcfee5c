# SPDX-License-Identifier: Apache-2.0
"""Metrics that an agent reads off the telemetry which passes through it on its way to the controller."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from penstock.adaptors.agent import record_meters
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.record_meters import RecordMeters
from penstock.ports import ArrivalTimes, MetricSource
from penstock.records import BatchProgress, CpuReading, Telemetry

NAMES = ("processed_rate", "batch_time", "busy", "cpu_used", "cpu_throttled", "executors")
_WINDOW_SECONDS = 15.0


class TelemetryMeters:
    """A metric source that remembers the last 15 seconds of what it passes on, for those who only look.

    Without a controller that collects, nothing passes, and the metrics are not known.

    Parameters
    ----------
    source
        Measures the operator.
    arrivals
        Who knows when its records arrived; None: nobody does.
    """

    def __init__(
        self,
        source: MetricSource,
        arrivals: ArrivalTimes | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._monotonic = source, monotonic
        self._records = RecordMeters(arrivals, monotonic=monotonic)
        self._lock = threading.Lock()
        self._batches: deque[tuple[float, BatchProgress]] = deque()
        self._cpu: deque[tuple[float, CpuReading]] = deque()
        self._begun: float | None = None
        self._newest: tuple[float, Telemetry] | None = None

    def offer(self, meters: Meters) -> None:
        """Let these metrics be subscribed to."""
        meters.add_known(NAMES, self.read)
        meters.add_known(record_meters.NAMES, self._records.read)

    def collect(self) -> Telemetry:
        """Pass on what is new, and remember it."""
        telemetry = self._source.collect()
        self._records.take(telemetry)
        now = self._monotonic()
        with self._lock:
            self._begun = now if self._begun is None else self._begun
            self._newest = (now, telemetry)
            self._batches.extend((now, batch) for batch in telemetry.batches)
            if telemetry.cpu is not None:
                self._cpu.append((now, telemetry.cpu))
            self._forget(now)
        return telemetry

    def _forget(self, now: float) -> None:
        """Drop what is older than the window; also where nobody ever reads."""
        for kept in (self._batches, self._cpu):
            while kept and kept[0][0] < now - _WINDOW_SECONDS:
                kept.popleft()

    def read(self) -> dict[str, float | None]:
        """The metrics over the window; None where nothing was collected lately."""
        now = self._monotonic()
        with self._lock:
            self._forget(now)
            batches, cpu = [batch for _, batch in self._batches], list(self._cpu)
            newest, begun = self._newest, self._begun
        if newest is None or begun is None or now - newest[0] > _WINDOW_SECONDS:
            return dict.fromkeys(NAMES)
        window = min(_WINDOW_SECONDS, now - begun)
        spent = [batch.duration_seconds for batch in batches]
        executors = newest[1].executors
        return {
            "processed_rate": sum(batch.rows for batch in batches) / window if window > 0 else None,
            "batch_time": sum(spent) / len(spent) if spent else None,
            "busy": min(1.0, sum(spent) / window) if window > 0 else None,
            "executors": None if executors is None else float(sum(one.is_active for one in executors)),
            **_cpu_use(cpu),
        }


def _cpu_use(readings: list[tuple[float, CpuReading]]) -> dict[str, float | None]:
    if len(readings) < 2 or readings[-1][0] <= readings[0][0]:
        return {"cpu_used": None, "cpu_throttled": None}
    (begun, first), (ended, last) = readings[0], readings[-1]
    seconds = ended - begun  # not by their wall clock, which may have been set
    used = _grown(first.used_seconds, last.used_seconds)
    throttled = _grown(first.throttled_seconds, last.throttled_seconds)
    if used is None or throttled is None:
        return {"cpu_used": None, "cpu_throttled": None}
    return {"cpu_used": used / seconds, "cpu_throttled": min(1.0, throttled / seconds)}


def _grown(before: float | None, after: float | None) -> float | None:
    """By how much a counter has grown; None: it is not known, or the group was made anew meanwhile."""
    return None if before is None or after is None or after < before else after - before
