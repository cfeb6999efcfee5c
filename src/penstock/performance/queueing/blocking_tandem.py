# SPDX-License-Identifier: Apache-2.0
"""Two queues in series with room for K records at the second: a full second queue stops the first server.

The first server, done with a record that finds no room, keeps it and stands still until there is (blocking after
service). Nothing is lost; the first queue has no limit. The number of records at the first queue is the level of a
quasi-birth-death chain; its phases are those of the arrivals and of both servers with the second queue's length, or the
first server blocked: m1 (1 + K m2) + m2 for each phase of the arrivals. All of it is exact (Neuts, "Two queues in
series with a finite, intermediate waitingroom", Journal of Applied Probability 5, 1968, has the model for one phase).

Means come from Little's law. The distribution of the time through both is not given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.markov.ctmc import eliminate
from penstock.markov.quasi_birth_death import solve_qbd
from penstock.performance.queueing.levels import kron, stationary_levels
from penstock.performance.queueing.load import SATURATION, check_processes, entered
from penstock.performance.queueing.partitions import check_count
from penstock.performance.queueing.response import MeansOnly, Saturated

MOST_PHASES = 400


@dataclass(frozen=True)
class BlockingTandem(MeansOnly):
    """Two stable queues, the first of which the second may block."""

    utilisation: float
    """Arrivals over the most the two servers pass on, blocking included."""
    mean: float
    """Mean time through both queues."""
    first_mean: float
    """Mean time at the first queue, standing blocked included."""
    blocked_share: float
    """Share of the time that the first server is blocked."""
    most_throughput: float
    """Records per second at which the first queue would be saturated."""

    why: ClassVar[str] = (
        "of two queues with blocking only means are known; for percentiles leave the room unlimited and "
        "solve the network, or take the second queue alone as a finite buffer"
    )


def solve_blocking_tandem(arrivals: MAP, first: PH, second: PH, room: int) -> BlockingTandem | Saturated:
    """Give the means of two queues in series with `room` records at the second, the one in service among them.

    Raises
    ------
    ConfigurationError
        If the chain needs more than `MOST_PHASES` phases.

    Examples
    --------
    >>> tandem = solve_blocking_tandem(MAP.poisson(0.5), PH.exponential(mean=1.0), PH.exponential(mean=1.0), 1)
    >>> round(tandem.most_throughput, 9)  # with equal exponential servers and room for one: 2/3 of a server
    0.666666667
    """
    for service in (first, second):
        check_processes(arrivals, service, PH)
    first, second, K = entered(first), entered(second), check_count("room", room)
    chain = _Chain(first, second, K)
    n = arrivals.order
    if n * chain.size > MOST_PHASES:
        raise ConfigurationError(
            f"room: with {K} places the two servers and the arrivals have {n * chain.size} phases, more than "
            f"{MOST_PHASES}; take fewer places or phases",
            field="room",
        )
    rates = chain.inside + chain.away
    np.fill_diagonal(rates, 0.0)
    most = float((eliminate(rates) @ chain.away).sum())
    utilisation = arrivals.rate / most
    if not utilisation < SATURATION:
        return Saturated(utilisation)
    eye = np.eye(n)
    up, down = kron(arrivals.D1, np.eye(chain.size)), kron(eye, chain.away)
    local = kron(arrivals.D0, np.eye(chain.size)) + kron(eye, chain.inside)
    solved = solve_qbd(up, local, down)
    empty = kron(arrivals.D0, np.eye(chain.idle_size)) + kron(eye, chain.idle)
    idle, start = stationary_levels(
        [empty, local + up @ solved.G], [kron(arrivals.D1, chain.enter)], [kron(eye, chain.leave)]
    )
    inverse = np.linalg.inv(np.eye(len(local)) - solved.R)
    busy = start @ inverse
    total = float(idle.sum() + busy.sum())
    ahead = float((busy @ inverse).sum()) / total
    by_state = busy.reshape(n, chain.size).sum(axis=0) / total
    behind = float(by_state @ chain.second + idle.reshape(n, chain.idle_size).sum(axis=0) @ chain.idle_second / total)
    return BlockingTandem(
        utilisation,
        mean=(ahead + behind) / arrivals.rate,
        first_mean=ahead / arrivals.rate,
        blocked_share=float(by_state[chain.blocked :].sum()),
        most_throughput=most,
    )


class _Chain:
    """Both servers without the arrivals: with work for the first, and without.

    With work the states are: first server in phase i, second queue of k records with its server in phase j, at
    `_at(k) + i w + j` with w = 1 for k = 0 and m2 else; then the first server blocked, from `blocked` on.
    """

    def __init__(self, first: PH, second: PH, K: int) -> None:
        m1, m2 = first.order, second.order
        self._m1, self._m2 = m1, m2
        self.blocked = m1 * (1 + K * m2)
        self.size, self.idle_size = self.blocked + m2, 1 + K * m2
        self.inside, self.away = np.zeros((self.size, self.size)), np.zeros((self.size, self.size))
        self.idle = np.zeros((self.idle_size, self.idle_size))
        self.leave, self.enter = np.zeros((self.size, self.idle_size)), np.zeros((self.idle_size, self.size))
        one, two = np.eye(m1), np.eye(m2)
        restart = np.outer(second.exits, second.alpha)
        for k in range(K + 1):
            here, quiet = self._states(k), self._idle_states(k)
            width = np.eye(1) if k == 0 else two
            self.inside[here, here] += kron(first.T, width)
            self.enter[quiet, here] = kron(first.alpha[None, :], width)
            if k:
                below = second.exits[:, None] if k == 1 else restart
                self.inside[here, here] += kron(one, second.T)
                self.inside[here, self._states(k - 1)] += kron(one, below)
                self.idle[quiet, quiet] += second.T
                self.idle[quiet, self._idle_states(k - 1)] += below
            if k < K:
                taken = second.alpha[None, :] if k == 0 else two
                self.away[here, self._states(k + 1)] += kron(np.outer(first.exits, first.alpha), taken)
                self.leave[here, self._idle_states(k + 1)] += kron(first.exits[:, None], taken)
            else:
                self.inside[here, self.blocked :] += kron(first.exits[:, None], two)
        full = self._states(K)
        self.inside[self.blocked :, self.blocked :] += second.T
        self.away[self.blocked :, full] += kron(first.alpha[None, :], restart)
        self.leave[self.blocked :, self._idle_states(K)] += restart
        self.second = np.zeros(self.size)
        self.idle_second = np.zeros(self.idle_size)
        for k in range(1, K + 1):
            self.second[self._states(k)] = k
            self.idle_second[self._idle_states(k)] = k
        self.second[self.blocked :] = K

    def _states(self, k: int) -> slice:
        if k == 0:
            return slice(0, self._m1)
        start = self._m1 * (1 + (k - 1) * self._m2)
        return slice(start, start + self._m1 * self._m2)

    def _idle_states(self, k: int) -> slice:
        return slice(0, 1) if k == 0 else slice(1 + (k - 1) * self._m2, 1 + k * self._m2)
