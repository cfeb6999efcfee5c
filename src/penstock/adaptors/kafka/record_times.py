# SPDX-License-Identifier: Apache-2.0
"""The timestamps of one partition's newest records by offset: two integers per record, oldest forgotten first.

Offsets can have holes without a record (compaction, transaction markers), and holes count nothing. They differ from
records that were not read because the tap samples: those are interpolated between their neighbours.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.ports import FloatArray


@dataclass(frozen=True, slots=True)
class RangeTimes:
    """Arrival times of the records of an offset range, in seconds. `is_exact` is False if some were interpolated."""

    seconds: FloatArray
    is_exact: bool


class RecordTimes:
    """The known records of a partition, from `first` up to `position`.

    Parameters
    ----------
    first
        The offset from which on the partition is read.
    capacity
        Most records kept.
    since
        The instant when `first` was the next record to come; None: it is the partition's very first.
    """

    def __init__(self, first: int, capacity: int, since: float | None = None) -> None:
        self.first = first
        """The oldest offset that an answer can cover."""
        self.position = first
        """The next offset to read: all below it are known, forgotten or skipped."""
        self._since = since
        self._has_forgotten = False
        self._capacity = capacity
        # Twice the capacity: the records kept move along, and are copied to the front once per capacity of records.
        self._offsets: NDArray[np.int64] = np.empty(2 * capacity, dtype=np.int64)
        self._times_ms: NDArray[np.int64] = np.empty(2 * capacity, dtype=np.int64)
        self._start = self._stop = 0
        self._skipped: deque[tuple[int, int]] = deque()

    @property
    def newest_at(self) -> float | None:
        """The newest record's time in seconds, or None if none is known."""
        return None if self._start == self._stop else float(self._times_ms[self._stop - 1]) / 1e3

    @property
    def known_to(self) -> int:
        """Up to where an answer is possible: a skipped stretch needs a record behind it."""
        is_open = self._skipped and self._skipped[-1][1] == self.position
        return self._skipped[-1][0] if is_open else self.position

    def add(self, offsets: Sequence[int], times_ms: Sequence[int]) -> None:
        """Add records in the order of their offsets.

        Producers' clocks differ. A time before that of the preceding record is raised to it, because a partition
        takes its records in order.
        """
        new_offsets = np.asarray(offsets, dtype=np.int64)
        new_times = np.asarray(times_ms, dtype=np.int64)
        keep = new_offsets >= self.position  # read twice after a reconnection
        new_offsets, new_times = new_offsets[keep], new_times[keep]
        if not new_offsets.size:
            return
        if self._stop > self._start:
            new_times = np.maximum(new_times, self._times_ms[self._stop - 1])
        new_times = np.maximum.accumulate(new_times)
        self.position = int(new_offsets[-1]) + 1
        self._append(new_offsets[-self._capacity :], new_times[-self._capacity :], int(new_offsets.size))

    def skip_to(self, offset: int) -> None:
        """Skip the records below `offset`."""
        if offset > self.position:
            self._skipped.append((self.position, offset))
            self.position = offset

    def between(self, start: int, end: int) -> RangeTimes | None:
        """Return the times of the records with start <= offset < end, or None if some are forgotten or not read yet."""
        if start < self.first or end > self.known_to:
            return None
        low, high = self._find(start), self._find(end)
        known = self._times_ms[low:high]
        unread = [(max(a, start), min(b, end)) for a, b in self._skipped if a < end and b > start]
        if not unread:
            return RangeTimes(known / 1e3, True)
        missing = np.concatenate([np.arange(a, b, dtype=np.int64) for a, b in unread])
        guessed = self._interpolate(missing)
        if guessed is None:
            return None
        return RangeTimes(np.sort(np.concatenate([known / 1e3, guessed])), False)

    def count_by(self, at: float) -> int | None:
        """Return the offset of the first record after `at`: how many have come up to then, including holes.

        None if that record is forgotten or not read yet. In a stretch that was skipped it is
        interpolated.
        """
        times = self._times_ms[self._start : self._stop]
        place = self._start + int(np.searchsorted(times, at * 1e3, side="right"))
        if place == self._stop:  # everything known came before: the caller must ask the broker about the rest
            return None
        after = int(self._offsets[place])
        if place == self._start:
            came_before = self._since is not None and at < self._since
            return None if self._has_forgotten or came_before else self.first
        before = int(self._offsets[place - 1])
        gaps = [(a, b) for a, b in self._skipped if before < b and a < after]
        if not gaps:
            return before + 1
        span = self._times_ms[place] - self._times_ms[place - 1]
        fraction = float((at * 1e3 - self._times_ms[place - 1]) / max(1, int(span)))
        return before + 1 + int((after - before - 1) * min(1.0, max(0.0, fraction)))

    def _find(self, offset: int) -> int:
        return self._start + int(np.searchsorted(self._offsets[self._start : self._stop], offset))

    def _interpolate(self, offsets: NDArray[np.int64]) -> FloatArray | None:
        around, times = self._offsets[self._start : self._stop], self._times_ms[self._start : self._stop]
        if self._since is not None and not self._has_forgotten:  # nothing came before the tap began
            around, times = np.append(self.first - 1, around), np.append(round(self._since * 1e3), times)
        if not around.size or offsets[-1] > around[-1] or offsets[0] < around[0]:
            return None  # a neighbour is missing on one side: not read yet, or forgotten
        seconds: FloatArray = np.interp(offsets, around, times) / 1e3
        return seconds

    def _append(self, offsets: NDArray[np.int64], times: NDArray[np.int64], seen: int) -> None:
        start = max(self._start, self._stop + offsets.size - self._capacity)
        if start > self._start or seen > offsets.size:  # drop the oldest
            forgotten_below = int(self._offsets[start]) if start < self._stop else int(offsets[0])
            self.first = max(self.first, forgotten_below)
            self._has_forgotten = True
            while self._skipped and self._skipped[0][1] <= self.first:
                self._skipped.popleft()
        self._start = start
        if self._stop + offsets.size > self._offsets.size:
            kept = slice(min(self._start, self._stop), self._stop)
            size = kept.stop - kept.start
            self._offsets[:size] = self._offsets[kept].copy()
            self._times_ms[:size] = self._times_ms[kept].copy()
            self._start, self._stop = 0, size
        self._offsets[self._stop : self._stop + offsets.size] = offsets
        self._times_ms[self._stop : self._stop + offsets.size] = times
        self._stop += offsets.size
