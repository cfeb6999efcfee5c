# SPDX-License-Identifier: Apache-2.0
"""One CPU group: a quota over an operator's executors on this host, and the kernel's counters of their use."""

from __future__ import annotations

import errno
import math
import threading
from collections.abc import Callable
from pathlib import Path

from penstock.adaptors.cgroups.guard import GroupFolders, process_stat
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.adaptors.cgroups.owner import Owner
from penstock.clock import Clock, SystemClock
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.records import CpuReading

MIN_QUOTA_US = 1000  # the kernel's minimum
_JOIN_ROUNDS = 5
_RELEASE_SECONDS = 5.0


class CpuGroup:
    """A group of processes that share one CPU quota. Created by `create`, gone after `release`. Thread-safe.

    `on_origin` receives where each process came from before the process is moved, so that the group's guard can always
    put it back.
    """

    def __init__(
        self,
        hierarchy: Hierarchy,
        folders: GroupFolders,
        owner: Owner,
        *,
        period_seconds: float = 0.1,
        on_origin: Callable[[int, list[str]], None] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not 0.001 <= period_seconds <= 1.0:
            raise ConfigurationError(
                f"period_seconds: {period_seconds!r} is outside the kernel's range; give 0.001 to 1 second",
                field="period_seconds",
            )
        self.hierarchy = hierarchy
        self.folders = folders
        self.owner = owner
        self.on_origin = on_origin
        self._kernel = hierarchy.kernel
        self._period_us = round(period_seconds * 1e6)
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._used = _Rising()
        self._throttled = _Rising()
        self._is_released = False

    @classmethod
    def create(
        cls,
        hierarchy: Hierarchy,
        run: str,
        operator: str,
        *,
        period_seconds: float = 0.1,
        on_origin: Callable[[int, list[str]], None] | None = None,
        clock: Clock | None = None,
    ) -> CpuGroup:
        """Create the group of an operator, empty and without a cap."""
        owner = Owner.this_process(hierarchy.proc)
        folders = hierarchy.group(owner.group_name(run, operator))
        group = cls(
            hierarchy, folders, owner, period_seconds=period_seconds, on_origin=on_origin, clock=clock
        )  # fmt: skip
        hierarchy.make(folders)
        try:
            hierarchy.weigh(folders)
            group._set_period()
        except BaseException:
            group.release()
            raise
        return group

    @property
    def folder(self) -> str:
        """The folder with the quota."""
        return self.folders.folders[0]

    # --- the quota ---------------------------------------------------------------------------------------------

    def set_quota(self, cores: float | None) -> None:
        """Cap the whole group at `cores`. None lifts the cap.

        The kernel's smallest quota is a millisecond per period. Less is raised to that.
        """
        if cores is not None and not (math.isfinite(cores) and cores > 0):
            raise ConfigurationError(
                f"cores: {cores!r} is not a CPU quota; give a number above 0, or None for no cap", field="cores"
            )
        with self._lock:
            if cores is not None and self._is_beyond_parents(cores):
                cores = None  # a parent caps it lower already, and v1 refuses a child's quota above its parent's
            try:
                self._write_quota(None if cores is None else max(MIN_QUOTA_US, round(cores * self._period_us)))
            except OSError as fault:
                wanted = "no quota" if cores is None else f"a quota of {cores:.3g} cores"
                raise ActuationError(
                    f"cgroups: {wanted} could not be set on {self.folder}: {fault.strerror}",
                    target=self.folder,
                    retryable=fault.errno in (errno.EBUSY, errno.EINTR),
                ) from fault

    def quota(self) -> float | None:
        """The cap on this group in cores, read from the kernel, or None for no cap."""
        return self._quota_of(self.folder)

    # --- the processes -----------------------------------------------------------------------------------------

    def add(self, pid: int) -> bool:
        """Move a process and its present children into the group. False if it is gone.

        Children forked later are in the group automatically.
        """
        with self._lock:
            if self._is_released or not self._join(pid):
                return False
            # A child forked between the listing and the parent's move is found in the next round.
            for _ in range(_JOIN_ROUNDS):
                outside = _descendants(self.hierarchy.proc, pid) - set(self.pids())
                joined = [self._join(child) for child in sorted(outside)]
                if not any(joined):
                    break
            return True

    def pids(self) -> list[int]:
        """Return the processes in the group now."""
        return self.folders.pids_in(self.folder)

    def forget_dead(self) -> None:
        """Forget the origins of processes that have ended."""
        with self._lock:
            for pid in list(self.folders.origins):
                if process_stat(self.hierarchy.proc, pid) is None:
                    del self.folders.origins[pid]

    # --- the counters ------------------------------------------------------------------------------------------

    def read(self) -> CpuReading:
        """Return CPU time used and withheld since the group was created, its cap, and that of its parents."""
        with self._lock:
            try:
                used, throttled = self._counters()
                quota, parents, processes = self.quota(), self._parents_quota(), len(self.pids())
            except (OSError, ValueError, KeyError) as fault:
                raise MetricSourceError(
                    f"cgroups: the counters of {self.folder} cannot be read: {fault}", target=self.folder
                ) from fault
            return CpuReading(
                at=self._clock.now(),
                used_seconds=self._used.at(used),
                throttled_seconds=self._throttled.at(throttled),
                quota_cores=quota,
                processes=processes,
                parents_quota_cores=parents,
            )

    # --- the end -----------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Lift the cap, move every process back to where it came from, remove the folders. May be called twice."""
        with self._lock:
            if self._is_released:
                return
            try:
                is_gone = self.folders.restore(_RELEASE_SECONDS)
            except OSError as fault:
                raise ActuationError(
                    f"cgroups: {self.folder} could not be released: {fault}", target=self.folder, retryable=True
                ) from fault
            if not is_gone:
                raise ActuationError(
                    f"cgroups: {self.folder} is uncapped, but processes {self.pids()} cannot be moved "
                    "out; the next start removes it after they have ended",
                    target=self.folder,
                    retryable=True,
                )
            self._is_released = True

    # --- inside ------------------------------------------------------------------------------------------------

    def _join(self, pid: int) -> bool:
        origin = self.hierarchy.origin_of(pid)
        if origin is None:
            return False
        if origin[0] == self.folder:
            return True
        self.folders.note_origin(pid, origin)
        if self.on_origin is not None:
            self.on_origin(pid, origin)
        for folder in reversed(self.folders.folders):  # read before the cap: no CPU time goes missing
            try:
                self._kernel.write(f"{folder}/cgroup.procs", str(pid))
            except ProcessLookupError:
                return False
            except OSError as fault:
                raise ActuationError(
                    f"cgroups: process {pid} could not be moved to {folder}: {fault.strerror}; "
                    "run as the user of the executors or as root",
                    target=folder,
                ) from fault
        return True

    def _set_period(self) -> None:
        try:
            if self.folders.version == 1:
                self._kernel.write(f"{self.folder}/cpu.cfs_period_us", str(self._period_us))
            self._write_quota(None)
        except OSError as fault:
            raise ActuationError(
                f"cgroups: the period of {self.folder} could not be set: {fault.strerror}", target=self.folder
            ) from fault

    def _write_quota(self, quota_us: int | None) -> None:
        if self.folders.version == 1:
            self._kernel.write(f"{self.folder}/cpu.cfs_quota_us", str(-1 if quota_us is None else quota_us))
        else:
            quota = "max" if quota_us is None else str(quota_us)
            self._kernel.write(f"{self.folder}/cpu.max", f"{quota} {self._period_us}")

    def _counters(self) -> tuple[float, float]:
        """Return CPU seconds used and withheld, as the kernel counts them."""
        stat = dict(line.split()[:2] for line in self._kernel.read(f"{self.folder}/cpu.stat").splitlines())
        if self.folders.version == 1:
            usage = self._kernel.read(f"{self.folders.folders[-1]}/cpuacct.usage")
            return int(usage) / 1e9, int(stat["throttled_time"]) / 1e9
        return int(stat["usage_usec"]) / 1e6, int(stat["throttled_usec"]) / 1e6

    def _quota_of(self, folder: str) -> float | None:
        if self.folders.version == 1:
            quota = self._kernel.read(f"{folder}/cpu.cfs_quota_us").strip()
            period = self._kernel.read(f"{folder}/cpu.cfs_period_us").strip()
        else:
            quota, period = self._kernel.read(f"{folder}/cpu.max").split()
        return None if quota in ("-1", "max") else int(quota) / int(period)

    def _parents_quota(self) -> float | None:
        """Return the smallest cap of the parent cgroups, as far as this mount shows them."""
        top = Path(self.hierarchy.mounts[0].point)
        caps = []
        for parent in Path(self.folder).parents:
            try:
                caps.append(self._quota_of(str(parent)))
            except FileNotFoundError:
                break  # the root of v2 has no cap
            if parent == top:
                break
        return min((cap for cap in caps if cap is not None), default=None)

    def _is_beyond_parents(self, cores: float) -> bool:
        above = self._parents_quota()
        return above is not None and cores > above


class _Rising:
    """A cumulative counter that never falls, even when someone resets the kernel's."""

    def __init__(self) -> None:
        self._total = 0.0
        self._last = 0.0

    def at(self, raw: float) -> float:
        """Return the total at the kernel's present count."""
        self._total += raw - self._last if raw >= self._last else raw
        self._last = raw
        return self._total


def _descendants(proc: str, pid: int) -> set[int]:
    """Return the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in Path(proc).iterdir():
        if entry.name.isdigit():
            stat = process_stat(proc, entry.name)
            if stat is not None and stat.state not in "ZX":
                children.setdefault(stat.parent, []).append(int(entry.name))
    found: set[int] = set()
    rest = [pid]
    while rest:
        for child in children.get(rest.pop(), []):
            if child not in found:
                found.add(child)
                rest.append(child)
    return found
