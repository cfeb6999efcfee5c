# SPDX-License-Identifier: Apache-2.0
"""A Markov-modulated fluid that rises or falls at unit slope: where it is when it first comes back.

=========  ================================================================================================
Symbol     Meaning
=========  ================================================================================================
Q          generator of the phases, those in which the fluid falls first, then those in which it rises
Psi        falling phase in which the fluid, now rising, first comes back to its present level (rows sum to 1
           if it always does)
gamma      largest rate at which a phase is left
S          (gamma I - Q)^-1 (gamma I + Q), stochastic; its blocks E, G, H, F go from falling to falling, falling
           to rising, rising to falling and rising to rising phases
=========  ================================================================================================

Psi is the smallest solution of Q_rr Psi + Psi Q_ff + Psi Q_fr Psi + Q_rf = 0. It is the limit of H under the doubling
of the blocks of S (Guo, Lin and Xu, "A structure-preserving doubling algorithm for nonsymmetric algebraic Riccati
equation", Numerische Mathematik 103, 2006). Every block stays non-negative and every row sums to one; rows are brought
back to that after each step, so that rare changes of phase keep their weight (after Nguyen and Poloni, "Componentwise
accurate fluid queue computations using doubling algorithms", Numerische Mathematik 130, 2015). Steps double the time
looked at: how near the fluid is to rising for ever costs a logarithm.

All functions take stacks of fluids along the first axis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg.lapack import dgesv

from penstock.errors import ConvergenceError
from penstock.markov.conditions import FloatArray, frozen

MOST_STEPS = 80
_LEFT, _LAST = 1e-17, 3e-8
"""What may still rise at the end; and one step before it, where it falls by squares (near saturation it is halved)."""

_MOST_FOURTH_POWERS = 540
"""Fourth powers after which phases settle that change as rarely as a double can say, 2^-1074 per look."""

_WHOLE = 24
"""Order of matrices up to which LAPACK inverts them as quickly as products of their halves do."""

RESIDUAL = 1e-10
"""Largest residual of the equation for Psi, relative to each phase's rate, that counts as solved."""


@dataclass(frozen=True)
class FirstReturn:
    """Psi of a stack of fluids, the phases at level 0, and how well the equation is solved.

    `resting` is the stationary vector of Q_ff + Q_fr Psi: the phases of a fluid held at level 0 while it would fall.
    `residuals` are what is left of the equation for Psi, relative to each phase's rate.
    """

    Psi: FloatArray
    resting: FloatArray
    residuals: FloatArray
    steps: int


def first_return(Q: FloatArray, falling: int) -> FirstReturn:
    """Give Psi for a stack of generators whose first `falling` phases let the fluid fall.

    The fluid must fall in the mean, so that it always comes back.

    Raises
    ------
    ConvergenceError
        If the equation was not solved to `RESIDUAL`.

    Examples
    --------
    >>> Q = np.array([[[-1.0, 1.0], [2.0, -2.0]]])  # M/M/1: rises by a service, falls during an interval
    >>> first_return(Q, 1).Psi.tolist()
    [[[1.0]]]
    """
    return returns(_looked_at_once(Q), falling, lambda Psi: _residuals(Q, falling, Psi))


def returns(S: FloatArray, falling: int, residuals: Callable[[FloatArray], FloatArray]) -> FirstReturn:
    """Give Psi from a stack of S, which is overwritten; `residuals` gives what Psi leaves of its equation.

    For callers whose generator has a structure that makes S and the residual cheaper than `first_return` finds them.

    Raises
    ------
    ConvergenceError
        If the equation was not solved to `RESIDUAL`.
    """
    try:
        return _doubled(S, falling, residuals)
    except np.linalg.LinAlgError as error:
        raise ConvergenceError("the fluid hardly ever falls", iterations=MOST_STEPS, residual=np.inf) from error


def _doubled(S: FloatArray, f: int, residuals: Callable[[FloatArray], FloatArray]) -> FirstReturn:
    eye = identity(f)
    # [[G H, G F], [F H, F F]] is `products`; with X = (I - G H)^-1 [E, G F] the new blocks are
    # [[0, G], [H, F F]] + [E; F H] X. Blocks are views of arrays that each step writes anew.
    products, change = np.empty_like(S), np.empty_like(S)
    E, F = S[:, :f, :f], S[:, f:, f:]
    to_rising, from_rising = S[:, :, f:], S[:, f:, :]
    GH, FF = products[:, :f, :f], products[:, f:, f:]
    first, top = products[:, :, :f], products[:, :f, :]
    steps, rising = 0, 1.0
    while steps < MOST_STEPS:
        before, rising = rising, float(np.maximum.reduce(F, axis=None))
        if rising <= _LEFT or rising <= min(_LAST, 1e-3 * before):
            break
        np.matmul(to_rising, from_rising, out=products)
        turn = eye - GH
        GH[...] = E
        E[...] = 0.0
        F[...] = FF
        S += np.matmul(first, _solved(turn, top), out=change)
        if steps % 2:  # the sum of a row doubles its rounding with each step
            _rows_to_one(S)
        steps += 1
    # One last step, of H alone: what would still rise after it is rounding, as it falls by squares by now.
    H = S[:, f:, :f]
    met = to_rising @ H
    Psi = H + met[:, f:] @ _solved(eye - met[:, :f], E)
    _rows_to_one(Psi)
    left = residuals(Psi)
    worst = float(left.max())
    if not worst <= RESIDUAL or rising > _LAST:
        raise ConvergenceError("the first return of the fluid was not found", iterations=steps, residual=worst)
    return FirstReturn(Psi, _resting(E, S[:, :f, f:] @ Psi), left, steps + 1)


def _looked_at_once(Q: FloatArray) -> FloatArray:
    """Give (gamma I - Q)^-1 (gamma I + Q) = 2 (I - Q / gamma)^-1 - I."""
    eye = identity(Q.shape[1])
    gamma = -np.diagonal(Q, axis1=1, axis2=2).min(axis=1)[:, None, None]
    S: FloatArray = inverse(eye - Q / gamma)
    S *= 2.0
    S -= eye
    return as_stochastic(S)


def as_stochastic(S: FloatArray) -> FloatArray:
    """Give S, changed in place, without the negative entries and row sums off one that rounding leaves."""
    np.maximum(S, 0.0, out=S)
    _rows_to_one(S)
    return S


def _rows_to_one(S: FloatArray) -> None:
    S *= 1.0 / (S @ _ones(S.shape[2]))  # half the time of a sum along the rows and a division


def _resting(E: FloatArray, returns: FloatArray) -> FloatArray:
    """Give the limit of the phases at level 0, from E after 2^k looks and the returns G Psi to level 0 before."""
    # E = (I - G Psi) P^(2^k), P being the chain at level 0 seen once per look: squared until its rows agree.
    P = _solved(identity(E.shape[1]) - returns, E)
    for _ in range(_MOST_FOURTH_POWERS):
        P = P @ P
        _rows_to_one(P)
        spread = float((np.maximum.reduce(P, axis=1) - np.minimum.reduce(P, axis=1)).max())
        P = P @ P
        if spread <= 1e-10:  # its square is rounding
            resting = np.add.reduce(P, axis=1)
            return np.asarray(resting / np.add.reduce(resting, axis=1, keepdims=True))
    raise ConvergenceError("the phases at level 0 do not settle", iterations=_MOST_FOURTH_POWERS, residual=spread)


def _solved(A: FloatArray, B: FloatArray) -> FloatArray:
    """Give A^-1 B for stacks; a stack of one, the commonest, goes to LAPACK without detour."""
    if len(A) > 1:
        return np.asarray(inverse(A) @ B)
    return _solved_one(A[0], B[0])[None]


def inverse(A: FloatArray) -> FloatArray:
    """Give A^-1 for stacks of diagonally dominant M-matrices.

    Large ones are eliminated by halves, in products of stacks: such matrices need no pivots.

    Raises
    ------
    LinAlgError
        If one of them is singular.
    """
    if len(A) == 1:
        return _solved_one(A[0], identity(A.shape[1]))[None]
    if A.shape[1] <= _WHOLE:
        return np.asarray(np.linalg.inv(A))
    h = A.shape[1] // 2
    first = inverse(A[:, :h, :h])
    across, back = first @ A[:, :h, h:], A[:, h:, :h] @ first
    rest = inverse(A[:, h:, h:] - A[:, h:, :h] @ across)
    X = np.empty_like(A)
    np.negative(across @ rest, out=X[:, :h, h:])
    np.negative(rest @ back, out=X[:, h:, :h])
    np.subtract(first, across @ X[:, h:, :h], out=X[:, :h, :h])
    X[:, h:, h:] = rest
    return X


def _solved_one(A: FloatArray, B: FloatArray) -> FloatArray:
    _, _, X, info = dgesv(A, B)
    if info:
        raise np.linalg.LinAlgError("singular matrix")
    return np.asarray(X)


@lru_cache(maxsize=64)
def _ones(size: int) -> FloatArray:
    return frozen(np.ones((size, 1)))


@lru_cache(maxsize=64)
def identity(size: int) -> FloatArray:
    """Give the identity matrix, made once."""
    return frozen(np.eye(size))


def _residuals(Q: FloatArray, f: int, Psi: FloatArray) -> FloatArray:
    rates = -np.diagonal(Q, axis1=1, axis2=2)
    fastest = np.maximum(rates[:, f:], rates[:, :f].max(axis=1)[:, None])
    rest = Q[:, f:, :f] + Q[:, f:, f:] @ Psi + Psi @ (Q[:, :f, :f] + Q[:, :f, f:] @ Psi)
    return np.asarray((np.abs(rest).sum(axis=2) / fastest).max(axis=1))
