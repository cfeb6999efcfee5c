# SPDX-License-Identifier: Apache-2.0
"""A rising curve of no given form: what a formula cannot bend to.

On logarithmic scales the throughput is a chain of straight pieces between the sizes that were sampled:

    log y = level + sum_k slope_k (length of piece k below x),   0 <= slope_k <= 1,   x = log m + q log s

A slope of 1 is a throughput in proportion to the size, 0 a ceiling. Slopes are drawn towards their neighbours: they are
a random walk along x of known spread, so that the curve is the most probable path of an integrated Wiener process (the
Gaussian process behind cubic smoothing splines, Wahba 1990) among those that rise. The interval is that process's, and
widens beyond the samples as the walk does. m s^q is the effective size: an executor with the share s of its cores
counts as s^q executors, q = 1 until samples of several shares say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import numpy as np
from scipy.optimize import lsq_linear

from penstock.performance.throughput.calibration import REDUCED_SPREAD, WIDEST, around, noise_of, t_quantile
from penstock.performance.throughput.learnt_model import LearntModel
from penstock.performance.throughput.sample_table import SampleTable, speed_of
from penstock.ports import FloatArray
from penstock.records import Allocation, ThroughputPrediction

_WALK = 0.4
"""How much a slope changes over a factor of e in size, as a standard deviation: Amdahl's law with a tenth of serial
work goes from 0.9 to 0.5 over a factor of 10."""
_SLOPE, _SLOPE_SPREAD = 0.7, 0.5
"""What is expected of the first slope before samples say."""
_FIRST_NOISE = 0.05
_EXPONENTS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False, slots=True)
class Chain:
    """A fitted chain of pieces: see the module's formula.

    Attributes
    ----------
    knots
        The logarithms of the effective sizes that were sampled.
    weights
        Level and slopes.
    covariance
        Their covariance.
    noise, freedom
        Relative standard deviation of a measurement, and its degrees of freedom.
    exponent
        q.
    misfit
        What the fit has minimised.
    """

    knots: FloatArray
    weights: FloatArray
    covariance: FloatArray
    noise: float
    freedom: float
    exponent: float
    misfit: float

    def at(self, size: float) -> tuple[float, float]:
        """The logarithm of the throughput at the logarithm of a size, and its variance for a new measurement."""
        row = _rows(np.array([size]), self.knots)[0]
        gap = float(np.min(np.abs(self.knots - size)))
        walk = _WALK**2 * gap**3 / 3.0  # variance of an integrated Wiener process over a gap
        return float(row @ self.weights), self.noise**2 + float(row @ self.covariance @ row) + walk


@dataclass(frozen=True, eq=False)
class MonotoneModel(LearntModel):
    """A throughput that rises with the effective size, along no given form. `chain` is what its fit found."""

    name: ClassVar[str] = "monotone"

    chain: Chain | None = field(default=None, kw_only=True, repr=False)

    @property
    def parameters(self) -> Mapping[str, float]:
        """Level, exponent of the share, and the slope after each sampled size."""
        if self.chain is None:
            return {}
        sizes = np.exp(self.chain.knots[:-1])
        slopes = {
            f"slope after {size:g}": float(slope) for size, slope in zip(sizes, self.chain.weights[1:], strict=True)
        }
        level = {"level": math.exp(self.chain.weights[0]), "share_exponent": self.chain.exponent}
        if len(self.chain.knots) == 1:
            level["limited_to"] = math.exp(self.chain.knots[0])
        return {**level, **slopes}

    @property
    def notes(self) -> tuple[str, ...]:
        """Where it was not sampled."""
        if self.chain is None:
            return ("not fitted yet",)
        low, high = math.exp(self.chain.knots[0]), math.exp(self.chain.knots[-1])
        if len(self.chain.knots) == 1:
            return (
                f"only one size was sampled (an effective size of {high:g} executors): throughput is taken as "
                "proportional below it, and as no higher above it",
            )
        return (f"sampled from {low:g} to {high:g} effective executors; beyond, the last slope goes on",)

    def trained(self, table: SampleTable) -> Self:
        """With the chain that fits best, over the exponents of the share."""
        several_speeds = bool(np.ptp(table.speed) > 1e-9) and table.sizes > 2
        exponents = _EXPONENTS if several_speeds else np.ones(1)
        chains = [_chain(table, float(exponent)) for exponent in exponents]
        return replace(self, chain=min(chains, key=lambda chain: (chain.misfit, -chain.exponent)))

    def answer(self, allocation: Allocation, coverage: float) -> ThroughputPrediction:
        """The chain at the allocation's effective size."""
        chain = self.chain
        assert chain is not None, "predict refuses what is not fitted"
        size = math.log(allocation.executors) + chain.exponent * math.log(speed_of(allocation))
        if len(chain.knots) == 1:
            beyond = size - float(chain.knots[0])
            level, variance = float(chain.weights[0]) + min(0.0, beyond), float(chain.covariance[0, 0]) + chain.noise**2
            variance += (REDUCED_SPREAD * beyond) ** 2
        else:
            level, variance = chain.at(size)
        quantile = t_quantile(coverage, chain.freedom)
        return around(math.exp(level), min(WIDEST, math.sqrt(variance) * quantile), coverage)


def _rows(sizes: FloatArray, knots: FloatArray) -> FloatArray:
    """What level and slopes count at these sizes; the outer slopes go on beyond the outer knots."""
    lower, upper = knots[:-1].copy(), knots[1:].copy()
    if len(lower):
        lower[0], upper[-1] = -np.inf, np.inf
    ends = np.clip(sizes[:, None], lower, upper)
    origin = np.where(np.isfinite(lower), lower, knots[0])
    return np.column_stack((np.ones(len(sizes)), ends - origin))


def _chain(table: SampleTable, exponent: float) -> Chain:
    sizes = np.round(np.log(table.executors) + exponent * np.log(table.speed), 9)
    knots = np.unique(np.round(sizes, 6))
    noise, freedom = _FIRST_NOISE, 1.0
    logs, root = np.log(table.rate), np.sqrt(table.weight)
    mean = float(np.average(logs, weights=table.weight))
    design = _rows(sizes, knots)
    walk, wanted = _walk_rows(knots)
    for _ in range(3):  # the noise decides how far slopes are drawn together, and the misses decide the noise
        matrix = np.vstack((design * (root / noise)[:, None], walk))
        target = np.append((logs - mean) * root / noise, wanted)
        low, high = np.zeros(len(knots)), np.ones(len(knots))
        low[0], high[0] = -np.inf, np.inf
        solved = lsq_linear(matrix, target, bounds=(low, high), method="bvls", tol=1e-12)
        covariance: FloatArray = np.asarray(np.linalg.pinv(matrix.T @ matrix, hermitian=True), dtype=np.float64)
        leverages = np.einsum("ij,jk,ik->i", design, covariance, design) * table.weight / noise**2
        used = float(np.clip(leverages.sum(), 1.0, len(knots)))
        noise, freedom = noise_of(logs - mean - design @ solved.x, table.weight, used, table.effective_count)
    misfit = float(((matrix @ solved.x - target) ** 2).sum()) + 2.0 * len(table) * math.log(noise)
    weights = solved.x + np.append(mean, np.zeros(len(knots) - 1))
    return Chain(knots, weights, covariance, noise, freedom, exponent, misfit)


def _walk_rows(knots: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The prior of the slopes as rows of a least-squares problem, each in units of its own spread."""
    count = len(knots) - 1
    rows, wanted = np.zeros((count, count + 1)), np.zeros(count)
    if count:
        rows[0, 1], wanted[0] = 1.0 / _SLOPE_SPREAD, _SLOPE / _SLOPE_SPREAD
    middles = (knots[:-1] + knots[1:]) / 2.0
    for piece in range(1, count):
        spread = _WALK * math.sqrt(middles[piece] - middles[piece - 1])
        rows[piece, piece : piece + 2] = -1.0 / spread, 1.0 / spread
    return rows, wanted
