# SPDX-License-Identifier: Apache-2.0
"""Run folders: which is the newest, and where a new one goes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.cli.runs import find_run, make_run_folder, opened
from penstock.errors import ConfigurationError


def _a_run(runs: Path, name: str, touched: float) -> Path:
    folder = runs / name
    folder.mkdir(parents=True)
    (folder / "knowledge.sqlite").touch()
    os.utime(folder / "knowledge.sqlite", (touched, touched))
    return folder


def test_the_newest_run_by_the_time_in_its_name(tmp_path: Path) -> None:
    """The time in the name counts, whatever the pipeline's name and however lately an old file was touched."""
    _a_run(tmp_path, "zebra-20260101-000000", touched=4e9)
    newest = _a_run(tmp_path, "ant-20260102-000000", touched=1e9)
    (tmp_path / "broken-20270101-000000").mkdir()
    found = find_run(None, tmp_path)
    assert found.folder == newest
    assert found.was_chosen


def test_two_runs_of_one_second_are_told_apart(tmp_path: Path) -> None:
    """Of runs that started in the same second the one with the higher number is newer, also beyond nine."""
    _a_run(tmp_path, "demo-20260101-000000", touched=4e9)
    _a_run(tmp_path, "demo-20260101-000000-9", touched=4e9)
    newest = _a_run(tmp_path, "demo-20260101-000000-10", touched=1e9)
    assert find_run(None, tmp_path).folder == newest


def test_a_folder_with_a_name_of_its_own_counts_by_its_file(tmp_path: Path) -> None:
    """A run in a folder without a time in its name is as old as its knowledge."""
    _a_run(tmp_path, "demo-20260101-000000", touched=1e9)
    own = _a_run(tmp_path, "tuesday-99999999-999999", touched=4e9)
    assert find_run(None, tmp_path).folder == own


def test_new_folders_never_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that start in the same second get folders of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.cli.runs.time.strftime", lambda _: "20260101-000000")
    first, second = make_run_folder("demo"), make_run_folder("demo")
    assert (first.name, second.name) == ("demo-20260101-000000", "demo-20260101-000000-2")
    assert list(first.iterdir()) == []


def test_other_users_cannot_enter_a_new_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds records of the pipeline, and files with passwords."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir(mode=0o755)
    assert make_run_folder("demo").stat().st_mode & 0o777 == 0o700
    assert make_run_folder("demo", tmp_path / "empty").stat().st_mode & 0o777 == 0o700


def test_an_unusable_folder_is_named(tmp_path: Path) -> None:
    """A folder under a file cannot be made; the message names the option."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"--folder: .*file/run cannot be used"):
        make_run_folder("demo", tmp_path / "file" / "run")


def test_a_pipeline_of_masters_is_found_by_its_name(tmp_path: Path) -> None:
    """As FOLDER/NAME, as the commands that steer it take it; another name is none."""
    from penstock.service.master_stores import StoreFolder

    stores = StoreFolder(tmp_path / "masters")
    stores.open("words").close()
    stores.close()
    found = find_run(tmp_path / "masters" / "words")
    with opened(found) as store:
        assert store.decisions("words") == []
    with pytest.raises(ConfigurationError, match="does not exist"):
        find_run(tmp_path / "masters" / "pages")
