# SPDX-License-Identifier: Apache-2.0
"""Latency along a path, from the process that follows records to a controller that cannot: which records came to the
end of an operator, and when they had first arrived at the pipeline."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from penstock.adaptors.agent.instants import packed, unpacked
from penstock.adaptors.agent.wire import MOST_INSTANTS, CameThrough, Collected, MalformedMessageError
from penstock.ports import DoneRecords, FloatArray
from penstock.records import LatencySummary

_MOST_GROUPS, _MOST_KEPT = 10_000, 1_000_000
"""Groups of records, and instants in them, that wait for a controller."""
_MILLISECONDS = 1000.0


class PathReport:
    """The agent's side: keeps what came to the end of the operator until the controller has it.

    Records that were done at the same millisecond, as those of a batch were, go together. While nobody asks, the oldest
    go beyond a bound: who comes later plans from what comes then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._unsent: deque[CameThrough] = deque()
        self._sent: list[CameThrough] = []
        self._kept = 0
        """How many instants are in `_unsent`."""

    def add(self, done: DoneRecords | None) -> None:
        """Take records that a look found done."""
        if done is None or not len(done.arrived):
            return
        ends = np.rint((done.arrived + done.seconds) * _MILLISECONDS)
        groups = []
        for end in np.unique(ends):
            times = packed(np.sort(done.arrived[ends == end]), is_exact=True)
            if times is not None:
                groups.append(CameThrough(float(end) / _MILLISECONDS, times))
        with self._lock:
            self._unsent.extend(groups)
            self._kept += sum(map(_sent_times, groups))
            while len(self._unsent) > _MOST_GROUPS or self._kept > _MOST_KEPT:
                self._kept -= _sent_times(self._unsent.popleft())

    def next(self, *, was_received: bool) -> list[CameThrough]:
        """What goes with the next reply, as much as it may hold; `was_received`: the reply before was."""
        with self._lock:
            if not was_received:
                self._unsent.extendleft(reversed(self._sent))
                self._kept += sum(map(_sent_times, self._sent))
            self._sent, room = [], MOST_INSTANTS
            while self._unsent and len(self._sent) < _MOST_GROUPS:
                size = _sent_times(self._unsent[0])
                if self._sent and size > room:
                    break
                room -= size
                self._kept -= size
                self._sent.append(self._unsent.popleft())
            return list(self._sent)


class LatencyCount(Protocol):
    """Counts latencies over a window and over the run, as `penstock.monitor.latency.LatencyTracker` does."""

    def count(self, ended_at: float, arrivals: FloatArray, *, is_exact: bool) -> None:
        """Count records that arrived at `arrivals` and were done at `ended_at`."""
        ...

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records done recently."""
        ...

    def whole(self) -> LatencySummary | None:
        """Latency of all records."""
        ...

    def plain(self) -> dict[str, Any]:
        """What was counted, as plain data."""
        ...

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `plain` gave."""
        ...


class ReportedPath:
    """The controller's side: the latency along the path as the agent reports it (a `ports.LastingLatencies`).

    Parameters
    ----------
    latency
        Counts latencies.
    shift
        What is added to the agent's instants to have them by our clock, in seconds.
    """

    def __init__(self, latency: LatencyCount, shift: Callable[[], float] = lambda: 0.0) -> None:
        self._shift, self._latency = shift, latency
        self._lock = threading.Lock()
        self._new: deque[DoneRecords] = deque(maxlen=_MOST_GROUPS)

    def take(self, reply: Collected) -> None:
        """Take in what came with a reply; raises MalformedMessageError."""
        shift = self._shift()
        if not all(math.isfinite(one.ended_at) for one in reply.came):
            raise MalformedMessageError("came: the instants have to be numbers")
        groups = [(one.ended_at + shift, unpacked(one.arrived) + shift, one.arrived.is_exact) for one in reply.came]
        with self._lock:
            for ended_at, arrived, is_exact in groups:
                self._latency.count(ended_at, arrived, is_exact=is_exact)
                self._new.append(DoneRecords(arrived, np.maximum(ended_at - arrived, 0.0)))

    def since_last(self) -> DoneRecords | None:
        """The records that came to the end since this was last asked."""
        with self._lock:
            found = DoneRecords.joined(tuple(self._new))
            self._new.clear()
            return found

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records that came lately."""
        with self._lock:
            return self._latency.window(now)

    def whole(self) -> LatencySummary | None:
        """Latency of all that came."""
        with self._lock:
            return self._latency.whole()

    def plain(self) -> dict[str, Any]:
        """What was counted, as plain data."""
        with self._lock:
            return self._latency.plain()

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what another controller has counted."""
        with self._lock:
            self._latency.restore(kept)


def _sent_times(one: CameThrough) -> int:
    return 1 + len(one.arrived.gaps) // one.arrived.width
