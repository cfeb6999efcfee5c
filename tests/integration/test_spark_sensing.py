# SPDX-License-Identifier: Apache-2.0
"""A probe on real queries of a local Spark: batches once and in order, idling, failure, and a clean detach."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, lit, raise_error, window
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.clusters import RunningApplication, cluster_of
from penstock.adaptors.spark.query_probe import QueryProbe
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.errors import ActuationRejectedError
from penstock.records import BatchProgress, Telemetry

pytestmark = [pytest.mark.spark, pytest.mark.core]


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A local session."""
    with spark_driver.local() as session:
        yield session


def rate_query(spark: SparkSession) -> StreamingQuery:
    """A stateful query that always has work."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
    counts = rows.groupBy((col("value") % 5).alias("key")).count()
    return counts.writeStream.outputMode("complete").format("noop").start()


def collect_until(probe: QueryProbe, is_enough: Callable[[list[BatchProgress], Telemetry], bool]) -> Telemetry:
    """Collect until it is enough, and give the last look with all batches seen."""
    seen: list[BatchProgress] = []
    deadline = time.monotonic() + 120
    while True:
        telemetry = probe.collect()
        seen += telemetry.batches
        if is_enough(seen, telemetry):
            return Telemetry(
                telemetry.operator,
                telemetry.at,
                tuple(seen),
                telemetry.executors,
                None,
                telemetry.is_running,
                telemetry.faults,
            )
        assert time.monotonic() < deadline, f"never enough: {telemetry}, {len(seen)} batches"
        time.sleep(0.1)


def test_each_batch_arrives_once_in_order_and_whole(spark: SparkSession) -> None:
    """Batches of one query come without gap or repeat, each where the one before ended, another query's do not."""
    query, other = rate_query(spark), rate_query(spark.newSession())
    try:
        with QueryProbe(query, "counter") as probe, QueryProbe(other, "other") as other_probe:
            seen = collect_until(probe, lambda batches, _: len(batches) >= 6)
            other_seen = collect_until(other_probe, lambda batches, _: len(batches) >= 2)
    finally:
        query.stop()
        other.stop()
    ids = [b.batch_id for b in seen.batches]
    assert ids == list(range(ids[0], ids[0] + len(ids)))
    assert {b.query_id for b in seen.batches} == {str(query.id)}
    assert {b.query_id for b in other_seen.batches} == {str(other.id)}
    sources = [b.sources[0] for b in seen.batches]
    assert [s.start_offset for s in sources[1:]] == [s.end_offset for s in sources[:-1]]
    assert all(b.ended_at > b.started_at for b in seen.batches)
    assert all(b.started_at >= a.started_at for a, b in zip(seen.batches, seen.batches[1:], strict=False))
    assert seen.batches[-1].state_rows == 5
    assert seen.is_running
    assert seen.faults == ()
    assert seen.executors is not None
    assert [e.executor_id for e in seen.executors] == ["driver"]  # it runs the tasks of a local master itself


def test_a_no_data_batch_is_seen_and_idling_is_not(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's batch without rows, which moves the watermark, is a batch; its idle triggers afterwards are not."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"t":"2026-01-01T00:00:00"}\n{"t":"2026-01-01T00:01:00"}\n')
    rows = spark.readStream.schema("t TIMESTAMP").json(str(folder)).withWatermark("t", "1 second")
    spark.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200ms")
    query = (
        rows.groupBy(window("t", "10 seconds"))
        .count()
        .writeStream.outputMode("append")
        .format("noop")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        with QueryProbe(query, "windows") as probe:
            first = collect_until(probe, lambda batches, _: len(batches) >= 2)
            idle = len(query.recentProgress)
            seen = collect_until(probe, lambda _, __: len(query.recentProgress) > idle + 1)
        assert any(p["numInputRows"] == 0 and "addBatch" not in p["durationMs"] for p in query.recentProgress)
        assert [p["batchId"] for p in query.recentProgress if "addBatch" in p["durationMs"]] == [0, 1]
        assert [(b.batch_id, b.rows) for b in first.batches] == [(0, 2), (1, 0)]
        assert seen.batches == ()
    finally:
        query.stop()
        spark.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_a_failed_query_is_told_with_its_cause(spark: SparkSession) -> None:
    """When the query fails the probe says that it no longer runs, and why."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    query = rows.select(raise_error(lit("spilled water"))).writeStream.format("noop").start()
    with QueryProbe(query, "broken") as probe:
        seen = collect_until(probe, lambda _, look: not look.is_running and look.faults != ())
    assert "the query failed" in seen.faults[0]


def test_a_closed_probe_hears_nothing_and_the_query_goes_on(spark: SparkSession) -> None:
    """After closing no report arrives any more, while the query runs on."""
    query = rate_query(spark)
    try:
        probe = QueryProbe(query, "counter")
        collect_until(probe, lambda batches, _: len(batches) >= 1)
        probe.close()
        probe.close()
        probe.collect()
        last = query.lastProgress
        assert last is not None
        later = rate_progress_after(query, last["batchId"] + 2)
        assert later > last["batchId"]
        assert probe.collect().batches == ()
        assert query.isActive
    finally:
        query.stop()


def rate_progress_after(query: StreamingQuery, batch_id: int) -> int:
    """Wait until the query has done a batch, and give its id."""
    deadline = time.monotonic() + 120
    while True:
        last = query.lastProgress
        if last is not None and last["batchId"] >= batch_id:
            return int(last["batchId"])
        assert time.monotonic() < deadline, "the query stands still"
        time.sleep(0.1)


def test_a_local_master_refuses_to_be_scaled(spark: SparkSession) -> None:
    """On a local master scaling is refused with a text that says why and what to do."""
    scaler = ExecutorScaler(cluster_of(RunningApplication(spark.sparkContext)))
    with pytest.raises(ActuationRejectedError, match="executors cannot be scaled on a local master"):
        scaler.reconcile(2)
