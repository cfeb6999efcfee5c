# SPDX-License-Identifier: Apache-2.0
"""Nothing outlives Penstock: kill -9 on the owner, on the warden, and Ctrl-C in the terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.leftovers import find_leftovers, marked_processes, remove_leftovers
from penstock.errors import ClusterError

pytestmark = pytest.mark.kill

# A whole tree: a child with children of its own (one left its session, one forked twice), and one deaf to SIGTERM.
OWNER = """
import json, os, signal, sys, time
from pathlib import Path
from penstock.adaptors.process.children import Warden

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in a shell's background
folder = Path(sys.argv[1])
warden = Warden(grace_seconds=0.5)
removed = warden.temporary_folder(folder)
scripts = {
    "tree": "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; echo set; wait",
    "deaf": "trap '' TERM; echo set; while :; do sleep 0.1; done",
    "interruptible": "trap 'echo interrupted' INT; echo set; while :; do sleep 0.1; done",
}
children = [warden.start(n, ["sh", "-c", s], log=folder / f"{n}.log") for n, s in scripts.items()]
while any("set" not in child.tail() for child in children):
    time.sleep(0.01)
if os.fork() == 0:  # a fork keeps the write end of the warden's pipe open
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.close(1)
    time.sleep(600)
    os._exit(0)
try:
    print(json.dumps({"warden": warden.pid, "mark": warden.mark, "folder": str(removed)}), flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(0.3)  # time in which a Ctrl-C that had reached the children would have shown
    print(json.dumps([child.returncode for child in children]), flush=True)
    warden.close()
"""


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def carrying(mark: str) -> list[int]:
    """The living processes of one warden."""
    return [pid for pid, carried in marked_processes().items() if carried == mark]


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A process leading its group that owns a warden with a tree of children, and has a fork of itself."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, process_group=0
    )
    assert process.stdout is not None
    with process:
        yield process, json.loads(process.stdout.readline())
        for pid in [p.pid for p in psutil.process_iter(["pid"]) if _group(p.pid) == process.pid]:
            os.kill(pid, signal.SIGKILL)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None


def test_kill_9_of_the_owner_leaves_no_process_and_no_folder(
    owner: tuple[subprocess.Popen[str], dict[str, Any]],
) -> None:
    """After kill -9 of Penstock every descendant and the folder go, though a fork holds the warden's pipe open."""
    process, told = owner
    pids = carrying(told["mark"])
    assert len(pids) >= 6  # three children, three sleepers below the first, and what the loops run
    os.kill(process.pid, signal.SIGKILL)
    assert eventually(lambda: not carrying(told["mark"]))
    assert eventually(lambda: not psutil.pid_exists(told["warden"]))
    assert not Path(told["folder"]).exists()
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_ctrl_c_reaches_penstock_alone(owner: tuple[subprocess.Popen[str], dict[str, Any]], tmp_path: Path) -> None:
    """SIGINT to the process group, as a terminal sends it, leaves the children to Penstock's orderly stop."""
    process, told = owner
    os.killpg(process.pid, signal.SIGINT)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline()) == [None, None, None]
    assert process.wait(60) == 0
    assert "interrupted" not in (tmp_path / "interruptible.log").read_text()
    assert carrying(told["mark"]) == []
    assert not Path(told["folder"]).exists()


def test_sigterm_of_the_owner_ends_all(owner: tuple[subprocess.Popen[str], dict[str, Any]]) -> None:
    """A plain SIGTERM, which skips Python's exit handlers, ends the children as well."""
    process, told = owner
    process.terminate()
    assert eventually(lambda: not carrying(told["mark"]) and not psutil.pid_exists(told["warden"]))
    assert not Path(told["folder"]).exists()


def test_kill_9_of_the_warden_takes_the_children_and_is_told(tmp_path: Path) -> None:
    """If the warden itself is killed its whole tree dies, and its owner learns of it."""
    with Warden() as warden:
        script = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; echo set; wait"
        child = warden.start("tree", ["sh", "-c", script], log=tmp_path / "tree.log")
        assert eventually(lambda: child.tail() == "set" and len(carrying(warden.mark)) >= 4)
        os.kill(warden.pid, signal.SIGKILL)
        assert child.wait(30) == -signal.SIGKILL
        assert eventually(lambda: not carrying(warden.mark))
        with pytest.raises(ClusterError, match="warden of child processes is gone"):
            warden.check()
        with pytest.raises(ClusterError, match="is gone"):
            warden.start("late", ["true"], log=tmp_path / "late.log")


def test_leftovers_of_owner_and_warden_killed_together_are_found_and_removed(
    owner: tuple[subprocess.Popen[str], dict[str, Any]], tmp_path: Path
) -> None:
    """When both are killed the children die by the kernel's hand; orphans and the folder are found and removed."""
    process, told = owner
    os.kill(told["warden"], signal.SIGSTOP)  # so that it cannot act between the two kills
    os.kill(process.pid, signal.SIGKILL)
    os.kill(told["warden"], signal.SIGKILL)
    assert eventually(lambda: not psutil.pid_exists(told["warden"]))
    found = find_leftovers(tmp_path)
    assert found.folders == (Path(told["folder"]),)
    assert set(carrying(told["mark"])) <= set(found.processes)
    remove_leftovers(tmp_path)
    assert carrying(told["mark"]) == []
    assert not Path(told["folder"]).exists()
    assert not find_leftovers(tmp_path).folders
