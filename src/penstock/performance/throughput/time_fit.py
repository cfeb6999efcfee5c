# SPDX-License-Identifier: Apache-2.0
"""Fits a throughput whose inverse, the time of a record, is a sum of terms with weights that are not negative.

The loss decides what is fitted. The paper minimises the squared error of MST (Imai et al., Eq. 3), yet such a model is
linear only in 1 / MST. A small error dt of the time t is an error y^2 dt of the throughput y = 1 / t, and a relative
one of y dt. Non-negative least squares of the times, weighted with y^2 or y, is therefore the loss to first order. It
gives the start, and a bounded nonlinear fit of the loss itself the result.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from scipy.optimize import nnls

from penstock.ports import FloatArray

Loss: TypeAlias = Literal["throughput", "time", "relative"]
POWER: dict[Loss, float] = {"throughput": 2.0, "relative": 1.0, "time": 0.0}
"""An error dt of the time counts as y to this power times dt."""
_STEPS = 50
_LEAST_TIME = 1e-12


def fit_time(terms: FloatArray, rate: FloatArray, weight: FloatArray, loss: Loss) -> FloatArray:
    """The weights of the terms.

    Parameters
    ----------
    terms
        A row for each sample, a column for each term of the time.
    rate, weight
        The samples' throughput, and what each of them counts.
    loss
        Which squared errors are to be least.
    """
    unit = float(np.max(rate))  # so that tolerances mean the same whatever the throughput is
    scaled = rate / unit
    scale = np.max(terms, axis=0)
    columns = terms / scale
    row = np.sqrt(weight) * scaled ** POWER[loss]
    start, _ = nnls(columns * row[:, None], row / scaled)
    found = start if loss == "time" else _refined(columns, scaled, weight, start, POWER[loss])
    weights: FloatArray = found / scale / unit
    return weights


def relative_weights(fitted: FloatArray, weight: FloatArray, loss: Loss) -> FloatArray:
    """What squared relative errors count in the loss: one of r at y is r y^(power - 1)."""
    weights: FloatArray = weight * (fitted / np.max(fitted)) ** (2.0 * POWER[loss] - 2.0)
    return weights


def _refined(columns: FloatArray, rate: FloatArray, weight: FloatArray, start: FloatArray, power: float) -> FloatArray:
    """Gauss-Newton steps from `start`, each a non-negative least-squares problem: weights at zero are exactly zero."""
    root = np.sqrt(weight) * rate ** (power - 2.0)

    def loss_of(values: FloatArray) -> float:
        return float((root**2 * (1.0 / np.maximum(columns @ values, _LEAST_TIME) - rate) ** 2).sum())

    values, loss = start, loss_of(start)
    for _ in range(_STEPS):
        times = np.maximum(columns @ values, _LEAST_TIME)
        row = root / times**2
        # Near times t0, 1 / t = 2 / t0 - t / t0^2.
        aim, _ = nnls(columns * row[:, None], root * (2.0 / times - rate))
        share = 1.0
        while share > 1e-6 and not loss_of(values + share * (aim - values)) < loss * (1.0 - 1e-12):
            share /= 2.0
        if share <= 1e-6:
            break
        values = aim if share == 1.0 else values + share * (aim - values)
        loss = loss_of(values)
    return values
