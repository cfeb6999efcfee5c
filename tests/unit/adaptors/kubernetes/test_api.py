# SPDX-License-Identifier: Apache-2.0
"""What is asked of the Kubernetes API, and what its failures become."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.adaptors.kubernetes.fake_core import FakeCore, failure
from tests.unit.adaptors.kubernetes.pods import described

from penstock.adaptors.kubernetes.api import (
    ApiExecutorPods,
    ClusterAccess,
    NotAllowedError,
    PodGoneError,
    another_pod,
)
from penstock.adaptors.kubernetes.executor_pods import ExecutorPod, PodCpu
from penstock.errors import ActuationError, ActuationRejectedError, ConfigurationError

pytest.importorskip("kubernetes", reason="the package kubernetes is not installed: pip install -e .[kubernetes]")

POD = ExecutorPod("app-exec-1", "1", PodCpu(1.0, 1.0))


def test_executors_are_found_by_sparks_labels() -> None:
    """The selector names the application and the role; nothing else is listed."""
    core = FakeCore({"items": [described("3")]})
    assert [pod.executor_id for pod in ApiExecutorPods(core, "jobs", "spark-1").all()] == ["3"]
    (namespace,), options = core.asked[0]
    assert namespace == "jobs"
    assert options["label_selector"] == "spark-app-selector=spark-1,spark-role=executor"


class PagedCore(FakeCore):
    """Lists five things, at most two at a time, as the API does."""

    def __init__(self, items: list[Any]) -> None:
        super().__init__()
        self.items = items

    def _page(self, *_: Any, limit: int, _continue: str | None = None, **__: Any) -> Any:
        first = int(_continue or 0)
        self.asked.append(((first,), {"limit": limit}))
        last = first + min(limit, 2)
        following = {"continue": str(last)} if last < len(self.items) else {"continue": ""}
        return {"items": self.items[first:last], "metadata": following}

    list_namespaced_pod = list_pod_for_all_namespaces = _page

    def list_node(self, **options: Any) -> Any:
        """No nodes."""
        return {"items": [], "metadata": {}}


def test_long_lists_come_in_pages() -> None:
    """No answer holds more than was asked for: all pods of a large cluster in one would fill the memory."""
    core = PagedCore([described(str(number)) for number in range(5)])
    pods = ApiExecutorPods(core, "jobs", "spark-1")
    assert [pod.executor_id for pod in pods.all()] == ["0", "1", "2", "3", "4"]
    assert [(first, options["limit"]) for (first,), options in core.asked] == [(0, 500), (2, 500), (4, 500)]
    assert pods.rooms() == ()
    assert len(core.asked) == 6


def test_a_resize_names_the_container_and_both_amounts() -> None:
    """The body is a merge of the executor's container; a trial is a dry run."""
    core = FakeCore({})
    pods = ApiExecutorPods(core, "jobs", "spark-1")
    pods.resize(POD, PodCpu(0.4, 0.5))
    pods.resize(POD, PodCpu(0.4, 0.5), is_trial=True)
    (name, namespace, body), options = core.asked[0]
    assert (name, namespace) == ("app-exec-1", "jobs")
    resources = {"requests": {"cpu": "400m"}, "limits": {"cpu": "500m"}}
    assert body == {"spec": {"containers": [{"name": "spark-kubernetes-executor", "resources": resources}]}}
    assert "dry_run" not in options
    assert core.asked[1][1]["dry_run"] == "All"


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (failure(401, "Unauthorized"), ActuationRejectedError, "does not accept the login"),
        (
            failure(403, "pods is forbidden"),
            NotAllowedError,
            "pods is forbidden; grant the right to patch pods/",
        ),
        (failure(404, "not found", kind="pods", name="app-exec-1"), PodGoneError, "the pod is gone"),
        (failure(404, "the server could not find the requested resource"), ActuationRejectedError, "1.33 or newer"),
        (failure(422, "Pod QOS Class may not change"), ActuationRejectedError, "QOS Class may not change"),
        (failure(409, "the object has been modified"), ActuationError, "has been modified"),
        (failure(503, "etcd is away"), ActuationError, "etcd is away"),
        (ConnectionRefusedError("refused"), ActuationError, "does not answer"),
    ],
)
def test_each_failure_is_a_sentence(fault: Exception, kind: type[ActuationError], words: str) -> None:
    """The message says what was wanted and why it failed; what passes by itself is marked so."""
    with pytest.raises(ActuationError) as caught:
        ApiExecutorPods(FakeCore(fault), "jobs", "spark-1").resize(POD, PodCpu(0.5, 0.5))
    assert type(caught.value) is kind
    assert words in str(caught.value)
    assert str(caught.value).startswith("could not resize executor 1 (app-exec-1) to request 500m, limit 500m")
    assert caught.value.retryable is not issubclass(kind, ActuationRejectedError)


def test_a_certificate_that_is_not_trusted_is_named() -> None:
    """A wrong certificate does not pass by itself."""
    from urllib3.exceptions import SSLError

    with pytest.raises(ActuationRejectedError, match="certificate of the Kubernetes API is not trusted"):
        ApiExecutorPods(FakeCore(SSLError("self-signed")), "jobs", "spark-1").all()


def test_without_a_login_the_fix_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """No kubeconfig and no service account: the message says what to set."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match="set KUBECONFIG"):
        ClusterAccess("https://127.0.0.1:1").connect()


def test_the_server_is_that_of_sparks_master() -> None:
    """A master without a scheme is asked by https, as Spark does."""
    access = ClusterAccess.of_spark("k8s://https://h:6443/", {"spark.kubernetes.context": "east"})
    assert access == ClusterAccess("https://h:6443", "east")


def test_in_cluster_mode_the_pods_own_login_says_where_the_api_is() -> None:
    """The master is an address as seen by whoever submitted the job; Spark does not use it in the driver either."""
    in_a_pod = {"spark.kubernetes.submitInDriver": "true"}
    assert ClusterAccess.of_spark("k8s://https://outside:6443", in_a_pod).server is None
    set_by_hand = {**in_a_pod, "spark.kubernetes.driver.master": "https://10.96.0.1:443"}
    assert ClusterAccess.of_spark("k8s://https://outside:6443", set_by_hand).server == "https://10.96.0.1:443"


def test_another_pod_is_tried_with_what_spark_asks_for_and_not_made() -> None:
    """It is like one that runs, on no node yet, with its whole CPU again; the call is a dry run."""
    resized = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}}
    core = FakeCore({"items": [described("3", wanted=resized)]})
    pods = ApiExecutorPods(core, "jobs", "app")
    (pod,) = pods.all()
    pods.try_another(pod, PodCpu(1.0, 2.0))
    (namespace, body), options = core.asked[1]
    assert (namespace, options["dry_run"]) == ("jobs", "All")
    assert "nodeName" not in body["spec"]
    assert "name" not in body["metadata"]
    own = body["spec"]["containers"][1]["resources"]
    assert own == {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}


def test_a_pod_without_a_cpu_limit_is_tried_without_one() -> None:
    """What Spark does not ask for is not added."""
    resources = {"requests": {"cpu": "500m"}}
    made = another_pod(described("3", wanted=resources), "spark-kubernetes-executor", PodCpu(1.0, None))
    assert made["spec"]["containers"][1]["resources"] == {"requests": {"cpu": "1"}}


def test_a_quota_that_forbids_another_pod_is_told_in_its_words() -> None:
    """The message names what could not be done, and what the API says."""
    core = FakeCore({"items": [described("3")]})
    pods = ApiExecutorPods(core, "jobs", "app")
    (pod,) = pods.all()
    core.answer = failure(403, 'pods "x" is forbidden: exceeded quota: small')
    with pytest.raises(
        ActuationRejectedError, match=r"make a pod for another executor.*exceeded quota: small"
    ) as fault:
        pods.try_another(pod, PodCpu(1.0, 1.0))
    assert str(fault.value).endswith("; raise the quota of namespace jobs, or allow fewer executors")
    assert "grant the right" not in str(fault.value)


def test_another_pod_is_tried_with_the_memory_that_spark_asks_for() -> None:
    """Not with what a pod was given in place since, and without containers for debugging."""
    core = FakeCore({"items": [described("3")]})
    pods = ApiExecutorPods(core, "jobs", "app")
    pods.all()
    raised = {"requests": {"cpu": "1", "memory": "1280Mi"}, "limits": {"cpu": "1", "memory": "1280Mi"}}
    later = described("3", wanted=raised)
    later["spec"]["ephemeralContainers"] = [{"name": "debugger"}]
    core.answer = {"items": [later]}
    (pod,) = pods.all()
    core.answer = {"items": []}
    assert pods.all() == ()
    pods.try_another(pod, PodCpu(1.0, 1.0))
    (_, body), _ = core.asked[-1]
    assert "ephemeralContainers" not in body["spec"]
    own = body["spec"]["containers"][1]["resources"]
    assert {amounts["memory"] for amounts in own.values()} == {"1024Mi"}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (failure(404, 'namespaces "jobs" not found', kind="namespaces", name="jobs"), "there is no namespace jobs"),
        (failure(404, "no such thing"), r"the Kubernetes API says \(404\): no such thing"),
    ],
)
def test_what_is_not_found_when_a_pod_is_made_is_named(fault: Exception, words: str) -> None:
    """In-place resize has nothing to do with it."""
    core = FakeCore({"items": [described("3")]})
    pods = ApiExecutorPods(core, "jobs", "app")
    (pod,) = pods.all()
    core.answer = fault
    with pytest.raises(ActuationRejectedError, match=words) as caught:
        pods.try_another(pod, PodCpu(1.0, 1.0))
    assert "1.33" not in str(caught.value)
