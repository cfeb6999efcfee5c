# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes keeps the contract of clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.cluster_contract import ClusterContract, ClusterPlace
from tests.contract.steered_query import SteeredQuery, steered
from tests.kubernetes.api_of_tests import Api
from tests.kubernetes.spark_application import LIMIT, Application, counting

pytestmark = pytest.mark.kubernetes

MOST = 3
"""A cluster may get more nodes when pods wait for them, so nothing is known to bound executors but the user's limit."""


@pytest.fixture(scope="module")
def application(api: Api, driver_login: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    """A query with one executor."""
    with counting(api, tmp_path_factory.mktemp("spark")) as made:
        yield made


@pytest.fixture(scope="module")
def query(application: Application) -> Iterator[SteeredQuery]:
    """Penstock is attached to it."""
    with steered(application.spark, application.query, most=MOST) as made:
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
