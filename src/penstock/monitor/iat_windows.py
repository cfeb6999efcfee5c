# SPDX-License-Identifier: Apache-2.0
"""The newest N_E inter-arrival times of a stream, and the windows that a workload is estimated from.

A tap or the replay source hands arrival times in as they come; an analysis takes a snapshot, which later arrivals do
not change. The base window is the whole buffer, each sub-window its newest N_E / 2, N_E / 4, ... times (MEAD, Sec.
IV-C). Both sides may be in threads of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray


@dataclass(frozen=True, eq=False)
class IatSnapshot:
    """The buffer at one instant.

    Attributes
    ----------
    iats
        Inter-arrival times in seconds, oldest first.
    sizes
        Lengths of the windows, longest first. While the buffer fills, windows longer than it are the whole of it, so
        there may be fewer than were asked for.
    newest_at
        Instant of the newest arrival; None: nothing has arrived.
    seen
        Inter-arrival times ever taken in.
    out_of_order
        Arrivals that came with a time before the newest one's; they count as arriving together with it.
    breaks
        How often the watch was interrupted; no inter-arrival time spans an interruption.
    """

    iats: FloatArray
    sizes: tuple[int, ...]
    newest_at: float | None
    seen: int
    out_of_order: int
    breaks: int

    @property
    def windows(self) -> tuple[FloatArray, ...]:
        """The windows, longest first; each is the newest part of the buffer."""
        return tuple(self.iats[self.iats.size - size :] for size in self.sizes)

    @property
    def shares(self) -> tuple[float, ...]:
        """Each window as a part of the buffer as it is now, above 0 and at most 1."""
        return tuple(size / self.iats.size for size in self.sizes)

    def silence_seconds(self, now: float) -> float | None:
        """How long nothing has arrived: the one interval no window can show. None: nothing ever has."""
        return None if self.newest_at is None else max(0.0, now - self.newest_at)


class IatWindows:
    """A ring buffer of inter-arrival times.

    Parameters
    ----------
    capacity
        Most times kept (N_E); the oldest go first.
    parts
        The windows as parts of the capacity.

    Examples
    --------
    >>> buffer = IatWindows(4, parts=(1.0, 0.5))
    >>> buffer.add_times([0.0, 1.0, 3.0, 3.5, 6.0, 7.0])
    >>> [window.tolist() for window in buffer.snapshot().windows]
    [[2.0, 0.5, 2.5, 1.0], [2.5, 1.0]]
    """

    def __init__(self, capacity: int = 50_000, parts: Sequence[float] = (1.0, 0.5)) -> None:
        if capacity < 2:
            raise ConfigurationError(f"capacity: {capacity} must be at least 2", field="capacity")
        if not parts or not all(0.0 < part <= 1.0 for part in parts):
            raise ConfigurationError(
                f"parts: {list(parts)} must each lie above 0 and at most at 1, such as (1.0, 0.5)", field="parts"
            )
        self._sizes = tuple(sorted({max(1, round(capacity * part)) for part in parts}, reverse=True))
        self._capacity = capacity
        # Twice the capacity: the window moves along, and is copied to the front once per capacity of arrivals.
        self._buffer = np.empty(2 * capacity)
        self._start = self._stop = 0
        self._newest_at: float | None = None
        self._is_interrupted = False
        self._seen = self._out_of_order = self._breaks = 0
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """Most times kept."""
        return self._capacity

    def add_times(self, times: npt.ArrayLike) -> None:
        """Take in the instants of new arrivals, in seconds since the epoch.

        Several partitions may be read by turns, so an instant may lie before one already known: it then counts as an
        arrival at the newest instant, which keeps the number of arrivals right, and stands in the snapshot.
        """
        new = _checked(times, "times")
        if not new.size:
            return
        with self._lock:
            base = new[0] if self._newest_at is None or self._is_interrupted else self._newest_at
            reached = np.maximum.accumulate(np.maximum(new, base))
            self._out_of_order += int(np.count_nonzero(new < reached))
            gaps = np.diff(reached, prepend=base)
            self._append(gaps if self._newest_at is not None and not self._is_interrupted else gaps[1:])
            self._newest_at = float(reached[-1])
            self._is_interrupted = False

    def add_iats(self, iats: npt.ArrayLike, newest_at: float | None = None) -> None:
        """Take in inter-arrival times as they are, in seconds; `newest_at` is the instant of the last arrival."""
        new = _checked(iats, "iats")
        if new.size and new.min() < 0:
            raise ConfigurationError(f"iats: {new.min():g} is negative", field="iats")
        with self._lock:
            self._append(new)
            if newest_at is not None:
                self._newest_at, self._is_interrupted = newest_at, False

    def interrupt(self) -> None:
        """Say that arrivals may have been missed: the time up to the next one is not taken for an interval."""
        with self._lock:
            if self._newest_at is not None and not self._is_interrupted:
                self._is_interrupted = True
                self._breaks += 1

    def snapshot(self) -> IatSnapshot:
        """The buffer as it is now."""
        with self._lock:
            iats = self._buffer[self._start : self._stop].copy()
            iats.flags.writeable = False
            sizes = tuple(dict.fromkeys(min(size, iats.size) for size in self._sizes)) if iats.size else ()
            return IatSnapshot(iats, sizes, self._newest_at, self._seen, self._out_of_order, self._breaks)

    def _append(self, gaps: FloatArray) -> None:
        self._seen += gaps.size
        gaps = gaps[-self._capacity :]
        self._start = max(self._start, self._stop + gaps.size - self._capacity)
        if self._stop + gaps.size > self._buffer.size:
            # `_start` may already lie beyond what is kept: then nothing of it stays.
            kept = self._buffer[self._start : self._stop].copy()
            self._buffer[: kept.size] = kept
            self._start, self._stop = 0, kept.size
        self._buffer[self._stop : self._stop + gaps.size] = gaps
        self._stop += gaps.size


def _checked(values: npt.ArrayLike, field: str) -> FloatArray:
    array = np.asarray(values, dtype=np.float64).ravel()
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        i = int(wrong[0])
        raise ConfigurationError(f"{field}[{i}] = {array[i]:g} is not finite; leave such records out", field=field)
    return array
