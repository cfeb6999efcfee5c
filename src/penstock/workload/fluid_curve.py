# SPDX-License-Identifier: Apache-2.0
"""Response times along the load where bursts are long: the queue as a fluid that rises and falls with the chain.

Of long bursts the queue is nearly a fluid: in state i it rises by v_i = load r_i - 1 per unit of time. Its equations
have the order of the chain, those of the queue itself three times that (`load_curve`), so a search follows the fluid.

With time counted by the way the level goes, Psi and the phases xi at level 0 are those of `markov.fluid`. The levels
passed while rising have the density xi Q_fr exp(K x) with K = Q_rr + Psi Q_fr, those passed while falling Psi times it
(Ramaswami, "Matrix analytic methods for stochastic fluid flows", ITC 16, 1999). An arrival sees state i in proportion
to r_i / |v_i|. At level 0 it waits as in a queue with Poisson arrivals of the state's rate (Pollaczek and Khinchine).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from penstock.errors import ConvergenceError
from penstock.markov.fluid import first_return
from penstock.markov.queue_gradient import stationary_rows
from penstock.workload.replay_queue import SHARE

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_LEAST_SLOPE = 1e-3
_LEAST_REST = 0.03
"""Least part of its time for which the server is taken to rest in a state at level 0: no state lasts for ever."""

_LEVELS, _FARTHEST = 14, 30.0
"""Doublings of the shortest step, and the longest level looked at in units of the mean."""

_HALVINGS = 30


def fluid_curves(rates: FloatArray, moves: FloatArray, loads: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and percentile of the response times of arrivals of rate 1, shapes (rows, loads).

    Values that could not be solved are infinite.

    Parameters
    ----------
    rates
        Arrivals per unit of time in each state, shape (rows, states).
    moves
        Generators of the states, shape (rows, states, states).
    """
    mean, percentile = np.full((2, len(rates), loads.size), np.inf)
    for column, load in enumerate(loads.tolist()):
        rising = load * rates > 1.0
        of_pattern: dict[bytes, list[int]] = {}
        for row, pattern in enumerate(rising):
            of_pattern.setdefault(pattern.tobytes(), []).append(row)
        for rows in of_pattern.values():
            rises = rising[rows[0]]
            try:
                mean[rows, column], percentile[rows, column] = _at(load, rates[rows], moves[rows], rises)
            except (np.linalg.LinAlgError, ConvergenceError):
                continue
    return mean, percentile


def _at(load: float, rates: FloatArray, moves: FloatArray, rises: BoolArray) -> tuple[FloatArray, FloatArray]:
    slopes = load * rates - 1.0
    size = np.maximum(np.abs(slopes), _LEAST_SLOPE)
    order = np.argsort(rises, kind="stable")
    f = int(np.count_nonzero(~rises))
    Q = (moves / size[:, :, None])[:, order][:, :, order]
    met = (rates / size)[:, order]
    if f == rises.size:
        resting = stationary_rows(Q)
        level = highest = share_above = np.zeros(len(rates))
        total = (resting * met).sum(axis=1)
    else:
        found = first_return(Q, f)
        resting = found.resting
        up = (resting[:, None, :] @ Q[:, :f, f:])[:, 0]
        K = Q[:, f:, f:] + found.Psi @ Q[:, :f, f:]
        seen = met[:, f:] + (found.Psi @ met[:, :f, None])[:, :, 0]
        inverse = np.linalg.inv(-K)
        above = (up[:, None, :] @ inverse)[:, 0]
        total = (resting * met[:, :f]).sum(axis=1) + (above * seen).sum(axis=1)
        level = (above[:, None, :] @ inverse @ seen[:, :, None])[:, 0, 0] / total
        share_above = (above * seen).sum(axis=1) / total
        highest = _level_percentile(K, above / total[:, None], seen, level)
    at_rest = resting * met[:, :f] / total[:, None]
    busy = np.minimum(load * rates[:, order][:, :f], 1.0 - _LEAST_REST)
    waits = 0.75 * load * busy / (1.0 - busy)  # Erlang service of two phases: (1 + 1/2) / 2
    mean = level + load + (at_rest * waits).sum(axis=1)
    near = _near_percentile(at_rest, load + waits, busy, np.maximum(1.0 - SHARE - share_above, 0.0))
    return mean, np.maximum(np.where(highest > 0.0, highest + load, 0.0), near)


def _near_percentile(shares: FloatArray, means: FloatArray, busy: FloatArray, left: FloatArray) -> FloatArray:
    """Return the time that a share `left` of all arrivals exceed at level 0; 0 if more than that are above it.

    The tail of each state is taken to be exponential, and right at its own percentile: that is 2.4 times the mean for
    a service alone, and nears 3 times as the server gets busy.
    """
    if not (left > 0.0).any():
        return np.zeros(len(left))
    decay = 3.0 / ((2.37 + 0.5 * busy) * means)
    low, high = np.zeros(len(shares)), 30.0 / decay.min(axis=1)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        beyond = (shares * np.exp(-decay * middle[:, None])).sum(axis=1) > left
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return np.where(left > 0.0, low, 0.0)


def _level_percentile(K: FloatArray, above: FloatArray, seen: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the level that 1 - SHARE of the arrivals see exceeded; above exp(K x) seen is the share at x."""
    step = _FARTHEST * mean / 2.0**_LEVELS
    small = K * step[:, None, None]
    # (I - A + A^2 / 2)^-1 for exp(A): exact to the second order, and without overshoot where phases change quickly.
    powers = [np.linalg.inv(np.eye(K.shape[1]) - small + 0.5 * (small @ small))]
    for _ in range(_LEVELS - 1):
        powers.append(powers[-1] @ powers[-1])
    level, left = np.zeros(len(K)), (above * seen).sum(axis=1)
    reached = left > 1.0 - SHARE
    for i in range(_LEVELS - 1, -1, -1):
        ahead = (above[:, None, :] @ powers[i])[:, 0]
        share = (ahead * seen).sum(axis=1)
        beyond = share > 1.0 - SHARE
        above, left = np.where(beyond[:, None], ahead, above), np.where(beyond, share, left)
        level += np.where(beyond, step * 2.0**i, 0.0)
    ahead = ((above[:, None, :] @ powers[0])[:, 0] * seen).sum(axis=1)
    rest = (left - (1.0 - SHARE)) / np.maximum(left - ahead, 1e-300)
    return np.where(reached, level + np.clip(rest, 0.0, 1.0) * step, 0.0)
