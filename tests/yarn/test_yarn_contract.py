# SPDX-License-Identifier: Apache-2.0
"""A real YARN keeps the contract of clusters."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.contract.cluster_contract import ClusterContract, ClusterPlace
from tests.yarn.attached_query import AttachedQuery, attached_query

from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

pytestmark = pytest.mark.yarn

ROOM = 4
"""Executors of 512 MB and 384 MB besides, in a queue of 4608 MB with an application master of 640 MB."""


@pytest.fixture(scope="module")
def query(cluster: YarnCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedQuery]:
    """A query that may have more executors than its queue has room for."""
    with attached_query(cluster, tmp_path_factory.mktemp("contract"), most=ROOM + 2) as made:
        yield made


@pytest.fixture(scope="module")
def place(query: AttachedQuery) -> ClusterPlace:
    """The containers' processes, which are on this host."""
    return ClusterPlace(1.0, query.capacity, lambda executor: os.kill(query.pids()[executor], signal.SIGKILL), ROOM)


class TestYarn(ClusterContract):
    """The contract."""
