# SPDX-License-Identifier: Apache-2.0
"""Tests of processes of two phases in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, map2_feasible, map2_from_moments, nearest_map2


def random_map2(rng: np.random.Generator) -> MAP:
    """Any process of two phases, in any unit of time."""
    D0, D1 = np.exp(1.5 * rng.normal(size=(2, 2))), np.exp(1.5 * rng.normal(size=(2, 2)))
    D0[rng.random((2, 2)) < 0.3] = 0.0
    D1[rng.random((2, 2)) < 0.3] = 0.0
    D1[0, 1], D1[1, 0] = D1[0, 1] + 0.01, D1[1, 0] + 0.01
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    unit = 10.0 ** rng.uniform(-9, 9)
    return MAP(D0 / unit, D1 / unit)


def test_every_two_phase_process_is_feasible_and_found_again() -> None:
    """The region holds every process of two phases, and moments and correlation come back from it."""
    rng = np.random.default_rng(8)
    for _ in range(400):
        source = random_map2(rng)
        moments, gamma = source.moments(3), source.decay
        if abs(source.scv - 1.0) < 1e-3:
            continue
        region = map2_feasible(*moments)
        assert region.gamma_low is not None
        assert region.gamma_high is not None
        assert region.gamma_low - 1e-9 <= gamma <= region.gamma_high + 1e-9
        m1, m2, m3 = moments
        found = map2_from_moments(m1, m2, m3, gamma)
        assert found.moments(3) == pytest.approx(moments, rel=1e-8)
        assert found.autocorrelation([1, 2, 3]) == pytest.approx(source.autocorrelation([1, 2, 3]), abs=1e-9)


@pytest.mark.parametrize(
    "moments", [(1.0, 1.6, 3.55), (1.0, 1.9, 5.3), (1.0, 2.5, 11.0), (1.0, 8.0, 900.0), (1.0, 3.0, 13.6)]
)
def test_bounds_of_gamma_are_sharp(moments: tuple[float, float, float]) -> None:
    """On both bounds the process exists and has the decay; just outside it is refused with the bounds."""
    region = map2_feasible(*moments)
    assert region.gamma_low is not None
    assert region.gamma_high is not None
    for gamma in (region.gamma_low, min(region.gamma_high, 1.0 - 1e-6), 0.0):
        process = map2_from_moments(*moments, gamma)
        assert process.moments(3) == pytest.approx(moments, rel=1e-7)
        assert process.decay == pytest.approx(gamma, abs=1e-7)
    for gamma in (region.gamma_low - 1e-6, region.gamma_high + 1e-6):
        with pytest.raises(InvalidProcessError, match=r"gamma = \S+ is outside \["):
            map2_from_moments(*moments, gamma)


def test_no_second_order_process_lies_beyond_the_bounds() -> None:
    """A thousand random canonical processes near each corner never exceed the stated bounds on gamma."""
    rng = np.random.default_rng(21)
    for _ in range(1000):
        x, y = np.sort(np.exp(rng.normal(size=2)))[::-1]
        a, b = rng.random(2) ** rng.choice([0.1, 1.0])
        D0 = np.array([[-1 / x, (1 - a) / x], [0.0, -1 / y]])
        positive = np.array([[a / x, 0.0], [(1 - b) / y, b / y]])
        negative = np.array([[0.0, a / x], [b / y, (1 - b) / y]])
        process = MAP(D0, positive if rng.random() < 0.5 else negative)
        if abs(process.scv - 1.0) < 1e-3:
            continue
        region = map2_feasible(*process.moments(3))
        assert region.gamma_low is not None
        assert region.gamma_high is not None
        assert region.gamma_low - 1e-8 <= process.decay <= region.gamma_high + 1e-8


def test_exponential_intervals_give_the_poisson_process() -> None:
    """With exponential intervals no decay has an effect: the Poisson process is the answer."""
    assert map2_from_moments(2.0, 8.0, 48.0, 0.5) == MAP.poisson(0.5)
    region = map2_feasible(2.0, 8.0, 48.0)
    assert (region.gamma_low, region.gamma_high) == (0.0, 0.0)
    fit = nearest_map2(2.0, 8.0, 48.0, 0.5)
    assert fit.process == MAP.poisson(0.5)
    assert fit.moved == ("gamma: 0.5 has no effect, exponential intervals are independent",)


def test_erlang_corner_is_reached() -> None:
    """The least variable intervals, SCV 1/2, leave no room for correlation and give the Erlang renewal process."""
    process = map2_from_moments(1.0, 1.5, 3.0, 0.0)
    assert process.scv == pytest.approx(0.5, rel=1e-12)
    assert process.autocorrelation(1) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 3.6e3])
def test_infeasible_requests_are_refused_with_bounds(unit: float) -> None:
    """Each value out of bounds is named with what is allowed, in any unit of time."""
    with pytest.raises(InvalidProcessError, match=r"m2 = \S+ is below 1.5 m1\^2 = \S+ \(SCV 0.4\)"):
        map2_from_moments(unit, 1.4 * unit**2, 3.0 * unit**3, 0.0)
    with pytest.raises(InvalidProcessError, match=r"m3 = \S+ is outside \["):
        map2_from_moments(unit, 3.0 * unit**2, 13.0 * unit**3, 0.0)
    with pytest.raises(InvalidProcessError, match=r"gamma = 1 is outside"):
        map2_from_moments(unit, 3.0 * unit**2, 15.0 * unit**3, 1.0)
    with pytest.raises(InvalidProcessError, match="m1 = -1 must be positive"):
        map2_from_moments(-1.0, 3.0, 15.0, 0.0)


def test_feasible_requests_are_left_alone() -> None:
    """What is feasible is met exactly, and nothing is said to have moved."""
    fit = nearest_map2(1.0, 3.0, 15.0, 0.5)
    assert fit.is_exact
    assert fit.process == map2_from_moments(1.0, 3.0, 15.0, 0.5)


def test_projection_moves_only_what_must() -> None:
    """Second moment, third moment and gamma are moved in this order, and each move is told."""
    low_m2 = nearest_map2(1.0, 1.2, 2.0, 0.3)
    assert [move.split(":")[0] for move in low_m2.moved] == ["m2", "m3", "gamma"]
    assert low_m2.process.scv == pytest.approx(0.5, rel=1e-9)
    low_m3 = nearest_map2(1.0, 3.0, 5.0, 0.5)
    assert low_m3.process.moments(2) == pytest.approx([1.0, 3.0], rel=1e-9)
    assert low_m3.process.decay == pytest.approx(0.5, abs=1e-9)
    high_m3 = nearest_map2(1.0, 1.8, 9.0, 0.0)
    assert high_m3.moved[0].startswith("m3: 9 moved to 4.79999")
    wild_gamma = nearest_map2(1.0, 3.0, 15.0, 1.5)
    assert wild_gamma.moved == ("gamma: 1.5 moved to 0.999999",)
    assert nearest_map2(1.0, 3.0, 15.0, -5.0).process.decay < -0.2
    with pytest.raises(InvalidProcessError, match="gamma = nan must be finite"):
        nearest_map2(1.0, 3.0, 15.0, float("nan"))


def test_projection_always_gives_a_valid_process() -> None:
    """Any positive moments and any gamma give a process with the mean asked for."""
    rng = np.random.default_rng(13)
    for _ in range(300):
        m1, m2, m3 = np.exp(3.0 * rng.normal(size=3))
        fit = nearest_map2(m1, m2, m3, float(rng.uniform(-2, 2)))
        assert fit.process.mean == pytest.approx(m1, rel=1e-6)


def test_open_bound_of_the_third_moment_is_not_reached() -> None:
    """On the lower bound of m3 a stay would have no length: it is refused, and stepped away from."""
    with pytest.raises(InvalidProcessError, match=r"m3 = 13\.5 is outside"):
        map2_from_moments(1.0, 3.0, 13.5, 0.1)
    assert nearest_map2(1.0, 3.0, 13.5, 0.1).process.moments(3) == pytest.approx([1.0, 3.0, 13.5], rel=1e-5)


def test_heavy_variability_keeps_its_digits() -> None:
    """An SCV of a billion with a decay near one has its moments to ten digits."""
    moments = (1e-6, 1e-12 * 1e9, 1e-18 * 1e19)
    process = map2_from_moments(*moments, 0.99999)
    assert process.moments(3) == pytest.approx(moments, rel=1e-10)
    assert 1.0 - process.decay == pytest.approx(1e-5, rel=1e-6)


def test_region_without_a_third_moment_has_no_gamma() -> None:
    """Bounds on gamma need a third moment that is possible."""
    assert map2_feasible(1.0, 3.0).gamma_low is None
    assert map2_feasible(1.0, 3.0, 5.0).gamma_high is None
