# SPDX-License-Identifier: Apache-2.0
"""Thins out long series for a plot: least, most and mean of every bucket, so that no peak is lost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal spans of time from `start` to `end`.

    Examples
    --------
    >>> buckets = Buckets(0.0, 10.0, 5)
    >>> buckets.seconds, buckets.starts()
    (2.0, [0.0, 2.0, 4.0, 6.0, 8.0])
    >>> buckets.thinned([(0.0, 1.0), (1.5, 9.0), (9.9, None)]).most
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

    def thinned(self, values: Iterable[tuple[float, float | None]]) -> Thinned:
        """Least, most and mean of the values in each; what is not known, or outside, counts for none."""
        least: list[float | None] = [None] * self.count
        most: list[float | None] = [None] * self.count
        sums, counts = [0.0] * self.count, [0] * self.count
        for at, value in values:
            if value is None or not math.isfinite(value) or not self.start <= at < self.end:
                continue
            i = min(self.count - 1, int((at - self.start) / self.seconds))
            low, high = least[i], most[i]
            least[i] = value if low is None else min(low, value)
            most[i] = value if high is None else max(high, value)
            sums[i] += value
            counts[i] += 1
        return Thinned(least, most, [s / n if n else None for s, n in zip(sums, counts, strict=True)])


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
