# SPDX-License-Identifier: Apache-2.0
"""Tests of phase-type distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH


def test_exponential_has_its_moments() -> None:
    """The k-th moment of an exponential of mean 2 is k! 2^k, its skewness 2."""
    exponential = PH.exponential(mean=2.0)
    assert exponential.moments(4) == pytest.approx([2.0, 8.0, 48.0, 384.0], rel=1e-14)
    assert exponential.skewness == pytest.approx(2.0, rel=1e-13)
    assert exponential.variance == pytest.approx(4.0)


def test_erlang_agrees_with_the_gamma_distribution() -> None:
    """Density, distribution and quantiles of an Erlang are those of a gamma of whole shape."""
    erlang, gamma = PH.erlang(5, mean=3.0), stats.gamma(5, scale=0.6)
    x = np.array([0.0, 0.01, 0.5, 3.0, 9.0, 40.0])
    assert erlang.pdf(x) == pytest.approx(gamma.pdf(x), rel=1e-12)
    assert erlang.cdf(x) == pytest.approx(gamma.cdf(x), rel=1e-12)
    assert erlang.sf(x) == pytest.approx(gamma.sf(x), rel=1e-12)
    p = np.array([1e-12, 1e-3, 0.5, 0.999, 1 - 1e-12])
    assert erlang.quantile(p) == pytest.approx(gamma.ppf(p), rel=1e-10)


def test_erlang_skewness_and_scv() -> None:
    """An Erlang of k phases has SCV 1/k and skewness 2/sqrt(k)."""
    erlang = PH.erlang(9, mean=1.0)
    assert erlang.scv == pytest.approx(1 / 9, rel=1e-12)
    assert erlang.skewness == pytest.approx(2 / 3, rel=1e-11)


def test_hyperexponential_is_the_mixture() -> None:
    """The tail of a hyperexponential is the weighted sum of tails."""
    mixture = PH.hyperexponential([0.3, 0.7], [1.0, 5.0])
    x = np.linspace(0, 6, 7)
    assert mixture.sf(x) == pytest.approx(0.3 * np.exp(-x) + 0.7 * np.exp(-5 * x), rel=1e-12)


def test_coxian_and_series_agree() -> None:
    """A Coxian that always goes on is the sum of its phases."""
    assert PH.coxian([1.0, 2.0], [1.0]) == PH.series([1.0, 0.5])


def test_stiff_mixture_is_accurate_in_both_tails() -> None:
    """Rates nine orders of magnitude apart leave cdf and tail right to eleven digits."""
    mixture = PH.hyperexponential([0.999, 0.001], [1e6, 1e-3])
    x = np.geomspace(1e-12, 3e4, 40)
    tail = 0.999 * np.exp(-1e6 * x) + 0.001 * np.exp(-1e-3 * x)
    head = -(0.999 * np.expm1(-1e6 * x) + 0.001 * np.expm1(-1e-3 * x))
    assert mixture.sf(x) == pytest.approx(tail, rel=1e-11)
    assert mixture.cdf(x) == pytest.approx(head, rel=1e-11)


def test_quantile_reaches_both_ends() -> None:
    """Probability 0 is at 0, 1 at infinity, and values in between keep their order and the array's shape."""
    erlang = PH.erlang(2, mean=1.0)
    values = erlang.quantile([[0.0, 0.2], [0.9, 1.0]])
    assert values.shape == (2, 2)
    assert values[0, 0] == 0.0
    assert np.isinf(values[1, 1])
    assert values[0, 1] < values[1, 0]


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_quantile_refuses_what_is_no_probability(bad: float) -> None:
    """Quantiles exist for probabilities only."""
    with pytest.raises(InvalidProcessError, match="must be a probability"):
        PH.exponential(mean=1.0).quantile(bad)


def test_distribution_outside_the_half_line() -> None:
    """Before zero nothing has ended, at infinity everything has, and NaN stays NaN."""
    exponential = PH.exponential(mean=1.0)
    assert exponential.cdf([-1.0, np.inf]).tolist() == [0.0, 1.0]
    assert exponential.sf([-1.0, np.inf]).tolist() == [1.0, 0.0]
    assert exponential.pdf([-1.0, np.inf]).tolist() == [0.0, 0.0]
    assert np.isnan(exponential.cdf(np.nan))


def test_scaling_keeps_the_shape() -> None:
    """Another mean leaves SCV and skewness alone."""
    coxian = PH.coxian([3.0, 1.0, 0.2], [0.5, 0.1])
    scaled = coxian.with_mean(1e-7)
    assert scaled.mean == pytest.approx(1e-7, rel=1e-12)
    assert (scaled.scv, scaled.skewness) == pytest.approx((coxian.scv, coxian.skewness), rel=1e-11)


def test_scaling_keeps_a_rare_exit() -> None:
    """The intervals of a process that hardly ever has an arrival keep their mean through a change of unit."""
    rare = MAP([[-1.0, 1.0], [1.0, -1.0 - 1e-18]], [[0.0, 0.0], [0.0, 1e-18]], tolerance=1e-9)
    assert rare.intervals.mean == pytest.approx(2e18, rel=1e-12)
    assert rare.intervals.time_scaled(1e-6).mean == pytest.approx(2e12, rel=1e-12)


def test_samples_have_the_moments() -> None:
    """The mean and SCV of 200,000 draws lie within five standard errors of the distribution's."""
    coxian = PH.coxian([3.0, 1.0, 0.2], [0.5, 0.3])
    draws = coxian.sample(200_000, np.random.default_rng(11))
    assert draws.mean() == pytest.approx(coxian.mean, abs=5 * np.sqrt(coxian.variance / draws.size))
    assert stats.kstest(coxian.cdf(draws[:20_000]), "uniform").pvalue > 1e-3


def test_sampling_repeats_for_a_seed() -> None:
    """The same seed gives the same draws, another seed others."""
    erlang = PH.erlang(2, mean=1.0)
    first = erlang.sample(50, np.random.default_rng(1))
    assert np.array_equal(first, erlang.sample(50, np.random.default_rng(1)))
    assert not np.array_equal(first, erlang.sample(50, np.random.default_rng(2)))


def test_values_cannot_be_changed() -> None:
    """The arrays of a distribution are read-only, and are copies of what was given."""
    T = np.array([[-1.0]])
    exponential = PH([1.0], T)
    T[0, 0] = -5.0
    assert exponential.T[0, 0] == -1.0
    with pytest.raises(ValueError, match="read-only"):
        exponential.T[0, 0] = -2.0


def test_equal_distributions_hash_alike() -> None:
    """Equality and hash go by the arrays."""
    assert PH.erlang(2, mean=1.0) == PH.erlang(2, mean=1.0)
    assert len({PH.erlang(2, mean=1.0), PH.erlang(2, mean=1.0), PH.erlang(2, mean=2.0)}) == 2
    assert PH.erlang(2, mean=1.0) != "Erlang"


def test_repr_tells_the_shape() -> None:
    """The text of a distribution gives order, mean and SCV."""
    assert repr(PH.erlang(4, mean=2.0)) == "PH(order=4, mean=2, scv=0.25)"


def test_json_round_trip() -> None:
    """What to_json writes, from_json reads as an equal distribution."""
    coxian = PH.coxian([3.0, 1.0], [0.3])
    assert PH.from_json(coxian.to_json()) == coxian


@pytest.mark.parametrize(
    ("alpha", "T", "message"),
    [
        ([0.5, 0.4], [[-1, 0], [0, -1]], r"alpha sums to 0.9"),
        ([1.5, -0.5], [[-1, 0], [0, -1]], r"alpha\[1\] = -0.5 must not be negative"),
        ([1.0], [[-1, 0], [0, -1]], r"alpha has 1 entries and T 2 rows"),
        ([1.0], [[1.0]], r"T\[0, 0\] = 1 must be negative"),
        ([1.0, 0], [[-1, -1], [0, -1]], r"T\[0, 1\] = -1 must not be negative"),
        ([1.0, 0], [[-1, 2], [0, -1]], r"row 0 of T sums to 1: it must not be positive"),
        ([1.0, 0], [[-1, 1], [1, -1]], r"from the phases \[0, 1\] of T absorption is never reached"),
        ([[1.0]], [[-1.0]], r"alpha must be a non-empty vector"),
    ],
)
def test_each_broken_condition_has_its_message(alpha: object, T: object, message: str) -> None:
    """The message names the condition, the entry and its value."""
    with pytest.raises(InvalidProcessError, match=message):
        PH(alpha, T)  # type: ignore[arg-type]


def test_bad_arguments_of_the_families_are_named() -> None:
    """Each constructor says which argument is wrong."""
    with pytest.raises(InvalidProcessError, match="mean = 0 must be positive"):
        PH.exponential(mean=0.0)
    with pytest.raises(InvalidProcessError, match="phases = 0"):
        PH.erlang(0, mean=1.0)
    with pytest.raises(InvalidProcessError, match=r"onward\[0\] = 2 must be a probability"):
        PH.coxian([1.0, 1.0], [2.0])
    with pytest.raises(InvalidProcessError, match="needs 1 onward probabilities, these are 0"):
        PH.coxian([1.0, 1.0], [])
    with pytest.raises(InvalidProcessError, match=r"rates\[1\] = -1 must be positive"):
        PH.hyperexponential([0.5, 0.5], [1.0, -1.0])
    with pytest.raises(InvalidProcessError, match="needs the entry 'T'; found: alpha"):
        PH.from_json({"alpha": [1.0]})
    with pytest.raises(InvalidProcessError, match="size = -1"):
        PH.exponential(mean=1.0).sample(-1, np.random.default_rng(0))


def test_a_series_knows_what_a_checked_distribution_computes() -> None:
    """The sums of exponential times that are made without checks equal those that pass them, in every part."""
    made = PH.series([0.5, 3.0, 1e-6])
    checked = PH(made.alpha, made.T)
    assert made == checked
    assert made.exits == pytest.approx(checked.exits, rel=1e-15)
    assert pytest.approx(checked.M, rel=1e-15) == made.M
    assert not any(part.flags.writeable for part in (made.alpha, made.T, made.M, made.exits))
    with pytest.raises(InvalidProcessError, match="at least one mean"):
        PH.series([])
    with pytest.raises(InvalidProcessError, match=r"1 / means\[0\] = inf"):
        PH.exponential(mean=1e-310)
