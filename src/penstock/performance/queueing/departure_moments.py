# SPDX-License-Identifier: Apache-2.0
"""What leaves a MAP/PH/1 queue: the exact moments of the intervals between departures, and their correlation.

=======  ===================================================================================================
Symbol   Meaning
=======  ===================================================================================================
X_n      intervals between departures
S, I     service time, and the idle time before it if the last departure left the queue empty
e0, e1   probability that a departure leaves 0 or 1 records behind, by the phase of the arrivals
g        (-D0)^-1 e, mean time to the next arrival from each phase
B0, B1   E[exp(D0 S)] and E[S exp(D0 S)]: no arrival during a service
=======  ===================================================================================================

X = S + I after a departure that leaves the queue empty and X = S after any other, so that the moments of X follow from
e0. X_1 depends on X_0 only by whether the second departure leaves the queue empty, and it can do so only if the first
left 0 or 1: E[X_0 X_1] = E[X] E[S] + E[X_0; empty] g is exact, without a truncation of the levels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.load import SATURATION, check_processes, entered
from penstock.performance.queueing.single_server import SingleServer, solve_map_ph_1


@dataclass(frozen=True)
class DepartureMoments:
    """Exact descriptors of the intervals between departures."""

    moments: FloatArray
    """The first three raw moments."""
    lag1: float
    """Correlation of an interval with the next."""

    @property
    def scv(self) -> float:
        """Squared coefficient of variation."""
        m1, m2, _ = self.moments
        return float(m2 / m1 / m1 - 1.0)


def departure_moments(arrivals: MAP, service: PH) -> DepartureMoments:
    """Give moments and correlation of the departures of a stable queue, exactly.

    Examples
    --------
    >>> departures = departure_moments(MAP.poisson(1.0), PH.exponential(mean=0.5))  # Burke: Poisson again
    >>> departures.moments.round(9).tolist(), abs(departures.lag1) < 1e-12
    ([1.0, 2.0, 6.0], True)
    """
    queue, service = stable_queue(arrivals, service), entered(service)
    n, m = arrivals.order, service.order
    first, R = queue.levels()
    exits = np.tile(service.exits, n)

    def left_behind(level: FloatArray) -> FloatArray:
        return np.asarray((level * exits).reshape(n, m).sum(axis=1) / arrivals.rate)

    e0, e1 = left_behind(first), left_behind(first @ R)
    M, D1 = arrivals.M, arrivals.D1
    s1, s2, s3 = service.moments(3)
    idle = [e0 @ M]
    for k in (2, 3):
        idle.append(k * idle[-1] @ M)
    i1, i2, i3 = (float(row.sum()) for row in idle)
    moments = np.array([s1 + i1, s2 + 2.0 * s1 * i1 + i2, s3 + 3.0 * s2 * i1 + 3.0 * s1 * i2 + i3])
    joint = -(np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.T))
    g = M.sum(axis=1)
    once = np.linalg.solve(joint, np.kron(g, service.exits))
    twice = np.linalg.solve(joint, once)
    b0, b1 = once.reshape(n, m) @ service.alpha, twice.reshape(n, m) @ service.alpha  # B0 g, B1 g
    busy0, busy1 = e0 @ M @ D1, e0 @ M @ M @ D1
    empty = float(busy1 @ b0 + busy0 @ b1 + e1 @ b1)
    variance = moments[1] - moments[0] ** 2
    return DepartureMoments(moments, float((moments[0] * s1 + empty - moments[0] ** 2) / variance))


def stable_queue(arrivals: MAP, service: PH) -> SingleServer:
    """Give the solved queue, or refuse one that has no stationary departures."""
    check_processes(arrivals, service, PH)
    utilisation = arrivals.rate * service.mean
    if not utilisation < SATURATION:
        raise ConfigurationError(
            f"service: at utilisation {utilisation:.6g} the queue never empties; its departures are its service times",
            field="service",
        )
    queue = solve_map_ph_1(arrivals, service)
    assert isinstance(queue, SingleServer)
    return queue
