# SPDX-License-Identifier: Apache-2.0
"""A weighted sum of the readings before: autoregression over a few scales of time.

A plain autoregression of order p sees p readings back. Forecasts for a minute ahead need minutes of readings, hence
many weights, which few readings cannot teach. Here the readings before enter as means with exponential weights, over
about 2, 8, 32 and 128 readings. The change until the horizon is regressed on how far the last reading lies above each.
For a trend these distances are constant, for a sine they are sines, for noise around a level they are the noise: all
are forecast by weights that stay the same.

The weights of each horizon are those of least squares, drawn towards 0, which is "as now": errors of forecasts h
readings ahead overlap, so n readings teach about as much as n / h.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import lfilter

from penstock.ports import FloatArray
from penstock.workload.forecast.contract import AUTOREGRESSION
from penstock.workload.forecast.readings import carried_forward

_SCALES = (2, 8, 32, 128)
_DRAWN = 2.0
"""How strongly weights are drawn towards 0: like this many horizons of readings in which nothing but noise was seen."""
_NEWEST = 4096
_NEWEST_HORIZONS = 16
_FEWEST = 24
_BEYOND = 1.0
"""How far beyond the readings seen a forecast may lie, in their range: a sum of odd readings may lie anywhere."""


class Autoregression:
    """Forecasts by a weighted sum of earlier readings (:class:`penstock.workload.forecast.contract.Method`)."""

    name = AUTOREGRESSION

    def __init__(self) -> None:
        self._means: list[float] | None = None
        self._last = 0.0
        self._weights: dict[int, tuple[float, list[float]]] = {}
        self._range = (0.0, 0.0)

    def take(self, value: float | None) -> None:
        """Go on by one reading. A missing one leaves everything as it is."""
        if value is None:
            return
        self._last = value
        if self._means is None:
            self._means = [value] * len(_SCALES)
            return
        self._means = [mean + (value - mean) / scale for mean, scale in zip(self._means, _SCALES, strict=True)]

    def ahead(self, steps: int) -> float | None:
        """Forecast the last reading plus the change that the weights give."""
        weights = self._weights.get(steps)
        if weights is None or self._means is None:
            return None
        last = self._last
        change = weights[0] + weights[1][-1] * last
        for weight, mean in zip(weights[1], self._means, strict=False):
            change += weight * (last - mean)
        return min(max(last + change, self._range[0]), self._range[1])

    def refit(self, readings: FloatArray, horizons: Sequence[int]) -> None:
        """Learn the weights of each horizon."""
        self._weights = {}
        known = np.isfinite(readings)
        if not known.any():
            return
        filled = carried_forward(readings)
        low, high = float(filled.min()), float(filled.max())
        self._range = (low - _BEYOND * (high - low), high + _BEYOND * (high - low))
        newest = min(readings.size, max(_NEWEST, _NEWEST_HORIZONS * max(horizons)))
        filled, known = filled[-newest:], known[-newest:]
        features = _features(filled)
        for steps in horizons:
            pairs = known[:-steps] & known[steps:] if steps < newest else known[:0]
            if np.count_nonzero(pairs) >= _FEWEST + steps:
                change = filled[steps:] - filled[:-steps]
                rows = features[:-steps]
                if not pairs.all():
                    rows, change = rows[pairs], change[pairs]
                self._weights[steps] = _ridge(rows, change, _DRAWN * steps)


def _features(filled: FloatArray) -> FloatArray:
    """How far each reading lies above the means before, and the reading itself."""
    columns = []
    for scale in _SCALES:
        weight = 1.0 / scale
        mean, _ = lfilter([weight], [1.0, weight - 1.0], filled, zi=[(1.0 - weight) * filled[0]])
        columns.append(filled - mean)
    features: FloatArray = np.column_stack([*columns, filled])
    return features


def _ridge(features: FloatArray, target: FloatArray, drawn: float) -> tuple[float, list[float]]:
    """Return intercept and weights of least squares, drawn towards 0 as if by so many further rows."""
    centres, spreads = features.mean(axis=0), features.std(axis=0)
    spreads = np.where(spreads > 1e-12 * (1.0 + np.abs(centres)), spreads, np.inf)  # a constant gets no weight
    scaled = (features - centres) / spreads
    matrix = scaled.T @ scaled
    matrix[np.diag_indices_from(matrix)] += drawn
    mean = float(target.mean())
    weights = np.linalg.solve(matrix, scaled.T @ (target - mean)) / spreads
    return mean - float(weights @ centres), weights.tolist()
