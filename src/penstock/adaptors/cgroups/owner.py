# SPDX-License-Identifier: Apache-2.0
"""Names of groups. They identify the owner, to distinguish a dead run's group from a live one's."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.cgroups.guard import is_alive, process_stat
from penstock.adaptors.process.identity import pid_namespace
from penstock.errors import ActuationError

_GROUP_NAME = re.compile(r"^(?P<label>[A-Za-z0-9_.-]+)-(?P<pid>[0-9]+)-(?P<started>[0-9]+)-(?P<namespace>[0-9]+)$")
_LABEL_LENGTH = 100  # a file name holds 255 characters; the label occurs twice (run and operator)


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that created a group. Pids are reused; pid and start time together are not."""

    pid: int
    started: int
    """Clock ticks since boot, as the kernel reports them."""
    namespace: int
    """The pid namespace: another container's pids mean nothing here."""

    @classmethod
    def this_process(cls, proc: str = "/proc") -> Owner:
        """Return the calling process."""
        pid = os.getpid()
        stat = process_stat(proc, pid)
        if stat is None:
            raise ActuationError(
                f"{proc}/{pid}/stat cannot be read, so live groups could not be recognised; mount /proc",
                target=proc,
            )
        return cls(pid, stat.started, pid_namespace(proc))

    @classmethod
    def of_name(cls, name: str) -> Owner | None:
        """Return the owner in a group's name, or None if the name is not one of ours."""
        match = _GROUP_NAME.match(name)
        return None if match is None else cls(int(match["pid"]), int(match["started"]), int(match["namespace"]))

    def group_name(self, run: str, operator: str) -> str:
        """Return the name of this owner's group for an operator of a run.

        Examples
        --------
        >>> Owner(12, 345, 1).group_name("demo", "log analysis/1")
        'demo-log_analysis_1-12-345-1'
        """
        return f"{_label(run)}-{_label(operator)}-{self.pid}-{self.started}-{self.namespace}"

    def is_dead(self, proc: str = "/proc") -> bool:
        """Whether the owner has certainly ended. An owner in another pid namespace is not judged."""
        return self.namespace == pid_namespace(proc) and not is_alive(proc, self.pid, self.started)

    def lives(self, proc: str = "/proc") -> bool | None:
        """Whether the owner lives. None: it cannot be seen, because it is in a container that is not below this one."""
        if self.namespace == pid_namespace(proc):
            return is_alive(proc, self.pid, self.started)
        is_below = False
        for name in os.listdir(proc):  # noqa: PTH208 - as in HostExecutors
            if name.isdigit() and _namespace_of(proc, name) == self.namespace:
                is_below = True  # who sees one process of a namespace sees all of them
                if _inner_pid(proc, name) == self.pid and is_alive(proc, int(name), self.started):
                    return True
        return False if is_below else None


def _namespace_of(proc: str, pid: str) -> int | None:
    """Return the pid namespace of a process, or None if it is gone or may not be looked at."""
    try:
        return Path(proc, pid, "ns", "pid").stat().st_ino
    except OSError:
        return None


def _inner_pid(proc: str, pid: str) -> int | None:
    """Return the pid of a process in its own namespace, or None if it is gone."""
    try:
        lines = Path(proc, pid, "status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((int(line.split()[-1]) for line in lines if line.startswith("NSpid:")), None)


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:_LABEL_LENGTH] or "_"
