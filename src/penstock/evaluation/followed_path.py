# SPDX-License-Identifier: Apache-2.0
"""The latency of a simulated path from a record's first arrival on, as a run on Spark follows it."""

from __future__ import annotations

import numpy as np

from penstock.monitor.latency import LatencyTracker
from penstock.ports import DoneRecords
from penstock.records import LatencySummary
from penstock.simulator import Simulation
from penstock.topology import Path


class FollowedPath:
    """Measures the records that come to a path's end; a `ports.RecordLatencies`.

    Parameters
    ----------
    simulation, path
        Which path.
    window_seconds
        How far back its window reaches.
    """

    def __init__(self, simulation: Simulation, path: Path, window_seconds: float) -> None:
        self._records = simulation.records[path]
        self._latency = LatencyTracker(window_seconds)
        self._taken = 0
        self._new: list[DoneRecords] = []

    def since_last(self) -> DoneRecords | None:
        """The records that came since this was last asked."""
        self._take()
        found = DoneRecords.joined(self._new)
        self._new.clear()
        return found

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records that came in the last window."""
        self._take()
        return self._latency.window(now)

    def whole(self) -> LatencySummary | None:
        """Latency of all records that came."""
        self._take()
        return self._latency.whole()

    def _take(self) -> None:
        """Take in what the simulation has added; each record is counted once."""
        ended, arrived = self._records.ended, self._records.arrived
        for ends, came in zip(ended[self._taken :], arrived[self._taken :], strict=True):
            newest = float(ends[-1])
            # Counted with the newest of them, each with its own latency.
            self._latency.count(newest, came + (newest - ends))
            self._new.append(DoneRecords(came, np.maximum(ends - came, 0.0)))
        self._taken = len(ended)
