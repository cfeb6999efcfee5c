# SPDX-License-Identifier: Apache-2.0
"""The group of one application's executors on this host, with all that holds it: guard, lease and watcher."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self, TypedDict, Unpack

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.adaptors.cgroups.lease import LEASE_SECONDS, Lease
from penstock.adaptors.cgroups.members import ExecutorFinder, JoinedExecutor, MembershipWatcher
from penstock.clock import Clock
from penstock.errors import ActuationError, MetricSourceError
from penstock.records import CpuReading


class HoldOptions(TypedDict, total=False):
    """How a group is held; tests change it."""

    run: str
    """A label of the run, shown in the group's name."""
    period_seconds: float
    lease_seconds: float
    look_every_seconds: float
    clock: Clock | None


class HeldGroup:
    """Owns the group, the thread that moves new executors in, the guard process and its lease.

    It changes nothing before `start`. After `release` everything is as it was.

    Parameters
    ----------
    operator, application_id
        Whose executors.
    """

    def __init__(
        self, operator: str, application_id: str, hierarchy: Hierarchy, **options: Unpack[HoldOptions]
    ) -> None:
        self.operator = operator
        self.application_id = application_id
        self._hierarchy = hierarchy
        self._run = options.get("run", "run")
        self._period_seconds = options.get("period_seconds", 0.1)
        self._lease_seconds = options.get("lease_seconds", LEASE_SECONDS)
        self._look_every_seconds = options.get("look_every_seconds", 0.5)
        self._clock = options.get("clock")
        self._lock = threading.RLock()
        self._group: CpuGroup | None = None
        self._lease: Lease | None = None
        self._watcher: MembershipWatcher | None = None
        self._is_released = False

    def start(self) -> None:
        """Create the group without a cap, start its guard and move the executors in. May be called twice."""
        with self._lock:
            if self._is_released:
                raise ActuationError(f"CPU shares of {self.operator} were released", target=self.operator)
            if self._group is not None:
                return
            self._group = CpuGroup.create(
                self._hierarchy,
                self._run,
                self.operator,
                period_seconds=self._period_seconds,
                clock=self._clock,
            )
            try:
                self._lease = Lease(self._group, lease_seconds=self._lease_seconds)
                self._lease.start()
                finder = ExecutorFinder(self.application_id, self._hierarchy.proc)
                self._watcher = MembershipWatcher(
                    self._group,
                    finder,
                    interval_seconds=self._look_every_seconds,
                    clock=self._clock,
                    on_look=self._looked,
                )
                self._watcher.start()
            except BaseException:
                self.release()
                raise

    def read(self) -> CpuReading:
        """Return the kernel's counters of the executors. Raises MetricSourceError if there is no group to read."""
        with self._lock:
            if self._group is None or self._is_released:
                raise MetricSourceError(f"CPU shares of {self.operator} were not started", target=self.operator)
            return self._group.read()

    def open(self) -> None:
        """Lift the cap and keep the group."""
        with self._lock:
            if self._lease is not None:
                self._lease.set_quota(None)

    @property
    def is_released(self) -> bool:
        """Whether it was released, as it also is where it cannot be started."""
        return self._is_released

    @property
    def joined(self) -> dict[str, JoinedExecutor]:
        """The executors in the group, by executor id."""
        return {} if self._watcher is None else self._watcher.joined

    @property
    def held_elsewhere(self) -> frozenset[str]:
        """The ids of executors that are left to another Penstock, or to another query of this process."""
        return frozenset() if self._watcher is None else self._watcher.held_elsewhere

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        parts = (self._watcher, self._lease)
        return tuple(part.fault for part in parts if part is not None and part.fault is not None)

    @property
    def lacks_rights(self) -> bool:
        """Whether there is an executor that this process may not move, such as another user's."""
        return self._watcher is not None and self._watcher.lacks_rights

    @property
    def guard_pid(self) -> int | None:
        """The guard's process id, while it runs."""
        return None if self._lease is None else self._lease.guard_pid

    @property
    def folder(self) -> str | None:
        """The folder with the quota, once it exists."""
        return None if self._group is None else self._group.folder

    def release(self) -> None:
        """Put everything back as it was: no cap, no group, no guard, no thread. May be called twice."""
        with self._lock:
            self._is_released = True
            if self._watcher is not None:
                self._watcher.stop()
            try:
                if self._group is not None:
                    self._group.release()
            finally:
                # Also after a failed release: the guard opens and removes what it can before it ends.
                if self._lease is not None:
                    self._lease.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _looked(self) -> None:
        """Take that the executors were looked for."""

    def _set_quota(self, cores: float | None) -> None:
        """Cap the group, which is started if need be."""
        with self._lock:
            self.start()
            assert self._lease is not None
            self._lease.set_quota(cores)
