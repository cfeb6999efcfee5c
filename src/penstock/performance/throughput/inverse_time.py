# SPDX-License-Identifier: Apache-2.0
"""Throughput as the inverse of the time for a record (Model 1).

    MST(m) = 1 / (w0 + w1 / m + w2 m + w3 m^2),  all w >= 0                               (Imai et al., Eq. 4)

w0 is serial time, w1 parallel time, w2 the time to hand data out and in, w3 that between workers. An executor that has
the share s of its cores does parallel work s times as fast; the driver's serial work and the network do not see the
share. So w1 / m becomes w1 / (m s), and with one share for all samples the published form is left as it is.

The loss. The paper minimises the squared error of MST (Eq. 3), yet the model is linear only in 1 / MST. A small error
dt of the time is an error y^2 dt of the throughput y = 1 / t. Non-negative least squares of the times, weighted with
y^2, is therefore Eq. 3 to first order. It gives the start, and a bounded nonlinear fit of Eq. 3 itself the result.
The published weights seem to be those of unweighted times (see docs/background/throughput.md); `loss="time"` is that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from scipy.optimize import least_squares, nnls

from penstock.performance.throughput.curve_model import CurveModel
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray

Loss: TypeAlias = Literal["throughput", "time", "relative"]
_POWER: dict[Loss, float] = {"throughput": 2.0, "relative": 1.0, "time": 0.0}


@dataclass(frozen=True, eq=False)
class InverseTimeModel(CurveModel):
    """Model 1 of Imai et al.: the inverse of a polynomial of the number of executors.

    Attributes
    ----------
    loss
        Which squared errors are least: those of the throughput (Eq. 3), of the time of a record, or relative ones.
    """

    name: ClassVar[str] = "inverse-time"
    parameter_names: ClassVar[tuple[str, ...]] = ("w0", "w1", "w2", "w3")

    loss: Loss = "throughput"

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:  # noqa: ARG002
        """Eq. 4."""
        found: FloatArray = 1.0 / (_terms(executors, speed) @ values)
        return found

    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """The logarithm falls with each term, in proportion to its part of the time."""
        return -_terms(executors, speed) * self.curve(values, executors, speed, delay)[:, None]

    def loss_weights(self, table: SampleTable, fitted: FloatArray) -> FloatArray:
        """An error dt of the time t is one of dt / t relative to it."""
        return (
            table.weight * fitted ** (2.0 * _POWER[self.loss] - 2.0) / np.max(fitted) ** (2.0 * _POWER[self.loss] - 2.0)
        )

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """All time is parallel."""
        return np.array([0.0, 1.0 / rate_per_executor, 0.0, 0.0])

    def calibrated(self, table: SampleTable) -> FloatArray:
        """Serial and parallel time from two sizes, all weights from three or more."""
        used = 2 if table.sizes == 2 else 4
        unit = float(np.max(table.rate))
        rate = table.rate / unit  # so that tolerances mean the same whatever the throughput is
        terms = _terms(table.executors, table.speed)[:, :used]
        scale = np.max(terms, axis=0) * np.max(rate)
        columns = terms / scale
        power = _POWER[self.loss]
        row = np.sqrt(table.weight) * rate**power
        start, _ = nnls(columns * row[:, None], row / rate)
        found = start if self.loss == "time" else _refined(columns, rate, table.weight, start, power)
        values = np.zeros(4)
        values[:used] = found / scale / unit
        return values


def _terms(executors: FloatArray, speed: FloatArray) -> FloatArray:
    return np.column_stack((np.ones_like(executors), 1.0 / (executors * speed), executors, executors**2))


def _refined(columns: FloatArray, rate: FloatArray, weight: FloatArray, start: FloatArray, power: float) -> FloatArray:
    """The weights >= 0 that minimise the loss itself, from those that minimise it to first order."""
    root = np.sqrt(weight) * rate ** (power - 2.0)

    def misses(values: FloatArray) -> FloatArray:
        return root * (1.0 / np.maximum(columns @ values, 1e-12) - rate)

    def slopes(values: FloatArray) -> FloatArray:
        return -(root / np.maximum(columns @ values, 1e-12) ** 2)[:, None] * columns

    inside = np.maximum(start, 1e-9 * np.max(start))  # the solver starts strictly inside its bounds
    found = least_squares(misses, inside, jac=slopes, bounds=(0.0, np.inf), xtol=1e-12, ftol=1e-12, gtol=1e-12)
    # The solver approaches a bound from inside: what is next to nothing there is nothing.
    settled = np.where(found.x > 1e-7 * np.max(found.x), found.x, 0.0)
    candidates = (start, settled, found.x)
    return min(candidates, key=lambda values: float((misses(values) ** 2).sum()) * (1.0 + 1e-9 * (values > 0).sum()))
