# SPDX-License-Identifier: Apache-2.0
"""How many executors of an application a YARN cluster can give, from what its ResourceManager says.

An executor is a container. The scheduler starts one where a node has room for it, where the application's queue and
the queues above it stay within their most, and as long as the user has not gone beyond their own part of the queue
(seen on Hadoop 3.5: that one may be exceeded by the last container, the others may not). Cores count only where the
scheduler counts them: with YARN's default, the `DefaultResourceCalculator`, it counts memory alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.records import ExecutorRoom

_ANY_NUMBER = 1 << 30


@dataclass(frozen=True, slots=True)
class Resources:
    """Memory in MiB, and cores; None: they are not counted."""

    memory: int
    cores: int | None

    @classmethod
    def of(cls, answer: Mapping[str, Any], *, counts_cores: bool) -> Resources:
        """Read memory and cores as the ResourceManager gives them."""
        return cls(int(answer["memory"]), int(answer["vCores"]) if counts_cores else None)

    def __sub__(self, other: Resources) -> Resources:
        has_cores = self.cores is not None and other.cores is not None
        return Resources(self.memory - other.memory, (self.cores or 0) - (other.cores or 0) if has_cores else None)

    def fitting(self, size: Resources) -> int:
        """Return how many of a size there is room for.

        Examples
        --------
        >>> Resources(4096, 3).fitting(Resources(1024, 1)), Resources(4096, None).fitting(Resources(1024, 1))
        (3, 4)
        """
        by_memory = self.memory // size.memory if size.memory > 0 else _ANY_NUMBER
        by_cores = self.cores // size.cores if self.cores is not None and size.cores else _ANY_NUMBER
        return max(0, min(by_memory, by_cores))

    def __str__(self) -> str:
        cores = "" if self.cores is None else f" and {self.cores} {'core' if self.cores == 1 else 'cores'}"
        return f"{self.memory} MB{cores}"


@dataclass(frozen=True, slots=True)
class ClusterAnswers:
    """What the ResourceManager says: its answers to the paths of these names, below ``/ws/v1/cluster``.

    Attributes
    ----------
    app
        ``/apps/<application>``.
    master
        The container of the application's master.
    containers
        Those of the application's attempt.
    nodes
        ``/nodes``.
    scheduler
        ``/scheduler``.
    counts_cores
        Whether the scheduler counts cores, and not memory alone.
    """

    app: Mapping[str, Any]
    master: str
    containers: Mapping[str, Any]
    nodes: Mapping[str, Any]
    scheduler: Mapping[str, Any]
    counts_cores: bool


def executor_room(answers: ClusterAnswers, label: str = "") -> ExecutorRoom | None:
    """Return how many executors the application can have at most now; None: it has none yet, so their size is unknown.

    Parameters
    ----------
    answers
        What the ResourceManager says.
    label
        The node label that executors ask for. Without one it is the application's or the queue's own, where these have
        one, and else that of the nodes without a label.
    """
    sizes = [
        Resources(int(one["allocatedMB"]), int(one["allocatedVCores"]) if answers.counts_cores else None)
        for one in _listed(answers.containers, "container")
        if one["containerId"] != answers.master and one.get("containerState", "RUNNING") == "RUNNING"
    ]
    if not sizes:
        return None
    size = max(sizes, key=lambda found: (found.memory, found.cores or 0))
    more, reason = min(_bounds(answers, size, label), key=lambda bound: bound[0])
    return ExecutorRoom(len(sizes) + more, reason)


def _bounds(answers: ClusterAnswers, size: Resources, label: str) -> Iterator[tuple[int, str]]:
    """Each thing that bounds the executors: how many more it allows, and what to tell the user."""
    app = answers.app["app"]
    queues = _queues_to(answers.scheduler["scheduler"]["schedulerInfo"], str(app["queue"]))
    of_queue = queues[-1].get("defaultNodeLabelExpression") if queues else None
    part = _Part(label or str(app.get("appNodeLabelExpression") or of_queue or ""), answers.counts_cores)
    takes = f"an executor takes {size}"
    free = [
        Resources(int(one["availMemoryMB"]), int(one["availableVirtualCores"]) if answers.counts_cores else None)
        for one in _listed(answers.nodes.get("nodes") or {}, "node")
        if one["state"] == "RUNNING" and part.label in (one.get("nodeLabels") or [""])
    ]
    yield sum(room.fitting(size) for room in free), f"no node{part} has room for one more; {takes}"
    for queue in queues:
        most, used = part.most(queue), part.used(queue)
        if most is not None and used is not None:
            yield (most - used).fitting(size), f"queue {_name(queue)} may take {most} in all{part}; {takes}"
            yield from _user_bound(queue, str(app["user"]), size, part)


def _user_bound(queue: Mapping[str, Any], user: str, size: Resources, part: _Part) -> Iterator[tuple[int, str]]:
    """What the queue allows one user: its own part times a factor. The last container may go beyond that."""
    factor, own = float(queue.get("userLimitFactor") or 0.0), part.own(queue)
    for one in _listed(queue.get("users") or {}, "user"):
        used = part.used(one)
        if one["username"] == user and factor > 0.0 and own is not None and used is not None:
            most = Resources(round(own.memory * factor), None if own.cores is None else round(own.cores * factor))
            left = most - used
            is_within = left.memory >= 0 and (left.cores is None or left.cores >= 0)
            yield (
                left.fitting(size) + 1 if is_within else 0,
                f"user {user} may take {most} in queue {_name(queue)}{part} "
                f"(its user-limit-factor is {factor:g}); an executor takes {size}",
            )


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a cluster that has a node label; the empty one is that of the nodes without a label."""

    label: str
    counts_cores: bool

    def most(self, queue: Mapping[str, Any]) -> Resources | None:
        """The most that a queue may take of it; None: the scheduler does not say."""
        return self._resources(queue.get("capacities"), "queueCapacitiesByPartition", "effectiveMaxResource")

    def own(self, queue: Mapping[str, Any]) -> Resources | None:
        """What is a queue's own of it."""
        return self._resources(queue.get("capacities"), "queueCapacitiesByPartition", "effectiveMinResource")

    def used(self, queue_or_user: Mapping[str, Any]) -> Resources | None:
        """What a queue takes of it, or a user in a queue; before they have taken anything that is nothing."""
        found = self._resources(queue_or_user.get("resources"), "resourceUsagesByPartition", "used")
        return found or (Resources(0, 0 if self.counts_cores else None) if self.label else None)

    def __str__(self) -> str:
        return f" with the label {self.label}" if self.label else ""

    def _resources(self, answer: Mapping[str, Any] | None, by_partition: str, name: str) -> Resources | None:
        for one in _listed(answer or {}, by_partition):
            if one["partitionName"] == self.label and one.get(name):
                return Resources.of(one[name], counts_cores=self.counts_cores)
        return None


def _name(queue: Mapping[str, Any]) -> str:
    return str(queue.get("queuePath") or queue["queueName"])


def _queues_to(parent: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The queues from below the root down to the one of this name or path, as the capacity scheduler lists them."""
    for queue in _listed(parent.get("queues") or {}, "queue"):
        if name in {queue.get("queuePath"), queue.get("queueName")}:
            return [queue]
        below = _queues_to(queue, name)
        if below:
            return [queue, *below]
    return []


def _listed(answer: Mapping[str, Any], name: str) -> Iterable[Mapping[str, Any]]:
    """A list of an answer. Where it has one element, some versions give that instead of a list."""
    found = answer.get(name) or ()
    return (found,) if isinstance(found, Mapping) else found
