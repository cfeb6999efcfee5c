# SPDX-License-Identifier: Apache-2.0
"""The Universal Scalability Law.

    X(n) = lambda n / (1 + sigma (n - 1) + kappa n (n - 1))            (Gunther, "Guerrilla Capacity Planning", 2007)

lambda is the throughput of one executor, sigma the part of the work that is serial (contention), kappa the cost of
keeping executors in agreement. Since 1 + sigma (n - 1) = (1 - sigma) + sigma n, the time of a record is

    1 / X = [(1 - sigma) / (n s) + sigma + kappa (n - 1)] / lambda

where s is the CPU share: it slows the parallel part and neither the serial part, which the driver does, nor the
agreement. With one share for all samples this is the law itself, with other parameters. The time is linear in
(1 - sigma) / lambda, sigma / lambda and kappa / lambda, which are not negative; so sigma is at most 1. The loss is
relative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.sample_table import SampleTable
from penstock.performance.throughput.time_fit import fit_time
from penstock.ports import FloatArray


@dataclass(frozen=True, eq=False)
class ScalabilityLawModel(CurveModel):
    """Gunther's Universal Scalability Law, flat after its peak."""

    name: ClassVar[str] = "usl"
    parameter_names: ClassVar[tuple[str, ...]] = ("lambda", "sigma", "kappa")

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:  # noqa: ARG002
        """The law."""
        rates: FloatArray = values[0] / _work(values, executors, speed)
        return rates

    def log_gradient(
        self,
        values: FloatArray,
        executors: FloatArray,
        speed: FloatArray,
        delay: FloatArray,  # noqa: ARG002
    ) -> FloatArray:
        """By lambda, sigma and kappa."""
        work = _work(values, executors, speed)
        by_sigma = (1.0 / (executors * speed) - 1.0) / work
        return np.column_stack((np.full_like(work, 1.0 / values[0]), by_sigma, (1.0 - executors) / work))

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """No contention, nothing to agree on."""
        return np.array([rate_per_executor, 0.0, 0.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """lambda and sigma from two sizes, all three from three or more."""
        used = 2 if table.sizes == 2 else 3
        executors = table.executors
        terms = np.column_stack((1.0 / table.capacity, np.ones_like(executors), executors - 1.0))
        if not np.any(terms[:, 2] > 0.0):
            used = 2  # one executor has nobody to agree with
        parallel, serial, agreement = np.append(fit_time(terms[:, :used], table.rate, table.weight, "relative"), 0.0)[
            :3
        ]
        alone = parallel + serial
        if not alone > 1e-6 * float(np.min(1.0 / table.rate)):
            # Throughput that falls with every executor: one is as good as any, and the law has no finite lambda.
            alone = serial = float(np.min(1.0 / table.rate))
        values = np.array([1.0 / alone, serial / alone, agreement / alone])
        return values, np.array([True, 0.0 < values[1] < 1.0, values[2] > 0.0])


def _work(values: FloatArray, executors: FloatArray, speed: FloatArray) -> FloatArray:
    work: FloatArray = (1.0 - values[1]) / (executors * speed) + values[1] + values[2] * (executors - 1.0)
    return work
