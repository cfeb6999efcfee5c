# SPDX-License-Identifier: Apache-2.0
"""What has to work on every supported version of Spark, attached to a real query on a real cluster.

`make test-versions` runs it once for each of them, `make test-real` for the installed one. The tests tell one story on
one application, in the order they stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.cgroups import CgroupsUnavailableError, find_hierarchy
from penstock.adaptors.clusters import RunningApplication, SparkCluster, cluster_of
from penstock.adaptors.spark.border_stop import BorderStop, stop_at_border
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.query_facts import QuerySource, read_query_facts
from penstock.adaptors.spark.query_probe import QueryProbe
from penstock.records import BatchProgress, ExecutorRoom

pytestmark = [pytest.mark.spark, pytest.mark.versions]

SECONDS = 300.0  # ends a failing test only
HELD_SECONDS = 3600.0
CGROUPS = Path("/sys/fs/cgroup")


@dataclass
class Attached:
    """A query with a scaler attached, and what its driver says of executors."""

    query: StreamingQuery
    scaler: ps.Scaler
    port: SparkCluster

    def executors(self) -> set[str]:
        """Those that take tasks."""
        return set(self.port.census().active)

    def hold(self, executors: int, cpu_share: float | None = None) -> None:
        """Order a size."""
        self.scaler.hold_size(executors, cpu_share, for_seconds=HELD_SECONDS)


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """An application with two executors of one core."""
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": "2",
    }
    with spark_driver.on_cluster(standalone_cluster, settings) as session:
        yield session


@pytest.fixture(scope="module")
def attached(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attached]:
    """A stateful query of 50 rows a second, held at two executors."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    query = (
        rows.groupBy((col("value") % 5).alias("key"))
        .count()
        .writeStream.outputMode("complete")
        .format("noop")
        .queryName("counts")
        .option("checkpointLocation", str(tmp_path_factory.mktemp("checkpoint")))
        .trigger(processingTime="1 second")
        .start()
    )
    with ps.attach(
        query, executors=(1, 2), cpu_shares=(0.5, 1.0), mode="act", warm_up_seconds=0.0, window_seconds=5.0
    ) as scaler:
        made = Attached(query, scaler, cluster_of(RunningApplication(spark.sparkContext)))
        made.hold(2)
        yield made
    query.stop()


def until(is_so: Callable[[], bool], scaler: ps.Scaler) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, scaler.observation
        time.sleep(0.2)


def test_what_the_query_reads_and_when_is_known(attached: Attached) -> None:
    """Its trigger and its source are read from its plan, and nothing is noted but how arrivals are known."""
    facts = read_query_facts(attached.query)
    assert facts.trigger_seconds == 1.0
    assert facts.sources == (QuerySource("rate", {"rowspersecond": "50"}),)
    assert facts.plan
    assert facts.notes == ()


def test_what_the_cluster_can_give_is_known(attached: Attached, spark: SparkSession) -> None:
    """The master says that the application may have two cores, and so two executors of one."""
    cluster = cluster_of(RunningApplication(spark.sparkContext, cores=1))
    cluster.watch_room()
    try:
        until(lambda: cluster.room() is not None, attached.scaler)
        assert cluster.room() == ExecutorRoom(2, "spark.cores.max is 2; an executor takes 1 core and 512 MB")
    finally:
        cluster.close()


def test_every_batch_is_seen_once_and_whole(attached: Attached) -> None:
    """Batches come without gap, each from where the last one ended, with rows, phases and rows of state."""
    seen: list[BatchProgress] = []
    with QueryProbe(attached.query, "counts") as probe:

        def look() -> bool:
            telemetry = probe.collect()
            # On a busy machine the driver may be late to list its executors; that is no fault of a report.
            assert [fault for fault in telemetry.faults if "progress" in fault] == []
            seen.extend(telemetry.batches)
            return len(seen) >= 5

        until(look, attached.scaler)
    assert [b.batch_id for b in seen] == list(range(seen[0].batch_id, seen[0].batch_id + len(seen)))
    sources = [b.sources[0] for b in seen]
    assert None not in [s.end_offset for s in sources]
    assert [s.start_offset for s in sources[1:]] == [s.end_offset for s in sources[:-1]]
    assert sum(b.rows for b in seen) > 0
    assert all(b.rows == sum(s.rows for s in b.sources) and b.phase_seconds["addBatch"] > 0 for b in seen)
    assert seen[-1].state_rows == 5


def test_rates_and_latency_are_measured(attached: Attached) -> None:
    """The loop sees rows arrive and being done, how busy the executors are, and how long rows take."""
    scaler = attached.scaler

    def is_whole() -> bool:
        seen = scaler.observation
        return seen is not None and None not in (
            seen.arrival_rate_rows_per_second, seen.processed_rows_per_second, seen.utilisation, seen.latency,
        )  # fmt: skip

    until(is_whole, scaler)
    assert scaler.faults == 0


def test_executors_go_and_come_while_the_query_runs(attached: Attached) -> None:
    """2 -> 1 by draining -> 2 -> 1: the one that stays is never touched, and the query's run is the same."""
    run_id = attached.query.runId
    until(lambda: len(attached.executors()) == 2, attached.scaler)
    attached.hold(1)
    until(lambda: len(attached.executors()) == 1 and not attached.port.census().leaving, attached.scaler)
    (stayed,) = attached.executors()
    assert attached.port.asked() == 1
    attached.hold(2)
    until(lambda: len(attached.executors()) == 2, attached.scaler)
    assert stayed in attached.executors()
    attached.hold(1)
    until(lambda: len(attached.executors()) == 1 and not attached.port.census().leaving, attached.scaler)
    assert attached.query.runId == run_id
    assert attached.query.isActive


def test_a_share_of_the_cpu_is_set_on_the_executors(attached: Attached, spark: SparkSession) -> None:
    """Half of the one executor's core is a quota of the kernel on its process, and the whole of it is none."""
    try:
        find_hierarchy()
    except CgroupsUnavailableError as fault:
        pytest.skip(fault.reason)
    application = spark.sparkContext.applicationId
    attached.hold(1, 0.5)
    until(lambda: caps_of_executors(application) == [0.5], attached.scaler)
    attached.hold(1, 1.0)
    until(lambda: caps_of_executors(application) == [1.0], attached.scaler)
    assert attached.query.isActive


def caps_of_executors(application: str) -> list[float | None]:
    """The kernel's cap on each executor of an application, in cores; None: no cap."""
    lines = [(p.pid, p.info["cmdline"] or []) for p in psutil.process_iter(["cmdline"])]
    backend = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    caps = []
    for pid, line in lines:
        if application in line and backend in line:
            with suppress(FileNotFoundError, ProcessLookupError):  # one that was told to go has just ended
                caps.append(cap_of(pid))
    return caps


def cap_of(pid: int) -> float | None:
    """The cap on a process's own group, in either version of cgroups."""
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            folder = CGROUPS / "cpu" / path.lstrip("/")
            quota = int((folder / "cpu.cfs_quota_us").read_text())
            return None if quota < 0 else quota / int((folder / "cpu.cfs_period_us").read_text())
        limits = CGROUPS / path.lstrip("/") / "cpu.max"
        if not controllers and limits.exists():
            quota_text, period = limits.read_text().split()
            return None if quota_text == "max" else int(quota_text) / int(period)
    return None


@pytest.mark.kill
def test_an_executor_that_is_killed_without_draining_is_replaced(attached: Attached) -> None:
    """The wanted total is not lowered when one is killed, so that another comes; in the end it is as before."""
    (victim,) = attached.executors()
    attached.port.kill([victim])
    total = attached.port.asked()
    # The scaler may have raised it already: while the killed one is on its way out, one more has to be asked for.
    assert total is not None
    assert total >= 1
    until(lambda: victim not in attached.executors(), attached.scaler)
    until(lambda: len(attached.executors()) == 1 and attached.port.asked() == 1, attached.scaler)


def test_the_query_is_stopped_between_two_batches(attached: Attached) -> None:
    """The running batch is done and committed, and no other begins."""
    attached.scaler.detach()
    assert stop_at_border(attached.query, 120.0) is BorderStop.AT_BORDER
    assert attached.query.exception() is None
