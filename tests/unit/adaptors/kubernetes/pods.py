# SPDX-License-Identifier: Apache-2.0
"""Executors' pods without a cluster, and what its API says about them."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

from penstock.adaptors.kubernetes.api import PodGoneError
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu, ResizeState
from penstock.adaptors.kubernetes.nodes import NodeRoom
from penstock.errors import ActuationError


def described(
    executor_id: str = "1",
    *,
    wanted: dict[str, Any] | None = None,
    actual: dict[str, Any] | None = None,
    conditions: tuple[dict[str, Any], ...] = (),
    generation: int = 1,
    deleted: str | None = None,
    phase: str = "Running",
    state: dict[str, Any] | None = None,
    reason: dict[str, str] | None = None,
    managed: tuple[dict[str, Any], ...] = (),
) -> dict[str, Any]:
    """A pod as the API describes it."""
    wanted = wanted or {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    container: dict[str, Any] = {"name": "spark-kubernetes-executor", "state": state or {}}
    if actual is not None:
        container["resources"] = actual
    return {
        "metadata": {
            "name": f"app-exec-{executor_id}",
            "uid": f"uid-{executor_id}",
            "generation": generation,
            "labels": {"spark-exec-id": executor_id, "spark-role": "executor", "spark-app-selector": "app"},
            "managedFields": list(managed),
            **({} if deleted is None else {"deletionTimestamp": deleted}),
        },
        "spec": {
            "nodeName": "node1",
            "containers": [{"name": "sidecar"}, {"name": "spark-kubernetes-executor", "resources": wanted}],
        },
        "status": {
            "phase": phase,
            "containerStatuses": [container],
            "conditions": list(conditions),
            **(reason or {}),
        },
    }


class SteppedClock:
    """Time passes when the test says so; each `look` lets the thread look once."""

    def __init__(self) -> None:
        self.time = 1000.0
        self._may_look = threading.Semaphore(0)
        self._has_looked = threading.Semaphore(0)
        self._is_first = True

    def now(self) -> float:
        """The instant."""
        return self.time

    def monotonic(self) -> float:
        """The same."""
        return self.time

    def wait(self, seconds: float, until: threading.Event) -> bool:
        """Wait for `look`, or the end."""
        if not self._is_first:
            self._has_looked.release()
        self._is_first = False
        while not self._may_look.acquire(timeout=0.01):
            if until.is_set():
                return True
        return until.is_set()

    def look(self) -> None:
        """Let the thread look once, and wait until it has."""
        self._may_look.release()
        assert self._has_looked.acquire(timeout=10.0)


class FakePods:
    """A cluster whose nodes carry a resize out at once, unless they are told to answer otherwise."""

    def __init__(self, *ids: str, cpu: PodCpu | None = None) -> None:
        self.cpu = cpu or PodCpu(1.0, 1.0)
        self.pods: dict[str, ExecutorPod] = {}
        self.answer = ResizeState.SETTLED
        self.message = ""
        self.fail_list: ActuationError | None = None
        self.fail_resize: ActuationError | None = None
        self.gone: set[str] = set()
        self.trials = 0
        self.fail_another: ActuationError | None = None
        self.asked_for_another: list[PodCpu] = []
        self.resizes: list[tuple[str, PodCpu]] = []
        self.memories: list[tuple[str, int]] = []
        for executor_id in ids:
            self.add(executor_id)

    def add(self, executor_id: str, *, is_running: bool = True) -> None:
        """A pod comes."""
        self.pods[executor_id] = ExecutorPod(
            f"exec-{executor_id}",
            executor_id,
            self.cpu,
            self.cpu,
            is_running=is_running,
            node="node1",
            uid=f"uid-{executor_id}",
        )

    def resize_from_outside(self, executor_id: str, cpu: PodCpu, manager: str) -> None:
        """Somebody else resizes a pod."""
        self.pods[executor_id] = replace(self.pods[executor_id], wanted=cpu, actual=cpu, resized_by=(manager,))

    def rooms(self) -> tuple[NodeRoom, ...]:
        """Nobody knows."""
        return ()

    def try_another(self, pod: ExecutorPod, cpu: PodCpu) -> None:
        """Answer as told."""
        self.asked_for_another.append(cpu)
        if self.fail_another is not None:
            raise self.fail_another

    def set_memory(self, pod: ExecutorPod, memory: int) -> None:
        """Carry it out, or answer as told; what a pod has it can be given again."""
        if self.fail_resize is not None:
            raise self.fail_resize
        if pod.executor_id in self.gone:
            raise PodGoneError("the pod is gone", target="kubernetes")
        self.memories.append((pod.executor_id, memory))
        answer = ResizeState.SETTLED if memory == pod.has_memory else self.answer
        has = memory if answer is ResizeState.SETTLED else pod.has_memory
        self.pods[pod.executor_id] = replace(pod, memory=memory, has_memory=has, resize=answer, message=self.message)

    def limits(self) -> dict[str, float | None]:
        """The limits that containers have."""
        return {executor_id: pod.has.limit for executor_id, pod in self.pods.items()}

    def all(self) -> tuple[ExecutorPod, ...]:
        """All pods."""
        if self.fail_list is not None:
            raise self.fail_list
        return tuple(self.pods.values())

    def resize(self, pod: ExecutorPod, cpu: PodCpu, *, is_trial: bool = False) -> None:
        """Carry it out, or answer as told."""
        if self.fail_resize is not None:
            raise self.fail_resize
        if pod.executor_id in self.gone:
            raise PodGoneError("the pod is gone", target="kubernetes")
        if is_trial:
            self.trials += 1
            return
        self.resizes.append((pod.executor_id, cpu))
        actual = cpu if self.answer is ResizeState.SETTLED else pod.actual
        self.pods[pod.executor_id] = replace(
            pod, wanted=cpu, actual=actual, resize=self.answer, message=self.message, resized_by=()
        )
