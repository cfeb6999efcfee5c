# SPDX-License-Identifier: Apache-2.0
"""What the nodes of a Kubernetes cluster can still take, from what the API says about nodes and pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.adaptors.kubernetes.executor_pods import ENDED_PHASES
from penstock.adaptors.kubernetes.quantities import cores_of

_NOT_TAKING = ("NoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """One node: the CPU that pods may ask for in all, and what they have asked for, in cores.

    `takes_pods` is False where it is not ready, cordoned, or has a taint that keeps pods away.
    """

    name: str
    allocatable_cores: float
    requested_cores: float
    takes_pods: bool = True

    @property
    def free_cores(self) -> float:
        """The CPU that a new pod can ask for."""
        return max(0.0, self.allocatable_cores - self.requested_cores) if self.takes_pods else 0.0

    def executors_that_fit(self, cores: float) -> int:
        """Return how many executors of so many cores it can still take, by CPU.

        Examples
        --------
        >>> NodeRoom("a", 4.0, 1.5).executors_that_fit(1.0)
        2
        """
        return int(self.free_cores / cores + 1e-9)


def room_note(rooms: Iterable[NodeRoom], cores: float, more: int) -> str | None:
    """Return a line for the user where so many more executors of so many cores find no room; None: they do.

    Examples
    --------
    >>> room_note([NodeRoom("a", 4.0, 1.5)], 1.0, 2) is None
    True
    """
    fit = sum(room.executors_that_fit(cores) for room in rooms)
    if more <= fit:
        return None
    return (
        f"the nodes have room for {fit} more executors of {cores:g} CPU now, and {more} more are allowed; those "
        "without room wait for it, or for a node that a cluster autoscaler adds"
    )


def node_rooms(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]]) -> tuple[NodeRoom, ...]:
    """Return the room of each node, by name."""
    requested: dict[str, float] = defaultdict(float)
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node is not None and (pod.get("status") or {}).get("phase") not in ENDED_PHASES:
            requested[node] += _requested_cores(pod["spec"].get("containers") or ())
    found = []
    for node in nodes:
        name = node["metadata"]["name"]
        allocatable = cores_of(str(node["status"]["allocatable"]["cpu"]))
        found.append(NodeRoom(name, allocatable, requested[name], _takes_pods(node)))
    return tuple(sorted(found, key=lambda room: room.name))


def _requested_cores(containers: Sequence[Mapping[str, Any]]) -> float:
    texts = (((c.get("resources") or {}).get("requests") or {}).get("cpu") for c in containers)
    return sum(cores_of(str(text)) for text in texts if text is not None)


def _takes_pods(node: Mapping[str, Any]) -> bool:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    conditions = {found["type"]: found["status"] for found in status.get("conditions") or ()}
    is_tainted = any(taint.get("effect") in _NOT_TAKING for taint in spec.get("taints") or ())
    return conditions.get("Ready") == "True" and not spec.get("unschedulable") and not is_tainted
