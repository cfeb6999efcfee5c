# SPDX-License-Identifier: Apache-2.0
"""Published traces: read by name or recognised, with the column, unit and rows that count."""

from __future__ import annotations

import gzip
import lzma
import os
from pathlib import Path

import numpy as np
import pytest

from penstock.arrivals import TRACE_FORMATS, CountSeries, Reading, load_trace, read_window
from penstock.arrivals.trace_formats import recognise
from penstock.errors import ConfigurationError

USER = "70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo="
HEX = "07290D3599E7A0D62097A346EFCC1FB5"
FILES: dict[str, tuple[str, list[float]]] = {
    "cloudphysics-io": (
        "ts_us,op,len_bytes,lbn\n5000000,W,512,1\n5000250,R,512,2\n6000000,W,8,3\n",
        [0.0, 0.00025, 1.0],
    ),
    "google-2011": (
        f"0,2,3,0,4,0,{USER},3,9,,,,\n"  # before the trace
        f"600000000,,3,0,4,0,{USER},3,9,0.1,0.2,0.3,0\n"
        f"600000500,,3,0,4,1,{USER},3,9,0.1,0.2,0.3,0\n"  # SCHEDULE, no SUBMIT
        f"600500000,,3,1,4,0,{USER},3,9,0.1,0.2,0.3,0\n"
        f"{(1 << 63) - 1},,3,1,4,0,{USER},3,9,0.1,0.2,0.3,0\n",  # after the trace
        [0.0, 0.5],
    ),
    "nyc-taxi": (
        "6,START,2013-01-01 00:00:00,1970-01-01 00:00:00,-73,40,-73,40,6,1,2\n"
        "6,END,2013-01-01 00:00:36,2013-01-01 00:00:00,-73,40,-73,40,6,1,2\n",
        [0.0, 36.0],
    ),
    "debs-2015": (
        f"{HEX},{HEX},2013-01-01 00:00:00,2013-01-01 00:02:00,120,0.44,-73,40,-73,40,CSH,3,0,0,0,0,4\n"
        f"{HEX},{HEX},2013-01-01 00:00:00,2013-01-01 00:03:00,120,0.44,-73,40,-73,40,CSH,3,0,0,0,0,4\n",
        [0.0, 60.0],
    ),
}


@pytest.mark.parametrize("packing", ["", ".gz", ".xz"])
@pytest.mark.parametrize("name", FILES)
def test_a_published_trace_is_recognised_and_read(tmp_path: Path, name: str, packing: str) -> None:
    """By its header or its first row a file is known, packed or not, and read as if its format had been named."""
    text, times = FILES[name]
    path = tmp_path / f"trace.csv{packing}"
    data = text.encode()
    path.write_bytes(gzip.compress(data) if packing == ".gz" else lzma.compress(data) if packing else data)
    assert recognise(path) is TRACE_FORMATS[name]
    for trace in (load_trace(path), load_trace(path, format=name)):
        assert trace.times(0, trace.total).tolist() == times


@pytest.mark.parametrize(("name", "kind"), [("bc-paug89", "arrivals"), ("ms-livemaps", "iats")])
def test_bare_numbers_are_taken_only_by_name(tmp_path: Path, name: str, kind: str) -> None:
    """A file of numbers alone is plain unless its format is named, which then gives kind and unit."""
    path = tmp_path / "numbers.txt"
    path.write_text("1340\n1508\n4176\n")
    assert recognise(path) is None
    assert Reading().of(path).unit == "s"
    source = Reading(format=name).of(path)
    assert (source.kind, source.unit) == (kind, "us")
    expected = [0.00134, 0.001508, 0.004176] if kind == "arrivals" else [0.00134, 0.002848, 0.007024]
    assert load_trace(path, format=name).times(0, 3).tolist() == expected


def test_counts_of_periods_are_read_with_their_gaps(tmp_path: Path) -> None:
    """A table of periods gives its period by itself; a period left out had no arrivals, which is noted."""
    path = tmp_path / "wc.csv"
    path.write_text("period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,11\n1998-04-30 21:33:00,1\n")
    series = load_trace(path)
    assert isinstance(series, CountSeries)
    assert series.counts.tolist() == [2, 11, 0, 1]
    assert series.period_seconds == 60.0
    assert series.notes == ("1 of 4 periods are missing from the file: counted as periods without arrivals",)


def test_what_the_reader_says_goes_before_recognition(tmp_path: Path) -> None:
    """Who names a column or another unit reads the file as plain; who names what it is anyway does not lose it."""
    path = tmp_path / "trace.csv"
    path.write_text(FILES["cloudphysics-io"][0])
    assert Reading(column="len_bytes").of(path).format is None
    assert Reading(unit="us", kind="arrivals").of(path).format is TRACE_FORMATS["cloudphysics-io"]
    assert Reading(format="plain", column="ts_us").of(path).format is None
    with pytest.raises(ConfigurationError, match="column: not given"):
        load_trace(path, unit="ms")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cloudphysics-io", "a,b,c,d\n1,W,2,3\n", "line 1: the header is not 'ts_us,op,len_bytes,lbn'"),
        ("cloudphysics-io", "ts_us,op,len_bytes,lbn\n1,W,2\n", "line 2: 3 fields instead of 4"),
        ("cloudphysics-io", "ts_us,op,len_bytes,lbn\n1,W,2,3\nx,W,2,3\n", "line 3: 'x' is not a whole number"),
        ("cloudphysics-io", "ts_us,op,len_bytes,lbn\n5,W,2,3\n1,W,2,3\n", "line 3: 1: smaller than the one before"),
        ("nyc-taxi", FILES["nyc-taxi"][0].replace("00:00:36", "soon"), "line 2: '2013-01-01 soon' is not a date"),
        ("worldcup98", "period,count\n1998-04-30 21:30:00,2\n", "fewer than two periods"),
        (
            "worldcup98",
            "period,count\n1998-04-30 21:30:00,2\n1998-04-30 21:31:00,2\n1998-04-30 21:32:30,2\n",
            r"line 4: this period does not start a whole number of periods \(60 s\)",
        ),
        ("worldcup98", "period,count\n1998-04-30 21:30:00,-2\n1998-04-30 21:31:00,2\n", "not a whole number of at"),
        ("google-2011", "", "has no arrivals"),
    ],
)  # fmt: skip
def test_a_broken_file_is_told_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    """A header, row, number or date that is not the format's is refused with the line and what is wrong."""
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_trace(path, format=name)


def test_a_named_format_refuses_other_wishes(tmp_path: Path) -> None:
    """A format has its own column, unit and kind: all that contradict it are told at once, as is an unknown name."""
    path = tmp_path / "trace.csv"
    path.write_text(FILES["google-2011"][0])
    with pytest.raises(ConfigurationError) as caught:
        load_trace(path, format="google-2011", unit="s", column="3", kind="iats")
    assert len(caught.value.faults) == 3
    with pytest.raises(ConfigurationError, match="format: unknown 'nosuch'; known: auto, plain, bc-paug89"):
        load_trace(path, format="nosuch")


def test_progress_is_told_while_reading(tmp_path: Path) -> None:
    """The part read rises from above 0 to 1, whatever the packing."""
    numbers = "".join(f"{i}\n" for i in range(300_000)).encode()
    for name, data in (("t.txt", numbers), ("t.txt.gz", gzip.compress(numbers)), ("t.txt.xz", lzma.compress(numbers))):
        path = tmp_path / name
        told: list[float] = []
        path.write_bytes(data)
        load_trace(path, progress=told.append)
        assert told == sorted(told)
        assert 0 < told[0] <= told[-1] == 1.0


def _data(name: str) -> Path:
    folder = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[4] / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"no real trace: {folder / name} is not there (set PENSTOCK_DATA to the folder of the traces)")
    return folder / name


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "format", "arrivals", "scv", "rho1"),
    [
        ("bc-paug89/BC-pAug89.timestamps_us.txt.xz", "bc-paug89", 1_000_000, 3.22, 0.200),
        ("cloudphysics-io/cloudPhysicsIO.us.csv.xz", "auto", 113_872, 14.1, 0.564),
        ("google-2011/task_events_part-00000-of-00500.csv.gz", "auto", 57_152, 18.9, 0.302),
        ("nyc-taxi-2013/nycTaxiRides.gz", "auto", 100_000, 15.5, -0.023),
        ("ms-livemaps-1030/LIVEMAPS-1030.values.txt.xz", "ms-livemaps", 170_659, 0.393, 0.219),
    ],
)
def test_real_traces_have_their_published_statistics(
    file: str, format: str, arrivals: int, scv: float, rho1: float
) -> None:
    """Each real trace, read in its format, has the size, variability and correlation it is known for."""
    path = _data(file)
    assert load_trace(path, format=format).total == arrivals
    iats = read_window(path, Reading(format=format))
    d = iats - iats.mean()
    assert d.var() / iats.mean() ** 2 == pytest.approx(scv, rel=0.005)
    assert np.mean(d[1:] * d[:-1]) / d.var() == pytest.approx(rho1, abs=0.002)


@pytest.mark.data
def test_the_world_cup_is_a_series_of_counts() -> None:
    """A trace of more than a thousand million requests is opened without holding them."""
    series = load_trace(_data("worldcup98/wc98_requests_per_minute.csv.xz"))
    assert isinstance(series, CountSeries)
    assert (series.total, int(series.counts.max())) == (1_352_804_107, 229_426)
    middle = series.times(10**9, 10**9 + 1000)
    assert series.count_until(float(middle[-1])) >= 10**9 + 1000
