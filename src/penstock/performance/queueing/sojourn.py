# SPDX-License-Identifier: Apache-2.0
"""Waiting and sojourn time of the MAP/PH/1 queue as phase-type distributions of the product order.

==========  ===============================================================================================
Symbol      Meaning
==========  ===============================================================================================
D0, D1      arrivals; pi the phase just after an arrival, lam the rate
alpha, T    service time; t = -T e, v = alpha (-T)^-1 the expected time in each phase
Psi         arrival phase at the end of the busy period that starts with a service in phase j, see `markov.fluid`
Gamma       (I x alpha) Psi, the same from the start of a service
xi          phase while the server is idle: xi (D0 + D1 Gamma) = 0, xi e = (1 - rho) / lam, time per record
p0          probability that a record arriving into phase i finds the server idle, (xi D1)_i / pi_i
W           probabilities that it does not wait 0, by the state its waiting time starts from, below
A, a        rates of the chain whose absorption time the sojourn time is, and its rates of absorption
==========  ===============================================================================================

The work ahead of a record is a fluid: it rises by a service time at each arrival and falls at unit slope in between.
The sojourn time is its level at the end of a rise, and the levels at which it rises have the density
xi (D1 x alpha) exp(K x) with K = I x T + Psi (D1 x alpha) (Ramaswami, "Matrix analytic methods for stochastic fluid
flows", ITC 16, 1999; for queues Sengupta, "Markov processes whose steady state distribution is matrix-exponential",
Advances in Applied Probability 21, 1989). The time it spends rising in phase (i, j), per record, is pi_i v_j: what
phase a record arrives in says nothing of its service. Seen backwards against these weights K becomes a subgenerator:

* T_back[j, k] = v_k T[k, j] / v_j, left at rate r_j = alpha_j / v_j: the service time seen from its end;
* W[i, (k, l)] = pi_k v_l (Psi D1)[(k, l), i] / pi_i, and p0 + W e = 1;
* A = I x T_back + r W, a = r p0.

The sojourn time starts in (i, j) with probability pi_i v_j t_j; the waiting time of a record that arrives into phase i
starts from W[i], or is 0. Means are sums of non-negative terms of systems of the order of the arrivals alone.

All functions take stacks of queues along the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH, ctmc
from penstock.markov.conditions import FloatArray
from penstock.markov.fluid import first_return

SATURATION = 1.0 - 1e-12
"""Utilisation from which on a queue counts as saturated: nearer to one the difference is rounding."""

BALANCE = 1e-6
"""How far p0 + W e may be from 1; it is computed from two sides."""


@dataclass(frozen=True)
class Sojourns:
    """A stack of solved queues; shapes (queues, n), (queues, n, n m), ... as the symbols of the module say."""

    pi: FloatArray
    Psi: FloatArray
    xi: FloatArray
    p0: FloatArray
    W: FloatArray
    T_back: FloatArray
    r: FloatArray
    end: FloatArray
    """Probability that a service ends in each phase, v_j t_j: where its time seen backwards starts."""
    residuals: FloatArray

    def mean_waiting(self) -> tuple[FloatArray, FloatArray]:
        """Give the first two moments of the waiting time of a record that arrives into each phase."""
        k, n, _ = self.W.shape
        m = self.r.shape[1]
        W = self.W.reshape(k, n, n, m)
        back = np.linalg.inv(-self.T_back)
        rest1 = back.sum(axis=2)  # mean and second moment of a service seen backwards from phase l
        rest2 = 2.0 * (back @ rest1[:, :, None])[:, :, 0]
        into = W.sum(axis=3)
        solver = AbsorptionSolver(into, self.p0)
        w1 = solver.solve((W @ rest1[:, None, :, None]).sum(axis=(2, 3)))
        once = W @ rest2[:, None, :, None]
        both = (W @ rest1[:, None, :, None])[:, :, :, 0] * w1[:, None, :]
        w2 = solver.solve(once.sum(axis=(2, 3)) + 2.0 * both.sum(axis=2))
        return w1, w2

    def chain(self) -> tuple[FloatArray, FloatArray]:
        """Give A and a."""
        k, n, size = self.W.shape
        m = size // n
        A = self.r[:, None, :, None] * self.W[:, :, None, :]
        A = A.reshape(k, n, m, n, m)
        i = np.arange(n)
        A[:, i, :, i, :] += self.T_back
        a = self.p0[:, :, None] * self.r[:, None, :]
        return A.reshape(k, size, size), a.reshape(k, size)


def check_processes(arrivals: object, service: object, kind: type[MAP] | type[PH]) -> None:
    """Refuse what is no arrival process or no service time of the kind wanted."""
    if not isinstance(arrivals, MAP):
        raise ConfigurationError(f"arrivals: {type(arrivals).__name__} is no MAP; give MAP(D0, D1)", field="arrivals")
    if not isinstance(service, kind):
        how = "PH(alpha, T)" if kind is PH else "MAP(D0, D1)"
        raise ConfigurationError(
            f"service: {type(service).__name__} is no {kind.__name__}; give {how}", field="service"
        )


def entered(service: PH) -> PH:
    """Give the service time without the phases that are never entered."""
    kept = ctmc.reachable(service.T > 0, service.alpha > 0)
    if kept.all():
        return service
    phases = np.ix_(kept, kept)
    return PH.of_exits(service.alpha[kept], service.T[phases], service.exits[kept], service.M[phases])


def solve_sojourns(arrivals: list[MAP], services: list[PH]) -> Sojourns:
    """Solve stable queues of the same orders; phases of a service that are never entered must have been left out.

    Raises
    ------
    ConvergenceError
        If the chains could not be solved.
    """
    D0, D1 = np.stack([a.D0 for a in arrivals]), np.stack([a.D1 for a in arrivals])
    T, t = np.stack([s.T for s in services]), np.stack([s.exits for s in services])
    alpha = np.stack([s.alpha for s in services])
    v = np.stack([s.alpha @ s.M for s in services])
    pi = np.stack([a.pi for a in arrivals])
    k, n, m = len(D0), D0.shape[1], T.shape[1]
    Q = np.zeros((k, n + n * m, n + n * m))
    Q[:, :n, :n] = D0
    Q[:, :n, n:] = (D1[:, :, :, None] * alpha[:, None, None, :]).reshape(k, n, n * m)
    for i in range(n):
        Q[:, n + i * m : n + (i + 1) * m, n + i * m : n + (i + 1) * m] = T
        Q[:, n + i * m : n + (i + 1) * m, i] = t
    found = first_return(Q, n)
    Psi = found.Psi.reshape(k, n, m, n)
    Gamma = (alpha[:, None, None, :] @ Psi)[:, :, 0, :]
    xi = _stationary_stack(D0 + D1 @ Gamma)
    idle = np.array([(1.0 - a.rate * s.mean) / a.rate for a, s in zip(arrivals, services, strict=True)])
    xi = xi * idle[:, None]
    share = np.where(pi > 0, pi, 1.0)
    p0 = (xi[:, None, :] @ D1)[:, 0, :] / share
    weighted = (Psi @ D1[:, None, :, :]) * (pi[:, :, None] * v[:, None, :])[:, :, :, None]
    W = weighted.reshape(k, n * m, n).transpose(0, 2, 1) / share[:, :, None]
    total = W.sum(axis=2) + p0
    # Phases into which nothing arrives are in no sum; they are given the way out.
    p0 = np.where(pi > 0, p0, 1.0)
    total = np.where(pi > 0, total, 1.0)
    off = float(np.max(np.abs(total - 1.0) * (pi > 0)))
    if not off <= BALANCE:
        raise ConvergenceError("the queue's phases do not balance", iterations=found.steps, residual=off)
    W = W / total[:, :, None]
    p0 = p0 / total
    T_back = T.transpose(0, 2, 1) * v[:, None, :] / v[:, :, None]
    return Sojourns(pi, found.Psi, xi, p0, W, T_back, alpha / v, v * t, found.residuals)


class AbsorptionSolver:
    """Solves (I - P) x = b for stacks of P with P e + p0 = e, without losing the digits of a small p0."""

    def __init__(self, P: FloatArray, p0: FloatArray) -> None:
        self._P, self._p0 = P, p0
        self._inverse = np.linalg.inv(np.eye(P.shape[1]) - P)

    def solve(self, b: FloatArray) -> FloatArray:
        """Give x."""
        x = (self._inverse @ b[:, :, None])[:, :, 0]
        for _ in range(2):
            # (I - P) x = p0 x + sum over j of P_ij (x_i - x_j): refined with a residual in which nothing cancels.
            rest = b - self._p0 * x - (self._P * (x[:, :, None] - x[:, None, :])).sum(axis=2)
            x = x + (self._inverse @ rest[:, :, None])[:, :, 0]
        return x


def _stationary_stack(Q: FloatArray) -> FloatArray:
    """Give the stationary vectors of irreducible generators by elimination without subtraction, as `ctmc.eliminate`."""
    A = Q.copy()
    n = A.shape[1]
    for s in range(n - 1, 0, -1):
        A[:, :s, s] /= A[:, s, :s].sum(axis=1)[:, None]
        A[:, :s, :s] += A[:, :s, s, None] * A[:, s, None, :s]
    x = np.ones((len(A), n))
    for s in range(1, n):
        x[:, s] = (x[:, :s] * A[:, :s, s]).sum(axis=1)
        x[:, : s + 1] /= np.maximum(x[:, s, None], 1.0)  # keeps products of many large ratios from overflowing
    return np.asarray(x / x.sum(axis=1)[:, None])
