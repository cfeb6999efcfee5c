# SPDX-License-Identifier: Apache-2.0
"""What leaves a MAP/PH/1 queue, as an arrival process of bounded order for the next one.

The departures are themselves a MAP, with the queue's levels as phases and therefore infinitely many. Here the levels
from the `K`-th on are one: a departure from there leads below it with the probability d that level K itself is the one
left, given the phase and that it is one of them. Stationary probabilities d = x_K / (x_K (I - R)^-1) are known exactly,
so that the process keeps the rate and the whole distribution of the interval (an interval is a service, after an idle
time if the queue was left empty), and with two levels or more the correlation with the next interval (after Heindl,
Zhang and Smirni, "ETAQA truncation models for the MAP/MAP/1 departure process", QEST 2004).

Where the order allowed is too small for that, phases of the arrivals with about the same time to the next arrival are
taken together, each weighted by its stationary probability, and service times are given fewer phases. Any such process
is valid, and its rate stays exact. What is lost is the memory of a long queue: a next queue that is loaded less than
this one is predicted well, but one that is loaded more sees the bursts that this one has spread out end too soon. Along
a path, therefore, take the most loaded queue first: the time spent in all of them hardly depends on their order, and
behind the most loaded one the bursts are gone.
"""

from __future__ import annotations

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, fit_mean_scv
from penstock.markov.conditions import FloatArray, IntArray
from penstock.performance.queueing.departure_moments import stable_queue
from penstock.performance.queueing.load import entered

_MOST_LEVELS = 8
_RARE = 1e-30
"""Probability below which a level gets no place of its own."""


def departure_process(arrivals: MAP, service: PH, *, most_states: int = 16) -> MAP:
    """Give the departures of a stable MAP/PH/1 queue as a MAP of at most `most_states` phases.

    Raises
    ------
    ConfigurationError
        If the queue is not stable: its departures are then its service times, and its arrivals do not matter.

    Examples
    --------
    >>> leaving = departure_process(MAP.poisson(1.0), PH.exponential(mean=0.5))
    >>> round(leaving.rate, 12), round(leaving.scv, 12), bool(abs(leaving.autocorrelation(1)) < 1e-12)
    (1.0, 1.0, True)
    """
    if int(most_states) != most_states or most_states < 2:
        raise ConfigurationError(
            f"most_states: {most_states!r} must be a whole number of at least 2, one for idle and one for busy",
            field="most_states",
        )
    n, m, K = _orders(arrivals.order, entered(service).order, int(most_states))
    service = entered(service) if m >= entered(service).order else _shorter(service, m)
    rows = _levels(arrivals, service, K)
    K = len(rows) - 1
    D0, D1, x = _cut_at(arrivals, service, rows)
    groups = _groups(arrivals, n)
    levels = np.repeat(np.arange(K), arrivals.order * service.order)
    busy = np.tile(np.repeat(groups, service.order) * service.order, K) + np.tile(
        np.arange(service.order), K * arrivals.order
    )
    together = np.concatenate([groups, n + levels * n * service.order + busy])
    return _aggregated(D0, D1, x, together)


def _orders(n: int, m: int, most: int) -> tuple[int, int, int]:
    """Give how many phases of arrivals and service and how many levels to keep: n + K n m <= most."""
    # Two levels keep the correlation of neighbours, so they come before further phases.
    m = min(m, max((most // min(n, 2) - 1) // 2, 1))
    n = min(n, max(most // (1 + 2 * m), 1))
    return n, m, max(1, min((most // n - 1) // m, _MOST_LEVELS))


def _shorter(service: PH, m: int) -> PH:
    """Give a service time of at most m phases with the same mean, and the same SCV where m phases allow it."""
    if m == 1:
        return PH.exponential(mean=service.mean)
    return fit_mean_scv(service.mean, service.scv, max_phases=m).distribution


def _levels(arrivals: MAP, service: PH, K: int) -> list[FloatArray]:
    """Give the probabilities of levels 1 to K, fewer where so many hardly ever wait, and of the last with all above."""
    first, R = stable_queue(arrivals, service).levels()
    rows = [first]
    while len(rows) < K and float((following := rows[-1] @ R).sum()) > _RARE:
        rows.append(following)
    return [*rows, np.asarray(np.linalg.solve((np.eye(len(R)) - R).T, rows[-1]), dtype=np.float64)]


def _cut_at(arrivals: MAP, service: PH, rows: list[FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Give the departures with the levels from K on as one, and their stationary probabilities."""
    n, m, K = arrivals.order, service.order, len(rows) - 1
    N = n * m
    *below_k, at_k, from_k = rows
    d = np.divide(at_k, from_k, out=np.ones(N), where=from_k > 0.0).clip(0.0, 1.0)[:, None]
    up, inside = np.kron(arrivals.D1, np.eye(m)), np.kron(arrivals.D0, np.eye(m)) + np.kron(np.eye(n), service.T)
    down = np.kron(np.eye(n), np.outer(service.exits, service.alpha))
    empty = np.kron(np.eye(n), service.exits[:, None])
    D0, D1 = np.zeros((n + K * N, n + K * N)), np.zeros((n + K * N, n + K * N))
    D0[:n, :n], D0[:n, n : n + N] = arrivals.D0, np.kron(arrivals.D1, service.alpha)
    for level in range(1, K + 1):
        here = slice(n + (level - 1) * N, n + level * N)
        below = slice(0, n) if level == 1 else slice(here.start - N, here.start)
        fewer = empty if level == 1 else down
        D0[here, here] = inside
        if level < K:
            D0[here, here.stop : here.stop + N] = up
            D1[here, below] = fewer
        else:
            D0[here, here] += up
            D1[here, below] = d * fewer
            D1[here, here] = (1.0 - d) * down
    # The phases while the server is idle follow from the flow into them: what the first level's services leave behind.
    idle = (rows[0] @ empty) @ arrivals.M
    return D0, D1, np.concatenate([idle, *below_k, from_k])


def _groups(arrivals: MAP, count: int) -> IntArray:
    """Give for each phase the number of its group: the split into `count` that varies least within its groups."""
    n = arrivals.order
    if n <= count:
        return np.arange(n)
    value = np.log(arrivals.M.sum(axis=1) * arrivals.rate)  # time to the next arrival, in mean intervals
    order = np.argsort(value, kind="stable")
    weight, v = arrivals.theta[order], value[order]
    sums = np.concatenate([[[0.0] * 3], np.cumsum(np.stack([weight, weight * v, weight * v * v], axis=1), axis=0)])

    def spread(i: IntArray | int, j: int) -> FloatArray:
        total, mean, square = np.moveaxis(sums[j] - sums[i], -1, 0)
        return np.asarray(square - mean * mean / np.maximum(total, 1e-300))

    # Fisher's exact clustering on a line: best[c][j] for the first j phases in c groups.
    best = np.array([0.0] + [np.inf] * n)
    cuts: list[IntArray] = []
    for _ in range(count):
        options = [best[:j] + spread(np.arange(j), j) for j in range(1, n + 1)]
        cuts.append(np.array([0] + [int(np.argmin(option)) for option in options]))
        best = np.array([np.inf] + [float(option.min()) for option in options])
    groups = np.empty(n, dtype=np.int64)
    end = n
    for number in range(count - 1, -1, -1):
        start = int(cuts[number][end])
        groups[order[start:end]] = number
        end = start
    return groups


def _aggregated(D0: FloatArray, D1: FloatArray, x: FloatArray, together: IntArray) -> MAP:
    """Give the process that sees only which states are taken together, each weighted by its probability."""
    count = int(together.max()) + 1
    into = np.zeros((len(x), count))
    into[np.arange(len(x)), together] = 1.0
    weights = into * x[:, None]
    total = weights.sum(axis=0)
    kept = total > 0.0
    back = (weights / np.where(kept, total, 1.0)).T
    rates = D0.copy()
    np.fill_diagonal(rates, 0.0)
    hidden, arriving = (back @ rates @ into)[np.ix_(kept, kept)], (back @ D1 @ into)[np.ix_(kept, kept)]
    np.fill_diagonal(hidden, 0.0)
    np.fill_diagonal(hidden, -(hidden.sum(axis=1) + arriving.sum(axis=1)))
    return MAP(hidden, arriving)
