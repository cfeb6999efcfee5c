# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the one that started them."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.leftovers import marked_processes
from penstock.errors import ClusterError

SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
STARTER = """
import os, sys
from pathlib import Path
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.leftovers import marked_processes
folder = Path(sys.argv[1])
argv = [sys.executable, "-c", "import time; time.sleep(600)"]
DetachedProcess.start("p", argv, log=folder / "log", env=os.environ, cwd=folder, identity=folder / "id")
os.kill(os.getpid(), 9)
"""


def test_a_killed_starter_leaves_it_running_for_the_next_to_adopt(tmp_path: Path) -> None:
    """After kill -9 of the one that started it the process runs on, is adopted, and can be stopped."""
    starter = subprocess.run([sys.executable, "-c", STARTER, str(tmp_path)], check=False)
    assert starter.returncode == -signal.SIGKILL
    adopted = DetachedProcess.adopt("p", log=tmp_path / "log", identity=tmp_path / "id")
    assert adopted is not None
    assert adopted.poll() is None
    assert adopted.wait(0.01) is None
    adopted.stop()
    assert adopted.poll() is not None
    with pytest.raises(ClusterError, match="p \\(pid"):
        adopted.raise_if_ended()


def test_one_that_ended_is_not_adopted(tmp_path: Path) -> None:
    """A process that is gone, a pid that is another's, and a broken file give None."""
    identity = tmp_path / "id"
    assert DetachedProcess.adopt("p", log=tmp_path / "log", identity=identity) is None
    started = DetachedProcess.start("p", SLEEP, log=tmp_path / "log", env=os.environ, cwd=tmp_path, identity=identity)
    started.stop()
    assert DetachedProcess.adopt("p", log=tmp_path / "log", identity=identity) is None
    identity.write_text(f'{{"pid": {os.getpid()}, "created": 1.0}}')
    assert DetachedProcess.adopt("p", log=tmp_path / "log", identity=identity) is None
    identity.write_text("not json")
    assert DetachedProcess.adopt("p", log=tmp_path / "log", identity=identity) is None


def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    """What cannot be started names itself."""
    with pytest.raises(ClusterError, match="could not be started"):
        DetachedProcess.start(
            "p", ["/nowhere/at-all"], log=tmp_path / "log", env=os.environ, cwd=tmp_path, identity=tmp_path / "id"
        )


def test_one_that_nobody_would_find_again_is_ended(tmp_path: Path) -> None:
    """Where no file can say which process it is, as on a full disk, it does not run on unseen."""
    (tmp_path / "id").mkdir()
    with pytest.raises(ClusterError, match=r"p was ended: .*id cannot be written"):
        DetachedProcess.start(
            "p", SLEEP, log=tmp_path / "log", env={**os.environ, "MARK": str(tmp_path)}, cwd=tmp_path,
            identity=tmp_path / "id",
        )  # fmt: skip
    assert not marked_processes("MARK", str(tmp_path))
