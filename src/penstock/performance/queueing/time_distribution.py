# SPDX-License-Identifier: Apache-2.0
"""A time in a queue: zero with some probability, else the absorption time of a Markov chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import PH, ctmc
from penstock.markov.conditions import FloatArray
from penstock.markov.tails import Tails
from penstock.performance.queueing.response import check_probability


class TimeChains:
    """The chains that waiting and sojourn times of queues share, built when a distribution is first asked for.

    Parameters
    ----------
    build
        Gives the rates between the phases (the diagonal is not read) and the rates of absorption, of all queues.
    """

    def __init__(self, build: Callable[[], tuple[FloatArray, FloatArray]]) -> None:
        self._build = build

    @cached_property
    def rates(self) -> tuple[FloatArray, FloatArray]:
        """A, with a diagonal that makes its rows sum to minus a, and a."""
        A, a = self._build()
        A = A.copy()
        diagonal = np.arange(A.shape[1])
        A[:, diagonal, diagonal] = 0.0
        A[:, diagonal, diagonal] = -(A.sum(axis=2) + a)
        return A, a

    @cached_property
    def tails(self) -> Tails:
        """Their doubled steps."""
        return Tails(*self.rates)

    def rest(self) -> None:
        """Let go of the doubled steps, which take megabytes; they are made again when they are asked for."""
        self.__dict__.pop("tails", None)

    def one(self, row: int) -> tuple[FloatArray, FloatArray]:
        """A and a of one queue."""
        A, a = self.rates
        return A[row], a[row]


class TimeStack:
    """Times of queues that are solved together: what one of them is asked is found for all at once.

    Parameters
    ----------
    chains
        Of all queues.
    starts
        Gives, in proportion, the probabilities of starting in each phase of the chain if the time is not 0.
    zeros
        Probabilities of time 0.
    """

    def __init__(self, chains: TimeChains, starts: Callable[[], FloatArray], zeros: FloatArray) -> None:
        self.chains, self.zeros, self._give_starts = chains, zeros, starts
        self._percentiles: dict[tuple[float, ...], FloatArray] = {}
        self._grids: dict[tuple[float, int], FloatArray] = {}

    @cached_property
    def starts(self) -> FloatArray:
        """The probabilities of the phases, if the time is not 0."""
        starts = self._give_starts()
        return np.asarray(starts / starts.sum(axis=1, keepdims=True))

    def percentiles(self, ps: tuple[float, ...]) -> FloatArray:
        """Give the times that shares `ps` of the records stay within, a row for each queue."""
        if ps not in self._percentiles:
            late = np.array(ps)[None] > self.zeros[:, None]
            conditional = (np.array(ps)[None] - self.zeros[:, None]) / (1.0 - self.zeros[:, None])
            asked = np.where(late, conditional, 0.5)
            times = np.where(late, self.chains.tails.quantiles(self.starts, asked), 0.0) if late.any() else 0.0 * asked
            self._percentiles[ps] = times
        return self._percentiles[ps]

    def cdf_on_grid(self, step: float, count: int) -> FloatArray:
        """Give the shares of the records that stay within equidistant times from 0 on, a row for each queue."""
        if (step, count) not in self._grids:
            absorbed = self.chains.tails.absorbed_on_grid(self.starts, step, count)
            self._grids[step, count] = self.zeros[:, None] + (1.0 - self.zeros[:, None]) * absorbed
        return self._grids[step, count]

    def rest(self) -> None:
        """Let go of what takes much memory, until something is asked again."""
        self._grids.clear()
        self.chains.rest()


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
    times, row
        The times of all queues that were solved together, and which of them this is.
    """

    is_stable = True

    def __init__(
        self, utilisation: float, mean: float, *, variance: Callable[[], float], times: TimeStack, row: int = 0
    ) -> None:
        self.utilisation = utilisation
        self.mean = mean
        self._variance = variance
        self._times, self._row = times, row

    @property
    def zero(self) -> float:
        """Probability of time 0."""
        return float(self._times.zeros[self._row])

    @cached_property
    def variance(self) -> float:
        """Variance of the time."""
        return self._variance()

    @property
    def _start(self) -> FloatArray:
        return np.asarray(self._times.starts[self._row])

    def percentile(self, p: float) -> float:
        """Give the time that a share `p` of the records stays within."""
        return float(self.percentiles([p])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Give several percentiles at once."""
        return np.array(self._times.percentiles(tuple(check_probability(p) for p in ps))[self._row])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Give the share of the records that stay within each of some times."""
        wanted = np.asarray(times, dtype=np.float64)
        if np.isnan(wanted).any():
            raise ConfigurationError("times: one of them is not a number; give seconds", field="times")
        shares = np.where(wanted < 0, 0.0, 1.0)
        inner = np.isfinite(wanted) & (wanted >= 0)
        if inner.any():
            A, a = self._times.chains.one(self._row)
            absorbed = Tails(A[None], a[None]).absorbed(self._start[None], wanted[inner][None])[0]
            shares[inner] = self.zero + (1.0 - self.zero) * absorbed
        return shares

    def cdf_on_grid(self, step: float, count: int) -> FloatArray:
        """Give the share of the records that stay within each of `count` equidistant times from 0 on."""
        return np.asarray(self._times.cdf_on_grid(step, count)[self._row])

    def rest(self) -> None:
        """Let go of what takes much memory, until something is asked again."""
        self._times.rest()

    def as_phase_type(self) -> PH:
        """Give the distribution, under the condition that the time is not 0, as a `PH`."""
        return PH.of_exits(self._start, *self._times.chains.one(self._row), self._phase_times)

    @cached_property
    def decay_rate(self) -> float:
        """The rate at which the tail falls in the end: minus the largest eigenvalue of A."""
        # The eigenvalue of the inverse is its largest, so that it is found to the last digits.
        return float(1.0 / np.linalg.eigvals(self._phase_times).real.max())

    @cached_property
    def _phase_times(self) -> FloatArray:
        """(-A)^-1, every entry to full relative accuracy."""
        return ctmc.fundamental(*self._times.chains.one(self._row))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(utilisation={self.utilisation:.6g}, mean={self.mean:.6g})"
