# SPDX-License-Identifier: Apache-2.0
"""The MAP/MAP/1 queue: waiting and sojourn time as phase-type distributions of the product order.

The fluid of `markov.map_ph_1`, with the phase of the service kept while the fluid falls: falling phases have the rates
D0 x I, rises begin with D1 x I, rising phases have S0, rises end with S1. Its parts:

=========  =====================================================================================================
Symbol     Meaning
=========  =====================================================================================================
S0, S1     services: rates of phase changes without and with the end of a service
theta      time spent rising in each phase, per record: the stationary vector of the fluid's phases
xi         time spent at level 0, per record: xi (Q_ff + Q_fr Psi) = 0, xi e = (1 - rho) / lam
K          Q_rr + Psi Q_fr: levels at which the fluid rises have the density xi Q_fr exp(K x)
A, a       K seen backwards, A[x, y] = theta_y K[y, x] / theta_x, and its rates of absorption (xi Q_fr)_x / theta_x
=========  =====================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.errors import ConvergenceError
from penstock.markov import MAP, ctmc
from penstock.markov.conditions import FloatArray
from penstock.markov.fluid import first_return
from penstock.markov.map_ph_1 import BALANCE, AbsorptionSolver


@dataclass(frozen=True)
class SolvedMapService:
    """One solved queue."""

    arrivals: MAP
    service: MAP
    Psi: FloatArray
    xi: FloatArray
    A: FloatArray
    a: FloatArray
    sojourn_start: FloatArray
    waiting_start: FloatArray
    waiting_zero: float

    def mean_and_variance(self, start: FloatArray) -> tuple[float, float]:
        """Give the mean and the variance of the absorption time from a start."""
        leaving = self.A.sum(axis=1) - self.A.diagonal() + self.a
        P = self.A / leaving[:, None]
        np.fill_diagonal(P, 0.0)
        solver = AbsorptionSolver(P[None], (self.a / leaving)[None])
        first = solver.solve(1.0 / leaving[None])
        second = solver.solve(2.0 * first / leaving)
        mean = float(start @ first[0])
        return mean, max(float(start @ second[0]) - mean * mean, 0.0)

    def levels(self) -> tuple[FloatArray, FloatArray]:
        """Give the probabilities of the phases with one record in the queue, and the matrix R."""
        n, m = self.arrivals.order, self.service.order
        up = np.kron(self.arrivals.D1, np.eye(m))
        local = np.kron(self.arrivals.D0, np.eye(m)) + np.kron(np.eye(n), self.service.D0)
        inner = np.linalg.inv(-(local + up @ self.Psi))
        return (self.arrivals.rate * self.xi @ up) @ inner, up @ inner


def solve_map_service(arrivals: MAP, service: MAP) -> SolvedMapService:
    """Solve a stable queue."""
    n, m = arrivals.order, service.order
    f = n * m
    Q = np.zeros((2 * f, 2 * f))
    Q[:f, :f], Q[:f, f:] = np.kron(arrivals.D0, np.eye(m)), np.kron(arrivals.D1, np.eye(m))
    Q[f:, f:], Q[f:, :f] = np.kron(np.eye(n), service.D0), np.kron(np.eye(n), service.D1)
    rates = Q.copy()
    np.fill_diagonal(rates, 0.0)
    closed, _ = ctmc.recurrent_classes(rates)
    stationary = ctmc.stationary(Q)  # refuses several closed classes
    states = closed[0]
    falling = states[states < f]
    Q = Q[np.ix_(states, states)]
    g = len(falling)
    found = first_return(Q[None], g)
    Psi = found.Psi[0]
    theta = stationary[states][g:]
    theta = theta * (service.mean / theta.sum())
    xi = found.resting[0] * (arrivals.mean - service.mean)
    K = Q[g:, g:] + Psi @ Q[:g, g:]
    A = K.T * theta[None, :] / theta[:, None]
    a = (xi @ Q[:g, g:]) / theta
    off = float(np.max(np.abs((A.sum(axis=1) + a) / A.diagonal())))
    if not off <= BALANCE:
        raise ConvergenceError("the queue's phases do not balance", iterations=found.steps, residual=off)
    waiting_start = theta * (Psi @ Q[:g, g:]).sum(axis=1)
    zero = float((xi @ Q[:g, g:]).sum())
    total = zero + float(waiting_start.sum())
    sojourn_start = theta * Q[g:, :g].sum(axis=1)
    full_Psi, full_xi = np.zeros((f, f)), np.zeros(f)
    rising = states[states >= f] - f
    full_Psi[np.ix_(rising, falling)] = Psi
    full_xi[falling] = xi
    return SolvedMapService(
        arrivals, service, full_Psi, full_xi, A, a, sojourn_start / sojourn_start.sum(), waiting_start / total,
        zero / total,
    )  # fmt: skip
