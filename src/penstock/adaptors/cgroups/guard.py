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
"""The folder that holds every group of Penstock. Nothing outside it is ever removed."""

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


class Origins(dict[int, list[str]]):
    """For each process that was moved into a group, the folders it came from, one for each hierarchy."""

    def __init__(self, proc: str) -> None:
        super().__init__()
        self._proc = proc
        self._look_at = ORIGINS_KEPT

    def note(self, pid: int, origin: list[str]) -> None:
        """Remember where a process came from. From time to time, forget those that have ended."""
        self[pid] = origin
        if len(self) >= self._look_at:
            self.forget_dead(but=pid)
            self._look_at = max(ORIGINS_KEPT, 2 * len(self))

    def forget_dead(self, but: int | None = None) -> None:
        """Forget processes that have ended."""
        for pid in list(self):
            if pid != but and process_stat(self._proc, pid) is None:
                del self[pid]

    def of(self, pid: int) -> list[str] | None:
        """Return where a process came from, or the ancestor that forked it."""
        for _ in range(64):
            if pid in self:
                return self[pid]
            stat = process_stat(self._proc, pid)
            if stat is None or stat.parent <= 1:
                return None
            pid = stat.parent
        return None


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
    origins
        Where processes came from, if that is shared with other groups.
    """

    def __init__(
        self,
        version: int,
        folders: list[str],
        fallbacks: list[list[str]],
        *,
        proc: str,
        kernel: Kernel,
        origins: Origins | None = None,
    ) -> None:
        self.version = version
        self.folders = folders
        self.fallbacks = fallbacks
        self.proc = proc
        self.kernel = kernel
        self.origins = Origins(proc) if origins is None else origins

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
            return sorted(self._listed(f"{folder}/cgroup.procs"))
        except OSError as fault:
            if fault.errno in _GONE_ERRORS:
                return []
            if fault.errno != errno.EOPNOTSUPP:
                raise
        return sorted(self._pids_by_threads(folder))

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
                is_threaded = self._is_threaded(around)
                if self._remove(around) and is_threaded:  # while it holds other groups it stays
                    self._take_cpu_back(os.path.dirname(around))  # noqa: PTH120
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
        origin = self.origins.of(pid)
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

    def _listed(self, path: str) -> set[int]:
        # A process of another pid namespace is listed as 0. Written back, 0 would mean the writer itself.
        return {int(word) for word in self.kernel.read(path).split()} - {0}

    def _pids_by_threads(self, folder: str) -> set[int]:
        """Return the processes in a threaded folder. The kernel lists them in the domain around it alone."""
        threads = self._listed(f"{folder}/cgroup.threads")
        around = os.path.dirname(folder)  # noqa: PTH120
        while True:
            try:
                processes = self._listed(f"{around}/cgroup.procs")
                break
            except OSError as fault:
                if fault.errno != errno.EOPNOTSUPP:
                    raise
                around = os.path.dirname(around)  # noqa: PTH120
        if processes & threads or not threads:
            return processes & threads
        # Only processes are left whose first thread has ended.
        return {pid for pid in processes if threads & _threads_of(self.proc, pid)}

    def _is_threaded(self, folder: str) -> bool:
        try:
            return self.version == 2 and self.kernel.read(f"{folder}/cgroup.type").strip() == "threaded"
        except OSError:
            return False  # it is gone

    def _take_cpu_back(self, base: str) -> None:
        """Let a cgroup of v2 be as it was before threaded groups were made in it, once there are no groups in it.

        While it hands a controller down, nobody can make ordinary groups in it that hold processes.
        """
        try:
            with os.scandir(base) as entries:
                if not any(entry.is_dir() for entry in entries):
                    self.kernel.write(f"{base}/cgroup.subtree_control", "-cpu")
        except OSError:
            pass  # it is gone, or somebody else has just made a group in it

    def _remove(self, folder: str) -> bool:
        try:
            self.kernel.remove(folder)
        except OSError as fault:
            return fault.errno in _GONE_ERRORS
        return True


def _threads_of(proc: str, pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"{proc}/{pid}/task")}  # noqa: PTH208
    except OSError:
        return set()


class Watch:
    """The lease over the parts of a group: renewed by lines, broken by silence, ended by the holder's end."""

    def __init__(self, parts: list[GroupFolders], holder_pid: int, holder_started: int, lease_seconds: float) -> None:
        self.parts = parts
        self.holder_pid = holder_pid
        self.holder_started = holder_started
        self.lease_seconds = lease_seconds
        self.is_expired = False
        self._rest = b""

    def take(self, chunk: bytes) -> None:
        """Read what the holder wrote: an empty line is a beat, JSON tells a process's origin or another part."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line:
                message = json.loads(line)
                if "pid" in message:
                    self.parts[0].origins.note(int(message["pid"]), message["origin"])
                else:
                    self._take_part(message["folders"], message["fallbacks"])
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
            elif not is_alive(self.parts[0].proc, self.holder_pid, self.holder_started):
                return  # a child that the holder forked still holds the pipe
            elif not self.is_expired and time.monotonic() >= deadline:
                open_all(self.parts)
                self.is_expired = True

    def _take_part(self, folders: list[str], fallbacks: list[list[str]]) -> None:
        first, *others = self.parts
        still = [part for part in others if os.path.isdir(part.folders[0])]  # noqa: PTH112
        part = GroupFolders(
            first.version, folders, fallbacks, proc=first.proc, kernel=first.kernel, origins=first.origins
        )
        self.parts = [first, *still, part]


def open_all(parts: list[GroupFolders]) -> None:
    """Lift the caps of all parts of a group, also where one of them cannot be lifted."""
    fault = None
    for part in parts:
        try:
            part.open()
        except OSError as one:
            fault = one
    if fault is not None:
        raise fault


def restore_all(parts: list[GroupFolders], within_seconds: float) -> bool:
    """Lift the caps of all parts, then move their processes back and remove them. Return whether all are gone."""
    open_all(parts)
    gone = [part.restore(within_seconds) for part in parts]
    return all(gone)


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
    origins = Origins(description["proc"])
    parts = [
        GroupFolders(
            description["version"],
            part["folders"],
            part["fallbacks"],
            proc=description["proc"],
            kernel=Kernel(),
            origins=origins,
        )
        for part in description["parts"]
    ]
    watch = Watch(parts, description["holder_pid"], description["holder_started"], description["lease_seconds"])
    _say_ready()
    watch.until_end(0)
    return 0 if restore_all(watch.parts, LINGER_SECONDS) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
