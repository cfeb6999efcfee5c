# SPDX-License-Identifier: Apache-2.0
"""Thins out long series for a plot: least, most and mean of every bucket, so that no peak is lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal spans of time from `start` to `end`.

    Examples
    --------
    >>> buckets = Buckets(0.0, 10.0, 5)
    >>> buckets.seconds, buckets.starts()
    (2.0, [0.0, 2.0, 4.0, 6.0, 8.0])
    >>> buckets.thinned(np.array([0.0, 1.5, 9.9]), np.array([1.0, 9.0, np.nan])).most
    [9.0, None, None, None, None]
    """

    start: float
    end: float
    count: int

    @property
    def seconds(self) -> float:
        """How long one is."""
        return (self.end - self.start) / self.count

    def starts(self) -> list[float]:
        """When each begins."""
        return [self.start + i * self.seconds for i in range(self.count)]

    def thinned(self, at: FloatArray, values: FloatArray) -> Thinned:
        """Least, most and mean of the values in each; what is not known, or outside, counts for none.

        Parameters
        ----------
        at, values
            When each was read, rising, and what it was.
        """
        is_known = np.isfinite(values) & (at >= self.start) & (at < self.end)
        at, values = at[is_known], values[is_known]
        if not len(at):
            nothing: list[float | None] = [None] * self.count
            return Thinned(nothing, nothing, nothing)
        bucket = np.minimum(self.count - 1, ((at - self.start) / self.seconds).astype(np.int64))
        filled, first = np.unique(bucket, return_index=True)
        counts = np.diff(np.append(first, len(bucket)))
        columns = (
            np.minimum.reduceat(values, first),
            np.maximum.reduceat(values, first),
            np.add.reduceat(values, first) / counts,
        )
        return Thinned(*(self._spread(filled, column) for column in columns))

    def _spread(self, filled: npt.NDArray[np.int64], column: FloatArray) -> list[float | None]:
        spread: list[float | None] = [None] * self.count
        for i, value in zip(filled.tolist(), column.tolist(), strict=True):
            spread[i] = value
        return spread


@dataclass(frozen=True, slots=True)
class Thinned:
    """A series with one entry for each bucket; None where nothing is known."""

    least: list[float | None]
    most: list[float | None]
    mean: list[float | None]

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is known."""
        return all(value is None for value in self.mean)

    def plain(self) -> dict[str, list[float | None]]:
        """As the API gives it."""
        return {"min": self.least, "max": self.most, "mean": self.mean}
