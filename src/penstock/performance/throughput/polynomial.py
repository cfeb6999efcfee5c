# SPDX-License-Identifier: Apache-2.0
"""Throughput as a polynomial of the number of executors (Model 2).

    MST(m) = w0 + w1 m - w2 m^2,  all w >= 0                                              (Imai et al., Eq. 5)

w0 is base throughput, w1 what each worker adds, w2 what communication between workers takes away. An executor with the
share s of its cores adds s times as much, and communicates as much as before: w1 m becomes w1 m s. With one share for
all samples the published form is left as it is. The loss is Eq. 3, by non-negative least squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import nnls

from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray


@dataclass(frozen=True, eq=False)
class PolynomialModel(CurveModel):
    """Model 2 of Imai et al.: a parabola, flat after its peak.

    Attributes
    ----------
    loss
        Which squared errors are least: those of the throughput (Eq. 3), or relative ones.
    """

    name: ClassVar[str] = "polynomial"
    parameter_names: ClassVar[tuple[str, ...]] = ("w0", "w1", "w2")

    loss: Literal["throughput", "relative"] = "throughput"

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:  # noqa: ARG002
        """Eq. 5, and nothing instead of a negative throughput."""
        return np.maximum(_terms(executors, speed) @ values, 0.0)

    def log_gradient(
        self,
        values: FloatArray,
        executors: FloatArray,
        speed: FloatArray,
        delay: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """Each term over the whole."""
        terms = _terms(executors, speed)
        rates = terms @ values
        return terms / np.where(rates > 0.0, rates, np.inf)[:, None]

    def loss_weights(self, table: SampleTable, fitted: FloatArray) -> FloatArray:
        """A relative error r of the throughput y is one of y r."""
        return table.weight if self.loss == "relative" else table.weight * (fitted / np.max(fitted)) ** 2

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """No base, no communication."""
        return np.array([0.0, rate_per_executor, 0.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """Base and gain from two sizes, all weights from three or more."""
        used = 2 if table.sizes == 2 else 3
        unit = float(np.max(table.rate))
        terms = _terms(table.executors, table.speed)[:, :used]
        scale = np.max(np.abs(terms), axis=0)
        rate = table.rate / unit
        row = np.sqrt(table.weight) * (1.0 if self.loss == "throughput" else 1.0 / rate)
        found, _ = nnls(terms / scale * row[:, None], rate * row)
        values = np.zeros(3)
        values[:used] = found / scale * unit
        return values, values > 0.0


def _terms(executors: FloatArray, speed: FloatArray) -> FloatArray:
    # Filled column by column: stacking columns takes several times as long, and every prediction needs them.
    terms = np.empty((len(executors), 3))
    terms[:, 0] = 1.0
    terms[:, 1] = executors * speed
    terms[:, 2] = -(executors**2)
    return terms
