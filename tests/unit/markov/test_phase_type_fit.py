# SPDX-License-Identifier: Apache-2.0
"""Tests of phase-type distributions fitted to moments."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import PH, fit_mean_scv, fit_three_moments, fit_two_moments


@pytest.mark.parametrize("mean", [1e-6, 1.0, 3.6e6])
@pytest.mark.parametrize(
    ("scv", "family"),
    [
        (0.01, "erlang mixture"),
        (0.1, "erlang mixture"),
        (1 / 3, "erlang mixture"),
        (0.77, "erlang mixture"),
        (1.0, "exponential"),
        (1.01, "hyperexponential"),
        (4.0, "hyperexponential"),
        (1e4, "hyperexponential"),
    ],
)
def test_mean_and_scv_are_met(mean: float, scv: float, family: str) -> None:
    """Every variability above 1/256 is met exactly, in microseconds as in hours."""
    fit = fit_mean_scv(mean, scv)
    assert fit.family == family
    assert fit.is_exact
    assert fit.distribution.mean == pytest.approx(mean, rel=1e-10)
    assert fit.distribution.scv == pytest.approx(scv, rel=1e-9)


def test_hyperexponential_has_balanced_means() -> None:
    """Both branches contribute the same share of the mean."""
    branches = fit_mean_scv(2.0, 5.0).distribution
    shares = branches.alpha / -branches.T.diagonal()
    assert shares[0] == pytest.approx(shares[1], rel=1e-12)


@pytest.mark.parametrize("scv", [0.5, 0.8, 1.0, 7.0])
def test_coxian_meets_mean_and_scv(scv: float) -> None:
    """Marie's Coxian has two phases and the moments asked for."""
    fit = fit_mean_scv(3.0, scv, family="coxian")
    assert (fit.distribution.order, fit.family) == (2, "coxian")
    assert fit.distribution.moments(2) == pytest.approx([3.0, 9.0 * (1 + scv)], rel=1e-12)


def test_too_little_variability_is_stated() -> None:
    """Below what the phases allow, the Erlang is given and the move is told."""
    fit = fit_mean_scv(1.0, 0.0, max_phases=10)
    assert not fit.is_exact
    assert fit.moved == ("scv: 0 moved to 0.1, the least of 10 phases",)
    assert fit.distribution == PH.erlang(10, mean=1.0)


def test_a_family_that_cannot_is_refused() -> None:
    """A family named by the caller is not exchanged silently."""
    with pytest.raises(InvalidProcessError, match="hyperexponential family needs more than 1"):
        fit_mean_scv(1.0, 0.5, family="hyperexponential")
    with pytest.raises(InvalidProcessError, match="erlang mixture family needs less than 1"):
        fit_mean_scv(1.0, 2.0, family="erlang mixture")
    with pytest.raises(InvalidProcessError, match="needs at least 0"):
        fit_mean_scv(1.0, 0.4, family="coxian")


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
def test_three_moments_of_acyclic_distributions_are_met(unit: float) -> None:
    """Moments of random acyclic distributions are met with no more phases than the source, in any unit."""
    rng = np.random.default_rng(2)
    for _ in range(60):
        n = int(rng.integers(2, 7))
        rates = np.exp(rng.normal(size=n) * rng.choice([0.3, 1.5]))
        source = PH(rng.dirichlet(np.ones(n)), (np.diag(rates[:-1], 1) - np.diag(rates)) / unit)
        moments = source.moments(3)
        fit = fit_three_moments(*moments)
        assert fit.is_exact
        assert fit.distribution.order <= n
        assert fit.distribution.moments(3) == pytest.approx(moments, rel=1e-6)


def test_exponential_moments_give_one_phase() -> None:
    """Moments of the exponential distribution need one phase only."""
    fit = fit_three_moments(2.0, 8.0, 48.0)
    assert (fit.family, fit.distribution.order) == ("exponential", 1)


def test_erlang_moments_are_met() -> None:
    """The moments of an Erlang lie on the edge of what its phases can do, and are met there."""
    moments = PH.erlang(5, mean=2.0).moments(3)
    fit = fit_three_moments(*moments)
    assert fit.distribution.moments(3) == pytest.approx(moments, rel=1e-6)
    assert fit.distribution.order <= 6


def test_infeasible_third_moment_is_moved_and_stated() -> None:
    """A third moment out of reach of the phases allowed is moved to the bound, first two moments kept."""
    fit = fit_three_moments(1.0, 3.0, 9.5, max_phases=4)
    assert not fit.is_exact
    assert fit.moved[0].startswith("m3: 9.5 moved to 11.25")  # bound (n + 1) / n n2^2 = 5/4 9
    assert fit.distribution.moments(2) == pytest.approx([1.0, 3.0], rel=1e-6)


def test_infeasible_second_moment_is_moved_and_stated() -> None:
    """A second moment below the Erlang's gives the Erlang, and both moves are told."""
    fit = fit_three_moments(1.0, 1.01, 1.03, max_phases=8)
    assert fit.distribution == PH.erlang(8, mean=1.0)
    assert [move.split(":")[0] for move in fit.moved] == ["m2", "m3"]


def test_impossible_moments_are_refused() -> None:
    """Moments that no positive variable has are refused, each with its own message."""
    with pytest.raises(InvalidProcessError, match=r"below m1\^2 = 1: the variance would be negative"):
        fit_three_moments(1.0, 0.9, 1.0)
    with pytest.raises(InvalidProcessError, match=r"below m2\^2 / m1 = 4"):
        fit_three_moments(1.0, 2.0, 3.0)
    with pytest.raises(InvalidProcessError, match="variance would be negative"):
        fit_two_moments(2.0, 3.0)
    with pytest.raises(InvalidProcessError, match="scv = -1"):
        fit_mean_scv(1.0, -1.0)
    with pytest.raises(InvalidProcessError, match="max_phases = 1"):
        fit_three_moments(1.0, 3.0, 20.0, max_phases=1)


def test_two_moments_are_met() -> None:
    """The second moment is turned into an SCV and met."""
    assert fit_two_moments(2.0, 5.0).distribution.moments(2) == pytest.approx([2.0, 5.0])
