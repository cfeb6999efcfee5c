# SPDX-License-Identifier: Apache-2.0
"""Many small least-squares problems with weights of at least zero, solved at once.

A problem with p weights has 2^p - 1 sets of weights that may be above zero. For three or four weights all of them are
tried: the best that is feasible is the answer (the conditions of Karush, Kuhn and Tucker, for a strictly convex
problem). Each set is one Cholesky factorisation, done for all problems in the same few array operations.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from penstock.ports import FloatArray

MOST_WEIGHTS = 6
"""Beyond this an active-set method is faster than trying all sets."""


def solve_small_nnls(gram: FloatArray, moments: FloatArray) -> FloatArray:
    """Return the weights of at least zero that minimise ``w' G w / 2 - r' w`` in each problem.

    Parameters
    ----------
    gram
        ``G = X' X`` of each problem, positive definite: an array of p x p x problems.
    moments
        ``r = X' y``, for one or more right-hand sides of the same problem: p x sides x problems.

    Returns
    -------
    FloatArray
        The weights: p x sides x problems.

    Examples
    --------
    >>> gram = np.array([[2.0, 0.0], [0.0, 1.0]])[:, :, None]
    >>> solve_small_nnls(gram, np.array([[4.0], [-3.0]])[:, :, None]).ravel().tolist()
    [2.0, 0.0]
    """
    size = gram.shape[0]
    if not 1 <= size <= MOST_WEIGHTS:
        raise ValueError(f"{size} weights: from 1 to {MOST_WEIGHTS} can be solved by trying all sets")
    best = np.zeros(moments.shape[1:])  # the value where all weights are zero
    weights = np.zeros_like(moments)
    for count in range(1, size + 1):
        for kept in combinations(range(size), count):
            found = _unconstrained(gram, moments, kept)
            # At the minimum over these weights w' G w = r' w, so that half of -r' w is left.
            value = -0.5 * sum(moments[i] * found[at] for at, i in enumerate(kept))
            is_better = (value < best) & (found >= 0.0).all(axis=0)
            best = np.where(is_better, value, best)
            for i in range(size):
                of_set = found[kept.index(i)] if i in kept else 0.0
                weights[i] = np.where(is_better, of_set, weights[i])
    return weights


def _unconstrained(gram: FloatArray, moments: FloatArray, kept: tuple[int, ...]) -> FloatArray:
    """The minimum over these weights alone: Cholesky's method, each step for all problems."""
    count = len(kept)
    lower: dict[tuple[int, int], FloatArray] = {}
    half: list[FloatArray] = []
    for i in range(count):
        for j in range(i):
            rest = gram[kept[i], kept[j]] - sum(lower[i, k] * lower[j, k] for k in range(j))
            lower[i, j] = rest / lower[j, j]
        square = gram[kept[i], kept[i]] - sum(lower[i, k] ** 2 for k in range(i))
        lower[i, i] = np.sqrt(np.maximum(square, np.finfo(float).tiny))
        half.append((moments[kept[i]] - sum(lower[i, k] * half[k] for k in range(i))) / lower[i, i])
    answer: list[FloatArray] = [np.zeros(0)] * count
    for i in reversed(range(count)):
        answer[i] = (half[i] - sum(lower[k, i] * answer[k] for k in range(i + 1, count))) / lower[i, i]
    return np.array(answer)
