# SPDX-License-Identifier: Apache-2.0
"""What is said about executors that do not come, or go, and about others who resize them: on a real cluster.

The pods have an executor's labels and do nothing. What is asked is asked with the rights of the manifest.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import namespace_with_rights

from penstock.adaptors.cpu_shares import HeldExecutors
from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.adaptors.kubernetes.pod_memory import PodMemory
from penstock.adaptors.kubernetes.pod_watch import PodWatch
from penstock.adaptors.kubernetes.shares import PodShares
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.errors import ActuationRejectedError
from penstock.records import Allocation

pytestmark = pytest.mark.kubernetes

ASKED = PodCpu(0.2, 0.2)
EATS = "x = bytearray(200 << 20); x[::4096] = b'x' * len(x[::4096])"
"""A program that uses more memory than its pod has."""


@pytest.fixture(scope="module")
def space(cluster: LocalCluster) -> Api:
    """A namespace of these tests' own: one of them limits it."""
    return namespace_with_rights(cluster, "small")


@pytest.fixture(autouse=True)
def login(space: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Log in with no more rights than the manifest gives."""
    monkeypatch.setenv("KUBECONFIG", str(space.kubeconfig_of("streaming-driver", tmp_path)))


@pytest.fixture
def application(space: Api) -> Iterator[str]:
    """The id of an application of the test's own; its pods go with it."""
    name = f"spark-{uuid.uuid4().hex[:12]}"
    yield name
    selector = f"spark-app-selector={name}"
    space.core.delete_collection_namespaced_pod(space.namespace, label_selector=selector, grace_period_seconds=0)
    space.until(lambda: not space.core.list_namespaced_pod(space.namespace, label_selector=selector).items)


@pytest.fixture
def hold(space: Api, application: str, login: None) -> Iterator[Callable[[int], HeldExecutors]]:
    """Looks at the application's pods, of which there are to be so many, and holds them to shares."""
    made: list[HeldExecutors] = []

    def make(wanted: int = 1, most_memory: int | None = None) -> HeldExecutors:
        pods = space.executor_pods(application)
        watch = PodWatch("counts", pods, ASKED, wanted=lambda: wanted, look_every_seconds=0.5)
        if most_memory is not None:
            watch.follow(PodMemory("counts", pods, most_memory))
        shares = PodShares(watch, 1.0)
        shares.start()
        watch.start()
        made.append(HeldExecutors(shares, watch))
        return made[-1]

    yield make
    for held in made:
        held.close()


def says(held: HeldExecutors, *words: str) -> bool:
    """Whether one line has all these words."""
    return any(all(word in fault for word in words) for fault in held.faults)


def test_an_image_that_is_missing_is_named(space: Api, application: str, hold: Callable[[int], HeldExecutors]) -> None:
    """The line has the executor, the reason and the image."""
    space.create_executor(application, "7", image="penstock.local/nobody-has-it:1")
    held = hold(1)
    space.until(lambda: says(held, "executor 7 does not start: ErrImageNeverPull", "penstock.local/nobody-has-it:1"))


def test_no_node_with_room_is_named(space: Api, application: str, hold: Callable[[int], HeldExecutors]) -> None:
    """The scheduler's words are told."""
    space.create_executor(application, "7", cpu="1000")
    held = hold(1)
    space.until(lambda: says(held, "executor 7 waits for a node: 0/1 nodes are available", "Insufficient cpu"))


def test_an_executor_that_runs_out_of_memory_is_told(
    space: Api, application: str, hold: Callable[[int], HeldExecutors]
) -> None:
    """The kernel ends it for want of memory, and the line says so."""
    space.start_executor(application, "1")
    held = hold(1)
    space.create_executor(application, "2", command=("/usr/bin/python3", "-c", EATS))
    space.until(lambda: says(held, "executor 2 was ended: OOMKilled"))


def test_an_executor_that_is_evicted_is_told(
    space: Api, application: str, hold: Callable[[int], HeldExecutors]
) -> None:
    """As when a node is drained: the line names the eviction."""
    space.start_executor(application, "1")
    evicted = space.start_executor(application, "2", grace_seconds=5)
    held = hold(1)
    space.core.create_namespaced_pod_eviction(evicted, space.namespace, {"metadata": {"name": evicted}})
    space.until(lambda: says(held, "executor 2 was ended: EvictionByEvictionAPI"))


def test_a_node_that_is_gone_is_named(
    cluster: LocalCluster, space: Api, application: str, hold: Callable[[int], HeldExecutors]
) -> None:
    """Its kubelet is away for longer than the cluster waits for it; when it is back, nothing is said."""
    space.start_executor(application, "1")
    held = hold(1)
    cluster.hold("kubelet")
    try:
        space.until(lambda: says(held, "executor 1 is on node node1, which does not answer"))
    finally:
        cluster.let_go("kubelet")
    space.until(lambda: held.faults == ())
    space.until(lambda: cluster.status().is_ready)


def test_memory_is_raised_in_place_after_one_ran_out_of_it(
    space: Api, application: str, hold: Callable[..., HeldExecutors]
) -> None:
    """One executor is ended for want of memory: the kernel's limit of the other is a quarter higher, it runs on."""
    other = space.start_executor(application, "1")
    held = hold(1, most_memory=64 << 20)
    assert space.memory_limit(other) == 32 << 20
    space.create_executor(application, "2", command=("/usr/bin/python3", "-c", EATS))
    space.until(lambda: space.memory_limit(other) == 40 << 20)
    space.until(lambda: says(held, "executor 2 ran out of its 32Mi of memory; executors' pods get 40Mi from now on"))
    assert space.pod(other)["status"]["containerStatuses"][0]["restartCount"] == 0


def test_memory_that_the_node_will_never_have_is_taken_back(
    space: Api, application: str, hold: Callable[..., HeldExecutors]
) -> None:
    """The executor keeps what it has, the line says why, and its share can still be set."""
    name = space.start_executor(application, "1")
    held = hold(1, most_memory=1 << 50)
    assert held.shares is not None
    assert held.watch is not None
    assert isinstance(held.watch._follower, PodMemory)
    held.watch._follower._wanted = 1 << 45  # as if one with nearly as much had run out of it
    space.until(lambda: says(held, "executor 1 keeps 32Mi of memory: 33554432Mi cannot be had on node1 (infeasible)"))
    assert space.memory_limit(name) == 32 << 20
    held.shares.apply(Allocation(1, 0.5))
    space.until(lambda: space.quota_cores(name) == pytest.approx(0.1))
    assert held.shares.share_refusal() is None


def test_a_quota_that_is_used_up_is_named(space: Api, application: str, hold: Callable[[int], HeldExecutors]) -> None:
    """No pod is made for the second executor: the API's words are told, and gone when there is room.

    Nor is a share set that the quota does not allow.
    """
    space.start_executor(application, "1")
    held = hold(2)
    assert held.shares is not None
    quota = {"metadata": {"name": "tight"}, "spec": {"hard": {"requests.cpu": "250m"}}}
    space.core.create_namespaced_resource_quota(space.namespace, quota)

    def is_used(amount: str) -> object:
        status = space.core.read_namespaced_resource_quota("tight", space.namespace).status
        return status is not None and status.used and status.used.get("requests.cpu") == amount

    try:
        space.until(lambda: is_used("200m"))
        space.until(lambda: says(held, "2 executors are wanted and 1 have a pod", "exceeded quota: tight"))
        held.shares.apply(Allocation(1, 0.5))
        space.until(lambda: is_used("100m"))
        other = space.start_executor(f"{application}-other", "9", cpu="100m")
        with pytest.raises(ActuationRejectedError, match="exceeded quota: tight"):
            held.shares.open()
        space.delete_pod(other)
    finally:
        space.core.delete_namespaced_resource_quota("tight", space.namespace)
    space.until(lambda: held.faults == ())


def test_a_driver_that_may_not_make_pods_is_told(
    space: Api, application: str, hold: Callable[[int], HeldExecutors], manifest: list[dict[str, Any]]
) -> None:
    """Without Spark's own right to make pods no executor comes: the line names the right."""
    space.start_executor(application, "1")
    held = hold(2)
    (rules,) = (
        found["rules"] for found in manifest if found["metadata"]["name"] == "spark-driver" and "rules" in found
    )
    try:
        space.set_rules("spark-driver", [])
        space.until(lambda: says(held, "2 executors are wanted and 1 have a pod", "grant the right to create pods"))
    finally:
        space.set_rules("spark-driver", rules)
    space.until(lambda: held.faults == ())


def test_somebody_else_who_resizes_is_named(space: Api, application: str, hold: Callable[[int], HeldExecutors]) -> None:
    """As a Vertical Pod Autoscaler would, another resizes the pod: told with its name, and set again."""
    name = space.start_executor(application, "1")
    held = hold(1)
    assert held.shares is not None
    held.shares.apply(Allocation(1, 0.5))
    space.until(lambda: space.quota_cores(name) == pytest.approx(0.1))
    assert held.faults == ()
    resources = {"requests": {"cpu": "150m"}, "limits": {"cpu": "150m"}}
    body = {"spec": {"containers": [{"name": "spark-kubernetes-executor", "resources": resources}]}}
    space.core.patch_namespaced_pod_resize(name, space.namespace, body, field_manager="vpa-updater")
    space.until(lambda: says(held, "executor 1 was resized to request 150m, limit 150m by vpa-updater"))
    space.until(lambda: space.quota_cores(name) == pytest.approx(0.1))
