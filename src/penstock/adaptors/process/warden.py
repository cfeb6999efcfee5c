# SPDX-License-Identifier: Apache-2.0
"""The warden: a small process that owns Penstock's children and ends them all when Penstock is gone.

It is a separate process because nothing inside Penstock runs after a kill -9. It notices that by the end of its
standard input or by a descriptor of its parent; either is enough. It runs by path with only the standard library, so
that it starts in a few hundredths of a second and loads nothing of the caller's.

Commands come as JSON lines on standard input, reports go as JSON lines to standard output::

    {"start": key, "argv": [...], "env": {...}, "cwd": path, "log": path}    -> {"started": key, "pid": n}
                                                                             or {"failed": key, "why": text}
    {"stop": key, "grace_seconds": s}                                        -> {"exited": key, "code": n}
    {"remove_on_exit": folder}
    {"end": true}                                                            -> {"ended": true, "left": [pids]}

There are three safety nets. The warden is the reaper of orphaned descendants, so it finds even one that left its
session and its parent. If the warden itself is killed, the kernel's parent-death signal ends the children. And every
descendant carries MARK in its environment, which distinguishes leftovers from other people's processes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

MARK = "PENSTOCK_WARDEN_ID"
"""Environment variable of every child: ``<pid>:<start tick>:<PID namespace>:<boot>`` of its warden."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def start_tick(pid: int) -> int | None:
    """Return when a process started, in kernel ticks since boot. With the pid, it identifies one process for ever."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # it ended
        return None
    return int(stat.rpartition(")")[2].split()[19])


def descendants_of(root: int) -> list[int]:
    """Return the pids below `root`, without zombies: those are done and only wait for their parent."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text(errors="replace")
            except OSError:  # it ended meanwhile
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]  # the name in brackets may contain anything
            children.setdefault(int(parent), []).append((int(entry.name), state))
    found: list[int] = []
    waiting = [root]
    while waiting:
        for pid, state in children.get(waiting.pop(), ()):
            waiting.append(pid)
            if state not in "ZX":
                found.append(pid)
    return found


class _Child:
    def __init__(self, key: str, process: subprocess.Popen[bytes]) -> None:
        self.key = key
        self.process = process
        self.kill_at: float | None = None
        self.family: dict[int, int | None] = {}  # its descendants when it was asked to stop


class _Warden:
    def __init__(self, parent: int, grace_seconds: float, place: str) -> None:
        self.parent = parent
        self.grace_seconds = grace_seconds
        self.mark = f"{os.getpid()}:{start_tick(os.getpid())}:{place}"
        self.children: dict[int, _Child] = {}  # by pid, in the order of their start
        self.folders: list[str] = []
        self.is_ending = False

    def run(self) -> None:
        if _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
        wake = self._catch_signals()
        watched = [0, wake]
        if hasattr(os, "pidfd_open"):
            try:
                watched.append(os.pidfd_open(self.parent))
            except ProcessLookupError:
                self.is_ending = True
            except OSError:  # a kernel before 5.3: only the end of standard input shows it
                watched = [0, wake]
        if os.getppid() != self.parent:  # it died during our start
            self.is_ending = True
        self.report({"ready": os.getpid(), "mark": self.mark})
        try:
            self._serve(watched, wake)
        finally:  # whatever went wrong above, the children must not outlive us
            self.report({"ended": True, "left": self.end()})

    def _serve(self, watched: list[int], wake: int) -> None:
        pending = b""
        while not self.is_ending:
            ready, _, _ = select.select(watched, [], [], self._next_deadline())
            if wake in ready:
                os.read(wake, 4096)
            self.reap()
            if 0 in ready:
                chunk = os.read(0, 1 << 16)
                *lines, pending = (pending + chunk).split(b"\n")
                for line in lines:
                    self.obey(json.loads(line))
                if not chunk:
                    self.is_ending = True
            if len(watched) > 2 and watched[2] in ready:
                self.is_ending = True
            self.kill_overdue()

    def _catch_signals(self) -> int:
        # Use handlers, never SIG_IGN: children inherit ignored signals.
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_term)
        return read_end

    def _on_term(self, *_: object) -> None:
        self.is_ending = True

    def report(self, message: dict[str, Any]) -> None:
        line = json.dumps(message).encode() + b"\n"
        try:
            while line:
                line = line[os.write(1, line) :]
        except BrokenPipeError:
            pass  # nobody is left to report to; the children must still be ended

    def obey(self, command: dict[str, Any]) -> None:
        if "start" in command:
            self.start(command)
        elif "stop" in command:
            for child in self.children.values():
                if child.key == command["stop"] and child.kill_at is None:
                    self.terminate(child, float(command["grace_seconds"]))
        elif "remove_on_exit" in command:
            self.folders.append(command["remove_on_exit"])
        elif "end" in command:
            self.is_ending = True
        else:
            self.report({"fault": f"unknown command {sorted(command)}"})

    def start(self, command: dict[str, Any]) -> None:
        me = os.getpid()

        def die_with_the_warden() -> None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != me:  # it died before the line above
                os._exit(1)

        try:
            with Path(command["log"]).open("ab") as log:
                process = subprocess.Popen(
                    command["argv"],
                    env={**command["env"], MARK: self.mark},
                    cwd=command["cwd"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    # Safe: the warden has one thread, and the parent-death signal is bound to that thread.
                    preexec_fn=die_with_the_warden,  # noqa: PLW1509
                )
        except (OSError, subprocess.SubprocessError) as fault:
            self.report({"failed": command["start"], "why": str(fault)})
            return
        self.children[process.pid] = _Child(command["start"], process)
        self.report({"started": command["start"], "pid": process.pid})

    def terminate(self, child: _Child, grace_seconds: float) -> None:
        child.kill_at = time.monotonic() + grace_seconds
        child.family = {pid: start_tick(pid) for pid in descendants_of(child.process.pid)}
        child.process.send_signal(signal.SIGTERM)

    def reap(self) -> None:
        """Collect every ended process, adopted orphans too, so that none stays as a zombie."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            if child is not None:
                child.process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
                for relative, tick in child.family.items():
                    if tick is not None and start_tick(relative) == tick:
                        _signal(relative, signal.SIGKILL)
                self.report({"exited": child.key, "code": child.process.returncode})

    def kill_overdue(self) -> None:
        now = time.monotonic()
        for child in self.children.values():
            if child.kill_at is not None and child.kill_at <= now:
                _signal(child.process.pid, signal.SIGKILL)
                child.kill_at = now + 1.0

    def _next_deadline(self) -> float | None:
        deadlines = [child.kill_at for child in self.children.values() if child.kill_at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    def end(self) -> list[int]:
        """End the children, last started first, then all remaining descendants. Return those that remain."""
        for child in reversed(list(self.children.values())):
            if child.kill_at is None:
                self.terminate(child, self.grace_seconds)
            give_up_at = time.monotonic() + self.grace_seconds + 10.0  # stuck in the kernel: continue without it
            while child.process.pid in self.children and time.monotonic() < give_up_at:
                self.kill_overdue()
                time.sleep(0.01)
                self.reap()
        give_up_at = time.monotonic() + 10.0
        while (left := descendants_of(os.getpid())) and time.monotonic() < give_up_at:
            for pid in left:
                _signal(pid, signal.SIGKILL)
            time.sleep(0.01)
            self.reap()
        self.reap()
        for folder in self.folders:
            shutil.rmtree(folder, onerror=self._cannot_remove)
        return left

    def _cannot_remove(self, _function: object, path: str, why: tuple[Any, BaseException, Any]) -> None:
        if not isinstance(why[1], FileNotFoundError):  # already gone, as wanted
            self.report({"fault": f"cannot remove {path}: {why[1]}"})


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ended by itself
        os.kill(pid, number)


def main() -> None:
    """Serve the parent given on the command line until it is gone."""
    parser = argparse.ArgumentParser(description="Owns Penstock's child processes. Not for direct use.")
    parser.add_argument("--parent", type=int, required=True, help="pid of the parent process")
    parser.add_argument("--grace-seconds", type=float, default=5.0, help="time for each child to end by itself")
    parser.add_argument("--place", required=True, help="PID namespace and boot, as the end of its mark")
    options = parser.parse_args()
    _Warden(options.parent, options.grace_seconds, options.place).run()


if __name__ == "__main__":
    main()
