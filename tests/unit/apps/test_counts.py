# SPDX-License-Identifier: Apache-2.0
"""The file of counts: whole, replaced, read back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.apps.counts import Counts, read_counts, write_counts
from penstock.errors import ConfigurationError

ROWS = [("total", "", 5), ("malformed", "", 1), ("component", "a.B", 4), ("pattern", "läuft", 2)]


def test_counts_come_back_as_they_were_written(tmp_path: Path) -> None:
    """What is written by kind and key is read back, from the folder and from the file itself."""
    path = write_counts(tmp_path / "new" / "out", 7, ROWS)
    counts = read_counts(path.parent)
    assert counts == read_counts(path)
    assert counts is not None
    assert (counts.batch_id, counts.total, counts.malformed) == (7, 5, 1)
    assert counts.of("component") == {"a.B": 4}
    assert counts.of("pattern") == {"läuft": 2}


def test_a_batch_run_again_changes_nothing(tmp_path: Path) -> None:
    """Writing the same batch twice leaves one file with the same content."""
    before = write_counts(tmp_path, 7, ROWS).read_bytes()
    assert write_counts(tmp_path, 7, ROWS).read_bytes() == before
    assert [child.name for child in tmp_path.iterdir()] == ["counts.json"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    """A result that cannot be read to its end replaces nothing and leaves no temporary file."""
    write_counts(tmp_path, 1, ROWS)

    def broken() -> Iterator[tuple[str, str, int]]:
        yield ROWS[0]
        raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        write_counts(tmp_path, 2, broken())
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_counts(tmp_path, 2, [("total", "", 1j)])  # type: ignore[list-item]
    counts = read_counts(tmp_path)
    assert counts is not None
    assert counts.batch_id == 1
    assert [child.name for child in tmp_path.iterdir()] == ["counts.json"]


def test_no_batch_yet_is_none(tmp_path: Path) -> None:
    """Before the first batch there are no counts, which is not the same as zero."""
    assert read_counts(tmp_path) is None
    assert read_counts(tmp_path / "never" / "made") is None


def test_what_was_not_counted_is_none() -> None:
    """A query that sees no malformed lines does not say there were none."""
    counts = Counts(0, {"component": {"a": 1}})
    assert (counts.total, counts.malformed) == (None, None)
    assert counts.of("pattern") == {}


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"batch_id": 1, "counts": 3}', '{"batch_id": "x", "counts": {}}'])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    """A file that holds something else is named."""
    (tmp_path / "counts.json").write_text(text)
    with pytest.raises(ConfigurationError, match=r"counts\.json does not contain counts"):
        read_counts(tmp_path)
