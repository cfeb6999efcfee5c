# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive Penstock. Operators on an external cluster keep running when their controller dies.

A file beside the process's log identifies it, so that the next controller can take it over.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from penstock.adaptors.process.children import LoggedProcess
from penstock.adaptors.process.identity import ProcessIdentity, boot_id
from penstock.errors import ClusterError

_UNKNOWN_EXIT = 255  # not our child: that it ended can be seen, but not how


class DetachedProcess(LoggedProcess):
    """A process in its own session. Create it with `start` or `adopt`."""

    def __init__(self, name: str, process: psutil.Process, log: Path, child: subprocess.Popen[bytes] | None) -> None:
        super().__init__(name, process.pid, log)
        self._process = process
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
        """Start a process and write to `identity` which one it is."""
        try:
            with log.open("ab") as output:
                child = subprocess.Popen(
                    list(argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=dict(env), cwd=cwd,
                    start_new_session=True,
                )  # fmt: skip
        except OSError as fault:
            raise ClusterError(f"{name} could not be started: {fault}", target=name) from fault
        process = psutil.Process(child.pid)
        found = ProcessIdentity.of(child.pid)
        identity.write_text(json.dumps({"process": str(found)}), encoding="utf-8")
        return cls(name, process, log, child)

    @classmethod
    def adopt(cls, name: str, *, log: Path, identity: Path) -> DetachedProcess | None:
        """Return the process that `identity` names, if it still runs."""
        known = _read(identity)
        if known is None or not known.is_running:
            return None
        try:
            process = psutil.Process(known.pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else cls(name, process, log, None)
        except psutil.NoSuchProcess:
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
            elif not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
                self.returncode = _UNKNOWN_EXIT
        return self.returncode

    def wait(self, timeout_seconds: float | None = None) -> int | None:
        """Wait for the end and return the exit code, or None if the time is up first."""
        try:
            self._process.wait(timeout_seconds)
        except psutil.TimeoutExpired:
            return None
        return self.poll()

    def stop(self, *, grace_seconds: float = 5.0) -> None:
        """End the process: SIGTERM first, SIGKILL after the grace time."""
        if self.poll() is None:
            self._process.terminate()
            if self.wait(grace_seconds) is None:
                self._process.kill()
                self.wait(grace_seconds)


def _read(identity: Path) -> ProcessIdentity | None:
    try:
        known = json.loads(identity.read_text(encoding="utf-8"))
        if "process" in known:
            return ProcessIdentity.parse(known["process"])
        # As earlier versions wrote it: a run of theirs may be resumed.
        is_it = psutil.Process(known["pid"]).create_time() == known["created"]
        return ProcessIdentity.of(known["pid"]) if is_it else None
    except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
        return None
