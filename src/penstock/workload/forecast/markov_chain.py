# SPDX-License-Identifier: Apache-2.0
"""Where a chain of levels goes from the last two: the forecast of PRESS for loads that do not repeat themselves.

Readings become one of eight levels, each of which holds as many readings as any other. The next level depends on the
last two, by the transitions seen. Pairs of levels that were seen seldom lean on what followed the last level alone, so
the chain is one of the first order where nothing more is known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.ports import FloatArray
from penstock.workload.forecast.contract import MARKOV_CHAIN

_LEVELS = 8
_NEWEST = 2048
_FEWEST = 48
_LEANS = 4.0
"""Transitions of the first order that count as much as those of a pair."""


class MarkovChain:
    """Forecasts by a Markov chain of second order (:class:`penstock.workload.forecast.contract.Method`)."""

    name = MARKOV_CHAIN

    def __init__(self) -> None:
        self._edges: list[float] = []
        self._pair: tuple[int | None, int | None] = (None, None)
        self._values: tuple[float | None, float | None] = (None, None)
        self._expected: dict[int, list[list[float]]] = {}

    def take(self, value: float | None) -> None:
        """Go on by one reading. A missing one breaks the pair."""
        self._values = (self._values[1], value)
        self._pair = (self._pair[1], None if value is None else self._level(value))

    def ahead(self, steps: int) -> float | None:
        """Forecast the mean of where the chain may be."""
        expected = self._expected.get(steps)
        before, last = self._pair
        if expected is None or last is None:
            return None
        return expected[last if before is None else before][last]

    def refit(self, readings: FloatArray, horizons: Sequence[int]) -> None:
        """Count transitions, and follow the chain to each horizon."""
        self._expected = {}
        newest = readings[-_NEWEST:]
        known = np.isfinite(newest)
        values = newest[known]
        if values.size < _FEWEST:
            return
        edges = np.unique(np.quantile(values, np.arange(1, _LEVELS) / _LEVELS))
        self._edges = edges.tolist()
        self._pair = tuple(None if v is None else self._level(v) for v in self._values)  # type: ignore[assignment]
        levels = np.searchsorted(edges, newest, side="left")  # a missing one gets a level too: it is left out below
        size = edges.size + 1
        counts = np.bincount(levels[known], minlength=size)
        centres = np.bincount(levels[known], weights=values, minlength=size) / np.maximum(counts, 1)
        chain = _transitions(levels, known, size)
        for steps in horizons:
            self._expected[steps] = _followed(chain, centres, steps).tolist()

    def _level(self, value: float) -> int:
        level = 0
        for edge in self._edges:
            if value <= edge:
                break
            level += 1
        return level


def _transitions(
    levels: np.ndarray[tuple[int], np.dtype[np.int64]], known: np.ndarray[tuple[int], np.dtype[np.bool_]], size: int
) -> FloatArray:
    """Return the probability of each level after each pair of levels."""
    one = known[:-1] & known[1:]
    pairs = levels[:-1] * size + levels[1:]
    first = np.bincount(pairs[one], minlength=size * size).reshape(size, size).astype(np.float64)
    first += 1e-3 * np.eye(size)  # a level that was never left stays
    first /= first.sum(axis=1, keepdims=True)
    both = one[:-1] & one[1:]
    triples = pairs[:-1] * size + levels[2:]
    second = np.bincount(triples[both], minlength=size**3).reshape(size, size, size).astype(np.float64)
    second += _LEANS * first[None, :, :]
    probabilities: FloatArray = second / second.sum(axis=2, keepdims=True)
    return probabilities


def _followed(chain: FloatArray, centres: FloatArray, steps: int) -> FloatArray:
    """Return the mean value so many steps after each pair (before, last)."""
    size = centres.size
    matrix = np.zeros((size, size, size, size))
    last = np.arange(size)
    matrix[:, last, last, :] = chain  # from (before, last) to (last, next)
    square = matrix.reshape(size * size, size * size)
    ahead = np.linalg.matrix_power(square, steps) @ np.tile(centres, size)
    expected: FloatArray = ahead.reshape(size, size)
    return expected
