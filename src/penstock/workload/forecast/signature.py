# SPDX-License-Identifier: Apache-2.0
"""A series that repeats itself: what it was at the same phase of its newest cycles.

PRESS calls the mean cycle a signature. Where a series lies above its signature now, it will still lie above it for a
while: a share of the present deviation is added. The share is that of the history, for each horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import lfilter

from penstock.ports import FloatArray
from penstock.workload.forecast.contract import SIGNATURE
from penstock.workload.forecast.period import find_period
from penstock.workload.forecast.readings import interpolated

_MOST_CYCLES = 6
"""Older cycles say less of the next one."""
_MOST_MISSING = 0.25
_CLOCK = (60.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 21_600.0, 43_200.0, 86_400.0, 604_800.0)
_SMOOTHING = 0.25
"""Weight of the newest reading in the present deviation."""


class Signature:
    """Forecasts by the mean of the same phase (:class:`penstock.workload.forecast.contract.Method`).

    Parameters
    ----------
    period_seconds
        From one reading to the next: people's loads follow the clock.
    """

    name = SIGNATURE

    def __init__(self, period_seconds: float) -> None:
        self._likely = tuple(seconds / period_seconds for seconds in _CLOCK)
        self.period: float | None = None
        """After how many readings the series repeats itself. None: it does not."""
        self._index = 0
        self._cycle: FloatArray = np.empty(0)
        self._shares: dict[int, float] = {}
        self._deviation = 0.0

    def take(self, value: float | None) -> None:
        """Go on by one reading."""
        self._index += 1
        if value is not None and self.period is not None:
            self._deviation += _SMOOTHING * (value - self._at(self._index) - self._deviation)

    def ahead(self, steps: int) -> float | None:
        """Forecast by the same phase of earlier cycles."""
        share = self._shares.get(steps)
        if self.period is None or share is None:
            return None
        return self._at(self._index + steps) + share * self._deviation

    def refit(self, readings: FloatArray, horizons: Sequence[int]) -> None:
        """Look for the period, and average the newest cycles."""
        known = np.isfinite(readings)
        self._shares = {}
        enough = known.mean() >= 1.0 - _MOST_MISSING
        self.period = find_period(interpolated(readings), self._likely) if enough else None
        if self.period is None:
            return
        newest = min(readings.size, int(_MOST_CYCLES * self.period))
        values, known = readings[-newest:], known[-newest:]
        phases = _phases(self._index - newest + 1 + np.arange(newest), self.period)
        bins = round(self.period)
        counts = np.bincount(phases[known], minlength=bins)
        sums = np.bincount(phases[known], weights=values[known], minlength=bins)
        seen = np.flatnonzero(counts)
        means = sums[seen] / counts[seen]
        self._cycle = means if seen.size == bins else np.interp(np.arange(bins), seen, means, period=bins)
        deviations = np.where(known, values - self._cycle[phases], 0.0)
        smoothed = lfilter([_SMOOTHING], [1.0, _SMOOTHING - 1.0], deviations)
        self._deviation = float(smoothed[-1])
        for steps in horizons:
            if steps < newest:
                before, after = smoothed[:-steps], deviations[steps:]
                power = float(before @ before)
                self._shares[steps] = min(max(float(before @ after) / power, 0.0), 1.0) if power > 0.0 else 0.0
            else:
                self._shares[steps] = 0.0

    def _at(self, index: int) -> float:
        period = self.period
        if period is None:
            raise AssertionError("asked only where there is a period")
        size = self._cycle.size
        return float(self._cycle[int(index % period / period * size) % size])


def _phases(
    indices: np.ndarray[tuple[int], np.dtype[np.int64]], period: float
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    size = round(period)
    return (indices % period / period * size).astype(np.int64) % size
