# SPDX-License-Identifier: Apache-2.0
"""MAP/PH/c: one queue before several equal servers.

=============  ==============================================================================================
Symbol         Meaning
=============  ==============================================================================================
c, m, n        servers; phases of a service; phases of the arrivals
configuration  how many of the busy servers are in each service phase
M              number of configurations of c busy servers, (c + m - 1 over m - 1)
S0, S1         rates between configurations of c busy servers without, and with, a completion
pi_c, R        stationary vector of the level of c records, and of the levels above: pi_c R^k
H(t)           sum over k of R^k ((D1 e / lam) x P_k(t)), P_k(t) being the chance of k completions in t
=============  ==============================================================================================

Levels up to c are eliminated, those above are a quasi-birth-death chain over n M phases. A record that finds c + k
others waits for k + 1 completions, so P(W > t) = pi_c (I - R)^-1 H(t) e. From P_k' = P_k S0 + P_(k-1) S1 follows
H' = H S0 + R H S1, H(0) = (D1 e / lam) x I, which is stepped through by uniformisation, without limit on k. (The same
idea for one server: Ozawa, "Sojourn time distributions in the queue defined by a general QBD process", Queueing
Systems 53, 2006.) Means follow from Little's law.

Where n M is too large for that, the answer is approximate and says so: MAP/M/c is solved exactly and its waiting time
stretched by the ratio of the mean waits of MAP/PH/1 and MAP/M/1 with a server c times as fast (Kimura, "Approximations
for multi-server queues: system interpolations", Queueing Systems 17, 1994).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.markov.qbd import mean_response
from penstock.markov.quasi_birth_death import solve_qbd
from penstock.performance.queueing.levels import kron, stationary_levels
from penstock.performance.queueing.load import SATURATION, check_processes, entered
from penstock.performance.queueing.partitions import check_count
from penstock.performance.queueing.response import Response, Saturated
from penstock.performance.queueing.stepped_response import SteppedResponse, stepped

MOST_PHASES = 256


@dataclass(frozen=True)
class SharedQueue(SteppedResponse):
    """A stable MAP/PH/c queue; a `Response` of the sojourn time, with the waiting time beside it."""

    waiting: Response
    servers: int
    queue_length_mean: float
    """Mean number of records waiting or in service."""
    is_exact: bool
    """False where the services' phases were too many, and a stretched MAP/M/c took their place."""


def solve_shared_queue(
    arrivals: MAP, service: PH, servers: int, *, most_phases: int = MOST_PHASES
) -> SharedQueue | Saturated:
    """Give the sojourn time of MAP/PH/c, exactly up to `most_phases` phases.

    Examples
    --------
    >>> queue = solve_shared_queue(MAP.poisson(1.0), PH.exponential(mean=1.0), 2)
    >>> round(queue.mean, 9), round(float(queue.waiting.cdf([0.0])[0]), 9)
    (1.333333333, 0.666666667)
    """
    check_processes(arrivals, service, PH)
    c, service = check_count("servers", servers), entered(service)
    utilisation = arrivals.rate * service.mean / c
    if not utilisation < SATURATION:
        return Saturated(utilisation)
    m = service.order
    if arrivals.order * comb(c + m - 1, m - 1) <= most_phases:
        chain = _Chain(arrivals, service, c)
        return _answer(utilisation, chain, service, 1.0, is_exact=True)
    if arrivals.order > most_phases:
        raise ConfigurationError(
            f"most_phases: the arrivals alone have {arrivals.order} phases, more than {most_phases}; fit them with "
            "fewer",
            field="most_phases",
        )
    exponential = PH.exponential(mean=service.mean)
    fast, plain = service.time_scaled(1.0 / c), exponential.time_scaled(1.0 / c)
    stretch = (mean_response(arrivals, fast) - fast.mean) / (mean_response(arrivals, plain) - plain.mean)
    return _answer(utilisation, _Chain(arrivals, exponential, c), service, stretch, is_exact=False)


class _Chain:
    """The chain of levels of one queue and its stationary vectors."""

    def __init__(self, arrivals: MAP, service: PH, c: int) -> None:
        self.c, self.arrivals = c, arrivals
        n, m = arrivals.order, service.order
        configurations = [_configurations(k, m) for k in range(c + 1)]
        moves = [_moves(configurations[k], service.T) for k in range(c + 1)]
        starts = [_starts(configurations[k], configurations[k + 1], service.alpha) for k in range(c)]
        ends = [_ends(configurations[k + 1], configurations[k], service.exits) for k in range(c)]
        eye = np.eye(n)

        def within(k: int) -> FloatArray:
            size = len(configurations[k])
            return kron(arrivals.D0, np.eye(size)) + kron(eye, moves[k])

        self.S0, self.S1 = moves[c], ends[c - 1] @ starts[c - 1]
        top = within(c)
        up = kron(arrivals.D1, np.eye(len(self.S0)))
        repeated = solve_qbd(up, top, kron(eye, self.S1))
        self.R = repeated.R
        closed = top + up @ repeated.G
        vectors = stationary_levels(
            [*(within(k) for k in range(c)), closed],
            [kron(arrivals.D1, start) for start in starts],
            [kron(eye, end) for end in ends],
        )
        self.top_sum = np.linalg.solve((np.eye(len(top)) - self.R).T, vectors[c])  # pi_c (I - R)^-1
        total = sum(float(v.sum()) for v in vectors[:c]) + float(self.top_sum.sum())
        self.top_sum = self.top_sum / total
        above = np.linalg.solve((np.eye(len(top)) - self.R).T, self.top_sum).sum()  # sum of (k + 1) pi_(c+k)
        busy = sum(k * float(v.sum()) for k, v in enumerate(vectors[:c])) / total
        self.waiting_number = float(above - self.top_sum.sum())
        self.number = busy + c * float(self.top_sum.sum()) + self.waiting_number

    def waits(self, q: float) -> Iterator[float]:
        """Give P(still waiting) after 0, 1, ... ticks at rate q."""
        stay, end, R = np.eye(len(self.S0)) + self.S0 / q, self.S1 / q, self.R
        H = kron((self.arrivals.D1.sum(axis=1) / self.arrivals.rate)[:, None], np.eye(len(self.S0)))
        while True:
            yield float((self.top_sum @ H).sum())
            H = H @ stay + R @ (H @ end)


def _answer(utilisation: float, chain: _Chain, service: PH, stretch: float, *, is_exact: bool) -> SharedQueue:
    # One clock for waiting and service, so that their ticks add up; stretched time is a slower clock for the waiting.
    q_wait = float(np.max(-chain.S0.diagonal())) / stretch
    q = max(q_wait, float(np.max(-service.T.diagonal())))
    waiting = stepped(utilisation, q, chain.waits(q * stretch))
    sojourn = stepped(utilisation, q, _with_service(chain.waits(q * stretch), service, q))
    waiting_number = chain.waiting_number * stretch
    number = waiting_number + utilisation * chain.c
    return SharedQueue(
        utilisation,
        q,
        sojourn.survival,
        sojourn.decay,
        waiting=waiting,
        servers=chain.c,
        queue_length_mean=chain.number if is_exact else number,
        is_exact=is_exact,
    )


def _with_service(waits: Iterator[float], service: PH, q: float) -> Iterator[float]:
    stay = np.eye(service.order) + service.T / q
    waiting = next(waits)
    serving = (1.0 - waiting) * service.alpha
    while True:
        yield waiting + float(serving.sum())
        still = next(waits)
        serving = serving @ stay + (waiting - still) * service.alpha
        waiting = still


def _configurations(busy: int, phases: int) -> list[tuple[int, ...]]:
    return [
        tuple(chosen.count(j) for j in range(phases)) for chosen in combinations_with_replacement(range(phases), busy)
    ]


def _moves(configurations: list[tuple[int, ...]], T: FloatArray) -> FloatArray:
    at = {configuration: i for i, configuration in enumerate(configurations)}
    rates = np.zeros((len(at), len(at)))
    for configuration, i in at.items():
        for j, busy in enumerate(configuration):
            if not busy:
                continue
            rates[i, i] += busy * T[j, j]
            for k in np.flatnonzero(T[j] > 0):
                rates[i, at[_shift(configuration, j, int(k))]] += busy * T[j, k]
    return rates


def _starts(before: list[tuple[int, ...]], after: list[tuple[int, ...]], alpha: FloatArray) -> FloatArray:
    at = {configuration: i for i, configuration in enumerate(after)}
    chances = np.zeros((len(before), len(after)))
    for i, configuration in enumerate(before):
        for j in np.flatnonzero(alpha > 0):
            chances[i, at[_shift(configuration, None, int(j))]] += alpha[j]
    return chances


def _ends(before: list[tuple[int, ...]], after: list[tuple[int, ...]], exits: FloatArray) -> FloatArray:
    at = {configuration: i for i, configuration in enumerate(after)}
    rates = np.zeros((len(before), len(after)))
    for i, configuration in enumerate(before):
        for j, busy in enumerate(configuration):
            if busy and exits[j] > 0:
                rates[i, at[_shift(configuration, j, None)]] += busy * exits[j]
    return rates


def _shift(configuration: tuple[int, ...], away: int | None, to: int | None) -> tuple[int, ...]:
    counts = list(configuration)
    if away is not None:
        counts[away] -= 1
    if to is not None:
        counts[to] += 1
    return tuple(counts)
