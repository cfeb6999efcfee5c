# SPDX-License-Identifier: Apache-2.0
"""Children under the warden: started, watched, stopped in order, gone at the end."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from penstock.adaptors.process import leftovers
from penstock.adaptors.process import warden as warden_program
from penstock.adaptors.process.children import Warden, describe_exit
from penstock.adaptors.process.identity import ProcessIdentity
from penstock.adaptors.process.warden import MARK
from penstock.errors import ClusterError


@pytest.fixture
def warden() -> Iterator[Warden]:
    """A warden that ends with the test."""
    with Warden(grace_seconds=5.0) as opened:
        yield opened


def eventually(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Ask again until it holds; the bound only ends a failing test."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_a_child_runs_and_its_exit_code_and_output_are_known(warden: Warden, tmp_path: Path) -> None:
    """A child's exit code arrives and its output is in its log."""
    child = warden.start("talker", ["sh", "-c", "echo one; echo two >&2; exit 7"], log=tmp_path / "talker.log")
    assert child.wait(20) == 7
    assert child.poll() == 7
    assert child.tail().splitlines() == ["one", "two"]
    assert child.tail(1) == "two"


def test_an_unexpected_end_is_told_with_the_logs_last_lines(warden: Warden, tmp_path: Path) -> None:
    """The error about an ended child names it, says how it ended and shows its last words."""
    child = warden.start("fragile", ["sh", "-c", "echo out of luck; kill -9 $$"], log=tmp_path / "fragile.log")
    child.wait(20)
    with pytest.raises(ClusterError, match=r"fragile \(pid \d+\) was ended by SIGKILL.*\n.*out of luck") as caught:
        child.raise_if_ended()
    assert caught.value.target == "fragile"


def test_a_running_child_raises_nothing(warden: Warden, tmp_path: Path) -> None:
    """While a child runs there is no exit code and no error, and its repr says so."""
    child = warden.start("steady", ["sleep", "600"], log=tmp_path / "steady.log")
    child.raise_if_ended()
    assert child.wait(0.0) is None
    assert "running" in repr(child)
    assert warden.stop(child) == -signal.SIGTERM
    assert warden.stop(child) == -signal.SIGTERM  # a second stop is no error


def test_a_program_that_is_not_there_is_a_clear_error(warden: Warden, tmp_path: Path) -> None:
    """Starting a missing program names the child and the program; the warden goes on."""
    with pytest.raises(ClusterError, match=r"ghost could not be started: .*no-such-program"):
        warden.start("ghost", ["/no-such-program"], log=tmp_path / "ghost.log")
    assert warden.start("next", ["true"], log=tmp_path / "next.log").wait(20) == 0


def test_environment_folder_and_standard_input_are_as_asked(warden: Warden, tmp_path: Path) -> None:
    """A child sees the environment given, the mark of its warden, its folder, and an empty standard input."""
    where = tmp_path / "where"
    where.mkdir()
    script = f"echo $COLOUR; echo ${MARK}; pwd; cat; echo end"
    environment = {"COLOUR": "blue", "PATH": os.environ["PATH"]}
    child = warden.start("looker", ["sh", "-c", script], log=tmp_path / "l.log", env=environment, cwd=where)
    assert child.wait(20) == 0
    assert child.tail().splitlines() == ["blue", warden.mark, str(where), "end"]


def test_the_wardens_pipes_are_not_inherited(warden: Warden, tmp_path: Path) -> None:
    """A child holds its null input and its log, nothing of the warden's: or Penstock's end would go unseen."""
    child = warden.start("holder", ["sh", "-c", "echo set; sleep 600; true"], log=tmp_path / "holder.log")
    assert eventually(lambda: child.tail() == "set")  # past the loader, which opens files of its own
    descriptors = {entry.name: str(entry.readlink()) for entry in Path(f"/proc/{child.pid}/fd").iterdir()}
    log = str(tmp_path / "holder.log")
    assert descriptors == {"0": "/dev/null", "1": log, "2": log}


def test_a_child_that_ignores_sigterm_is_killed_after_the_grace_time(warden: Warden, tmp_path: Path) -> None:
    """SIGTERM first; a child that does not listen is killed."""
    stubborn = warden.start(
        "stubborn", ["sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.1; done"], log=tmp_path / "s.log"
    )
    assert eventually(lambda: stubborn.tail() == "set")
    assert warden.stop(stubborn, grace_seconds=0.1) == -signal.SIGKILL


def test_stopping_a_child_takes_what_it_has_below_it(warden: Warden, tmp_path: Path) -> None:
    """A grandchild, even in a session of its own, ends with the child that is stopped; other children stay."""
    other = warden.start("other", ["sleep", "600"], log=tmp_path / "other.log")
    family = warden.start("family", ["sh", "-c", "setsid sleep 600 & echo $!; wait"], log=tmp_path / "family.log")
    assert eventually(lambda: family.tail().isdigit())
    grandchild = int(family.tail())
    warden.stop(family)
    assert eventually(lambda: not psutil.pid_exists(grandchild))
    assert other.returncode is None


def test_close_ends_children_last_started_first_and_removes_folders(tmp_path: Path) -> None:
    """At the end the last started child goes first, then the folders; nothing is left; closing twice is fine."""
    order = tmp_path / "order"
    with Warden() as warden:
        folder = warden.temporary_folder(tmp_path)
        assert (folder / leftovers.OWNER_FILE).read_text() == warden.mark
        for name in ("first", "second"):
            script = f"trap 'echo {name} >> {order}; exit 0' TERM; echo set; while :; do sleep 0.02; done"
            child = warden.start(name, ["sh", "-c", script], log=tmp_path / f"{name}.log")
            assert eventually(lambda child=child: child.tail() == "set")  # type: ignore[misc]
        pids = [warden.pid, *(child.pid for child in warden.children)]
    warden.close()
    assert order.read_text().split() == ["second", "first"]
    assert [child.returncode for child in warden.children] == [0, 0]
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert not folder.exists()
    with pytest.raises(ClusterError, match="closed"):
        warden.start("late", ["true"], log=tmp_path / "late.log")


def test_close_finds_an_orphan_that_left_its_session(tmp_path: Path) -> None:
    """A process that forked twice and left its session is adopted by the warden and ended with the rest."""
    with Warden() as warden:
        log = tmp_path / "daemon.log"
        child = warden.start("daemoniser", ["sh", "-c", "(setsid sleep 600 & echo $!)"], log=log)
        assert child.wait(20) == 0
        orphan = int(child.tail())
        assert psutil.Process(orphan).ppid() == warden.pid
        assert leftovers.marked_processes()[orphan] == warden.mark
    assert not psutil.pid_exists(orphan)


def test_the_warden_stands_in_a_session_of_its_own(warden: Warden, tmp_path: Path) -> None:
    """Neither the warden nor its children are in this process's session, so a terminal's Ctrl-C passes them by."""
    child = warden.start("apart", ["sleep", "600"], log=tmp_path / "apart.log")
    assert os.getsid(warden.pid) == warden.pid
    assert os.getsid(child.pid) == warden.pid


def test_a_mark_names_one_process_for_ever(tmp_path: Path) -> None:
    """A dead warden's mark is dead, as is that of a later process with its pid; folders with it are leftovers."""
    this = ProcessIdentity.this_process()
    own, stale = str(this), str(replace(this, started=1))
    assert not leftovers.is_dead(own)
    assert leftovers.is_dead(stale)
    assert not leftovers.is_dead("nonsense")
    for name, mark in (("penstock-dead", stale), ("penstock-living", own), ("other-dead", stale)):
        (tmp_path / name).mkdir()
        (tmp_path / name / leftovers.OWNER_FILE).write_text(mark)
    (tmp_path / "penstock-link").symlink_to(tmp_path / "other-dead")  # a trap: leads elsewhere
    assert leftovers.find_leftovers(tmp_path).folders == (tmp_path / "penstock-dead",)


def test_a_warden_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """When the warden's program fails its last words are in the error, and it is not left behind."""
    program = tmp_path / "broken.py"
    program.write_text("raise SystemExit('no luck today')")
    monkeypatch.setattr(warden_program, "__file__", str(program))
    with pytest.raises(ClusterError, match=r"did not start:\nno luck today"):
        Warden()


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "ended with exit code 0"), (-15, "was ended by SIGTERM"), (-40, "was ended by signal 40")],
)
def test_an_exit_is_told_in_words(code: int, words: str) -> None:
    """Exit codes and signals, named or not, are said in words."""
    assert describe_exit(code) == words


def test_a_start_that_is_reported_too_late_does_not_end_the_reader(tmp_path: Path) -> None:
    """Nobody waits for the child any more: it is ended, and everything else goes on."""
    with Warden() as warden:
        log, argv = tmp_path / "log", ["sleep", "60"]
        warden._send({"start": "late#0", "argv": argv, "env": dict(os.environ), "cwd": str(tmp_path), "log": str(log)})
        child = warden.start("next", argv, log=log)
        warden.check()
        assert child.poll() is None
        assert warden.stop(child) is not None
        assert eventually(lambda: warden_program.descendants_of(warden.pid) == [])


def test_ended_children_are_not_remembered_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over weeks of restarts only the newest stay, and those that run."""
    monkeypatch.setattr("penstock.adaptors.process.children._ENDED_KEPT", 2)
    with Warden() as warden:
        log = tmp_path / "log"
        stays = warden.start("stays", ["sleep", "60"], log=log)
        for number in range(5):
            assert warden.start(f"goes {number}", ["true"], log=log).wait(20.0) == 0
        names = [child.name for child in warden.children]
        assert names == ["stays", "goes 3", "goes 4"]
        assert stays.poll() is None


def test_a_late_start_without_a_thread_to_end_it_does_not_end_the_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of threads the late child is ended by the next start."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with Warden() as warden:
        log, argv = tmp_path / "log", ["sleep", "60"]
        with monkeypatch.context() as limited:
            limited.setattr(threading.Thread, "start", refuse)
            warden._send(
                {"start": "late#0", "argv": argv, "env": dict(os.environ), "cwd": str(tmp_path), "log": str(log)}
            )
            assert eventually(lambda: bool(warden_program.descendants_of(warden.pid)) and bool(warden._noise))
        child = warden.start("next", argv, log=log)
        warden.check()
        assert warden.stop(child) is not None
        assert eventually(lambda: warden_program.descendants_of(warden.pid) == [])


def test_two_starts_at_once_may_remove_the_same_leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the other one has removed meanwhile is gone, which is what both want."""
    stale = str(replace(ProcessIdentity.this_process(), started=1))
    folder = tmp_path / "penstock-dead"
    folder.mkdir()
    (folder / leftovers.OWNER_FILE).write_text(stale)
    (folder / "log").touch()
    remove = shutil.rmtree

    def late(path: Path) -> None:
        (path / "log").unlink(missing_ok=True)
        if path.exists():
            monkeypatch.setattr(shutil, "rmtree", remove)
        raise FileNotFoundError(path / "log")

    monkeypatch.setattr(shutil, "rmtree", late)
    assert leftovers.remove_leftovers(tmp_path).folders == (folder,)
    assert not folder.exists()
