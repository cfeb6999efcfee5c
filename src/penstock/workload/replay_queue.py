# SPDX-License-Identifier: Apache-2.0
"""Replays a window of inter-arrival times through a single-server queue, and computes a model's prediction for it.

A fit is for predicting queues, so it is judged by one: the window itself passes through a queue with Erlang service at
a few utilisations (Lindley's recursion), and the model's MAP/PH/1 queue must agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.markov import MAP, PH
from penstock.markov.queue_gradient import queue_means

FloatArray = npt.NDArray[np.float64]

UTILISATIONS = (0.5, 0.8)
"""Utilisations of the replay: where bursts begin to matter, and where they dominate."""

_SERVICE_TIMES_DRAWN = 400_000
"""Service times drawn in total: shorter windows are replayed more often, so that chance averages out alike."""


@dataclass(frozen=True, eq=False)
class ReplayedQueue:
    """Mean response times of a window, in units of its mean inter-arrival time.

    `errors` are the standard errors due to the random service times alone, relative to the means.
    """

    utilisations: FloatArray
    responses: FloatArray
    errors: FloatArray


@lru_cache(maxsize=1)
def service() -> PH:
    """Return the service time of mean 1 that replays and models share: Erlang of two phases."""
    return PH.erlang(2, mean=1.0)


def replay(
    iats: FloatArray,
    rng: np.random.Generator,
    utilisations: tuple[float, ...] = UTILISATIONS,
    *,
    times: int | None = None,
) -> ReplayedQueue:
    """Replay a window, each time with new service times, and average.

    Parameters
    ----------
    iats
        The window, in any unit.
    times
        How often. Default: 2 to 8 times, more often for shorter windows.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> queue = replay(rng.exponential(1.0, 200_000), rng, (0.5,))
    >>> float(queue.responses[0].round(1))  # M/E2/1: 0.5 + 0.5^2 1.5 / 2 / (1 - 0.5) = 0.875
    0.9
    """
    x = iats / iats.mean()
    n = x.size
    rounds = times if times is not None else int(np.clip(_SERVICE_TIMES_DRAWN // n, 2, 8))
    means = np.empty((rounds, len(utilisations)))
    path = np.empty(n)
    for row in range(rounds):
        need = rng.standard_exponential(n) + rng.standard_exponential(n)
        need *= 0.5
        for column, utilisation in enumerate(utilisations):
            # W_n = max(0, W_(n-1) + S_(n-1) - A_n) is the walk minus its least value so far.
            path[0] = 0.0
            np.multiply(need[:-1], utilisation, out=path[1:])
            path[1:] -= x[1:]
            np.cumsum(path, out=path)
            waiting = float((path - np.minimum.accumulate(path)).mean())
            means[row, column] = waiting + utilisation * float(need.mean())
    average = means.mean(axis=0)
    return ReplayedQueue(np.array(utilisations), average, means.std(axis=0, ddof=1) / np.sqrt(rounds) / average)


def predicted_responses(process: MAP, utilisations: npt.ArrayLike = UTILISATIONS) -> FloatArray:
    """Return the mean response times of the process's MAP/PH/1 queue, in units of its mean inter-arrival time.

    Examples
    --------
    >>> predicted_responses(MAP.poisson(7.0), [0.5]).round(9).tolist()
    [0.875]
    """
    loads = np.asarray(utilisations, dtype=np.float64)
    unit = process.with_rate(1.0)
    stack = (loads.size, 1, 1)
    means = queue_means(
        np.tile(unit.D0, stack), np.tile(unit.D1, stack), service().alpha, service().T / loads[:, None, None]
    )
    return means.response
