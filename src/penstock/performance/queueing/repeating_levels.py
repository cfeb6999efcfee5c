# SPDX-License-Identifier: Apache-2.0
"""Stationary vectors of a finite chain of levels of which all but the lowest and the highest are alike.

The symbols and the elimination from the top are those of `levels`. Where the levels are alike the steps
U (-S_(k+1))^-1 settle from the top down, sooner the further the load is from one; once a step repeats, all below it are
the same, and the vectors are multiplied by its powers, many levels at a time. Nothing is left out: where the steps do
not settle every level is eliminated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.markov.conditions import FloatArray
from penstock.markov.ctmc import eliminate

_LARGE = 1e100
_TOGETHER = 1024
"""Levels whose vectors are found in one multiplication."""


@dataclass(frozen=True)
class RepeatingLevels:
    """A chain of levels 0 .. K; `up` and `down` join the levels 1 .. K, `first_up` and `first_down` 0 and 1."""

    empty: FloatArray
    first_up: FloatArray
    first_down: FloatArray
    inner: FloatArray
    up: FloatArray
    down: FloatArray
    top: FloatArray

    def stationary(self, K: int) -> tuple[FloatArray, FloatArray]:
        """Give the stationary vectors of level 0 and, as rows, of levels 1 .. K; together they sum to one."""
        settled, steps = self._steps(K)
        watched = self.top if K == 1 else self.inner + (settled if len(steps) < K - 1 else steps[-1]) @ self.down
        enter = _step(self.first_up, watched)
        bottom = self.empty + enter @ self.first_down
        np.fill_diagonal(bottom, 0.0)
        zero = eliminate(np.maximum(bottom, 0.0))
        rows = np.empty((K, len(self.up)))
        rows[0] = zero @ enter
        filled = _repeat(rows, K - len(steps), settled, zero)
        for step in reversed(steps):
            rows[filled] = rows[filled - 1] @ step
            filled += 1
            _keep_small(rows, filled, zero)
        total = zero.sum() + rows.sum()
        return zero / total, rows / total

    def _steps(self, K: int) -> tuple[FloatArray, list[FloatArray]]:
        """Give the step between levels alike, and those above it that differ, from the top down."""
        watched, steps = self.top, list[FloatArray]()
        while len(steps) < K - 1:
            step = _step(self.up, watched)
            # Rounding may leave the last digits going to and fro.
            if any(np.array_equal(step, known) for known in steps[-1:-9:-1]):
                return step, steps
            steps.append(step)
            watched = self.inner + step @ self.down
        return self.up, steps


def _step(up: FloatArray, watched: FloatArray) -> FloatArray:
    step: FloatArray = np.maximum(np.linalg.solve(-watched.T, up.T).T, 0.0)  # U_k (-S_(k+1))^-1
    return step


def _repeat(rows: FloatArray, count: int, step: FloatArray, zero: FloatArray) -> int:
    """Fill the first `count` rows, each the one before it times `step`, and give how many these are."""
    powers, power = step[None], step
    while len(powers) < min(_TOGETHER, count) and power.max() < _LARGE:
        powers = np.concatenate([powers, powers @ power])
        power = powers[-1]
    filled = 1
    while filled < count:
        some = min(len(powers), count - filled)
        rows[filled : filled + some] = rows[filled - 1] @ powers[:some]
        filled += some
        _keep_small(rows, filled, zero)
    return filled


def _keep_small(rows: FloatArray, filled: int, zero: FloatArray) -> None:
    """Bring all vectors down by one factor where an overloaded queue makes them large."""
    largest = float(rows[filled - 1].max())
    if largest > _LARGE:
        rows[:filled] /= largest
        zero /= largest
