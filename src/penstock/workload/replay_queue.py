# SPDX-License-Identifier: Apache-2.0
"""Replays a window of inter-arrival times through a single-server queue, along the whole load.

A fit is for predicting queues, so it is judged by one: the window itself passes through a queue with Erlang service
(Lindley's recursion) at utilisations from 0.05 to 0.95, and the mean and the 95th percentile of the model's queue must
agree at each. One or two utilisations would not do: a process can be bent through them and be wrong everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from penstock.markov import PH

FloatArray = npt.NDArray[np.float64]

UTILISATIONS = tuple(sorted({*(round(0.05 + 0.03 * step, 2) for step in range(31)), 0.065, 0.9}))
"""Utilisations of the replay, close enough that a curve has no room to bend in between.

Bursts of twenty times the mean rate begin to queue at 0.05, and curves rise tenfold from there to 0.1.
"""

BARRED = 0.9
"""Up to this utilisation a fit has to be right; above it, the window's length decides more than its arrivals."""

SHARE = 0.95
"""The percentile, as a share."""

_SERVICE_TIMES_DRAWN = 200_000
"""Service times drawn in total: shorter windows are replayed more often, so that chance averages out alike."""

_STEEP, _MOST_AGAIN = 0.4, 3
"""Where the percentile grows by more than this between utilisations, in logarithms, the share of the arrivals that wait
passes that of the percentile, and chance in the service times moves it by a quarter. A window is replayed more often
there, at most at so many utilisations."""


@dataclass(frozen=True, eq=False)
class ReplayedQueue:
    """Response times of a window along the load, in units of its mean inter-arrival time.

    `responses` are means and `percentiles` the 95th. `errors` are the standard errors of the means due to the random
    service times alone, relative to the means. `n` is the number of arrivals.
    """

    utilisations: FloatArray
    responses: FloatArray
    percentiles: FloatArray
    errors: FloatArray
    n: int

    def at(self, utilisations: Sequence[float]) -> ReplayedQueue:
        """Return the same at some of the utilisations, in the order given."""
        some = np.array([int(np.flatnonzero(self.utilisations == u)[0]) for u in utilisations])
        return replace(
            self,
            utilisations=self.utilisations[some],
            responses=self.responses[some],
            percentiles=self.percentiles[some],
            errors=self.errors[some],
        )


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
    """Replay a window in pairs, each with new service times and with their mirror image, and average.

    Parameters
    ----------
    iats
        The window, in any unit.
    times
        How many pairs of replays. Default: 1 to 4, more for shorter windows, and four times as many where the
        percentile jumps.

    Examples
    --------
    >>> rng = np.random.default_rng(2)
    >>> queue = replay(rng.exponential(1.0, 200_000), rng, (0.5,))
    >>> float(queue.responses[0].round(1))  # M/E2/1: 0.5 + 0.5^2 1.5 / 2 / (1 - 0.5) = 0.875
    0.9
    """
    x = iats / iats.mean()
    loads = np.array(utilisations)
    pairs = times if times is not None else int(np.clip(_SERVICE_TIMES_DRAWN // (2 * x.size), 1, 4))
    means, percentiles = _pairs(x, rng, loads, pairs)
    average, percentile = _averages(means, percentiles)
    # Of a single pair the difference within it is what is known: too large, as much of it cancels.
    spread = _error(means) if pairs > 1 else 0.5 * np.abs(means[0, 0] - means[0, 1])
    if times is None and loads.size > 1:
        steep = np.abs(np.gradient(np.log(percentile / loads)))
        again = np.argsort(-steep, kind="stable")[:_MOST_AGAIN]
        again = again[steep[again] > _STEEP]
        if again.size:
            more = 3 * pairs
            more_means, more_percentiles = _pairs(x, rng, loads[again], more)
            mean_again, percentile_again = _averages(more_means, more_percentiles)
            average[again] = (pairs * average[again] + more * mean_again) / (pairs + more)
            percentile[again] = (pairs * percentile[again] + more * percentile_again) / (pairs + more)
            spread[again] = _error(more_means)
    return ReplayedQueue(loads, average, percentile, spread / average, x.size)


def _averages(*of_pairs: FloatArray) -> list[FloatArray]:
    """Return the means over all replays, along the load."""
    return [np.concatenate(one).mean(axis=0) for one in of_pairs]


def _error(of_pairs: FloatArray) -> FloatArray:
    """Return the standard error of the mean over pairs, along the load."""
    each = of_pairs.mean(axis=1)
    return np.asarray(each.std(axis=0, ddof=1) / np.sqrt(len(each)))


def _pairs(x: FloatArray, rng: np.random.Generator, loads: FloatArray, pairs: int) -> tuple[FloatArray, FloatArray]:
    """Return means and percentiles of so many pairs of replays, shape (pairs, 2, loads)."""
    n = x.size
    means, percentiles = np.empty((2 * pairs, loads.size)), np.empty((2 * pairs, loads.size))
    path, beyond, rising = np.empty(n), n - int(SHARE * n), np.argsort(loads, kind="stable").tolist()
    came = np.cumsum(x) - x[0]
    for row in range(2 * pairs):
        if row % 2 == 0:
            chance = rng.random((2, n))
        need = -0.5 * np.log(1.0 - chance).sum(axis=0)
        chance = 1.0 - chance  # the next replay has long services where this one has short ones: much chance cancels
        before = np.cumsum(need) - need
        least = 0.0
        for column in rising:
            # W_n = max(0, W_(n-1) + S_(n-1) - A_n) is the walk minus its least value so far.
            utilisation = float(loads[column])
            np.multiply(before, utilisation, out=path)
            path -= came
            response = path - np.minimum.accumulate(path)
            np.multiply(need, utilisation, out=path)
            response += path
            means[row, column] = response.mean()
            # None is shorter at a higher load, so the percentile is among those above the last, but for rounding.
            longest = response[response >= (1.0 - 1e-6) * least]
            place = longest.size - beyond
            longest.partition(place)
            least = percentiles[row, column] = longest[place]
    return means.reshape(pairs, 2, -1), percentiles.reshape(pairs, 2, -1)


MOST_LIFT = 0.06
_SETTLED = 0.1
"""The part of a window in which its queue forgets, from which on the lift is full."""


def finite_lift(queue: ReplayedQueue) -> FloatArray:
    """Return how far above the replayed curves a fit should aim, in logarithms, at each utilisation.

    A queue with mean R at load u forgets its state in about R / (1 - u). If that is a good part of the window, the
    window held only a few independent stretches and began with an empty queue, and its replay is below what its
    process comes to in the long run: of known processes far more often than above it. A fit uses a part of the bar to
    make up for a part of that.
    """
    memory = queue.responses / np.maximum(1.0 - queue.utilisations, 1e-3) / queue.n
    return np.asarray(MOST_LIFT * np.minimum(memory / _SETTLED, 1.0))
