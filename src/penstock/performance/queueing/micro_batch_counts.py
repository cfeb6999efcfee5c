# SPDX-License-Identifier: Apache-2.0
"""How many records a MAP brings in a given time, with the phases before and after, for many times at once.

==========  =========================================================================================
Symbol      Meaning
==========  =========================================================================================
D(z)        D0 + z D1
N(t)        arrivals in a time t
P_n(t)      matrix with entries P(N(t) = n, phase j at t | phase i at 0)
==========  =========================================================================================

The generating function is sum_n z^n P_n(t) = exp(D(z) t) (Neuts 1979). It is inverted on the circle |z| = 1 by a
discrete Fourier transform over a window [low, high] of counts outside which the mass is at most a stated bound,
by Chernoff: P(N(t) >= x | i) <= e^(-s x) [exp(D(e^s) t) 1]_i for every s > 0, and likewise below with s < 0.
While the window has no more counts than frequencies, the answer is exact up to rounding. A wider window is sampled
at equal steps, as a density: only low frequencies are used, damped by a Gaussian where the counts themselves are
sharper than the steps. That leaves the mean as it is and adds a variance, which is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.markov.conditions import FloatArray, IntArray

_EDGE = 0.03
"""What is left of the transform at the highest frequency used: small enough that the density does not ring."""

_NORM = 0.35
"""Largest norm the series of the exponential is used for; its 9th-order remainder is then below 1e-9."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The counts of several times: `mass[k, s, i, j]` of count `at[k, s]` (N > 0), `none[k]` of no arrival."""

    at: FloatArray
    mass: FloatArray
    none: FloatArray
    exact: npt.NDArray[np.bool_]
    added_variance: FloatArray


def exponentials(matrices: npt.NDArray[np.inexact], times: FloatArray) -> tuple[npt.NDArray[np.inexact], FloatArray]:
    """Give exp(A_k t_k), each divided by a positive scale, and the logarithms of the scales.

    Scaling and squaring with an 8th-order series, all matrices together; the scale keeps large ones finite.
    """
    order = matrices.shape[-1]
    norms = np.abs(matrices).sum(axis=-1).max(axis=-1) * times
    doublings = np.maximum(0, np.ceil(np.log2(np.maximum(norms, 1e-300) / _NORM))).astype(int)
    sequence = np.argsort(-doublings, kind="stable")
    A = matrices[sequence] * (times[sequence] / 2.0 ** doublings[sequence])[:, None, None]
    eye = np.eye(order)
    A2 = A @ A
    A3 = A2 @ A
    A6 = eye / 720 + A / 5040 + A2 / 40320
    result = eye + A + A2 / 2 + A3 @ (eye / 6 + A / 24 + A2 / 120 + A3 @ A6)
    logs = np.zeros(len(A))
    ordered = doublings[sequence]
    for done in range(int(ordered[0]) if len(ordered) else 0):
        active = int(np.searchsorted(-ordered, -done, side="left"))
        part = result[:active] @ result[:active]
        size = np.abs(part).max(axis=(-1, -2))
        result[:active] = part / size[:, None, None]
        logs[:active] = 2 * logs[:active] + np.log(size)
    back = np.empty_like(sequence)
    back[sequence] = np.arange(len(sequence))
    return result[back], logs[back]


def windows(D0: FloatArray, D1: FloatArray, times: FloatArray, outside: float) -> tuple[FloatArray, FloatArray]:
    """Give, for each time, counts that N(t) stays between but for a probability `outside` on each side."""
    rates = D1.sum(axis=1)
    logarithm = -np.log(outside)
    guess = np.sqrt(2 * logarithm / (rates.max() * times + 1.0))
    high, low = np.full(len(times), np.inf), np.zeros(len(times))
    for factor in (0.01, 0.03, 0.08, 0.2, 0.4, 0.7, 1.0, 1.4):
        for sign in (1.0, -1.0):
            s = sign * guess * factor
            tilted = D0 + np.exp(s)[:, None, None] * D1
            powers, logs = exponentials(tilted, times)
            bound = (np.log(powers.sum(axis=-1).max(axis=-1)) + logs + logarithm) / s
            if sign > 0:
                high = np.minimum(high, bound)
            else:
                low = np.maximum(low, bound)
    return np.floor(np.maximum(low, 0.0)), np.ceil(high) + 1.0


def count_matrices(D0: FloatArray, D1: FloatArray, times: FloatArray, frequencies: int, outside: float) -> Counts:
    """Give the distribution of N(t) with the phases, for all `times`, on `frequencies` samples each."""
    order, K, M = len(D0), len(times), frequencies
    low, high = windows(D0, D1, times, outside)
    exact = high - low <= M
    step = np.where(exact, 1.0, (high - low) / M)
    half = M // 2 + 1
    theta = 2 * np.pi * np.arange(half)[None, :] / (M * step[:, None])
    D = D0 + np.exp(1j * theta)[:, :, None, None] * D1
    flat, logs = exponentials(D.reshape(-1, order, order), np.repeat(times, half))
    transform = np.asarray(flat * np.exp(logs)[:, None, None], dtype=complex).reshape(K, half, order, order)
    none = _no_arrival(D0, times)
    transform = transform - none[:, None]
    edge = np.abs(transform[:, -1]).sum(axis=-1).max(axis=-1)
    highest = np.pi / step
    added = np.where(exact, 0.0, 2 * np.log(np.maximum(edge / _EDGE, 1.0)) / highest**2)
    transform *= np.exp(-1j * theta * low[:, None] - added[:, None] * theta**2 / 2)[:, :, None, None]
    # numpy's forward transform has e^(-i...): the density is the inverse of the conjugate.
    mass = np.fft.irfft(np.conj(transform), n=M, axis=1)
    at = low[:, None] + step[:, None] * np.arange(M)
    return Counts(at, mass, none, exact, added)


def _no_arrival(D0: FloatArray, times: FloatArray) -> FloatArray:
    powers, logs = exponentials(np.broadcast_to(D0, (len(times), *D0.shape)).copy(), times)
    return np.asarray(powers * np.exp(logs)[:, None, None], dtype=float)


def expected_counts(D0: FloatArray, D1: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Give E[N(t)] and the integral of E[N(u)] over u in (0, t), from each phase at 0, for all times.

    Both are blocks of one exponential (Van Loan, "Computing integrals involving the matrix exponential", IEEE
    Transactions on Automatic Control 23, 1978).
    """
    order = len(D0)
    rate = float(D1.sum(axis=1).max())
    block = np.zeros((order + 2, order + 2))
    block[:order, :order] = D0 + D1
    block[:order, order] = D1.sum(axis=1) / rate
    block[order, order + 1] = 1.0
    counts, areas = np.empty((len(times), order)), np.empty((len(times), order))
    for k, t in enumerate(times):
        # Time is measured in units of t, so that the blocks do not depend on the unit.
        scaled = block.copy()
        scaled[:order, :order] *= t
        powers, logs = exponentials(scaled[None], np.ones(1))
        result = powers[0] * np.exp(logs[0])
        counts[k] = rate * t * result[:order, order]
        areas[k] = rate * t * t * result[:order, order + 1]
    return counts, areas


def interpolation(points: FloatArray, nodes: FloatArray, breaks: IntArray) -> FloatArray:
    """Give weights that carry mass at `points` over to `nodes`, keeping its moments up to the third.

    Lagrange's cubic through the four nearest nodes of the piece a point lies in; pieces end at the nodes numbered
    `breaks` (both ends of the grid included), where what follows may have a kink. A point on a node stays there.
    Points outside the grid go to its nearest end.
    """
    clipped = np.clip(points, nodes[breaks[0]], nodes[breaks[-1]])
    weights = np.zeros((len(points), len(nodes)))
    rows = np.arange(len(points))
    piece = np.clip(np.searchsorted(nodes[breaks], clipped, side="right") - 1, 0, len(breaks) - 2)
    first, last = breaks[piece], breaks[piece + 1]
    cell = np.clip(np.searchsorted(nodes, clipped, side="right") - 1, first, last - 1)
    for size in range(1, 5):
        chosen = np.minimum(last - first + 1, 4) == size
        if not chosen.any():
            continue
        start = np.clip(cell[chosen] - (size - 2) // 2, first[chosen], last[chosen] - size + 1)
        columns = start[:, None] + np.arange(size)
        x = nodes[columns]
        y = clipped[chosen]
        for a in range(size):
            w = np.ones(len(y))
            for b in range(size):
                if b != a:
                    w *= (y - x[:, b]) / (x[:, a] - x[:, b])
            weights[rows[chosen], columns[:, a]] += w
    return weights
