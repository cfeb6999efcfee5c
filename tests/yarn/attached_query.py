# SPDX-License-Identifier: Apache-2.0
"""A query on a real YARN with Penstock attached, steered by the test: what its tests share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.contract.kernel_quotas import capacity_of
from tests.contract.steered_query import SteeredQuery, steered

from penstock.adaptors.cgroups import find_executors
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SETTINGS = {
    "spark.yarn.queue": "streams",
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.yarn.am.memory": "256m",
    "spark.yarn.maxAppAttempts": "1",
    "spark.driver.memory": "600m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.executor.failuresValidityInterval": "1m",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@dataclass
class AttachedQuery(SteeredQuery):
    """The running application, seen by its cluster."""

    cluster: YarnCluster

    def containers(self) -> int:
        """How many containers the ResourceManager has given the application."""
        return int(self.cluster.ask(f"/apps/{self.application}")["app"]["runningContainers"])

    def preempted(self) -> int:
        """How many of its containers the ResourceManager has taken away for others."""
        return int(self.cluster.ask(f"/apps/{self.application}")["app"]["numNonAMContainerPreempted"])

    def pids(self) -> dict[str, int]:
        """The executors' processes."""
        return find_executors(self.application)

    def capacity(self) -> float | None:
        """The CPU that the kernel allows all executors, in cores; None: no limit."""
        return capacity_of(self.pids().values())


@contextmanager
def query_of_numbers(
    cluster: YarnCluster, folder: Path, settings: Mapping[str, str] | None = None
) -> Iterator[tuple[SparkSession, StreamingQuery]]:
    """A query that writes the numbers of its records into files. In the end every record is there once."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("counts")
    for key, value in {**cluster.spark_settings(), **SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        query = (
            rows.repartition(2)
            .writeStream.format("parquet")
            .option("path", str(folder / "numbers"))
            .option("checkpointLocation", str(folder / "checkpoints"))
            .queryName("counts")
            .trigger(processingTime="2 seconds")
            .start()
        )
        yield spark, query
        query.stop()
        numbers = [row.value for row in spark.read.parquet(str(folder / "numbers")).select("value").collect()]
        assert sorted(numbers) == list(range(len(numbers))), "a record is missing, or came twice"
    finally:
        spark.stop()


@contextmanager
def attached_query(
    cluster: YarnCluster, folder: Path, *, most: int = 6, settings: Mapping[str, str] | None = None
) -> Iterator[AttachedQuery]:
    """Such a query with one executor, and Penstock attached. In the end it has what it had before."""
    with query_of_numbers(cluster, folder, settings) as (spark, query):
        application = str(spark.sparkContext.applicationId)
        with steered(spark, query, most=most, cpu_shares=(0.25, 0.5, 1.0)) as made:
            yield AttachedQuery(spark, query, made.scaler, made.policy, made.port, cluster)
        assert capacity_of(find_executors(application).values()) is None, "a limit is left"
