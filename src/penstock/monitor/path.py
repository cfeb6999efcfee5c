# SPDX-License-Identifier: Apache-2.0
"""Latency along a path: from a record's first arrival at the pipeline to the end of the last operator's batch.

Each operator remembers which records its batches carried; an operator below looks up which of those batches its
own batch took its records from. What an operator drops counts until it is dropped, and further down as if it had
gone on; where an operator reads a batch of the one above in several pieces, its records count with each piece.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np

from penstock.monitor.latency import LatencyTracker
from penstock.ports import ArrivalTimes, BatchLineage, FloatArray
from penstock.records import BatchProgress, LatencySummary, SourceProgress


class PathMonitor:
    """The latency from the pipeline's source to the end of one operator.

    Parameters
    ----------
    arrivals
        For the first operator: when its source's records arrived.
    above, lineage
        For any other: the monitor of the operator above, and which of that one's batches a batch took.
    batches_kept
        How many batches are remembered for the operators below.
    """

    def __init__(
        self,
        arrivals: ArrivalTimes | None = None,
        *,
        above: PathMonitor | None = None,
        lineage: BatchLineage | None = None,
        window_seconds: float = 15.0,
        batches_kept: int = 10_000,
    ) -> None:
        if (arrivals is None) == (above is None) or (above is None) != (lineage is None):
            raise ValueError("give either `arrivals`, or `above` and `lineage`")
        self._arrivals = arrivals
        self._above = above
        self._lineage = lineage
        self._kept = batches_kept
        self._sources: OrderedDict[int, tuple[SourceProgress, ...]] = OrderedDict()
        self._latency = LatencyTracker(None, window_seconds)
        self.unknown_batches = 0

    def add(self, batch: BatchProgress) -> None:
        """Take note of a finished batch; batches of the operator above must have been added before."""
        self._sources[batch.batch_id] = batch.sources
        while len(self._sources) > self._kept:
            self._sources.popitem(last=False)
        if batch.rows == 0:
            return
        arrivals = self.first_arrivals(batch.batch_id)
        if arrivals is None:
            self.unknown_batches += 1
        else:
            self._latency.count(batch.ended_at, arrivals)

    def first_arrivals(self, batch_id: int) -> FloatArray | None:
        """When the records of a batch arrived at the pipeline; None for a batch that is not remembered."""
        sources = self._sources.get(batch_id)
        if sources is None:
            return None
        parts = [part for source in sources if (part := self._of(source)) is not None]
        return np.concatenate(parts) if parts else None

    def latency_of_run(self) -> LatencySummary | None:
        """Latency of all records that came to the end of this operator."""
        return self._latency.whole()

    def latency_with_waiting(self, arrivals: FloatArray, at: float) -> LatencySummary | None:
        """Latency of the run with records that still wait, each with its wait so far: a lower bound, so not exact."""
        self._latency.count(at, arrivals)
        self._latency.is_exact = False
        return self._latency.whole()

    def latency(self, now: float) -> LatencySummary | None:
        """Latency of those that came in the last window."""
        return self._latency.window(now)

    def _of(self, source: SourceProgress) -> FloatArray | None:
        if self._arrivals is not None:
            return self._arrivals.of(source)
        assert self._above is not None
        assert self._lineage is not None
        batches = self._lineage.upstream_batches(source)
        if batches is None:
            return None
        parts = [part for b in batches if (part := self._above.first_arrivals(b)) is not None]
        return np.concatenate(parts) if parts else None
