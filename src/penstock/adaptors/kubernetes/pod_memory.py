# SPDX-License-Identifier: Apache-2.0
"""Raises the memory of executors' pods in place after one ran out of it, as far as the user allows.

A pod that runs out of memory is ended by the kernel. Spark starts another one with the same memory, which ends the same
way. The heap of a JVM keeps its size; what grows is the room beside it: Python workers, buffers, the JVM itself.
"""

from __future__ import annotations

import logging

from penstock.adaptors.kubernetes.api import ExecutorPods, PodGoneError
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, ResizeState
from penstock.adaptors.kubernetes.pod_watch import PodsSeen
from penstock.adaptors.kubernetes.quantities import as_memory
from penstock.errors import ActuationError

_log = logging.getLogger(__name__)

MEMORY_SETTING = "spark.penstock.kubernetes.executor.memory.most"
_STEP = 1.25
"""What pods get of what they had, after one ran out of memory."""
_PENDING = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.FAILED)


class PodMemory:
    """Follows an application's pods (`PodWatch.follow`). It never takes memory away that a pod has.

    Parameters
    ----------
    operator
        Its name in messages.
    pods
        The executors' pods.
    most
        The most memory that a pod may get, in bytes.
    """

    def __init__(self, operator: str, pods: ExecutorPods, most: int) -> None:
        self._operator = operator
        self._pods = pods
        self._most = most
        self._wanted: int | None = None
        """What pods are to have at least; None: none ran out of memory yet."""
        self._ended: set[str] = set()
        """The pods that ran out of memory, by uid."""
        self._refused: dict[str, str] = {}
        """What is said of the pods that could not be given what was wanted, by uid: it is not asked for again."""
        self._told: str | None = None
        self._fault: str | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """What there is to say at present, one line each."""
        return tuple(line for line in (self._told, *self._refused.values(), self._fault) if line is not None)

    def see(self, seen: PodsSeen) -> None:
        """Take in a look at the pods, and raise the memory of those that have too little."""
        there = {pod.uid for pod in seen.pods}  # executors come and go for weeks: those that are gone are forgotten
        self._ended &= there
        self._refused = {uid: line for uid, line in self._refused.items() if uid in there}
        for pod in seen.pods:
            if pod.is_out_of_memory and pod.uid not in self._ended:
                self._ended.add(pod.uid)
                self._step_up(pod)
        self._fault = None
        for pod in seen.pods:
            if pod.is_running and self._wanted is not None:
                try:
                    self._raise(pod, self._wanted)
                except PodGoneError:
                    continue
                except ActuationError as fault:
                    self._fault = str(fault)

    def _step_up(self, pod: ExecutorPod) -> None:
        """Want more than the pod had that ran out of memory, unless that was less than what is wanted by now."""
        had = pod.memory
        if had is None or (self._wanted is not None and had < self._wanted):
            return
        more = min(self._most, int(had * _STEP))
        begin = f"executor {pod.executor_id} ran out of its {as_memory(had)} of memory"
        if more <= had:
            line = f"{begin}, which is all that {MEMORY_SETTING} allows"
        else:
            self._wanted = more
            line = f"{begin}; executors' pods get {as_memory(more)} from now on, in place"
        _log.warning("%s: %s", self._operator, line)
        self._told = line

    def _raise(self, pod: ExecutorPod, wanted: int) -> None:
        if pod.memory is None:  # it has no limit, so there is nothing to raise
            return
        if pod.uid not in self._refused and pod.memory < wanted:
            self._pods.set_memory(pod, wanted)
        elif pod.resize in _PENDING and pod.has_memory is not None and pod.memory > pod.has_memory:
            # Until it is taken back, the node carries out no other resize of this pod either: its CPU share would wait.
            line = (
                f"executor {pod.executor_id} keeps {as_memory(pod.has_memory)} of memory: {as_memory(pod.memory)} "
                f"cannot be had on {pod.node or 'its node'} ({pod.resize}): {pod.message or 'the node says no more'}"
            )
            _log.warning("%s: %s", self._operator, line)
            self._refused[pod.uid] = line
            self._pods.set_memory(pod, pod.has_memory)
