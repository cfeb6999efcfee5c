# SPDX-License-Identifier: Apache-2.0
"""What happens to streams between operators: records are dropped, multiplied or dealt out to executors.

* **Selectivity below one**: each record is kept with that probability, independently of all others (thinning).
* **Selectivity above one**: each record is followed by copies, a thousandth of the mean interval apart. The number of
  records is the selectivity, or one of the two whole numbers around it. Where that needs too many states, the number
  is geometric.
* **Executors** that take records in turn get every n-th record each.
* **Reduction**: a process with too many states is replaced by a MAP of two phases with the same rate, SCV, third
  moment and long-run dispersion of counts, as far as two phases can have them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.markov import MAP, nearest_map2

_GAP = 1e-3
"""Time between copies of a record, relative to the mean interval of the multiplied stream."""

_LEAST_SCV = 1.05
"""Intervals of a two-phase MAP need an SCV above one to carry a dispersion above one."""

_UNEVEN = 1e-9
"""A selectivity this close to a whole number is that number."""


def every_nth(process: MAP, n: int, *, most_states: int) -> MAP:
    """Give every n-th record of a process: what one of `n` executors gets that take records in turn.

    Phases are counted with the records since the last one kept, which needs n times as many states. Where that is
    more than `most_states`, a part of the records is dropped at random first, and every k-th of the rest is kept.

    Examples
    --------
    >>> part = every_nth(MAP.poisson(3.0), 3, most_states=48)
    >>> round(part.rate, 9), round(part.scv, 9)  # Erlang-3
    (1.0, 0.333333333)
    """
    k = max(1, min(n, most_states // process.order))
    rest = process.thinned(k / n) if k < n else process
    if k == 1:
        return rest
    eye, shift = np.eye(k), np.eye(k, k=1)
    last = np.zeros((k, k))
    last[-1, 0] = 1.0
    return MAP(np.kron(eye, rest.D0) + np.kron(shift, rest.D1), np.kron(last, rest.D1))


def smaller(process: MAP) -> MAP:
    """Give a process of two phases that replaces a larger one.

    In a MAP of two phases I = c2 + (c2 - 1) gamma / (1 - gamma), where c2 is the SCV of the intervals, gamma the decay
    of their autocorrelation and I the long-run dispersion of counts. If the SCV is below 1.05 and I above it, the SCV
    is raised to 1.05.

    Examples
    --------
    >>> from penstock.markov import superpose
    >>> burst = MAP.mmpp([[-1, 1], [2, -2]], [9, 1])
    >>> round(smaller(superpose(burst, burst)).asymptotic_idc / burst.asymptotic_idc, 6)
    1.0
    """
    m1, m2, m3 = (float(m) for m in process.moments(3))
    scv, dispersion = process.scv, process.asymptotic_idc
    if scv < _LEAST_SCV and dispersion > _LEAST_SCV:
        m3 *= (1.0 + _LEAST_SCV) ** 2 * m1**4 / m2**2  # the same normalised third moment
        scv, m2 = _LEAST_SCV, (1.0 + _LEAST_SCV) * m1 * m1
    ratio = (dispersion - scv) / (scv - 1.0) if abs(scv - 1.0) > 1e-6 else 0.0
    gamma = ratio / (1.0 + ratio) if ratio > -0.5 else -1.0
    return nearest_map2(m1, m2, m3, gamma).process


def selected(process: MAP, selectivity: float, *, most_states: int) -> MAP:
    """Give the stream in which each record of `process` is kept or multiplied so that `selectivity` remain on average.

    Examples
    --------
    >>> round(selected(MAP.poisson(4.0), 0.5, most_states=8).rate, 9)
    2.0
    >>> round(selected(MAP.poisson(4.0), 2.5, most_states=8).rate, 9)
    10.0
    """
    if selectivity == 1.0:
        return process
    if selectivity < 1.0:
        return process.thinned(selectivity)
    n, reached = process.order, np.flatnonzero(process.D1.any(axis=0))  # phases in which a record can leave
    copies = math.ceil(selectivity - _UNEVEN) - 1
    if n + copies * len(reached) <= most_states:
        # At most `copies` follow; the last of them only with the probability that the fraction asks for.
        more = [1.0] * copies
        more[-1] = selectivity - copies
    elif n + len(reached) <= most_states:
        more = []  # a geometric number
    else:
        return selected(smaller(process), selectivity, most_states=max(most_states, 4))
    return _multiplied(process, reached, more, selectivity)


def _multiplied(process: MAP, reached: np.ndarray, more: Sequence[float], selectivity: float) -> MAP:
    """Let copies follow each record: the next one with the probability `more` of each; geometric if `more` is empty."""
    n, k = process.order, len(reached)
    rows = max(len(more), 1)
    again = [1.0 - 1.0 / selectivity] if not more else list(more)
    # The time that copies take is taken from the intervals, so that the rate is exact.
    rate = selectivity / (_GAP * process.mean)
    size = n + rows * k
    D0, D1 = np.zeros((size, size)), np.zeros((size, size))
    back = np.eye(n)[reached]
    D0[:n, :n] = process.D0
    D1[:n, :n] = (1.0 - again[0]) * process.D1
    D1[:n, n : n + k] = again[0] * process.D1[:, reached]
    for j in range(rows):
        own = slice(n + j * k, n + (j + 1) * k)
        D0[own, own] = -rate * np.eye(k)
        chance = again[0] if not more else (again[j + 1] if j + 1 < rows else 0.0)
        following = own if not more else slice(n + (j + 1) * k, n + (j + 2) * k)
        D1[own, :n] = (1.0 - chance) * rate * back
        if chance > 0.0:
            D1[own, following] = chance * rate * np.eye(k)
    return MAP(D0, D1).with_rate(selectivity * process.rate)
