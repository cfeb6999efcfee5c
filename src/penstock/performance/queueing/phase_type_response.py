# SPDX-License-Identifier: Apache-2.0
"""A response time of phase type, with a share of the records that do not wait at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import check_probability


@dataclass(frozen=True)
class PhaseTypeResponse:
    """A `Response` that is zero for a share of the records and of phase type for the others.

    Parameters
    ----------
    utilisation
        Work that arrives over work that can be done.
    positive
        Distribution of the time where it is not zero, in seconds.
    chance
        Share of the records whose time is not zero.

    Examples
    --------
    >>> wait = PhaseTypeResponse(0.5, PH.exponential(mean=2.0), chance=0.5)
    >>> wait.mean, wait.percentile(0.4), wait.cdf([0.0]).tolist()
    (1.0, 0.0, [0.5])
    """

    utilisation: float
    positive: PH
    chance: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.chance <= 1.0:
            raise ConfigurationError(
                f"chance: {self.chance!r} is not a probability; give a number in [0, 1]", field="chance"
            )

    @property
    def is_stable(self) -> bool:
        """True: a saturated queue has no distribution."""
        return True

    @property
    def mean(self) -> float:
        """Mean time."""
        return self.chance * self.positive.mean

    @property
    def variance(self) -> float:
        """Variance of the time."""
        second = self.positive.variance + self.positive.mean**2
        return self.chance * second - self.mean**2

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within."""
        return float(self.percentiles([p])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        wanted = np.array([check_probability(p) for p in ps])
        times = np.zeros(len(wanted))
        beyond = wanted > 1.0 - self.chance
        if beyond.any():
            within = 1.0 - (1.0 - wanted[beyond]) / self.chance
            times[beyond] = self.positive.quantile(np.clip(within, 0.0, np.nextafter(1.0, 0.0)))
        return times

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        at = np.asarray(times, dtype=np.float64)
        share: FloatArray = np.where(at < 0.0, 0.0, 1.0 - self.chance * self.positive.sf(at))
        return share
