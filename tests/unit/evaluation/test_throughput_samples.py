# SPDX-License-Identifier: Apache-2.0
"""Files of samples and of rates: what is read, and every mistake at once with its line."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import CountSeries
from penstock.errors import ConfigurationError
from penstock.evaluation.period_rates import period_rates, read_rates
from penstock.evaluation.throughput_samples import load_samples, mark_notes, of_one_application
from penstock.measuring.sample import Mark
from penstock.records import Allocation


def written(path: Path, text: str) -> Path:
    """A file with this text."""
    path.write_text(text)
    return path


def test_columns_may_stand_in_any_order_and_others_are_left_alone(tmp_path: Path) -> None:
    """Names count, whatever their case; empty lines do not; a share is 1 where no column says otherwise."""
    text = "Throughput, when ,EXECUTORS\n10.5,monday,2\n\n20,tuesday,4\n"
    found = load_samples(written(tmp_path / "a.csv", text))
    assert [(s.allocation, s.records_per_second) for s in found[""]] == [(Allocation(2), 10.5), (Allocation(4), 20.0)]


def test_applications_and_shares_are_kept_apart(tmp_path: Path) -> None:
    """Each application has its own samples, also out of a compressed file; the one that is wanted must be named."""
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"application,executors,throughput,cpu_share\na,1,5,0.5\nb,2,8,1\n"))
    found = load_samples(path)
    assert found["a"][0].allocation == Allocation(1, 0.5)
    assert of_one_application(found, "b")[1] == found["b"]
    with pytest.raises(ConfigurationError, match="a, b; say of which"):
        of_one_application(found, None)
    with pytest.raises(ConfigurationError, match="no samples of 'c'"):
        of_one_application(found, "c")


def test_marks_of_measured_samples_are_said_with_what_they_mean(tmp_path: Path) -> None:
    """Each mark with how many samples of the application have it; files without marks have nothing to say."""
    text = (
        "application,executors,throughput,marks\na,1,5,source-bound disturbed\na,2,6,disturbed\na,4,9,\n"
        "b,1,5,strange\nb,2,7,\n"
    )
    path = written(tmp_path / "a.csv", text)
    assert mark_notes(path, "a", "--samples") == (
        "--samples: 1 of 3 is marked source-bound: the source was measured, and the application may do more",
        "--samples: 2 of 3 are marked disturbed: others used the machine",
    )
    assert mark_notes(path, "b") == ("samples: 1 of 2 is marked strange",)
    assert mark_notes(written(tmp_path / "b.csv", "executors,throughput\n1,5\n"), "") == ()


def test_every_mark_that_is_written_is_explained(tmp_path: Path) -> None:
    """What `penstock measure` writes is what is read here."""
    for mark in Mark:
        text = f"executors,throughput,marks\n1,5,{mark.replace(' ', '-')}\n"
        (note,) = mark_notes(written(tmp_path / "a.csv", text), "")
        assert note.count(": ") == 2, mark


def test_every_mistake_is_reported_with_its_line(tmp_path: Path) -> None:
    """Non-numbers, NaN, negative and fractional values and short lines: one error with all of them."""
    text = "executors,throughput,cpu_share\n3,abc,1\n0,5,1\n2.5,5,1\n4,nan,2\n5,-3,1\n6,7\n7,inf,0\n"
    with pytest.raises(ConfigurationError, match="9 mistakes") as fault:
        load_samples(written(tmp_path / "bad.csv", text))
    lines = str(fault.value).splitlines()[1:]
    assert [line.split(":")[0].strip(" -") for line in lines] == [
        "line 2", "line 3", "line 4", "line 5", "line 5", "line 6", "line 7", "line 8", "line 8",
    ]  # fmt: skip
    assert "'abc' is not a finite number above 0" in lines[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        ("executors,throughput\n", "no sample below"),
        ("size,rate\n1,2\n", "2 mistakes"),
        ("executors,throughput,throughput\n1,2,3\n", "twice"),
        ("executors;throughput\n1;2\n", "part them by commas"),
        ("executors\tthroughput\n1\t2\n", "part them by commas"),
        ("1,10\n2,19\n", "write executors,throughput above them"),
        ("executors,throughput\n1,1e308\n", "in another unit"),
        ("executors,throughput\n1,1e-300\n", "in another unit"),
        ('executors,throughput\n1,"10,5"\n', "decimals with a point"),
        ("executors,throughput\n1_0,5\n", "line 2: executors: '1_0'"),
        ("executors,throughput\n4\n", "1 value, and 2 columns are named"),
    ],
)
def test_files_without_samples_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """Empty files, missing and doubled columns, other marks than commas, and numbers that models cannot take."""
    with pytest.raises(ConfigurationError, match=f"(?s)^--truth: .*{says}"):
        load_samples(written(tmp_path / "a.csv", text), "--truth")


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    """What is no file, or no text, is named."""
    with pytest.raises(ConfigurationError, match="is not a file"):
        load_samples(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ConfigurationError, match="cannot be read as CSV"):
        load_samples(tmp_path / "b.csv")


def test_counts_become_rates_of_longer_periods() -> None:
    """Two minutes of counts make a period; what is left at the end is not a whole one."""
    series = CountSeries([60, 180, 120, 0, 6], 60.0)
    assert period_rates(series, 120.0).tolist() == [2.0, 1.0]
    with pytest.raises(ConfigurationError, match="not a multiple"):
        period_rates(series, 90.0)
    with pytest.raises(ConfigurationError, match="fits at least once"):
        period_rates(series, 3600.0)


def test_rates_are_read_from_a_column(tmp_path: Path) -> None:
    """A column of rates, one for each period; all wrong lines are named."""
    good = written(tmp_path / "r.csv", "hour,rate\n0,1.5\n1,0\n")
    assert np.array_equal(read_rates(good, "rate"), [1.5, 0.0])
    with pytest.raises(ConfigurationError, match="no column 'load'; there are hour, rate"):
        read_rates(good, "load")
    with pytest.raises(ConfigurationError, match="2 mistakes") as fault:
        read_rates(written(tmp_path / "w.csv", "rate\nx\n1\n-2\n"), "rate")
    assert "line 2: 'x'" in str(fault.value)
    assert "line 4: '-2'" in str(fault.value)


@pytest.mark.parametrize(("text", "says"), [("rate,rate\n1,2\n", "twice"), ("rate\n1e308\n", "line 2: '1e308'")])
def test_rates_that_cannot_be_meant_are_refused(tmp_path: Path, text: str, says: str) -> None:
    """A doubled column, and rates so large that sums overflow."""
    with pytest.raises(ConfigurationError, match=says):
        read_rates(written(tmp_path / "rates.csv", text), "rate")
