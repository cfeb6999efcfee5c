# SPDX-License-Identifier: Apache-2.0
"""One server, records served in the order of their arrival: MAP/PH/1 and MAP/MAP/1, whole distributions.

`markov.map_ph_1` says how the times come about, `markov.fluid` how their chain is solved, `tails` how percentiles are
read from it. Work that many queues share is done once by `solve_many`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.markov.lags import as_lags
from penstock.markov.map_ph_1 import Arrivals, Services, Sojourns, solve_sojourns
from penstock.performance.queueing.map_service import SolvedMapService, solve_map_service
from penstock.performance.queueing.queue_inputs import SATURATION, check_processes, entered
from penstock.performance.queueing.response import Saturated
from penstock.performance.queueing.stacked_queues import ManyAnswers, solve_many, stacks
from penstock.performance.queueing.time_distribution import TimeChains, TimeDistribution, TimeStack

__all__ = ["ManyAnswers", "SingleServer", "solve_each", "solve_many", "solve_map_map_1", "solve_map_ph_1"]


class SingleServer(TimeDistribution):
    """A stable queue with one server: the distribution of the sojourn time, waiting and service together.

    Attributes
    ----------
    waiting
        Distribution of the time before service; `waiting.zero` is the probability of none.
    arrival_rate
        Records per second.
    Psi
        Phase of the arrivals after a busy period, by the phases it starts in; None where services are correlated, or
        where records do not arrive into all phases of the arrivals.
    """

    def __init__(
        self,
        sojourn: TimeDistribution,
        waiting: TimeDistribution,
        arrival_rate: float,
        levels: Callable[[], tuple[FloatArray, FloatArray]],
        Psi: FloatArray | None = None,
    ) -> None:
        self.__dict__.update(sojourn.__dict__)
        self.waiting = waiting
        self.arrival_rate = arrival_rate
        self.Psi = Psi
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
    return solve_each([(arrivals, service)])[0]


def solve_each(queues: Sequence[tuple[MAP, PH]]) -> list[SingleServer | Saturated]:
    """Solve queues MAP/PH/1 as `solve_map_ph_1` does each, those of one size together.

    Of queues that were solved together, what one is asked is found for all of them at once.

    Examples
    --------
    >>> [one, two] = solve_each([(MAP.poisson(1.0), PH.exponential(mean=mean)) for mean in (0.5, 0.8)])
    >>> one.mean, round(two.mean, 9)
    (1.0, 4.0)
    """
    for arrivals, service in queues:
        check_processes(arrivals, service, PH)
    utilisation = [arrivals.rate * service.mean for arrivals, service in queues]
    solved: list[SingleServer | Saturated] = [Saturated(load) for load in utilisation]
    stable = [k for k, load in enumerate(utilisation) if load < SATURATION]
    kept = {k: (queues[k][0], entered(queues[k][1])) for k in stable}
    sizes = {k: (arrivals.order, service.order) for k, (arrivals, service) in kept.items()}
    for some in stacks(sizes, utilisation):
        for k, answer in zip(some, _solved_together([kept[k] for k in some]), strict=True):
            solved[k] = answer
    return solved


def _solved_together(queues: Sequence[tuple[MAP, PH]]) -> Iterator[SingleServer]:
    solved = solve_sojourns(Arrivals.of([arrivals for arrivals, _ in queues]), Services.of([one for _, one in queues]))
    chains = TimeChains(solved.chain)
    waiting_means = (solved.pi * solved.waiting_moments()[0]).sum(axis=1)
    sojourns = TimeStack(chains, solved.start, np.zeros(len(queues)))
    waits = TimeStack(chains, lambda: (solved.pi[:, None, :] @ solved.W)[:, 0, :], (solved.pi * solved.p0).sum(axis=1))
    for row, (arrivals, service) in enumerate(queues):
        mean, utilisation = float(waiting_means[row]), arrivals.rate * service.mean

        def waiting_variance(row: int = row, mean: float = mean) -> float:
            square = float(solved.pi[row] @ solved.waiting_moments(2)[1][row])
            return max(square - mean * mean, 0.0)

        def variance(waiting: Callable[[], float] = waiting_variance, service: PH = service) -> float:
            return waiting() + service.variance

        yield SingleServer(
            TimeDistribution(utilisation, mean + service.mean, variance=variance, times=sojourns, row=row),
            TimeDistribution(utilisation, mean, variance=waiting_variance, times=waits, row=row),
            arrivals.rate,
            partial(_levels, solved, row, arrivals, service),
            solved.Psi[row] if solved.into.shape[1] == arrivals.order else None,
        )


def _levels(solved: Sojourns, row: int, arrivals: MAP, service: PH) -> tuple[FloatArray, FloatArray]:
    n, m = arrivals.order, service.order
    up = np.kron(arrivals.D1, np.eye(m))
    local = np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.T)
    G = np.zeros((n, m, n, m))  # phases that records never arrive into stay zero: no level up leads there
    G[solved.into[row]] = solved.Psi[row].reshape(-1, m, n, 1) * service.alpha
    inner: FloatArray = np.asarray(np.linalg.inv(-(local + up @ G.reshape(n * m, n * m))), dtype=np.float64)
    first = np.kron(arrivals.rate * solved.xi[row] @ arrivals.D1, service.alpha) @ inner
    return first, up @ inner


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
    chains = TimeChains(lambda: (solved.A[None], solved.a[None]))
    return SingleServer(
        _answer(solved, solved.sojourn_start, 0.0, chains),
        _answer(solved, solved.waiting_start, solved.waiting_zero, chains),
        arrivals.rate,
        solved.levels,
    )


def _answer(solved: SolvedMapService, start: FloatArray, zero: float, chains: TimeChains) -> TimeDistribution:
    mean, variance = solved.mean_and_variance(start)
    utilisation = solved.arrivals.rate * solved.service.mean
    times = TimeStack(chains, lambda: start[None], np.array([zero]))
    return TimeDistribution(utilisation, mean, variance=lambda: variance, times=times)
