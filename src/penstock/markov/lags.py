# SPDX-License-Identifier: Apache-2.0
"""Dependence between the inter-arrival times of a MAP: joint moments, autocorrelation, bicovariance, dispersion.

======  ======================================================================================
Symbol  Meaning
======  ======================================================================================
M, P    (-D0)^-1, and the embedded chain
pi      stationary vector of P
u       pi M - m pi, how a long interval shifts the phase that follows; u e = 0
v       M e - m e, how far the mean interval from each phase is off; pi v = 0
m       mean inter-arrival time, pi M e
======  ======================================================================================

rho_k = u P^k v / Var X (Casale, Zhang and Smirni 2010, Sec. 2, with the mean taken out of both vectors, so that
small autocorrelations are not the difference of two large numbers). Powers are applied by doubling: lags 1 to K
cost log2 K matrix products, and a single far lag as many matrix-vector products; no eigenvectors, which may be
defective.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError
from penstock.markov.conditions import FloatArray, IntArray

_DENSE = 4096
"""Largest lag up to which all powers are always formed together."""


def as_lags(name: str, values: npt.ArrayLike, least: int = 0) -> IntArray:
    """Give whole lags of at least `least`, or say which is not one."""
    given = np.asarray(values)
    with np.errstate(invalid="ignore"):  # what is not a number differs from its whole part, and is refused below
        whole = given.astype(np.int64)
    wrong = np.asarray((whole != given) | (whole < least))
    if wrong.any():
        raise InvalidProcessError(f"{name} = {given[wrong].flat[0]} must be a whole number of at least {least}")
    return whole


def joint_moment(pi: FloatArray, M: FloatArray, P: FloatArray, powers: Sequence[int], gaps: Sequence[int]) -> float:
    """Give a! b! ... pi M^a P^i M^b ... e."""
    if not powers or len(gaps) != len(powers) - 1:
        raise InvalidProcessError(
            f"{len(powers)} powers need {max(len(powers) - 1, 0)} gaps between them, not {len(gaps)}"
        )
    whole_powers, whole_gaps = as_lags("powers", powers), as_lags("gaps", gaps, least=1)
    row = pi
    for position, power in enumerate(whole_powers):
        if position:
            row = row @ np.linalg.matrix_power(P, int(whole_gaps[position - 1]))
        for k in range(int(power)):
            row = (k + 1) * (row @ M)
    return float(row.sum())


def autocorrelation(pi: FloatArray, M: FloatArray, P: FloatArray, at: IntArray) -> FloatArray:
    """Give rho_k for each lag k."""
    u, v, m = _centred(pi, M)
    variance = 2.0 * float(pi @ M @ M.sum(axis=1)) - m * m
    values = u @ _applied(P, v, at.ravel()) / variance
    return np.where(at == 0, 1.0, values.reshape(at.shape))


def bicovariance(
    pi: FloatArray, M: FloatArray, P: FloatArray, i: IntArray, j: IntArray, *, centred: bool
) -> FloatArray:
    """Give E[X_0 X_i X_(i+j)], each less the mean when `centred`."""
    i, j = np.broadcast_arrays(i, j)
    u, v, m = _centred(pi, M)
    # u P^i (M - m I) P^j v; without centring pi M P^i M P^j M e.
    first, last = (u, v) if centred else (pi @ M, M.sum(axis=1))
    middle = M - m * np.eye(len(pi)) if centred else M
    left = _applied(P.T, first, i.ravel())
    right = _applied(P, last, j.ravel())
    values: FloatArray = np.einsum("sk,sk->k", left, middle @ right)
    return values.reshape(i.shape)


def index_of_dispersion(pi: FloatArray, M: FloatArray, P: FloatArray, counts: IntArray) -> FloatArray:
    """Give Var(X_1 + ... + X_n) / (n m^2) for each n.

    c^2 (1 + 2 sum over k < n of (1 - k / n) rho_k) (Cox and Lewis, "The Statistical Analysis of Series of
    Events", 1966, Sec. 4.5). Far n use the closed sum P Z - P (I - P^n) Z^2 / n with Z = (I - P + e pi)^-1 on
    centred vectors.
    """
    u, v, m = _centred(pi, M)
    variance = 2.0 * float(pi @ M @ M.sum(axis=1)) - m * m
    flat = counts.ravel()
    sums = np.zeros(flat.size)
    near = flat <= _DENSE
    if near.any():
        lags = np.arange(1, int(flat[near].max()) + 1)
        covariances = u @ _applied(P, v, lags)
        plain, weighted = np.cumsum(covariances), np.cumsum(lags * covariances)
        n = flat[near]
        before = np.maximum(n - 2, 0)  # position of lag n - 1
        sums[near] = np.where(n > 1, plain[before] - weighted[before] / n, 0.0)
    if not near.all():
        Z = np.linalg.inv(np.eye(len(pi)) - P + pi)
        once, twice = P @ (Z @ v), P @ (Z @ (Z @ v))
        n = flat[~near]
        sums[~near] = u @ once - (u @ twice - u @ _applied(P, twice, n)) / n
    result: FloatArray = (variance + 2.0 * sums) / (m * m)
    return result.reshape(counts.shape)


def _centred(pi: FloatArray, M: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    row, column = pi @ M, M.sum(axis=1)
    m = float(row.sum())
    return row - m * pi, column - m, m


def _applied(P: FloatArray, v: FloatArray, powers: IntArray) -> FloatArray:
    """Give one column P^k v per k of `powers`."""
    furthest = int(powers.max(initial=0))
    if furthest <= max(_DENSE, 16 * powers.size):
        columns = v[:, None]
        step = P
        while columns.shape[1] <= furthest:
            columns = np.hstack([columns, step @ columns])
            step = step @ step
        return columns[:, powers]
    distinct, where = np.unique(powers, return_inverse=True)
    columns = np.tile(v[:, None], distinct.size)
    step = P
    for bit in range(math.ceil(math.log2(furthest + 1))):
        odd = (distinct >> bit) & 1 == 1
        columns[:, odd] = step @ columns[:, odd]
        step = step @ step
    return columns[:, where.ravel()]
