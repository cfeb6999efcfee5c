# SPDX-License-Identifier: Apache-2.0
"""The MAP/PH/1 queue solved: waiting and sojourn time as phase-type distributions of the product order.

==========  ===============================================================================================
Symbol      Meaning
==========  ===============================================================================================
D0, D1      arrivals; pi the phase just after an arrival, lam the rate
alpha, T    service time; t = -T e, v = alpha (-T)^-1 the expected time in each phase
Psi         arrival phase at the end of the busy period that starts with a service in phase j, see `fluid`
xi          time per record that the server is idle, by phase: xi (D0 + D1 (I x alpha) Psi) = 0, xi e = (1 - rho) / lam
p0          probability that a record arriving into phase i finds the server idle, (xi D1)_i / pi_i
W           probabilities that it does not, by the state its waiting time starts from, below; p0 + W e = 1
A, a        rates of the chain whose absorption time the sojourn time is, and its rates of absorption
==========  ===============================================================================================

The work ahead of a record is a fluid: it rises by a service time at each arrival and falls at unit slope in between.
The sojourn time is its level at the end of a rise, and the levels at which it rises have the density
xi (D1 x alpha) exp(K x) with K = I x T + Psi (D1 x alpha) (Ramaswami, "Matrix analytic methods for stochastic fluid
flows", ITC 16, 1999; for queues Sengupta, "Markov processes whose steady state distribution is matrix-exponential",
Advances in Applied Probability 21, 1989). The time it spends rising in phase (i, j), per record, is pi_i v_j: what
phase a record arrives in says nothing of its service. Seen backwards against these weights K becomes a subgenerator:

* T_back[j, k] = v_k T[k, j] / v_j, left at rate r_j = alpha_j / v_j: the service time seen from its end;
* W[i, (k, l)] = pi_k v_l (Psi D1)[(k, l), i] / pi_i;
* A = I x T_back + r W, a = r p0.

The sojourn time starts in (i, j) with probability pi_i v_j t_j; the waiting time of a record that arrives into phase i
starts from W[i], or is 0. So the moments of waiting times are sums of non-negative terms, from a system of equations
of the order of the arrivals alone.

Phases i and k are only those that records arrive into (columns of D1 that are not zero; e of them): the fluid rises in
no others. What departs from a queue of Erlang services, say, arrives at the next one into no phase but the first.

All functions take stacks of queues along the first axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penstock.errors import ConvergenceError
from penstock.markov.arrival_process import MAP
from penstock.markov.conditions import FloatArray, IntArray
from penstock.markov.fluid import FirstReturn, as_stochastic, identity, inverse, returns
from penstock.markov.phase_type import PH

_MOST_REFINEMENTS = 20

BALANCE = 1e-8
"""How far p0 + W e, which is computed from two sides, may be from 1 in the mean over the phases records arrive into."""


@dataclass(frozen=True)
class Arrivals:
    """A stack of arrival processes of the same order."""

    D0: FloatArray
    D1: FloatArray
    pi: FloatArray
    rate: FloatArray

    @classmethod
    def of(cls, processes: Sequence[MAP]) -> Arrivals:
        """Give the stack of these processes."""
        if len(processes) == 1:  # by far the commonest, and stacking costs as much as a step of the solution
            only = processes[0]
            return cls(only.D0[None], only.D1[None], only.pi[None], np.array([only.rate]))
        return cls(
            np.array([process.D0 for process in processes]),
            np.array([process.D1 for process in processes]),
            np.array([process.pi for process in processes]),
            np.array([process.rate for process in processes]),
        )

    def one(self, k: int) -> Arrivals:
        """Give the stack of the k-th alone."""
        return Arrivals(*(part[k : k + 1] for part in (self.D0, self.D1, self.pi, self.rate)))


@dataclass(frozen=True)
class Services:
    """A stack of service times of the same order; `M` is (-T)^-1."""

    alpha: FloatArray
    T: FloatArray
    t: FloatArray
    M: FloatArray

    @classmethod
    def of(cls, services: Sequence[PH]) -> Services:
        """Give the stack of these service times."""
        if len(services) == 1:
            only = services[0]
            return cls(only.alpha[None], only.T[None], only.exits[None], only.M[None])
        return cls(
            np.array([service.alpha for service in services]),
            np.array([service.T for service in services]),
            np.array([service.exits for service in services]),
            np.array([service.M for service in services]),
        )

    def one(self, k: int) -> Services:
        """Give the stack of the k-th alone."""
        return Services(*(part[k : k + 1] for part in (self.alpha, self.T, self.t, self.M)))


@dataclass(frozen=True)
class Sojourns:
    """A stack of solved queues; shapes (queues, e), (queues, e, e m), ... as the symbols of the module say.

    `into` are the phases that records arrive into, in the order of `pi`, `p0` and `W`.
    """

    services: Services
    into: IntArray
    pi: FloatArray
    Psi: FloatArray
    xi: FloatArray
    p0: FloatArray
    W: FloatArray
    v: FloatArray
    residuals: FloatArray

    def waiting_moments(self, count: int = 1) -> tuple[FloatArray, ...]:
        """Give the first one or two moments of the waiting time of a record that arrives into each phase."""
        k, n, _ = self.W.shape
        W = self.W.reshape(k, n, n, -1)
        solver = AbsorptionSolver(W.sum(axis=3), self.p0)
        # Moments of a service seen backwards from each phase: v M / v and 2 v M^2 / v.
        stay, once = self._stay[:, None, :, None], self.v[:, None, :] @ self.services.M
        rest = once.transpose(0, 2, 1)[:, None] / stay
        ahead = (W @ rest)[:, :, :, 0]  # rest of the service met first, by the next phase
        w1 = solver.solve(ahead.sum(axis=2))
        if count == 1:
            return (w1,)
        rest_square = 2.0 * (once @ self.services.M).transpose(0, 2, 1)[:, None] / stay
        square = (W @ rest_square).sum(axis=(2, 3))
        return w1, solver.solve(square + 2.0 * (ahead * w1[:, None, :]).sum(axis=2))

    def start(self) -> FloatArray:
        """Give the probabilities of the phases the sojourn time starts in."""
        end = self.v * self.services.t  # where a service ends, and its time seen backwards starts
        return np.asarray((self.pi[:, :, None] * end[:, None, :]).reshape(len(self.pi), -1))

    def chain(self) -> tuple[FloatArray, FloatArray]:
        """Give A and a."""
        k, n, size = self.W.shape
        m = size // n
        r = self.services.alpha / self._stay
        T_back = self.services.T.transpose(0, 2, 1) * self.v[:, None, :] / self._stay[:, :, None]
        A = (r[:, None, :, None] * self.W[:, :, None, :]).reshape(k, n, m, n, m)
        i = np.arange(n)
        A[:, i, :, i, :] += T_back
        return A.reshape(k, size, size), (self.p0[:, :, None] * r[:, None, :]).reshape(k, size)

    @property
    def _stay(self) -> FloatArray:
        return np.where(self.v > 0.0, self.v, 1.0)  # phases of a service that are never entered have no weight


def busy_period(arrivals: Arrivals, services: Services, into: IntArray | None = None) -> FirstReturn:
    """Solve for Psi alone, and for the phases of the arrivals while the server is idle.

    `into` are the phases that Psi is wanted from, of shape (queues, e), with all that records arrive into; None: all.

    Raises
    ------
    ConvergenceError
        If one of the chains could not be solved.
    """
    # The smallest entry of D0, and of T, is on the diagonal: minus the largest rate at which a phase is left.
    falling = -np.minimum.reduce(arrivals.D0, axis=(1, 2))
    unit = 1.0 / np.maximum(falling, -np.minimum.reduce(services.T, axis=(1, 2)))
    if into is None:
        into = np.broadcast_to(np.arange(arrivals.D0.shape[1]), arrivals.D0.shape[:2])
    S = _looked_at_once(arrivals, services, into, unit[:, None, None])
    return returns(S, arrivals.D0.shape[1], lambda Psi: _residuals(arrivals, services, into, falling, Psi))


def solve_sojourns(arrivals: Arrivals, services: Services) -> Sojourns:
    """Solve stable queues.

    Raises
    ------
    ConvergenceError
        If one of the chains could not be solved.
    """
    into = _arrived_into(arrivals.D1)
    D1, pi = _columns(arrivals.D1, into), np.take_along_axis(arrivals.pi, into, axis=1)
    k, e, m = len(D1), D1.shape[2], services.T.shape[1]
    found = busy_period(arrivals, services, into)
    v = (services.alpha[:, None, :] @ services.M)[:, 0, :]
    xi = found.resting * (1.0 / arrivals.rate - v.sum(axis=1))[:, None]
    entered = bool(pi.all())
    share = pi if entered else np.where(pi > 0.0, pi, 1.0)
    p0 = (xi[:, None, :] @ D1)[:, 0, :] / share
    weighted = (found.Psi @ D1) * (pi[:, :, None] * v[:, None, :]).reshape(k, e * m, 1)
    W = weighted.transpose(0, 2, 1) / share[:, :, None]
    total = W.sum(axis=2) + p0
    if not entered:  # fewer phases than in other queues of the stack: the rest is in no sum and given the way out
        p0, total = np.where(pi > 0.0, p0, 1.0), np.where(pi > 0.0, total, 1.0)
    off = float((pi * np.abs(total - 1.0)).sum(axis=1).max())
    if not off <= BALANCE:
        raise ConvergenceError("the queue's phases do not balance", iterations=found.steps, residual=off)
    return Sojourns(services, into, pi, found.Psi, xi, p0 / total, W / total[:, :, None], v, found.residuals)


def _arrived_into(D1: FloatArray) -> IntArray:
    """Give the phases that records arrive into, as many for each queue: of some there may be more than these."""
    entered = D1.any(axis=1)
    most = int(entered.sum(axis=1).max())
    return np.sort(np.argsort(~entered, axis=1, kind="stable")[:, :most], axis=1)


def _columns(matrices: FloatArray, into: IntArray) -> FloatArray:
    return matrices if into.shape[1] == matrices.shape[2] else np.take_along_axis(matrices, into[:, None, :], axis=2)


def _looked_at_once(arrivals: Arrivals, services: Services, into: IntArray, unit: FloatArray) -> FloatArray:
    """Give S of `fluid` for the generator [[D0, D1 x alpha], [I x t, I x T]], from inverses of the order of D0 and T.

    Of D1 the columns and of I, left of x, the rows `into`.

    With U = (gamma I - T)^-1 and N = (gamma I - D0 - alpha U t D1)^-1 the blocks of (gamma I - Q)^-1 are N and
    N D1 x alpha U, below them N x U t and N D1 x U t alpha U + I x U: the end of the service, then as above, or before
    it. Time is counted in `unit`, 1 / gamma.
    """
    D0, D1, alpha = arrivals.D0, arrivals.D1, services.alpha[:, None, :]
    k, n, e, m = len(D0), D0.shape[1], into.shape[1], services.T.shape[1]
    size = n + e * m
    U = inverse(identity(m) - services.T * unit)
    ends = U @ (services.t[:, :, None] * unit)
    N = inverse(identity(n) - (D0 + (alpha @ ends) * D1) * unit)
    N *= 2.0
    S = np.empty((k, size, size))
    upper, lower = S[:, :n], S[:, n:].reshape(k, e, m, size)
    upper[:, :, :n] = N
    # Written with the service phases outside, as they are mostly fewer: loops over short rows are slow.
    entering, onward = N @ (_columns(D1, into) * unit), alpha @ U
    for j in range(m):
        np.multiply(entering, onward[:, :, j, None], out=upper[:, :, n + j :: m])
    after = upper if e == n else np.take_along_axis(upper, into[:, :, None], axis=1)
    np.multiply(ends[:, None], after[:, :, None, :], out=lower)
    rows, columns = S.strides[1:]
    own = np.ndarray(
        (k, e, m, m), S.dtype, S, n * (rows + columns), (S.strides[0], m * (rows + columns), rows, columns)
    )
    own += (2.0 * U)[:, None]
    S -= identity(size)
    return as_stochastic(S)


def _residuals(
    arrivals: Arrivals, services: Services, into: IntArray, falling: FloatArray, Psi: FloatArray
) -> FloatArray:
    """Give what is left of (I x T) Psi + Psi (D0 + D1 (I x alpha) Psi) + I x t, relative to each phase's rate.

    `falling` is the largest rate of D0, below which no phase counts.
    """
    k, n, e, m = len(Psi), arrivals.D0.shape[1], into.shape[1], services.T.shape[1]
    by_phase = Psi.reshape(k, e, m, n)
    back = (services.alpha[:, None, None, :] @ by_phase)[:, :, 0, :]
    rest = (Psi @ (arrivals.D0 + _columns(arrivals.D1, into) @ back)).reshape(k, e, m, n)
    rest += services.T[:, None] @ by_phase
    rest[np.arange(k)[:, None], np.arange(e), :, into] += services.t[:, None]
    fastest = np.maximum(-np.diagonal(services.T, axis1=1, axis2=2), falling[:, None])
    left = np.add.reduce(np.abs(rest, out=rest), axis=3) / fastest[:, None, :]
    return np.asarray(np.maximum.reduce(left, axis=(1, 2)))


class AbsorptionSolver:
    """Solves (I - P) x = b, b >= 0, for stacks of P >= 0 with P e + p0 = e, keeping the digits of a small p0.

    Raises
    ------
    ConvergenceError
        If absorption is so rare that it is lost in rounding.
    """

    def __init__(self, P: FloatArray, p0: FloatArray) -> None:
        self._P, self._p0 = P, p0
        try:
            self._inverse = inverse(identity(P.shape[1]) - P)
        except np.linalg.LinAlgError as error:
            raise ConvergenceError("waiting hardly ever ends", iterations=0, residual=float(p0.min())) from error

    def solve(self, b: FloatArray) -> FloatArray:
        """Give x."""
        x = (self._inverse @ b[:, :, None])[:, :, 0]
        for _ in range(_MOST_REFINEMENTS):
            # (I - P) x = p0 x + sum over j of P_ij (x_i - x_j): refined with a residual in which nothing cancels.
            rest = b - self._p0 * x - (self._P * (x[:, :, None] - x[:, None, :])).sum(axis=2)
            change = (self._inverse @ rest[:, :, None])[:, :, 0]
            x = np.asarray(x + change)
            if (np.abs(change) <= 1e-13 * x).all():
                return x
        off = float((np.abs(change) / np.abs(x)).max())
        if off <= BALANCE:  # rounding keeps the last digits moving where absorption is that rare
            return x
        raise ConvergenceError("waiting hardly ever ends", iterations=_MOST_REFINEMENTS, residual=off)
