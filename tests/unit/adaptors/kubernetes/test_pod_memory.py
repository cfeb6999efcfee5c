# SPDX-License-Identifier: Apache-2.0
"""Memory that is raised after an executor ran out of it, against a cluster that is made up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.adaptors.kubernetes.pods import FakePods, described

from penstock.adaptors.kubernetes.executor_pods import ResizeState, executor_pod
from penstock.adaptors.kubernetes.pod_memory import PodMemory
from penstock.adaptors.kubernetes.pod_watch import PodsSeen
from penstock.adaptors.kubernetes.quantities import as_memory, bytes_of
from penstock.errors import ActuationRejectedError, ConfigurationError

MIB = 1 << 20


def cluster(*ids: str, memory: int = 800 * MIB) -> FakePods:
    """Pods with so much memory."""
    pods = FakePods(*ids)
    for executor_id in ids:
        give(pods, executor_id, memory)
    return pods


def give(pods: FakePods, executor_id: str, memory: int) -> None:
    """A pod has so much memory."""
    pods.pods[executor_id] = replace(pods.pods[executor_id], memory=memory, has_memory=memory)


def run_out(pods: FakePods, executor_id: str) -> None:
    """The kernel ends a pod for want of memory."""
    pods.pods[executor_id] = replace(
        pods.pods[executor_id], is_running=False, is_out_of_memory=True, end="OOMKilled (exit code 137)"
    )


def look(memory: PodMemory, pods: FakePods) -> None:
    """One look at the pods."""
    memory.see(PodsSeen(0.0, 0.0, pods.all()))


def test_nothing_is_raised_before_one_runs_out() -> None:
    """Pods that run are left alone."""
    pods = cluster("1", "2")
    memory = PodMemory("counts", pods, 2000 * MIB)
    look(memory, pods)
    assert pods.memories == []
    assert memory.faults == ()


def test_after_one_ran_out_the_others_and_those_that_come_get_more() -> None:
    """A quarter more, once for each that ran out, and up to the most; the line says so."""
    pods = cluster("1", "2")
    memory = PodMemory("counts", pods, 1100 * MIB)
    run_out(pods, "2")
    look(memory, pods)
    look(memory, pods)
    assert pods.memories == [("1", 1000 * MIB)]
    assert memory.faults == (
        "executor 2 ran out of its 800Mi of memory; executors' pods get 1000Mi from now on, in place",
    )
    del pods.pods["2"]
    pods.add("3")
    give(pods, "3", 800 * MIB)
    look(memory, pods)
    assert pods.memories == [("1", 1000 * MIB), ("3", 1000 * MIB)]
    run_out(pods, "3")
    look(memory, pods)
    assert pods.memories[2:] == [("1", 1100 * MIB)]
    run_out(pods, "1")
    look(memory, pods)
    assert memory.faults == (
        "executor 1 ran out of its 1100Mi of memory, which is all that spark.penstock.kubernetes.executor.memory.most "
        "allows",
    )


def test_one_that_ran_out_before_it_was_raised_does_not_count_twice() -> None:
    """Two pods with the old memory end for want of it at once: that is one step."""
    pods = cluster("1", "2", "3")
    memory = PodMemory("counts", pods, 4000 * MIB)
    run_out(pods, "1")
    run_out(pods, "2")
    look(memory, pods)
    assert pods.memories == [("3", 1000 * MIB)]


@pytest.mark.parametrize("answer", [ResizeState.DEFERRED, ResizeState.INFEASIBLE])
def test_what_the_node_does_not_have_is_taken_back(answer: ResizeState) -> None:
    """A resize that waits would hold up CPU shares: the pod keeps what it has, once, and the line says why."""
    pods = cluster("1", "2")
    pods.answer, pods.message = answer, "Node didn't have enough memory"
    memory = PodMemory("counts", pods, 2000 * MIB)
    run_out(pods, "2")
    for _ in range(3):
        look(memory, pods)
    assert pods.memories == [("1", 1000 * MIB), ("1", 800 * MIB)]
    assert memory.faults[1] == (
        f"executor 1 keeps 800Mi of memory: 1000Mi cannot be had on node1 ({answer}): Node didn't have enough memory"
    )


def test_executors_that_are_gone_are_forgotten() -> None:
    """They come and go for weeks: each that was refused is told of while it is there, and no longer."""
    pods = cluster("0")
    pods.answer, pods.message = ResizeState.DEFERRED, "Node didn't have enough memory"
    memory = PodMemory("counts", pods, 2000 * MIB)
    run_out(pods, "0")
    look(memory, pods)
    told = []
    for number in range(1, 50):
        pods.pods.clear()
        pods.add(str(number))
        give(pods, str(number), 800 * MIB)
        look(memory, pods)
        look(memory, pods)
        told.append([line.split(" of memory")[0] for line in memory.faults])
    step = "executor 0 ran out of its 800Mi"
    assert told == [[step, f"executor {number} keeps 800Mi"] for number in range(1, 50)]


def test_a_refusal_of_the_api_is_told_until_it_is_over() -> None:
    """The API's words are among the faults."""
    pods = cluster("1", "2")
    memory = PodMemory("counts", pods, 2000 * MIB)
    run_out(pods, "2")
    pods.fail_resize = ActuationRejectedError("could not resize executor 1: exceeded quota: small")
    look(memory, pods)
    assert memory.faults[1:] == ("could not resize executor 1: exceeded quota: small",)
    pods.fail_resize = None
    look(memory, pods)
    assert memory.faults[1:] == ()
    assert pods.memories == [("1", 1000 * MIB)]


def test_pods_without_a_limit_or_gone_are_passed_over() -> None:
    """There is nothing to raise."""
    pods = cluster("1", "2", "3")
    pods.pods["1"] = replace(pods.pods["1"], memory=None, has_memory=None)
    pods.gone.add("3")
    memory = PodMemory("counts", pods, 2000 * MIB)
    run_out(pods, "2")
    look(memory, pods)
    assert pods.memories == []
    assert len(memory.faults) == 1


def test_memory_is_read_as_the_api_describes_it() -> None:
    """Limit of the spec, what the container has, and how it ended."""
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}}
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    pod = executor_pod(described(actual={"limits": {"memory": "800Mi"}}, wanted=resources, state=ended, phase="Failed"))
    assert (pod.memory, pod.has_memory, pod.is_out_of_memory) == (1024 * MIB, 800 * MIB, True)
    assert executor_pod(described(wanted={"requests": {"cpu": "1"}})).memory is None


@pytest.mark.parametrize(
    ("text", "size"), [("1Ki", 1024), ("1.5Gi", 1610612736), ("2M", 2_000_000), ("1e3", 1000), ("128974848", 128974848)]
)
def test_amounts_are_read(text: str, size: int) -> None:
    """As the API writes them."""
    assert bytes_of(text) == size


def test_what_is_no_amount_is_refused() -> None:
    """With the amount in the message."""
    with pytest.raises(ConfigurationError, match="'much' is no amount of memory"):
        bytes_of("much")
    assert as_memory(1025 * MIB - 1) == "1025Mi"
