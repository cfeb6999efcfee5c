# SPDX-License-Identifier: Apache-2.0
"""Random arrivals: reproducible, reachable anywhere, and Poisson."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from penstock.arrivals import Constant, Periodic, Sampled
from penstock.arrivals.sampled import _block_times
from penstock.errors import ConfigurationError

PEAKS = Periodic(base=500.0, peak=5000.0, period_seconds=10.0, width_seconds=4.0, duration_seconds=30.0)


def test_ranges_agree_in_any_order() -> None:
    """A range asked for on its own, later, or from a copy in another process gives the same times."""
    process = Sampled(PEAKS, seed=5)
    whole = process.times(0, process.total)
    _block_times.cache_clear()
    copy = pickle.loads(pickle.dumps(Sampled(PEAKS, seed=5)))
    for start, stop in (
        (20_000, 20_010),
        (4090, 12_300),
        (0, 1),
        (8192, 8192),
        (process.total - 1, process.total),
    ):
        assert np.array_equal(copy.times(start, stop), whole[start:stop])


def test_seeds_differ() -> None:
    """Another seed gives another total and other times."""
    a, b = Sampled(PEAKS, seed=1), Sampled(PEAKS, seed=2)
    assert not np.array_equal(a.times(0, 1000), b.times(0, 1000))


def test_rescaled_gaps_are_exponential() -> None:
    """Taken through the cumulative rate, gaps are independent unit exponentials, also across blocks."""
    process = Sampled(PEAKS, seed=11)
    counts = np.array([PEAKS.cumulative(t) for t in process.times(0, process.total)])
    gaps = np.diff(counts, prepend=0.0)
    assert stats.kstest(gaps, "expon").pvalue > 0.001
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4 / np.sqrt(len(gaps))


def test_totals_are_poisson() -> None:
    """Over seeds, totals have the mean and the variance of the shape's count."""
    expected = 10_000.0
    totals = np.array([Sampled(Constant(1000.0, 10.0), seed=s).total for s in range(300)])
    # Standard errors: of the mean 100 / sqrt(300) = 5.8; of the index of dispersion sqrt(2 / 299) = 0.082.
    assert abs(totals.mean() - expected) < 4 * 5.8
    assert abs(totals.var(ddof=1) / expected - 1) < 4 * 0.082


def test_a_billion_records_need_no_memory() -> None:
    """The last records of a process of 10^9 are reached without drawing those before."""
    process = Sampled(Constant(1e6, 1000.0))
    assert abs(process.total - 1e9) < 6 * np.sqrt(1e9)
    last = process.times(process.total - 5, process.total)
    assert np.all(np.diff(last) >= 0)
    assert process.count_until(float(last[0])) == process.total - 4


def test_an_empty_draw_is_refused() -> None:
    """A seed with which nothing arrives is a configuration error."""
    outcomes = [_is_empty(seed) for seed in range(50)]
    # A count of mean 1 is zero with probability 1/e: of 50 seeds about 18.
    assert 5 < sum(outcomes) < 35
    with pytest.raises(ConfigurationError, match="give another seed") as caught:
        Sampled(Constant(1.0, 1.0), seed=outcomes.index(True))
    assert caught.value.field == "seed"


def _is_empty(seed: int) -> bool:
    try:
        Sampled(Constant(1.0, 1.0), seed=seed)
    except ConfigurationError:
        return True
    return False


def test_times_cannot_be_changed_through_the_cache() -> None:
    """What a caller does to a given array leaves the process as it was."""
    process = Sampled(PEAKS)
    first = process.times(0, 10)
    first[:] = -1.0
    assert process.times(0, 10)[0] >= 0
    with pytest.raises(ValueError, match="read-only"):
        _block_times(process, 0)[0] = -1.0
