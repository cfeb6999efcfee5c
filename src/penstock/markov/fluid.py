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

from dataclasses import dataclass

import numpy as np

from penstock.errors import ConvergenceError
from penstock.markov.conditions import FloatArray

MOST_STEPS = 80
_LEFT = 1e-16

RESIDUAL = 1e-10
"""Largest residual of the equation for Psi, relative to each phase's rate, that counts as solved."""


@dataclass(frozen=True)
class FirstReturn:
    """Psi of a stack of fluids, what is left of its equation relative to each phase's rate, and the steps taken."""

    Psi: FloatArray
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
    >>> Q = np.array([[[-1.0, 1.0], [2.0, -2.0]]])  # M/M/1: rises at the end of an interval, falls after a service
    >>> first_return(Q, 1).Psi.tolist()
    [[[1.0]]]
    """
    E, G, H, F = _blocks(Q, falling)
    eye = np.eye(falling)
    steps = 0
    # What still rises after 2^k looks: its square comes next, so that below 1e-8 one more step ends it.
    while (rising := float(F.sum(axis=2).max())) > _LEFT and steps < MOST_STEPS:
        turn = np.linalg.inv(eye - G @ H)
        FH, GF = F @ H, G @ F
        back = turn @ GF
        H = H + FH @ (turn @ E)
        G = G + E @ back
        E = E @ (turn @ E)
        F = F @ F + FH @ back
        _normalise(E, G)
        _normalise(H, F)
        steps += 1
    Psi = H / H.sum(axis=2, keepdims=True)
    residuals = _residuals(Q, falling, Psi)
    worst = float(residuals.max())
    if not worst <= RESIDUAL or rising > 1e-8:
        raise ConvergenceError("the first return of the fluid was not found", iterations=steps, residual=worst)
    return FirstReturn(Psi, residuals, steps)


def _blocks(Q: FloatArray, f: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    size = Q.shape[1]
    eye = np.eye(size)
    gamma = -np.diagonal(Q, axis1=1, axis2=2).min(axis=1)[:, None, None]
    # (gamma I - Q)^-1 (gamma I + Q) = 2 (I - Q / gamma)^-1 - I
    S = 2.0 * np.linalg.inv(eye - Q / gamma) - eye
    np.maximum(S, 0.0, out=S)
    S /= S.sum(axis=2, keepdims=True)
    E, G, H, F = S[:, :f, :f], S[:, :f, f:], S[:, f:, :f], S[:, f:, f:]
    return E.copy(), G.copy(), H.copy(), F.copy()


def _normalise(left: FloatArray, right: FloatArray) -> None:
    total = left.sum(axis=2, keepdims=True) + right.sum(axis=2, keepdims=True)
    left /= total
    right /= total


def _residuals(Q: FloatArray, f: int, Psi: FloatArray) -> FloatArray:
    rising = Q[:, f:, f:]
    rate = -np.diagonal(rising, axis1=1, axis2=2)
    fastest = np.maximum(rate, -np.diagonal(Q[:, :f, :f], axis1=1, axis2=2).min(axis=1)[:, None])
    rest = Q[:, f:, :f] + rising @ Psi + Psi @ (Q[:, :f, :f] + Q[:, :f, f:] @ Psi)
    return np.asarray((np.abs(rest).sum(axis=2) / fastest).max(axis=1))
