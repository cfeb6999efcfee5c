# SPDX-License-Identifier: Apache-2.0
"""Queues known by moments: M/G/1 exactly, GI/G/1 in the mean alone.

========  ======================================================================================
Symbol    Meaning
========  ======================================================================================
lam       arrivals per second
m_k       moments of the service time S
rho       lam m_1, the utilisation
pi        stationary start of the rest of a service, alpha M / m_1
W, D      waiting time; sojourn time W + S
c_a, c_s  squared coefficients of variation of intervals and of services
========  ======================================================================================

M/G/1: E W = lam m_2 / (2 (1 - rho)) and Var W = (E W)^2 + lam m_3 / (3 (1 - rho)) (Pollaczek and Khinchine; Takacs
for the second moment: Kleinrock, "Queueing Systems I", 1975, Sec. 5.7). With services of phase type the waiting
time is a geometric sum of rests of services, P(W > t) = rho pi exp((T + rho t pi) t) e (Neuts, "Matrix-Geometric
Solutions in Stochastic Models", 1981, Theorem 3.2.1), and W + S is of phase type with twice the phases.

GI/G/1: Kingman's bound E W <= lam (Var A + Var S) / (2 (1 - rho)) ("Some inequalities for the queue GI/G/1",
Biometrika 49, 1962), and the approximation of Allen and Cunneen, E W = m_1 rho / (1 - rho) (c_a + c_s) / 2 (Allen,
"Probability, Statistics and Queueing Theory", 1990, Sec. 5.4), which is exact for M/G/1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from penstock.errors import ConfigurationError
from penstock.markov import PH
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.phase_type_response import PhaseTypeResponse
from penstock.performance.queueing.queue_inputs import SATURATION
from penstock.performance.queueing.response import MeansOnly, Saturated, check_probability


@dataclass(frozen=True)
class PoissonArrivals:
    """The stable queue M/PH/1; a `Response` of the sojourn time.

    Mean and variance come from the moments of the service time, the distribution from its phases.
    """

    rate: float
    service: PH

    @property
    def is_stable(self) -> bool:
        """True: a saturated queue is answered by `Saturated`."""
        return True

    @property
    def utilisation(self) -> float:
        """Rate times mean service time."""
        return self.rate * self.service.mean

    @cached_property
    def waiting(self) -> PhaseTypeResponse:
        """Time before the service starts; zero for the share 1 - utilisation."""
        rho = self.utilisation
        rest = self.service.alpha @ self.service.M / self.service.mean
        rest = rest / rest.sum()
        T = self.service.T + rho * np.outer(self.service.exits, rest)
        return PhaseTypeResponse(rho, PH(rest, T), chance=rho)

    @property
    def mean(self) -> float:
        """Mean sojourn time, by Pollaczek and Khinchine."""
        m1, m2 = self.service.moments(2)
        return float(m1 + self.rate * m2 / (2.0 * (1.0 - self.utilisation)))

    @property
    def variance(self) -> float:
        """Variance of the sojourn time, from the third moment of the service time."""
        m3 = float(self.service.moments(3)[2])
        waiting_mean = self.mean - self.service.mean
        return waiting_mean**2 + self.rate * m3 / (3.0 * (1.0 - self.utilisation)) + self.service.variance

    @cached_property
    def distribution(self) -> PH:
        """The sojourn time as a phase-type distribution."""
        rho, m = self.utilisation, self.service.order
        waiting = self.waiting.positive
        T = np.zeros((2 * m, 2 * m))
        T[:m, :m] = waiting.T
        T[:m, m:] = (1.0 - rho) * np.outer(self.service.exits, self.service.alpha)
        T[m:, m:] = self.service.T
        return PH(np.concatenate([rho * waiting.alpha, (1.0 - rho) * self.service.alpha]), T)

    def percentile(self, p: float) -> float:
        """The time that a share `p` of the records stays within."""
        return float(self.percentiles([p])[0])

    def percentiles(self, ps: Sequence[float]) -> FloatArray:
        """Several percentiles at once."""
        return self.distribution.quantile([check_probability(p) for p in ps])

    def cdf(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """Share of the records that stay within each of some times."""
        return self.distribution.cdf(times)


@dataclass(frozen=True)
class TwoMoments(MeansOnly):
    """The stable queue GI/G/1 known by two moments: a mean, and nothing about the distribution."""

    utilisation: float
    mean: float
    upper_bound: float
    """No queue GI/G/1 with these moments has a longer mean sojourn time (Kingman)."""

    why: ClassVar[str] = (
        "two moments of intervals and services fix the mean of GI/G/1 approximately and leave its "
        "distribution open; give the arrivals as a MAP and the service as a PH and use MAP/PH/1"
    )


def solve_m_g_1(rate: float, service: PH) -> PoissonArrivals | Saturated:
    """Give the sojourn time of the queue M/PH/1.

    Parameters
    ----------
    rate
        Arrivals per second.
    service
        Service time in seconds.

    Examples
    --------
    >>> queue = solve_m_g_1(0.5, PH.exponential(mean=1.0))
    >>> queue.mean, queue.variance, round(queue.percentile(0.5), 6)
    (2.0, 4.0, 1.386294)
    """
    arrivals = _positive("rate", rate)
    utilisation = arrivals * service.mean
    if not utilisation < SATURATION:
        return Saturated(utilisation)
    return PoissonArrivals(arrivals, service)


def solve_gi_g_1(rate: float, arrival_scv: float, service_mean: float, service_scv: float) -> TwoMoments | Saturated:
    """Give the mean sojourn time of the queue GI/G/1, and a bound of it.

    Parameters
    ----------
    rate
        Arrivals per second.
    arrival_scv, service_scv
        Squared coefficients of variation of the inter-arrival and of the service times.
    service_mean
        Mean service time in seconds.

    Examples
    --------
    >>> solve_gi_g_1(0.5, 1.0, 1.0, 1.0).mean
    2.0
    """
    arrivals, service = _positive("rate", rate), _positive("service_mean", service_mean)
    c_a, c_s = _scv("arrival_scv", arrival_scv), _scv("service_scv", service_scv)
    rho = arrivals * service
    if not rho < SATURATION:
        return Saturated(rho)
    bound = (c_a / rho + rho * c_s) * service / (2.0 * (1.0 - rho))
    waiting = service * rho / (1.0 - rho) * (c_a + c_s) / 2.0
    return TwoMoments(rho, service + waiting, service + bound)


def _positive(field: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise ConfigurationError(f"{field}: {value!r} must be a positive number", field=field)
    return float(value)


def _scv(field: str, value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigurationError(f"{field}: {value!r} must be a number of at least 0", field=field)
    return float(value)
