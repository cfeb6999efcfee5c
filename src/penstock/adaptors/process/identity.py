# SPDX-License-Identifier: Apache-2.0
"""Which process is meant: a pid says little, for pids are reused, differ between containers, and end with a boot.

A process is identified by its pid, its start in kernel ticks since boot, its PID namespace and the boot. What another
namespace or another machine has noted down cannot be judged here: it counts neither as running nor as dead.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.adaptors.process.warden import start_tick

_TEXT = re.compile(r"(?P<pid>\d+):(?P<started>\d+):(?P<namespace>\d+):(?P<boot>[0-9a-f-]*)")


def pid_namespace(proc: str = "/proc") -> int:
    """Return the inode of this process's PID namespace, or 0 on a kernel without namespaces."""
    try:
        return Path(proc, "self", "ns", "pid").stat().st_ino
    except OSError:
        return 0


@cache
def boot_id(proc: str = "/proc") -> str:
    """Return the kernel's random name of this boot, or an empty text if it has none."""
    try:
        return Path(proc, "sys", "kernel", "random", "boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def is_zombie(pid: int) -> bool:
    """Whether a process has ended and only waits for its parent to ask how."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:  # gone altogether
        return False
    return stat.rpartition(")")[2].split()[0] in "ZX"  # the name in brackets may contain anything


def place() -> str:
    """Return where pids of this process mean something, as the end of an identity's text."""
    return f"{pid_namespace()}:{boot_id()}"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, for ever. `str` of it can be read back by `parse`."""

    pid: int
    started: int
    namespace: int
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity | None:
        """Return the identity of a process of this namespace, or None if it is gone."""
        started = start_tick(pid)
        return None if started is None else cls(pid, started, pid_namespace(), boot_id())

    @classmethod
    def this_process(cls) -> ProcessIdentity:
        """Return the identity of the calling process."""
        found = cls.of(os.getpid())
        assert found is not None  # it runs
        return found

    @classmethod
    def parse(cls, text: str) -> ProcessIdentity | None:
        """Read what `str` gave, or return None if it is something else."""
        found = _TEXT.fullmatch(text.strip())
        if found is None:
            return None
        return cls(int(found["pid"]), int(found["started"]), int(found["namespace"]), found["boot"])

    def __str__(self) -> str:
        return f"{self.pid}:{self.started}:{self.namespace}:{self.boot}"

    @property
    def is_of_here(self) -> bool:
        """Whether its pid means something here: same boot, same PID namespace."""
        return (self.namespace, self.boot) == (pid_namespace(), boot_id())

    @property
    def is_running(self) -> bool:
        """Whether it certainly runs. A later process with the same pid does not count."""
        return self.is_of_here and start_tick(self.pid) == self.started

    @property
    def has_ended(self) -> bool:
        """Whether it does not run here: it is not there, or only waits for its parent to ask how it ended."""
        return not self.is_running or is_zombie(self.pid)

    @property
    def is_dead(self) -> bool:
        """Whether it has certainly ended. One of another namespace or boot cannot be judged."""
        return self.is_of_here and start_tick(self.pid) != self.started
