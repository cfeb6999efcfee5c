# SPDX-License-Identifier: Apache-2.0
"""Counts per period as arrivals: the counts kept, the places in a period as stated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from penstock.arrivals import CountSeries, load_trace
from penstock.errors import ConfigurationError

COUNTS = [3, 0, 0, 7, 1, 0, 40]


@pytest.mark.parametrize("spread", ["random", "even"])
def test_every_period_has_its_count(spread: str) -> None:
    """Times never fall and each period holds as many as were counted, however they are spread."""
    series = CountSeries(COUNTS, 60.0, spread=spread)
    times = series.times(0, series.total)
    assert (np.diff(times) >= 0).all()
    assert np.bincount((times // 60).astype(int), minlength=7).tolist() == COUNTS
    assert (series.total, series.duration_seconds) == (51, 420.0)


@pytest.mark.parametrize("spread", ["random", "even"])
def test_any_range_gives_the_same_times(spread: str) -> None:
    """Ranges of records in any order are parts of the whole, and counting agrees with the times."""
    series = CountSeries(COUNTS, 60.0, spread=spread, seed=5)
    whole = CountSeries(COUNTS, 60.0, spread=spread, seed=5).times(0, 51)
    for start, stop in ((20, 51), (0, 4), (3, 3), (10, 12)):
        assert np.array_equal(series.times(start, stop), whole[start:stop])
    for t in (*whole.tolist(), -1.0, 0.0, 60.0, 419.0, 420.0, 1e9):
        assert series.count_until(t) == np.searchsorted(whole, t, side="right")


def test_the_seed_decides_random_places() -> None:
    """The same seed gives the same times, another one others; even spacing has no chance in it."""
    one, same, other = (CountSeries(COUNTS, 1.0, seed=s).times(0, 51) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert CountSeries([4], 8.0, spread="even").times(0, 4).tolist() == [1.0, 3.0, 5.0, 7.0]


def test_random_places_are_uniform() -> None:
    """Within its period a record is as likely early as late (the mean of many is the middle)."""
    times = CountSeries([20_000], 1.0, seed=3).times(0, 20_000)
    assert times.mean() == pytest.approx(0.5, abs=5 * (1 / 12) ** 0.5 / 20_000**0.5)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1, -2], r"index 1: -2: not a whole number of at least 0"),
        ([1.0, float("nan")], r"index 1: nan: not a whole number"),
        ([0.5], r"index 0: 0.5: not a whole number .*kind=iats"),
        ([], "has no counts"),
        ([0, 0], "every count is 0"),
    ],
)
def test_what_is_no_count_is_refused(counts: npt.ArrayLike, message: str) -> None:
    """Negative, missing and fractional counts are refused with their places, and a series without arrivals too."""
    with pytest.raises(ConfigurationError, match=message):
        CountSeries(counts, 1.0)


def test_a_file_of_counts_has_its_unit_as_period(tmp_path: Path) -> None:
    """One count per line: the unit is the period's length, unless a period is given."""
    path = tmp_path / "counts.txt"
    path.write_text("2\n0\n3\n")
    assert load_trace(path, kind="counts", unit="m").duration_seconds == 180.0
    assert load_trace(path, kind="counts", period_seconds=5.0).duration_seconds == 15.0
    assert load_trace(path, kind="counts", spread="even").times(0, 2).tolist() == [0.25, 0.75]
    with pytest.raises(ConfigurationError, match=r"period: .* is read as arrivals; leave it out, or give kind=counts"):
        load_trace(path, period_seconds=5.0)
    path.write_text("2\nx\n")
    with pytest.raises(ConfigurationError, match="not a number in line 2"):
        load_trace(path, kind="counts")
