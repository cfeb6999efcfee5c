# SPDX-License-Identifier: Apache-2.0
"""Times that vary, as points and weights; and how long full batches take when they follow each other.

A time is a constant and a gamma distributed part. It is cut at quantiles, more finely in its tail, and each panel
has the two points and weights of Gauss's rule: its moments up to the third are exact, the last, endless panel's too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammainc, gammaincinv

from penstock.markov.conditions import FloatArray

ROUGH = (0.5, 0.9)
"""Quantiles that part the panels of full batches without a trigger, of which many follow each other."""

COARSE = (0.25, 0.5, 0.75, 0.92, 0.985)
"""Quantiles that part the panels where what is summed is smooth."""

MEDIUM = (0.12, 0.3, 0.5, 0.7, 0.85, 0.95, 0.99)
"""The same for the percentiles of times with short tails."""

FINE = (
    0.04, 0.1, 0.17, 0.25, 0.33, 0.42, 0.5, 0.58, 0.67, 0.75, 0.82, 0.88, 0.92, 0.95, 0.97, 0.985, 0.993, 0.998, 0.9995,
)  # fmt: skip
"""The same where it has kinks or steps: batches about as long as the trigger interval, and percentiles."""

_ROUNDING = 200.0
"""Shapes are inverted once for all within 1 / 200; the exact spread is given back afterwards."""

_ROUNDEST = 1e4
"""Shape beyond which a gamma distribution is taken to have the form it has there."""

_SHORTEST = 1e-6
"""Share of its mean that a time is at least taken to have, so that no gap is zero."""

_CELLS, _TURNS = 96, 48
"""Cells of a trigger interval, and intervals that a batch is followed over; one that lasts longer ends anywhere."""


def gamma_points(
    floor: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    cuts: tuple[float, ...],
    at: float | FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Give points `[time, q]` and weights `[time, q]` of times of some means and variances, none below its floor.

    With `at` (one, or one for each) a panel ends there: the weights on either side are then the true probabilities.
    """
    varied = (variance > 0) & (mean > floor)
    if not np.any(varied):
        return mean[:, None], np.ones((len(mean), 1))
    part = np.where(varied, mean - floor, 1.0)
    shape = np.where(varied, part**2 / np.where(varied, variance, 1.0), 1.0)
    rounded, index = np.unique(np.round(np.log(np.minimum(shape, _ROUNDEST)) * _ROUNDING), return_inverse=True)
    forms = np.exp(rounded / _ROUNDING)
    if at is None:
        points, weights = _panels(forms, cuts, None)
    else:
        # Where a panel must end differs from time to time.
        index, forms = np.arange(len(mean)), np.minimum(shape, _ROUNDEST)
        cut = 1.0 + ((at - floor) / part - 1.0) * np.sqrt(shape / forms)
        points, weights = _panels(forms, cuts, cut)
    relative = 1.0 + (points[index] - 1.0) * np.sqrt(forms[index] / shape)[:, None]
    relative = np.maximum(relative, _SHORTEST)
    relative /= (relative * weights[index]).sum(axis=1)[:, None]
    times = np.where(varied[:, None], floor[:, None] + part[:, None] * relative, mean[:, None])
    return times, weights[index]


def _panels(shapes: FloatArray, cuts: tuple[float, ...], cut: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Give points and weights for gamma distributions of mean 1: Gauss's rule of two points in every panel."""
    a = shapes[:, None]
    forms, index = np.unique(shapes, return_inverse=True)
    edges = np.concatenate([np.zeros_like(a), gammaincinv(forms[:, None], np.asarray(cuts)[None, :])[index]], axis=1)
    if cut is not None:
        edges = np.sort(np.concatenate([edges, a * np.maximum(cut, 0.0)[:, None]], axis=1), axis=1)
    # E[X^k; X < x] of a gamma variable is E[X^k] times the distribution function of shape a + k.
    raised, below = np.ones_like(a), []
    for k in range(4):
        below.append(raised * np.concatenate([gammainc(a + k, edges), np.ones_like(a)], axis=1))
        raised = raised * (a + k) / a
    weight, *moments = (np.diff(each, axis=1) for each in below)
    some = weight > 0
    whole = np.where(some, weight, 1.0)
    m1, m2, m3 = (each / whole for each in moments)
    variance = np.maximum(m2 - m1**2, 0.0)
    spread = np.sqrt(variance)
    usable = (spread > 1e-7 * m1) & (spread > 1e-90)
    third = np.where(usable, (m3 - 3 * m1 * m2 + 2 * m1**3) / np.where(usable, spread, 1.0) ** 3, 0.0)
    half = np.clip(third, -50.0, 50.0) / 2
    # Two points of mean 0, variance 1 and third moment g: g / 2 -+ sqrt(1 + g^2 / 4).
    reach = np.sqrt(1 + half**2)
    low, high = np.maximum(m1 + spread * (half - reach), 0.0), m1 + spread * (half + reach)
    share = (reach + half) / (2 * reach)
    points = np.concatenate([low, high], axis=1)
    weights = np.concatenate([weight * share, weight * (1 - share)], axis=1)
    return points, weights / weights.sum(axis=1)[:, None]


@dataclass(frozen=True)
class FullCycle:
    """Full batches back to back: mean time from start to start, and variance that each adds in the long run."""

    mean: float
    variance: float


@lru_cache(maxsize=4096)
def full_cycle(floor: float, mean: float, variance: float, trigger: float | None) -> FullCycle:
    """Give the cycle of full batches of a batch time, with starts at triggers or, after a late batch, at once.

    The place o of a start after the last trigger is a Markov chain of its own: tau = max(B, T - o), and the next o
    is 0 after a batch that was done by then, else (o + B) modulo T. Its stationary vector gives the mean of tau,
    its fundamental matrix the sum of all covariances (Kemeny and Snell, "Finite Markov chains", 1960, chapter 4).
    """
    if trigger is None:
        return FullCycle(mean, variance)
    if variance <= 0 or mean <= floor:
        return FullCycle(max(mean, trigger), 0.0)
    if variance < (0.1 * trigger / _CELLS) ** 2:
        # Finer than the cells below: a start would never leave its cell, and the chain would fall into pieces.
        return FullCycle(max(mean, trigger), variance if mean > trigger else 0.0)
    # Time in units of the trigger interval: nothing depends on the unit.
    floor, mean, variance = floor / trigger, mean / trigger, variance / trigger**2
    shape, scale = (mean - floor) ** 2 / variance, variance / (mean - floor)

    def below(t: FloatArray, power: int = 0) -> FloatArray:
        return np.asarray(gammainc(shape + power, np.maximum(t - floor, 0.0) / scale))

    starts = np.concatenate([[0.0], (np.arange(_CELLS) + 0.5) / _CELLS])
    room = 1.0 - starts
    on_time = below(room)
    # Ends of a batch, from its start's trigger: cells after the next trigger, turn by turn.
    edges = 1.0 + np.arange(_TURNS * _CELLS + 1) / _CELLS
    ended = np.diff(below(edges[None, :] - starts[:, None]), axis=1).reshape(len(starts), _TURNS, _CELLS)
    rest = np.maximum(1.0 - on_time - ended.sum(axis=(1, 2)), 0.0)
    P = np.zeros((len(starts), len(starts)))
    P[:, 0] = on_time
    P[:, 1:] = ended.sum(axis=1) + rest[:, None] / _CELLS
    P /= P.sum(axis=1)[:, None]
    A = (np.eye(len(starts)) - P).T
    A[0] = 1.0
    stationary = np.linalg.solve(A, np.eye(len(starts))[0])
    # E[max(B, r)] and E[max(B, r)^2], r = T - o: r where the batch is done by then, else moments beyond r.
    part, part_2 = mean - floor, variance + (mean - floor) ** 2
    above = part * (1 - below(room, 1))
    late = 1 - on_time
    first = room * on_time + floor * late + above
    second = room**2 * on_time + floor**2 * late + 2 * floor * above + part_2 * (1 - below(room, 2))
    cycle = float(stationary @ first)
    ahead = np.linalg.solve(np.eye(len(starts)) - P + stationary[None, :], first - cycle)
    # tau and the next o belong together: (turns + next o) - o.
    gaps = np.arange(1, _TURNS + 1)[None, :, None] + starts[None, None, 1:] - starts[:, None, None]
    beyond = np.where(rest > 1e-12, first - room * on_time - (ended * gaps).sum(axis=(1, 2)), 0.0)
    joint = room * on_time * ahead[0] + (ended * gaps).sum(axis=1) @ ahead[1:] + beyond * ahead[1:].mean()
    adds = float(stationary @ second) - cycle**2 + 2 * float(stationary @ joint)
    return FullCycle(trigger * max(cycle, mean, 1.0), trigger**2 * max(adds, 0.0))
