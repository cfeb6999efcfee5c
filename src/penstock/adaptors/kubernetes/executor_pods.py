# SPDX-License-Identifier: Apache-2.0
"""An executor's pod as the API describes it: its CPU, and how a resize goes.

What the API promises (https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/; seen on
1.34): the spec of a pod says what is wanted, its status what its container has. In between, the condition
``PodResizePending`` says that the node has not taken it up: ``Infeasible``, it never will; ``Deferred``, it will when
there is room. ``PodResizeInProgress`` says that it is under way, or with the reason ``Error`` why it does not go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.adaptors.kubernetes.quantities import as_cpu, bytes_of, cores_of

APPLICATION_LABEL, EXECUTOR_LABEL, ROLE_LABEL = "spark-app-selector", "spark-exec-id", "spark-role"
DEFAULT_CONTAINER = "spark-kubernetes-executor"
"""Spark's own name for it; with a pod template it may have another."""
FIELD_MANAGER = "penstock"
"""By this name the API notes what Penstock has set in a pod."""
_SAME_CORES = 0.0005
"""Half of what Kubernetes tells apart."""
ENDED_PHASES = ("Succeeded", "Failed")
_NORMAL_WAITS = ("ContainerCreating", "PodInitializing")


class ResizeState(StrEnum):
    """How the last resize of a pod goes."""

    SETTLED = "settled"
    """Nothing is wanted that it does not have."""
    IN_PROGRESS = "in progress"
    DEFERRED = "deferred"
    """Its node has no room now."""
    INFEASIBLE = "infeasible"
    """Its node will never have it."""
    FAILED = "failed"
    """Its node has tried and could not."""


@dataclass(frozen=True, slots=True)
class PodCpu:
    """The CPU of a container, in cores; None: there is no request, or no limit."""

    request: float | None = None
    limit: float | None = None

    @classmethod
    def of(cls, resources: Mapping[str, Any] | None) -> PodCpu:
        """Read the API's `resources`."""

        def cpu(kind: str) -> float | None:
            text = ((resources or {}).get(kind) or {}).get("cpu")
            return None if text is None else cores_of(str(text))

        return cls(cpu("requests"), cpu("limits"))

    def scaled(self, share: float) -> PodCpu:
        """Return a share of it."""
        return PodCpu(
            None if self.request is None else self.request * share, None if self.limit is None else self.limit * share
        )

    def is_same(self, other: PodCpu) -> bool:
        """Whether Kubernetes would tell them apart."""
        return _is_close(self.request, other.request) and _is_close(self.limit, other.limit)

    def as_resources(self) -> dict[str, dict[str, str]]:
        """Return it as the API takes it; what is not there is left as it is."""
        found = {"requests": self.request, "limits": self.limit}
        return {kind: {"cpu": as_cpu(cores)} for kind, cores in found.items() if cores is not None}

    def __str__(self) -> str:
        parts = {"request": self.request, "limit": self.limit}
        return ", ".join(f"{name} {as_cpu(cores)}" for name, cores in parts.items() if cores is not None)


@dataclass(frozen=True, slots=True)
class ExecutorPod:
    """One executor's pod.

    Attributes
    ----------
    wanted, actual
        The CPU of its spec, and what its container has by now; None: the node has not said.
    resize, message
        How the last resize goes, and what the node says about it.
    is_running
        Whether its container runs and it is not on its way out.
    node
        Where it is; None: nowhere yet.
    uid
        Tells it from another pod of the same name.
    is_going
        Whether it was deleted and has not ended yet.
    obstacle
        What keeps it from running, as the end of a sentence about the executor; empty: nothing is known.
    end
        How it has ended, where it did so by itself or by the node's will: evicted, out of memory.
    resized_by
        Who else has set its CPU in place, by the names that the API has noted.
    memory, has_memory
        The memory limit of its spec, and what its container has by now, in bytes; None: there is none, or the node
        has not said.
    is_out_of_memory
        Whether it has ended because it ran out of memory.
    has_ended
        Whether it will never run again, however it ended.
    """

    name: str
    executor_id: str
    wanted: PodCpu
    actual: PodCpu | None = None
    resize: ResizeState = ResizeState.SETTLED
    message: str = ""
    is_running: bool = True
    node: str | None = None
    container: str = DEFAULT_CONTAINER
    uid: str = ""
    is_going: bool = False
    obstacle: str = ""
    end: str = ""
    resized_by: tuple[str, ...] = ()
    memory: int | None = None
    has_memory: int | None = None
    is_out_of_memory: bool = False
    has_ended: bool = False

    @property
    def has(self) -> PodCpu:
        """What it has, as far as is known."""
        return self.wanted if self.actual is None else self.actual

    @property
    def lacks_cpu(self) -> bool:
        """Whether it is not known to have the CPU that is wanted: a resize that is held up may be one of memory."""
        return self.actual is None or not self.actual.is_same(self.wanted)


def executor_selector(application_id: str) -> str:
    """Return the label selector of an application's executors."""
    return f"{APPLICATION_LABEL}={application_id},{ROLE_LABEL}=executor"


def executor_pod(pod: Mapping[str, Any], container: str = DEFAULT_CONTAINER) -> ExecutorPod:
    """Read a pod as the API describes it; `container` is the executor's, or else its first one is taken."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    own = _named(spec["containers"], container) or spec["containers"][0]
    state = _named(status.get("containerStatuses") or (), own["name"]) or {}
    actual = PodCpu.of(state["resources"]) if state.get("resources") else None
    resize, message = _resize_of(status.get("conditions") or (), meta.get("generation"))
    is_going = meta.get("deletionTimestamp") is not None
    return ExecutorPod(
        name=meta["name"],
        executor_id=str((meta.get("labels") or {}).get(EXECUTOR_LABEL, "")),
        wanted=PodCpu.of(own.get("resources")),
        actual=actual,
        resize=resize,
        message=message,
        is_running=status.get("phase") == "Running" and not is_going,
        node=spec.get("nodeName"),
        container=own["name"],
        uid=meta.get("uid", ""),
        is_going=is_going,
        obstacle="" if is_going else _obstacle(status, state, spec.get("nodeName")),
        end=_end(status, state),
        resized_by=_others(meta.get("managedFields") or ()),
        memory=_memory(own.get("resources")),
        has_memory=_memory(state.get("resources")),
        is_out_of_memory=((state.get("state") or {}).get("terminated") or {}).get("reason") == "OOMKilled",
        has_ended=status.get("phase") in ENDED_PHASES,
    )


def _memory(resources: Mapping[str, Any] | None) -> int | None:
    text = ((resources or {}).get("limits") or {}).get("memory")
    return None if text is None else bytes_of(str(text))


def _obstacle(status: Mapping[str, Any], state: Mapping[str, Any], node: str | None) -> str:
    """Why a pod does not run yet, unless it is on its way there; or that nobody knows whether it still does."""
    conditions = {condition["type"]: condition.get("status") for condition in status.get("conditions") or ()}
    # Once a node is not heard of, the cluster calls its pods not ready, and leaves what was last heard of containers.
    if conditions.get("Ready") == "False" and conditions.get("ContainersReady") == "True":
        return f"is on node {node}, which does not answer"
    waiting = (state.get("state") or {}).get("waiting") or {}
    if waiting.get("reason") and waiting["reason"] not in _NORMAL_WAITS:
        return f"does not start: {_said(waiting)}"
    if status.get("phase") != "Pending":
        return ""
    unplaced = [c for c in status.get("conditions") or () if c["type"] == "PodScheduled" and c.get("status") == "False"]
    return (
        f"waits for a node: {unplaced[0].get('message') or unplaced[0].get('reason') or 'no reason'}"
        if unplaced
        else ""
    )


def _end(status: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    # Also of pods that still run: who is evicted or makes room for others has some seconds to end.
    for condition in status.get("conditions") or ():
        if condition["type"] == "DisruptionTarget" and condition.get("status") == "True":
            return _said(condition)
    if status.get("phase") != "Failed":
        return ""
    terminated = (state.get("state") or {}).get("terminated") or {}
    if status.get("reason"):
        return _said(status)
    if not terminated:
        return "the node does not say why"
    return f"{_said(terminated)} (exit code {terminated.get('exitCode')})"


def _said(where: Mapping[str, Any]) -> str:
    message = " ".join(str(where.get("message") or "").split())
    return f"{where['reason']}: {message}" if message else str(where["reason"])


def _others(managed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Who else has resized the pod. The kubelet notes what it has carried out in the status, not here."""
    names = {str(entry.get("manager")) for entry in managed if entry.get("subresource") == "resize"}
    return tuple(sorted(names - {FIELD_MANAGER}))


def _resize_of(conditions: Sequence[Mapping[str, Any]], generation: int | None) -> tuple[ResizeState, str]:
    found = {condition["type"]: condition for condition in conditions if condition.get("status") == "True"}
    pending, under_way = found.get("PodResizePending"), found.get("PodResizeInProgress")
    if any(_is_of_before(condition, generation) for condition in (pending, under_way) if condition is not None):
        return ResizeState.IN_PROGRESS, ""
    if pending is not None:
        is_never = pending.get("reason") == "Infeasible"
        return ResizeState.INFEASIBLE if is_never else ResizeState.DEFERRED, str(pending.get("message") or "")
    if under_way is None:
        return ResizeState.SETTLED, ""
    message = str(under_way.get("message") or "")
    return ResizeState.FAILED if under_way.get("reason") == "Error" else ResizeState.IN_PROGRESS, message


def _is_of_before(condition: Mapping[str, Any], generation: int | None) -> bool:
    """Whether the node speaks of an earlier resize: it has not seen the newest one."""
    seen = condition.get("observedGeneration")
    return seen is not None and generation is not None and seen < generation


def _named(containers: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    return next((container for container in containers if container.get("name") == name), None)


def _is_close(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) < _SAME_CORES
