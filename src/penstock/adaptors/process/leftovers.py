# SPDX-License-Identifier: Apache-2.0
"""Finds what dead runs left behind: processes with a dead warden's mark, and folders that name one as owner."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.process.identity import ProcessIdentity, pid_namespace
from penstock.adaptors.process.warden import MARK

OWNER_FILE = ".penstock-warden"
"""A file in a run's temporary folder, with the mark of the warden that will remove the folder.

File and variable have other names than in versions that knew pids alone: these would take such a mark for a dead one's.
"""
FOLDER_PREFIX = "penstock-"
_REMOVALS = 100
_BEGIN_SECONDS = 2.0
"""How long a process may take to show its environment after its start."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """Processes and folders whose warden is dead."""

    processes: tuple[int, ...] = ()
    folders: tuple[Path, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.processes or self.folders)


def find_leftovers(temporary: Path | None = None) -> Leftovers:
    """Return what dead runs left on this machine. Folders are searched in `temporary`, the system's by default."""
    processes = tuple(pid for pid, mark in sorted(marked_processes().items()) if is_dead(mark))
    folders = []
    for owner in sorted((temporary or Path(tempfile.gettempdir())).glob(f"{FOLDER_PREFIX}*/{OWNER_FILE}")):
        folder = owner.parent
        try:  # do not remove another user's folder, or a link to elsewhere, whatever the file says
            is_ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
            mark = owner.read_text() if is_ours else None
        except OSError:  # removed meanwhile
            continue
        if mark is not None and is_dead(mark):
            folders.append(folder)
    return Leftovers(processes, tuple(folders))


def remove_leftovers(temporary: Path | None = None) -> Leftovers:
    """End the processes and remove the folders of dead runs. Return what was found."""
    found = find_leftovers(temporary)
    for mark in {mark for mark in marked_processes().values() if is_dead(mark)}:
        end_marked(mark)
    for folder in found.folders:
        _remove(folder)
    return found


def _remove(folder: Path) -> None:
    """Remove a folder, of which another start may remove parts at the same time."""
    for _ in range(_REMOVALS):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        if not folder.exists():
            return


def marked_processes(variable: str = MARK, mark: str | None = None) -> dict[int, str]:
    """Return the living processes with a variable in their environment, and its value. Default: their warden's mark.

    With `mark` only those where it has that value.

    Only those of this PID namespace: those of a container inside may carry the same value and belong to another run.
    """
    wanted, here = variable.encode() + b"=", pid_namespace()
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if here and (entry / "ns" / "pid").stat().st_ino != here:
                continue
            variables = _environment(entry).split(b"\0")
        except OSError:  # ended meanwhile, or another user's
            continue
        for text in variables:
            if text.startswith(wanted):
                found[int(entry.name)] = text[len(wanted) :].decode(errors="surrogateescape")
    return found if mark is None else {pid: value for pid, value in found.items() if value == mark}


def _environment(entry: Path) -> bytes:
    """The environment of a process. One that was started this moment may not show it yet: it is waited for.

    Between the point at which a starter knows that its program could be started and the one at which the kernel shows
    arguments and environment, the new process may be kept from the CPU.
    """
    deadline = time.monotonic() + _BEGIN_SECONDS
    while not (found := (entry / "environ").read_bytes()) and not (entry / "cmdline").read_bytes():
        try:
            (entry / "exe").readlink()
        except OSError:  # a thread of the kernel, or a process that has ended
            return b""
        if time.monotonic() > deadline:
            return b""
        time.sleep(0.01)
    return found


def is_dead(mark: str) -> bool:
    """Whether the warden that wrote `mark` has certainly ended.

    Processes of other containers can be seen here, but not their wardens: what they left cannot be judged.
    """
    warden = ProcessIdentity.parse(mark)
    return warden is not None and warden.is_dead


def end_marked(mark: str, *, variable: str = MARK, timeout_seconds: float = 10.0) -> list[int]:
    """Kill every process with `mark`. Return the pids still there when the time is up."""
    deadline = time.monotonic() + timeout_seconds
    while left := list(marked_processes(variable, mark)):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            return left
        time.sleep(0.02)
    return []
