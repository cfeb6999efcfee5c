# SPDX-License-Identifier: Apache-2.0
"""A section of other arrivals, by number or by time, with its own time zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.arrivals.contract import Arrivals, check_range
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray


@dataclass(frozen=True)
class Cut:
    """The records `start` to `stop` (not included), their times counted from `zero` (Arrivals).

    Examples
    --------
    >>> from penstock.arrivals import Trace
    >>> Cut(Trace([1.0, 4.0, 6.0]), 1, 3, zero=3.0, end=6.0).times(0, 2).tolist()
    [1.0, 3.0]
    """

    arrivals: Arrivals
    start: int
    stop: int
    zero: float
    end: float

    def __post_init__(self) -> None:
        if not self.start < self.stop:
            raise ConfigurationError(
                f"cut: the range has none of {self.arrivals.total} records in {self.arrivals.duration_seconds:g} s; "
                "give a wider range",
                field="cut",
            )
        check_range(self.start, self.stop, self.arrivals.total)

    @classmethod
    def by_number(cls, arrivals: Arrivals, start: int = 0, stop: int | None = None) -> Cut:
        """Return the records from `start` to `stop`. Time zero is the first of them."""
        stop = arrivals.total if stop is None else min(stop, arrivals.total)
        if not 0 <= start < stop:
            return cls(arrivals, start, start, 0.0, 0.0)
        return cls(
            arrivals, start, stop, float(arrivals.times(start, start + 1)[0]), float(arrivals.times(stop - 1, stop)[0])
        )

    @classmethod
    def by_time(cls, arrivals: Arrivals, start: float = 0.0, stop: float | None = None) -> Cut:
        """Return the records after `start` and up to `stop` seconds (all from time 0 on). Time zero is `start`."""
        end = arrivals.duration_seconds if stop is None else min(stop, arrivals.duration_seconds)
        first = arrivals.count_until(start) if start > 0 else 0
        return cls(arrivals, first, max(first, arrivals.count_until(end)), start, max(start, end))

    @property
    def total(self) -> int:
        """The number of records."""
        return self.stop - self.start

    @property
    def duration_seconds(self) -> float:
        """Seconds from its time zero to its end."""
        return self.end - self.zero

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        count = min(max(self.arrivals.count_until(t + self.zero), self.start), self.stop) - self.start
        # Rounding of the sum may put `t` on the other side of a record: the times decide.
        while count < self.total and self.times(count, count + 1)[0] <= t:
            count += 1
        while count > 0 and self.times(count - 1, count)[0] > t:
            count -= 1
        return count

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        times: FloatArray = np.maximum(self.arrivals.times(self.start + start, self.start + stop) - self.zero, 0.0)
        return times
