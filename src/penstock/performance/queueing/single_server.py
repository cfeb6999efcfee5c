# SPDX-License-Identifier: Apache-2.0
"""One server, records served in the order of their arrival: MAP/PH/1 and MAP/MAP/1, whole distributions.

`markov.map_ph_1` says how the times come about, `markov.fluid` how their chain is solved, `tails` how percentiles are
read from it. Work that many queues share is done once by `solve_many`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.markov.lags import as_lags
from penstock.markov.map_ph_1 import Arrivals, Services, solve_sojourns
from penstock.performance.queueing.map_service import SolvedMapService, solve_map_service
from penstock.performance.queueing.queue_inputs import SATURATION, check_processes, entered
from penstock.performance.queueing.response import Saturated
from penstock.performance.queueing.stacked_queues import ManyAnswers, solve_many
from penstock.performance.queueing.time_distribution import TimeChain, TimeDistribution

__all__ = ["ManyAnswers", "SingleServer", "solve_many", "solve_map_map_1", "solve_map_ph_1"]


class SingleServer(TimeDistribution):
    """A stable queue with one server: the distribution of the sojourn time, waiting and service together.

    Attributes
    ----------
    waiting
        Distribution of the time before service; `waiting.zero` is the probability of none.
    arrival_rate
        Records per second.
    """

    def __init__(
        self,
        sojourn: TimeDistribution,
        waiting: TimeDistribution,
        arrival_rate: float,
        levels: Callable[[], tuple[FloatArray, FloatArray]],
    ) -> None:
        self.__dict__.update(sojourn.__dict__)
        self.waiting = waiting
        self.arrival_rate = arrival_rate
        self._levels = levels

    @property
    def queue_length_mean(self) -> float:
        """Mean number of records waiting and in service, by Little's law."""
        return self.arrival_rate * self.mean

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Give the probabilities of the phases with one record in the queue, and R, the factor per further record.

        Phases are those of the arrivals times those of the service, the latter counting fastest.
        """
        return self._levels()

    def queue_length(self, k: npt.ArrayLike) -> FloatArray:
        """Give the probability of k records waiting and in service, at an arbitrary instant, for each k.

        Examples
        --------
        >>> queue = solve_map_ph_1(MAP.poisson(1.0), PH.exponential(mean=0.5))
        >>> queue.queue_length([0, 1, 2, 10]).round(9).tolist()
        [0.5, 0.25, 0.125, 0.000488281]
        """
        wanted = as_lags("k", k)
        first, R = self.levels()
        # One row per k, multiplied by R^(2^b) for each binary digit b of k - 1.
        rows = np.tile(first, (wanted.size, 1))
        digits, power = np.maximum(wanted.ravel() - 1, 0), R
        while digits.any():
            odd = (digits & 1).astype(bool)
            if odd.any():
                rows[odd] = rows[odd] @ power
            digits = digits >> 1
            power = power @ power
        return np.where(wanted == 0, 1.0 - self.utilisation, rows.sum(axis=1).reshape(wanted.shape))


def solve_map_ph_1(arrivals: MAP, service: PH) -> SingleServer | Saturated:
    """Solve the queue MAP/PH/1.

    Raises
    ------
    ConfigurationError
        If `arrivals` is not a `MAP` or `service` is not a `PH`.
    ConvergenceError
        If the chain could not be solved.

    Examples
    --------
    >>> queue = solve_map_ph_1(MAP.poisson(1.0), PH.exponential(mean=0.5))
    >>> queue.utilisation, queue.mean, round(queue.percentile(0.95), 9)  # M/M/1: exponential with mean 1
    (0.5, 1.0, 2.995732274)
    >>> solve_map_ph_1(MAP.poisson(3.0), PH.exponential(mean=0.5)).mean
    inf
    """
    check_processes(arrivals, service, PH)
    utilisation = arrivals.rate * service.mean
    if not utilisation < SATURATION:
        return Saturated(utilisation)
    service = entered(service)
    solved = solve_sojourns(Arrivals.of([arrivals]), Services.of([service]))
    pi = solved.pi[0]
    waiting_mean = float(pi @ solved.waiting_moments()[0][0])
    zero = float(pi @ solved.p0[0])

    def build() -> tuple[FloatArray, FloatArray]:
        A, a = solved.chain()
        return A[0], a[0]

    def levels() -> tuple[FloatArray, FloatArray]:
        n, m = arrivals.order, service.order
        up = np.kron(arrivals.D1, np.eye(m))
        local = np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.T)
        G = (solved.Psi[0][:, :, None] * service.alpha).reshape(n * m, n * m)
        inner: FloatArray = np.asarray(np.linalg.inv(-(local + up @ G)), dtype=np.float64)
        first = np.kron(arrivals.rate * solved.xi[0] @ arrivals.D1, service.alpha) @ inner
        return first, up @ inner

    def waiting_variance() -> float:
        square = float(pi @ solved.waiting_moments(2)[1][0])
        return max(square - waiting_mean * waiting_mean, 0.0)

    chain = TimeChain(build)
    return SingleServer(
        TimeDistribution(
            utilisation,
            waiting_mean + service.mean,
            variance=lambda: waiting_variance() + service.variance,
            start=lambda: solved.start()[0],
            zero=0.0,
            chain=chain,
        ),
        TimeDistribution(
            utilisation,
            waiting_mean,
            variance=waiting_variance,
            start=lambda: np.asarray(pi @ solved.W[0]),
            zero=zero,
            chain=chain,
        ),
        arrivals.rate,
        levels,
    )


def solve_map_map_1(arrivals: MAP, service: MAP) -> SingleServer | Saturated:
    """Solve the queue MAP/MAP/1: service times are the intervals of a `MAP` that stands still while there is no work.

    Raises
    ------
    ConfigurationError
        If one of them is not a `MAP`.
    InvalidProcessError
        If arrivals and services keep in step for ever, so that the answer depends on where they started.
    ConvergenceError
        If the chain could not be solved.

    Examples
    --------
    >>> queue = solve_map_map_1(MAP.poisson(1.0), MAP.poisson(2.0))
    >>> queue.mean, round(queue.waiting.zero, 12)
    (1.0, 0.5)
    """
    check_processes(arrivals, service, MAP)
    utilisation = arrivals.rate * service.mean
    if not utilisation < SATURATION:
        return Saturated(utilisation)
    solved = solve_map_service(arrivals, service)
    chain = TimeChain(solved.chain)
    return SingleServer(
        _answer(solved, solved.sojourn_start, 0.0, chain),
        _answer(solved, solved.waiting_start, solved.waiting_zero, chain),
        arrivals.rate,
        solved.levels,
    )


def _answer(solved: SolvedMapService, start: FloatArray, zero: float, chain: TimeChain) -> TimeDistribution:
    mean, variance = solved.mean_and_variance(start)
    utilisation = solved.arrivals.rate * solved.service.mean
    return TimeDistribution(utilisation, mean, variance=lambda: variance, start=lambda: start, zero=zero, chain=chain)
