# SPDX-License-Identifier: Apache-2.0
"""Windows of inter-arrival times in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import MAP, map2_from_moments
from penstock.workload import describe_iats, spread_ties
from penstock.workload.moments import LEAST

BURSTY = map2_from_moments(1.0, 5.0, 60.0, 0.9)


def test_moments_are_those_of_the_sample() -> None:
    """Mean, second and third moment, SCV and skewness are the plain sample statistics."""
    x = np.random.default_rng(1).gamma(0.5, 2.0, 5000)
    trace = describe_iats(x)
    assert trace.n == 5000
    assert trace.mean == pytest.approx(x.mean())
    assert trace.m2 == pytest.approx((x**2).mean())
    assert trace.m3 == pytest.approx((x**3).mean())
    assert trace.scv == pytest.approx(x.var() / x.mean() ** 2)
    assert trace.skewness == pytest.approx(((x - x.mean()) ** 3).mean() / x.std() ** 3)


def test_autocorrelation_equals_its_definition() -> None:
    """The FFT gives the sums of products, lag by lag."""
    x = BURSTY.sample(3000, np.random.default_rng(2))
    trace = describe_iats(x)
    d = x - x.mean()
    for lag in (1, 7, 100):
        assert trace.acf[lag - 1] == pytest.approx((d[:-lag] @ d[lag:]) / (d @ d), abs=1e-12)
    assert trace.acf_at_lags == pytest.approx(trace.acf[trace.lags - 1], abs=1e-12)


@pytest.mark.parametrize("factor", [1e-6, 3600.0])
def test_unit_of_time_does_not_matter(factor: float) -> None:
    """Microseconds and hours give the same dimensionless numbers, and times scaled."""
    x = BURSTY.sample(4000, np.random.default_rng(3))
    one, other = describe_iats(x), describe_iats(x * factor)
    assert other.mean == pytest.approx(one.mean * factor)
    assert other.scv == pytest.approx(one.scv)
    assert other.acf == pytest.approx(one.acf, abs=1e-9)
    assert other.idc == pytest.approx(one.idc)
    assert other.idc_widths == pytest.approx(one.idc_widths * factor)


def test_standard_errors_hold_what_they_say() -> None:
    """Over many samples of a correlated process, descriptors nearly always lie within 3 errors of the truth."""
    rng = np.random.default_rng(4)
    misses = dict.fromkeys(("mean", "scv", "rho", "idi"), 0)
    for _ in range(60):
        trace = describe_iats(BURSTY.sample(8000, rng))
        misses["mean"] += abs(trace.mean - BURSTY.mean) > 3 * trace.mean_error
        misses["scv"] += abs(trace.scv - BURSTY.scv) > 3 * trace.scv_error
        misses["rho"] += abs(trace.acf_at_lags[0] - BURSTY.autocorrelation(1)) > 3 * trace.acf_errors[0]
        at = 4
        truth = BURSTY.idi(int(trace.idi_counts[at]))
        misses["idi"] += abs(trace.idi[at] - truth) > 3 * trace.idi_errors[at]
    assert max(misses.values()) <= 6, misses


def test_long_memory_makes_errors_larger_than_independence_would() -> None:
    """The error of the mean of a slowly modulated process is far above that of independent times of its variance."""
    slow = MAP.mmpp([[-0.001, 0.001], [0.001, -0.001]], [0.2, 2.0])
    trace = describe_iats(slow.sample(20_000, np.random.default_rng(5)))
    independent = np.sqrt(trace.scv / trace.n) * trace.mean
    assert trace.mean_error > 5 * independent


def test_dispersion_of_counts_agrees_with_the_process() -> None:
    """IDC over the grid of widths lies near that of the process sampled."""
    process = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.5, 2.0])
    trace = describe_iats(process.sample(200_000, np.random.default_rng(6)))
    truth = process.idc(trace.idc_widths)
    assert np.all(np.abs(trace.idc - truth) < 5 * trace.idc_errors + 0.02)


def test_zeros_and_coarse_clock_are_reported() -> None:
    """Times rounded to whole seconds, many a second, show as zeros and as the clock's step."""
    arrivals = np.floor(np.cumsum(np.random.default_rng(7).exponential(0.1, 20_000)))
    trace = describe_iats(np.diff(arrivals))
    assert trace.coarse_step == 1.0
    assert trace.zero_share > 0.8
    assert any("coarse clock" in note for note in trace.notes)
    assert any("share a time stamp" in note for note in trace.notes)


def test_fine_clock_is_not_called_coarse() -> None:
    """Microsecond stamps of millisecond gaps are fine enough."""
    arrivals = np.floor(np.cumsum(np.random.default_rng(8).exponential(3e-3, 5000)) * 1e6) / 1e6
    assert describe_iats(np.diff(arrivals)).coarse_step is None


def test_spread_ties_keeps_rate_and_removes_zeros() -> None:
    """Arrivals of one tick are spread over it: no zeros are left, the mean stays."""
    arrivals = np.floor(np.cumsum(np.random.default_rng(9).exponential(0.1, 20_000)))
    coarse = np.diff(arrivals)
    fine = spread_ties(coarse, 1.0)
    assert np.all(fine > 0)
    assert fine.mean() == pytest.approx(coarse.mean(), rel=0.01)
    assert describe_iats(fine).scv < describe_iats(coarse).scv


def test_constant_series_has_no_correlation() -> None:
    """A constant window has SCV 0, no skewness and no autocorrelation, and says so."""
    trace = describe_iats(np.full(500, 0.25))
    assert trace.is_constant
    assert trace.scv == 0.0
    assert trace.acf.size == 0
    assert "all inter-arrival times are the same" in trace.notes


def test_dominant_value_is_noted() -> None:
    """One value that makes most of the second moment is reported as possibly infinite variance."""
    x = np.random.default_rng(10).exponential(1.0, 1000)
    x[500] = 1000.0
    assert any("infinite" in note for note in describe_iats(x).notes)


def test_too_few_times_say_how_many_are_needed() -> None:
    """A window below the least length raises NotReadyError with the number."""
    with pytest.raises(NotReadyError) as caught:
        describe_iats(np.ones(10))
    assert caught.value.needed == LEAST
    assert caught.value.available == 10


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_times_are_named(bad: float) -> None:
    """Negative, missing and infinite times are refused with their place."""
    x = np.ones(100)
    x[42] = bad
    with pytest.raises(ConfigurationError, match=r"iats\[42\]"):
        describe_iats(x)


def test_units_beyond_arithmetic_are_refused() -> None:
    """Times whose third power cannot be written ask for another unit."""
    for scale in (1e-120, 1e120):
        with pytest.raises(ConfigurationError, match="unit of time"):
            describe_iats(np.random.default_rng(11).exponential(scale, 100))


def test_all_zero_and_matrix_input_are_refused() -> None:
    """Zeros only have no rate, and a matrix is no series."""
    with pytest.raises(ConfigurationError, match="every time is 0"):
        describe_iats(np.zeros(100))
    with pytest.raises(ConfigurationError, match="2 dimensions"):
        describe_iats(np.ones((10, 100)))
