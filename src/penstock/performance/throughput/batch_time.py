# SPDX-License-Identifier: Apache-2.0
"""Throughput of micro-batches over executors and network delay, out of a batch's time.

A batch of N records over n executors, ND_max apart, takes

    T = f + c N / n + k ND_max

with f its fixed time, c the time of a record on one executor and k how many round trips its stages wait for, one after
the other. An operator that has more to do than it can fills its batches, so it sustains N / T records a second with
whatever bounds N. With a cap of N records a batch

    MST = 1 / (c / n + (f + k ND_max) / N),

so delay costs a part that grows with n, where Gesscale's law takes off the same whatever n is. With batches that may
be B seconds long, N is what fits, and

    MST = (n / c) (1 - (f + k ND_max) / B);

f is then a part of c that no throughput shows, and stays 0. Without either bound batches grow until delay is hidden
altogether. docs/background/delay-and-batches.md derives both. With the CPU share s a record takes c / s.

Calibration is progressive, as of the power law: c from one configuration; from two also k where their delays differ,
else f; from three or more, all that the samples tell apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.optimize import least_squares

from penstock.errors import ConfigurationError
from penstock.performance.throughput.curve_model import CurveModel, Flags
from penstock.performance.throughput.power_law import OUTLIER, delay_in_seconds, free_parameters
from penstock.performance.throughput.sample_table import SampleTable
from penstock.ports import FloatArray
from penstock.records import Allocation

_LEAST_PART = 1e-3
"""Part of a batch that is left for records however long its other parts are, so that a throughput stays positive."""


@dataclass(frozen=True, eq=False)
class BatchTimeModel(CurveModel):
    """The law of micro-batches.

    Attributes
    ----------
    delay_of
        As of `PowerLawModel`.
    cap
        Most records of a batch; None: `batch_seconds` bounds it.
    batch_seconds
        How long a batch may be, where there is no cap.
    """

    name: ClassVar[str] = "batch-time"
    parameter_names: ClassVar[tuple[str, ...]] = ("per_record_seconds", "fixed_seconds", "round_trips")
    ends_at_one_size: ClassVar[bool] = False

    delay_of: Callable[[Allocation], float] | None = None
    cap: int | None = None
    batch_seconds: float = 10.0
    half_life_seconds: float | None = field(default=86_400.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cap is not None and self.cap < 1:
            raise ConfigurationError(f"cap: {self.cap!r} must be a whole number from 1, or None", field="cap")
        if not 0.0 < self.batch_seconds < math.inf:
            raise ConfigurationError(
                f"batch_seconds: {self.batch_seconds!r} must be a positive time", field="batch_seconds"
            )

    def delay_for(self, allocation: Allocation) -> float:
        """What `delay_of` says."""
        return delay_in_seconds(self.delay_of, allocation)

    def size_count(self, table: SampleTable) -> int:
        """Configurations differ in executors, speed or delay."""
        return table.configurations

    @property
    def calibration_state(self) -> str:
        """Which parameters samples have set, and which keep their defaults."""
        return self.state_of(("per_record_seconds", "round_trips", "fixed_seconds"))

    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:
        """The module's formulas."""
        per_record, fixed, trips = values
        alone = executors * speed / per_record
        if self.cap is not None:
            return np.asarray(1.0 / (1.0 / alone + (fixed + trips * delay) / self.cap), dtype=np.float64)
        return np.asarray(alone * np.maximum(1.0 - trips * delay / self.batch_seconds, _LEAST_PART), dtype=np.float64)

    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """By the time of a record, the fixed time and the round trips."""
        per_record, _, trips = values
        rates = self.curve(values, executors, speed, delay)
        none = np.zeros_like(rates)
        if self.cap is not None:
            terms = (-rates / (executors * speed), -rates / self.cap, -rates * delay / self.cap)
            return np.column_stack(terms)
        left = np.maximum(self.batch_seconds - trips * delay, _LEAST_PART * self.batch_seconds)
        return np.column_stack((none - 1.0 / per_record, none, -delay / left))

    def proportional(self, rate_per_executor: float) -> FloatArray:
        """All time is that of records."""
        return np.array([1.0 / rate_per_executor, 0.0, 0.0])

    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """What the number of configurations allows."""
        several = float(np.ptp(table.executors * table.speed)) > 1e-9
        has_fixed = self.cap is not None and several
        free = free_parameters(table, 3, [(2, bool(np.ptp(table.delay) > 1e-9)), (1, has_fixed)])
        root = np.sqrt(table.weight)
        start = self.proportional(float(np.median(table.rate / table.capacity)))
        # In units of one executor's record, one batch and one trip over the longest delay, so that steps compare.
        bound = self.batch_seconds if self.cap is None else self.cap * start[0] / float(np.max(table.capacity))
        units = np.array([start[0], bound, bound / (float(np.max(table.delay)) or 1.0)])

        def with_free(chosen: FloatArray) -> FloatArray:
            merged = np.array([1.0, 0.0, 0.0])
            merged[free] = chosen
            found: FloatArray = merged * units
            return found

        def misses(chosen: FloatArray) -> FloatArray:
            rates = self.curve(with_free(chosen), table.executors, table.speed, table.delay)
            found: FloatArray = root * np.log(rates / table.rate)
            return found

        solved = least_squares(
            misses,
            np.array([0.9, 0.05, 0.05])[free],
            bounds=(np.array([1e-6, 0.0, 0.0])[free], np.inf),
            loss="soft_l1",
            f_scale=OUTLIER,
            x_scale="jac",
            xtol=1e-12,
            ftol=1e-12,
        )
        values = with_free(solved.x)
        values[1:] = np.where(values[1:] > 1e-9 * units[1:], values[1:], 0.0)
        return values, free & (values > 0.0)
