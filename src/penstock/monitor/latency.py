# SPDX-License-Identifier: Apache-2.0
"""Record latency: a batch's offset range says which arrivals it carried, its end says when they were done.

Every record counts, also those that waited while the query could not keep up (no coordinated omission). Means are
exact; percentiles come from logarithmic bins 0.07 % wide, so that memory stays bounded over any number of records.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ports import FloatArray
from penstock.records import LatencySummary, RunLatency

_BINS_PER_OCTAVE = 1024
_LOWEST_SECONDS = 2.0**-17  # about 8 microseconds: far below one micro-batch
_OCTAVES = 38  # up to about 24 days
_BINS = _BINS_PER_OCTAVE * _OCTAVES
_BLOCK = 64
"""So many bins are counted together as well: a percentile is looked for among the blocks, then in one of them."""


class LatencyHistogram:
    """Counts of latencies in logarithmic bins, with their exact sum beside them."""

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.zeros(_BINS, dtype=np.int64)
        self._blocks: NDArray[np.int64] = np.zeros(_BINS // _BLOCK, dtype=np.int64)
        self.records = 0
        self._sum_seconds = 0.0

    def add(self, part: HistogramPart, sign: int = 1) -> None:
        """Count a part in, or (sign -1) take it out again."""
        signed = sign * part.counts
        self._counts[part.bins] += signed
        np.add.at(self._blocks, part.bins // _BLOCK, signed)
        self.records += sign * part.records
        self._sum_seconds += sign * part.sum_seconds

    def quantiles(self, *probabilities: float, other: LatencyHistogram | None = None) -> list[float]:
        """For each probability: the latency that this fraction of the records does not exceed, of both histograms."""
        both = (self,) if other is None else (self, other)
        up_to = np.cumsum(sum(h._blocks for h in both))
        found = []
        for probability in probabilities:
            rank = max(1, int(np.ceil(probability * int(up_to[-1]))))
            block = int(np.searchsorted(up_to, rank))
            inside = slice(block * _BLOCK, (block + 1) * _BLOCK)
            before = int(up_to[block - 1]) if block else 0
            bin_ = inside.start + np.searchsorted(np.cumsum(sum(h._counts[inside] for h in both)), rank - before)
            # The middle of the bin, on the logarithmic scale.
            found.append(float(_LOWEST_SECONDS * 2.0 ** ((bin_ + 0.5) / _BINS_PER_OCTAVE)))
        return found

    def summary(self, inexact_because: str = "", other: LatencyHistogram | None = None) -> LatencySummary | None:
        """Mean, percentiles and maximum, of the records of both histograms; None without records."""
        records = self.records + (0 if other is None else other.records)
        if records == 0:
            return None
        p50, p95, p99, top = self.quantiles(0.50, 0.95, 0.99, 1.0, other=other)
        mean = max(0.0, (self._sum_seconds + (0.0 if other is None else other._sum_seconds)) / records)
        return LatencySummary(records, mean, p50, p95, p99, top, not inexact_because, inexact_because)


@dataclass(frozen=True, slots=True)
class HistogramPart:
    """The latencies of one batch, as few numbers as they fill bins."""

    bins: NDArray[np.int64]
    counts: NDArray[np.int64]
    records: int
    sum_seconds: float

    @classmethod
    def of(cls, latencies: FloatArray) -> HistogramPart:
        """Sort latencies into bins; a negative one (clocks apart) counts as the lowest bin."""
        clipped = np.maximum(latencies, _LOWEST_SECONDS)
        index = (np.log2(clipped / _LOWEST_SECONDS) * _BINS_PER_OCTAVE).astype(np.int64)
        bins, counts = np.unique(np.minimum(index, _BINS - 1), return_counts=True)
        return cls(bins, counts.astype(np.int64), len(latencies), float(np.maximum(latencies, 0.0).sum()))


_INTERPOLATED = "arrival times were interpolated"


class LatencyTracker:
    """Latency of an operator's records over a sliding window, over its start-up and over the time after.

    Parameters
    ----------
    window_seconds
        How far back the sliding window reaches.
    """

    def __init__(self, window_seconds: float) -> None:
        self._window_seconds = window_seconds
        self._window: deque[tuple[float, HistogramPart, str]] = deque()
        self._recent = LatencyHistogram()
        self._start_up, self._steady = _Part(), _Part()
        self.steady_from: float | None = None
        """Records that arrived earlier are those of the start-up; None: it is not over, and all are."""

    def count(self, ended_at: float, arrivals: FloatArray, *, is_exact: bool = True, why: str = "") -> None:
        """Count records that arrived at `arrivals` and were done at `ended_at`; not exact: `why`."""
        if len(arrivals) == 0:
            return
        inexact = "" if is_exact else why or _INTERPOLATED
        part = HistogramPart.of(ended_at - arrivals)
        self._window.append((ended_at, part, inexact))
        self._recent.add(part)
        late = arrivals >= (np.inf if self.steady_from is None else self.steady_from)
        if late.all():
            self._steady.add(part, inexact)
        elif not late.any():
            self._start_up.add(part, inexact)
        else:
            self._steady.add(HistogramPart.of(ended_at - arrivals[late]), inexact)
            self._start_up.add(HistogramPart.of(ended_at - arrivals[~late]), inexact)
        self._forget(ended_at)  # here too: nobody may ever ask for the window

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records done in the last `window_seconds`; None if none were."""
        self._forget(now)
        return self._recent.summary(next((why for _, _, why in self._window if why), ""))

    def whole(self) -> LatencySummary | None:
        """Latency of all records of the run."""
        why = self._start_up.inexact or self._steady.inexact
        return self._start_up.histogram.summary(why, other=self._steady.histogram)

    def run(self) -> RunLatency:
        """Latency of all records of the run, with those of the start-up apart."""
        return RunLatency(self.whole(), self._start_up.summary(), self._steady.summary(), self.steady_from)

    def clock_was_set(self, seconds: float) -> None:
        """Begin the window anew, and move the end of the start-up with the wall clock."""
        self._forget(float("inf"))
        if self.steady_from is not None:
            self.steady_from += seconds

    def _forget(self, now: float) -> None:
        while self._window and self._window[0][0] <= now - self._window_seconds:
            self._recent.add(self._window.popleft()[1], sign=-1)


class _Part:
    """Some records of a run, and why the arrival of one of them was not known, if it was not."""

    def __init__(self) -> None:
        self.histogram = LatencyHistogram()
        self.inexact = ""

    def add(self, part: HistogramPart, inexact: str) -> None:
        self.histogram.add(part)
        self.inexact = self.inexact or inexact

    def summary(self) -> LatencySummary | None:
        return self.histogram.summary(self.inexact)
