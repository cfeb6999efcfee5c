# SPDX-License-Identifier: Apache-2.0
"""The interface of every description of arrivals: a file, a formula or a random process."""

from __future__ import annotations

from typing import Protocol

from penstock.ports import FloatArray


class Arrivals(Protocol):
    """A finite sequence of arrival times, in seconds from time zero.

    Times never fall. `times` can be called for any range, in any order and in any process, and always returns the same
    numbers. ``count_until(t)`` is exactly the number of times at or before `t`.
    """

    @property
    def total(self) -> int:
        """The number of records."""
        ...

    @property
    def duration_seconds(self) -> float:
        """Seconds from time zero to the end."""
        ...

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t` seconds after time zero."""
        ...

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive, in seconds from time zero."""
        ...


def check_range(start: int, stop: int, total: int) -> None:
    """Raise IndexError if [`start`, `stop`) is not a range of records."""
    if not 0 <= start <= stop <= total:
        raise IndexError(f"records {start} to {stop} are outside 0 to {total}")
