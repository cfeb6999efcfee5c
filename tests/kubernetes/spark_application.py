# SPDX-License-Identifier: Apache-2.0
"""A Spark application whose executors are pods: its driver is this process, which is inside the cluster's network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kubernetes.api_of_tests import Api

from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PATIENCE_SECONDS = 300.0
LIMIT = 0.8
"""Of an executor's CPU, in cores."""
SETTINGS = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.kubernetes.executor.request.cores": "400m",
    "spark.kubernetes.executor.limit.cores": f"{int(LIMIT * 1000)}m",
    "spark.driver.memory": "600m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.port": "0",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


@dataclass
class Application:
    """The running application, with a query that counts."""

    api: Api
    spark: SparkSession
    query: StreamingQuery

    @property
    def id(self) -> str:
        """Spark's name for it."""
        return str(self.spark.sparkContext.applicationId)

    def pods(self) -> dict[str, str]:
        """The names of the pods that run and are not on their way out, by executor."""
        listed = self.api.core.list_namespaced_pod(
            self.api.namespace, label_selector=f"spark-app-selector={self.id},spark-role=executor"
        )
        return {
            pod.metadata.labels["spark-exec-id"]: pod.metadata.name
            for pod in listed.items
            if pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
        }

    def quotas(self) -> list[float]:
        """The kernel's quotas of all executors, in cores."""
        found = []
        for name in self.pods().values():
            with suppress(ProcessLookupError, FileNotFoundError):  # it has ended, and the API does not know it yet
                found.append(round(self.api.quota_cores(name), 3))
        return found

    def batches(self) -> int:
        """How many batches are done."""
        progress = self.query.lastProgress
        return 0 if progress is None else int(progress["batchId"]) + 1

    def until(self, is_so: Callable[[], object], say: Callable[[], object] = str) -> None:
        """Wait; the bound only ends a failing test."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, (self.pods(), say())
            time.sleep(0.3)

    def until_batches(self, count: int) -> None:
        """Wait for so many more batches."""
        wanted = self.batches() + count
        self.until(lambda: self.batches() >= wanted)


@contextmanager
def counting(
    api: Api, folder: Path, settings: Mapping[str, str] | None = None, *, keeps_numbers: bool = False
) -> Iterator[Application]:
    """Run a query that counts on one executor; at the end no pod is left.

    With `keeps_numbers` it writes the numbers of its records into files instead, and in the end each is there once.
    """
    pytest.importorskip("pyspark", reason="needs the extra [spark]")
    from pyspark.sql import SparkSession

    checkpoints, numbers = folder / "checkpoints", folder / "numbers"
    checkpoints.mkdir(exist_ok=True)
    numbers.mkdir(exist_ok=True)
    chosen = {
        **spark_settings(folder, namespace=api.namespace, writable=[checkpoints, numbers]),
        **SETTINGS,
        **(settings or {}),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", chosen["spark.driver.host"])
        builder = SparkSession.builder.appName("counts")
        for key, value in chosen.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        try:
            rows = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
            query = (
                (_numbers_of(rows, numbers) if keeps_numbers else _counts_of(rows))
                .option("checkpointLocation", str(checkpoints))
                .queryName("counts")
                .trigger(processingTime="2 seconds")
                .start()
            )
            made = Application(api, spark, query)
            yield made
            assert query.exception() is None
            query.stop()
            if keeps_numbers:
                _check_numbers(spark, numbers)
        finally:
            name = spark.sparkContext.applicationId
            spark.stop()
    selector = f"spark-app-selector={name},spark-role=executor"
    api.until(lambda: not api.core.list_namespaced_pod(api.namespace, label_selector=selector).items)


def _counts_of(rows: DataFrame) -> DataStreamWriter:
    from pyspark.sql.functions import col

    return rows.groupBy((col("value") % 5).alias("key")).count().writeStream.outputMode("update").format("noop")


def _numbers_of(rows: DataFrame, folder: Path) -> DataStreamWriter:
    return rows.repartition(2).writeStream.format("parquet").option("path", str(folder))


def _check_numbers(spark: SparkSession, folder: Path) -> None:
    numbers = [row.value for row in spark.read.parquet(str(folder)).select("value").collect()]
    assert numbers
    assert sorted(numbers) == list(range(len(numbers))), "a record is missing, or came twice"
