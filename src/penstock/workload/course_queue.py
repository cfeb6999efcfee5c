# SPDX-License-Identifier: Apache-2.0
"""Response times along the load of a course that repeats exactly: the fluid queue of pieces of constant rate.

Within a piece the work ahead of an arrival changes at a constant pace, so mean and percentile are sums over the pieces,
without matrices: a thousandth of the work of a chain of states. A chain that walks through the pieces with chance in
their lengths has a longer queue, by a factor that changes slowly with rates and lengths. So a search can follow the
course and add that factor.

An arrival that finds no work of earlier pieces waits as in a queue with Poisson arrivals of the piece's rate (Pollaczek
and Khinchine).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.workload.replay_queue import SHARE

FloatArray = npt.NDArray[np.float64]

_BUSIEST = 0.97
"""Largest part of its time for which the server is taken to be busy where no work of earlier pieces is left: no piece
lasts for ever."""

_HALVINGS = 24


def course_curves(theta: FloatArray, loads: FloatArray) -> FloatArray:
    """Return logarithms of the means, then of the 95th percentiles, of response times, shape (rows, 2 loads).

    Times are in units of the mean inter-arrival time, and the service is the one windows are replayed with.

    Parameters
    ----------
    theta
        Rows of parameters: the logarithms of the pieces' rates, then of their lengths, in any unit of time.

    Examples
    --------
    Rate 4 for a fifth of the time, 0.25 for the rest: at load 0.5 the work rises by 100 and falls within 114.3 of 400.

    >>> mean, _ = np.exp(course_curves(np.log([[4.0, 0.25, 100.0, 400.0]]), np.array([0.5])))[0]
    >>> at_rest = 0.2 * (1.0 - 100.0 / 0.875 / 400.0)
    >>> float((mean - 0.5 - at_rest * 0.75 * 0.5 * 0.125 / 0.875).round(6)) == round(50.0 * (1.0 - at_rest), 6)
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
    waiting = arrivals * np.where(slopes < 0.0, np.minimum(before / np.maximum(-moves, 1e-12), 1.0), 1.0)
    resting = arrivals - waiting
    busy = np.minimum(loads * r, _BUSIEST)
    waits = 0.75 * loads * busy / (1.0 - busy)  # Erlang service of two phases: (1 + 1/2) / 2
    mean = 0.5 * (waiting * (before + after)).sum(axis=0) + loads + (resting * waits).sum(axis=0)
    # Tails at rest are taken to be exponential and right at their own percentile, as in `fluid_curve`.
    decay = 3.0 / ((2.37 + 0.5 * busy) * (loads + waits))
    highest = np.maximum(before, after) + loads
    per_time = 1.0 / np.maximum(np.abs(after - before), 1e-12)
    low, high = np.zeros(mean.shape), np.maximum(highest.max(axis=0), 30.0 / decay.min(axis=0))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = waiting * np.clip((highest - middle) * per_time, 0.0, 1.0) + resting * np.exp(-decay * middle)
        beyond = above.sum(axis=0) > 1.0 - SHARE
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.asarray(np.log(np.concatenate([mean, 0.5 * (low + high)], axis=1)), dtype=np.float64)
