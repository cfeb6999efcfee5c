# SPDX-License-Identifier: Apache-2.0
"""Streams between operators: several merged, records dropped or multiplied, the number of states kept in bounds.

*Merged*: the superposition of the streams, as if independent. Streams that go back to one source are not; what they
have in common is then not seen, and the merged stream counts as smoother than it is.

*Selectivity below one*: each output is kept with that probability, whatever came before (thinning).

*Selectivity above one*: a record yields a geometric number of outputs with that mean, at least one, hard on each
other's heels (a thousandth of their mean interval apart). A fixed number would be less variable.

*Smaller*: where a process has too many states, a MAP of two phases takes its place with the same rate, SCV, third
moment and long-run dispersion of counts, as far as two phases can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import MAP, nearest_map2, superpose

_CLOSE = 1e-3
_LEAST_SCV = 1.05


def merge(processes: Sequence[MAP], *, most_states: int) -> MAP:
    """Give several streams as one of at most `most_states` states.

    Examples
    --------
    >>> round(merge([MAP.poisson(1.0), MAP.poisson(2.0)], most_states=4).rate, 12)
    3.0
    """
    if len(processes) == 1:
        return processes[0] if processes[0].order <= most_states else smaller(processes[0])
    fitting = sorted(processes, key=lambda process: process.order)
    while len(fitting) > 1:
        one, other, *rest = fitting
        if one.order * other.order > most_states:
            other = smaller(other) if other.order > 2 else other
            one = smaller(one) if one.order > 2 and one.order * other.order > most_states else one
        both = superpose(one, other)
        fitting = sorted([both if both.order <= most_states else smaller(both), *rest], key=lambda p: p.order)
    return fitting[0]


def smaller(process: MAP) -> MAP:
    """Give a process of two phases in the place of a larger one.

    In a MAP of two phases I = c2 + (c2 - 1) gamma / (1 - gamma), c2 being the intervals' SCV, gamma the decay of their
    autocorrelation and I the long-run dispersion of counts. Intervals of SCV 1 or less cannot carry a dispersion
    above theirs, so the SCV is then raised to 1.05.

    Examples
    --------
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


def selected(process: MAP, selectivity: float) -> MAP:
    """Give the outputs of an operator whose records leave as `process` and yield so many outputs each, on average.

    Examples
    --------
    >>> round(selected(MAP.poisson(4.0), 0.5).rate, 9), round(selected(MAP.poisson(4.0), 2.5).rate, 9)
    (2.0, 10.0)
    """
    s = check_selectivity(selectivity)
    if s == 1.0:
        return process
    if s < 1.0:
        return process.thinned(s)
    n = process.order
    again = 1.0 - 1.0 / s
    # After an output either the process goes on, or the next output of the same record follows at once. The time that
    # takes is taken from the intervals, so that the rate is s times what came in.
    gap = _CLOSE * process.mean / s
    reached = np.flatnonzero(process.D1.any(axis=0))  # phases in which an output can leave the process
    k = len(reached)
    D0, D1 = np.zeros((n + k, n + k)), np.zeros((n + k, n + k))
    D0[:n, :n], D1[:n, :n], D1[:n, n:] = process.D0, (1.0 - again) * process.D1, again * process.D1[:, reached]
    D0[n:, n:] = -np.eye(k) / gap
    D1[n:, :n], D1[n:, n:] = (1.0 - again) * np.eye(n)[reached] / gap, again * np.eye(k) / gap
    return MAP(D0, D1).with_rate(s * process.rate)


def check_selectivity(value: float, field: str = "selectivity") -> float:
    """Give `value` back if it is a positive number."""
    if not (math.isfinite(value) and value > 0):
        raise ConfigurationError(
            f"{field}: {value!r} must be a positive number of outputs for each record", field=field
        )
    return float(value)
