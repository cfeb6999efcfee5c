# SPDX-License-Identifier: Apache-2.0
"""How many arrivals of a Markovian arrival process fall into an interval: dispersion and distribution.

========  ===============================================================================
Symbol    Meaning
========  ===============================================================================
Q         D0 + D1, generator of the phases
theta     stationary vector of Q
lam       theta D1 e, the arrival rate
D#        deviation matrix of Q
N(t)      number of arrivals in an interval of length t, the phases being stationary
IDC(t)    Var N(t) / E N(t), index of dispersion for counts
========  ===============================================================================

Var N(t) = lam t + 2 theta D1 [integral over 0..t of (t - s) exp(Q s) ds] (D1 e - lam e)
(Narayana and Neuts, "The first two moment matrices of the counts for the Markovian arrival process", Stochastic
Models 8, 1992). For short t the bracket is read off one exponential of an augmented matrix (Van Loan, "Computing
integrals involving the matrix exponential", IEEE Transactions on Automatic Control 23, 1978); for long t it is
t D# - D# (I - exp(Q t)) D#.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import expm

from penstock.errors import InvalidProcessError
from penstock.markov.conditions import FloatArray
from penstock.markov.transient import transition_matrix

_LONG = 1e4
"""Length of an interval, in the mean stays of the fastest phase, beyond which the deviation matrix serves."""


def index_of_dispersion(
    times: FloatArray, Q: FloatArray, D1: FloatArray, theta: FloatArray, deviation: FloatArray
) -> FloatArray:
    """Give IDC(t) for each t; 1 at t = 0."""
    n = len(theta)
    weights = theta @ D1
    lam = float(weights.sum())
    centred = D1.sum(axis=1) - lam
    q = float(np.max(-Q.diagonal())) or 1.0
    values = np.ones(times.size)
    through = deviation @ centred
    settled = float(weights @ through)
    twice = deviation @ through
    for i, t in enumerate(times):
        if t == 0:
            continue
        if t * q > _LONG:
            rest = float(weights @ (twice - transition_matrix(Q, float(t)) @ twice)) / t
            values[i] += 2.0 * (settled - rest) / lam
        else:
            # Top right of exp([[Q t, centred, 0], [0, 0, 1], [0, 0, 0]]): integral of (1 - s) exp(Q t s) to 1.
            block = np.zeros((n + 2, n + 2))
            block[:n, :n] = Q * t
            block[:n, n] = centred / lam
            block[n, n + 1] = 1.0
            values[i] += 2.0 * t * float(weights @ expm(block)[:n, n + 1])
    return values


def asymptotic_index(D1: FloatArray, theta: FloatArray, deviation: FloatArray) -> float:
    """Give the limit of IDC(t) for long intervals, 1 + 2 theta D1 D# D1 e / lam."""
    weights = theta @ D1
    lam = float(weights.sum())
    return 1.0 + 2.0 * float(weights @ (deviation @ (D1.sum(axis=1) - lam))) / lam


def count_distribution(
    t: float, D0: FloatArray, D1: FloatArray, theta: FloatArray, *, tolerance: float, largest: int | None
) -> FloatArray:
    """Give P(N(t) = k) for k = 0, 1, ..., up to `largest` or until less than `tolerance` is left beyond."""
    if not np.isfinite(t) or t < 0:
        raise InvalidProcessError(f"t = {t:g} must be a finite length of time, not negative")
    if not 0 < tolerance < 1:
        raise InvalidProcessError(f"tolerance = {tolerance:g} must lie between 0 and 1")
    if largest is not None and largest < 0:
        raise InvalidProcessError(f"largest = {largest} must not be negative")
    if t == 0:
        none: FloatArray = np.eye(1, 1 if largest is None else largest + 1)[0]
        return none
    steps = float(np.max(-D0.diagonal())) * t
    enough = _tail_bound(t, D0, D1, theta, tolerance)
    last = enough if largest is None else largest
    if steps * min(steps, last) <= 2e6:
        return uniformised_counts(t, D0, D1, theta, last)
    counts = transformed_counts(t, D0, D1, theta, max(enough, last))
    return counts[: last + 1]


def uniformised_counts(t: float, D0: FloatArray, D1: FloatArray, theta: FloatArray, largest: int) -> FloatArray:
    """Give P(N(t) = k), k up to `largest`, by uniformisation: a Poisson sum over the steps of a discrete chain.

    Jensen, "Markoff chains as an aid in the study of Markoff processes", Skandinavisk Aktuarietidskrift 36, 1953.
    """
    q = float(np.max(-D0.diagonal()))
    mean = q * t
    stay = np.eye(len(D0)) + D0 / q
    arrive = D1 / q
    last = math.ceil(mean + 9.0 * math.sqrt(mean) + 40.0)
    m = np.arange(last + 1)
    log_factorials = np.concatenate([[0.0], np.cumsum(np.log(m[1:]))])
    weights = np.exp(m * math.log(mean) - mean - log_factorials)
    level = np.zeros((largest + 1, len(theta)))
    level[0] = theta
    result = np.zeros(largest + 1)
    for step in range(last + 1):
        top = min(step, largest) + 1
        if weights[step] > 0:
            result[:top] += weights[step] * level[:top].sum(axis=1)
        upper = min(step + 1, largest) + 1
        moved = level[: upper - 1] @ arrive
        level[:upper] = level[:upper] @ stay
        level[1:upper] += moved
    return result


def transformed_counts(t: float, D0: FloatArray, D1: FloatArray, theta: FloatArray, largest: int) -> FloatArray:
    """Give P(N(t) = k), k up to `largest`, by inverting the generating function theta exp((D0 + z D1) t) e.

    Abate and Whitt, "Numerical inversion of probability generating functions", Operations Research Letters 12,
    1992; what lies beyond `largest` is folded back, so `largest` has to leave a negligible tail. Absolute
    accuracy only.
    """
    points = 1 << max(1, int(largest).bit_length())
    half = points // 2 + 1
    z = np.exp(2j * np.pi * np.arange(half) / points)
    values = np.empty(half, dtype=np.complex128)
    block = max(1, (1 << 20) // D0.size)
    for start in range(0, half, block):
        part = slice(start, start + block)
        exponential = expm((D0 + z[part, None, None] * D1) * t)
        values[part] = (theta @ exponential).sum(axis=1)
    counts = np.fft.irfft(np.conj(values), points)
    result: FloatArray = np.maximum(counts[: largest + 1], 0.0)
    return result


def _tail_bound(t: float, D0: FloatArray, D1: FloatArray, theta: FloatArray, tolerance: float) -> int:
    # Chernoff: P(N >= k) <= E z^N / z^k for every z > 1; the best of several z.
    best = math.inf
    for exponent in range(-4, 14):
        z = 1.0 + 2.0**-exponent
        A = D0 + z * D1
        growth = float(np.max(np.linalg.eigvals(A).real))
        value = float((theta @ expm((A - growth * np.eye(len(A))) * t)).sum())
        if value > 0 and np.isfinite(value):
            best = min(best, (growth * t + math.log(value) - math.log(tolerance)) / math.log(z))
    return max(1, math.ceil(best))
