# SPDX-License-Identifier: Apache-2.0
"""Laws that hold for every chain, phase-type distribution and arrival process."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.markov import (
    MAP,
    PH,
    compose,
    composed_autocorrelation,
    composed_bicovariance,
    composed_moments,
    fit_mean_scv,
    map2_feasible,
    map2_from_moments,
    stationary,
    superpose,
)

ENOUGH = settings(max_examples=60, deadline=None)
RATES = st.floats(min_value=1e-3, max_value=1e3)
RATES_OR_NONE = st.one_of(st.just(0.0), RATES)
FACTORS = st.floats(min_value=-9, max_value=9).map(lambda exponent: float(10.0**exponent))


@st.composite
def square(draw: st.DrawFn, n: int, entries: st.SearchStrategy[float]) -> np.ndarray:
    """A square matrix of rates."""
    return np.array(draw(st.lists(st.lists(entries, min_size=n, max_size=n), min_size=n, max_size=n)))


@st.composite
def processes(draw: st.DrawFn, largest: int = 4, hidden: bool = True, periodic: bool = True) -> MAP:
    """Any process of up to `largest` phases; a cycle of arrivals makes it irreducible."""
    n = draw(st.integers(1, largest))
    D0 = draw(square(n, RATES_OR_NONE)) if hidden else np.zeros((n, n))
    D1 = draw(square(n, RATES_OR_NONE)) + np.roll(np.diag([draw(RATES) for _ in range(n)]), 1, axis=1)
    if not periodic:
        D1 += np.diag([draw(RATES) for _ in range(n)])
    np.fill_diagonal(D0, 0.0)
    np.fill_diagonal(D0, -(D0.sum(axis=1) + D1.sum(axis=1)))
    return MAP(D0, D1)


@st.composite
def distributions(draw: st.DrawFn, largest: int = 4) -> PH:
    """Any phase-type distribution of up to `largest` phases."""
    n = draw(st.integers(1, largest))
    T = draw(square(n, RATES_OR_NONE))
    exits = np.array([draw(RATES) for _ in range(n)])
    np.fill_diagonal(T, 0.0)
    np.fill_diagonal(T, -(T.sum(axis=1) + exits))
    weights = np.array([draw(st.floats(0.01, 1.0)) for _ in range(n)])
    return PH(weights / weights.sum(), T)


@ENOUGH
@given(processes(), FACTORS)
def test_generators_sum_to_zero_and_have_a_stationary_vector(process: MAP, factor: float) -> None:
    """Rows of D0 + D1 sum to zero and theta is a probability vector that solves theta Q = 0, in any unit."""
    scaled = process.time_scaled(factor)
    size = np.abs(scaled.D0).max()
    assert (scaled.D0 + scaled.D1).sum(axis=1) / size == pytest.approx(np.zeros(process.order), abs=1e-13)
    assert scaled.theta.sum() == pytest.approx(1.0, rel=1e-12)
    assert (scaled.theta >= 0).all()
    assert scaled.theta @ scaled.Q / size == pytest.approx(np.zeros(process.order), abs=1e-13)
    assert stationary(scaled.Q) == pytest.approx(process.theta, rel=1e-10)


@ENOUGH
@given(processes())
def test_embedded_chain_is_stochastic_with_its_stationary_vector(process: MAP) -> None:
    """P has rows that sum to one, pi P = pi, and the mean interval is one over the rate."""
    assert process.P.sum(axis=1) == pytest.approx(np.ones(process.order), rel=1e-12)
    assert process.pi @ process.P == pytest.approx(process.pi, abs=1e-12)
    assert process.intervals.mean * process.rate == pytest.approx(1.0, rel=1e-10)


@ENOUGH
@given(processes(3), processes(3))
def test_superposed_rate_is_the_sum(one: MAP, other: MAP) -> None:
    """Rates of superposed streams add, and so do the limits of the variances of their counts."""
    both = superpose(one, other)
    assert both.rate == pytest.approx(one.rate + other.rate, rel=1e-10)
    parts = one.rate * one.asymptotic_idc + other.rate * other.asymptotic_idc
    assert both.rate * both.asymptotic_idc == pytest.approx(parts, rel=1e-7)


@ENOUGH
@given(processes(), st.floats(1e-6, 1.0), FACTORS)
def test_thinning_multiplies_rate_and_excess_dispersion(process: MAP, share: float, factor: float) -> None:
    """Keeping a share p of the arrivals gives p times the rate, and IDC - 1 shrinks to p times what it was."""
    thinned = process.time_scaled(factor).thinned(share)
    assert thinned.rate * factor == pytest.approx(process.rate * share, rel=1e-10)
    expected = 1.0 + share * (process.asymptotic_idc - 1.0)
    assert thinned.asymptotic_idc == pytest.approx(expected, rel=1e-7, abs=1e-9)


@ENOUGH
@given(processes(2), processes(2, hidden=False, periodic=False), processes(2, hidden=False, periodic=False))
def test_composition_has_the_moments_of_the_formula(first: MAP, second: MAP, third: MAP) -> None:
    """Moments, autocorrelation and bicovariance of a Kronecker composition follow from its components."""
    parts = [first, second, third]
    composed = compose(*parts)
    assert composed_moments(parts, 3) == pytest.approx(composed.moments(3), rel=1e-8)
    assert composed_autocorrelation(parts, [1, 2, 10]) == pytest.approx(
        composed.autocorrelation([1, 2, 10]), rel=1e-6, abs=1e-9
    )
    size = composed.mean**3 * (1.0 + composed.scv) ** 2
    assert composed_bicovariance(parts, [1, 2], [1, 3]) / size == pytest.approx(
        composed.bicovariance([1, 2], [1, 3]) / size, rel=1e-6, abs=1e-9
    )


@ENOUGH
@given(distributions())
def test_renewal_processes_have_no_autocorrelation(distribution: PH) -> None:
    """Independent intervals have autocorrelation zero and keep their moments."""
    renewal = MAP.renewal(distribution)
    assert renewal.moments(3) == pytest.approx(distribution.moments(3), rel=1e-9)
    assert renewal.autocorrelation([1, 2, 50]) == pytest.approx(np.zeros(3), abs=1e-10)
    assert renewal.asymptotic_idc == pytest.approx(distribution.scv, rel=1e-7)


@ENOUGH
@given(processes(), FACTORS)
def test_scaling_time_leaves_the_shape(process: MAP, factor: float) -> None:
    """From nanoseconds to decades SCV, skewness, autocorrelation and dispersion stay the same."""
    scaled = process.time_scaled(factor)
    assert scaled.mean == pytest.approx(process.mean * factor, rel=1e-10)
    assert scaled.scv == pytest.approx(process.scv, rel=1e-9)
    assert scaled.skewness == pytest.approx(process.skewness, rel=1e-7)
    assert scaled.autocorrelation([1, 5]) == pytest.approx(process.autocorrelation([1, 5]), rel=1e-6, abs=1e-11)
    t = 3.0 * process.mean
    assert scaled.idc(t * factor) == pytest.approx(float(process.idc(t)), rel=1e-8)


@ENOUGH
@given(
    distributions(), st.lists(st.floats(0.0, 1.0, exclude_min=True, exclude_max=True), min_size=1, max_size=20), FACTORS
)
def test_quantile_inverts_the_distribution(distribution: PH, p: list[float], factor: float) -> None:
    """P(X <= quantile(p)) is p, to the accuracy with which p and 1 - p are known."""
    scaled = distribution.time_scaled(factor)
    x = scaled.quantile(p)
    assert scaled.cdf(x) == pytest.approx(np.array(p), rel=1e-9, abs=1e-300)
    # Where the distribution is not flat, x comes back from its probability as well.
    steep = (scaled.pdf(x) * x > 1e-3) & (scaled.sf(x) > 1e-3)
    assert scaled.quantile(scaled.cdf(x[steep])) == pytest.approx(x[steep], rel=1e-9)


@ENOUGH
@given(processes(), FACTORS)
def test_json_round_trip_is_exact(process: MAP, factor: float) -> None:
    """A process written as JSON text and read back is equal to itself."""
    scaled = process.time_scaled(factor)
    assert MAP.from_json(json.loads(json.dumps(scaled.to_json()))) == scaled


@ENOUGH
@given(processes(2), FACTORS)
def test_two_phase_processes_come_back_from_their_descriptors(process: MAP, factor: float) -> None:
    """Every process of two phases is feasible, and its moments and correlation are rebuilt in closed form."""
    scaled = process.time_scaled(factor)
    m1, m2, m3 = scaled.moments(3)
    if process.order == 1 or abs(scaled.scv - 1.0) < 1e-4:
        return
    region = map2_feasible(m1, m2, m3)
    if region.gamma_low is None:  # so near the open bound on m3 that rounding hides the second phase
        assert m3 == pytest.approx(region.m3_low, rel=2e-9)
        return
    rebuilt = map2_from_moments(m1, m2, m3, scaled.decay)
    assert rebuilt.moments(3) == pytest.approx([m1, m2, m3], rel=1e-7)
    assert rebuilt.autocorrelation([1, 2]) == pytest.approx(scaled.autocorrelation([1, 2]), abs=1e-8)


@ENOUGH
@given(st.floats(0.005, 1e6), FACTORS)
def test_fitted_distributions_have_mean_and_scv(scv: float, mean: float) -> None:
    """Every variability above the least of the phases is met in every unit."""
    fit = fit_mean_scv(mean, scv)
    assert fit.is_exact
    assert fit.distribution.mean == pytest.approx(mean, rel=1e-9)
    assert fit.distribution.scv == pytest.approx(scv, rel=1e-7)


@ENOUGH
@given(processes(3), st.floats(0.01, 30.0))
def test_counts_have_rate_and_dispersion(process: MAP, arrivals: float) -> None:
    """The distribution of counts sums to one and has the mean and the variance of the process."""
    t = min(arrivals * process.mean, 2e3 / float(np.max(-process.D0.diagonal())))
    counts = process.count_distribution(t, tolerance=1e-13)
    k = np.arange(counts.size)
    assert counts.sum() == pytest.approx(1.0, abs=1e-10)
    assert k @ counts == pytest.approx(process.rate * t, rel=1e-7)
    variance = (k - k @ counts) ** 2 @ counts
    assert variance == pytest.approx(process.rate * t * float(process.idc(t)), rel=1e-6)
