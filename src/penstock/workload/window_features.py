# SPDX-License-Identifier: Apache-2.0
"""The distribution of gaps and the dispersion of counts over time scales, of a window and of stacks of processes.

A process that is right in both tends to be right at every load. Beside the queue they keep a fit from being right for
the wrong reason. The distribution is compared by its Laplace transform, E exp(-s X), which needs no matrix exponential:
at s it shows the share of gaps shorter than about 1 / s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.queue_gradient import stationary_rows
from penstock.workload.moments import TraceDescription

FloatArray = npt.NDArray[np.float64]

_POINTS = np.geomspace(0.1, 300.0, 8)
"""Where the transform is taken, for times of mean 1."""

_TRANSFORM_TOLERANCE, _DISPERSION_TOLERANCE = 0.05, 0.5
_LIMIT = 3.0
"""No term counts more than this many tolerances: what a family of processes cannot have must not cost the queue."""


@dataclass(frozen=True, eq=False)
class WindowFeatures:
    """The transform of a window's gaps, and the index of dispersion of its counts, in units of the mean gap."""

    transform: FloatArray
    widths: FloatArray
    idc: FloatArray
    idc_tolerances: FloatArray

    @classmethod
    def of(cls, values: FloatArray, trace: TraceDescription) -> WindowFeatures:
        """Return the features of a window."""
        x = values / trace.mean
        seen = trace.idc > 0
        idc = trace.idc[seen]
        doubt = trace.idc_errors[seen] / idc
        return cls(
            np.array([np.exp(-s * x).mean() for s in _POINTS]),
            trace.idc_widths[seen] / trace.mean,
            idc,
            np.sqrt(_DISPERSION_TOLERANCE**2 + doubt**2),
        )

    def residuals(self, D0: FloatArray, D1: FloatArray) -> FloatArray:
        """Return how far each process of a stack is off, each term in units of its tolerance and limited."""
        transform, idc = features_of(D0, D1, self.widths)
        off = (transform - self.transform) / _TRANSFORM_TOLERANCE
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.log(idc / self.idc) / self.idc_tolerances
        terms = np.concatenate([off, spread], axis=1)
        return np.asarray(terms / np.sqrt(1.0 + (terms / _LIMIT) ** 2))


def features_of(D0: FloatArray, D1: FloatArray, widths: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return transforms and indices of dispersion of a stack of processes, in units of each one's mean gap.

    With covariance density c(s) = pi exp(Q s) D1 e - 1, the variance of the count in t is t + 2 times the integral of
    (t - s) c(s), which the eigenvalues of Q give in closed form.
    """
    count, n = len(D0), D0.shape[1]
    flow = (stationary_rows(D0 + D1)[:, None, :] @ D1)[:, 0, :]
    rate = flow.sum(axis=1)
    pi = flow / rate[:, None]
    d0, d1 = D0 / rate[:, None, None], D1 / rate[:, None, None]
    exits = d1.sum(axis=2)
    system = _POINTS[:, None, None] * np.eye(n) - d0[:, None]
    right = np.broadcast_to(exits[:, None, :, None], (count, _POINTS.size, n, 1))
    transform = (pi[:, None, None, :] @ np.linalg.solve(system, right))[:, :, 0, 0]
    q, vectors = np.linalg.eig(d0 + d1)
    share = (pi[:, None, :] @ vectors)[:, 0, :] * np.linalg.solve(vectors, exits[:, :, None] + 0j)[:, :, 0]
    rows, still = np.arange(count), np.argmin(np.abs(q), axis=1)
    share[rows, still], q[rows, still] = 0.0, -1.0
    decay = q[:, None, :] * widths[:, None]
    integral = (np.exp(decay) - 1.0 - decay) / q[:, None, :] ** 2
    variance = widths + 2.0 * (share[:, None, :] * integral).sum(axis=2).real
    return transform, np.maximum(variance / widths, 1e-9)
