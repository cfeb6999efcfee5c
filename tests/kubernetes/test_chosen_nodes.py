# SPDX-License-Identifier: Apache-2.0
"""Executors come to the node that is chosen. The tests tell one story, in their order.

The second node has no kubelet: the scheduler binds pods to it, and they do not run there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.spark_application import Application, counting

from penstock.adaptors.clusters import RunningApplication, cluster_of
from penstock.adaptors.kubernetes.node_choice import TEMPLATE_SETTING, NodeTemplate
from penstock.adaptors.kubernetes_server.node_plan import NODE
from penstock.adaptors.kubernetes_server.spark_pods import spark_settings
from penstock.adaptors.spark.query_probe import executors_of_this_driver
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationError
from penstock.ports import NodeChoice
from penstock.records import Limits

pytestmark = pytest.mark.kubernetes

OTHER = "node2"


def make_other_node(api: Api) -> None:
    """Make a second node that is ready and has much room: without a choice the scheduler would prefer it."""
    metadata = {"name": OTHER, "labels": {"kubernetes.io/hostname": OTHER}}
    api.core.create_node({"metadata": metadata, "spec": {}})
    beat(api)
    api.until(lambda: not api.core.read_node(OTHER).spec.taints)


def beat(api: Api) -> None:
    """Say for the second node that it is well, as a kubelet would."""
    now = datetime.now(UTC).isoformat()
    ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": now, "lastTransitionTime": now, "reason": "Test"}
    room = {"cpu": "32", "memory": "64Gi", "pods": "100"}
    api.core.patch_node_status(OTHER, {"status": {"conditions": [ready], "capacity": room, "allocatable": room}})


@pytest.fixture(scope="module")
def application(api: Api, driver_login: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A query whose executors' template Penstock has made; it begins on the first node."""
    folder = tmp_path_factory.mktemp("spark")
    own = folder / "executor-pod.json"
    given = spark_settings(folder, namespace=api.namespace, writable=[folder / "checkpoints"])
    NodeTemplate.made_from(given[TEMPLATE_SETTING], own).point_at([NODE])
    with counting(api, folder, {TEMPLATE_SETTING: str(own)}) as made:
        made.until(lambda: len(made.pods()) == 1)
        made.until_batches(1)
        make_other_node(api)
        yield made
        api.core.delete_node(OTHER)  # or nobody would end the pods that are bound to it


@pytest.fixture
def scaler(application: Application) -> Iterator[ExecutorScaler]:
    """What places executors, as in the process of an operator."""
    cluster = cluster_of(RunningApplication(application.spark.sparkContext, executors_of_this_driver(), 1))
    cluster.hold("counts", Limits(1, 2, nodes=(NODE, OTHER)))
    assert cluster.nodes == NodeChoice((NODE, OTHER))
    yield ExecutorScaler(cluster, cluster.executors)
    cluster.close()


def nodes_of(application: Application) -> list[Any]:
    """The nodes that the scheduler has chosen for the executors' pods."""
    selector = f"spark-app-selector={application.id},spark-role=executor"
    listed = application.api.core.list_namespaced_pod(application.api.namespace, label_selector=selector).items
    return sorted(str(pod.spec.node_name) for pod in listed if pod.metadata.deletion_timestamp is None)


def steps(scaler: ExecutorScaler, application: Application, wanted: dict[str, int]) -> None:
    """Take steps until the scheduler has put the executors where they are wanted."""
    expected = sorted(node for node, count in wanted.items() for _ in range(count))

    def are_there() -> bool:
        beat(application.api)
        with suppress(ActuationError):  # where one runs that has registered this moment is not known yet
            scaler.place(wanted)
        return nodes_of(application) == expected

    application.until(are_there, lambda: nodes_of(application))


def test_a_second_executor_comes_to_the_chosen_node(application: Application, scaler: ExecutorScaler) -> None:
    """Though the other node has more room, the new executor comes to the first one."""
    assert nodes_of(application) == [NODE]
    steps(scaler, application, {NODE: 2})
    application.until(lambda: scaler.active_count() == 2)


def test_an_executor_is_added_on_another_node(application: Application, scaler: ExecutorScaler) -> None:
    """One stays on the first node, and the next one is bound to the other."""
    steps(scaler, application, {NODE: 1})
    steps(scaler, application, {NODE: 1, OTHER: 1})
