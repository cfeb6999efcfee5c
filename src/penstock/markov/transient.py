# SPDX-License-Identifier: Apache-2.0
"""Where an absorbing chain is at many instants at once, accurate in both tails, for stiff chains too.

======  ======================================================================================
Symbol  Meaning
======  ======================================================================================
T, t    subgenerator of the transient phases, and their rates of absorption
G       [[T, t], [0, 0]], the generator with the absorbing state as its last
q       uniformisation rate, the largest rate at which a phase is left
P       I + G / q, stochastic
======  ======================================================================================

An instant x is written as (k + r) / q with k whole and 0 <= r < 1. The fraction is a short Poisson sum of powers
of P (Jensen's uniformisation), and the whole part a product of exp(G 2^j / q) over the binary digits of k. All
terms are non-negative, so nothing cancels, and rows are brought back to sum one after each squaring, which keeps
the slow modes of a stiff chain from drifting. The cost grows with the logarithm of q x, where plain
uniformisation grows with q x.
"""

from __future__ import annotations

import numpy as np

from penstock.markov.conditions import FloatArray

_BLOCK = 1 << 15
_LARGEST_STEP = float(1 << 62)


def transition_matrix(Q: FloatArray, t: float) -> FloatArray:
    """Give exp(Q t) for a generator: non-negative, rows summing to one, stiff or not.

    Examples
    --------
    >>> transition_matrix(np.array([[-1e9, 1e9], [1.0, -1.0]]), 1e3).round(6).tolist()
    [[0.0, 1.0], [0.0, 1.0]]
    """
    q = float(np.max(-Q.diagonal()))
    if q * t == 0:
        return np.eye(len(Q))
    halvings = max(0, int(np.ceil(np.log2(q * t))))
    P = np.eye(len(Q)) + Q / q
    result = _poisson_sum(np.maximum(P, 0.0), q * t / 2.0**halvings, 20 + len(Q))
    for _ in range(halvings):
        result = _normalised(result @ result)
    return result


class AbsorbingChain:
    """An absorbing chain with a fixed start, ready to be asked for its state probabilities."""

    def __init__(self, alpha: FloatArray, T: FloatArray, t: FloatArray) -> None:
        n = len(alpha)
        self._q = float(np.max(-T.diagonal()))
        P = np.zeros((n + 1, n + 1))
        P[:n, :n] = T / self._q
        P[:n, n] = t / self._q
        P[n, n] = 1.0
        off = P[:n, :].sum(axis=1) - P[:n, :n].diagonal()
        P[np.arange(n), np.arange(n)] = np.maximum(1.0 - off, 0.0)
        # Twenty terms bring a Poisson sum of mean one below rounding; one more per phase reaches the end of the
        # longest chain of phases, so that the first non-zero term of a small probability is never cut off.
        self._terms = 20 + n
        vectors = np.empty((self._terms, n + 1))
        vectors[0] = np.append(alpha, 0.0)
        for m in range(1, self._terms):
            vectors[m] = vectors[m - 1] @ P
        self._vectors = vectors
        self._powers = [_poisson_sum(P, 1.0, self._terms)]

    def probabilities(self, times: FloatArray) -> FloatArray:
        """Give one row per instant: the probability of each phase, and of absorption last."""
        times = np.asarray(times, dtype=np.float64).ravel()
        rows = np.empty((times.size, self._vectors.shape[1]))
        for start in range(0, times.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            rows[block] = self._block(times[block])
        return rows

    def _block(self, times: FloatArray) -> FloatArray:
        steps = np.minimum(times * self._q, _LARGEST_STEP)
        whole = np.floor(steps)
        fraction = steps - whole
        weights = np.empty((times.size, self._terms))
        weights[:, 0] = np.exp(-fraction)
        for m in range(1, self._terms):
            weights[:, m] = weights[:, m - 1] * (fraction / m)
        rows = weights @ self._vectors
        digits = whole.astype(np.uint64)
        level = 0
        while digits.any():
            odd = (digits & np.uint64(1)).astype(bool)
            if odd.any():
                rows[odd] = rows[odd] @ self._power(level)
            digits >>= np.uint64(1)
            level += 1
        return _normalised(rows)

    def _power(self, level: int) -> FloatArray:
        while len(self._powers) <= level:
            last = self._powers[-1]
            self._powers.append(_normalised(last @ last))
        return self._powers[level]


def _poisson_sum(P: FloatArray, mean: float, terms: int) -> FloatArray:
    total = np.zeros_like(P)
    term = np.eye(len(P)) * np.exp(-mean)
    for m in range(1, terms + 1):
        total += term
        term = term @ P * (mean / m)
    return _normalised(total)


def _normalised(rows: FloatArray) -> FloatArray:
    normalised: FloatArray = rows / rows.sum(axis=1, keepdims=True)
    return normalised
