# SPDX-License-Identifier: Apache-2.0
"""Windows that slide, and series of counts."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.markov import MAP, map2_from_moments
from penstock.workload import SlidingMoments, describe_counts, describe_iats


def test_sliding_window_equals_describing_it_anew() -> None:
    """After adding in pieces of many sizes the summary is that of the newest times."""
    rng = np.random.default_rng(1)
    stream = map2_from_moments(2e-3, 5 * 4e-6, 60 * 8e-9, 0.9).sample(30_000, rng)
    window, at = SlidingMoments(2000, lags=50), 0
    for size in rng.integers(1, 700, 60):
        window.add(stream[at : at + size])
        at += int(size)
        if window.n >= 200:
            summary, plain = window.summary(), describe_iats(window.values())
            assert window.values() == pytest.approx(stream[max(0, at - 2000) : at])
            assert summary.mean == pytest.approx(plain.mean, rel=1e-10)
            assert summary.scv == pytest.approx(plain.scv, rel=1e-8)
            assert summary.m3 == pytest.approx(plain.m3, rel=1e-8)
            assert summary.acf[:40] == pytest.approx(plain.acf[:40], abs=1e-8)


def test_sliding_window_takes_away_and_can_be_overfilled() -> None:
    """Removing leaves the newer times; more than the capacity leaves the newest."""
    x = np.random.default_rng(2).exponential(1.0, 5000)
    window = SlidingMoments(1000, lags=5)
    window.add(x[:600])
    window.remove(400)
    assert window.values() == pytest.approx(x[400:600])
    assert window.summary().mean == pytest.approx(x[400:600].mean())
    window.add(x)
    assert window.values() == pytest.approx(x[-1000:])


def test_sliding_window_refuses_what_it_cannot_hold() -> None:
    """Too short a window, bad times and bad sizes have clear errors."""
    with pytest.raises(ConfigurationError, match="capacity"):
        SlidingMoments(3)
    with pytest.raises(ConfigurationError, match="lags"):
        SlidingMoments(100, lags=100)
    window = SlidingMoments(100, lags=2)
    with pytest.raises(NotReadyError):
        window.summary()
    with pytest.raises(ConfigurationError, match=r"iats\[1\]"):
        window.add([1.0, -1.0])
    with pytest.raises(ConfigurationError, match="count"):
        window.remove(1)


def test_constant_sliding_window_has_no_acf() -> None:
    """A constant window has SCV 0 and no autocorrelation."""
    window = SlidingMoments(100, lags=2)
    window.add(np.full(100, 3.0))
    summary = window.summary()
    assert (summary.scv, summary.skewness, summary.acf.size) == (0.0, None, 0)


def test_counts_tell_rate_and_dispersion() -> None:
    """Counts of a bursty process have its rate and, together over more intervals, its IDC."""
    process = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [5.0, 20.0])
    times = np.cumsum(process.sample(400_000, np.random.default_rng(3)))
    counts = np.bincount(times.astype(np.int64))[:-1]
    told = describe_counts(counts, width=1.0)
    assert abs(told.rate - process.rate) < 4 * told.rate_error
    truth = process.idc(told.idc_intervals.astype(float))
    assert np.all(np.abs(told.idc - truth)[:6] < 5 * told.idc_errors[:6])
    assert told.acf[0] > 0.3


def test_bad_counts_are_refused() -> None:
    """Too few, negative, and no counts at all are errors of their own."""
    with pytest.raises(NotReadyError):
        describe_counts(np.ones(5))
    with pytest.raises(ConfigurationError, match=r"counts\[3\]"):
        describe_counts([1.0] * 3 + [-1.0] + [1.0] * 100)
    with pytest.raises(ConfigurationError, match="give counts with arrivals"):
        describe_counts(np.zeros(100))
    with pytest.raises(ConfigurationError, match="width"):
        describe_counts(np.ones(100), width=0.0)
    assert describe_counts(np.ones(100)).acf.size == 0
