# SPDX-License-Identifier: Apache-2.0
"""Finite Markov chains: classes, stationary vectors, fundamental and deviation matrices, without cancellation.

========  ===============================================================================================
Symbol    Meaning
========  ===============================================================================================
Q         generator of a continuous-time chain: rates off the diagonal, rows sum to 0
P         stochastic matrix of a discrete-time chain: rows sum to 1
pi        stationary vector: pi Q = 0 or pi P = pi, pi e = 1
e         column of ones
M         (-T)^-1, expected time in phase j before absorption when started in phase i
D#        deviation matrix: integral over t >= 0 of exp(Q t) - e pi
========  ===============================================================================================

Eliminations never subtract (Grassmann, Taksar and Heyman, "Regenerative analysis and steady state distributions
for Markov chains", Operations Research 33, 1985): pivots are sums of the remaining rates, so each entry of the
result keeps its leading digits however many orders of magnitude lie between the rates (O'Cinneide, "Entrywise
perturbation theory and error analysis for Markov chains", Numerische Mathematik 65, 1993).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from penstock.errors import InvalidProcessError
from penstock.markov import conditions
from penstock.markov.conditions import TOLERANCE, BoolArray, FloatArray, IntArray, listed


def generator(values: npt.ArrayLike, name: str = "Q", tolerance: float = TOLERANCE) -> FloatArray:
    """Give `values` as a valid generator, its diagonal minus the exact sum of the row's rates.

    Raises
    ------
    InvalidProcessError
        With the entry or row that is wrong.

    Examples
    --------
    >>> generator([[-1, 1], [2, -2]]).tolist()
    [[-1.0, 1.0], [2.0, -2.0]]
    """
    Q = conditions.as_square(name, values)
    scale = np.max(np.abs(Q), axis=1)
    conditions.rates_off_diagonal(name, Q, scale, tolerance)
    conditions.zero_row_sums(name, Q.sum(axis=1), scale, tolerance)
    np.fill_diagonal(Q, 0.0)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    return Q


def stochastic(values: npt.ArrayLike, name: str = "P", tolerance: float = TOLERANCE) -> FloatArray:
    """Give `values` as a stochastic matrix whose rows sum to one, or name the entry or row that is wrong.

    Examples
    --------
    >>> stochastic([[0.5, 0.5], [1, 0]]).tolist()
    [[0.5, 0.5], [1.0, 0.0]]
    """
    P = conditions.as_square(name, values)
    for i, row in enumerate(P):
        P[i] = conditions.distribution(f"row {i} of {name}", row, tolerance)
    return P


def recurrent_classes(rates: FloatArray) -> tuple[list[IntArray], IntArray]:
    """Give the closed classes of the chain with these rates or probabilities, and its transient states.

    Examples
    --------
    >>> closed, transient = recurrent_classes(np.array([[0., 1., 0.], [0., 0., 0.], [0., 0., 0.]]))
    >>> [c.tolist() for c in closed], transient.tolist()
    ([[1], [2]], [0])
    """
    count, label = connected_components(rates > 0, directed=True, connection="strong")
    i, j = np.nonzero(rates > 0)
    open_labels = np.unique(label[i[label[i] != label[j]]])
    closed = [np.flatnonzero(label == c).astype(np.int64) for c in range(count) if c not in set(open_labels.tolist())]
    closed.sort(key=lambda states: int(states[0]))
    return closed, np.flatnonzero(np.isin(label, open_labels)).astype(np.int64)


def reachable(links: BoolArray, start: Sequence[int] | BoolArray) -> BoolArray:
    """Give, for each state, whether it is in `start` (indices or a mask) or reached from there over `links`.

    Examples
    --------
    >>> reachable(np.array([[False, True], [False, False]]), [1]).tolist()
    [False, True]
    """
    reached = np.zeros(len(links), dtype=bool)
    reached[start] = True
    while True:
        wider = reached | links[reached].any(axis=0)
        if np.array_equal(wider, reached):
            return wider
        reached = wider


def require_irreducible(rates: FloatArray, what: str) -> None:
    """Refuse a chain in which some state cannot be reached from some other, saying which."""
    links = rates > 0
    if reachable(links, [0]).all() and reachable(links.T, [0]).all():
        return
    closed, transient = recurrent_classes(rates)
    if len(closed) > 1:
        classes = " and ".join(listed(states) for states in closed[:4])
        raise InvalidProcessError(
            f"{what} is reducible: it has {len(closed)} closed classes of phases {classes}, "
            "and where it ends depends on where it starts; give each class as a process of its own"
        )
    if transient.size:
        raise InvalidProcessError(
            f"{what} is reducible: the phases {listed(transient)} are left for ever; remove their rows and columns"
        )


def stationary(Q: npt.ArrayLike, *, tolerance: float = TOLERANCE) -> FloatArray:
    """Give the stationary vector of a generator; transient states have probability zero.

    Raises
    ------
    InvalidProcessError
        If `Q` is not a generator, or has several closed classes.

    Examples
    --------
    >>> stationary([[-1, 1], [1e-9, -1e-9]]).round(12).tolist()
    [1e-09, 0.999999999]
    """
    return _stationary(generator(Q, tolerance=tolerance), "the chain")


def stationary_of_stochastic(P: npt.ArrayLike, *, tolerance: float = TOLERANCE) -> FloatArray:
    """Give the stationary vector of a stochastic matrix; periodic chains are fine, transient states have zero.

    Examples
    --------
    >>> stationary_of_stochastic([[0, 1], [1, 0]]).tolist()
    [0.5, 0.5]
    """
    return _stationary(stochastic(P, tolerance=tolerance), "the chain")


def eliminate(rates: FloatArray) -> FloatArray:
    """Give the stationary vector of an irreducible chain from its rates off the diagonal (which is not read).

    This is the elimination of Grassmann, Taksar and Heyman (1985): states are removed from the last to the first,
    each outflow being the sum of what is left in its row.
    """
    A = np.array(rates, dtype=np.float64)
    n = len(A)
    for k in range(n - 1, 0, -1):
        row, column = A[k, :k], A[:k, k]
        column /= np.add.reduce(row)
        A[:k, :k] += column[:, None] * row
    pi = np.ones(n)
    for k in range(1, n):
        weight = pi[:k] @ A[:k, k]
        pi[k] = weight
        if weight > 1e150:  # keeps products of many large ratios from overflowing
            pi[: k + 1] /= weight
    normalised: FloatArray = pi / pi.sum()
    return normalised


def fundamental(rates: FloatArray, exits: FloatArray) -> FloatArray:
    """Give M = (-T)^-1, every entry to full relative accuracy.

    `rates` holds the rates between the transient phases (its diagonal is not read) and `exits` the rates of
    absorption; T has the former off the diagonal and minus the row's total on it.

    Gaussian elimination in which pivots are recomputed as sums (Alfa, Xue and Ye, "Accurate computation of the
    smallest eigenvalue of a diagonally dominant M-matrix", Mathematics of Computation 71, 2002): no subtraction.

    Examples
    --------
    >>> fundamental(np.array([[0., 2.], [0., 0.]]), np.array([0., 4.])).tolist()
    [[0.5, 0.25], [0.0, 0.25]]
    """
    n = len(exits)
    # Rates, exits and the right side in one array: an elimination is one operation, and its cost is that of a call.
    A = np.empty((n, 2 * n + 1))
    A[:, :n], A[:, n], A[:, n + 1 :] = rates, exits, np.eye(n)
    pivots = np.empty(n)
    for k in range(n):
        pivots[k] = np.add.reduce(A[k, k + 1 : n + 1])
        if not pivots[k] > 0:
            raise InvalidProcessError(f"phase {k} never leads to absorption: give it, or a phase it reaches, an exit")
        factor = A[k + 1 :, k, None] / pivots[k]
        A[k + 1 :, k + 1 : n + k + 2] += factor * A[k, k + 1 : n + k + 2]
    M = np.empty((n, n))
    for k in range(n - 1, -1, -1):
        M[k] = (A[k, n + 1 :] + A[k, k + 1 : n] @ M[k + 1 :]) / pivots[k]
    return M


def deviation(Q: FloatArray, pi: FloatArray) -> FloatArray:
    """Give the deviation matrix D# of an irreducible generator with stationary vector `pi`.

    From the inverse Y of -Q without its likeliest state, padded with zeros: D# = (I - e pi) Y (I - e pi) (Meyer,
    "The role of the group generalized inverse in the theory of finite Markov chains", SIAM Review 17, 1975).

    Examples
    --------
    >>> Q = np.array([[-1., 1.], [3., -3.]])
    >>> deviation(Q, np.array([0.75, 0.25])).tolist()
    [[0.0625, -0.0625], [-0.1875, 0.1875]]
    """
    n = len(pi)
    keep = np.delete(np.arange(n), int(np.argmax(pi)))
    Y = np.zeros((n, n))
    if keep.size:
        Y[np.ix_(keep, keep)] = fundamental(Q[np.ix_(keep, keep)], Q[keep, int(np.argmax(pi))])
    Y -= pi @ Y  # (I - e pi) Y
    Y -= np.outer(Y.sum(axis=1), pi)  # ... (I - e pi)
    return Y


def _stationary(chain: FloatArray, what: str) -> FloatArray:
    rates = chain.copy()
    np.fill_diagonal(rates, 0.0)
    closed, _ = recurrent_classes(rates)
    if len(closed) > 1:
        classes = " and ".join(listed(states) for states in closed[:4])
        raise InvalidProcessError(
            f"{what} is reducible: it has {len(closed)} closed classes of states {classes}, so its stationary "
            "vector is not unique; solve each class alone"
        )
    states = closed[0]
    pi = np.zeros(len(chain))
    pi[states] = eliminate(rates[np.ix_(states, states)])
    return pi
