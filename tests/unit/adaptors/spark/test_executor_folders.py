# SPDX-License-Identifier: Apache-2.0
"""Folders of ended executors have a bound."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from penstock.adaptors.spark.executor_folders import remove_old_executors


def test_the_newest_and_those_in_use_stay(tmp_path: Path) -> None:
    """Of ended executors the last ones are kept for their logs; one that runs keeps its folder, however old."""
    application = tmp_path / "worker-1" / "app-1"
    for number in range(30):
        (application / str(number)).mkdir(parents=True)
        (application / str(number) / "stderr").write_text("log")
    (application / "not an executor").mkdir()
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=application / "2")
    try:
        assert remove_old_executors(tmp_path, kept=5) == []
    finally:
        running.communicate(b"\n")
    assert sorted(int(path.name) for path in application.glob("[0-9]*")) == [2, 25, 26, 27, 28, 29]
    assert (application / "not an executor").is_dir()


def test_a_run_folder_behind_a_link_keeps_executors_that_run(tmp_path: Path) -> None:
    """A process shows where it works without links; it runs there all the same."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    application = tmp_path / "link" / "worker-1" / "app-1"
    for number in range(3):
        (application / str(number)).mkdir(parents=True)
    running = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, cwd=application / "0")
    try:
        assert remove_old_executors(tmp_path / "link", kept=1) == []
    finally:
        running.communicate(b"\n")
    assert sorted(path.name for path in application.iterdir()) == ["0", "2"]


def test_without_executors_there_is_nothing_to_do(tmp_path: Path) -> None:
    """A cluster that has just begun has none."""
    assert remove_old_executors(tmp_path / "none") == []
