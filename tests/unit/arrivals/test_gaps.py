# SPDX-License-Identifier: Apache-2.0
"""Inter-arrival times of trace files: exact, a window at a time or all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import Reading, open_gaps, read_window
from penstock.errors import ConfigurationError


@pytest.fixture
def stamps(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A file of whole microseconds since 1970, longer than a chunk, and its gaps in seconds."""
    gaps = np.random.default_rng(1).integers(0, 5000, 120_000)
    path = tmp_path / "stamps.txt"
    path.write_text("".join(f"{t}\n" for t in (1_700_000_000_000_000 + np.cumsum(gaps)).tolist()))
    return path, gaps[1:] / 1_000_000


def test_gaps_lose_no_digit_far_from_zero(stamps: tuple[Path, np.ndarray]) -> None:
    """Differences of stamps since 1970 are as exact as if the trace began at zero; n stamps give n - 1 of them."""
    path, expected = stamps
    assert np.array_equal(read_window(path, Reading(unit="us")), expected)


def test_nanoseconds_since_1970_are_read_as_whole_numbers(tmp_path: Path) -> None:
    """Stamps beyond what floats hold exactly keep their last digit."""
    path = tmp_path / "ns.txt"
    path.write_text("1700000000000000001\n1700000000000000004\n1700000000000000104\n")
    assert read_window(path, Reading(unit="ns")).tolist() == [3e-9, 1e-7]


def test_a_window_is_a_part_of_all(stamps: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    """Skipped and cut windows, mapped and cached ones are parts of the same array."""
    path, expected = stamps
    reading = Reading(unit="us")
    assert np.array_equal(read_window(path, reading, skip=70_000, size=100), expected[70_000:70_100])
    assert len(read_window(path, reading, skip=119_990, size=100)) == 9
    for gaps in (open_gaps(path, reading), open_gaps(path, reading, cache_dir=tmp_path / "cache")):
        assert gaps.total == 119_999
        assert np.array_equal(gaps.window(65_530, 65_550), expected[65_530:65_550])
        assert gaps.edges(50_000) == pytest.approx([0, *np.cumsum(expected)[[49_999, 99_999, 119_998]]], rel=1e-12)


def test_gaps_of_iats_and_counts(tmp_path: Path) -> None:
    """A file of inter-arrival times is its own answer; of counts the records' times are the seed's."""
    path = tmp_path / "x.txt"
    path.write_text("2\n0\n3\n")
    assert read_window(path, Reading(kind="iats", unit="ms")).tolist() == [0.002, 0.0, 0.003]
    even = Reading(kind="counts", spread="even")
    assert read_window(path, even).tolist() == pytest.approx([0.5, 1 / 6 + 1.25, 1 / 3, 1 / 3])
    gaps = open_gaps(path, even)
    assert gaps.total == 4
    assert gaps.window(1, 3).tolist() == pytest.approx([1 / 6 + 1.25, 1 / 3])
    assert gaps.edges(2).tolist() == pytest.approx([0.0, 1.5 + 5 / 12, 2.25 + 1 / 3])


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", "arrivals", "has fewer than two arrivals"),
        ("5\n", "arrivals", "has fewer than two arrivals"),
        ("1\n3\n2\n", "arrivals", "line 3: 2.0: smaller than the one before"),
        ("-1\n3\n", "arrivals", "line 1: -1.0: negative; times count"),
        ("1\n-3\n", "iats", "line 2: -3.0: negative; a time between arrivals is never below 0"),
        ("1\nnan\n", "iats", "line 2: nan: not a finite number"),
        ("1\ninf\n", "arrivals", "line 2: inf: not a finite number"),
    ],
)
def test_wrong_times_are_told_with_their_line(tmp_path: Path, text: str, kind: str, message: str) -> None:
    """What is no series of times is refused, whichever way it is asked for."""
    path = tmp_path / "x.txt"
    path.write_text(text)
    for ask in (read_window, open_gaps):
        with pytest.raises(ConfigurationError, match=message):
            ask(path, Reading(kind=kind))


def test_skipping_everything_is_told(tmp_path: Path) -> None:
    """A window beyond the end says how many there are."""
    path = tmp_path / "x.txt"
    path.write_text("1\n2\n")
    with pytest.raises(ConfigurationError, match="has 1 inter-arrival times, none after the first 4; skip fewer"):
        read_window(path, Reading(), skip=4)
