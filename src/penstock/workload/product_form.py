# SPDX-License-Identifier: Apache-2.0
"""Kronecker compositions of small MAPs: descriptors in closed form, with their derivatives, for many at once.

A component is a MAP of two phases without hidden transitions. After each arrival the phase is kept with weight gamma,
else drawn anew, with probability p for the second. Times are exponential with means x0 and x1 = r x0, mean 1 overall.
At most one further component can have hidden transitions, as composition requires: `base`, a sum of exponential times
without memory, less variable than one.

=========  ==============================================================================================
Symbol     Meaning
=========  ==============================================================================================
theta      per start: logit p for each component, log r for each, logit gamma for each; for a base one more
V, K       variance and third central moment of a component's mean time, over its phases
c_k        V gamma^k, so that E[X_0 X_k] = product of (1 + c_k) over the components
b2, b3     m_2 / 2! and m_3 / 3! of the base; 1 without
=========  ==============================================================================================

Every theta is a valid process: nothing needs repair afterwards, and the scored process is the composed one.
Casale, Zhang and Smirni, "KPC-Toolbox: best recipes for automatic trace fitting using MAPs", 2010, Sec. 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.least_squares import onto_constraints
from penstock.workload.targets import M2_TOLERANCE, M3_TOLERANCE, Targets

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """A composition: the number of two-phase components, and of phases of the base (0: none)."""

    components: int
    base: int = 0

    @property
    def order(self) -> int:
        """Number of phases of the composition."""
        return int(2**self.components * max(self.base, 1))

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return 3 * self.components + (1 if self.base else 0)


def bounds(shape: Shape, n: int) -> tuple[FloatArray, FloatArray]:
    """Return the bounds of theta for a window of n: no component remembers longer than a twentieth of the window."""
    j = shape.components
    slowest = np.log(max(n / 20.0, 10.0))
    low = np.concatenate([np.full(j, -9.0), np.full(j, -9.0), np.full(j, -4.0)])
    high = np.concatenate([np.full(j, 9.0), np.full(j, 9.0), np.full(j, slowest)])
    if shape.base:
        low, high = np.append(low, -6.0), np.append(high, 6.0)
    return low, high


def starts(shape: Shape, targets: Targets, count: int, rng: np.random.Generator) -> FloatArray:
    """Return `count` starting points: decays spread over the window's scales, bursts of moderate size."""
    j = shape.components
    slowest = np.log(max(targets.n / 40.0, 10.0))
    theta = np.empty((count, shape.parameters))
    theta[:, :j] = rng.normal(-2.0, 1.5, (count, j))
    theta[:, j : 2 * j] = rng.normal(2.5, 1.2, (count, j))
    theta[:, 2 * j : 3 * j] = np.sort(rng.uniform(-1.0, slowest, (count, j)), axis=1)
    if shape.base:
        theta[:, -1] = rng.normal(0.0, 2.0, count)
    return theta


@dataclass(frozen=True, eq=False)
class _Parts:
    """Components of a stack of starts, shapes (starts, components), with derivatives by logit p and log r."""

    p: FloatArray
    x0: FloatArray
    x1: FloatArray
    gamma: FloatArray
    e2: FloatArray
    e3: FloatArray
    de2: FloatArray  # (2, starts, components)
    de3: FloatArray
    b2: FloatArray
    b3: FloatArray
    db2: FloatArray
    db3: FloatArray
    w: FloatArray


def _sigmoid(z: FloatArray) -> FloatArray:
    value: FloatArray = 1.0 / (1.0 + np.exp(-z))
    return value


def _parts(theta: FloatArray, shape: Shape) -> _Parts:
    j = shape.components
    p = _sigmoid(theta[:, :j])
    q = 1.0 - p
    r = np.exp(theta[:, j : 2 * j])
    gamma = _sigmoid(theta[:, 2 * j : 3 * j])
    mean = q + p * r
    dp = p * q
    s2, s3 = (q + p * r**2) / mean**2, (q + p * r**3) / mean**3
    slope_a, slope_b = (r - 1.0) * dp / mean, p * r / mean
    de2 = np.stack([dp * (r**2 - 1.0) / mean**2 - 2.0 * s2 * slope_a, 2.0 * p * r**2 / mean**2 - 2.0 * s2 * slope_b])
    de3 = np.stack([dp * (r**3 - 1.0) / mean**3 - 3.0 * s3 * slope_a, 3.0 * p * r**3 / mean**3 - 3.0 * s3 * slope_b])
    k = shape.base
    if k:
        # Phases of means w, and (1 - w) / (k - 1) each: complete symmetric sums from power sums.
        share = _sigmoid(theta[:, -1])
        w = share / k
        dw = w * (1.0 - share)
        rest = 1.0 - w
        f2, f3 = w**2 + rest**2 / (k - 1), w**3 + rest**3 / (k - 1) ** 2
        df2, df3 = 2.0 * w - 2.0 * rest / (k - 1), 3.0 * w**2 - 3.0 * rest**2 / (k - 1) ** 2
        b2, b3 = (1.0 + f2) / 2.0, (1.0 + 3.0 * f2 + 2.0 * f3) / 6.0
        db2, db3 = df2 * dw / 2.0, (3.0 * df2 + 2.0 * df3) * dw / 6.0
    else:
        w = np.zeros(len(theta))
        b2 = b3 = np.ones(len(theta))
        db2 = db3 = w
    return _Parts(p, 1.0 / mean, r / mean, gamma, s2, s3, de2, de3, b2, b3, db2, db3, w)


def invariants(theta: FloatArray, shape: Shape) -> FloatArray:
    """Return numbers that are equal for parameters of the same process, in any order of components and phases."""
    parts = _parts(theta, shape)
    spread = np.log(parts.e2)
    third = np.sign(parts.e3 - 3.0 * parts.e2 + 2.0) * np.log(parts.e3)
    # A component that hardly varies has no meaningful decay.
    decay = parts.gamma * np.minimum(1.0, 10.0 * spread)
    order = np.argsort(decay, axis=1)
    sorted_ = [np.take_along_axis(values, order, axis=1) for values in (decay, spread, third)]
    return np.concatenate([*sorted_, parts.w[:, None]], axis=1)


def evaluate(theta: FloatArray, shape: Shape, targets: Targets) -> tuple[FloatArray, FloatArray]:
    """Return the weighted residuals of each start against the targets (without queues), and their derivatives."""
    parts = _parts(theta, shape)
    lags = targets.lags.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        (m2, m3), (dlog2, dlog3) = _moments(parts, shape)
        variance = parts.e2 - 1.0
        powers = np.exp(np.log(parts.gamma)[:, :, None] * lags)
        joint, djoint = _joint(variance[:, :, None] * powers, powers, lags, parts, shape)
        scv = m2 - 1.0
        dscv = dlog2 * m2[:, None]
        rho = joint / scv[:, None]
        drho = (djoint - rho[:, :, None] * dscv[:, None, :]) / scv[:, None, None]
        idi = scv[:, None] + 2.0 * joint @ targets.idi_map.T
        didi = dscv[:, None, :] + 2.0 * np.einsum("cl,slp->scp", targets.idi_map, djoint)
        triple, dtriple = _triples(parts, shape, targets)
        residuals = np.concatenate(
            [
                np.log(m2 / targets.m2)[:, None] / M2_TOLERANCE,
                np.log(m3 / targets.m3)[:, None] / M3_TOLERANCE,
                (rho - targets.acf) * targets.acf_weights,
                np.log(idi / targets.idi) * targets.idi_weights,
                (triple - targets.bicovariances) * targets.bicovariance_weights,
            ],
            axis=1,
        )
        slopes = np.concatenate(
            [
                dlog2[:, None, :] / M2_TOLERANCE,
                dlog3[:, None, :] / M3_TOLERANCE,
                drho * targets.acf_weights[:, None],
                didi / idi[:, :, None] * targets.idi_weights[:, None],
                dtriple * targets.bicovariance_weights[:, None],
            ],
            axis=1,
        )
    return residuals, np.where(np.isfinite(slopes), slopes, 0.0)


def on_moments(theta: FloatArray, shape: Shape, targets: Targets, rounds: int = 2) -> FloatArray:
    """Return the nearest parameters that match the targets' second and third moment, after `rounds` steps."""

    def constraints(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            (m2, m3), slopes = _moments(_parts(rows, shape), shape)
            values, changes = np.log(np.array([m2 / targets.m2, m3 / targets.m3])).T, np.array(slopes)
        fine = np.isfinite(values).all(axis=1) & np.isfinite(changes).all(axis=(0, 2))
        return np.where(fine[:, None], values, 0.0), np.where(fine[:, None], changes, 0.0).transpose(1, 0, 2)

    return onto_constraints(theta, constraints, rounds)


def _moments(parts: _Parts, shape: Shape) -> tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]]:
    """Return m2 and m3, and the derivatives of their logarithms (starts, parameters)."""
    count, j = parts.p.shape
    m2, m3 = 2.0 * parts.b2 * parts.e2.prod(axis=1), 6.0 * parts.b3 * parts.e3.prod(axis=1)
    dlog2, dlog3 = np.zeros((count, shape.parameters)), np.zeros((count, shape.parameters))
    for row in range(2):
        dlog2[:, row * j : (row + 1) * j] = parts.de2[row] / parts.e2
        dlog3[:, row * j : (row + 1) * j] = parts.de3[row] / parts.e3
    if shape.base:
        dlog2[:, -1], dlog3[:, -1] = parts.db2 / parts.b2, parts.db3 / parts.b3
    return (m2, m3), (dlog2, dlog3)


def _joint(
    c: FloatArray, powers: FloatArray, lags: FloatArray, parts: _Parts, shape: Shape
) -> tuple[FloatArray, FloatArray]:
    """Return E[X_0 X_k] - 1 (starts, lags) and its derivatives."""
    j = shape.components
    factors = 1.0 + c
    product = factors.prod(axis=1)
    # expm1 and log1p keep small autocorrelations exact.
    joint = np.expm1(np.log1p(c).sum(axis=1))
    others = product[:, None, :] / factors
    slopes = np.zeros((c.shape[0], c.shape[2], shape.parameters))
    slopes[:, :, :j] = (others * parts.de2[0][:, :, None] * powers).transpose(0, 2, 1)
    slopes[:, :, j : 2 * j] = (others * parts.de2[1][:, :, None] * powers).transpose(0, 2, 1)
    slopes[:, :, 2 * j : 3 * j] = (others * c * lags * (1.0 - parts.gamma)[:, :, None]).transpose(0, 2, 1)
    return joint, slopes


def _triples(parts: _Parts, shape: Shape, targets: Targets) -> tuple[FloatArray, FloatArray]:
    """Return E[(X_0 - 1)(X_i - 1)(X_(i+j) - 1)] at the targets' pairs, and its derivatives.

    A component's E[X_0 X_i X_(i+j)] is 1 + V (g^i + g^j + g^(i+j)) + K g^(i+j), as d^2 = V + (K / V) d on two points.
    """
    j = shape.components
    i1, i2 = targets.pairs[:, 0].astype(np.float64), targets.pairs[:, 1].astype(np.float64)
    log = np.log(parts.gamma)[:, :, None]
    g1, g2, g3 = np.exp(log * i1), np.exp(log * i2), np.exp(log * (i1 + i2))
    v = (parts.e2 - 1.0)[:, :, None]
    k = (parts.e3 - 3.0 * parts.e2 + 2.0)[:, :, None]
    total = g1 + g2 + g3
    raw = 1.0 + v * total + k * g3
    rest = (1.0 - parts.gamma)[:, :, None]
    own = [
        parts.de2[row][:, :, None] * total + (parts.de3[row] - 3.0 * parts.de2[row])[:, :, None] * g3
        for row in range(2)
    ]
    own.append(rest * (v * (i1 * g1 + i2 * g2 + (i1 + i2) * g3) + k * (i1 + i2) * g3))
    product = raw.prod(axis=1)
    slopes = np.zeros((raw.shape[0], raw.shape[2], shape.parameters))
    for row, change in enumerate(own):
        slopes[:, :, row * j : (row + 1) * j] = (product[:, None, :] / raw * change).transpose(0, 2, 1)
    value = product + 2.0
    for g, lags in ((g1, i1), (g2, i2), (g3, i1 + i2)):
        pair, dpair = _joint(v * g, g, lags, parts, shape)
        value = value - (pair + 1.0)
        slopes = slopes - dpair
    return value, slopes


def matrices(theta: FloatArray, shape: Shape) -> tuple[FloatArray, FloatArray]:
    """Return D0 and D1 of each start's composition, of mean 1."""
    parts = _parts(theta, shape)
    count = len(theta)
    means, chain = np.ones((count, 1)), np.ones((count, 1, 1))
    for i in range(shape.components):
        p, g = parts.p[:, i], parts.gamma[:, i]
        draw = np.stack([1.0 - p, p], axis=1)[:, None, :]
        step = g[:, None, None] * np.eye(2) + (1.0 - g)[:, None, None] * draw
        means = (means[:, :, None] * np.stack([parts.x0[:, i], parts.x1[:, i]], axis=1)[:, None, :]).reshape(count, -1)
        chain = _kron(chain, step)
    arrive = chain / means[:, :, None]
    stay = np.eye(means.shape[1]) / means[:, :, None]
    k = shape.base
    if not k:
        return -stay, arrive
    stages = np.concatenate([np.repeat(((1.0 - parts.w) / (k - 1))[:, None], k - 1, axis=1), parts.w[:, None]], axis=1)
    hidden, leave = np.zeros((count, k, k)), np.zeros((count, k, k))
    at = np.arange(k)
    hidden[:, at, at] = -1.0 / stages
    hidden[:, at[:-1], at[1:]] = 1.0 / stages[:, :-1]
    leave[:, -1, 0] = 1.0 / stages[:, -1]
    return _kron(stay, hidden), _kron(arrive, leave)


def _kron(a: FloatArray, b: FloatArray) -> FloatArray:
    n = a.shape[1] * b.shape[1]
    product: FloatArray = (a[:, :, None, :, None] * b[:, None, :, None, :]).reshape(len(a), n, n)
    return product
