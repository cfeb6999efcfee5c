# SPDX-License-Identifier: Apache-2.0
"""Response times of arrival processes along the load: mean and 95th percentile of their MAP/PH/1 queues, in stacks.

Times are in units of the mean inter-arrival time, and the service is the one windows are replayed with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import ConvergenceError
from penstock.markov import MAP
from penstock.markov.map_ph_1 import Arrivals, Services, solve_sojourns
from penstock.markov.queue_gradient import stationary_rows
from penstock.markov.tails import Tails
from penstock.workload.replay_queue import SHARE, UTILISATIONS, service

FloatArray = npt.NDArray[np.float64]

_STACK_ENTRIES, _FEWEST = 65_536, 8
"""Entries of the matrices that are solved together: enough to hide the cost of a call, few enough for the cache."""


def load_curves(D0: FloatArray, D1: FloatArray, loads: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and percentile of the response time of each process at each load, shapes (processes, loads).

    Values that could not be solved are infinite.

    Parameters
    ----------
    D0, D1
        A stack of processes, shape (processes, n, n), of any rate.
    """
    mean, times = load_times(D0, D1, loads, np.array([SHARE]))
    return mean, times[:, :, 0]


def load_times(D0: FloatArray, D1: FloatArray, loads: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return means as `load_curves` does, and the times that these shares do not exceed, (processes, loads, shares)."""
    count, n = len(D0), D0.shape[1]
    flow = (stationary_rows(D0 + D1)[:, None, :] @ D1)[:, 0, :]
    rate = flow.sum(axis=1)
    arrivals = Arrivals(D0 / rate[:, None, None], D1 / rate[:, None, None], flow / rate[:, None], np.ones(count))
    which, load = np.repeat(np.arange(count), loads.size), np.tile(loads, count)
    mean, times = np.empty(which.size), np.empty((which.size, shares.size))
    order = np.argsort(load, kind="stable")  # queues that take as many steps stand together
    together = max(_STACK_ENTRIES // (3 * n) ** 2, _FEWEST)
    for at in range(0, order.size, together):
        some = order[at : at + together]
        mean[some], times[some] = _solve(arrivals, which[some], load[some], shares)
    return mean.reshape(count, -1), times.reshape(count, loads.size, shares.size)


def _solve(
    arrivals: Arrivals, which: npt.NDArray[np.intp], load: FloatArray, shares: FloatArray
) -> tuple[FloatArray, FloatArray]:
    unit, size = service(), load[:, None, None]
    services = Services(np.tile(unit.alpha, (load.size, 1)), unit.T / size, unit.exits / size[:, 0], unit.M * size)
    parts = (arrivals.D0, arrivals.D1, arrivals.pi, arrivals.rate)
    try:
        solved = solve_sojourns(Arrivals(*(part[which] for part in parts)), services)
        mean = (solved.pi * solved.waiting_moments()[0]).sum(axis=1) + load
        return mean, Tails(*solved.chain()).quantiles(solved.start(), np.tile(shares, (load.size, 1)))
    except (np.linalg.LinAlgError, ConvergenceError):
        if load.size == 1:
            return np.full(1, np.inf), np.full((1, shares.size), np.inf)
        # One queue is to blame; halving finds it without the others solved one by one.
        half = load.size // 2
        first = _solve(arrivals, which[:half], load[:half], shares)
        second = _solve(arrivals, which[half:], load[half:], shares)
        return np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])


def predicted_curve(process: MAP, utilisations: npt.ArrayLike = UTILISATIONS) -> tuple[FloatArray, FloatArray]:
    """Return mean and 95th percentile of the response time at each utilisation, in mean inter-arrival times.

    Examples
    --------
    >>> mean, percentile = predicted_curve(MAP.poisson(7.0), [0.5])
    >>> mean.round(9).tolist(), percentile.round(3).tolist()
    ([0.875], [2.291])
    """
    loads = np.atleast_1d(np.asarray(utilisations, dtype=np.float64))
    mean, percentile = load_curves(process.D0[None], process.D1[None], loads)
    return mean[0], percentile[0]


def predicted_responses(process: MAP, utilisations: npt.ArrayLike = UTILISATIONS) -> FloatArray:
    """Return the mean response times alone.

    Examples
    --------
    >>> predicted_responses(MAP.poisson(7.0), [0.5]).round(9).tolist()
    [0.875]
    """
    return predicted_curve(process, utilisations)[0]
