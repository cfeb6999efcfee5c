# SPDX-License-Identifier: Apache-2.0
"""What all models with a formula share: samples, calibration, the peak, intervals and online learning.

A model gives its curve, the curve's gradient and a fit. While there are fewer sizes than it needs, fewer parameters are
calibrated; with one size only it is a proportional law that ends at that size (`CurveModel.notes` says so).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.throughput.calibration import Calibration, around, covariance_of, noise_of
from penstock.performance.throughput.sample_table import SampleTable, speed_of
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputPrediction, ThroughputSample


@dataclass(frozen=True, slots=True)
class ProgressiveError:
    """How far predictions were from the samples that came next, each graded before it was learnt.

    Attributes
    ----------
    count
        How many samples were graded.
    total
        Sum of their absolute relative errors.
    covered
        How many fell within the 90 % interval.
    """

    count: int = 0
    total: float = 0.0
    covered: int = 0

    @property
    def mean(self) -> float | None:
        """Mean absolute relative error; None before the first grade."""
        return self.total / self.count if self.count else None

    def graded(self, prediction: ThroughputPrediction, measured: float) -> ProgressiveError:
        """With one more grade."""
        error = abs(prediction.records_per_second - measured) / measured
        is_covered = prediction.low <= measured <= prediction.high
        return ProgressiveError(self.count + 1, self.total + error, self.covered + is_covered)


@dataclass(frozen=True, eq=False)
class CurveModel(ABC):
    """A model of throughput with a formula.

    Attributes
    ----------
    min_sizes
        How many different sizes it wants before it answers.
    half_life_seconds
        After what time a sample counts half; None: samples do not fade.
    max_samples
        How many samples it keeps; the oldest go first.
    samples
        What it was trained on.
    progressive
        What its predictions were worth so far.
    """

    name: ClassVar[str]
    parameter_names: ClassVar[tuple[str, ...]]

    min_sizes: int = field(default=1, kw_only=True)
    half_life_seconds: float | None = field(default=None, kw_only=True)
    max_samples: int = field(default=1000, kw_only=True)
    samples: tuple[ThroughputSample, ...] = field(default=(), kw_only=True, repr=False)
    progressive: ProgressiveError = field(default=ProgressiveError(), kw_only=True, repr=False)
    calibration: Calibration | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        if self.min_sizes < 1 or self.max_samples < 1:
            raise ConfigurationError(
                f"min_sizes, max_samples: {self.min_sizes}, {self.max_samples}; both must be at least 1",
                field="min_sizes",
            )
        if self.half_life_seconds is not None and not self.half_life_seconds > 0.0:
            raise ConfigurationError(
                f"half_life_seconds: {self.half_life_seconds!r} must be positive, or None for samples that do not fade",
                field="half_life_seconds",
            )

    # --- what a model gives ------------------------------------------------------------------------------------

    @abstractmethod
    def curve(self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray) -> FloatArray:
        """The throughput for these parameters, before it is made flat after its peak."""

    @abstractmethod
    def log_gradient(
        self, values: FloatArray, executors: FloatArray, speed: FloatArray, delay: FloatArray
    ) -> FloatArray:
        """The gradient of the curve's logarithm by the parameters, a row for each size."""

    @abstractmethod
    def calibrated(self, table: SampleTable) -> FloatArray:
        """The parameters for two or more sizes; those that the samples cannot tell apart keep their defaults."""

    @abstractmethod
    def proportional(self, rate_per_executor: float) -> FloatArray:
        """The parameters with which the curve is a proportional law."""

    def loss_weights(self, table: SampleTable, fitted: FloatArray) -> FloatArray:  # noqa: ARG002
        """What squared relative errors count in the model's loss, each; all the same unless a model says otherwise."""
        return table.weight

    def delay_for(self, allocation: Allocation) -> float:  # noqa: ARG002
        """The largest network delay between an allocation's nodes, in seconds."""
        return 0.0

    # --- the contract ------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, float]:
        """What was fitted, by name; empty before the first fit. `limited_to` is the capacity at which a curve ends."""
        if self.calibration is None:
            return {}
        found = dict(zip(self.parameter_names, map(float, self.calibration.values), strict=True))
        return found if self.calibration.limit is None else {**found, "limited_to": self.calibration.limit}

    @property
    def training_error(self) -> float | None:
        """Root mean square of what it misses its samples by, in records a second; None before the first fit."""
        return None if self.calibration is None else self.calibration.training_error

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its predictions should know."""
        if self.calibration is None:
            return ("not fitted yet",)
        if self.calibration.limit is not None:
            return (
                f"only one size was sampled (a capacity of {self.calibration.limit:g} executors): throughput is taken "
                "as proportional below it, and as no higher above it",
            )
        if self.calibration.is_reduced:
            return ("fewer sizes than parameters were sampled: some parameters keep their defaults",)
        return ()

    def fit(self, samples: Sequence[ThroughputSample]) -> Self:
        """A model of this kind, trained on these samples alone.

        Raises
        ------
        NotReadyError
            There are fewer sizes than `min_sizes`.
        """
        kept = tuple(samples)[-self.max_samples :]
        table = self.table_of(kept)
        have = table.sizes if kept else 0
        if have < self.min_sizes:
            raise NotReadyError(
                f"{self.name} needs samples of at least {self.min_sizes} "
                f"{'size' if self.min_sizes == 1 else 'different sizes'} and has {have} "
                f"({len(kept)} samples); measure further sizes",
                needed=self.min_sizes,
                available=have,
            )
        return replace(self, samples=kept, calibration=self._calibrate(table), progressive=ProgressiveError())

    def update(self, sample: ThroughputSample) -> Self:
        """The model with one more sample, which its prediction is graded on first."""
        progressive = self.progressive
        if self.calibration is not None:
            progressive = progressive.graded(self.predict(sample.allocation), sample.records_per_second)
        return replace(self.fit((*self.samples, sample)), progressive=progressive)

    def predict(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
        """What the allocation sustains, with an interval for a new measurement.

        Raises
        ------
        NotReadyError
            The model has not been fitted.
        """
        if not 0.0 < coverage < 1.0:
            raise ConfigurationError(f"coverage: {coverage!r} is outside (0, 1); write 0.9 for 90 %", field="coverage")
        if self.calibration is None:
            raise NotReadyError(f"{self.name} has no samples yet; fit it first", needed=self.min_sizes, available=0)
        found, speed, delay = self.calibration, speed_of(allocation), self.delay_for(allocation)
        # Nobody would take a larger size that sustains less: flat after the peak (Imai et al., Section 4.3).
        sizes = np.arange(1.0, allocation.executors + 1.0)
        if found.limit is not None:
            sizes = np.minimum(sizes, found.limit / speed)
        speeds, delays = np.full_like(sizes, speed), np.full_like(sizes, delay)
        rates = self.curve(found.values, sizes, speeds, delays)
        best = int(np.argmax(rates))
        mid = float(rates[best])
        if not mid > 0.0:
            return ThroughputPrediction(0.0, 0.0, 0.0, coverage)
        at = slice(best, best + 1)
        gradient = self.log_gradient(found.values, sizes[at], speeds[at], delays[at])[0]
        return around(mid, found.half_width(gradient, allocation.executors * speed, coverage), coverage)

    # --- fitting -----------------------------------------------------------------------------------------------

    def table_of(self, samples: Sequence[ThroughputSample]) -> SampleTable:
        """The samples as columns, with the delays that this model sees."""
        return SampleTable.of(samples, self.half_life_seconds, [self.delay_for(each.allocation) for each in samples])

    def _calibrate(self, table: SampleTable) -> Calibration:
        capacity = table.capacity
        has_one_size = table.sizes == 1
        if has_one_size:
            logs = np.log(table.rate / capacity)
            values = self.proportional(math.exp(float(np.average(logs, weights=table.weight))))
        else:
            values = self.calibrated(table)
        fitted = np.maximum(self.curve(values, table.executors, table.speed, table.delay), 1e-3 * table.rate)
        gradients = self.log_gradient(values, table.executors, table.speed, table.delay)
        used = values > 0.0
        if has_one_size:  # the level alone is known
            used = used & (np.cumsum(used) == 1)
        gradients = gradients * used
        noise, freedom = noise_of(np.log(table.rate / fitted), table.weight, int(used.sum()), table.effective_count)
        misses = self.curve(values, table.executors, table.speed, table.delay) - table.rate
        return Calibration(
            values,
            covariance_of(gradients, self.loss_weights(table, fitted)),
            noise,
            freedom,
            float(capacity.min()),
            float(capacity.max()),
            limit=float(capacity.max()) if has_one_size else None,
            is_reduced=table.sizes < min(3, len(values)),
            training_error=math.sqrt(float(np.average(misses**2, weights=table.weight))),
        )
