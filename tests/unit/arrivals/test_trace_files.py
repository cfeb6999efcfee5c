# SPDX-License-Identifier: Apache-2.0
"""Trace files: every format gives the same trace, every fault names its line."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.arrivals import load_trace
from penstock.errors import ConfigurationError

TIMES = [0.25, 1.0, 1.0, 3.5]


def _write(folder: Path, name: str) -> Path:
    path = folder / name
    text = "\ufeff# a comment\n0.25\n\n1.0 # another\r\n1e0\n3.5"
    table = "kind,at\na,0.25\nb,1.0\n\nc,1.0\nd,3.5\n"
    if name.endswith(".npy"):
        np.save(path, np.array(TIMES))
    elif name.endswith(".parquet"):
        pq.write_table(pa.table({"kind": list("abcd"), "at": TIMES}), path)
    else:
        body = (table if ".csv" in name else text).encode()
        if path.suffix == ".gz":
            body = gzip.compress(body)
        path.write_bytes(lzma.compress(body) if path.suffix == ".xz" else body)
    return path


@pytest.mark.parametrize(
    "name", ["t.txt", "t", "t.txt.gz", "t.xz", "t.csv", "t.csv.gz", "t.csv.xz", "t.npy", "t.parquet"]
)
def test_every_format_gives_the_same_trace(tmp_path: Path, name: str) -> None:
    """Text, csv, npy and parquet, packed or not, hold the same arrivals."""
    column = "at" if ".csv" in name or name.endswith(".parquet") else None
    trace = load_trace(_write(tmp_path, name), column=column)
    assert trace.times(0, trace.total).tolist() == TIMES


def test_csv_columns_by_number_and_without_header(tmp_path: Path) -> None:
    """A column may be given by its number; a first row of numbers is data; a single column needs no name."""
    path = tmp_path / "t.csv"
    path.write_text("5,0.5\n6,1.5\n")
    assert load_trace(path, column="1").times(0, 2).tolist() == [0.5, 1.5]
    path.write_text("at\n0.5\n")
    assert load_trace(path).times(0, 1).tolist() == [0.5]


@pytest.mark.parametrize(
    ("name", "text", "column", "message"),
    [
        ("t.txt", "1\nx\n2\ny y\n", None, r"not a number in line 2: 'x', line 4: 'y y'; write one number"),
        ("t.txt", "1\n", "at", "has no column 'at'"),
        ("t.csv", "a,b\n1,2\n", None, "column: not given for .*; columns: a, b"),
        ("t.csv", "a,b\n1,2\n", "c", "no column 'c' for .*; columns: a, b"),
        ("t.csv", "1,2\n1,2\n", "7", "no column '7' for .*; columns: 0 to 1"),
        ("t.csv", "a,b\n1,2\n1\n", "b", "not a number in line 3: ''"),
        ("t.csv", "a,b\n1,2\n\n3,1\n", "b", "line 4: 1.0: smaller than the one before"),
        ("t.txt", "5\n# gap\n\n4\n", None, "line 4: 4.0: smaller than the one before"),
        ("t.csv", "", None, "has no arrivals"),
        ("t.npy", "nonsense", None, r"t\.npy cannot be read"),
        ("t.npy.gz", "", None, "only text and csv may be compressed"),
        ("t.gz", "not packed", None, r"t\.gz cannot be read"),
        ("t.parquet", "nonsense", None, r"t\.parquet cannot be read"),
    ],
)
def test_faults_name_the_place_and_the_fix(
    tmp_path: Path, name: str, text: str, column: str | None, message: str
) -> None:
    """A fault in a file is a configuration error with the line and what to do."""
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message):
        load_trace(path, column=column)


def test_arrays_of_other_kinds_are_refused(tmp_path: Path) -> None:
    """Arrays with two dimensions or without numbers, null rows and text columns are refused."""
    np.save(tmp_path / "two.npy", np.zeros((2, 2)))
    np.save(tmp_path / "text.npy", np.array(["a"]))
    pq.write_table(pa.table({"at": pa.array([1.0, None])}), tmp_path / "null.parquet")
    pq.write_table(pa.table({"at": ["a"]}), tmp_path / "text.parquet")
    cases = {
        "two.npy": "one dimension",
        "text.npy": "one dimension",
        "null.parquet": "row 1 of column 'at' is null",
        "text.parquet": "contains string, not numbers",
    }
    for name, message in cases.items():
        with pytest.raises(ConfigurationError, match=message):
            load_trace(tmp_path / name)


def test_missing_files_and_folders(tmp_path: Path) -> None:
    """A path that is no file says so, with and without a cache."""
    with pytest.raises(ConfigurationError, match="is a folder"):
        load_trace(tmp_path)
    with pytest.raises(ConfigurationError, match="is not there"):
        load_trace(tmp_path / "none.txt")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        load_trace(tmp_path / "none.txt", cache_dir=tmp_path)


STAMPS = [
    "2026-01-31T12:00:00.250Z",
    "2026-01-31T13:00:01.000000500+01:00",
    "2026-01-31 12:00:01.0000005",
    "2026-01-31T07:00:03,75-0500",
]


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t.csv", "bare.csv"])
def test_iso_timestamps_are_arrivals_from_the_first(tmp_path: Path, name: str) -> None:
    """One per line or in a column, with Z, with offsets or without; nanoseconds are kept."""
    text = "# a comment\n\n" + "\n".join(STAMPS)
    if name == "t.csv":
        text = "kind,at\n" + "\n".join(f'a,"{stamp}"' for stamp in STAMPS)
    elif name == "bare.csv":
        text = "\n".join(f'"{stamp}",a' for stamp in STAMPS)
    body = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    trace = load_trace(tmp_path / name, column={"t.csv": "at", "bare.csv": "0"}.get(name))
    assert trace.times(0, trace.total).tolist() == [0.0, 0.7500005, 0.7500005, 3.5]


@pytest.mark.parametrize(
    ("lines", "options", "said"),
    [
        (["2026-01-31T12:00:00Z", "noon"], {}, "not a timestamp in line 2: 'noon'; write each as 2026-01-31T"),
        (["2026-01-31T12:00:00Z", "2026-13-31T12:00:00Z"], {}, "not a timestamp in line 2"),
        (["2026-01-31T12:00:01Z", "2026-01-31T12:00:00Z"], {}, "smaller than the one before"),
        (["2026-01-31T12:00:00Z"] * 2, {"unit": "ms"}, "unit: .* holds timestamps; leave unit out"),
        (["2026-01-31T12:00:00Z"] * 2, {"kind": "iats"}, "kind: .* holds timestamps; leave kind out"),
        (["noon", "2026-01-31T12:00:00Z"], {}, "not a number in line 1"),
    ],
)
def test_wrong_timestamps_name_their_line(tmp_path: Path, lines: list[str], options: dict[str, str], said: str) -> None:
    """What is not a timestamp, falls or is given a unit is refused, with what to do."""
    (tmp_path / "t.txt").write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match=said):
        load_trace(tmp_path / "t.txt", **options)  # type: ignore[arg-type]
