# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive Penstock. Operators on an external cluster keep running when their controller dies.

A file beside the process's log identifies it, so that the next controller can take it over.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from penstock.adaptors.process.children import LoggedProcess
from penstock.adaptors.process.identity import ProcessIdentity, boot_id
from penstock.adaptors.process.leftovers import marked_processes
from penstock.crash_points import crash_point
from penstock.errors import ClusterError

_POLL_SECONDS = 0.02
_UNKNOWN_EXIT = 255  # not our child: that it ended can be seen, but not how


class DetachedProcess(LoggedProcess):
    """A process in its own session. Create it with `start` or `adopt`."""

    def __init__(
        self, name: str, identity: ProcessIdentity, log: Path, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        super().__init__(name, identity.pid, log)
        self._identity = identity
        self._child = child

    @classmethod
    def start(
        cls,
        name: str,
        argv: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str],
        cwd: Path,
        identity: Path,
    ) -> DetachedProcess:
        """Start a process and write to `identity` which one it is.

        Raises
        ------
        ClusterError
            It cannot be started, or that cannot be written: then it was ended, for nobody would find it.
        """
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as fault:
            raise ClusterError(f"{name} could not be started: {fault}", target=name) from fault
        crash_point("process-started")
        found = ProcessIdentity.of(child.pid)
        assert found is not None  # until somebody asks how it ended, the kernel keeps it
        try:
            _write(identity, found)
        except OSError as fault:
            child.kill()
            child.wait()
            raise ClusterError(f"{name} was ended: {identity} cannot be written: {fault}", target=name) from fault
        crash_point("process-known")
        return cls(name, found, log, child)

    @classmethod
    def adopt(cls, name: str, *, log: Path, identity: Path) -> DetachedProcess | None:
        """Return the process that `identity` names, if it still runs."""
        known = _read(identity)
        return None if known is None or known.has_ended else cls(name, known, log)

    @classmethod
    def adopt_marked(
        cls, name: str, word: str, *, log: Path, identity: Path, variable: str, mark: str
    ) -> DetachedProcess | None:
        """Return a process that runs with `word` on its command line and `mark` in its environment.

        For one whose file was lost, or could not be written: it runs all the same. The file is written anew.
        """
        for pid in marked_processes(variable, mark):
            known = ProcessIdentity.of(pid)
            if known is not None and not known.has_ended and word in _command_line(pid):
                _write(identity, known)
                return cls(name, known, log)
        return None

    @staticmethod
    def is_elsewhere(identity: Path) -> bool:
        """Whether `identity` names a process of another container, which may run and cannot be seen from here."""
        known = _read(identity)
        return known is not None and known.boot == boot_id() and not known.is_of_here

    def poll(self) -> int | None:
        """The exit code, or None while the process runs."""
        if self.returncode is None:
            if self._child is not None:
                self.returncode = self._child.poll()
            elif self._identity.has_ended:
                self.returncode = _UNKNOWN_EXIT
        return self.returncode

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the end and return the exit code, or None if the time is up first."""
        deadline = math.inf if timeout_seconds is None else time.monotonic() + timeout_seconds
        while self.poll() is None:
            if time.monotonic() >= deadline:
                return None
            time.sleep(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))
        return self.returncode

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End the process: SIGTERM first, SIGKILL after the grace time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(self.pid, number)
            self.wait(grace_seconds)


def _command_line(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="surrogateescape").split("\0")
    except OSError:  # it ended meanwhile
        return []


def _write(path: Path, identity: ProcessIdentity) -> None:
    draft = path.with_name(path.name + ".draft")  # whole or not at all
    draft.write_text(json.dumps({"process": str(identity)}), encoding="utf-8")
    draft.replace(path)


def _read(identity: Path) -> ProcessIdentity | None:
    try:
        known = json.loads(identity.read_text(encoding="utf-8"))
        if "process" in known:
            return ProcessIdentity.parse(known["process"])
        # As earlier versions wrote it: a run of theirs may be resumed.
        is_it = psutil.Process(known["pid"]).create_time() == known["created"]
        return ProcessIdentity.of(known["pid"]) if is_it else None
    except (OSError, psutil.Error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None  # a file that was damaged names nobody
