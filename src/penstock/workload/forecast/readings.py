# SPDX-License-Identifier: Apache-2.0
"""The newest readings of a series in bounded memory, and equally spaced readings from values at any times."""

from __future__ import annotations

import math

import numpy as np

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.units import number, positive_seconds


class Readings:
    """A ring of the newest readings. A missing one is NaN in it."""

    def __init__(self, capacity: int) -> None:
        self._ring: FloatArray = np.full(capacity, np.nan)
        self.taken = 0
        """How many readings there were in all."""

    def append(self, value: float) -> None:
        """Add a reading. The oldest goes."""
        self._ring[self.taken % self._ring.size] = value
        self.taken += 1

    def __len__(self) -> int:
        return min(self.taken, self._ring.size)

    def oldest_first(self) -> FloatArray:
        """Return a copy."""
        if self.taken <= self._ring.size:
            return self._ring[: self.taken].copy()
        start = self.taken % self._ring.size
        return np.concatenate([self._ring[start:], self._ring[:start]])


def carried_forward(readings: FloatArray) -> FloatArray:
    """Fill missing readings with the last known one (those at the beginning with the first known one)."""
    known = np.isfinite(readings)
    if known.all():
        return readings
    at = np.where(known, np.arange(readings.size), 0)
    np.maximum.accumulate(at, out=at)
    at[: int(np.argmax(known))] = int(np.argmax(known))
    filled: FloatArray = readings[at]
    return filled


def interpolated(readings: FloatArray) -> FloatArray:
    """Fill missing readings along straight lines between the known ones."""
    known = np.isfinite(readings)
    if known.all():
        return readings
    at = np.arange(readings.size)
    filled: FloatArray = np.interp(at, at[known], readings[known])
    return filled


class EvenReadings:
    """Equally spaced readings from values at any times: the mean of each period, None where there was no value.

    Parameters
    ----------
    period_seconds
        From one reading to the next.
    most
        Most readings that one call returns. A longer silence is shortened to so many missing readings.

    Examples
    --------
    >>> even = EvenReadings(10.0)
    >>> even.feed(0.0, 4.0), even.feed(6.0, 6.0), even.feed(12.0, 8.0), even.feed(43.0, None)
    ([], [], [5.0], [8.0, None, None])
    """

    def __init__(self, period_seconds: float, *, most: int = 4096) -> None:
        self.period_seconds = positive_seconds("period_seconds", period_seconds)
        self._most = most
        self._now: int | None = None
        self._sum, self._count = 0.0, 0

    def feed(self, at_seconds: float, value: float | None) -> list[float | None]:
        """Take a value, and return the readings of the periods that have ended by then, oldest first.

        Raises
        ------
        ConfigurationError
            The time is before that of an earlier period, or the value is not a finite number.
        """
        period = math.floor(number("at_seconds", at_seconds) / self.period_seconds)
        if self._now is not None and period < self._now:
            raise ConfigurationError(
                f"at_seconds: {at_seconds} is before the period that began at {self._now * self.period_seconds:g}; "
                "feed values in the order of their times",
                field="at_seconds",
            )
        ended: list[float | None] = []
        if self._now is not None and period > self._now:
            ended = [self._sum / self._count if self._count else None]
            ended += [None] * min(period - self._now - 1, self._most - 1)
            self._sum, self._count = 0.0, 0
        self._now = period
        if value is not None:
            self._sum += number("value", value)
            self._count += 1
        return ended
