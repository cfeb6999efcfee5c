# SPDX-License-Identifier: Apache-2.0
"""Stationary vectors of chains that move one level at a time, by eliminating level after level from the top.

========  ==========================================================================================
Symbol    Meaning
========  ==========================================================================================
L_k       rates within level k, its diagonal minus the rate of leaving
U_k, B_k  rates from level k to k + 1, and from k to k - 1
S_k       L_k + U_k (-S_(k+1))^-1 B_(k+1): level k watched only while the chain is not above it
pi_k      stationary vector of level k: pi_(k+1) = pi_k U_k (-S_(k+1))^-1, pi_0 S_0 = 0
G         where the levels repeat without end: phase after the first passage one level down
========  ==========================================================================================

Gaver, Jacobs and Latouche, "Finite birth-and-death models in randomly changing environments", Advances in Applied
Probability 16, 1984. A chain whose top level repeats without end is closed by L + U G in that level, G coming from
`markov.quasi_birth_death`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.markov.conditions import FloatArray
from penstock.markov.ctmc import eliminate


def kron(A: FloatArray, B: FloatArray) -> FloatArray:
    """Give the Kronecker product; numpy's own forgets the type of its entries."""
    return np.asarray(np.kron(A, B), dtype=np.float64)


def stationary_levels(
    local: Sequence[FloatArray], up: Sequence[FloatArray], down: Sequence[FloatArray]
) -> list[FloatArray]:
    """Give the stationary vector of each level of a finite chain, not normalised.

    Parameters
    ----------
    local
        L_0 .. L_K.
    up
        U_0 .. U_(K-1).
    down
        B_1 .. B_K.

    Examples
    --------
    >>> up, down = np.array([[1.0]]), np.array([[2.0]])
    >>> [p.tolist() for p in stationary_levels([-up, -up - down, -down], [up, up], [down, down])]
    [[1.0], [0.5], [0.25]]
    """
    watched = local[-1]
    steps: list[FloatArray] = []
    for k in range(len(up) - 1, -1, -1):
        step = np.linalg.solve(-watched.T, up[k].T).T  # U_k (-S_(k+1))^-1
        steps.append(np.maximum(step, 0.0))
        watched = local[k] + steps[-1] @ down[k]
    bottom = watched.copy()
    np.fill_diagonal(bottom, 0.0)
    vectors = [eliminate(np.maximum(bottom, 0.0))]
    for step in reversed(steps):
        vectors.append(vectors[-1] @ step)
    return vectors
