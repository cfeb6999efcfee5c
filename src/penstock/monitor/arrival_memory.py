# SPDX-License-Identifier: Apache-2.0
"""How many records arrived in each moment of the last minutes, in a bounded place however fast they come.

A window of so many inter-arrival times is over within seconds when records come fast: 20,000 of them are forty seconds
of a lull and three of a peak. What batches have to be ready for is a matter of minutes. Batches hardly notice when
within a fiftieth of a second a record came, so counts of such moments are enough to replay them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

_MOMENT_SECONDS = 0.02
"""Much shorter than any batch."""
_MOST_POINTS = 20_000
"""Of a replay: beyond that, one stands for several records."""


@dataclass(frozen=True, eq=False)
class RememberedArrivals:
    """When records came, oldest first, counted in seconds from the first moment that is remembered.

    Attributes
    ----------
    times
        Rising.
    records_each
        How many records each of them stands for.
    """

    times: FloatArray
    records_each: int


class ArrivalMemory:
    """Counts of arrivals over the last so many seconds.

    Examples
    --------
    >>> memory = ArrivalMemory(60.0)
    >>> memory.add_times([0.0, 0.5, 30.0, 59.0, 70.0])
    >>> memory.recall().times.round().tolist()  # what came before the last minute is gone
    [20.0, 49.0, 60.0]
    """

    def __init__(self, seconds: float) -> None:
        if not _MOMENT_SECONDS < seconds <= 86_400.0:
            raise ConfigurationError(f"look_back: {seconds!r} s is not between a moment and a day", field="look_back")
        self._counts = np.zeros(round(seconds / _MOMENT_SECONDS), dtype=np.int64)
        self._first: int | None = None
        """The oldest moment that is remembered; None: nothing has arrived."""
        self._newest = 0
        self._shift = 0.0
        """What interruptions took: no time passes in them."""
        self._is_interrupted = False
        self._lock = threading.Lock()

    def add_times(self, times: npt.ArrayLike) -> None:
        """Take in the instants of new arrivals, in seconds; one before the newest counts as arriving with it."""
        new = np.asarray(times, dtype=np.float64).ravel()
        if not new.size:
            return
        with self._lock:
            if self._first is None:
                self._first = self._newest = int(new[0] // _MOMENT_SECONDS)
            elif self._is_interrupted:
                self._shift = float(new[0]) - self._newest * _MOMENT_SECONDS
            self._is_interrupted = False
            moments = np.maximum(((new - self._shift) // _MOMENT_SECONDS).astype(np.int64), self._newest)
            self._move_on(int(moments.max()))
            kept = moments[moments > self._newest - self._counts.size]
            np.add.at(self._counts, kept % self._counts.size, 1)

    def _move_on(self, newest: int) -> None:
        """Forget the moments whose places are needed."""
        passed = newest - self._newest
        if passed >= self._counts.size:
            self._counts[:] = 0
        elif passed:
            self._counts[np.arange(self._newest + 1, newest + 1) % self._counts.size] = 0
        self._newest = newest

    def interrupt(self) -> None:
        """Say that arrivals may have been missed: the time up to the next one does not count."""
        with self._lock:
            self._is_interrupted = self._first is not None

    def recall(self) -> RememberedArrivals:
        """What is remembered now, in a bounded number of points."""
        with self._lock:
            if self._first is None:
                return RememberedArrivals(np.empty(0), 1)
            size = min(self._newest - self._first + 1, self._counts.size)
            counts = self._counts[np.arange(self._newest - size + 1, self._newest + 1) % self._counts.size]
        total = int(counts.sum())
        each = max(1, -(-total // _MOST_POINTS))
        # The middle record of each group, as if those of a moment came evenly.
        passed = np.concatenate([[0.0], np.cumsum(counts)])
        edges = _MOMENT_SECONDS * np.arange(size + 1)
        middle = each * (np.arange(total // each) + 0.5)
        return RememberedArrivals(np.interp(middle, passed, edges), each)
