# SPDX-License-Identifier: Apache-2.0
"""How an application's executors are held: by control groups on this host or on all hosts, or as pods on Kubernetes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from penstock.adaptors.far_shares import FarShares
from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX
from penstock.errors import ActuationError, AdaptorError, ConfigurationError
from penstock.records import Allocation, ExecutorShare, Limits
from penstock.units import parse_bytes

if TYPE_CHECKING:
    from penstock.adaptors.cgroups import Hierarchy
    from penstock.adaptors.cgroups.shares import CpuShares
    from penstock.adaptors.kubernetes.api import ApiExecutorPods
    from penstock.adaptors.kubernetes.pod_watch import PodWatch
    from penstock.adaptors.kubernetes.shares import PodShares

    OpenedShares: TypeAlias = CpuShares | FarShares | PodShares
    """CPU shares of one application, ready to be set: by groups here, by the agents of hosts, or of its pods."""


@dataclass(frozen=True, slots=True)
class SharedApplication:
    """The application whose executors are held: its id, master and configuration, and its executors' cores."""

    application_id: str
    master: str
    conf: Mapping[str, str]
    cores_per_executor: int | None
    """None: that is not known."""


class NoCpuSharesError(AdaptorError):
    """CPU shares cannot be set. `reason` says why, in a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, target="cpu shares")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class HeldExecutors:
    """What is known of an application's executors besides what Spark says, and the means to cap them.

    Attributes
    ----------
    shares
        Their CPU shares; None: these cannot be set, or are not wanted.
    watch
        Their pods, where it is on Kubernetes.
    notes
        For the user, one line each.
    why_no_shares
        Why these cannot be set, in one line; None: they can.
    """

    shares: OpenedShares | None = None
    watch: PodWatch | None = None
    notes: tuple[str, ...] = ()
    why_no_shares: str | None = "executors are only watched"

    @property
    def share(self) -> ExecutorShare | None:
        """What executors on all hosts are to be held to, for a master; None: that is not its task."""
        return self.shares.share if isinstance(self.shares, FarShares) else None

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        return tuple(fault for part in (self.watch, self.shares) if part is not None for fault in part.faults)

    def close(self) -> None:
        """Lift the cap and look no more."""
        try:
            if self.shares is not None:
                self.shares.release()
        finally:
            if self.watch is not None:
                self.watch.stop()


def hold_executors(
    application: SharedApplication,
    operator: str,
    limits: Limits,
    requested: Callable[[], int | None],
    *,
    has_master: bool = False,
) -> HeldExecutors:
    """Take hold of an application's executors; they are not touched until the first share is applied.

    Parameters
    ----------
    application, operator
        Whose they are, and its name in messages.
    limits
        Tell whether CPU shares are wanted, and what it may have at most.
    requested
        Returns how many executors Spark was asked for; None: nobody has asked.
    has_master
        Whether a master scales it, which asks the agents of all hosts to hold executors.
    """
    wants_shares = limits.cpu_shares != (1.0,)
    try:
        watch = _pods(application, operator, requested)
    except NoCpuSharesError as fault:
        note = without_cpu_shares(fault.reason) if wants_shares else f"executors' pods are not seen: {fault.reason}"
        return HeldExecutors(notes=(note,), why_no_shares=fault.reason)
    if not wants_shares:
        return HeldExecutors(watch=watch, why_no_shares="no CPU shares are among the limits")
    try:
        shares, notes = _open_shares(application, operator, limits.top, watch, has_master=has_master)
    except NoCpuSharesError as fault:
        return HeldExecutors(watch=watch, notes=(without_cpu_shares(fault.reason),), why_no_shares=fault.reason)
    except BaseException:
        if watch is not None:  # nobody else has it
            watch.stop()
        raise
    return HeldExecutors(shares, watch, notes, why_no_shares=None)


def without_cpu_shares(reason: str) -> str:
    """Return the line for the user that only executors are scaled."""
    return f"CPU shares are not used, executors alone are scaled: {reason}"


def _open_shares(
    application: SharedApplication, operator: str, top: Allocation, watch: PodWatch | None, *, has_master: bool
) -> tuple[OpenedShares, tuple[str, ...]]:
    cores = application.cores_per_executor
    if cores is None:
        raise NoCpuSharesError("how many cores an executor has is not known; set spark.executor.cores")
    if watch is not None:
        return _of_pods(watch, cores, top)
    if has_master:
        return _of_hosts(application.application_id, operator, top, cores)
    return _of_groups(application.application_id, operator, top, cores)


def executor_pods(application: SharedApplication) -> ApiExecutorPods:
    """Return the executors' pods of an application on Kubernetes; raises ConfigurationError without a login."""
    from penstock.adaptors.kubernetes.api import ApiExecutorPods, ClusterAccess
    from penstock.adaptors.kubernetes.executor_pods import DEFAULT_CONTAINER

    conf = application.conf
    return ApiExecutorPods(
        ClusterAccess.of_spark(application.master, conf).connect(),
        conf.get("spark.kubernetes.namespace", "default"),
        application.application_id,
        container=conf.get("spark.kubernetes.executor.podTemplateContainerName", DEFAULT_CONTAINER),
    )


def _pods(application: SharedApplication, operator: str, requested: Callable[[], int | None]) -> PodWatch | None:
    """Return what looks at the executors' pods; None: the application is not on Kubernetes."""
    if not application.master.startswith(KUBERNETES_PREFIX):
        return None
    from penstock.adaptors.kubernetes.pod_memory import MEMORY_SETTING, PodMemory
    from penstock.adaptors.kubernetes.pod_watch import PodWatch
    from penstock.adaptors.kubernetes.shares import asked_by_spark

    conf = application.conf
    try:
        pods = executor_pods(application)
        watch = PodWatch(operator, pods, asked_by_spark(conf), wanted=requested)
        if MEMORY_SETTING in conf:
            watch.follow(PodMemory(operator, pods, parse_bytes(conf[MEMORY_SETTING], MEMORY_SETTING)))
        watch.look()
    except (ActuationError, ConfigurationError) as fault:
        raise NoCpuSharesError(str(fault)) from fault
    watch.start()
    return watch


def _of_pods(watch: PodWatch, cores: int, top: Allocation) -> tuple[OpenedShares, tuple[str, ...]]:
    from penstock.adaptors.kubernetes.nodes import room_note
    from penstock.adaptors.kubernetes.shares import NoPodSharesError, PodShares

    shares = PodShares(watch, cores)
    try:
        shares.start()
    except NoPodSharesError as fault:
        raise NoCpuSharesError(fault.reason) from fault
    seen = watch.seen
    try:
        missing = top.executors - (0 if seen is None else len(seen.pods))
        note = room_note(watch.pods.rooms(), watch.asked.request or 0.001, missing)
    except ActuationError:
        note = None  # nodes are seen with rights for the whole cluster, which are not needed for anything else
    return shares, () if note is None else (note,)


def _of_groups(application_id: str, operator: str, top: Allocation, cores: int) -> tuple[OpenedShares, tuple[str, ...]]:
    from penstock.adaptors.cgroups import CgroupsUnavailableError, CpuShares

    try:
        hierarchy, notes = _swept_hierarchy()
        shares = CpuShares(operator, application_id, top, cores, hierarchy)
        shares.start()
    except CgroupsUnavailableError as fault:
        raise NoCpuSharesError(fault.reason) from fault
    return shares, notes


def _of_hosts(application_id: str, operator: str, top: Allocation, cores: int) -> tuple[OpenedShares, tuple[str, ...]]:
    from penstock.adaptors.cgroups import CgroupsUnavailableError
    from penstock.adaptors.cgroups.counted_shares import CountedShares

    try:
        hierarchy, notes = _swept_hierarchy()
        here = CountedShares(operator, application_id, hierarchy)
        here.start()
    except CgroupsUnavailableError as fault:
        note = f"executors of this host have a CPU share where `penstock agent` holds them, for here: {fault.reason}"
        return FarShares(application_id, top, cores, None), (note,)
    return FarShares(application_id, top, cores, here), notes


def _swept_hierarchy() -> tuple[Hierarchy, tuple[str, ...]]:
    """Where groups can be made, after those of dead runs are removed, with a line for the user about these."""
    from penstock.adaptors.cgroups import find_hierarchy, sweep_stale

    hierarchy = find_hierarchy()
    removed = sweep_stale(hierarchy)
    return hierarchy, (f"removed {len(removed)} CPU groups that a dead run left behind",) if removed else ()
