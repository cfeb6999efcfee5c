# SPDX-License-Identifier: Apache-2.0
"""What every description of arrivals can answer, whether it is a file, a formula or a random process."""

from __future__ import annotations

from typing import Protocol

from penstock.ports import FloatArray


class Arrivals(Protocol):
    """A finite sequence of arrival times, in seconds from time zero.

    Promises: times never fall; `times` may be asked for any range, in any order and in any process, and always
    gives the same numbers; ``count_until(t)`` is exactly the number of times at or before `t`.
    """

    @property
    def total(self) -> int:
        """How many records arrive in all."""
        ...

    @property
    def duration_seconds(self) -> float:
        """From time zero to the end."""
        ...

    def count_until(self, t: float) -> int:
        """How many records have arrived at `t` seconds after time zero."""
        ...

    def times(self, start: int, stop: int) -> FloatArray:
        """When the records `start` to `stop` (not included) arrive, in seconds from time zero."""
        ...


def check_range(start: int, stop: int, total: int) -> None:
    """Raise IndexError where [`start`, `stop`) is not a range of records."""
    if not 0 <= start <= stop <= total:
        raise IndexError(f"records {start} to {stop} are outside 0 to {total}")
