# SPDX-License-Identifier: Apache-2.0
"""Means of stacks of MAP/PH/1 queues, and the derivatives of the means to every rate of the arrivals.

=============  ==============================================================================================
Symbol         Meaning
=============  ==============================================================================================
alpha, T, t    service time: start, subgenerator, rates of completion t = -T e
A0, A1         rates one level up, D1 x I, and within a level, D0 x I + I x T
V              phase of the arrivals when the chain first comes one level down, from each phase (n m x n)
Gamma          (I x alpha) V, the same seen from the start of a service
tau, sigma     time of that passage, and the time integral of the level above its starting level
xi             stationary vector of D0 + D1 Gamma: the phase while the server is idle
L              mean number of jobs in the system
h              relative values: Q h = L e - (number of jobs)
=============  ==============================================================================================

V comes from the first returns of `map_ph_1`. The mean comes from the values of one busy period,
L = xi D1 (tau' + sigma') / (1 + xi D1 tau'), where a prime means seen from the start of a service. The gradient is
pi dQ h summed over all levels (Cao and Chen, "Perturbation realization, potentials, and sensitivity analysis of Markov
processes", IEEE Transactions on Automatic Control 42, 1997).

All functions take stacks of queues along the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import ConvergenceError, InvalidProcessError
from penstock.markov.arrival_process import MAP
from penstock.markov.conditions import FloatArray
from penstock.markov.map_ph_1 import Arrivals, Services, busy_period, solve_sojourns
from penstock.markov.phase_type import PH

_MOST_STEPS = 64

RESIDUAL = 1e-7
"""Largest residual of the equation for V, as a probability, that counts as solved."""


@dataclass(frozen=True)
class QueueMeans:
    """Means of a stack of MAP/PH/1 queues; infinite and with an infinite residual where a queue is unstable.

    `residuals` are what is left of the equation for V, as probabilities.
    """

    utilisation: FloatArray
    number: FloatArray
    response: FloatArray
    residuals: FloatArray


@dataclass(frozen=True)
class QueueGradient:
    """The mean number of jobs of a stack of queues, and its derivatives to the entries of D0 and D1.

    The derivatives hold for changes that leave the rows of D0 + D1 summing to zero and count every diagonal entry of
    D0 as a variable of its own.
    """

    number: FloatArray
    to_D0: FloatArray  # noqa: N815 (the papers' symbols)
    to_D1: FloatArray  # noqa: N815


def mean_response(arrivals: MAP, service: PH) -> float:
    """Give the mean response time of the queue MAP/PH/1; infinite if it is not stable.

    Raises
    ------
    ConvergenceError
        If the chain could not be solved to `RESIDUAL`.

    Examples
    --------
    >>> mean_response(MAP.poisson(0.5), PH.exponential(mean=1.0))
    2.0
    """
    means = queue_means(arrivals.D0[None], arrivals.D1[None], service.alpha, service.T[None], arrivals.theta[None])
    if means.utilisation[0] < 1.0 and not means.residuals[0] <= RESIDUAL:
        raise ConvergenceError(
            "the MAP/PH/1 queue could not be solved", iterations=_MOST_STEPS, residual=float(means.residuals[0])
        )
    return float(means.response[0])


def queue_means(
    D0: FloatArray, D1: FloatArray, alpha: FloatArray, T: FloatArray, theta: FloatArray | None = None
) -> QueueMeans:
    """Give the means of a stack of queues.

    Parameters
    ----------
    D0, D1
        Arrivals, shape (queues, n, n), valid and irreducible.
    alpha, T
        Service time; T of shape (queues, m, m).
    theta
        Stationary vectors of D0 + D1 where they are known.
    """
    if theta is None:
        theta = stationary_rows(D0 + D1)
    rate = (theta[:, None, :] @ D1).sum(axis=(1, 2))
    M = np.asarray(np.linalg.inv(-T), dtype=np.float64)
    work = M.sum(axis=2) @ alpha
    utilisation = rate * work
    response, residuals = np.full(len(D0), np.inf), np.full(len(D0), np.inf)
    stable = np.flatnonzero(utilisation < 1.0 - 1e-12)
    if stable.size:
        flow = (theta[:, None, :] @ D1)[:, 0, :] / rate[:, None]
        arrivals = Arrivals(D0[stable], D1[stable], flow[stable], rate[stable])
        services = Services(np.tile(alpha, (stable.size, 1)), T[stable], -T[stable].sum(axis=2), M[stable])
        response[stable], residuals[stable] = _responses(arrivals, services)
    return QueueMeans(utilisation, response * rate, response, residuals)


def _responses(arrivals: Arrivals, services: Services) -> tuple[FloatArray, FloatArray]:
    try:
        solved = solve_sojourns(arrivals, services)
    except ConvergenceError as error:
        if len(arrivals.rate) == 1:
            return np.full(1, np.inf), np.full(1, error.residual)
        # One queue of the stack is to blame; the others are solved without it.
        each = [_responses(arrivals.one(k), services.one(k)) for k in range(len(arrivals.rate))]
        return np.concatenate([r for r, _ in each]), np.concatenate([left for _, left in each])
    waiting = (solved.pi * solved.waiting_moments()[0]).sum(axis=1)
    return waiting + (services.alpha[:, None, :] @ services.M).sum(axis=(1, 2)), solved.residuals


def queue_gradient(D0: FloatArray, D1: FloatArray, alpha: FloatArray, T: FloatArray) -> QueueGradient:
    """Give the mean numbers of jobs of a stack of stable queues and their derivatives to D0 and D1."""
    b = _busy_period(D0, D1, alpha, T)
    k, n, m = len(D0), D0.shape[1], len(alpha)
    eye = np.eye(n * m)
    # Levels: pi_k = pi_1 R^(k-1); the phases while idle are xi, the idle time is normalised at the end.
    R = b.up @ b.inner
    first = (b.xi[:, None, :] @ _start(D1, alpha)) @ b.inner
    once = np.linalg.inv(eye - R)
    sums0 = first @ once
    sums1 = sums0 @ once
    sums2 = sums1 @ (eye + R) @ once
    total = 1.0 + sums0.sum(axis=(1, 2))
    # Values at the start of a service: y_k = a k^2 e + k p + q + Gamma^k d, h_k = V y_(k-1) + (k - L) tau + sigma.
    L = b.number[:, None]
    tau, sigma = b.tau @ alpha, b.sigma @ alpha  # from (k, n, m): seen from the start of a service
    turn = stationary_rows(b.Gamma - np.eye(n))
    idle = _centred_solve(D0 + D1 @ b.Gamma, L - (D1 @ ((1.0 - L) * tau + sigma)[:, :, None])[:, :, 0])
    a = 0.5 * (turn * tau).sum(axis=1)[:, None]
    p = _centred_solve(np.eye(n) - b.Gamma, tau - 2.0 * a)
    rest = sigma - L * tau
    p = p + (rest * turn).sum(axis=1)[:, None] + a - (turn * (b.Gamma @ p[:, :, None])[:, :, 0]).sum(axis=1)[:, None]
    q = _centred_solve(np.eye(n) - b.Gamma, rest + a - (b.Gamma @ p[:, :, None])[:, :, 0])
    d = idle - q

    def lift(values: FloatArray) -> FloatArray:
        return (b.V @ values[:, :, None]).reshape(k, n, m)

    # h_k = k^2 c2 + k c1 + c0 + V Gamma^(k-1) d
    ones = np.ones((k, n, m))
    c2 = a[:, :, None] * ones
    c1 = lift(p) - 2.0 * c2 + b.tau
    c0 = lift(q) - lift(p) + c2 - L[:, :, None] * b.tau + b.sigma
    met = _stein_sum(R, b.Gamma, first, d)
    down = b.V.transpose(0, 2, 1)
    X = met @ down  # sum over k of pi_k' (V Gamma^(k-1) d)'
    X_up = met @ (b.Gamma.transpose(0, 2, 1) @ down)
    s0, s1, s2 = (s.reshape(k, n, m) for s in (sums0, sums1, sums2))

    def joined(one: FloatArray, other: FloatArray) -> FloatArray:
        return one @ other.transpose(0, 2, 1)

    def traced(matrix: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("kajbj->kab", matrix.reshape(k, n, m, n, m)))

    xi, h0 = b.xi[:, :, None], idle[:, None, :]
    h1 = (lift(idle) + (1.0 - L)[:, :, None] * b.tau + b.sigma) @ alpha
    to_D0 = xi @ h0 + joined(s2, c2) + joined(s1, c1) + joined(s0, c0) + traced(X)
    # One level up, (k + 1)^2 = k^2 + 2 k + 1.
    to_D1 = xi @ h1[:, None, :] + joined(s2, c2) + joined(s1, c1 + 2.0 * c2) + joined(s0, c0 + c1 + c2) + traced(X_up)
    scale = total[:, None, None]
    return QueueGradient(b.number, to_D0 / scale, to_D1 / scale)


def stationary_rows(Q: FloatArray) -> FloatArray:
    """Give the stationary vectors of a stack of irreducible generators (or of P - I)."""
    k, n = Q.shape[0], Q.shape[1]
    A = Q / np.max(np.abs(Q), axis=(1, 2), keepdims=True) if n > 1 else Q * 1.0
    A = A.copy()
    A[:, :, -1] = 1.0
    right = np.zeros((k, n, 1))
    right[:, -1] = 1.0
    return np.asarray(np.linalg.solve(A.transpose(0, 2, 1), right)[:, :, 0])


@dataclass(frozen=True)
class _BusyPeriod:
    number: FloatArray
    up: FloatArray
    inner: FloatArray  # (-(A1 + A0 V (I x alpha)))^-1
    V: FloatArray
    Gamma: FloatArray
    tau: FloatArray  # (queues, n, m)
    sigma: FloatArray
    xi: FloatArray


def _busy_period(D0: FloatArray, D1: FloatArray, alpha: FloatArray, T: FloatArray) -> _BusyPeriod:
    k, n, m = len(D0), D0.shape[1], len(alpha)
    if T.shape != (k, m, m):
        raise InvalidProcessError(f"T has shape {T.shape}: it must be one {m} x {m} matrix for each of {k} queues")
    t = -T.sum(axis=2)
    identity = np.broadcast_to(np.eye(n), (k, n, n))
    up = _kron(D1, np.broadcast_to(np.eye(m), (k, m, m)))
    local = _kron(D0, np.broadcast_to(np.eye(m), (k, m, m))) + _kron(identity, T)
    # The phase just after an arrival and the rate are not needed for busy periods.
    arrivals = Arrivals(D0, D1, np.empty((k, n)), np.empty(k))
    found = busy_period(arrivals, Services(np.tile(alpha, (k, 1)), T, t, np.empty_like(T)))
    V = found.Psi
    exact = (V[:, :, :, None] * alpha).reshape(k, n * m, n * m)
    inner: FloatArray = np.asarray(np.linalg.inv(-(local + up @ exact)), dtype=np.float64)
    passage = np.linalg.inv(-(local + up @ exact + up))
    tau = passage.sum(axis=2)
    sigma = (passage @ (up @ tau[:, :, None]))[:, :, 0]
    tau, sigma = tau.reshape(k, n, m), sigma.reshape(k, n, m)
    Gamma = np.einsum("j,kajb->kab", alpha, V.reshape(k, n, m, n))
    xi = found.resting
    flow = (xi[:, None, :] @ D1)[:, 0, :]
    length, area = (flow * (tau @ alpha)).sum(axis=1), (flow * (sigma @ alpha)).sum(axis=1)
    number = (length + area) / (1.0 + length)
    return _BusyPeriod(number, up, inner, V, Gamma, tau, sigma, xi)


def _kron(A: FloatArray, B: FloatArray) -> FloatArray:
    k, n, m = len(A), A.shape[1], B.shape[1]
    return (A[:, :, None, :, None] * B[:, None, :, None, :]).reshape(k, n * m, n * m)


def _start(D1: FloatArray, alpha: FloatArray) -> FloatArray:
    return (D1[:, :, :, None] * alpha).reshape(*D1.shape[:2], -1)


def _centred_solve(A: FloatArray, right: FloatArray) -> FloatArray:
    """Give a solution of A x = right for a singular A with A e = 0, the last entry of x being 0."""
    n = A.shape[1]
    x = np.zeros(right.shape)
    if n > 1:
        scale = np.abs(A[:, :-1]).max(axis=2, keepdims=True)  # so that slow rows count as much as fast ones
        x[:, :-1] = np.linalg.solve(A[:, :-1, :-1] / scale, right[:, :-1, None] / scale)[:, :, 0]
    return x


def _stein_sum(R: FloatArray, Gamma: FloatArray, row: FloatArray, column: FloatArray) -> FloatArray:
    """Give the sum over k >= 0 of (row R^k)' (Gamma^k column)', by doubling."""
    left, right = R.transpose(0, 2, 1), Gamma.transpose(0, 2, 1)
    X = row.transpose(0, 2, 1) @ column[:, None, :]
    for _ in range(_MOST_STEPS):
        more = left @ X @ right
        X = X + more
        if np.all(np.abs(more).max(axis=(1, 2)) <= 1e-13 * np.abs(X).max(axis=(1, 2))):
            break
        left, right = left @ left, right @ right
    return X
