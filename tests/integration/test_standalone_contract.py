# SPDX-License-Identifier: Apache-2.0
"""A real standalone cluster keeps the contract of clusters."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from tests.contract.cluster_contract import ClusterContract, ClusterPlace
from tests.contract.kernel_quotas import capacity_of
from tests.contract.steered_query import SteeredQuery, steered
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.cgroups import CgroupsUnavailableError, find_executors, find_hierarchy
from penstock.adaptors.spark.cluster import EmbeddedCluster

pytestmark = [pytest.mark.spark, pytest.mark.cgroups]

MOST = 3
"""Cores that the application may have; Penstock is allowed one executor more."""
SETTINGS = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.cores.max": str(MOST),
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def query(
    spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SteeredQuery]:
    """A query of 100 rows a second."""
    try:
        find_hierarchy()
    except CgroupsUnavailableError as fault:
        pytest.skip(fault.reason)
    with spark_driver.on_cluster(standalone_cluster, SETTINGS) as spark:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        writer = rows.repartition(2).writeStream.format("noop").queryName("counts").trigger(processingTime="1 second")
        running = writer.option("checkpointLocation", str(tmp_path_factory.mktemp("checkpoint"))).start()
        with steered(spark, running, most=MOST + 1) as made:
            yield made
        running.stop()


@pytest.fixture(scope="module")
def place(query: SteeredQuery) -> ClusterPlace:
    """The processes of the executors, which are on this host."""
    application = query.application
    return ClusterPlace(
        1.0,
        lambda: capacity_of(find_executors(application).values()),
        lambda executor: os.kill(find_executors(application)[executor], signal.SIGKILL),
        MOST,
    )


class TestStandalone(ClusterContract):
    """The contract."""
