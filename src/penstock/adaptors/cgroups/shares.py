# SPDX-License-Identifier: Apache-2.0
"""CPU shares of a Spark operator's executors on this host, for the Spark adaptor."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from types import TracebackType

from penstock.adaptors.cgroups.group import CpuGroup
from penstock.adaptors.cgroups.hierarchy import Hierarchy
from penstock.adaptors.cgroups.lease import LEASE_SECONDS, Lease
from penstock.adaptors.cgroups.members import ExecutorFinder, JoinedExecutor, MembershipWatcher
from penstock.clock import Clock
from penstock.errors import ActuationError, ConfigurationError, MetricSourceError
from penstock.records import Allocation, CpuReading, ExecutorState

_JOINED_WITHIN_SECONDS = 10.0
"""An executor of this host is found and held long before."""


def quota_cores(allocation: Allocation, uncapped: Allocation, cores_per_executor: float) -> float | None:
    """Return the cap, in cores, for an allocation, or None for no cap.

    Only the allocation `uncapped`, with the whole share, runs without a cap. Fewer executors with the whole share are
    capped at their cores: otherwise they could use more than a larger allocation with a smaller share.

    Examples
    --------
    >>> quota_cores(Allocation(2, 0.5), Allocation(4, 1.0), 2), quota_cores(Allocation(2), Allocation(4), 2)
    (2.0, 4.0)
    >>> quota_cores(Allocation(4, 1.0), Allocation(4, 1.0), 2) is None
    True
    """
    if allocation.executors >= uncapped.executors and allocation.cpu_share >= 1.0:
        return None
    return allocation.executors * allocation.cpu_share * cores_per_executor


class CpuShares:
    """Holds an operator's executors to a CPU share.

    Owns the group, the thread that moves new executors in, the guard process and its lease. It changes nothing before
    `start` (which `apply` calls). After `release` everything is as it was.

    Parameters
    ----------
    uncapped
        The largest allocation of the limits; with the whole CPU share it has no cap.
    cores_per_executor
        Cores each executor was given by Spark.
    run
        A label of the run, shown in the group's name.
    """

    def __init__(
        self,
        operator: str,
        application_id: str,
        uncapped: Allocation,
        cores_per_executor: float,
        hierarchy: Hierarchy,
        *,
        run: str = "run",
        period_seconds: float = 0.1,
        lease_seconds: float = LEASE_SECONDS,
        look_every_seconds: float = 0.5,
        clock: Clock | None = None,
    ) -> None:
        if cores_per_executor <= 0:
            raise ConfigurationError(
                f"cores_per_executor: {cores_per_executor!r} must be above 0", field="cores_per_executor"
            )
        self.operator = operator
        self.application_id = application_id
        self.uncapped = uncapped
        self.cores_per_executor = cores_per_executor
        self._hierarchy = hierarchy
        self._run = run
        self._period_seconds = period_seconds
        self._lease_seconds = lease_seconds
        self._look_every_seconds = look_every_seconds
        self._clock = clock
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
                    self._group, finder, interval_seconds=self._look_every_seconds, clock=self._clock
                )
                self._watcher.start()
            except BaseException:
                self.release()
                raise

    def apply(self, allocation: Allocation) -> None:
        """Cap the executors to an allocation. Takes effect at once."""
        with self._lock:
            self.start()
            assert self._lease is not None
            self._lease.set_quota(quota_cores(allocation, self.uncapped, self.cores_per_executor))

    def widen(self, allocation: Allocation) -> None:  # noqa: ARG002 - the cap is of all executors together
        """Raise the cap to the largest allocation of the limits."""
        self.apply(self.uncapped)

    def open(self) -> None:
        """Lift the cap and keep the group."""
        with self._lock:
            if self._lease is not None:
                self._lease.set_quota(None)

    def read(self) -> CpuReading:
        """Return the kernel's counters of the executors. Raises MetricSourceError if there is no group to read."""
        with self._lock:
            if self._group is None or self._is_released:
                raise MetricSourceError(f"CPU shares of {self.operator} were not started", target=self.operator)
            return self._group.read()

    def share_refusal(self) -> str | None:
        """Return None: the kernel takes a cap at once, or fails at once."""
        return None

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:
        """Return in one line which executors are not held, because they are no processes of this host. None: none."""
        held = self.joined
        others = [
            executor
            for executor in executors
            if executor.is_active
            and executor.executor_id not in held
            and (executor.added_at is None or now - executor.added_at > _JOINED_WITHIN_SECONDS)
        ]
        if not others:
            return None
        ids = ", ".join(sorted({executor.executor_id for executor in others}))
        hosts = ", ".join(sorted({executor.host for executor in others}))
        return f"executors {ids} (on {hosts}) have no CPU share: they are not among the processes of the driver's host"

    @property
    def joined(self) -> dict[str, JoinedExecutor]:
        """The executors in the group, by executor id."""
        return {} if self._watcher is None else self._watcher.joined

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        parts = (self._watcher, self._lease)
        return tuple(part.fault for part in parts if part is not None and part.fault is not None)

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

    def __enter__(self) -> CpuShares:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
