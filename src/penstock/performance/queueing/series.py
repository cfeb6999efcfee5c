# SPDX-License-Identifier: Apache-2.0
"""The time of a record that goes through several queues one after the other: the distribution of a sum.

========  ==========================================================================================
Symbol    Meaning
========  ==========================================================================================
T_j       time in the first j queues
D_j       time in queue j
w_j       how far D_j rises and falls with T_(j-1): 0 independent, 1 the same rank in both
========  ==========================================================================================

Between independence and the same rank the quantiles are mixed: Q(T_j) = (1 - w_j) Q(T_(j-1) + D_j, independent) +
w_j (Q(T_(j-1)) + Q(D_j)). Any w_j leaves the mean as it is, the sum of the means.

Sums of independent times are convolutions on a grid of equal steps that reaches to where less than a thousandth of
the tail asked for is left; mass between two points is divided among them so that means are kept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.signal import fftconvolve

from penstock.errors import ConfigurationError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import Response, check_probability

_POINTS = 2048
_FARTHEST = 1e-12


@dataclass(frozen=True)
class Series:
    """A `Response` of the sum of several stable ones.

    Parameters
    ----------
    parts
        The queues in any order in which each is joined to the sum of those before it.
    weights
        w_j of each part; the first is not read.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
    >>> half = PhaseTypeResponse(0.5, PH.exponential(mean=1.0))
    >>> both = Series((half, half), (0.0, 0.0))  # Erlang-2
    >>> both.mean, round(both.percentile(0.95), 3), round(PH.erlang(2, mean=2.0).quantile(0.95).item(), 3)
    (2.0, 4.744, 4.744)
    """

    parts: tuple[Response, ...]
    weights: tuple[float, ...]
    _grids: dict[int, tuple[FloatArray, FloatArray]] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.parts or len(self.weights) != len(self.parts) or not all(0.0 <= w <= 1.0 for w in self.weights):
            raise ConfigurationError(
                f"weights: {list(self.weights)!r} must be one number from 0 to 1 for each of {len(self.parts)} parts",
                field="weights",
            )
        if not self.is_stable:
            raise ConfigurationError("parts: of a saturated part there is no distribution to add", field="parts")

    @property
    def is_stable(self) -> bool:
        """Whether every part is."""
        return all(part.is_stable for part in self.parts)

    @property
    def utilisation(self) -> float:
        """That of the most loaded part."""
        return max(part.utilisation for part in self.parts)

    @property
    def mean(self) -> float:
        """Mean time: the sum of the parts'."""
        return float(sum(part.mean for part in self.parts))

    @property
    def variance(self) -> float:
        """Variance of the time."""
        if len(self.parts) == 1:
            return self.parts[0].variance
        if not any(self.weights[1:]):
            return float(sum(part.variance for part in self.parts))
        times, shares = self._grid(10)
        mass, middle = np.diff(shares), 0.5 * (times[1:] + times[:-1])
        return float(mass @ (middle - self.mean) ** 2 + shares[0] * self.mean**2)

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within."""
        if len(self.parts) == 1:
            return self.parts[0].percentile(p)
        beyond = max(1.0 - check_probability(p), _FARTHEST * 1e3)
        times, shares = self._grid(math.ceil(3.0 - math.log10(beyond)))
        return float(np.interp(p, shares, times))

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return np.array([self.percentile(p) for p in ps])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        at = np.asarray(times, dtype=np.float64)
        if len(self.parts) == 1:
            return self.parts[0].cdf(at)
        known, shares = self._grid(6)
        far = at > known[-1]
        result = np.interp(at, known, shares, left=0.0)
        if far.any():
            known, shares = self._grid(round(-math.log10(_FARTHEST)))
            result[far] = np.interp(at[far], known, shares, right=1.0)
        return result

    def _grid(self, digits: int) -> tuple[FloatArray, FloatArray]:
        """Give times and the shares within them, up to where 10^-digits of the records are left."""
        if digits not in self._grids:
            reach = sum(part.percentile(1.0 - 10.0**-digits) for part in self.parts)
            x = np.linspace(0.0, reach, _POINTS)
            total = np.asarray(self.parts[0].cdf(x))
            for part, weight in zip(self.parts[1:], self.weights[1:], strict=True):
                total = _joined(x, total, np.asarray(part.cdf(x)), weight)
            self._grids[digits] = (x, np.maximum.accumulate(np.clip(total, 0.0, 1.0)))
        return self._grids[digits]


def _joined(x: FloatArray, one: FloatArray, other: FloatArray, weight: float) -> FloatArray:
    within: FloatArray = np.cumsum(fftconvolve(_mass(one), _mass(other))[: len(x)])
    # The grid's points carry the mass around them: half of it lies beyond the point.
    independent = within - 0.5 * np.diff(within, prepend=0.0)
    independent = np.maximum.accumulate(np.clip(independent, 0.0, 1.0))
    if weight == 0.0:
        return independent
    same_rank = _quantile(independent, one, x) + _quantile(independent, other, x)
    moved = (1.0 - weight) * x + weight * same_rank
    return np.interp(x, np.maximum.accumulate(moved), independent, left=0.0)


def _mass(shares: FloatArray) -> FloatArray:
    steps = np.diff(shares)
    mass = np.zeros(len(shares))
    mass[0] = shares[0]
    mass[:-1] += 0.5 * steps
    mass[1:] += 0.5 * steps
    return mass


def _quantile(p: FloatArray, shares: FloatArray, x: FloatArray) -> FloatArray:
    rising = np.maximum.accumulate(np.clip(shares, 0.0, 1.0))
    return np.interp(p, rising, x)
