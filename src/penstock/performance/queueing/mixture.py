# SPDX-License-Identifier: Apache-2.0
"""The time of a record that takes one of several ways, each with a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import Response, check_probability


@dataclass(frozen=True)
class Mixture:
    """A `Response` that is one of several stable ones, chosen with `weights` that sum to one.

    Examples
    --------
    >>> from penstock.markov import PH
    >>> from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
    >>> short, long = (PhaseTypeResponse(0.5, PH.exponential(mean=m)) for m in (1.0, 3.0))
    >>> Mixture((0.5, 0.5), (short, long)).mean
    2.0
    """

    weights: tuple[float, ...]
    responses: tuple[Response, ...]

    def __post_init__(self) -> None:
        total = sum(self.weights)
        if len(self.weights) != len(self.responses) or min(self.weights) < 0 or abs(total - 1.0) > 1e-9:
            raise ConfigurationError(
                f"weights: {list(self.weights)!r} must be probabilities, one for each way, and sum to 1",
                field="weights",
            )

    @property
    def is_stable(self) -> bool:
        """Whether every way is."""
        return all(response.is_stable for response in self.responses)

    @property
    def utilisation(self) -> float:
        """That of the most loaded way."""
        return max(response.utilisation for response in self.responses)

    @property
    def mean(self) -> float:
        """Mean time."""
        return sum(w * response.mean for w, response in zip(self.weights, self.responses, strict=True))

    @property
    def variance(self) -> float:
        """Variance of the time."""
        mean = self.mean
        pairs = zip(self.weights, self.responses, strict=True)
        return sum(w * (response.variance + (response.mean - mean) ** 2) for w, response in pairs)

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        pairs = zip(self.weights, self.responses, strict=True)
        total = np.zeros(len(times))
        for w, response in pairs:
            total += w * response.cdf(times)
        return total

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within."""
        wanted = check_probability(p)
        each = [response.percentile(wanted) for w, response in zip(self.weights, self.responses, strict=True) if w > 0]
        low, high = min(each), max(each)
        while high - low > 1e-10 * high:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.cdf([middle])[0] < wanted else (low, middle)
        return high

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return np.array([self.percentile(p) for p in ps])
