# SPDX-License-Identifier: Apache-2.0
"""One part of a CPU group: its folders, its quota and its counters. In v1 a group has one part, in v2 one per place."""

from __future__ import annotations

import errno

from penstock.adaptors.cgroups.counters import RisingCounter, quota_of, usage_of, write_quota
from penstock.adaptors.cgroups.guard import GroupFolders, is_alive, process_stat
from penstock.errors import ActuationError

MIN_QUOTA_US = 1000  # the kernel's minimum


class Part:
    """Folders that exist, with a quota of their own."""

    def __init__(self, folders: GroupFolders, period_us: int) -> None:
        self.folders = folders
        self._members: dict[int, int] = {}
        self._period_us = period_us
        self._expected: float | None = None
        self._used = RisingCounter()
        self._throttled = RisingCounter()

    @property
    def folder(self) -> str:
        """The folder with the quota."""
        return self.folders.folders[0]

    @property
    def members(self) -> int:
        """How many processes were added, without the children that came with them, and live."""
        return len(self._members)

    def add_member(self, pid: int) -> None:
        """Count a process that was added."""
        stat = process_stat(self.folders.proc, pid)
        if stat is not None:
            self._members[pid] = stat.started

    def forget_dead(self) -> None:
        """Forget members that have ended."""
        self._members = {p: at for p, at in self._members.items() if is_alive(self.folders.proc, p, at)}

    def set_period(self) -> None:
        """Set the period, and no cap."""
        version, kernel = self.folders.version, self.folders.kernel
        try:
            if version == 1:
                kernel.write(f"{self.folder}/cpu.cfs_period_us", str(self._period_us))
            write_quota(self.folder, version, kernel, None, self._period_us)
        except OSError as fault:
            raise ActuationError(
                f"cgroups: the period of {self.folder} could not be set: {fault.strerror}", target=self.folder
            ) from fault

    def set_quota(self, cores: float | None) -> None:
        """Cap this part. None lifts the cap."""
        quota_us = None if cores is None else max(MIN_QUOTA_US, round(cores * self._period_us))
        try:
            write_quota(self.folder, self.folders.version, self.folders.kernel, quota_us, self._period_us)
            self._expected = self.quota()
        except OSError as fault:
            wanted = "no quota" if cores is None else f"a quota of {cores:.3g} cores"
            raise ActuationError(
                f"cgroups: {wanted} could not be set on {self.folder}: {fault.strerror}",
                target=self.folder,
                retryable=fault.errno in (errno.EBUSY, errno.EINTR),
            ) from fault

    def quota(self) -> float | None:
        """The cap in cores, read from the kernel, or None for no cap."""
        return quota_of(self.folder, self.folders.version, self.folders.kernel)

    def is_as_set(self) -> bool:
        """Whether the kernel has the cap that was last set."""
        return self.quota() == self._expected

    def usage(self) -> tuple[float, float]:
        """Return CPU seconds used and withheld since the part was made."""
        used, throttled = usage_of(self.folders)
        return self._used.at(used), self._throttled.at(throttled)

    def last_usage(self) -> tuple[float, float]:
        """Return CPU seconds used and withheld as they were last read."""
        return self._used.total, self._throttled.total

    def pids(self) -> list[int]:
        """Return the processes in this part now."""
        return self.folders.pids_in(self.folder)
