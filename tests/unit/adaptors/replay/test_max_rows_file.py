# SPDX-License-Identifier: Apache-2.0
"""A limit of batches that can be changed while a query runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.adaptors.replay.max_rows_file import read_max_rows, write_max_rows
from penstock.adaptors.replay.options import ReplayOptions
from penstock.errors import ConfigurationError

SHAPE = {"shape": "constant:rate=10,duration=3s"}


def test_the_newest_number_counts(tmp_path: Path) -> None:
    """A second number replaces the first; nothing but the file stays."""
    path = tmp_path / "cap.txt"
    options = ReplayOptions.parse({**SHAPE, "maxRowsFile": str(path)})
    for rows in (700, 30):
        write_max_rows(path, rows)
        assert read_max_rows(options) == rows
    assert [file.name for file in tmp_path.iterdir()] == ["cap.txt"]
    assert read_max_rows(ReplayOptions.parse(SHAPE)) is None


@pytest.mark.parametrize("content", [None, "", "many", "0"])
def test_a_file_without_a_number_is_an_error(tmp_path: Path, content: str | None) -> None:
    """No limit at all would make the next batch take everything."""
    path = tmp_path / "cap.txt"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match="maxRowsFile"):
        read_max_rows(ReplayOptions.parse({**SHAPE, "maxRowsFile": str(path)}))
