# SPDX-License-Identifier: Apache-2.0
"""The holder's side of the guard: starts the guard process, keeps the lease alive, restores a lifted quota."""

from __future__ import annotations

import json
import logging
import os
import select
import subprocess
import sys
import threading

from penstock.adaptors.cgroups import guard
from penstock.adaptors.cgroups.group import CpuGroup
from penstock.errors import ActuationError, AdaptorError

_log = logging.getLogger(__name__)

LEASE_SECONDS = 5.0
_START_SECONDS = 30.0
_END_SECONDS = 5.0


class Lease:
    """A guard process over a group, and the thread whose beats keep the lease.

    Each beat also checks the quota. If the holder hung, the guard has lifted the quota, and the next beat sets it
    again. A lost guard is started anew.
    """

    def __init__(self, group: CpuGroup, *, lease_seconds: float = LEASE_SECONDS) -> None:
        self._group = group
        self._lease_seconds = lease_seconds
        self._lock = threading.RLock()
        # A separate lock, always the innermost: the locked group reports origins while a locked beat asks the group.
        self._pipe_lock = threading.RLock()
        self._stopped = threading.Event()
        self._guard: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._wanted: float | None = None
        self.reapplied = 0
        """How often the quota was found lifted and set again."""
        self.fault: str | None = None
        """Why the last beat failed, or None if it succeeded."""

    @property
    def guard_pid(self) -> int | None:
        """The guard's process id."""
        return None if self._guard is None else self._guard.pid

    def start(self) -> None:
        """Start the guard and the beats."""
        with self._pipe_lock:
            self._start_guard()
        self._group.on_origin = self.tell_origin
        self._group.on_part = self.tell_part
        self._thread = threading.Thread(target=self._run, name="penstock-cgroup-lease", daemon=True)
        self._thread.start()

    def set_quota(self, cores: float | None) -> None:
        """Set the group's quota and keep it set. Without a guard nothing is capped."""
        with self._lock:
            self.beat()
            if self.fault is not None and cores is not None:
                raise ActuationError(f"{self.fault}; nothing is capped meanwhile", target="guard", retryable=True)
            if cores is None:
                self._wanted = None  # also if the kernel refuses now: no later beat may set the old cap again
            self._group.set_quota(cores)
            self._wanted = cores

    def tell_origin(self, pid: int, origin: list[str]) -> None:
        """Report where a process came from to the guard."""
        self._send(json.dumps({"pid": pid, "origin": origin}))

    def tell_part(self, part: guard.GroupFolders) -> None:
        """Report a new part of the group to the guard."""
        self._send(json.dumps(_described(part)))

    def beat(self) -> None:
        """Renew the lease once, and set the quota again if the guard has lifted it."""
        with self._lock:
            if self._stopped.is_set():
                return
            try:
                self._send("")
                if not self._group.has_quota(self._wanted):
                    self._group.set_quota(self._wanted)
                    self.reapplied += 1
            except (AdaptorError, OSError) as fault:
                if self.fault is None:
                    _log.warning("cgroups: the lease on %s failed: %s", self._group.folder, fault)
                self.fault = f"cgroups: the lease on {self._group.folder} failed: {fault}"
                self._open_unguarded()
            else:
                self.fault = None

    def stop(self) -> None:
        """End the beats and the guard. May be called twice."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(timeout=10.0)
        with self._pipe_lock:
            self._end_guard()

    # --- inside ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopped.wait(self._lease_seconds / 5):
            self.beat()

    def _open_unguarded(self) -> None:
        """Lift the cap, which nobody would lift if this process died. The next successful beat sets it again."""
        try:
            self._group.set_quota(None)
        except ActuationError as fault:
            _log.warning("%s", fault)

    def _send(self, line: str) -> None:
        with self._pipe_lock:
            try:
                self._write(line)
            except OSError as fault:  # a broken pipe: it died; a full one: it hangs
                _log.warning("cgroups: the guard of %s was lost (%s); starting another", self._group.folder, fault)
                self._start_guard()
                self._write(line)

    def _write(self, line: str) -> None:
        if self._guard is None or self._guard.stdin is None or self._guard.poll() is not None:
            raise BrokenPipeError("no guard is running")
        data = f"{line}\n".encode()
        if os.write(self._guard.stdin.fileno(), data) != len(data):
            raise BlockingIOError("the guard no longer reads")

    def _start_guard(self) -> None:
        self._kill_guard()
        group = self._group
        description = json.dumps(
            {
                "version": group.folders.version,
                "parts": [_described(part) for part in group.parts],
                "proc": group.folders.proc,
                "holder_pid": group.owner.pid,
                "holder_started": group.owner.started,
                "lease_seconds": self._lease_seconds,
            }
        )
        try:
            # -I and -S: no site-packages, no environment; the file runs by itself. In its own session, Ctrl-C in the
            # holder's terminal does not reach it.
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", guard.__file__, description],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                close_fds=True,
                start_new_session=True,
                cwd="/",
            )
        except OSError as fault:
            raise ActuationError(f"cgroups: the guard process cannot be started: {fault}", target="guard") from fault
        assert self._guard.stdin is not None
        self._wait_until_ready(self._guard)
        os.set_blocking(self._guard.stdin.fileno(), False)
        for pid, origin in list(group.folders.origins.items()):
            self._write(json.dumps({"pid": pid, "origin": origin}))

    def _wait_until_ready(self, started: subprocess.Popen[bytes]) -> None:
        assert started.stdout is not None
        with started.stdout as said:
            ready, _, _ = select.select([said], [], [], _START_SECONDS)
            if not ready or said.read(1) != b"\n":
                self._kill_guard()
                raise ActuationError(
                    f"cgroups: the guard process did not start within {_START_SECONDS:g} s; "
                    f"to see why, run: {sys.executable} -I -S {guard.__file__} '{{}}'",
                    target="guard",
                    retryable=True,
                )

    def _kill_guard(self) -> None:
        """Make sure that no former guard is left. A killed guard changes nothing in the group."""
        if self._guard is not None:
            self._guard.kill()
            self._end_guard()

    def _end_guard(self) -> None:
        if self._guard is None:
            return
        if self._guard.stdin is not None:
            self._guard.stdin.close()
        try:
            self._guard.wait(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()
        self._guard = None


def _described(part: guard.GroupFolders) -> dict[str, list[str] | list[list[str]]]:
    return {"folders": part.folders, "fallbacks": part.fallbacks}
