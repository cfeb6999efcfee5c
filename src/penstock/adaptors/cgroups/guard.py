# SPDX-License-Identifier: Apache-2.0
"""Puts a CPU group back as it was, and the small process that does so when the group's holder dies.

The holder starts this file as a separate program (`python -I -S guard.py <json>`), in its own session, with a pipe on
standard input. Each line on the pipe renews the lease. If no line comes for `lease_seconds` (a hung holder), the guard
lifts the quota and does nothing else, because the holder may come back. At the end of the pipe, or when the holder
dies, the guard lifts the quota, moves every process back to where it came from, removes the folders, and ends.

It imports only the standard library, and little of it: it runs beside every operator, and must work when everything
else is broken. `group` and `sweep` use the same functions.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import sys
import time

FOLDER = "penstock"
"""The folder that holds every group of Penstock. Nothing outside it is ever changed or removed."""

TICK_SECONDS = 1.0
LINGER_SECONDS = 60.0
ORIGINS_KEPT = 500
"""Above so many, origins of processes that have ended are forgotten: executors come and go for weeks."""
_GONE_ERRORS = (errno.ENOENT, errno.ENODEV)
_FORK_ROUNDS = 20


class Kernel:
    """The five operations on the cgroup file system. Tests replace it."""

    def read(self, path: str) -> str:
        """Return the text of a control file."""
        with open(path, encoding="ascii", errors="replace") as file:  # noqa: PTH123 - pathlib would treble the start
            return file.read()

    def write(self, path: str, text: str) -> None:
        """Write to an existing control file. It is never created, so that a wrong path fails."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, text.encode("ascii"))
        finally:
            os.close(descriptor)

    def make(self, folder: str) -> None:
        """Create a group, or leave an existing one as it is."""
        try:
            os.mkdir(folder, 0o755)  # noqa: PTH102
        except FileExistsError:
            if not os.path.isdir(folder):  # noqa: PTH112
                raise

    def remove(self, folder: str) -> None:
        """Remove a group, which must be empty."""
        os.rmdir(folder)  # noqa: PTH106

    def may_write(self, path: str) -> bool:
        """Whether this process may write there."""
        return os.access(path, os.W_OK)


class ProcessStat:
    """The needed fields of /proc/<pid>/stat."""

    __slots__ = ("parent", "started", "state")

    def __init__(self, state: str, parent: int, started: int) -> None:
        self.state = state
        self.parent = parent
        self.started = started
        """Start time in clock ticks since boot. Together with the pid, it identifies a process for ever."""


def process_stat(proc: str, pid: int | str) -> ProcessStat | None:
    """Return state, parent and start time of a process, or None if it is gone."""
    try:
        with open(f"{proc}/{pid}/stat", encoding="ascii", errors="replace") as file:  # noqa: PTH123
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command's name is in parentheses and may itself contain spaces and parentheses.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(fields[0], int(fields[1]), int(fields[19]))


def is_alive(proc: str, pid: int, started: int) -> bool:
    """Whether the process with this pid and start time still runs. A zombie does not."""
    stat = process_stat(proc, pid)
    return stat is not None and stat.started == started and stat.state not in "ZX"


class GroupFolders:
    """The folders of one group (the one with the quota first), with methods to uncap, empty and remove them.

    Parameters
    ----------
    version
        1 or 2: the version of the cgroup interface.
    folders
        One folder per hierarchy the group lives in.
    fallbacks
        For each folder, where a process goes if its origin is unknown or no longer accepts it; tried in order.
    """

    def __init__(
        self, version: int, folders: list[str], fallbacks: list[list[str]], *, proc: str, kernel: Kernel
    ) -> None:
        self.version = version
        self.folders = folders
        self.fallbacks = fallbacks
        self.proc = proc
        self.kernel = kernel
        self.origins: dict[int, list[str]] = {}
        """For each process that was moved in, the folders it came from, in the order of `folders`."""
        self._look_at = ORIGINS_KEPT

    def note_origin(self, pid: int, origin: list[str]) -> None:
        """Remember where a process came from. From time to time, forget those that have ended."""
        self.origins[pid] = origin
        if len(self.origins) >= self._look_at:
            self.origins = {p: o for p, o in self.origins.items() if p == pid or process_stat(self.proc, p) is not None}
            self._look_at = max(ORIGINS_KEPT, 2 * len(self.origins))

    def open(self) -> None:
        """Lift the cap. A group that is gone has none."""
        name, value = ("cpu.cfs_quota_us", "-1") if self.version == 1 else ("cpu.max", "max")
        try:
            self.kernel.write(f"{self.folders[0]}/{name}", value)
        except OSError as fault:
            if fault.errno not in _GONE_ERRORS:
                raise

    def pids_in(self, folder: str) -> list[int]:
        """Return the processes in a folder, or none if it is gone."""
        try:
            text = self.kernel.read(f"{folder}/cgroup.procs")
        except OSError as fault:
            if fault.errno in _GONE_ERRORS:
                return []
            raise
        # A process of another pid namespace is listed as 0. Written back, 0 would mean the writer itself.
        return sorted({int(word) for word in text.split()} - {0})

    def give_back(self) -> int:
        """Move every process back to where it came from. Return how many could not be moved."""
        left = 0
        for index, folder in enumerate(self.folders):
            # Several rounds: a process may fork between the reading of the list and its own move.
            for _ in range(_FORK_ROUNDS):
                pids = self.pids_in(folder)
                moved = [self._move(pid, index) for pid in pids]
                if not any(moved):
                    break
            left += len(self.pids_in(folder))
        return left

    def remove(self) -> bool:
        """Remove the folders, and the one around them if it is empty. Return whether they are gone."""
        gone = True
        for folder in self.folders:
            gone = self._remove(folder) and gone
        for folder in self.folders:
            around = os.path.dirname(folder)  # noqa: PTH120
            if os.path.basename(around) == FOLDER:  # noqa: PTH119
                self._remove(around)  # other groups live in it: it stays
        return gone

    def restore(self, within_seconds: float) -> bool:
        """Uncap the group, move its processes back, remove it. Wait a bounded time for processes that cannot move."""
        self.open()
        deadline = time.monotonic() + within_seconds
        pause = 0.01
        while True:
            self.give_back()
            if self.remove():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def _move(self, pid: int, index: int) -> bool:
        origin = self._origin(pid)
        targets = ([origin[index]] if origin else []) + self.fallbacks[index]
        for target in targets:
            try:
                self.kernel.write(f"{target}/cgroup.procs", str(pid))
            except ProcessLookupError:
                return True  # it ended: it has left the group
            except OSError:
                continue  # the folder is gone, or can no longer hold processes: try the next one
            return True
        return False

    def _origin(self, pid: int) -> list[str] | None:
        """Return where a process came from, or the ancestor that forked it."""
        for _ in range(64):
            if pid in self.origins:
                return self.origins[pid]
            stat = process_stat(self.proc, pid)
            if stat is None or stat.parent <= 1:
                return None
            pid = stat.parent
        return None

    def _remove(self, folder: str) -> bool:
        try:
            self.kernel.remove(folder)
        except OSError as fault:
            return fault.errno in _GONE_ERRORS
        return True


class Watch:
    """The lease: renewed by lines, broken by silence, ended by the holder's end."""

    def __init__(self, group: GroupFolders, holder_pid: int, holder_started: int, lease_seconds: float) -> None:
        self.group = group
        self.holder_pid = holder_pid
        self.holder_started = holder_started
        self.lease_seconds = lease_seconds
        self.is_expired = False
        self._rest = b""

    def take(self, chunk: bytes) -> None:
        """Read what the holder wrote: an empty line is a beat, JSON reports a process's origin."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line:
                message = json.loads(line)
                self.group.note_origin(int(message["pid"]), message["origin"])
        self.is_expired = False

    def until_end(self, descriptor: int) -> None:
        """Return when the holder has ended. Until then, lift the quota each time the lease runs out."""
        deadline = time.monotonic() + self.lease_seconds
        while True:
            rest = TICK_SECONDS if self.is_expired else min(TICK_SECONDS, deadline - time.monotonic())
            ready, _, _ = select.select([descriptor], [], [], max(0.0, rest))
            if ready:
                chunk = os.read(descriptor, 1 << 16)
                if not chunk:
                    return
                self.take(chunk)
                deadline = time.monotonic() + self.lease_seconds
            elif not is_alive(self.group.proc, self.holder_pid, self.holder_started):
                return  # a child that the holder forked still holds the pipe
            elif not self.is_expired and time.monotonic() >= deadline:
                self.group.open()
                self.is_expired = True


def _say_ready() -> None:
    """Report that from here on only SIGKILL ends the guard. The holder caps nothing before."""
    try:  # noqa: SIM105 - contextlib is one more module to load
        os.write(1, b"\n")
    except BrokenPipeError:
        pass  # the holder died meanwhile: there is work to do at once
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.close(silence)


def main(arguments: list[str]) -> int:
    """Guard the group that the first argument describes until its holder has ended."""
    # It ends with its holder, through the pipe. Ctrl-C, or a service manager's signal to every process of a
    # service, must not end it just before it is needed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    description = json.loads(arguments[0])
    group = GroupFolders(
        description["version"],
        description["folders"],
        description["fallbacks"],
        proc=description["proc"],
        kernel=Kernel(),
    )
    watch = Watch(group, description["holder_pid"], description["holder_started"], description["lease_seconds"])
    _say_ready()
    watch.until_end(0)
    return 0 if group.restore(LINGER_SECONDS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
