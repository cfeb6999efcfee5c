# SPDX-License-Identifier: Apache-2.0
"""Generated load: a rate over time, which determines the arrival time of any record without a file.

Record i of a shape arrives when the cumulative count reaches i + 1. So arrivals are evenly spaced at each moment's
rate, and a shape of any length uses no memory. For random arrivals at the same rate see
:class:`penstock.arrivals.sampled.Sampled`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from penstock.arrivals.contract import check_range
from penstock.arrivals.profile import RateProfile
from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

# A raised cosine drawn by this many straight pieces is nowhere further than 0.02 % of its height from the curve.
_PIECES_OF_A_PEAK = 128


class Shape(ABC):
    """What all shapes share: computes counts and arrival times from a rate profile and a duration."""

    duration_seconds: float

    @property
    @abstractmethod
    def profile(self) -> RateProfile:
        """The rate over time."""

    @property
    @abstractmethod
    def rates(self) -> tuple[tuple[str, float], ...]:
        """Every rate of the shape, by the name of its field."""

    @cached_property
    def expected_records(self) -> float:
        """The cumulative count at the end, before it is rounded down."""
        return self.profile.cumulative(self.duration_seconds)

    @cached_property
    def total(self) -> int:
        """The number of records."""
        # The margin keeps 0.1/s for 30 s at 3 records although 0.1 has no exact double.
        return math.floor(self.expected_records * (1 + 1e-12) + 1e-9)

    def cumulative(self, t: float) -> float:
        """Return the expected count after `t` seconds. It stays constant after the end."""
        return self.profile.cumulative(min(t, self.duration_seconds))

    def inverse(self, counts: FloatArray) -> FloatArray:
        """Return the times at which the cumulative count reaches each of `counts`, none after the end."""
        times: FloatArray = np.minimum(self.profile.inverse(counts), self.duration_seconds)
        return times

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        return self.inverse(np.arange(start + 1, stop + 1, dtype=np.float64))

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        if t < 0:
            return 0
        count = min(math.floor(self.cumulative(t)), self.total)
        # The formulas of the count and of its inverse round apart by at most a record: the times decide.
        while count > 0 and self._time_of(count - 1) > t:
            count -= 1
        while count < self.total and self._time_of(count) <= t:
            count += 1
        return count

    def _time_of(self, record: int) -> float:
        return float(self.times(record, record + 1)[0])

    def _check(self) -> None:
        if not (math.isfinite(self.duration_seconds) and self.duration_seconds > 0):
            raise ConfigurationError(
                f'duration: {self.duration_seconds!r} is not a positive time; write it like "5m"', field="duration"
            )
        for field, rate in self.rates:
            if not (math.isfinite(rate) and rate >= 0):
                raise ConfigurationError(
                    f'{field}: {rate!r} is not a rate; write records per second, like "500/s"', field=field
                )
        if not any(rate > 0 for _, rate in self.rates) or self.total < 1:
            raise ConfigurationError(
                f"duration: no record arrives within {self.duration_seconds:g} s at these rates; "
                "give a higher rate or a longer duration",
                field="duration",
            )


@dataclass(frozen=True)
class Constant(Shape):
    """A constant rate.

    Examples
    --------
    >>> Constant(rate=2.0, duration_seconds=2.0).times(0, 4).tolist()
    [0.5, 1.0, 1.5, 2.0]
    """

    rate: float
    duration_seconds: float

    def __post_init__(self) -> None:
        self._check()

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """The rate, by the name of its field."""
        return (("rate", self.rate),)

    @cached_property
    def profile(self) -> RateProfile:
        """One level piece."""
        return RateProfile([(self.duration_seconds, self.rate, self.rate)])


@dataclass(frozen=True)
class Periodic(Shape):
    """A base rate with a peak in the middle of each period.

    Parameters
    ----------
    base, peak
        Records per second away from the peak and at its top.
    period_seconds, width_seconds
        From peak to peak, and from the peak's first rise to its end.
    smooth
        A peak that rises and falls as a raised cosine; False: as an edge, staying at `peak` for the whole width.
    """

    base: float
    peak: float
    period_seconds: float
    width_seconds: float
    duration_seconds: float
    smooth: bool = True

    def __post_init__(self) -> None:
        if not (math.isfinite(self.period_seconds) and self.period_seconds > 0):
            raise ConfigurationError(
                f'period: {self.period_seconds!r} is not a positive time; write it like "60s"', field="period"
            )
        if not 0 < self.width_seconds <= self.period_seconds:
            raise ConfigurationError(
                f"width: a peak of {self.width_seconds:g} s does not fit into a period of "
                f"{self.period_seconds:g} s; give a width above 0 and at most the period",
                field="width",
            )
        self._check()

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """Both rates, by the names of their fields."""
        return (("base", self.base), ("peak", self.peak))

    @cached_property
    def profile(self) -> RateProfile:
        """Base, peak, base."""
        aside = (self.period_seconds - self.width_seconds) / 2
        pieces = [(aside, self.base, self.base)]
        if self.smooth:
            step = self.width_seconds / _PIECES_OF_A_PEAK
            turn = 2 * np.pi * np.arange(_PIECES_OF_A_PEAK + 1) / _PIECES_OF_A_PEAK
            rates = (self.base + (self.peak - self.base) * (1 - np.cos(turn)) / 2).tolist()
            pieces += [(step, a, b) for a, b in pairwise(rates)]
        else:
            pieces.append((self.width_seconds, self.peak, self.peak))
        pieces.append((aside, self.base, self.base))
        return RateProfile(pieces)


@dataclass(frozen=True)
class Steps(Shape):
    """One constant rate after another. They repeat if the duration is longer than all of them.

    Parameters
    ----------
    steps
        ``(seconds, records per second)`` of each step.
    duration_seconds
        The total duration. `Steps.once` computes it.
    """

    steps: tuple[tuple[float, float], ...]
    duration_seconds: float

    def __post_init__(self) -> None:
        if not self.steps:
            raise ConfigurationError('steps: give at least one, such as "30s@500"', field="steps")
        for seconds, _ in self.steps:
            if not (math.isfinite(seconds) and seconds > 0):
                raise ConfigurationError(
                    f'steps: {seconds!r} is not a positive time; write a step like "30s@500"', field="steps"
                )
        self._check()

    @classmethod
    def once(cls, steps: Sequence[tuple[float, float]]) -> Steps:
        """Return a shape with each step once."""
        return cls(tuple(steps), math.fsum(seconds for seconds, _ in steps))

    @property
    def rates(self) -> tuple[tuple[str, float], ...]:
        """The rate of each step."""
        return tuple(("steps", rate) for _, rate in self.steps)

    @cached_property
    def profile(self) -> RateProfile:
        """A level piece for each step."""
        return RateProfile([(seconds, rate, rate) for seconds, rate in self.steps])
