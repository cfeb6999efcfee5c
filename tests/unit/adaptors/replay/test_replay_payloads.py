# SPDX-License-Identifier: Apache-2.0
"""Texts of replayed records."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from penstock.adaptors.replay.options import ReplayOptions
from penstock.adaptors.replay.payloads import FilePayload, open_payload
from penstock.arrivals.log_lines import LogLines
from penstock.errors import ConfigurationError

ARRIVAL_US = np.arange(7, dtype=np.int64) + 1_790_000_000_000_000


def test_none_is_null() -> None:
    """Without a payload every value is null."""
    assert open_payload(ReplayOptions(shape="x")).column(3, ARRIVAL_US).to_pylist() == [None] * 7


def test_log_lines_come_through() -> None:
    """The log payload gives the generator's lines as valid Arrow strings."""
    column = open_payload(ReplayOptions(shape="x", payload="log", seed=3, malformed=0.5)).column(90, ARRIVAL_US)
    column.validate(full=True)
    assert column.to_pylist() == LogLines(3, 0.5).lines(90, ARRIVAL_US)


@pytest.mark.parametrize("ending", ["", "\n"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_the_lines_of_a_file_are_repeated(tmp_path: Path, ending: str, is_packed: bool) -> None:
    """Record i has line i modulo the number of lines, whatever the line ends and the packing."""
    body = f"eins\r\nzwölf\n\nlast{ending}".encode()
    path = tmp_path / ("lines.txt.gz" if is_packed else "lines.txt")
    path.write_bytes(gzip.compress(body) if is_packed else body)
    options = ReplayOptions(shape="x", payload=f"file:{path}", cache_dir=str(tmp_path / "cache"))
    column = open_payload(options).column(6, ARRIVAL_US)
    column.validate(full=True)
    assert column.to_pylist() == ["", "last", "eins", "zwölf", "", "last", "eins"]


def test_lines_across_chunks(tmp_path: Path) -> None:
    """Lines that cross the borders of the chunks a large file is read in come out whole."""
    path = tmp_path / "long.txt"
    lines = [f"{i}-" + "ü" * (i % 90) for i in range(30_000)]
    path.write_text("\n".join(lines))
    payload = FilePayload(path, tmp_path / "cache")
    times = np.zeros(len(lines), dtype=np.int64)
    assert payload.column(0, times).to_pylist() == lines


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"", "p.txt", "is empty"),
        (b"fine\n\xff\xfe\n", "p.txt", "not UTF-8 near byte 5"),
        (b"broken \xc3", "p.txt", "not UTF-8"),
        (b"not packed", "p.gz", "cannot be decompressed"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, content: bytes, name: str, message: str) -> None:
    """Empty, binary and broken files are configuration errors and leave nothing in the cache."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message) as caught:
        FilePayload(path, tmp_path / "cache")
    assert caught.value.field == "payload"
    assert list((tmp_path / "cache").glob("*.lines")) + list((tmp_path / "cache").glob("*.part")) == []


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A payload file that is not there is a configuration error."""
    with pytest.raises(ConfigurationError, match=r"payload: .*none cannot be read"):
        open_payload(ReplayOptions(shape="x", payload=f"file:{tmp_path / 'none'}"))
