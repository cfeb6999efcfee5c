# SPDX-License-Identifier: Apache-2.0
"""Response times along the load of a course that repeats exactly: the fluid queue of pieces of constant rate.

Within a piece the work ahead of an arrival changes at a constant pace, so mean and percentile are sums over the pieces,
without matrices: a thousandth of the work of a chain of states. A chain that walks through the pieces with chance in
their lengths has a longer queue, by a factor that changes slowly with rates and lengths. So a search can follow the
course and add that factor.

An arrival that finds no work of earlier pieces waits as in a queue with Poisson arrivals of the piece's rate. Its work
is taken for a reflected Brownian motion of variance 1.5 u^2 r per unit of time (Erlang service of two phases) that
starts from nothing (Abate and Whitt, "Transient behavior of regulated Brownian motion", Advances in Applied
Probability 19, 1987). So there is no jump at the load at which a piece begins to queue, where a search would stop.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.workload.replay_queue import SHARE
from penstock.workload.rest_times import LOGS, poisson_times

FloatArray = npt.NDArray[np.float64]

_HALVINGS = 14

_HIGHEST = 3.15
"""How far the work of a piece that rises slowly is spread, in units of the mean: its percentile is as that of a piece
at rest that is nearly as fast, 3 times the mean."""


def course_curves(theta: FloatArray, loads: FloatArray) -> FloatArray:
    """Return logarithms of the means, then of the 95th percentiles, of response times, shape (rows, 2 loads).

    Times are in units of the mean inter-arrival time, and the service is the one windows are replayed with.

    Parameters
    ----------
    theta
        Rows of parameters: the logarithms of the pieces' rates, then of their lengths, in any unit of time.

    Examples
    --------
    Rate 4 for a fifth of the time, 0.25 for the rest: at load 0.5 the work rises by 10,000 and falls within
    11,429 of 40,000.

    >>> mean, _ = np.exp(course_curves(np.log([[4.0, 0.25, 1e4, 4e4]]), np.array([0.5])))[0]
    >>> at_rest = 0.2 * (1.0 - 1e4 / 0.875 / 4e4)
    >>> bool(abs(mean / 5000.0 - (1.0 - at_rest)) < 1e-3)
    True
    """
    pieces = theta.shape[1] // 2
    rates, lengths = np.exp(theta[:, :pieces]), np.exp(theta[:, pieces:])
    flow = ((rates * lengths).sum(axis=1) / lengths.sum(axis=1))[:, None]
    r, d = (rates / flow).T[:, :, None], (lengths * flow).T[:, :, None]
    slopes = loads * r - 1.0
    moves = slopes * d
    # From no work on, the work is the sum of the moves minus its least value so far; what is left at the end of the
    # course is what the next one starts with.
    total = np.cumsum(moves, axis=0)
    least = np.minimum(np.minimum.accumulate(total, axis=0), 0.0)
    first = total[-1] - least[-1]
    after = total + np.maximum(first, -least)
    before = np.concatenate([first[None], after[:-1]])
    arrivals = r * d / (r * d).sum(axis=0)
    drained = np.where(slopes < 0.0, np.minimum(before / np.maximum(-moves, 1e-12), 1.0), 1.0)
    waiting, resting = arrivals * drained, arrivals * (1.0 - drained)
    # The work of a piece that starts from nothing: while at rest, and beyond its drift while it rises.
    spread = np.sqrt(1.5 * loads**2 * r * d)
    at_rest = spread * np.sqrt(1.0 - drained)
    waits = at_rest * _risen(moves * (1.0 - drained) / np.maximum(at_rest, 1e-12))
    slack = np.where(slopes < 0.0, 0.0, spread * _risen(moves / spread) - 0.5 * moves) * np.exp(-before / spread)
    mean = (waiting * (0.5 * (before + after) + slack) + resting * waits).sum(axis=0) + loads
    means, times = poisson_times().at(loads * r)
    percentile = _percentile(
        waiting, before + loads, after + _HIGHEST * slack + loads, resting, times * (loads + waits) / means
    )
    return np.asarray(np.log(np.concatenate([mean, percentile], axis=1)), dtype=np.float64)


def _risen(z: FloatArray) -> FloatArray:
    """Return the mean of a reflected Brownian motion over a time t from 0 on, in units of its spread sigma sqrt(t).

    `z` is its drift in that time in the same unit. The mean nears z / 2 where it rises, -1 / (2 z), the stationary one,
    where it falls, and is about a half in between.
    """
    return np.asarray(0.25 * z + np.sqrt(0.0625 * z * z + 0.25))


def _percentile(
    waiting: FloatArray, before: FloatArray, after: FloatArray, resting: FloatArray, times: FloatArray
) -> FloatArray:
    """Return the time that 1 - SHARE of all arrivals exceed.

    Those that wait for work of earlier pieces are spread evenly over times from `before` to `after`. Of those at rest
    the tail falls exponentially between `times`, and so on beyond the last.
    """
    highest = np.maximum(before, after)
    per_time = waiting / np.maximum(np.abs(after - before), 1e-12)
    widths = np.diff(times, axis=0)
    falls = np.diff(LOGS)[:, None, None, None] / np.maximum(widths, 1e-12)
    widths[-1] = np.inf

    def beyond(time: FloatArray) -> FloatArray:
        left = (falls * np.clip(time - times[:-1], 0.0, widths)).sum(axis=0)
        return np.asarray((np.clip((highest - time) * per_time, 0.0, waiting) + resting * np.exp(left)).sum(axis=0))

    # Times differ by orders of magnitude, so logarithms are halved; within the last step the tail is nearly a line.
    low, high = np.log(times[1].min(axis=0)) - 3.0, np.log(np.maximum(highest, 3.0 * times[-1]).max(axis=0))
    far_low, far_high = np.ones(low.shape), np.zeros(low.shape)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        far = beyond(np.exp(middle))
        over = far > 1.0 - SHARE
        low, far_low = np.where(over, middle, low), np.where(over, far, far_low)
        high, far_high = np.where(over, high, middle), np.where(over, far_high, far)
    share = np.clip((far_low - 1.0 + SHARE) / np.maximum(far_low - far_high, 1e-300), 0.0, 1.0)
    return np.asarray(np.exp(low + share * (high - low)))
