# SPDX-License-Identifier: Apache-2.0
"""The queue as a term of the fit: how far predicted response times are from the replayed ones, with derivatives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from penstock.errors import ConvergenceError
from penstock.markov.queue_gradient import queue_gradient
from penstock.workload.least_squares import Evaluate
from penstock.workload.replay_queue import service
from penstock.workload.targets import Targets

FloatArray = npt.NDArray[np.float64]
Matrices = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Returns D0 and D1, of mean 1, for each row of parameters."""

_DIFFERENCE = 1e-6


def queue_terms(theta: FloatArray, matrices: Matrices, targets: Targets) -> tuple[FloatArray, FloatArray]:
    """Return the weighted log ratios of predicted to replayed response times per start, and their derivatives.

    The queue's derivatives by D0 and D1 are exact (`queue_gradient`). Those of D0 and D1 by the parameters are
    differences, which need no queue.
    """
    count, parameters = theta.shape
    loads = targets.queue.utilisations
    shifted = theta[:, None, :] + _DIFFERENCE * np.concatenate([np.zeros((1, parameters)), np.eye(parameters)])
    d0, d1 = matrices(shifted.reshape(-1, parameters))
    n = d0.shape[1]
    d0, d1 = d0.reshape(count, parameters + 1, n, n), d1.reshape(count, parameters + 1, n, n)
    unit = service()
    try:
        solved = queue_gradient(
            np.repeat(d0[:, 0], loads.size, axis=0),
            np.repeat(d1[:, 0], loads.size, axis=0),
            unit.alpha,
            np.tile(unit.T / loads[:, None, None], (count, 1, 1)),
        )
    except (np.linalg.LinAlgError, ConvergenceError):
        # A start of the stack is numerically singular. It alone counts as infinitely bad.
        if count == 1:
            return np.full((1, loads.size), np.inf), np.zeros((1, loads.size, parameters))
        each = [queue_terms(theta[i : i + 1], matrices, targets) for i in range(count)]
        return np.concatenate([e[0] for e in each]), np.concatenate([e[1] for e in each])
    number = solved.number.reshape(count, loads.size)
    flat = (count, loads.size, n * n)
    change0 = ((d0[:, 1:] - d0[:, :1]) / _DIFFERENCE).reshape(count, parameters, n * n)
    change1 = ((d1[:, 1:] - d1[:, :1]) / _DIFFERENCE).reshape(count, parameters, n * n)
    slopes = solved.to_D0.reshape(flat) @ change0.transpose(0, 2, 1)
    slopes = slopes + solved.to_D1.reshape(flat) @ change1.transpose(0, 2, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        residuals = np.log(number / targets.queue.responses) * targets.queue_weights
        slopes = slopes / number[:, :, None] * targets.queue_weights[:, None]
    return residuals, np.where(np.isfinite(slopes), slopes, 0.0)


def with_queue(descriptors: Evaluate, matrices: Matrices, targets: Targets) -> Evaluate:
    """Return residuals and derivatives of descriptors followed by those of the queue."""

    def evaluate(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        residuals, slopes = descriptors(theta)
        queue, queue_slopes = queue_terms(theta, matrices, targets)
        return np.concatenate([residuals, queue], axis=1), np.concatenate([slopes, queue_slopes], axis=1)

    return evaluate
