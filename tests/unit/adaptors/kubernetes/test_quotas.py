# SPDX-License-Identifier: Apache-2.0
"""How many executors a namespace's quotas allow, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.adaptors.kubernetes.fake_core import FakeCore, failure
from tests.unit.adaptors.kubernetes.pods import described

from penstock.adaptors.executor_room import RoomWatch
from penstock.adaptors.kubernetes.api import ApiExecutorPods
from penstock.adaptors.kubernetes.executor_pods import PodCpu
from penstock.adaptors.kubernetes.namespace_room import NamespaceRoom
from penstock.errors import ActuationError, MetricSourceError
from penstock.records import ExecutorRoom

pytest.importorskip("kubernetes", reason="the package kubernetes is not installed: pip install -e .[kubernetes]")

ASKED = PodCpu(0.4, 0.8)
WHOLE = {"requests": {"cpu": "400m", "memory": "896Mi"}, "limits": {"cpu": "800m", "memory": "896Mi"}}
HALF = {"requests": {"cpu": "200m", "memory": "896Mi"}, "limits": {"cpu": "400m", "memory": "896Mi"}}


def a_quota(hard: dict[str, str], used: dict[str, str] | None = None, name: str = "small", **spec: Any) -> Any:
    """A quota as the API describes it."""
    counted = dict.fromkeys(hard, "0") if used is None else used
    return {
        "metadata": {"name": name, "namespace": "jobs"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": counted},
    }


class FakeNamespace(FakeCore):
    """Has quotas and pods; of quotas an answer holds one."""

    def __init__(self, quotas: list[Any], pods: list[Any]) -> None:
        super().__init__()
        self.quotas, self.pods = quotas, pods
        self.fault: Exception | None = None
        self.pages: list[dict[str, Any]] = []

    def list_namespaced_resource_quota(self, namespace: str, **options: Any) -> Any:
        """One at a time."""
        self.pages.append({"namespace": namespace, **options})
        if self.fault is not None:
            raise self.fault
        first = int(options.get("_continue") or 0)
        following = {"continue": str(first + 1)} if first + 1 < len(self.quotas) else {}
        return {"items": self.quotas[first : first + 1], "metadata": following}

    def list_namespaced_pod(self, *_: Any, **__: Any) -> Any:
        """All."""
        return {"items": self.pods, "metadata": {}}


def room_of(*quotas: Any, pods: list[Any] | None = None) -> ExecutorRoom | None:
    """What these quotas allow, where one executor runs with all that was asked for."""
    core = FakeNamespace(list(quotas), [described("1", wanted=WHOLE)] if pods is None else pods)
    return ApiExecutorPods(core, "jobs", "app").quota_room(ASKED)


def test_what_a_quota_leaves_bounds_executors() -> None:
    """Of 2500m of limits others use 100m, and an executor takes 800m: three, with the one that runs."""
    room = room_of(a_quota({"limits.cpu": "2500m"}, {"limits.cpu": "900m"}))
    assert room == ExecutorRoom(
        3, "quota small of namespace jobs has 2500m of limits.cpu, of which others use 100m; an executor takes 800m"
    )


@pytest.mark.parametrize(
    ("hard", "used", "most"),
    [
        ({"cpu": "2"}, {"cpu": "400m"}, 5),
        ({"requests.cpu": "1"}, {"requests.cpu": "400m"}, 2),
        ({"memory": "2Gi"}, {"memory": "896Mi"}, 2),
        ({"limits.memory": "4Gi"}, {"limits.memory": "1920Mi"}, 3),
        ({"pods": "4"}, {"pods": "2"}, 3),
        ({"count/pods": "4"}, {"count/pods": "1"}, 4),
        ({"requests.cpu": "100"}, {"requests.cpu": "100"}, 1),
        ({"limits.cpu": "8", "pods": "2"}, {"limits.cpu": "800m", "pods": "1"}, 2),
        ({"pods": "0"}, {"pods": "3"}, 0),
    ],
)
def test_each_thing_that_a_quota_bounds_counts(hard: dict[str, str], used: dict[str, str], most: int) -> None:
    """CPU and memory, asked for and limits, and pods; the least decides."""
    room = room_of(a_quota(hard, used))
    assert room is not None
    assert room.executors == most


def test_executors_with_a_smaller_share_are_to_have_the_whole_again() -> None:
    """Two at half use what one does at the whole; three at the whole are what the quota has."""
    pods = [described("1", wanted=HALF), described("2", wanted=HALF)]
    room = room_of(a_quota({"limits.cpu": "2400m"}, {"limits.cpu": "800m"}), pods=pods)
    assert room is not None
    assert room.executors == 3


def test_what_executors_have_beyond_what_was_asked_for_is_not_there_for_others() -> None:
    """Two have got more memory in place, and keep it: of 4480 Mi three use 3584, so a fourth finds room, no fifth."""
    grown = {kind: {**amounts, "memory": "1344Mi"} for kind, amounts in WHOLE.items()}
    pods = [described("1", wanted=WHOLE), described("2", wanted=grown), described("3", wanted=grown)]
    room = room_of(a_quota({"memory": "4480Mi"}, {"memory": "3584Mi"}), pods=pods)
    assert room is not None
    assert room.executors == 4
    assert "others use 0;" in room.reason


def test_the_tightest_of_several_quotas_is_named_and_all_pages_are_read() -> None:
    """A page has at most 500."""
    core = FakeNamespace([a_quota({"pods": "9"}), a_quota({"pods": "2"}, name="tight")], [described("1", wanted=WHOLE)])
    room = ApiExecutorPods(core, "jobs", "app").quota_room(ASKED)
    assert room is not None
    assert room.executors == 2
    assert room.reason.startswith("quota tight of namespace jobs has 2 of pods")
    assert [page["limit"] for page in core.pages] == [500, 500]


@pytest.mark.parametrize(
    "quota",
    [
        a_quota({"services": "2", "requests.storage": "1Gi"}),
        a_quota({"pods": "2"}, {}),
        a_quota({"pods": "2"}, scopes=["BestEffort"]),
        a_quota({"pods": "2"}, scopes=["Terminating"]),
        a_quota(
            {"pods": "2"},
            scopeSelector={"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]},
        ),
        {"metadata": {"name": "new"}, "spec": {"hard": {"pods": "1"}}},
    ],
)
def test_a_quota_for_others_or_not_counted_yet_bounds_nothing(quota: Any) -> None:
    """Nothing is known then."""
    assert room_of(quota) is None


@pytest.mark.parametrize("scope", ["NotTerminating", "NotBestEffort"])
def test_a_quota_for_such_pods_counts(scope: str) -> None:
    """Executors have no deadline, and ask for CPU."""
    room = room_of(a_quota({"pods": "2"}, scopes=[scope]))
    assert room is not None
    assert room.executors == 2


def test_what_one_takes_is_known_from_the_last_pod_and_before_the_first_nothing() -> None:
    """Ended pods are no executors, and say what one takes."""
    ended = described("1", wanted=WHOLE, phase="Failed")
    core = FakeNamespace([a_quota({"limits.cpu": "1"})], [ended])
    pods = ApiExecutorPods(core, "jobs", "app")
    room = pods.quota_room(ASKED)
    assert room is not None
    assert room.executors == 1
    core.pods = []
    assert pods.quota_room(ASKED) == room
    assert room_of(a_quota({"pods": "2"}), pods=[]) is None
    assert room_of() is None


def test_all_containers_of_a_pod_count() -> None:
    """Sidecars too; of those that run first the largest, where it takes more; and what the runtime takes."""
    pod = described("1", wanted=WHOLE)
    half = {"resources": {"limits": {"cpu": "500m"}}}
    pod["spec"]["initContainers"] = [{"resources": {"limits": {"cpu": "1"}}}, {"restartPolicy": "Always", **half}]
    pod["spec"]["overhead"] = {"cpu": "100m"}
    room = room_of(a_quota({"limits.cpu": "4"}), pods=[pod])
    assert room is not None
    # 500m beside the largest of 800m of the executor and 1 before it, and 100m of overhead: 1600m
    assert (room.executors, room.reason[-5:]) == (2, "1600m")


def test_without_the_right_it_is_said_once_and_not_asked_again() -> None:
    """Plans go on as before; no fault comes with each look."""
    core = FakeNamespace([], [])
    core.fault = failure(403, 'resourcequotas is forbidden: User "x" cannot list')
    said: list[str] = []
    watch = RoomWatch(NamespaceRoom(ApiExecutorPods(core, "jobs", "app"), ASKED, said.append))
    watch.look()
    watch.look()
    assert (watch.room(), watch.faults, len(core.pages)) == (None, (), 1)
    (line,) = said
    assert line.startswith("plans do not know what the namespace's quotas allow: could not read the quotas")
    assert "grant the right to list resourcequotas in namespace jobs" in line


def test_an_api_that_does_not_answer_is_a_fault() -> None:
    """It is asked again."""
    core = FakeNamespace([], [])
    core.fault = ActuationError("the Kubernetes API does not answer", retryable=True)
    room = NamespaceRoom(ApiExecutorPods(core, "jobs", "app"), ASKED, pytest.fail)
    with pytest.raises(MetricSourceError, match="does not answer"):
        room()
    core.fault = None
    assert room() is None
