# SPDX-License-Identifier: Apache-2.0
"""Phase-type distributions from a mean and a variability, or from three moments; what could not be met is stated.

======  ==============================================================================================
Symbol  Meaning
======  ==============================================================================================
m_k     moments; c2 the squared coefficient of variation, m_2 / m_1^2 - 1
n       number of phases
e, y    mean of a chain of n - 1 equal phases, and of the one other phase, in units of m_1
p       probability of passing through the optional part
======  ==============================================================================================

Three moments (Bobbio, Horvath and Telek 2005, see `moment_bounds`): n - 1 equal phases and one other suffice
whenever n phases suffice at all, either the chain being optional and the other phase certain, or the reverse.
With the moments of the Erlang distribution put in and m_1 = 1:

* chain optional: e = (m_2 - 2 y)(n - 1) / (n (1 - y)), p = (1 - y) / e, and y solves the quadratic
  n (m_3 - 3 m_2 y)(1 - y) = (n + 1)(m_2 - 2 y)^2;
* other phase optional: with W = m_2 - 2 e + (2 - c) e^2, c = n / (n - 1), d = c (n + 1) / (n - 1):
  y = W / (2 (1 - e)), p = (1 - e) / y, and e solves the quartic
  m_3 (1 - e) = 3 W^2 / 2 + 3 W e (1 - e) + 3 c e^2 (1 - e)^2 + d e^3 (1 - e).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.polynomial import Polynomial

from penstock.errors import InvalidProcessError
from penstock.markov.conditions import require_positive
from penstock.markov.moment_bounds import second_moment_bound, third_moment_bounds
from penstock.markov.phase_type import PH

Family = Literal["auto", "erlang mixture", "hyperexponential", "coxian"]

_SLACK = 1e-9
_INSIDE = 1e-6
_MATCHED = 1e-7


@dataclass(frozen=True, slots=True)
class PhaseTypeFit:
    """A fitted distribution, the family it is of, and what was moved to make it possible.

    `moved` is empty when the moments asked for were met.
    """

    distribution: PH
    family: str
    moved: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether the distribution has the moments asked for."""
        return not self.moved


def fit_mean_scv(mean: float, scv: float, *, family: Family = "auto", max_phases: int = 256) -> PhaseTypeFit:
    """Give a phase-type distribution with this mean and squared coefficient of variation.

    By default: exponential for c2 = 1, a mixture of two Erlang distributions for less (Tijms, "Stochastic Models",
    1994, Sec. 5.5), two exponentials of balanced means for more (likewise). "coxian" is Marie's two-phase Coxian
    ("Calculating equilibrium probabilities for lambda(n)/C_k/1/N queues", 1980), for c2 of at least 0.5.

    Raises
    ------
    InvalidProcessError
        If the family asked for cannot have this variability. Below 1 / `max_phases` the Erlang distribution of
        `max_phases` phases is given, and `moved` says so.

    Examples
    --------
    >>> fit = fit_mean_scv(2.0, 0.3)
    >>> fit.family, fit.distribution.order, round(fit.distribution.mean, 9), round(fit.distribution.scv, 9)
    ('erlang mixture', 4, 2.0, 0.3)
    >>> fit_mean_scv(1.0, 1e-9, max_phases=64).moved
    ('scv: 1e-09 moved to 0.015625, the least of 64 phases',)
    """
    mean = require_positive("mean", mean)
    if not math.isfinite(scv) or scv < 0:
        raise InvalidProcessError(f"scv = {scv:g} must be finite and not negative")
    if family == "coxian":
        return PhaseTypeFit(_coxian(mean, scv), "coxian")
    if abs(scv - 1.0) <= _SLACK:
        return PhaseTypeFit(PH.exponential(mean=mean), "exponential")
    if scv > 1.0 and family in ("auto", "hyperexponential"):
        return PhaseTypeFit(_balanced_means(mean, scv), "hyperexponential")
    if scv > 1.0 or family == "hyperexponential":
        raise InvalidProcessError(
            f"scv = {scv:g}: the {family} family needs {'less' if scv > 1 else 'more'} than 1; choose auto"
        )
    if scv < (1.0 - _SLACK) / max_phases:
        moved = f"scv: {scv:.9g} moved to {1.0 / max_phases:.9g}, the least of {max_phases} phases"
        return PhaseTypeFit(PH.erlang(max_phases, mean=mean), "erlang mixture", (moved,))
    return PhaseTypeFit(_erlang_mixture(mean, scv), "erlang mixture")


def fit_two_moments(m1: float, m2: float, *, family: Family = "auto", max_phases: int = 256) -> PhaseTypeFit:
    """Give a phase-type distribution with these two moments; see `fit_mean_scv`.

    Examples
    --------
    >>> fit_two_moments(1.0, 3.0).distribution.moments(2).round(9).tolist()
    [1.0, 3.0]
    """
    m1, m2 = require_positive("m1", m1), require_positive("m2", m2)
    scv = m2 / m1 / m1 - 1.0
    if scv < -_SLACK:
        raise InvalidProcessError(f"m2 = {m2:g} is below m1^2 = {m1 * m1:g}: the variance would be negative")
    return fit_mean_scv(m1, max(scv, 0.0), family=family, max_phases=max_phases)


def fit_three_moments(m1: float, m2: float, m3: float, *, max_phases: int = 64) -> PhaseTypeFit:
    """Give the acyclic phase-type distribution of fewest phases with these three moments.

    Where not even `max_phases` phases can have them, m2 and then m3 are moved just inside the bounds of that many
    phases, and `moved` says from where to where.

    Raises
    ------
    InvalidProcessError
        If no distribution at all has these moments.

    Examples
    --------
    >>> fit = fit_three_moments(10, 125, 8400)
    >>> fit.distribution.order, fit.distribution.moments(3).round(6).tolist(), fit.is_exact
    (6, [10.0, 125.0, 8400.0], True)
    """
    m1, m2, m3 = (require_positive(name, value) for name, value in (("m1", m1), ("m2", m2), ("m3", m3)))
    if max_phases < 2:
        raise InvalidProcessError(f"max_phases = {max_phases} must be at least 2")
    n2, n3 = m2 / m1 / m1, m3 / m1 / m2
    if n2 < 1.0 - _SLACK:
        raise InvalidProcessError(f"m2 = {m2:g} is below m1^2 = {m1 * m1:g}: the variance would be negative")
    if n3 < n2 * (1.0 - _SLACK):
        raise InvalidProcessError(
            f"m3 = {m3:g} is below m2^2 / m1 = {m2 * m2 / m1:g}: no positive variable has these moments"
        )
    if abs(n2 - 2.0) <= _SLACK and abs(n3 - 3.0) <= _SLACK:
        return PhaseTypeFit(PH.exponential(mean=m1), "exponential")
    for n in range(2, max_phases + 1):
        low, high = third_moment_bounds(1.0, n2, n)
        if n2 >= second_moment_bound(1.0, n) and low <= n2 * n3 <= high:
            found = _chain_and_phase(n2, n2 * n3, n)
            if found is not None:
                return PhaseTypeFit(found.time_scaled(m1), "acyclic")
    moved: list[str] = []
    unit2, unit3 = n2, n2 * n3
    floor = second_moment_bound(1.0, max_phases)
    if unit2 <= floor:
        # At the bound itself only the Erlang distribution is left.
        if unit2 < floor * (1.0 - _SLACK):
            moved.append(f"m2: {m2:.9g} moved to {floor * m1 * m1:.9g}, the least of {max_phases} phases")
        erlang = PH.erlang(max_phases, mean=1.0)
        third = float(erlang.moments(3)[2])
        if abs(third - unit3) > _MATCHED * third:
            moved.append(f"m3: {m3:.9g} moved to {third * m1**3:.9g}")
        return PhaseTypeFit(erlang.time_scaled(m1), "erlang", tuple(moved))
    low, high = third_moment_bounds(1.0, unit2, max_phases)
    step = min(_INSIDE * low, 0.5 * (high - low))
    target = low + step if unit3 <= low else high - step
    moved.append(f"m3: {m3:.9g} moved to {target * m1**3:.9g}, a bound of {max_phases} phases")
    found = _chain_and_phase(unit2, target, max_phases)
    if found is None:
        raise InvalidProcessError(
            f"no acyclic distribution of {max_phases} phases near m1 = {m1:g}, m2 = {m2:g}, m3 = {m3:g}"
        )
    return PhaseTypeFit(found.time_scaled(m1), "acyclic", tuple(moved))


def _erlang_mixture(mean: float, c2: float) -> PH:
    k = max(2, math.ceil(1.0 / c2 * (1.0 - 1e-12)))
    p = (k * c2 - math.sqrt(max(k * (1.0 + c2) - k * k * c2, 0.0))) / (1.0 + c2)
    p = min(max(p, 0.0), 1.0)
    alpha = np.zeros(k)
    alpha[0], alpha[1] = 1.0 - p, p
    rate = (k - p) / mean
    return PH(alpha, rate * (np.diag(np.ones(k - 1), 1) - np.eye(k)))


def _balanced_means(mean: float, c2: float) -> PH:
    root = math.sqrt((c2 - 1.0) / (c2 + 1.0))
    p = 0.5 * (1.0 + root)
    rest = 1.0 / (c2 + 1.0) / (1.0 + root)  # 1 - p without the cancellation
    return PH.hyperexponential([p, rest], [2.0 * p / mean, 2.0 * rest / mean])


def _coxian(mean: float, c2: float) -> PH:
    if c2 < 0.5 * (1.0 - _SLACK):
        raise InvalidProcessError(f"scv = {c2:g}: a Coxian of two phases needs at least 0.5; leave the family to auto")
    p = min(0.5 / c2, 1.0)
    return PH.coxian([2.0 / mean, 1.0 / (mean * c2)], [p])


def _chain_and_phase(m2: float, m3: float, n: int) -> PH | None:
    """Give n phases with mean 1 and these moments, the better of the two structures, or ``None``."""
    candidates = []
    for y in _roots(_optional_chain(m2, m3, n)):
        e = (m2 - 2.0 * y) * (n - 1) / (n * (1.0 - y)) if y < 1.0 else 0.0
        if y > 0.0 and e > 0.0:
            candidates.append(_assemble((1.0 - y) / e, e, y, n, chain_first=True))
    for e in _roots(_optional_phase(m2, m3, n)):
        W = m2 - 2.0 * e + (2.0 - n / (n - 1)) * e * e
        y = W / (2.0 * (1.0 - e)) if e < 1.0 else 0.0
        if e > 0.0 and y > 0.0:
            candidates.append(_assemble((1.0 - e) / y, e, y, n, chain_first=False))
    best, best_error = None, _MATCHED
    for candidate in candidates:
        if candidate is None:
            continue
        error = float(np.max(np.abs(candidate.moments(3) / np.array([1.0, m2, m3]) - 1.0)))
        if error < best_error:
            best, best_error = candidate, error
    return best


def _assemble(p: float, e: float, y: float, n: int, *, chain_first: bool) -> PH | None:
    if not -_SLACK <= p <= 1.0 + _SLACK:
        return None
    p = min(max(p, 0.0), 1.0)
    stays = [e / (n - 1)] * (n - 1)
    stays = [*stays, y] if chain_first else [y, *stays]
    alpha = np.zeros(n)
    alpha[0] = p
    alpha[n - 1 if chain_first else 1] += 1.0 - p
    rates = 1.0 / np.array(stays)
    return PH(alpha, np.diag(rates[:-1], 1) - np.diag(rates))


def _optional_chain(m2: float, m3: float, n: int) -> Polynomial:
    y = Polynomial([0.0, 1.0])
    return n * (m3 - 3.0 * m2 * y) * (1.0 - y) - (n + 1) * (m2 - 2.0 * y) ** 2


def _optional_phase(m2: float, m3: float, n: int) -> Polynomial:
    e = Polynomial([0.0, 1.0])
    c = n / (n - 1)
    d = c * (n + 1) / (n - 1)
    W = m2 - 2.0 * e + (2.0 - c) * e**2
    rest = 1.0 - e
    return m3 * rest - 1.5 * W**2 - 3.0 * W * e * rest - 3.0 * c * e**2 * rest**2 - d * e**3 * rest


def _roots(polynomial: Polynomial) -> list[float]:
    """Give the roots between 0 and 1, double roots split by rounding included, polished by Newton's method."""
    found = []
    slope = polynomial.deriv()
    for root in polynomial.trim(1e-14 * float(np.max(np.abs(polynomial.coef)))).roots():
        value = complex(root)
        if abs(value.imag) > 1e-5 * max(abs(value), 1e-12):
            continue
        x = value.real
        for _ in range(3):
            gradient = float(slope(x))
            if gradient != 0.0:
                better = x - float(polynomial(x)) / gradient
                if abs(better - x) < 1e-3 * max(abs(x), 1e-12):
                    x = better
        if -1e-9 <= x <= 1.0 + 1e-9:
            found.append(min(max(x, 0.0), 1.0))
    return found
