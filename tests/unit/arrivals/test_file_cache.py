# SPDX-License-Identifier: Apache-2.0
"""Files made once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import BinaryIO

import pytest

from penstock.arrivals.file_cache import cached_file, default_cache_dir, fingerprint
from penstock.errors import ConfigurationError


def test_a_file_is_made_once(tmp_path: Path) -> None:
    """The same identity is written once; another one beside it."""
    calls = []

    def write(file: BinaryIO) -> None:
        calls.append(1)
        file.write(b"made")

    first = cached_file(tmp_path / "new", "thing.bin", ("a", 1), write)
    assert cached_file(tmp_path / "new", "thing.bin", ("a", 1), write) == first
    assert first.read_bytes() == b"made"
    assert cached_file(tmp_path / "new", "thing.bin", ("a", 2), write) != first
    assert len(calls) == 2


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    """When writing fails, neither the file nor a part of it is left."""

    def write(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        cached_file(tmp_path, "thing.bin", 1, write)
    assert list(tmp_path.iterdir()) == []


def test_the_default_folder_is_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shared temporary folder is only trusted where nobody else can write."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = default_cache_dir()
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    with pytest.raises(ConfigurationError, match="not a private folder"):
        default_cache_dir()


def test_a_fingerprint_needs_a_file(tmp_path: Path) -> None:
    """Folders and missing files are refused in the name of the field."""
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigurationError, match="payload") as caught:
            fingerprint(path, "payload")
        assert caught.value.field == "payload"
