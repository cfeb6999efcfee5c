# SPDX-License-Identifier: Apache-2.0
"""Tests of the bounds on moments."""

from __future__ import annotations

import math

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import PH, second_moment_bound, third_moment_bounds


@pytest.mark.parametrize("c2", [0.5, 0.6, 0.8, 0.99])
def test_two_phases_agree_with_telek_and_heindl(c2: float) -> None:
    """For two phases and SCV below 1 the bounds are 3 (3 c2 - 1 + sqrt(2) (1 - c2)^1.5) and 6 c2."""
    # Telek and Heindl, "Matching moments for acyclic discrete and continuous phase-type distributions of second
    # order", International Journal of Simulation 3, 2002, with m1 = 1.
    low, high = third_moment_bounds(1.0, 1.0 + c2, 2)
    assert low == pytest.approx(3 * (3 * c2 - 1 + math.sqrt(2) * (1 - c2) ** 1.5), rel=1e-12)
    assert high == pytest.approx(6 * c2, rel=1e-12)


def test_two_phases_above_one_have_no_upper_bound() -> None:
    """For SCV above 1 the third moment is bounded by 3/2 (1 + c2)^2 from below only."""
    assert third_moment_bounds(1.0, 3.0, 2) == (13.5, math.inf)


def test_random_distributions_lie_within() -> None:
    """The third moments of random acyclic distributions are within the bounds of their order."""
    rng = np.random.default_rng(4)
    for n in (2, 3, 5):
        for _ in range(200):
            rates = np.exp(rng.normal(size=n))
            source = PH(rng.dirichlet(np.ones(n) * 0.5), np.diag(rates[:-1], 1) - np.diag(rates))
            m1, m2, m3 = source.moments(3)
            low, high = third_moment_bounds(m1, m2, n)
            assert m2 >= second_moment_bound(m1, n) * (1 - 1e-12)
            assert low * (1 - 1e-12) <= m3 <= high * (1 + 1e-12)


def test_bounds_scale_with_the_unit() -> None:
    """Times in microseconds have the bounds of times in seconds, times 1e18."""
    seconds, micro = third_moment_bounds(1.9, 5.0, 3), third_moment_bounds(1.9e6, 5.0e12, 3)
    assert np.array(micro) == pytest.approx(np.array(seconds) * 1e18, rel=1e-12)


def test_one_phase_has_no_bounds() -> None:
    """A single phase has its moments fixed by its mean."""
    with pytest.raises(InvalidProcessError, match="n = 1 must be at least 2"):
        third_moment_bounds(1.0, 2.0, 1)
