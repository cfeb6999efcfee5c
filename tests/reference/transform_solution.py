# SPDX-License-Identifier: Apache-2.0
"""The MAP/PH/1 queue by its transform, in many digits: nothing in common with the solver it is compared to.

The virtual waiting time has the transform w(s) = s y (s I + D0 + h(s) D1)^-1, with h that of the service time and
y e = 1 - rho (Lucantoni, "New results on the single server queue with a batch Markovian arrival process", Stochastic
Models 7, 1991, eq. 44). It is analytic for Re s > 0, so y is orthogonal to the null vectors at the n - 1 roots of the
determinant there. The sojourn time of a record has the transform w(s) D1 e h(s) / lam; its partial fractions at the n m
roots with Re s < 0 are its distribution. All roots are those of one polynomial, found to `DIGITS` digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import permutations
from typing import Any

import mpmath as mp

from penstock.markov import MAP, PH

DIGITS = 60

Poly = list[Any]
"""Coefficients from the constant on."""


@dataclass(frozen=True)
class TransformSolution:
    """Mean, variance, percentiles and decay of the sojourn time."""

    mean: float
    variance: float
    percentiles: list[float]
    decay_rate: float


def solve_by_transform(arrivals: MAP, service: PH, shares: list[float]) -> TransformSolution:
    """Solve a stable queue with a few phases whose roots are distinct."""
    with mp.workdps(DIGITS):
        return _solve(arrivals, service, shares)


def _solve(arrivals: MAP, service: PH, shares: list[float]) -> TransformSolution:
    n = arrivals.order
    unit = mp.mpf(service.mean)  # times in mean services, so that roots are of moderate size
    D1 = [[mp.mpf(v) * unit for v in row] for row in arrivals.D1.tolist()]
    D0 = [[mp.mpf(v) * unit for v in row] for row in arrivals.D0.tolist()]
    for i in range(n):
        D0[i][i] = -sum(D0[i][j] for j in range(n) if j != i) - sum(D1[i])
    above, below = _service_transform(service, unit)
    entries = [
        [_add(_times(_linear(D0[i][j], int(i == j)), below), [D1[i][j] * c for c in above]) for j in range(n)]
        for i in range(n)
    ]
    determinant = _trimmed(_determinant(entries))
    # The root at 0 is known; roots of very different size need many steps.
    others = mp.polyroots(determinant[1:], maxsteps=2000, extraprec=800, asc=True)
    others = sorted(others, key=mp.re, reverse=True)
    right, left = others[: n - 1], others[n - 1 :]
    assert all(mp.re(root) > 0 for root in right)
    assert all(mp.re(root) < 0 for root in left)
    theta = _null(mp.matrix([[D0[i][j] + D1[i][j] for i in range(n)] for j in range(n)]))
    theta = [value / sum(theta) for value in theta]
    lam = sum(theta[i] * sum(D1[i]) for i in range(n))
    mean_service = (_at(below, 1) * _at(above, 0) - _at(above, 1) * _at(below, 0)) / _at(below, 0) ** 2
    rows = [_null(mp.matrix([[_value(entry, root) for entry in row] for row in entries])) for root in right]
    y = mp.lu_solve(mp.matrix([*rows, [1] * n]), mp.matrix([0] * (n - 1) + [1 - lam * mean_service]))
    flow = [sum(row) for row in D1]
    slope = [k * c for k, c in enumerate(determinant)][1:]
    weights = []
    for root in left:
        here = mp.matrix([[_value(entry, root) for entry in row] for row in entries])
        lifted = sum(y[i] * _cofactor(here, j, i) * flow[j] for i in range(n) for j in range(n))
        # Partial fraction of the density, then integrated: P(sojourn > t) = sum of -residue / root exp(root t).
        weights.append(-lifted * _value(above, root) / (lam * _value(slope, root)))

    def tail(t: Any) -> Any:
        return mp.re(sum(w * mp.exp(root * t) for w, root in zip(weights, left, strict=True)))

    assert abs(tail(mp.mpf(0)) - 1) < mp.mpf(10) ** (-20)  # the fractions are all there
    mean = mp.re(sum(-w / root for w, root in zip(weights, left, strict=True)))
    square = mp.re(sum(2 * w / root**2 for w, root in zip(weights, left, strict=True)))
    times = [float(_crossing(tail, 1 - mp.mpf(share), mean) * unit) for share in shares]
    decay = -max(mp.re(root) for root in left)
    return TransformSolution(float(mean * unit), float((square - mean**2) * unit**2), times, float(decay / unit))


def _service_transform(service: PH, unit: Any) -> tuple[Poly, Poly]:
    """Numerator and denominator of alpha (s I - T)^-1 t."""
    m = service.order
    T = [[mp.mpf(v) * unit for v in row] for row in service.T.tolist()]
    exits = [mp.mpf(v) * unit for v in service.exits.tolist()]
    for j in range(m):
        T[j][j] = -sum(T[j][k] for k in range(m) if k != j) - exits[j]
    alpha = [mp.mpf(v) for v in service.alpha.tolist()]
    alpha = [v / sum(alpha) for v in alpha]
    # Faddeev and LeVerrier: the adjugate of s I - T and its determinant, power by power.
    matrix, eye = mp.matrix(T), mp.eye(m)
    below: Poly = [mp.mpf(0)] * m + [mp.mpf(1)]
    above: Poly = [mp.mpf(0)] * m
    adjugate = mp.zeros(m, m)
    for k in range(1, m + 1):
        adjugate = matrix * adjugate + below[m - k + 1] * eye
        below[m - k] = -sum((matrix * adjugate)[j, j] for j in range(m)) / k
        above[m - k] = sum(alpha[i] * adjugate[i, j] * exits[j] for i in range(m) for j in range(m))
    return above, below


def _crossing(tail: Any, level: Any, mean: Any) -> Any:
    low, high = mp.mpf(0), mean
    while tail(high) > level:
        low, high = high, 2 * high
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > level else (low, middle)
    return high


def _null(matrix: Any) -> list[Any]:
    """A vector v with matrix v = 0, its entries the cofactors of the row that has the largest."""
    n = matrix.rows
    candidates = [[_cofactor(matrix, i, j) for j in range(n)] for i in range(n)]
    best = max(candidates, key=lambda row: max(abs(value) for value in row))
    scale = max(best, key=abs)
    return [value / scale for value in best]


def _cofactor(matrix: Any, i: int, j: int) -> Any:
    n = matrix.rows
    if n == 1:
        return mp.mpf(1)
    kept = [[matrix[a, b] for b in range(n) if b != j] for a in range(n) if a != i]
    return (-1) ** (i + j) * _determinant([[[value] for value in row] for row in kept])[0]


def _determinant(entries: list[list[Poly]]) -> Poly:
    total: Poly = [mp.mpf(0)]
    for order in permutations(range(len(entries))):
        inversions = sum(order[a] > order[b] for b in range(len(order)) for a in range(b))
        product = reduce(_times, (entries[i][j] for i, j in enumerate(order)))
        total = _add(total, [(-1) ** inversions * c for c in product])
    return total


def _linear(constant: Any, factor: int) -> Poly:
    return [constant, mp.mpf(factor)]


def _times(a: Poly, b: Poly) -> Poly:
    product: Poly = [mp.mpf(0)] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return product


def _add(a: Poly, b: Poly) -> Poly:
    size = max(len(a), len(b))
    return [_at(a, k) + _at(b, k) for k in range(size)]


def _at(a: Poly, k: int) -> Any:
    return a[k] if k < len(a) else mp.mpf(0)


def _trimmed(a: Poly) -> Poly:
    while a[-1] == 0:
        a = a[:-1]
    return a


def _value(a: Poly, s: Any) -> Any:
    return reduce(lambda total, c: total * s + c, reversed(a))
