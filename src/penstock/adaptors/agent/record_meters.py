# SPDX-License-Identifier: Apache-2.0
"""Metrics of records that an agent reads off batches which pass through it: arrivals, queue length and latency.

They are for those who look. A controller computes its own, from the same batches and over its own window.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from penstock.ports import ArrivalTimes, FloatArray
from penstock.records import BatchProgress, SourceProgress, Telemetry

_STATISTICS = {"latency_p50": 0.50, "latency_p95": 0.95, "latency_p99": 0.99}
NAMES = ("arrival_rate", "queue_length", "latency_mean", *_STATISTICS)
_WINDOW_SECONDS = 15.0
_MOST_POINTS = 200
"""So many latencies of a batch are kept: enough for its percentiles, however many records it had."""


@dataclass(slots=True)
class _Done:
    """A batch that passed, and the one before it."""

    moment: float
    batch: BatchProgress
    before: BatchProgress | None
    latencies: FloatArray | None = None
    """Found out when somebody first asks; empty: they are not known."""


class RecordMeters:
    """Remembers the batches of the last 15 seconds, and says what they show about records.

    Parameters
    ----------
    arrivals
        Who knows when records arrived. None: arrivals are taken to be what batches take in, latency is interpolated
        between batches, and the queue is known where offsets count records.
    """

    def __init__(self, arrivals: ArrivalTimes | None, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._arrivals, self._monotonic = arrivals, monotonic
        self._lock = threading.Lock()
        self._done: deque[_Done] = deque()
        self._last: BatchProgress | None = None
        self._begun: float | None = None
        self._newest: tuple[float, float] | None = None
        """When something was last collected, by the monotonic clock and by the operator's."""

    def take(self, telemetry: Telemetry) -> None:
        """Remember what passes."""
        now = self._monotonic()
        with self._lock:
            self._begun = now if self._begun is None else self._begun
            self._newest = (now, telemetry.at)
            for batch in telemetry.batches:
                self._done.append(_Done(now, batch, self._last))
                self._last = batch
            self._forget(now)

    def read(self) -> dict[str, float | None]:
        """The metrics over the window; None where nothing was collected lately, or it is not known."""
        now = self._monotonic()
        with self._lock:
            self._forget(now)
            done, last, newest, begun = list(self._done), self._last, self._newest, self._begun
        if newest is None or begun is None or now - newest[0] > _WINDOW_SECONDS:
            return dict.fromkeys(NAMES)
        at, window = newest[1] + now - newest[0], min(_WINDOW_SECONDS, now - begun)
        return {
            "arrival_rate": self._rate(done, at, window) if window > 0 else None,
            "queue_length": None if last is None else self._queue(last, at),
            **self._latency(done),
        }

    def _forget(self, now: float) -> None:
        while self._done and self._done[0].moment < now - _WINDOW_SECONDS:
            self._done.popleft()

    def _rate(self, done: list[_Done], at: float, window: float) -> float | None:
        if self._arrivals is None:
            return sum(one.batch.rows for one in done) / window
        until, since = self._arrivals.arrived_by(at), self._arrivals.arrived_by(at - window)
        return None if until is None or since is None else (until - since) / window

    def _queue(self, last: BatchProgress, at: float) -> float | None:
        if self._arrivals is not None:
            arrived = self._arrivals.arrived_by(at)
            taken = [self._arrivals.done_index(source) for source in last.sources]
            known = [index for index in taken if index is not None]
            if arrived is not None and known:
                return float(max(0, arrived - sum(known)))
        behind = [records_behind(source) for source in last.sources]
        return None if not behind or None in behind else float(sum(one for one in behind if one is not None))

    def _latency(self, done: list[_Done]) -> dict[str, float | None]:
        for one in done:
            if one.latencies is None:
                one.latencies = self._latencies_of(one)
        known = [(one.latencies, one.batch.rows) for one in done if one.latencies is not None and len(one.latencies)]
        if not known:
            return dict.fromkeys(("latency_mean", *_STATISTICS))
        latencies = np.concatenate([some for some, _ in known])
        # Each of the points that are kept of a batch stands for so many of its records.
        weights = np.concatenate([np.full(len(some), max(1, rows) / len(some)) for some, rows in known])
        order = np.argsort(latencies)
        latencies, up_to = latencies[order], np.cumsum(weights[order])
        found: dict[str, float | None] = {"latency_mean": float(np.average(latencies, weights=weights[order]))}
        for name, part in _STATISTICS.items():
            place = min(len(latencies) - 1, int(np.searchsorted(up_to, part * up_to[-1])))
            found[name] = float(latencies[place])
        return found

    def _latencies_of(self, one: _Done) -> FloatArray:
        """Some latencies of a batch's records, rising; none where it is not known when they arrived."""
        batch, before = one.batch, one.before
        if self._arrivals is not None:
            parts = [times for source in batch.sources if (times := self._arrivals.of(source)) is not None]
            if parts:
                return _points(np.sort(np.maximum(batch.ended_at - np.concatenate(parts), 0.0)))
        if batch.rows == 0 or before is None or before.run_id != batch.run_id:
            return np.empty(0)
        # As the monitor does it: they came evenly while the batch before ran.
        count = min(batch.rows, _MOST_POINTS)
        came = batch.started_at - (np.arange(count) + 0.5) / count * (batch.started_at - before.started_at)
        return np.maximum(batch.ended_at - came, 0.0)


def _points(rising: FloatArray) -> FloatArray:
    if len(rising) <= _MOST_POINTS:
        return rising
    return rising[((np.arange(_MOST_POINTS) + 0.5) / _MOST_POINTS * len(rising)).astype(np.int64)]


def records_behind(source: SourceProgress) -> int | None:
    """How many records a source had beyond those of a batch; None where its offsets do not count records.

    Examples
    --------
    >>> records_behind(SourceProgress("kafka", None, '{"logs": {"0": 7, "1": 4}}', '{"logs": {"0": 9, "1": 5}}', 3))
    3
    """
    try:
        return _behind(json.loads(source.latest_offset or "null"), json.loads(source.end_offset or "null"))
    except (ValueError, RecursionError):  # no JSON, a number of thousands of digits, or nested without end
        return None


def _behind(latest: object, end: object) -> int | None:
    if isinstance(latest, dict) and isinstance(end, dict):
        parts = [_behind(latest[name], end.get(name)) for name in latest]
        return None if not parts or None in parts else sum(part for part in parts if part is not None)
    if type(latest) is int and type(end) is int:
        return max(0, latest - end)
    return None
