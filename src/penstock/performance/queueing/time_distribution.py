# SPDX-License-Identifier: Apache-2.0
"""A time in a queue: zero with some probability, else the absorption time of a Markov chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import PH, ctmc
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.response import check_probability
from penstock.performance.queueing.tails import Tails


class TimeChain:
    """The chain that waiting and sojourn time of a queue share, built when a distribution is first asked for.

    Parameters
    ----------
    build
        Gives the rates between the phases (the diagonal is not read) and the rates of absorption.
    """

    def __init__(self, build: Callable[[], tuple[FloatArray, FloatArray]]) -> None:
        self._build = build

    @cached_property
    def rates(self) -> tuple[FloatArray, FloatArray]:
        """A, with a diagonal that makes its rows sum to minus a, and a."""
        A, a = self._build()
        A = A.copy()
        np.fill_diagonal(A, 0.0)
        np.fill_diagonal(A, -(A.sum(axis=1) + a))
        return A, a

    @cached_property
    def tails(self) -> Tails:
        """Its doubled steps."""
        A, a = self.rates
        return Tails(A[None], a[None])

    def rest(self) -> None:
        """Let go of the doubled steps, which take megabytes; they are made again when they are asked for."""
        self.__dict__.pop("tails", None)

    @cached_property
    def times(self) -> FloatArray:
        """(-A)^-1, every entry to full relative accuracy."""
        return ctmc.fundamental(*self.rates)

    @cached_property
    def decay_rate(self) -> float:
        """The rate at which the tail falls in the end: minus the largest eigenvalue of A."""
        # The eigenvalue of the inverse is its largest, so that it is found to the last digits.
        return float(1.0 / np.linalg.eigvals(self.times).real.max())


class TimeDistribution:
    """The distribution of a time in a stable queue; a `Response`.

    Parameters
    ----------
    utilisation
        Utilisation of the queue.
    mean
        Mean time.
    variance
        Gives the variance of the time when it is first asked for.
    start
        Gives, in proportion, the probabilities of starting in each phase of the chain if the time is not 0.
    zero
        Probability of time 0.
    chain
        The chain.
    """

    is_stable = True

    def __init__(
        self,
        utilisation: float,
        mean: float,
        *,
        variance: Callable[[], float],
        start: Callable[[], FloatArray],
        zero: float,
        chain: TimeChain,
    ) -> None:
        self.utilisation = utilisation
        self.mean = mean
        self._variance = variance
        self.zero = zero
        self._give_start = start
        self._chain = chain

    @cached_property
    def variance(self) -> float:
        """Variance of the time."""
        return self._variance()

    @cached_property
    def _start(self) -> FloatArray:
        start = self._give_start()
        return np.asarray(start / start.sum())

    def percentile(self, p: float) -> float:
        """Give the time that a share `p` of the records stays within."""
        return float(self.percentiles([p])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Give several percentiles at once."""
        wanted = np.array([check_probability(p) for p in ps], dtype=np.float64)
        times = np.zeros(wanted.shape)
        late = wanted > self.zero
        if late.any():
            conditional = (wanted[late] - self.zero) / (1.0 - self.zero)
            times[late] = self._chain.tails.quantiles(self._start[None], conditional[None])[0]
        return times

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Give the share of the records that stay within each of some times."""
        wanted = np.asarray(times, dtype=np.float64)
        if np.isnan(wanted).any():
            raise ConfigurationError("times: one of them is not a number; give seconds", field="times")
        shares = np.where(wanted < 0, 0.0, 1.0)
        inner = np.isfinite(wanted) & (wanted >= 0)
        if inner.any():
            absorbed = self._chain.tails.absorbed(self._start[None], wanted[inner][None])[0]
            shares[inner] = self.zero + (1.0 - self.zero) * absorbed
        return shares

    def cdf_on_grid(self, step: float, count: int) -> FloatArray:
        """Give the share of the records that stay within each of `count` equidistant times from 0 on."""
        absorbed = self._chain.tails.absorbed_on_grid(self._start[None], step, count)[0]
        return np.asarray(self.zero + (1.0 - self.zero) * absorbed)

    def rest(self) -> None:
        """Let go of what takes much memory, until something is asked again."""
        self._chain.rest()

    def as_phase_type(self) -> PH:
        """Give the distribution, under the condition that the time is not 0, as a `PH`."""
        A, a = self._chain.rates
        return PH.of_exits(self._start, A, a, self._chain.times)

    @property
    def decay_rate(self) -> float:
        """The rate at which the tail falls in the end."""
        return self._chain.decay_rate

    def __repr__(self) -> str:
        return f"{type(self).__name__}(utilisation={self.utilisation:.6g}, mean={self.mean:.6g})"
