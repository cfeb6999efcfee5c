# SPDX-License-Identifier: Apache-2.0
"""Traces written and read back, cut by time and by number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import Cut, Trace, load_trace, write_trace
from penstock.errors import ConfigurationError

STAMPS = np.cumsum(np.random.default_rng(2).integers(0, 9000, 5000))
TRACE = Trace(STAMPS / 1_000_000)


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.txt.xz", "t.csv", "t.csv.xz", "t.npy", "t.parquet"])
@pytest.mark.parametrize(("kind", "unit"), [("arrivals", "us"), ("iats", "us"), ("arrivals", "s")])
def test_what_is_written_is_read_back(tmp_path: Path, name: str, kind: str, unit: str) -> None:
    """Whatever the format, kind and unit, the arrivals come back bit by bit."""
    path = tmp_path / name
    assert write_trace(TRACE, path, kind=kind, unit=unit) == 5000
    again = load_trace(path, kind=kind, unit=unit)
    assert np.array_equal(again.times(0, again.total), TRACE.times(0, 5000))
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_whole_units_stay_whole(tmp_path: Path) -> None:
    """Times read as whole microseconds are written as whole microseconds, also between arrivals and after a cut."""
    write_trace(TRACE, tmp_path / "a.txt", unit="us")
    assert (tmp_path / "a.txt").read_text().split() == [str(s) for s in STAMPS.tolist()]
    write_trace(Cut.by_number(TRACE, 3000, 3100), tmp_path / "b.txt", kind="iats", unit="us")
    assert (tmp_path / "b.txt").read_text().split() == ["0", *(str(g) for g in np.diff(STAMPS[3000:3100]).tolist())]


def test_counts_are_of_periods(tmp_path: Path) -> None:
    """Counts add up to all arrivals, each in its period, and the period may be other than a unit."""
    trace = Trace([0.0, 0.5, 1.0, 1.0, 3.5])
    path = tmp_path / "c.csv"
    write_trace(trace, path, kind="counts")
    assert path.read_text() == "count\n2\n2\n0\n1\n"
    write_trace(trace, path, kind="counts", period_seconds=2.0)
    assert path.read_text() == "count\n4\n1\n"
    write_trace(load_trace(path, kind="counts", period_seconds=2.0), path, kind="counts", period_seconds=2.0)
    assert path.read_text() == "count\n4\n1\n"


@pytest.mark.parametrize(
    ("name", "options", "field"),
    [
        ("t.npy.gz", {}, "output"),
        ("none/t.txt", {}, "output"),
        (".", {}, "output"),
        ("t.txt", {"unit": "x"}, "unit"),
        ("t.txt", {"kind": "x"}, "kind"),
        ("t.txt", {"period_seconds": 1.0}, "period"),
        ("t.txt", {"kind": "counts", "period_seconds": 1e-12}, "period"),
    ],
)
def test_what_cannot_be_written_is_told(tmp_path: Path, name: str, options: dict[str, str], field: str) -> None:
    """A wrong name, unit, kind or period is refused with its field, and nothing is left behind."""
    with pytest.raises(ConfigurationError) as caught:
        write_trace(TRACE, tmp_path / name, **options)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert list(tmp_path.iterdir()) == []


def test_cuts_count_from_where_they_begin() -> None:
    """Cut by time, times count from the cut; cut by number, from the first record; counting agrees with the times."""
    by_time = Cut.by_time(TRACE, 5.0, 10.0)
    times = by_time.times(0, by_time.total)
    all_times = TRACE.times(0, 5000)
    assert np.array_equal(times, all_times[(all_times > 5.0) & (all_times <= 10.0)] - 5.0)
    assert by_time.duration_seconds == 5.0
    for t in (-1.0, 0.0, float(times[77]), 5.0, 9.0):
        assert by_time.count_until(t) == np.searchsorted(times, t, side="right")
    by_number = Cut.by_number(TRACE, 10, 20)
    assert by_number.times(0, 10)[0] == 0.0
    assert by_number.total == 10
    assert Cut.by_number(TRACE, 4990).total == 10
    with pytest.raises(ConfigurationError, match="the range has none"):
        Cut.by_time(TRACE, 1e6)
    with pytest.raises(ConfigurationError, match="the range has none"):
        Cut.by_number(TRACE, 5000, 6000)
