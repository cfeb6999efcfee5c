# SPDX-License-Identifier: Apache-2.0
"""One CPU group: a quota over an operator's executors on this host, and the kernel's counters of their use."""

from __future__ import annotations

import contextlib
import logging
import math
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from penstock.adaptors.cgroups.counters import quota_above
from penstock.adaptors.cgroups.descendants import descendants
from penstock.adaptors.cgroups.guard import FOLDER, GroupFolders, restore_all
from penstock.adaptors.cgroups.hierarchy import CgroupsUnavailableError, Hierarchy
from penstock.adaptors.cgroups.owner import Owner
from penstock.adaptors.cgroups.part import Part
from penstock.adaptors.cgroups.places import without_ours
from penstock.clock import Clock, SystemClock
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.records import CpuReading

_log = logging.getLogger(__name__)

_JOIN_ROUNDS = 5
_RELEASE_SECONDS = 5.0
NODE_RUN = "geo"
"""The run in the names of groups that cap whole nodes: processes there are free to go to an operator's group."""


@dataclass(frozen=True, slots=True)
class OtherGroup:
    """A group that is somebody else's: another Penstock's, or one for another query of this process."""

    folder: str
    owner: Owner
    is_unseen: bool = field(compare=False)
    """Whether it cannot be seen from here if the owner lives."""


class CpuGroup:
    """A group of processes that share one CPU quota. Created by `create`, gone after `release`. Thread-safe.

    In v2 processes stay in the cgroup they are in, with a part of the group in each such cgroup. Usually there is one.
    Several divide the quota by the number of processes that were added to each.

    `on_origin` receives where each process came from before the process is moved, so that the group's guard can always
    put it back, and `on_part` each further part before a process is moved there.
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
        self.owner = owner
        self.on_origin = on_origin
        self.on_part: Callable[[GroupFolders], None] | None = None
        self._kernel = hierarchy.kernel
        self._period_us = round(period_seconds * 1e6)
        self._clock = clock or SystemClock()
        self._lock = threading.RLock()
        self._parts = [Part(folders, self._period_us)]
        self._by_origin: dict[str, Part] = {}
        self._cores: float | None = None
        self._before = (0.0, 0.0)  # CPU time used and withheld in parts that are gone
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
        name = owner.group_name(run, operator)
        # Somebody may attach to one query twice: two holders of one folder would undo each other's quota.
        for number in count(2):
            if not hierarchy.has_group(name):
                break
            name = owner.group_name(f"{run}{number}", operator)
        group = cls(
            hierarchy, hierarchy.group(name), owner, period_seconds=period_seconds, on_origin=on_origin, clock=clock
        )  # fmt: skip
        group._parts = [Part(hierarchy.make_for(name, list(hierarchy.homes)), group._period_us)]
        try:
            group._parts[0].set_period()
        except BaseException:
            group.release()
            raise
        return group

    @property
    def folder(self) -> str:
        """The folder with the quota for processes of the holder's own cgroup."""
        return self._parts[0].folder

    @property
    def folders(self) -> GroupFolders:
        """The folders for processes of the holder's own cgroup."""
        return self._parts[0].folders

    @property
    def parts(self) -> list[GroupFolders]:
        """The folders of all parts, those of the holder's own cgroup first."""
        return [part.folders for part in list(self._parts)]

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
            self._drop_vanished()
            if cores is None:
                self._cores = None  # also if the kernel refuses: no later process that joins may bring the old cap back
            self._divide(cores)
            self._cores = cores

    def quota(self) -> float | None:
        """The cap on this group in cores, read from the kernel, or None for no cap."""
        with self._lock:
            caps = [part.quota() for part in self._held_parts()]
            known = [cap for cap in caps if cap is not None]
            return sum(known) if len(known) == len(caps) else None

    def has_quota(self, cores: float | None) -> bool:
        """Whether this was the last cap to be set, and the kernel still has it."""
        with self._lock:
            # The kernel may have rounded the quota, or there is none under a tighter parent.
            are_same = not self._drop_vanished() and self._cores == cores
            return are_same and all(part.is_as_set() for part in self._parts)

    # --- the processes -----------------------------------------------------------------------------------------

    def add(self, pid: int) -> bool:
        """Move a process and its present children into the group. False if it is gone.

        Children forked later are in the group automatically.
        """
        with self._lock:
            part = None if self._is_released else self._join(pid)
            if part is None:
                return False
            # A child forked between the listing and the parent's move is found in the next round.
            for _ in range(_JOIN_ROUNDS):
                outside = descendants(self.hierarchy.proc, pid) - set(self.pids())
                joined = [self._join(child) for child in sorted(outside)]
                if not any(joined):
                    break
            part.add_member(pid)
            if len(self._parts) > 1:
                self._divide(self._cores)
            return True

    def pids(self) -> list[int]:
        """Return the processes in the group now."""
        return sorted(pid for part in list(self._parts) for pid in part.pids())

    def other_group_of(self, pid: int) -> OtherGroup | None:
        """Return the group of somebody else, who is not known to be dead, that holds a process. None: none does."""
        origin = self.hierarchy.origin_of(pid)
        folder = None if origin is None else Path(origin[0])
        if folder is None or folder.parent.name != FOLDER or folder.name == Path(self.folder).name:
            return None
        if re.match(rf"{NODE_RUN}\d*-", folder.name):
            return None
        owner = Owner.of_name(folder.name)
        lives = False if owner is None else owner.lives(self.hierarchy.proc)
        return None if owner is None or lives is False else OtherGroup(str(folder), owner, is_unseen=lives is None)

    def forget_dead(self) -> None:
        """Forget processes that have ended."""
        with self._lock:
            self.folders.origins.forget_dead()
            for part in self._parts:
                part.forget_dead()

    def drop_empty_parts(self) -> None:
        """Remove parts without processes, but for the first: who made the cgroup around one may want to remove it."""
        if len(self._parts) == 1:
            return
        with self._lock:
            before = [(part.folder, part.members) for part in self._parts]
            self.forget_dead()
            for part in self._parts[1:]:
                if not part.pids():
                    self._drop(part)
            if before != [(part.folder, part.members) for part in self._parts]:
                self._divide(self._cores)

    # --- the counters ------------------------------------------------------------------------------------------

    def read(self) -> CpuReading:
        """Return CPU time used and withheld since the group was created, its cap, and that of its parents."""
        with self._lock:
            self._drop_vanished()
            try:
                usages = [self._before, *(part.usage() for part in self._parts)]
                quota, parents, processes = self.quota(), self._parents_quota(self._held_parts()), len(self.pids())
            except (OSError, ValueError, KeyError) as fault:
                raise MetricSourceError(
                    f"cgroups: the counters of {self.folder} cannot be read: {fault}", target=self.folder
                ) from fault
            return CpuReading(
                at=self._clock.now(),
                used_seconds=sum(used for used, _ in usages),
                throttled_seconds=sum(throttled for _, throttled in usages),
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
                is_gone = restore_all(self.parts, _RELEASE_SECONDS)
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

    def _held_parts(self) -> list[Part]:
        """The parts that count: those with members or, as long as there are none, the first."""
        return [part for part in self._parts if part.members] or self._parts[:1]

    def _divide(self, cores: float | None) -> None:
        total = sum(part.members for part in self._parts)
        for part in self._parts:
            quota = cores
            if quota is not None and part.members:
                quota *= part.members / total
            above = self._parents_quota([part])
            if quota is not None and above is not None and quota > above:
                quota = None  # a parent caps it lower already, and v1 refuses a child's quota above its parent's
            part.set_quota(quota)

    def _parents_quota(self, parts: list[Part]) -> float | None:
        top = self.hierarchy.mounts[0].point
        return quota_above([part.folder for part in parts], top, self.hierarchy.version, self._kernel)

    def _join(self, pid: int) -> Part | None:
        """Move a process into the part for its cgroup, and return that. None: it is gone."""
        origin = self.hierarchy.origin_of(pid)
        if origin is None:
            return None
        for part in self._parts:
            if origin[0] == part.folder:
                return part
        part = self._part_for(origin)
        part.folders.origins.note(pid, origin)
        if self.on_origin is not None:
            self.on_origin(pid, origin)
        for folder in reversed(part.folders.folders):  # read before the cap: no CPU time goes missing
            try:
                self._kernel.write(f"{folder}/cgroup.procs", str(pid))
            except ProcessLookupError:
                return None
            except OSError as fault:
                raise ActuationError(
                    f"cgroups: process {pid} could not be moved to {folder}: {fault.strerror}; "
                    "run as the user of the executors or as root",
                    target=folder,
                ) from fault
        return part

    def _part_for(self, origin: list[str]) -> Part:
        """Return the part for processes of a cgroup, made if it is the first process from there."""
        if self.hierarchy.version == 1:
            return self._parts[0]
        around = without_ours(origin[0], self.hierarchy.mounts[0].point)
        part = self._by_origin.get(around)
        if part is None:
            part = self._by_origin[around] = self._make_part(origin)
            if str(Path(part.folder).parents[1]) != around:
                _log.warning("cgroups: processes of %s leave it, and its limits, until they are given back", around)
        return part

    def _make_part(self, origin: list[str]) -> Part:
        try:
            folders = self.hierarchy.make_for(Path(self.folder).name, origin)
        except CgroupsUnavailableError as fault:
            _log.warning("%s", fault)
            return self._parts[0]
        for part in self._parts:
            if part.folder == folders.folders[0]:
                return part
        folders.origins = self.folders.origins
        part = Part(folders, self._period_us)
        part.set_period()
        if self.on_part is not None:
            self.on_part(folders)
        self._parts = [*self._parts, part]
        return part

    def _drop_vanished(self) -> bool:
        """Forget parts that somebody has removed with the cgroup around them. Return whether there were any."""
        vanished = [part for part in self._parts[1:] if not Path(part.folder).is_dir()]
        for part in vanished:
            self._drop(part)
        return bool(vanished)

    def _drop(self, part: Part) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            part.usage()  # if the cgroup around it is gone already, what was last read counts
        if part.folders.remove():
            used, throttled = part.last_usage()
            self._before = (self._before[0] + used, self._before[1] + throttled)
            self._parts = [other for other in self._parts if other is not part]
            self._by_origin = {origin: other for origin, other in self._by_origin.items() if other is not part}
