# SPDX-License-Identifier: Apache-2.0
"""Steps that make the largest of many errors least, each as short as it can be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
ErrorsOf = Callable[[FloatArray], FloatArray]
"""Returns errors in units of their bars, (rows, errors), for rows of parameters."""

_DIFFERENCE, _LONGEST_STEP = 1e-3, 0.5
_DAMPINGS, _DAMPING, _NO_WAY = np.array([0.1, 1.0, 10.0]), 0.3, 1e4
_REWEIGHTINGS, _POWER = 6, 6


def descend(errors_of: ErrorsOf, theta: FloatArray, steps: int, good: float) -> tuple[FloatArray, FloatArray]:
    """Return parameters and errors after at most so many steps; fewer once no error is above `good`."""
    errors, damping = errors_of(theta[None])[0], _DAMPING
    for _ in range(steps):
        if np.abs(errors).max() <= good or damping > _NO_WAY:
            break
        slopes = slopes_of(errors_of, theta, errors)
        trials = theta + np.array([shortest_step(errors, slopes, damping * factor) for factor in _DAMPINGS])
        found = errors_of(trials)
        place = int(np.argmin(size(found)))
        if size(found[place]) < size(errors):
            theta, errors, damping = trials[place], found[place], damping * float(_DAMPINGS[place])
        else:
            damping *= 20.0
    return theta, errors


def size(errors: FloatArray) -> FloatArray:
    """Return a number that grows with the largest error, whatever its sign, and a little with all others."""
    return np.asarray((errors**_POWER).sum(axis=-1))


def slopes_of(errors_of: ErrorsOf, theta: FloatArray, errors: FloatArray) -> FloatArray:
    """Return how errors change with each parameter, shape (errors, parameters)."""
    return np.asarray((errors_of(theta + _DIFFERENCE * np.eye(theta.size)) - errors).T / _DIFFERENCE)


def shortest_step(errors: FloatArray, slopes: FloatArray, damping: float) -> FloatArray:
    """Return a damped step that lowers the largest errors: least squares, weighted anew by what each step leaves."""
    weights, step = np.ones(errors.size), np.zeros(slopes.shape[1])
    for _ in range(_REWEIGHTINGS):
        weighted = slopes * weights[:, None]
        system = weighted.T @ weighted + damping * np.eye(step.size)
        step = np.clip(-np.linalg.solve(system, weighted.T @ (weights * errors)), -_LONGEST_STEP, _LONGEST_STEP)
        left = np.abs(errors + slopes @ step)
        weights = weights * np.sqrt(left / max(float(left.max()), 1e-12) + 0.2)
        weights = weights / weights.mean()
    return step
