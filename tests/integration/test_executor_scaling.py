# SPDX-License-Identifier: Apache-2.0
"""Executors of a running query on a real cluster: fewer, more, killed, put back, all through the agent's socket.

The tests tell one story on one application, in the order they stand.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import OperatorAgent
from penstock.adaptors.clusters import RunningApplication, cluster_of
from penstock.adaptors.spark.actuator import SparkActuator
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.query_probe import QueryProbe, executors_of_this_driver
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.records import Action, Allocation, BatchProgress, ExecutorState, Telemetry

pytestmark = pytest.mark.spark


@dataclass
class Running:
    """A query on the cluster, and a controller connected to its agent."""

    cluster: EmbeddedCluster
    application_id: str
    query: StreamingQuery
    remote: RemoteOperator
    batches: list[BatchProgress] = field(default_factory=list)

    def ask(self, executors: int) -> None:
        """Request a number of executors."""
        self.remote.request(Action("counter", time.time(), Allocation(executors), None))

    def look(self) -> Telemetry:
        """Collect, and remember the batches."""
        telemetry = self.remote.collect()
        self.batches += telemetry.batches
        return telemetry

    def until(self, is_so: Callable[[dict[str, ExecutorState]], bool], seconds: float = 180.0) -> list[Telemetry]:
        """Look until the executors are as wanted; the bound only ends a failing test."""
        looks: list[Telemetry] = []
        deadline = time.monotonic() + seconds
        while True:
            looks.append(self.look())
            executors = looks[-1].executors
            if executors is not None and is_so({e.executor_id: e for e in executors}):
                return looks
            assert time.monotonic() < deadline, f"not reached: {looks[-1]}"
            time.sleep(0.2)

    def until_batches(self, count: int) -> None:
        """Look until so many more batches are done."""
        wanted = len(self.batches) + count
        self.until(lambda _: len(self.batches) >= wanted)

    def slots_given(self) -> int:
        """How many cores the master has given the application: with one per executor, how many it started."""
        (app,) = [a for a in self.cluster.state()["activeapps"] if a["id"] == self.application_id]
        return int(app["cores"])

    def process_of(self, executor_id: str) -> psutil.Process:
        """The process of an executor."""
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            is_ours = self.application_id in line and "org.apache.spark.executor.CoarseGrainedExecutorBackend" in line
            if is_ours and line[line.index("--executor-id") + 1] == executor_id:
                return process
        raise AssertionError(f"executor {executor_id} has no process")


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """An application with three executors of one core."""
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "3",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        # How long a drained executor waits before it looks once more for blocks: most of a drain, at its default.
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": "2",
    }
    with spark_driver.on_cluster(standalone_cluster, settings) as session:
        yield session


@pytest.fixture(scope="module")
def running(
    spark: SparkSession, standalone_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A stateful query on it, and a controller."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 2).load()
    query = (
        rows.groupBy((col("value") % 10).alias("key"))
        .count()
        .writeStream.outputMode("complete")
        .format("noop")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("x") / "checkpoint"))
        .start()
    )
    read_executors = executors_of_this_driver()
    scaler = ExecutorScaler(cluster_of(RunningApplication(spark.sparkContext)), read_executors)
    actuator = SparkActuator(scaler, reconcile_every_seconds=0.5)
    probe = QueryProbe(
        query,
        "counter",
        read_executors=read_executors,
        draining=lambda: scaler.draining,
        other_faults=actuator.take_faults,
    )
    socket_path = Path(tmp_path_factory.mktemp("s")) / "agent.sock"
    with OperatorAgent("counter", probe, actuator, socket_path, on_stop=lambda: None):
        remote = RemoteOperator(socket_path)
        made = Running(standalone_cluster, spark.sparkContext.applicationId, query, remote)
        made.until(lambda e: len(e) == 3)
        made.until_batches(2)
        yield made
        remote.close()
    probe.close()
    query.stop()


def test_scaling_in_drains_executors_and_starts_none_in_their_place(running: Running) -> None:
    """3 -> 1: two are seen draining, the query never stops, and the master gives out two cores fewer."""
    running.ask(1)
    looks = running.until(lambda e: len(e) == 1)
    drained = {e.executor_id for look in looks for e in look.executors or () if e.is_draining}
    assert len(drained) == 2
    (left,) = (e.executor_id for e in looks[-1].executors or ())
    assert left not in drained
    running.until_batches(3)
    looks = running.until(lambda e: list(e) == [left])
    assert running.slots_given() == 1
    assert all(look.is_running for look in looks)


def test_scaling_out_starts_one(running: Running) -> None:
    """1 -> 2: a new executor joins the one that stayed."""
    (stayed,) = running.until(lambda e: len(e) == 1)[-1].executors or ()
    running.ask(2)
    looks = running.until(lambda e: len(e) == 2)
    assert stayed.executor_id in {e.executor_id for e in looks[-1].executors or ()}
    assert running.slots_given() == 2


def test_a_change_of_mind_while_one_drains_ends_at_the_last_number(running: Running) -> None:
    """2 -> 1 -> 2 in one breath: another executor takes the place of the draining one, and no third one stays."""
    running.ask(1)
    looks = running.until(lambda e: len(e) < 2 or any(x.is_draining for x in e.values()))
    drained = {e.executor_id for e in looks[-1].executors or () if e.is_draining}
    running.ask(2)
    running.until(lambda e: len(e) == 2 and not drained & set(e) and not any(x.is_draining for x in e.values()))
    running.until_batches(2)
    running.until(lambda e: len(e) == 2 and running.slots_given() == 2)


@pytest.mark.kill
def test_a_killed_executor_is_noticed_and_replaced(running: Running) -> None:
    """After kill -9 the loss is seen and another executor comes, without a new request."""
    before = set(running.until(lambda e: len(e) == 2)[-1].executors or ())
    victim = min(e.executor_id for e in before)
    os.kill(running.process_of(victim).pid, signal.SIGKILL)
    running.until(lambda e: victim not in e)
    running.until(lambda e: victim not in e and len(e) == 2)
    running.until_batches(2)


def test_killing_an_executor_leaves_the_requested_total_alone(running: Running, spark: SparkSession) -> None:
    """With the total lowered first one goes for good; without that the killed one is replaced."""
    running.ask(2)
    running.until(lambda e: len(e) == 2 and not any(x.is_draining for x in e.values()))
    port = cluster_of(RunningApplication(spark.sparkContext))
    port.ask(2)
    victim = min(port.census().active)
    port.kill([victim])
    assert port.asked() == 2
    running.until(lambda e: victim not in e)
    running.until(lambda e: victim not in e and len(e) == 2)
    running.until_batches(2)


def test_release_puts_the_first_number_back(running: Running) -> None:
    """After a scale-in, release brings the three executors of the start back, and the query goes on."""
    running.ask(1)
    running.until(lambda e: len(e) == 1)
    running.remote.release()
    running.until(lambda e: len([x for x in e.values() if not x.is_draining]) == 3)
    running.until_batches(2)


def test_no_batch_was_lost_or_repeated_by_all_that(running: Running) -> None:
    """Over the whole story batches follow each other without gap, each from where the last one ended."""
    running.look()
    ids = [b.batch_id for b in running.batches]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    sources = [b.sources[0] for b in running.batches]
    assert [s.start_offset for s in sources[1:]] == [s.end_offset for s in sources[:-1]]
    assert running.query.exception() is None
    assert running.query.isActive
