# SPDX-License-Identifier: Apache-2.0
"""What is believed of the throughput of every size while a query runs, made surer by each sample of the run.

A model that was fitted before the run says what each size sustains, and how sure it is. What it is wrong by is the same
for sizes that are near each other. So with x the logarithm of a size, the logarithm of the throughput is a Gaussian
process around the model's curve: its spread is the model's own, and the correlation of two sizes is Matern's with
smoothness 3/2,

    k(x, y) = s(x) s(y) (1 + r) exp(-r),   r = sqrt(3) |x - y| / length

A sample at one size moves it and its neighbours (regression kriging: Rasmussen and Williams, "Gaussian Processes for
Machine Learning", 2006, Eqs. 2.25, 2.26 and 4.17).

The interval is that of what a size sustains on average. A model's own interval is for one new measurement, whose noise
is in it: a query that runs for minutes does not see that noise, and would pay for it.

Several beliefs, of as many draws of the measurements, are kept side by side: all arrays have the draws first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dger
from scipy.special import ndtri

from penstock.performance.throughput.calibration import LEAST_SPREAD, PRIOR_FREEDOM, PRIOR_SPREAD
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputSample

_LENGTH = 0.4
"""Sizes a tenth apart are wrong by nearly the same (0.94), sizes a factor of two apart hardly (0.2)."""
_LEAST_MODEL_SPREAD = 0.04
"""No form is taken to be closer than this to the truth, however well it fits. Imai et al. (Fig. 11) report errors of 5
to 16 %."""


class CurveBelief:
    """Beliefs about the throughput of the same sizes.

    Parameters
    ----------
    capacities
        The sizes.
    expected
        What a model expects of them: a row for each draw.
    spread
        Relative standard deviations of what it expects; the same shape.
    noise
        Relative standard deviation of a sample, for each draw.
    """

    def __init__(
        self, capacities: npt.ArrayLike, expected: FloatArray, spread: FloatArray, noise: npt.ArrayLike
    ) -> None:
        places = np.log(np.asarray(capacities, dtype=np.float64))
        apart = np.sqrt(3.0) * np.abs(places[:, None] - places) / _LENGTH
        self._logs = np.log(expected)
        self._covariance: FloatArray = spread[:, :, None] * spread[:, None, :] * ((1.0 + apart) * np.exp(-apart))
        self._variance: FloatArray = spread**2
        self._noise_variance: FloatArray = np.asarray(noise, dtype=np.float64) ** 2
        self._rows = np.arange(len(expected))

    @classmethod
    def of(
        cls, fits: Sequence[tuple[ThroughputModel, Sequence[ThroughputSample]]], allocations: Sequence[Allocation]
    ) -> CurveBelief:
        """The belief that a model begins with, for each fit: the fitted model, and the samples it was fitted to."""
        capacities = [allocation.capacity for allocation in allocations]
        curves = [model_curve(model, samples, allocations) for model, samples in fits]
        expected, spread, noise = (np.array(column) for column in zip(*curves, strict=True))
        return cls(capacities, expected, spread, noise)

    @property
    def expected(self) -> FloatArray:
        """What each size is expected to sustain."""
        return np.exp(self._logs)

    def low(self, coverage: float, noise_part: float = 0.0) -> FloatArray:
        """The lower ends of the intervals with this coverage; `noise_part` of a sample's variance is in them."""
        return np.exp(self._logs - self._half_widths(coverage, noise_part))

    def high(self, coverage: float, noise_part: float = 0.0) -> FloatArray:
        """The upper ends."""
        return np.exp(self._logs + self._half_widths(coverage, noise_part))

    def _half_widths(self, coverage: float, noise_part: float) -> FloatArray:
        away = float(ndtri(0.5 + coverage / 2.0))
        widths: FloatArray = away * np.sqrt(self._variance + noise_part * self._noise_variance[:, None])
        return widths

    def learn(self, sizes: npt.NDArray[np.int64], rates: FloatArray) -> None:
        """Take in a sample for every draw: the place of the sampled size among the sizes, and what it did."""
        across = self._covariance[self._rows, sizes]
        gain = across / (across[self._rows, sizes] + self._noise_variance)[:, None]
        self._logs += gain * (np.log(rates) - self._logs[self._rows, sizes])[:, None]
        for covariance, each_gain, each_across in zip(self._covariance, gain, across, strict=True):
            # In place, and of Fortran's order since it is symmetric: C - gain across'.
            dger(-1.0, each_across, each_gain, a=covariance.T, overwrite_x=0, overwrite_y=0, overwrite_a=1)
        self._variance = np.maximum(self._variance - gain * across, 0.0)

    def learn_one(self, draw: int, size: int, rate: float, count: int = 1) -> None:
        """Take in one draw's sample, or the mean of several of the same size."""
        across = self._covariance[draw, size].copy()
        gain = across / (across[size] + self._noise_variance[draw] / count)
        self._logs[draw] += gain * (np.log(rate) - self._logs[draw, size])
        self._covariance[draw] -= np.outer(gain, across)
        self._variance[draw] = np.maximum(self._variance[draw] - gain * across, 0.0)


def model_curve(
    model: ThroughputModel, samples: Sequence[ThroughputSample], allocations: Sequence[Allocation]
) -> tuple[FloatArray, FloatArray, float]:
    """What a fitted model expects of allocations, the spread of that without a measurement's noise, and that noise."""
    coverage = 0.9
    found = [model.predict(allocation, coverage) for allocation in allocations]
    least = np.finfo(np.float64).tiny
    expected = np.maximum([prediction.records_per_second for prediction in found], least)
    high = np.maximum([prediction.high for prediction in found], least)
    noise = repeat_noise(samples)
    return expected, spread_of_mean(expected, high, coverage, noise), noise


def spread_of_mean(expected: FloatArray, high: FloatArray, coverage: float, noise: float) -> FloatArray:
    """The relative standard deviation of what a size sustains, by the interval of a measurement and its noise."""
    total = (np.log(high / expected) / float(ndtri(0.5 + coverage / 2.0))) ** 2
    spread: FloatArray = np.sqrt(np.maximum(total - noise**2, _LEAST_MODEL_SPREAD**2))
    return spread


def repeat_noise(samples: Sequence[ThroughputSample]) -> float:
    """Relative standard deviation of samples of one allocation; what is usual, where there are too few of them."""
    squares, freedom = 0.0, 0
    for allocation in {sample.allocation for sample in samples}:
        logs = np.log([sample.records_per_second for sample in samples if sample.allocation == allocation])
        squares += float(np.sum((logs - logs.mean()) ** 2))
        freedom += len(logs) - 1
    assumed = max(0.0, PRIOR_FREEDOM - freedom)
    return max(LEAST_SPREAD, float(np.sqrt((squares + assumed * PRIOR_SPREAD**2) / (freedom + assumed))))
