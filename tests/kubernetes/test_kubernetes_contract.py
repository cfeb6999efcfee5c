# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes keeps the contract of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.cluster_contract import ClusterContract, ClusterPlace
from tests.contract.steered_query import SteeredQuery, steered
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.spark_application import LIMIT, Application, counting

from penstock.adaptors.kubernetes.node_choice import TEMPLATE_SETTING, NodeTemplate
from penstock.adaptors.kubernetes_server.node_plan import NODE
from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

pytestmark = pytest.mark.kubernetes

MOST = 3
"""Executors that the namespace's quota allows; Penstock is allowed one more."""
QUOTA = "executors"


@pytest.fixture(scope="module")
def quota(api: Api) -> Iterator[None]:
    """A quota with room for so many executors and a half. Pods come once it is counted."""
    hard = {"limits.cpu": f"{int((MOST + 0.5) * LIMIT * 1000)}m"}
    api.core.create_namespaced_resource_quota(api.namespace, {"metadata": {"name": QUOTA}, "spec": {"hard": hard}})

    def is_counted() -> bool:
        status = api.core.read_namespaced_resource_quota(QUOTA, api.namespace).status
        return bool(status is not None and status.used)

    try:
        api.until(is_counted)
        yield
    finally:
        api.core.delete_namespaced_resource_quota(QUOTA, api.namespace)


@pytest.fixture(scope="module")
def application(
    api: Api, driver_login: None, quota: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Application]:
    """A query with one executor, whose pods' template Penstock has made."""
    folder = tmp_path_factory.mktemp("spark")
    own = folder / "executor-pod.json"
    given = spark_settings(folder, namespace=api.namespace, writable=[folder / "checkpoints"])
    NodeTemplate.made_from(given[TEMPLATE_SETTING], own).point_at([NODE])
    with counting(api, folder, {TEMPLATE_SETTING: str(own)}) as made:
        yield made


@pytest.fixture(scope="module")
def query(application: Application) -> Iterator[SteeredQuery]:
    """Penstock is attached to it."""
    with steered(application.spark, application.query, most=MOST + 1) as made:
        yield made


@pytest.fixture(scope="module")
def place(application: Application) -> ClusterPlace:
    """The pods, as the administrator sees them."""
    return ClusterPlace(
        LIMIT,
        lambda: sum(application.quotas()),
        lambda executor: application.api.delete_pod(application.pods()[executor]),
        MOST,
    )


class TestKubernetes(ClusterContract):
    """The contract."""
