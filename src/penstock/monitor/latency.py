# SPDX-License-Identifier: Apache-2.0
"""Record latency: a batch's offset range says which arrivals it carried, its end says when they were done.

Every record counts, also those that waited while the query could not keep up (no coordinated omission). Means are
exact; percentiles come from logarithmic bins 0.07 % wide, so that memory stays bounded over any number of records.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock.monitor.kept_counts import packed_counts, unpacked_counts
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

    def plain(self) -> dict[str, Any]:
        """All counts as plain data, to be kept."""
        filled = np.flatnonzero(self._blocks)  # most blocks are empty, and need not be looked through
        inside = np.flatnonzero(self._counts.reshape(-1, _BLOCK)[filled])
        bins = filled[inside // _BLOCK] * _BLOCK + inside % _BLOCK
        return {"counts": packed_counts(bins, self._counts[bins]), "sum_seconds": self._sum_seconds}

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> LatencyHistogram:
        """The histogram that `plain` gave; raises ValueError where it is none."""
        made, sum_seconds = cls(), float(kept["sum_seconds"])
        if not 0.0 <= sum_seconds < math.inf:
            raise ValueError(f"latencies cannot add up to {sum_seconds}")
        made._counts = unpacked_counts(str(kept["counts"]), _BINS)
        made._blocks = made._counts.reshape(-1, _BLOCK).sum(axis=1)
        made.records, made._sum_seconds = int(made._counts.sum()), sum_seconds
        return made


@dataclass(frozen=True, slots=True)
class HistogramPart:
    """The latencies of one batch, as few numbers as they fill bins."""

    bins: NDArray[np.int64]
    counts: NDArray[np.int64]
    records: int
    sum_seconds: float

    @classmethod
    def of(cls, latencies: FloatArray, each: int = 1) -> HistogramPart:
        """Sort latencies, each of so many records, into bins; a negative one (clocks apart) counts as the lowest."""
        clipped = np.maximum(latencies, _LOWEST_SECONDS)
        index = (np.log2(clipped / _LOWEST_SECONDS) * _BINS_PER_OCTAVE).astype(np.int64)
        bins, counts = np.unique(np.minimum(index, _BINS - 1), return_counts=True)
        sum_seconds = each * float(np.maximum(latencies, 0.0).sum())
        return cls(bins, each * counts.astype(np.int64), each * len(latencies), sum_seconds)


_INTERPOLATED = "arrival times were interpolated"
_INSTANTS = ("steady_from", "counted_to")


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
        self._newest_end = -math.inf
        self._counted_to = -math.inf
        """Records that were done by then have been counted by the one that this goes on from."""
        self._is_clock_set = False
        """Since the last end: `_newest_end` is then what it would be by the clock as it is now."""

    def count(
        self, ended_at: float, arrivals: FloatArray, *, is_exact: bool = True, why: str = "", each: int = 1
    ) -> None:
        """Count records that arrived at `arrivals`, `each` at once, and were done at `ended_at`; not exact: `why`."""
        if len(arrivals) == 0:
            return
        inexact = "" if is_exact else why or _INTERPOLATED
        part = HistogramPart.of(ended_at - arrivals, each)
        self._window.append((ended_at, part, inexact))
        self._recent.add(part)
        self._forget(ended_at)  # here too: nobody may ever ask for the window
        if ended_at <= self._counted_to:
            return
        # After the clock was set, the next end shows whether what ends goes by that clock.
        self._newest_end = ended_at if self._is_clock_set else max(self._newest_end, ended_at)
        self._is_clock_set = False
        late = arrivals >= (np.inf if self.steady_from is None else self.steady_from)
        if late.all():
            self._steady.add(part, inexact)
        elif not late.any():
            self._start_up.add(part, inexact)
        else:
            self._steady.add(HistogramPart.of(ended_at - arrivals[late], each), inexact)
            self._start_up.add(HistogramPart.of(ended_at - arrivals[~late], each), inexact)

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
        # What is reported a second time comes first: after something new, nothing needs to be told from it any more.
        self._counted_to = -math.inf if self._newest_end > self._counted_to else self._counted_to + seconds
        self._newest_end += seconds
        self._is_clock_set = True

    def plain(self) -> dict[str, Any]:
        """What was counted since the run began, as plain data: another one can go on from it."""
        newest = max(self._newest_end, self._counted_to)
        return {
            "start_up": self._start_up.plain(),
            "steady": self._steady.plain(),
            "steady_from": self.steady_from,
            "counted_to": newest if math.isfinite(newest) else None,
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what another one has counted of the same run; the window begins anew.

        What was done before the newest record that is kept is not counted again: it may be reported a second time.

        Raises
        ------
        ValueError, KeyError, TypeError
            That is not what `plain` gives; nothing was changed.
        """
        start_up, steady = _Part.restored(kept["start_up"]), _Part.restored(kept["steady"])
        steady_from, counted_to = (None if kept[name] is None else float(kept[name]) for name in _INSTANTS)
        self._start_up, self._steady, self.steady_from = start_up, steady, steady_from
        self._counted_to = -math.inf if counted_to is None else counted_to

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

    def plain(self) -> dict[str, Any]:
        return {**self.histogram.plain(), "inexact": self.inexact}

    @classmethod
    def restored(cls, kept: Mapping[str, Any]) -> _Part:
        made = cls()
        made.histogram, made.inexact = LatencyHistogram.restored(kept), str(kept["inexact"])
        return made
