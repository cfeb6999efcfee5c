# SPDX-License-Identifier: Apache-2.0
"""Many MAP/PH/1 queues in one call: every arrival process with every service time, solved in stacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.markov import MAP, PH
from penstock.markov.conditions import BoolArray, FloatArray
from penstock.markov.map_ph_1 import Arrivals, Services, solve_sojourns
from penstock.markov.tails import Tails
from penstock.performance.queueing.queue_inputs import SATURATION, check_processes, entered
from penstock.performance.queueing.response import check_probability

_STACK_ENTRIES, _FEWEST_QUEUES, _MOST_QUEUES = 65_536, 8, 128
"""Entries of a matrix over the queues solved together: enough to hide the cost of a call, few enough for the cache."""


@dataclass(frozen=True)
class ManyAnswers:
    """Sojourn times for every arrival process (first axis) with every service time (second axis).

    Mean and percentiles of a queue that is not stable are infinite.
    """

    stable: BoolArray
    utilisation: FloatArray
    mean: FloatArray
    percentiles: FloatArray
    """Third axis: the shares asked for."""


def solve_many(arrivals: Sequence[MAP], services: Sequence[PH], percentiles: Sequence[float] = ()) -> ManyAnswers:
    """Solve MAP/PH/1 for every pair of arrivals and service: mean and percentiles of the sojourn time.

    Examples
    --------
    >>> answers = solve_many([MAP.poisson(1.0)], [PH.exponential(mean=m) for m in (0.5, 0.8, 2.0)], [0.95])
    >>> answers.mean.round(9).tolist(), answers.stable.tolist()
    ([[1.0, 4.0, inf]], [[True, True, False]])
    >>> answers.percentiles[0, :, 0].round(6).tolist()
    [2.995732, 11.982929, inf]
    """
    shares = np.array([check_probability(p) for p in percentiles], dtype=np.float64)
    for process in arrivals:
        for service in services:
            check_processes(process, service, PH)
    kept = [entered(service) for service in services]
    rate = np.array([process.rate for process in arrivals])
    utilisation = rate[:, None] * np.array([service.mean for service in services])
    stable = utilisation < SATURATION
    mean = np.full(utilisation.shape, np.inf)
    times = np.full((*utilisation.shape, len(shares)), np.inf)
    pairs = [(int(i), int(j)) for i, j in np.argwhere(stable)]
    sizes = {k: (arrivals[i].order, kept[j].order) for k, (i, j) in enumerate(pairs)}
    for together in stacks(sizes, [float(utilisation[pair]) for pair in pairs]):
        some = [pairs[k] for k in together]
        index = tuple(np.array(some).T)
        mean[index], times[index] = _stack([arrivals[i] for i, _ in some], [kept[j] for _, j in some], shares)
    return ManyAnswers(stable, utilisation, mean, times)


def stacks(sizes: Mapping[int, tuple[int, int]], utilisation: Sequence[float]) -> Iterator[list[int]]:
    """Give the queues that are to be solved together: as many phases of arrivals and service, and about as busy.

    Examples
    --------
    >>> list(stacks({0: (2, 1), 1: (4, 1), 2: (2, 1)}, [0.8, 0.5, 0.3]))
    [[2, 0], [1]]
    """
    alike: dict[tuple[int, int], list[int]] = {}
    for k, size in sizes.items():
        alike.setdefault(size, []).append(k)
    for (n, m), queues in alike.items():
        together = min(max(_STACK_ENTRIES // (n + n * m) ** 2, _FEWEST_QUEUES), _MOST_QUEUES)
        queues.sort(key=utilisation.__getitem__)  # queues that take as many steps stand together
        for at in range(0, len(queues), together):
            yield queues[at : at + together]


def _stack(arrivals: list[MAP], services: list[PH], shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    solved = solve_sojourns(Arrivals.of(arrivals), Services.of(services))
    (w1,) = solved.waiting_moments()
    mean = (solved.pi * w1).sum(axis=1) + np.array([service.mean for service in services])
    if not shares.size:
        return mean, np.empty((len(mean), 0))
    wanted = np.broadcast_to(shares, (len(mean), len(shares)))
    return mean, Tails(*solved.chain()).quantiles(solved.start(), wanted)
