# SPDX-License-Identifier: Apache-2.0
"""Names of groups. They identify the owner, to distinguish a dead run's group from a live one's."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

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
        """Whether the owner has certainly ended. An owner in another pid namespace cannot be judged."""
        return self.can_be_judged(proc) and not is_alive(proc, self.pid, self.started)

    def can_be_judged(self, proc: str = "/proc") -> bool:
        """Whether it can be seen from here if the owner lives."""
        return self.namespace == pid_namespace(proc)


def _label(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:_LABEL_LENGTH] or "_"
