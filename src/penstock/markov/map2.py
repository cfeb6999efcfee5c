# SPDX-License-Identifier: Apache-2.0
"""MAPs of two phases in closed form, from three moments and the decay of the autocorrelation.

======  ==============================================================================================
Symbol  Meaning
======  ==============================================================================================
m_k     moments of the inter-arrival time; below, times are divided by m_1
h2      m_2 / 2 - 1, negative for less and positive for more variability than exponential
h3      m_3 / 6 - (m_2 / 2)^2
x >= y  mean stays in the two phases: roots of z^2 - (1 + h2 + q) z + q with q = x y = h3 / h2
u       x + y - 1 = h2 + q
gamma   rho_(k+1) / rho_k, the second eigenvalue of the embedded chain; rho_1 = gamma h2 / SCV
a, b    probabilities in the canonical forms, from 0 to 1
======  ==============================================================================================

Both canonical forms have D0 = [[-1/x, (1-a)/x], [0, -1/y]], and

* gamma >= 0: D1 = [[a/x, 0], [(1-b)/y, b/y]], gamma = a b,
* gamma < 0:  D1 = [[0, a/x], [b/y, (1-b)/y]], gamma = -a b

(Bodrog, Heindl, Horvath and Telek, "A Markovian canonical form of second-order matrix-exponential processes",
European Journal of Operational Research 190, 2008). Matching the transform of the interval, (1 + u s) / ((1 + x
s)(1 + y s)), gives in the first form A = a y and B = b x as the roots of z^2 - (u (1 - gamma) + gamma (x + y)) z
+ gamma x y, and in the second b = (1 - y - gamma) / x. That 0 <= a, b <= 1 bounds gamma:

* from above by 1 (not reached) if h2 > 0, and by (sqrt(q) - sqrt(-h2))^2 if h2 < 0;
* from below by -u, or by -(1 - y) / (x - 1) if u > 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from penstock.errors import InvalidProcessError
from penstock.markov.arrival_process import MAP
from penstock.markov.conditions import require_positive
from penstock.markov.moment_bounds import second_moment_bound, third_moment_bounds

EXPONENTIAL_MARGIN = 1e-9
"""|h2| up to which an interval counts as exponential: there gamma has no effect, and h3 / h2 no meaning."""

_SLACK = 1e-9
"""How far outside a bound, relative to it, a value is taken to be on it."""

_INSIDE = 1e-6
"""How far inside an open bound `nearest_map2` goes, relative to it."""


@dataclass(frozen=True, slots=True)
class Map2Region:
    """What a MAP of two phases can have: bounds on the third moment given the first two, on gamma given all three.

    `m3_high` is infinite for h2 > 0. `gamma_high` is 1 for h2 > 0, where it cannot be reached. The bounds on gamma
    are ``None`` when no third moment was given or it is out of bounds; both are 0 for exponential intervals.
    """

    m2_low: float
    m3_low: float
    m3_high: float
    gamma_low: float | None
    gamma_high: float | None


@dataclass(frozen=True, slots=True)
class Map2Fit:
    """A MAP of two phases (one, if it is Poisson) and how it came about.

    `moved` names what had to be changed to be feasible, each with the value asked for and the value taken; empty
    when the request was met.
    """

    process: MAP
    moved: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        """Whether the process has the moments and the decay asked for."""
        return not self.moved


def map2_feasible(m1: float, m2: float, m3: float | None = None) -> Map2Region:
    """Give the bounds within which a MAP of two phases exists.

    Examples
    --------
    >>> region = map2_feasible(1.0, 1.8, 4.7)
    >>> round(region.m3_low, 6), round(region.m3_high, 6)
    (4.579473, 4.8)
    >>> round(region.gamma_low, 6), round(region.gamma_high, 6)
    (-0.166667, 0.040068)
    """
    m1 = require_positive("m1", m1)
    m2 = require_positive("m2", m2)
    low, high = third_moment_bounds(m1, m2, 2)
    gamma_low = gamma_high = None
    if m3 is not None and _in_bounds(require_positive("m3", m3), low, high):
        shape = _shape(m1, m2, min(max(m3, low), high))
        gamma_low, gamma_high = (0.0, 0.0) if shape is None else _gamma_bounds(*shape)
    return Map2Region(second_moment_bound(m1, 2), low, high, gamma_low, gamma_high)


def map2_from_moments(m1: float, m2: float, m3: float, gamma: float) -> MAP:
    """Give the MAP of two phases with these moments and this decay of the autocorrelation.

    Exponential intervals (m2 = 2 m1^2, m3 = 6 m1^3) have no autocorrelation at any gamma: the Poisson process is
    given.

    Raises
    ------
    InvalidProcessError
        Naming the value that is out of bounds and the bounds. `nearest_map2` moves it instead.

    Examples
    --------
    >>> process = map2_from_moments(1.0, 3.0, 15.0, 0.5)
    >>> process.moments(3).round(9).tolist(), round(process.decay, 9)
    ([1.0, 3.0, 15.0], 0.5)
    >>> negative = map2_from_moments(1.0, 3.0, 15.0, -0.25)
    >>> round(negative.decay, 9)
    -0.25
    """
    m1, m2, m3 = (require_positive(name, value) for name, value in (("m1", m1), ("m2", m2), ("m3", m3)))
    floor = second_moment_bound(m1, 2)
    if m2 < floor * (1.0 - _SLACK):
        raise InvalidProcessError(
            f"m2 = {m2:.9g} is below 1.5 m1^2 = {floor:.9g} (SCV {m2 / m1**2 - 1.0:.6g}): two phases are too few"
        )
    low, high = third_moment_bounds(m1, max(m2, floor), 2)
    if not _in_bounds(m3, low, high):
        raise InvalidProcessError(
            f"m3 = {m3:.9g} is outside [{low:.9g}, {high:.9g}], what two phases allow at these m1, m2"
        )
    shape = _shape(m1, max(m2, floor), min(max(m3, low), high))
    if shape is None:
        return MAP.poisson(1.0 / m1)
    gamma_low, gamma_high = _gamma_bounds(*shape)
    if not gamma_low - _SLACK <= gamma <= gamma_high + _SLACK or gamma >= 1.0:
        raise InvalidProcessError(
            f"gamma = {gamma:.9g} is outside [{gamma_low:.9g}, {gamma_high:.9g}], what these moments allow"
        )
    return _canonical(m1, shape, min(max(gamma, gamma_low), gamma_high))


def nearest_map2(m1: float, m2: float, m3: float, gamma: float) -> Map2Fit:
    """Give the MAP of two phases nearest to the request: what is out of bounds is moved just inside, in order.

    First m2 up to its bound, then m3 between its bounds, then gamma between the bounds that follow; `moved` says
    so.

    Examples
    --------
    >>> fit = nearest_map2(1.0, 3.0, 5.0, 0.5)
    >>> fit.is_exact, fit.moved
    (False, ('m3: 5 moved to 13.5000135',))
    """
    m1, m2, m3 = (require_positive(name, value) for name, value in (("m1", m1), ("m2", m2), ("m3", m3)))
    if not math.isfinite(gamma):
        raise InvalidProcessError(f"gamma = {gamma} must be finite")
    moved: list[str] = []
    floor = second_moment_bound(m1, 2)
    if m2 < floor * (1.0 - _SLACK):
        moved.append(f"m2: {m2:.9g} moved to {floor:.9g}")
    m2 = max(m2, floor)
    low, high = third_moment_bounds(m1, m2, 2)
    if not _in_bounds(m3, low, high):
        # At m2 = 2 m1^2 and at 1.5 m1^2 both bounds meet: then there is no inside to step into.
        step = min(_INSIDE * low, 0.5 * (high - low))
        target = low + step if m3 <= low * (1.0 + _SLACK) else high - step
        moved.append(f"m3: {m3:.9g} moved to {target:.9g}")
        m3 = target
    shape = _shape(m1, m2, min(max(m3, low), high))
    if shape is None:
        if gamma != 0.0:
            moved.append(f"gamma: {gamma:.9g} has no effect, exponential intervals are independent")
        return Map2Fit(MAP.poisson(1.0 / m1), tuple(moved))
    gamma_low, gamma_high = _gamma_bounds(*shape)
    nearest = min(max(gamma, gamma_low), gamma_high if gamma_high < 1.0 else 1.0 - _INSIDE)
    if abs(nearest - gamma) > _SLACK:
        moved.append(f"gamma: {gamma:.9g} moved to {nearest:.9g}")
    return Map2Fit(_canonical(m1, shape, nearest), tuple(moved))


def _in_bounds(m3: float, low: float, high: float) -> bool:
    # For h2 > 0 (no upper bound) the lower one is a limit that is not reached: there y would be 0.
    edge = 1.0 + _SLACK if math.isinf(high) else 1.0 - _SLACK
    return low * edge <= m3 <= high * (1.0 + _SLACK)


def _shape(m1: float, m2: float, m3: float) -> tuple[float, float, float] | None:
    """Give the mean stays x >= y in units of m1, and 1 - y; or ``None`` for exponential intervals."""
    half = m2 / (2.0 * m1 * m1)
    h2 = half - 1.0
    if abs(h2) <= EXPONENTIAL_MARGIN:
        return None
    h3 = m3 / (6.0 * m1 * m1 * m1) - half * half
    q = max(h3 / h2, 0.0)
    s = 1.0 + h2 + q
    x = 0.5 * (s + math.sqrt(max(s * s - 4.0 * q, 0.0)))
    y = q / x
    # (1 - y)(x - 1) = h2: for large x the difference 1 - y would have lost its digits.
    return x, y, h2 / (x - 1.0) if x > 1.0 else 1.0 - y


def _gamma_bounds(x: float, y: float, rest: float) -> tuple[float, float]:
    u = max(x - rest, 0.0)
    less_variable = max(math.sqrt(x * y) - math.sqrt(max((1.0 - x) * rest, 0.0)), 0.0) ** 2
    high = 1.0 if x > 1.0 else less_variable
    low = -u if u <= 1.0 else -max(rest, 0.0) / (x - 1.0)
    return low, high


def _canonical(m1: float, shape: tuple[float, float, float], gamma: float) -> MAP:
    # `not_a` and `not_b` are 1 - a and 1 - b from formulas of their own: b may differ from 1 by less than rounding.
    x, y, rest = shape
    if gamma >= 0.0:
        # w = x - B solves w^2 - (x + (1 - y)(1 - gamma) - gamma y) w + x (1 - gamma)(1 - y) = 0.
        total = x + rest * (1.0 - gamma) - gamma * y
        product = x * (1.0 - gamma) * rest
        w = 2.0 * product / (total + math.sqrt(max(total * total - 4.0 * product, 0.0)))
        b, not_b = max(1.0 - w / x, 0.0), min(w / x, 1.0)
        a = min(gamma / b, 1.0) if b > 0.0 else 0.0
        not_a = 1.0 - a
        D1 = np.array([[a / x, 0.0], [not_b / y, b / y]])
    else:
        b = min(max((rest - gamma) / x, 0.0), 1.0)
        a = min(-gamma / b, 1.0)
        not_a = max(rest + gamma * (x - 1.0), 0.0) / (x * b)
        D1 = np.array([[0.0, a / x], [b / y, (1.0 - b) / y]])
    D0 = np.array([[-(a + not_a) / x, not_a / x], [0.0, -D1[1].sum()]])
    return MAP(D0 / m1, D1 / m1)
