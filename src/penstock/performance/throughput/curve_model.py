# SPDX-License-Identifier: Apache-2.0
"""What all models with a formula share: calibration, the peak and intervals.

A model gives its curve, the curve's gradient and a fit. While there are fewer sizes than it needs, fewer parameters are
calibrated; with one size only it is a proportional law that ends at that size (`CurveModel.notes` says so).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.performance.throughput.calibration import (
    DELAY_SPREAD,
    EXTRAPOLATION_SPREAD,
    REDUCED_SPREAD,
    UNKNOWN_DELAY_SPREAD,
    Calibration,
    around,
    covariance_of,
    noise_of,
)
from penstock.performance.throughput.learnt_model import LearntModel
from penstock.performance.throughput.sample_table import SampleTable, longest_alike, speed_of
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputPrediction

Flags: TypeAlias = NDArray[np.bool_]

_SIZES_TO_EXTRAPOLATE = 3
"""With fewer sizes below the largest, a miss there says more about the calibration than about the form."""

_EVERY_SIZE, _FAR_STEP = 2048, 1.002


@dataclass(frozen=True, eq=False)
class CurveModel(LearntModel):
    """A model of throughput with a formula. `calibration` is what its fit found."""

    parameter_names: ClassVar[tuple[str, ...]]
    ends_at_one_size: ClassVar[bool] = True
    """Whether a law from one size only goes no further than that size."""

    calibration: Calibration | None = field(default=None, kw_only=True, repr=False)

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
    def calibrated(self, table: SampleTable) -> tuple[FloatArray, Flags]:
        """The parameters for two or more sizes, and which of them were fitted; others keep defaults."""

    @abstractmethod
    def proportional(self, rate_per_executor: float) -> FloatArray:
        """The parameters with which the curve is a proportional law."""

    def size_count(self, table: SampleTable) -> int:
        """How many sizes this model can tell apart."""
        return table.sizes

    def loss_weights(self, table: SampleTable, fitted: FloatArray) -> FloatArray:  # noqa: ARG002
        """What squared relative errors count in the model's loss; all the same unless a model says otherwise."""
        return table.weight

    def pulls(self, free: Flags) -> FloatArray:
        """What holds free parameters to their defaults besides samples, a row for each, as the gradient of a sample.

        None unless a model says otherwise.
        """
        return np.zeros((0, len(free)))

    # --- the contract ------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> Mapping[str, float]:
        """What was fitted, by name; empty before the first fit. `limited_to` is the capacity at which a curve ends."""
        if self.calibration is None:
            return {}
        found = dict(zip(self.parameter_names, map(float, self.calibration.values), strict=True))
        return found if self.calibration.limit is None else {**found, "limited_to": self.calibration.limit}

    def state_of(self, order: Sequence[str]) -> str:
        """How far the calibration has come, in words: which of these parameters samples have set.

        A parameter that would fit best below 0 is not left at its default, which may be another value: it is at 0.
        """
        found = self.calibration
        if found is None:
            return "not calibrated"
        fitted, values = dict(zip(self.parameter_names, found.is_free, strict=True)), self.parameters
        parts = {
            "calibrated": [name for name in order if fitted[name] and values[name] > 0.0],
            "at the bound of 0": [name for name in order if fitted[name] and not values[name] > 0.0],
            "left at {} default": [name for name in order if not fitted[name]],
        }
        return ", ".join(
            f"{' and '.join(names)} {what.format('its' if len(names) == 1 else 'their')}"
            for what, names in parts.items()
            if names
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of its predictions should know."""
        found = self.calibration
        if found is None:
            return ("not fitted yet",)
        if found.smallest == found.largest:
            above = "no higher above it" if found.limit is not None else "proportional above it too"
            return (
                f"only one size was sampled (a capacity of {found.largest:g} executors): throughput is taken as "
                f"proportional below it, and as {above}",
            )
        if found.is_reduced:
            return ("fewer sizes than parameters were sampled: some parameters keep their defaults",)
        return ()

    def trained(self, table: SampleTable) -> Self:
        """With the curve that fits best."""
        found = self._calibrate(table)
        inner = table.without_largest()
        if inner.sizes >= _SIZES_TO_EXTRAPOLATE and self.size_count(inner) >= _SIZES_TO_EXTRAPOLATE:
            found = replace(found, structure=self._structure(self._calibrate(inner), table))
        return replace(self, calibration=found)

    def answer(self, allocation: Allocation, coverage: float) -> ThroughputPrediction:
        """The curve, flat after its peak, and the interval around it."""
        return self._answer(allocation.executors, speed_of(allocation), self.delay_for(allocation), coverage)

    def is_sure_of(self, allocation: Allocation) -> bool:
        """Whether there were samples for all that it can tell, and some of nodes as far apart."""
        found = self.calibration
        if found is None or found.is_reduced:
            return False
        return self.delay_for(allocation) <= longest_alike(found.farthest)

    def _answer(self, executors: int, speed: float, delay: float, coverage: float) -> ThroughputPrediction:
        found = self.calibration
        assert found is not None, "predict refuses what is not fitted"
        # Nobody would take a larger size that sustains less: flat after the peak (Imai et al., Section 4.3).
        sizes = _some_sizes(executors)
        best, mid = self._peak(sizes, found, speed, delay)
        if len(sizes) < executors:  # the peak lies between the neighbours of the best of some sizes
            sizes = np.arange(sizes[max(best - 1, 0)], sizes[min(best + 1, len(sizes) - 1)] + 1.0)
            best, mid = self._peak(sizes, found, speed, delay)
        if not mid > 0.0:
            # Delay has taken all that there is, says the law. It may be wrong by that, and by no more.
            high = self._answer(executors, speed, 0.0, coverage).high if delay > 0.0 else 0.0
            return ThroughputPrediction(0.0, 0.0, high, coverage)
        at = sizes[best : best + 1] if found.limit is None else np.minimum(sizes[best : best + 1], found.limit / speed)
        gradient = self.log_gradient(found.values, at, np.full_like(at, speed), np.full_like(at, delay))[0]
        return around(mid, found.half_width(gradient, executors * speed, delay, coverage), coverage)

    def _peak(self, sizes: FloatArray, found: Calibration, speed: float, delay: float) -> tuple[int, float]:
        """Where among these sizes the curve is highest, and how high."""
        kept = sizes if found.limit is None else np.minimum(sizes, found.limit / speed)
        rates = self.curve(found.values, kept, np.full_like(kept, speed), np.full_like(kept, delay))
        best = int(np.argmax(rates))
        return best, float(rates[best])

    def _calibrate(self, table: SampleTable) -> Calibration:
        capacity, sizes = table.capacity, self.size_count(table)
        if sizes == 1:
            logs = np.log(table.rate / capacity)
            values = self.proportional(math.exp(float(np.average(logs, weights=table.weight))))
            free = values > 0.0
            free &= np.cumsum(free) == 1  # its level alone is known
        else:
            values, free = self.calibrated(table)
        # Where a badly calibrated curve predicts nothing, its relative error is large, not infinite.
        fitted = np.maximum(self.curve(values, table.executors, table.speed, table.delay), 1e-3 * table.rate)
        gradients = self.log_gradient(values, table.executors, table.speed, table.delay) * free
        pulls = self.pulls(free)
        weights = np.append(self.loss_weights(table, fitted), np.ones(len(pulls)))
        used = int((free & (values > 0.0)).sum())
        noise, freedom = noise_of(np.log(table.rate / fitted), table.weight, used, table.effective_count)
        return Calibration(
            values,
            covariance_of(np.vstack((gradients, pulls)), weights),
            noise,
            freedom,
            float(capacity.min()),
            float(capacity.max()),
            limit=float(capacity.max()) if sizes == 1 and self.ends_at_one_size else None,
            is_reduced=sizes < min(3, len(values)),
            structure=REDUCED_SPREAD if sizes < min(3, len(values)) else EXTRAPOLATION_SPREAD,
            is_free=tuple(bool(flag) for flag in free),
            nearest=float(table.delay.min()),
            farthest=float(table.delay.max()),
            delay_structure=DELAY_SPREAD if table.several_delays else UNKNOWN_DELAY_SPREAD,
        )

    def _structure(self, inner: Calibration, table: SampleTable) -> float:
        """How wrong the form is for each factor of e beyond its samples, seen at the largest size that there is."""
        largest = np.flatnonzero(table.capacity > inner.largest * (1.0 + 1e-6))
        if not len(largest):
            return EXTRAPOLATION_SPREAD
        at = largest[-1:]
        columns = (table.executors[at], table.speed[at], table.delay[at])
        rate = max(float(self.curve(inner.values, *columns)[0]), 1e-3 * float(table.rate[at][0]))
        measured = float(np.average(np.log(table.rate[largest]), weights=table.weight[largest]))
        excess = (measured - math.log(rate)) ** 2 - inner.noise_variance(self.log_gradient(inner.values, *columns)[0])
        distance = math.log(float(table.capacity[at][0]) / inner.largest)
        return math.hypot(EXTRAPOLATION_SPREAD, min(1.0, math.sqrt(max(0.0, excess)) / distance))


def _some_sizes(most: int) -> FloatArray:
    """All sizes up to a few thousand, and steps of 0.2 % beyond: a curve has one peak, and is smooth."""
    if most <= _EVERY_SIZE:
        return np.arange(1.0, most + 1.0)
    steps = math.ceil(math.log(most / _EVERY_SIZE) / math.log(_FAR_STEP)) + 1
    return np.append(np.arange(1.0, _EVERY_SIZE), np.unique(np.round(np.geomspace(_EVERY_SIZE, most, steps))))
