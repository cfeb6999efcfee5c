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
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from penstock.performance.throughput.calibration import LEAST_SPREAD, PRIOR_FREEDOM, PRIOR_SPREAD
from penstock.ports import FloatArray, ThroughputModel
from penstock.records import Allocation, ThroughputSample

_LENGTH = 0.7
"""Over a factor of two in size, what a model is wrong by is half the same."""
_LEAST_MODEL_SPREAD = 0.02
"""No form is taken to be closer than this to the truth, however well it fits."""


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
        self._change = np.empty_like(self._covariance)

    @classmethod
    def of(
        cls, fits: Sequence[tuple[ThroughputModel, Sequence[ThroughputSample]]], allocations: Sequence[Allocation]
    ) -> CurveBelief:
        """The belief that a model begins with, for each fit: the fitted model, and the samples that it was fitted to."""
        capacities = [allocation.capacity for allocation in allocations]
        curves = [model_curve(model, samples, allocations) for model, samples in fits]
        expected, spread, noise = (np.array(column) for column in zip(*curves, strict=True))
        return cls(capacities, expected, spread, noise)

    @property
    def expected(self) -> FloatArray:
        """What each size is expected to sustain."""
        return np.exp(self._logs)

    def low(self, coverage: float) -> FloatArray:
        """The lower ends of the intervals with this coverage."""
        away = float(ndtri(0.5 + coverage / 2.0))
        return np.exp(self._logs - away * np.sqrt(self._variance))

    def high(self, coverage: float) -> FloatArray:
        """The upper ends."""
        away = float(ndtri(0.5 + coverage / 2.0))
        return np.exp(self._logs + away * np.sqrt(self._variance))

    def learn(self, sizes: npt.NDArray[np.int64], rates: FloatArray, draws: npt.NDArray[Any] | None = None) -> None:
        """Take in a sample for each draw, or for some of them.

        Parameters
        ----------
        sizes
            The place of the sampled size among the sizes, for each of `draws`.
        rates
            What it did.
        draws
            Which beliefs learn; None: all.
        """
        if draws is not None and len(draws) < len(self._rows):
            self._learn_some(sizes, rates, draws)
            return
        across = self._covariance[self._rows, sizes]
        gain = across / (across[self._rows, sizes] + self._noise_variance)[:, None]
        self._logs += gain * (np.log(rates) - self._logs[self._rows, sizes])[:, None]
        np.multiply(gain[:, :, None], across[:, None, :], out=self._change)
        self._covariance -= self._change
        self._variance = np.maximum(self._variance - gain * across, 0.0)

    def _learn_some(self, sizes: npt.NDArray[np.int64], rates: FloatArray, draws: npt.NDArray[Any]) -> None:
        for draw, size, rate in zip(draws, sizes, rates, strict=True):
            across = self._covariance[draw, size].copy()
            gain = across / (across[size] + self._noise_variance[draw])
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
    low = np.maximum([prediction.low for prediction in found], least)
    noise = repeat_noise(samples)
    total = (np.log(expected / low) / float(ndtri(0.5 + coverage / 2.0))) ** 2
    return expected, np.sqrt(np.maximum(total - noise**2, _LEAST_MODEL_SPREAD**2)), noise


def repeat_noise(samples: Sequence[ThroughputSample]) -> float:
    """Relative standard deviation of samples of one allocation; what is usual, where there are too few of them."""
    squares, freedom = 0.0, 0
    for allocation in {sample.allocation for sample in samples}:
        logs = np.log([sample.records_per_second for sample in samples if sample.allocation == allocation])
        squares += float(np.sum((logs - logs.mean()) ** 2))
        freedom += len(logs) - 1
    assumed = max(0.0, PRIOR_FREEDOM - freedom)
    return max(LEAST_SPREAD, float(np.sqrt((squares + assumed * PRIOR_SPREAD**2) / (freedom + assumed))))
