# SPDX-License-Identifier: Apache-2.0
"""Throughput as the inverse of the time for a record (Model 1).

    MST(m) = 1 / (w0 + w1 / m + w2 m + w3 m^2),  all w >= 0                               (Imai et al., Eq. 4)

w0 is serial time, w1 parallel time, w2 the time to hand data out and in, w3 that between workers. An executor that has
the share s of its cores does parallel work s times as fast; the driver's serial work and the network do not see the
share. So w1 / m becomes w1 / (m s), and with one share for all samples the published form is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.sample_table import SampleTable
from penstock.performance.throughput.time_fit import Loss, fit_time, relative_weights
from penstock.ports import FloatArray


@dataclass(frozen=True, eq=False)
class InverseTimeModel(CurveModel):
    """Model 1 of Imai et al.: the inverse of a polynomial of the number of executors.

    Attributes
    ----------
    loss
        Which squared errors are least: those of the throughput (Eq. 3), of the time of a record, or relative ones.
        The published weights seem to come from times (docs/background/throughput.md).
    """

    name: ClassVar[str] = "inverse-time"
    parameter_names: ClassVar[tuple[str, ...]] = ("w0", "w1", "w2", "w3")

    loss: Loss = "throughput"

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:  # noqa: ARG002
        """Eq. 4."""
        found: FloatArray = 1.0 / (_terms(executors, speed) @ values)
        return found

    def log_gradient(
        self,
        values: FloatArray,
        executors: FloatArray,
        speed: FloatArray,
        delay: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """The logarithm falls with each term, in proportion to its part of the time."""
        terms = _terms(executors, speed)
        return -terms / (terms @ values)[:, None]

    def loss_weights(self, table: SampleTable, fitted: FloatArray) -> FloatArray:
        """As the loss says."""
        return relative_weights(fitted, table.weight, self.loss)

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """All time is parallel."""
        return np.array([0.0, 1.0 / rate_per_executor, 0.0, 0.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """Serial and parallel time from two sizes, all weights from three or more."""
        used = 2 if table.sizes == 2 else 4
        values = np.zeros(4)
        values[:used] = fit_time(_terms(table.executors, table.speed)[:, :used], table.rate, table.weight, self.loss)
        return values, values > 0.0


def _terms(executors: FloatArray, speed: FloatArray) -> FloatArray:
    # Filled column by column: stacking columns takes several times as long, and every prediction needs them.
    terms = np.empty((len(executors), 4))
    terms[:, 0] = 1.0
    terms[:, 1] = 1.0 / (executors * speed)
    terms[:, 2] = executors
    terms[:, 3] = executors**2
    return terms
