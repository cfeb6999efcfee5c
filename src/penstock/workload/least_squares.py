# SPDX-License-Identifier: Apache-2.0
"""Nonlinear least squares from many starts at once (Levenberg and Marquardt), all starts as one stack of arrays.

Marquardt, "An algorithm for least-squares estimation of nonlinear parameters", SIAM Journal 11, 1963.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Evaluate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Returns residuals (starts, terms) and their derivatives (starts, terms, parameters)."""

IsLate = Callable[[], bool]

_LARGEST_STEP = 2.0

DAMPING = 1e-2
"""Damping of the first step; four times as much after each step that is refused."""

_DIFFERENCE = 3e-4
DAMPINGS = np.array([0.1, 1.0, 10.0, 100.0])
"""Factors of the damping that are tried at once where slopes are dear."""


def least_squares(
    evaluate: Evaluate,
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    iterations: int,
    is_late: IsLate = lambda: False,
    damping: float = DAMPING,
    tolerance: float = 1e-4,
    stiff: int = 0,
    retract: Callable[[FloatArray], FloatArray] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the parameters reached from each row of `start`, and their sums of squares.

    Parameters
    ----------
    evaluate
        Residuals and derivatives; rows that are not finite count as infinitely bad.
    low, high
        Bounds of the parameters; steps are cut there.
    is_late
        Called before each iteration. If true, the result so far is returned.
    tolerance
        A start is done when a step lowers its sum of squares by less than this part.
    stiff
        This many leading terms are nearly constraints. They do not count in the damping, which would otherwise prevent
        long steps along them.
    retract
        Moves a trial point back to where the stiff terms vanish, at little cost, before it is judged. Without it, a
        long step along a curved constraint is refused for leaving it.

    Examples
    --------
    >>> def line(x):
    ...     return x - 3.0, np.ones((len(x), 1, 1))
    >>> best, loss = least_squares(line, np.zeros((1, 1)), np.full(1, -9.0), np.full(1, 9.0), iterations=20)
    >>> best.round(6).tolist()
    [[3.0]]
    """
    theta = np.clip(start, low, high)
    residuals, slopes = evaluate(theta)
    loss = _loss(residuals)
    weight = np.full(len(theta), damping)
    eye = np.eye(theta.shape[1])
    rows = np.flatnonzero(np.isfinite(loss))  # those that have not converged
    for _ in range(iterations):
        if not rows.size or is_late():
            break
        here, r, jacobian = theta[rows], residuals[rows], slopes[rows]
        transposed = jacobian.transpose(0, 2, 1)
        gradient = (transposed @ r[:, :, None])[:, :, 0]
        diagonal = (jacobian[:, stiff:] ** 2).sum(axis=1)
        # A parameter at its bound that is pushed outwards takes no part in the step.
        held = ((here <= low) & (gradient > 0)) | ((here >= high) & (gradient < 0))
        free = ~held
        system = (transposed @ jacobian) * (free[:, :, None] & free[:, None, :])
        system += (weight[rows, None] * (diagonal + 1e-3) + held)[:, :, None] * eye
        step = -np.linalg.solve(system, (gradient * free)[:, :, None])[:, :, 0]
        trial = np.clip(here + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), low, high)
        if retract is not None:
            trial = np.clip(retract(trial), low, high)
        new_residuals, new_slopes = evaluate(trial)
        new_loss = _loss(new_residuals)
        better = new_loss < loss[rows]
        settled = better & (loss[rows] - new_loss < tolerance * loss[rows])
        taken = rows[better]
        theta[taken], residuals[taken], slopes[taken] = trial[better], new_residuals[better], new_slopes[better]
        loss[taken] = new_loss[better]
        weight[rows] = np.clip(weight[rows] * np.where(better, 0.3, 4.0), 1e-9, 1e7)
        rows = rows[~settled & (weight[rows] < 1e6)]
    return theta, loss


def _loss(residuals: FloatArray) -> FloatArray:
    with np.errstate(over="ignore", invalid="ignore"):
        total = (residuals * residuals).sum(axis=1)
    return np.where(np.isfinite(total), total, np.inf)


def onto_constraints(
    theta: FloatArray, constraints: Callable[[FloatArray], tuple[FloatArray, FloatArray]], rounds: int = 2
) -> FloatArray:
    """Move each row of `theta` the shortest way to where the constraints vanish, or leave it if that fails.

    Parameters
    ----------
    constraints
        Returns values (starts, constraints) and derivatives (starts, constraints, parameters).
    """
    values, slopes = constraints(theta)
    first = np.abs(values).sum(axis=1)
    moved = theta
    eye = np.eye(values.shape[1])
    for _ in range(rounds):
        transposed = slopes.transpose(0, 2, 1)
        square = slopes @ transposed
        scale = np.trace(square, axis1=1, axis2=2)[:, None, None]
        step = -(transposed @ np.linalg.solve(square + (1e-6 * scale + 1e-300) * eye, values[:, :, None]))[:, :, 0]
        moved = moved + np.clip(step, -0.5, 0.5)
        values, slopes = constraints(moved)
    last = np.abs(values).sum(axis=1)
    return np.where((last < first)[:, None], moved, theta)


def difference_least_squares(
    residuals: Callable[[FloatArray], FloatArray],
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
    *,
    iterations: int,
    is_late: IsLate = lambda: False,
    damping: float = DAMPING,
    tolerance: float = 1e-2,
    dampings: FloatArray = DAMPINGS,
) -> tuple[FloatArray, FloatArray]:
    """Return the parameters reached from each row of `start`, and their sums of squares, with slopes by differences.

    For residuals that are dear and have no derivatives: each iteration takes the best of steps with several dampings,
    because slopes cost as many evaluations as there are parameters and a refused step would waste them.

    Parameters
    ----------
    residuals
        Returns (rows, terms) for rows of parameters; rows that are not finite count as infinitely bad.
    dampings
        Factors of the damping that are tried in each iteration.

    Examples
    --------
    >>> best, _ = difference_least_squares(
    ...     lambda x: np.exp(x) - 3.0, np.zeros((1, 1)), np.full(1, -9.0), np.full(1, 9.0), iterations=20)
    >>> np.exp(best).round(3).tolist()
    [[3.0]]
    """
    theta = np.clip(start, low, high)
    size = theta.shape[1]
    here = residuals(theta)
    loss = _loss(here)
    weight, stuck = np.full(len(theta), damping), np.zeros(len(theta), dtype=np.int64)
    rows = np.flatnonzero(np.isfinite(loss))
    for _ in range(iterations):
        if not rows.size or is_late():
            break
        moved = (theta[rows, None, :] + _DIFFERENCE * np.eye(size)).reshape(-1, size)
        with np.errstate(invalid="ignore", over="ignore"):
            change = residuals(moved).reshape(rows.size, size, -1) - here[rows, None, :]
        slopes = np.where(np.isfinite(change), change, 0.0) / _DIFFERENCE
        system = slopes @ slopes.transpose(0, 2, 1)
        gradient = slopes @ here[rows, :, None]
        scale = np.diagonal(system, axis1=1, axis2=2)[:, None, :] + 1e-2
        damped = system[:, None] + (weight[rows, None, None] * dampings[:, None] * scale)[..., None] * np.eye(size)
        step = -np.linalg.solve(damped, np.broadcast_to(gradient[:, None], (*damped.shape[:3], 1)))[..., 0]
        trial = np.clip(theta[rows, None, :] + np.clip(step, -_LARGEST_STEP, _LARGEST_STEP), low, high)
        found = residuals(trial.reshape(-1, size)).reshape(rows.size, dampings.size, -1)
        losses = _loss(found.reshape(-1, found.shape[2])).reshape(rows.size, -1)
        pick = np.argmin(losses, axis=1)
        at = np.arange(rows.size)
        least = losses[at, pick]
        better = least < loss[rows]
        settled = better & (loss[rows] - least < tolerance * loss[rows])
        weight[rows] = np.clip(weight[rows] * np.where(better, dampings[pick], dampings[-1] ** 2), 1e-7, 1e6)
        stuck[rows] = np.where(better, 0, stuck[rows] + 1)
        taken = rows[better]
        theta[taken], here[taken] = trial[at, pick][better], found[at, pick][better]
        loss[taken] = least[better]
        rows = rows[~settled & (stuck[rows] < 2)]
    return theta, loss
