# SPDX-License-Identifier: Apache-2.0
"""Latency along a path: from a record's first arrival at the pipeline to the end of the last operator's batch.

Each operator remembers which records its batches carried; an operator below looks up which of those batches its
own batch took its records from. What an operator drops counts until it is dropped, and further down as if it had
gone on. Where an operator reads what one above sends while that one's batch still runs, it is not known which of the
batch's records a piece holds: it counts as many of them as it holds, evenly from the first to the last that arrived.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.monitor.latency import LatencyTracker
from penstock.ports import BatchLineage, DoneRecords, FloatArray, LastingLatencies, PartialLineage, RecordLatencies
from penstock.records import BatchProgress, LatencySummary, RunLatency, SourceProgress

_READ_AGAIN = 10
"""Newest batches whose records are kept above: one that a crash has cut off at its end is run and counted again."""
_HAIR = 1e-6
"""A product of floats may be a hair above the whole number that it stands for."""
_STILL_WAITED = "some records still waited at the end, and count with their wait so far"


class PathMonitor:
    """The latency from the pipeline's source to the end of one operator.

    Parameters
    ----------
    above, lineage
        The monitor of the operator above, and which of that one's batches a batch took; None for the first operator,
        whose arrivals are the pipeline's.
    measured
        For an operator whose records carry their latency where they come out (real-time mode): who measures it there.
        Its batches are not looked at, and nobody can read from it.
    batches_kept, records_kept
        How many batches, and how many records in them, are remembered at most for the operators below. What all of
        them have counted is forgotten.
    """

    def __init__(
        self,
        *,
        above: PathMonitor | None = None,
        lineage: BatchLineage | None = None,
        measured: RecordLatencies | None = None,
        window_seconds: float = 15.0,
        batches_kept: int = 10_000,
        records_kept: int = 5_000_000,
    ) -> None:
        if (above is not None and measured is not None) or (above is None) != (lineage is None):
            raise ValueError("give `above` and `lineage`, or `measured`, or none of them")
        self._above = above
        self._lineage = lineage
        self._partial = lineage if isinstance(lineage, PartialLineage) else None
        self._measured = measured
        self._batches_kept, self._records_kept = batches_kept, records_kept
        self._batches: OrderedDict[int, tuple[BatchProgress, float]] = OrderedDict()
        """With the instant since when what was sent is of that batch."""
        self._first_arrivals: OrderedDict[int, FloatArray] = OrderedDict()
        """When the records of each batch arrived at the pipeline, as far as that is known."""
        self._records = 0
        self._ends: deque[tuple[float, int]] = deque(maxlen=batches_kept)
        """When each batch ended, in order."""
        self._latency = LatencyTracker(window_seconds)
        self._early: deque[tuple[BatchProgress, float]] = deque(maxlen=batches_kept)
        """Batches done before the ones above that sent their records were, with the newest end above at the time."""
        self._new: deque[DoneRecords] = deque(maxlen=batches_kept)
        """What was counted since somebody last took it."""
        self._lost = 0
        self._below: list[PathMonitor] = []
        self._taken: deque[int] = deque(maxlen=_READ_AGAIN)
        """The first batch above of each of the newest batches that were counted."""
        if above is not None:
            above._below.append(self)

    def add(self, batch: BatchProgress, arrivals: FloatArray | None) -> None:
        """Take note of a finished batch and of when its records arrived at this operator; None: that is not known."""
        if self._measured is not None:
            return
        # One that is run again under its number goes on with what it has sent.
        _, since = self._batches.get(batch.batch_id) or (batch, self._ends[-1][0] if self._ends else batch.started_at)
        self._batches[batch.batch_id] = batch, since
        self._ends.append((batch.ended_at, batch.batch_id))
        while len(self._batches) > self._batches_kept:
            self._batches.popitem(last=False)
        if self._above is None and arrivals is not None:
            self._remember(batch.batch_id, arrivals)
        self._count_early()
        if batch.rows > 0:
            self._count(batch)
        self._forget()

    def batches_between(self, first: float, last: float) -> list[int] | None:
        """The batches that sent what was sent from `first` to `last`; None while the last of them is not done.

        What was sent at an instant was sent by the first batch to end after it: batches run one after another, and
        a batch that was cut off by a crash is run again under its number.
        """
        if not self._ends or self._ends[-1][0] < last:
            return None
        ends = [end for end, _ in self._ends]
        numbers = [number for _, number in self._ends]
        return numbers[bisect_left(ends, first) : bisect_left(ends, last) + 1]

    @property
    def newest_end(self) -> float:
        """When its newest batch ended."""
        return self._ends[-1][0] if self._ends else -math.inf

    @property
    def unknown_batches(self) -> int:
        """Batches of which it is not known, or not yet, when their records arrived."""
        return self._lost + len(self._early)

    def _count(self, batch: BatchProgress) -> None:
        arrivals = self.first_arrivals(batch.batch_id)
        if arrivals is not None:
            self._take(batch, arrivals)
        elif self._above is not None:
            self._early.append((batch, self._above.newest_end))
        else:
            self._lost += 1

    def _count_early(self) -> None:
        """Count the batches that were done before those above; a second look above is the last."""
        while self._early and self._above is not None and self._above.newest_end > self._early[0][1]:
            batch, _ = self._early.popleft()
            arrivals = self.first_arrivals(batch.batch_id)
            if arrivals is not None:
                self._take(batch, arrivals)
            elif self._above.newest_end < batch.ended_at:  # the one it waits for may still run
                self._early.appendleft((batch, self._above.newest_end))
                return
            else:
                self._lost += 1

    def _take(self, batch: BatchProgress, arrivals: FloatArray) -> None:
        self._latency.count(batch.ended_at, arrivals)
        self._new.append(DoneRecords(arrivals, np.maximum(batch.ended_at - arrivals, 0.0)))
        is_oldest = not self._early or batch.batch_id < self._early[0][0].batch_id
        if is_oldest and (above := [n for source in batch.sources for n in self._batches_above(source) or ()]):
            self._taken.append(min(above))

    def _forget(self) -> None:
        """Forget the batches that no operator below will ask for, and no early one of this."""
        waiting = self._early[0][0].batch_id if self._early else math.inf
        first = min([waiting, *(below._first_needed for below in self._below)])
        for batch_id in [n for n in self._batches if n < first]:
            del self._batches[batch_id]
        for batch_id in [n for n in self._first_arrivals if n < first]:
            self._records -= len(self._first_arrivals.pop(batch_id))

    @property
    def _first_needed(self) -> float:
        """The oldest batch above that may still be asked for."""
        return min(self._taken) if len(self._taken) == _READ_AGAIN else -math.inf

    def since_last(self) -> DoneRecords | None:
        """The records that came to the end of this operator since this was last asked."""
        if self._measured is not None:
            return self._measured.since_last()
        found = DoneRecords.joined(tuple(self._new))
        self._new.clear()
        return found

    def first_arrivals(self, batch_id: int) -> FloatArray | None:
        """When the records of a batch arrived at the pipeline; None for a batch that is not remembered."""
        if batch_id in self._first_arrivals or self._above is None:
            return self._first_arrivals.get(batch_id)
        if batch_id not in self._batches:
            return None
        batch, _ = self._batches[batch_id]
        parts = [part for source in batch.sources if (part := self._from_above(source)) is not None]
        if not parts:
            return None
        arrivals = np.concatenate(parts)
        self._remember(batch_id, arrivals)
        return arrivals

    def _remember(self, batch_id: int, arrivals: FloatArray) -> None:
        known = self._first_arrivals.pop(batch_id, None)  # a batch that was cut off is run again under its number
        self._records += len(arrivals) - (0 if known is None else len(known))
        self._first_arrivals[batch_id] = arrivals
        while len(self._first_arrivals) > 1 and (
            self._records > self._records_kept or len(self._first_arrivals) > self._batches_kept
        ):
            self._records -= len(self._first_arrivals.popitem(last=False)[1])

    def latency_of_run(self) -> LatencySummary | None:
        """Latency of all records that came to the end of this operator."""
        if self._measured is not None:
            return self._measured.whole()
        self._count_early()
        return self._latency.whole()

    @property
    def steady_from(self) -> float | None:
        """Records that arrived at the pipeline earlier are those of the start-up; None: it is not over, and all are."""
        return self._latency.steady_from

    @steady_from.setter
    def steady_from(self, at: float) -> None:
        self._latency.steady_from = at

    def clock_was_set(self, seconds: float) -> None:
        """Begin the window anew, and move the end of the start-up with the wall clock."""
        self._latency.clock_was_set(seconds)

    def run_latency(self) -> RunLatency:
        """Latency of all records that came to the end of this operator, with those of the start-up apart."""
        if self._measured is not None:
            return RunLatency(self._measured.whole())
        self._count_early()
        return self._latency.run()

    def plain(self) -> dict[str, Any] | None:
        """What was counted, as plain data; None where nobody could go on from it."""
        lasting = self._latency if self._measured is None else self._measured
        return lasting.plain() if isinstance(lasting, LastingLatencies | LatencyTracker) else None

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what another controller of the same run has counted; raises as `LatencyTracker.restore`."""
        lasting = self._latency if self._measured is None else self._measured
        if isinstance(lasting, LastingLatencies | LatencyTracker):
            lasting.restore(kept)

    def latency_with_waiting(self, arrivals: FloatArray, at: float) -> LatencySummary | None:
        """Latency of the run with records that still wait, each with its wait so far: a lower bound, so not exact.

        Where latency is measured it is given as it is: which records still wait is known only once a checkpoint.
        """
        if self._measured is not None:
            return self._measured.whole()
        self._latency.count(at, arrivals, is_exact=False, why=_STILL_WAITED)
        return self._latency.whole()

    def latency(self, now: float) -> LatencySummary | None:
        """Latency of those that came in the last window."""
        if self._measured is not None:
            return self._measured.window(now)
        return self._latency.window(now)

    def _from_above(self, source: SourceProgress) -> FloatArray | None:
        assert self._above is not None
        batches = self._batches_above(source)
        if batches is None:
            return None
        parts = [part for b in batches if (part := self._read_of(source, b)) is not None]
        return np.concatenate(parts) if parts else None

    def _read_of(self, source: SourceProgress, batch_above: int) -> FloatArray | None:
        """First arrivals of as many of a batch's records above as were read; None: they are not known, or none was."""
        assert self._above is not None
        arrivals = self._above.first_arrivals(batch_above)
        known = self._above._batches.get(batch_above)
        if arrivals is None or known is None or self._partial is None:
            return arrivals
        batch, since = known
        part = self._partial.part_read(source, since, batch.ended_at)
        if part is None or part == 1.0 or len(arrivals) == 0:
            return arrivals
        if part == 0.0:
            return None
        count = math.ceil(part * len(arrivals) - _HAIR)  # up, so that all pieces together have them all
        read: FloatArray = arrivals[((np.arange(count) + 0.5) * len(arrivals) / count).astype(np.int64)]
        return read

    def _batches_above(self, source: SourceProgress) -> list[int] | None:
        return None if self._lineage is None else self._lineage.upstream_batches(source)
