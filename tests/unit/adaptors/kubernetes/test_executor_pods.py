# SPDX-License-Identifier: Apache-2.0
"""What the Kubernetes API says about executors' pods, and what is made of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.adaptors.kubernetes.pods import described

from penstock.adaptors.kubernetes.executor_pods import PodCpu, ResizeState, executor_pod
from penstock.adaptors.kubernetes.nodes import NodeRoom, node_rooms, room_note
from penstock.adaptors.kubernetes.quantities import as_cpu, cores_of
from penstock.errors import ConfigurationError


def condition(kind: str, reason: str = "", message: str = "", seen: int | None = None) -> dict[str, object]:
    """A condition that holds."""
    return {"type": kind, "status": "True", "reason": reason, "message": message, "observedGeneration": seen}


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ((), ResizeState.SETTLED),
        ((condition("PodResizePending", "Infeasible", "too much"),), ResizeState.INFEASIBLE),
        ((condition("PodResizePending", "Deferred", "no room"),), ResizeState.DEFERRED),
        ((condition("PodResizeInProgress"),), ResizeState.IN_PROGRESS),
        ((condition("PodResizeInProgress", "Error", "the runtime failed"),), ResizeState.FAILED),
        # A newer wish is pending while an older one is carried out: the pending one counts.
        ((condition("PodResizeInProgress"), condition("PodResizePending", "Deferred")), ResizeState.DEFERRED),
    ],
)
def test_every_condition_of_a_resize_is_understood(
    conditions: tuple[dict[str, object], ...], state: ResizeState
) -> None:
    """Each condition that Kubernetes gives a resize has its own state."""
    assert executor_pod(described(conditions=conditions)).resize is state


def test_a_condition_about_an_earlier_resize_does_not_count() -> None:
    """What the node said before it saw the newest resize is no answer to that."""
    stale = condition("PodResizePending", "Infeasible", seen=2)
    assert executor_pod(described(conditions=(stale,), generation=3)).resize is ResizeState.IN_PROGRESS
    assert executor_pod(described(conditions=(stale,), generation=2)).resize is ResizeState.INFEASIBLE


def test_the_executors_container_is_found_beside_others() -> None:
    """The CPU is that of the executor's container, as wanted and as it has it."""
    pod = executor_pod(described("7", actual={"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}))
    assert (pod.executor_id, pod.container, pod.node) == ("7", "spark-kubernetes-executor", "node1")
    assert pod.wanted == PodCpu(1.0, 1.0)
    assert pod.has == PodCpu(0.5, 0.5)


def test_a_pod_on_its_way_out_does_not_run() -> None:
    """A pod that is deleted, or not started yet, is not held to a share."""
    assert executor_pod(described()).is_running
    assert not executor_pod(described(deleted="2026-01-01T00:00:00Z")).is_running
    assert not executor_pod(described(phase="Pending")).is_running


def test_a_missing_limit_is_none() -> None:
    """A container without a CPU limit has none; it is not zero."""
    pod = executor_pod(described(wanted={"requests": {"cpu": "1"}}))
    assert pod.wanted == PodCpu(1.0, None)
    assert pod.wanted.as_resources() == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize("text", ["", "fast", "-1", "1Gi"])
def test_what_is_no_amount_of_cpu_is_refused(text: str) -> None:
    """An amount that Kubernetes would not take is named."""
    with pytest.raises(ConfigurationError, match="no amount of CPU"):
        cores_of(text)


@pytest.mark.parametrize(("cores", "text"), [(0.0001, "1m"), (0.1 * 3, "300m"), (1.0, "1"), (1.5, "1500m")])
def test_amounts_are_written_as_kubernetes_keeps_them(cores: float, text: str) -> None:
    """Thousandths of a core, without the dust of binary fractions, and never zero."""
    assert as_cpu(cores) == text


def test_the_room_of_a_node_is_what_pods_have_not_asked_for() -> None:
    """Requests of pods that have ended do not count, and a cordoned node has no room."""
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}
    nodes = [
        {"metadata": {"name": "a"}, "spec": {}, "status": ready},
        {"metadata": {"name": "b"}, "spec": {"unschedulable": True}, "status": ready},
        {"metadata": {"name": "c"}, "spec": {"taints": [{"effect": "NoSchedule"}]}, "status": ready},
    ]
    running, ended = described("1"), described("2", phase="Succeeded")
    for pod in (running, ended):
        pod["spec"]["nodeName"] = "a"
    rooms = {room.name: room for room in node_rooms(nodes, [running, ended])}
    assert {name: room.free_cores for name, room in rooms.items()} == {"a": 3.0, "b": 0.0, "c": 0.0}
    assert rooms["a"].executors_that_fit(1.0) == 3


def test_executors_that_find_no_room_are_foretold() -> None:
    """More executors than fit are a note with both numbers; those that fit are none."""
    rooms = [NodeRoom("a", 4.0, 1.5), NodeRoom("b", 4.0, 0.0, takes_pods=False)]
    note = room_note(rooms, 1.0, 3)
    assert note is not None
    assert note.startswith("the nodes have room for 2 more executors of 1 CPU now, and 3 more are allowed")
    assert room_note(rooms, 0.5, 3) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, ""),
        (
            {"state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}},
            "does not start: ErrImagePull: no such image",
        ),
        (
            {"conditions": ({"type": "PodScheduled", "status": "False", "message": "0/1 nodes: Insufficient cpu"},)},
            "waits for a node: 0/1 nodes: Insufficient cpu",
        ),
        ({}, ""),
    ],
)
def test_what_keeps_a_pod_from_running_is_said(given: dict[str, Any], words: str) -> None:
    """A missing image and a node that nobody has are obstacles; a container that is being made is none."""
    pod = executor_pod(described(phase="Pending", **given))
    assert (pod.obstacle, pod.end, pod.is_running) == (words, "", False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reason": {"reason": "Evicted", "message": "low on memory"}}, "Evicted: low on memory"),
        ({"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}, "OOMKilled (exit code 137)"),
        ({}, "the node does not say why"),
    ],
)
def test_how_a_pod_was_ended_is_said(given: dict[str, Any], words: str) -> None:
    """Evictions and too little memory are told in the words of the node."""
    assert executor_pod(described(phase="Failed", **given)).end == words


def test_who_else_has_resized_a_pod_is_known_by_name() -> None:
    """The API notes who has set what; Penstock itself, and who has set other things, do not count."""
    managed = (
        {"manager": "penstock", "subresource": "resize"},
        {"manager": "vpa-updater", "subresource": "resize"},
        {"manager": "kubelet", "subresource": "status"},
        {"manager": "fabric8"},
    )
    assert executor_pod(described(managed=managed)).resized_by == ("vpa-updater",)


@pytest.mark.parametrize(
    ("reason", "message"),
    [("EvictionByEvictionAPI", "Eviction API: evicting"), ("PreemptionByScheduler", "default-scheduler: preempting")],
)
def test_a_pod_that_has_to_go_for_others_says_for_whom(reason: str, message: str) -> None:
    """An eviction, a drained node, a pod of higher priority: the API notes who wants it gone, while it still runs."""
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    pod = executor_pod(described(conditions=(condition,), deleted="2026-11-18T12:00:00Z"))
    assert pod.end == f"{reason}: {message}"
    assert executor_pod(described(conditions=({**condition, "status": "False"},))).end == ""


def test_a_pod_on_a_node_that_does_not_answer_says_so() -> None:
    """The cluster calls it not ready, though its containers were when the node was last heard of."""
    unready = {"type": "Ready", "status": "False"}
    well = {"type": "ContainersReady", "status": "True"}
    pod = executor_pod(described(conditions=(unready, well)))
    assert pod.obstacle == "is on node node1, which does not answer"
    assert pod.is_running
    assert executor_pod(described(conditions=({**unready, "status": "True"}, well))).obstacle == ""
    assert executor_pod(described(conditions=(unready, {**well, "status": "False"}))).obstacle == ""
