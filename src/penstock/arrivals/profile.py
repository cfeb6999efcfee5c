# SPDX-License-Identifier: Apache-2.0
"""A rate over time made of straight pieces, with its cumulative count and the inverse, both in closed form.

In a piece that starts at rate a and changes by s per second, the count after x seconds is a x + s x^2 / 2, and the
time at which the count reaches y is 2 y / (a + sqrt(a^2 + 2 s y)), a form of the root that loses no digits where
a or s is zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.ports import FloatArray

# In records. A count that passes the end of a piece by less counts as its end: the sums of areas round, and a
# record must not wait through a silence for the last digit.
_ROUNDING_RECORDS = 1e-6


class RateProfile:
    """A rate that runs through straight pieces and repeats them.

    Parameters
    ----------
    pieces
        ``(seconds, rate at the start, rate at the end)`` of each piece, rates in records per second.
    """

    def __init__(self, pieces: Sequence[tuple[float, float, float]]) -> None:
        lengths, first, last = (np.array(column, dtype=np.float64) for column in zip(*pieces, strict=True))
        keep = lengths > 0
        lengths, first, last = lengths[keep], first[keep], last[keep]
        self._starts = np.concatenate(([0.0], np.cumsum(lengths)))
        self._counts = np.concatenate(([0.0], np.cumsum(lengths * (first + last) / 2)))
        self._first = first
        self._slope = (last - first) / lengths
        self.period_seconds = float(self._starts[-1])
        self.records_per_period = float(self._counts[-1])

    def cumulative(self, t: float) -> float:
        """Return the expected count of records after `t` seconds."""
        if t <= 0:
            return 0.0
        periods, rest = divmod(t, self.period_seconds)
        piece = min(int(np.searchsorted(self._starts, rest, side="right")) - 1, len(self._first) - 1)
        x = rest - self._starts[piece]
        inside = self._counts[piece] + x * (self._first[piece] + self._slope[piece] * x / 2)
        return float(periods * self.records_per_period + inside)

    def inverse(self, counts: FloatArray) -> FloatArray:
        """Return the earliest times at which the cumulative count reaches each of `counts`, in seconds."""
        # ceil - 1, not floor: a count that ends a period belongs to that period, before any silence at its end.
        periods = np.maximum(np.ceil((counts - _ROUNDING_RECORDS) / self.records_per_period) - 1.0, 0.0)
        rest = np.clip(counts - periods * self.records_per_period, 0.0, self.records_per_period)
        piece = np.clip(
            np.searchsorted(self._counts, rest - _ROUNDING_RECORDS, side="left") - 1, 0, len(self._first) - 1
        )
        y = rest - self._counts[piece]
        a, s = self._first[piece], self._slope[piece]
        denominator = a + np.sqrt(np.maximum(a * a + 2 * s * y, 0.0))
        x = np.divide(2 * y, denominator, out=np.zeros_like(y), where=denominator > 0)
        inside = np.minimum(self._starts[piece] + x, self._starts[piece + 1])
        times: FloatArray = periods * self.period_seconds + inside
        return times
