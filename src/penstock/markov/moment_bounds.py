# SPDX-License-Identifier: Apache-2.0
"""Which moments an acyclic phase-type distribution of n phases can have.

Bobbio, Horvath and Telek, "Matching three moments with minimal acyclic phase type distributions", Stochastic
Models 21, 2005, in the normalised moments n2 = m2 / m1^2 and n3 = m3 / (m1 m2).
"""

from __future__ import annotations

import math

from penstock.errors import InvalidProcessError


def second_moment_bound(m1: float, n: int) -> float:
    """Give the least second moment of n phases, that of the Erlang distribution: m1^2 (n + 1) / n.

    Aldous and Shepp, "The least variable phase type distribution is Erlang", Stochastic Models 3, 1987.

    Examples
    --------
    >>> second_moment_bound(1.0, 2)
    1.5
    """
    return m1 * m1 * (n + 1) / n


def third_moment_bounds(m1: float, m2: float, n: int) -> tuple[float, float]:
    """Give the least and the greatest third moment of n phases with these first two moments.

    Two limits of n2 divide the cases: the lower bound changes at (n + 4) / (n + 1), the upper one is infinite
    beyond n / (n - 1). A second moment below its own bound has no third moment: the bounds of the least second
    moment are given.

    Examples
    --------
    >>> third_moment_bounds(1.0, 3.0, 2)
    (13.5, inf)
    """
    if n < 2:
        raise InvalidProcessError(
            f"n = {n} must be at least 2: one phase is exponential, with no third moment to choose"
        )
    n2 = max(m2 / (m1 * m1), (n + 1) / n)
    return _lower(n2, n) * m1 * n2 * m1 * m1, _upper(n2, n) * m1 * n2 * m1 * m1


def _lower(n2: float, n: int) -> float:
    if n2 >= (n + 4) / (n + 1):
        return (n + 1) / n * n2
    # Theorem 3.1 of Bobbio, Horvath and Telek (2005).
    root = math.sqrt(max(4.0 * (n + 1) - 3.0 * n * n2, 0.0))
    p = (n + 1) * (n2 - 2.0) / (3.0 * n2 * (n - 1)) * (-2.0 * math.sqrt(n + 1) / root - 1.0)
    a = (n2 - 2.0) / (p * (1.0 - n2) + math.sqrt(max(p * p + p * n * (n2 - 2.0) / (n - 1), 0.0)))
    return ((3.0 + a) * (n - 1) + 2.0 * a) / ((n - 1) * (1.0 + a * p)) - 2.0 * a * (n + 1) / (
        2.0 * (n - 1) + a * p * (n * a + 2.0 * n - 2.0)
    )


def _upper(n2: float, n: int) -> float:
    if n2 > n / (n - 1):
        return math.inf
    root = math.sqrt(max(1.0 + n * (n2 - 2.0) / (n - 1), 0.0))
    return (2.0 * (n - 2) * (n * n2 - n - 1) * root + (n + 2) * (3.0 * n * n2 - 2.0 * n - 2.0)) / (n * n * n2)
