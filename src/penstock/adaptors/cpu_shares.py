# SPDX-License-Identifier: Apache-2.0
"""Which way CPU shares are set for an application: control groups on this host, or pods on Kubernetes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX
from penstock.errors import ActuationError, AdaptorError, ConfigurationError
from penstock.records import Allocation, CpuReading, ExecutorState


class OpenedShares(Protocol):
    """CPU shares of one application, ready to be set (`penstock.adaptors.spark.actuator.CpuShareControl`)."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What does not work at present, one line each."""
        ...

    def apply(self, allocation: Allocation) -> None:
        """Cap the executors at the allocation's share."""
        ...

    def widen(self, allocation: Allocation) -> None:
        """Have room for executors of this allocation that start, until it is applied: a JVM compiles at first."""
        ...

    def open(self) -> None:
        """Lift the cap and stay ready."""
        ...

    def release(self) -> None:
        """Lift the cap and leave nothing behind."""
        ...

    def share_refusal(self) -> str | None:
        """Return why the share that was last applied will not come about. None: it has, or still may."""
        ...

    def unheld(self, executors: Iterable[ExecutorState], now: float) -> str | None:
        """Return in one line which of the executors, as the driver sees them, can have no share. None: none."""
        ...

    def read(self) -> CpuReading:
        """Return the cap and the counters of the executors."""
        ...


@dataclass(frozen=True, slots=True)
class SharedApplication:
    """The application whose executors are held: its id, master and configuration, and its executors' cores."""

    application_id: str
    master: str
    conf: Mapping[str, str]
    cores_per_executor: int


class NoCpuSharesError(AdaptorError):
    """CPU shares cannot be set. `reason` says why, in a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, target="cpu shares")
        self.reason = reason


def open_cpu_shares(application: SharedApplication, operator: str, top: Allocation) -> tuple[OpenedShares, list[str]]:
    """Return the application's CPU shares, with notes for the user. No executor is capped yet.

    Raises
    ------
    NoCpuSharesError
        They cannot be set here.
    """
    if application.master.startswith(KUBERNETES_PREFIX):
        return _of_pods(application, operator, top)
    return _of_groups(application, operator, top)


def _of_pods(application: SharedApplication, operator: str, top: Allocation) -> tuple[OpenedShares, list[str]]:
    from penstock.adaptors.kubernetes.api import ApiExecutorPods, ClusterAccess
    from penstock.adaptors.kubernetes.executor_pods import DEFAULT_CONTAINER
    from penstock.adaptors.kubernetes.nodes import room_note
    from penstock.adaptors.kubernetes.shares import NoPodSharesError, PodShares, asked_by_spark

    conf = application.conf
    try:
        pods = ApiExecutorPods(
            ClusterAccess.of_spark(application.master, conf).connect(),
            conf.get("spark.kubernetes.namespace", "default"),
            application.application_id,
            container=conf.get("spark.kubernetes.executor.podTemplateContainerName", DEFAULT_CONTAINER),
        )
        asked = asked_by_spark(conf)
        shares = PodShares(operator, pods, application.cores_per_executor, asked)
        shares.start()
    except NoPodSharesError as fault:
        raise NoCpuSharesError(fault.reason) from fault
    except ConfigurationError as fault:
        raise NoCpuSharesError(str(fault)) from fault
    try:
        note = room_note(pods.rooms(), asked.request or 0.001, top.executors - len(pods.all()))
    except ActuationError:
        note = None  # nodes are seen with rights for the whole cluster, which are not needed for anything else
    return shares, [] if note is None else [note]


def _of_groups(application: SharedApplication, operator: str, top: Allocation) -> tuple[OpenedShares, list[str]]:
    from penstock.adaptors.cgroups import CgroupsUnavailableError, CpuShares, find_hierarchy, sweep_stale

    try:
        hierarchy = find_hierarchy()
        removed = sweep_stale(hierarchy)
        shares = CpuShares(operator, application.application_id, top, application.cores_per_executor, hierarchy)
        shares.start()
    except CgroupsUnavailableError as fault:
        raise NoCpuSharesError(fault.reason) from fault
    return shares, [f"removed {len(removed)} CPU groups that a dead run left behind"] if removed else []
