# SPDX-License-Identifier: Apache-2.0
"""Folders that other users of the machine must not enter."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from penstock.adaptors.machine import root_note
from penstock.adaptors.private_file import is_private, make_private_folder, write_private


def _write_often(path: Path, letter: str) -> None:
    for _ in range(60):
        write_private(path, letter * 5000)
        assert len(set(path.read_text())) == 1, "a torn file was read"


def test_processes_that_write_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Two masters of one folder may both say where they are: each write succeeds, and no read is of half a file."""
    path = tmp_path / "service.json"
    with ProcessPoolExecutor(2) as pool:
        for done in [pool.submit(_write_often, path, letter) for letter in "ab"]:
            done.result(60)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["service.json"]


def test_a_new_or_empty_folder_is_closed(tmp_path: Path) -> None:
    """Whatever its mode was, nobody else may enter."""
    (tmp_path / "empty").mkdir(mode=0o755)
    assert make_private_folder(tmp_path / "empty")
    assert make_private_folder(tmp_path / "new" / "below")
    assert is_private(tmp_path / "new" / "below")


def test_a_folder_with_content_stays_as_it_is(tmp_path: Path) -> None:
    """It may be shared on purpose; the caller learns that it is open."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    (shared / "file").touch()
    assert not make_private_folder(shared)
    assert shared.stat().st_mode & 0o777 == 0o755


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """The error is that of making a folder."""
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")


def test_only_root_gets_the_note() -> None:
    """One line says what running as root means."""
    assert root_note(1000) is None
    note = root_note(0)
    assert note is not None
    assert "root" in note
    assert "\n" not in note
