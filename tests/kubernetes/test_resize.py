# SPDX-License-Identifier: Apache-2.0
"""CPU shares by in-place resize on a real cluster, with pods that have an executor's labels and do nothing."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.conftest import MANIFEST

from penstock.adaptors.cpu_shares import HeldExecutors
from penstock.adaptors.kubernetes.executor_pods import PodCpu, ResizeState
from penstock.adaptors.kubernetes.pod_watch import PodWatch
from penstock.adaptors.kubernetes.shares import PodShares
from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
from penstock.errors import ActuationError, ActuationRejectedError, MetricSourceError
from penstock.records import Allocation

pytestmark = pytest.mark.kubernetes

ACCOUNT = "streaming-driver"
ASKED = PodCpu(0.2, 0.2)


@pytest.fixture
def application(api: Api) -> Iterator[str]:
    """The id of an application of the test's own; its pods go with it."""
    name = f"spark-{uuid.uuid4().hex[:12]}"
    yield name
    api.core.delete_collection_namespaced_pod(
        api.namespace, label_selector=f"spark-app-selector={name}", grace_period_seconds=0
    )


@pytest.fixture(autouse=True)
def login(api: Api, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Log in with no more rights than the manifest gives."""
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig_of(ACCOUNT, tmp_path)))


@pytest.fixture
def hold(api: Api, application: str) -> Iterator[Callable[[], PodShares]]:
    """Makes shares of the application; they are released at the end."""
    made: list[HeldExecutors] = []

    def make() -> PodShares:
        watch = PodWatch("counts", api.executor_pods(application), ASKED, look_every_seconds=0.5)
        shares = PodShares(watch, 1.0)
        shares.start()
        watch.start()
        made.append(HeldExecutors(shares, watch))
        return shares

    yield make
    for held in made:
        held.close()


def test_half_a_share_is_half_the_quota_and_is_put_back(
    api: Api, application: str, hold: Callable[[], PodShares]
) -> None:
    """The kernel's quota, the pod's status and the reading follow the share, and no container is restarted."""
    name = api.start_executor(application, "1")
    shares = hold()
    assert api.quota_cores(name) == pytest.approx(0.2)
    shares.apply(Allocation(1, 0.5))
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.1))
    api.until(lambda: shares.read().quota_cores == pytest.approx(0.5))
    state = api.pod(name)["status"]["containerStatuses"][0]
    assert (state["resources"]["limits"]["cpu"], state["restartCount"]) == ("100m", 0)
    shares.release()
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.2))


def test_an_executor_that_comes_later_is_held(api: Api, application: str, hold: Callable[[], PodShares]) -> None:
    """A second pod gets the share that is in force."""
    api.start_executor(application, "1")
    shares = hold()
    shares.apply(Allocation(2, 0.5))
    second = api.start_executor(application, "2")
    api.until(lambda: api.quota_cores(second) == pytest.approx(0.1))


def test_more_than_the_node_has_is_refused(api: Api, application: str, hold: Callable[[], PodShares]) -> None:
    """A share of more CPU than the node will ever have is told as infeasible; the executor keeps what it has."""
    name = api.start_executor(application, "1")
    shares = hold()
    pods = api.executor_pods(application)
    shares._watch.asked = PodCpu(1000.0, 1000.0)  # as if Spark had asked for more than any node has
    shares._originals.clear()
    shares.apply(Allocation(1, 0.5))
    api.until(lambda: shares.share_refusal() is not None)
    refusal = shares.share_refusal()
    assert refusal is not None
    assert "executor 1 will never have 500 of CPU on node node1 (infeasible)" in refusal
    assert api.quota_cores(name) == pytest.approx(0.2)
    assert pods.all()[0].resize is ResizeState.INFEASIBLE
    shares._watch.asked = ASKED
    shares._originals = {pod.uid: ASKED for pod in pods.all()}


def test_a_node_without_room_now_defers(api: Api, application: str, hold: Callable[[], PodShares]) -> None:
    """What does not fit beside other pods waits, is told so, and comes when they go."""
    name = api.start_executor(application, "1")
    shares = hold()
    shares.apply(Allocation(1, 0.5))
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.1))
    (room,) = [room for room in rooms_of(api) if room.name == "node1"]
    other = api.start_executor(
        f"{application}-other", "9", cpu=f"{int(room.free_cores * 1000) - 20}m", is_limited=False
    )
    shares.open()
    api.until(lambda: any("(deferred)" in fault for fault in shares.faults))
    assert shares.share_refusal() is None
    assert api.quota_cores(name) == pytest.approx(0.1)
    api.delete_pod(other)
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.2))
    api.until(lambda: shares.faults == ())


def rooms_of(api: Api) -> Any:
    """What nodes can still take, as the administrator sees it."""
    from penstock.adaptors.kubernetes.api import ApiExecutorPods

    return ApiExecutorPods(api.core, api.namespace, "any").rooms()


def test_a_pod_deleted_from_outside_is_no_failure(api: Api, application: str, hold: Callable[[], PodShares]) -> None:
    """The others are held, and nothing is said about the one that is gone."""
    first, second = api.start_executor(application, "1"), api.start_executor(application, "2")
    shares = hold()
    api.delete_pod(first)
    shares.apply(Allocation(2, 0.5))
    api.until(lambda: api.quota_cores(second) == pytest.approx(0.1))
    assert shares.faults == ()


RULES = [
    (found["metadata"]["name"], rule["resources"][0])
    for found in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))
    if found["kind"] == "Role"
    for rule in found["rules"]
]
"""Every rule of the manifest: its role, and the first resource that it is about."""
LACKING = {
    ("penstock", "pods"): r"could not list the executors' pods: not allowed \(403\).*grant the right to list pods",
    (
        "penstock",
        "pods/resize",
    ): r"could not resize executor 1 .*not allowed \(403\).*grant the right to patch pods/resize",
    (
        "penstock",
        "resourcequotas",
    ): r"quotas of the namespace: not allowed \(403\).*grant the right to list resourcequotas",
    ("spark-driver", "pods"): r"pod for another executor: not allowed \(403\).*grant the right to create pods",
    ("spark-driver", "configmaps"): r"cannot create resource .*configmaps",
    ("spark-driver", "services"): r"cannot create resource .*services",
}
"""What is said without a rule. The last two are the API's own words to Spark: Penstock does not ask for these."""


@pytest.mark.parametrize("rule", RULES, ids="-".join)
def test_each_rule_of_the_manifest_is_needed(
    api: Api,
    application: str,
    hold: Callable[[], PodShares],
    manifest: list[dict[str, Any]],
    rule: tuple[str, str],
) -> None:
    """With one rule less, what it is for is refused, and the line names the right; with all of them nothing is."""
    api.start_executor(application, "1")
    roles = {found["metadata"]["name"]: found["rules"] for found in manifest if found["kind"] == "Role"}
    role, resource = rule

    def refusal() -> str | None:
        return refusal_of(lambda: ask(api, application, hold, rule))

    assert refusal() is None
    try:
        if role == "penstock":  # Spark's own rights would let it list pods, too
            api.set_rules("spark-driver", [])
        api.set_rules(role, [one for one in roles[role] if one["resources"][0] != resource])
        api.until(lambda: re.search(LACKING[rule], refusal() or ""), say=lambda: str(refusal()))
        api.set_rules(role, roles[role])
        api.until(lambda: refusal() is None, say=lambda: str(refusal()))
    finally:
        for name, rules in roles.items():
            api.set_rules(name, rules)
        api.until(lambda: refusal_of(lambda: ask(api, application, hold, ("spark-driver", "services"))) is None)


def ask(api: Api, application: str, hold: Callable[[], PodShares], rule: tuple[str, str]) -> None:
    """Ask for what a rule of the manifest allows, as Penstock does, or as Spark's driver does."""
    role, resource = rule
    pods = api.executor_pods(application)
    if resource == "resourcequotas":
        pods.quota_room(ASKED)
    elif role == "penstock":
        hold()
    elif resource == "pods":
        (pod,) = pods.all()
        pods.try_another(pod, ASKED)
    elif resource == "configmaps":
        pods._core.create_namespaced_config_map(api.namespace, {"metadata": {"name": "trial"}}, dry_run="All")
    else:
        body = {"metadata": {"name": "trial"}, "spec": {"ports": [{"port": 80}]}}
        pods._core.create_namespaced_service(api.namespace, body, dry_run="All")


def refusal_of(call: Callable[[], object]) -> str | None:
    """Why a call is refused; None: it is not."""
    from kubernetes.client.exceptions import ApiException

    try:
        call()
    except (ActuationError, ApiException) as fault:
        return str(fault)
    return None


def test_rights_lost_meanwhile_fail_the_action(
    api: Api, application: str, hold: Callable[[], PodShares], manifest: list[dict[str, Any]]
) -> None:
    """A right that is taken away while shares are held is a rejection with a sentence."""
    api.start_executor(application, "1")
    shares = hold()
    (rules,) = [
        found["rules"] for found in manifest if found["kind"] == "Role" and found["metadata"]["name"] == "penstock"
    ]
    try:
        api.set_rules("penstock", rules[:1])

        def fails() -> bool:
            try:
                shares.apply(Allocation(1, 0.5))
                shares.open()
            except ActuationRejectedError as fault:
                return "grant the right to patch pods/resize" in str(fault)
            return False

        api.until(fails)
    finally:
        api.set_rules("penstock", rules)
        api.until(lambda: not fails())


def test_a_wrong_certificate_is_named(api: Api, application: str, tmp_path: Path) -> None:
    """An authority that did not sign the server's certificate is not trusted, and the message says so."""
    from penstock.adaptors.kubernetes_server.certificates import Authority

    other = Authority(tmp_path / "other")
    kubeconfig = Path(os.environ["KUBECONFIG"])
    found = json.loads(kubeconfig.read_text())
    found["clusters"][0]["cluster"]["certificate-authority"] = str(other.certificate)
    kubeconfig.write_text(json.dumps(found))
    with pytest.raises(ActuationError, match="is not trusted"):
        api.executor_pods(application).all()


def test_a_token_that_is_wrong_is_named(api: Api, application: str) -> None:
    """Who is not known is told so."""
    pods = api.executor_pods(application)
    pods._core.api_client.configuration.api_key = {"authorization": "Bearer nonsense"}
    pods._core.api_client.configuration.refresh_api_key_hook = None
    with pytest.raises(ActuationRejectedError, match="does not accept the login"):
        pods.all()


@pytest.mark.usefixtures("server_is_killed")
def test_an_api_server_that_is_away_is_told_and_waited_for(
    cluster: LocalCluster, api: Api, application: str, hold: Callable[[], PodShares]
) -> None:
    """While it is away the reading ends and the fault says so; the share stays, and the next one is set afterwards."""
    name = api.start_executor(application, "1")
    shares = hold()
    shares.apply(Allocation(1, 0.5))
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.1))
    cluster.hold("kube-apiserver")
    try:
        api.until(lambda: any("does not answer" in fault for fault in shares._watch.faults))

        def is_unknown() -> bool:
            try:
                shares.read()
            except MetricSourceError:
                return True
            return False

        api.until(is_unknown)
        with pytest.raises(ActuationError, match="does not answer"):
            shares.apply(Allocation(1, 0.25))
    finally:
        cluster.let_go("kube-apiserver")
    api.until(lambda: cluster.status().is_ready)
    api.until(lambda: api.quota_cores(name) == pytest.approx(0.05))
    api.until(lambda: shares._watch.faults == ())
