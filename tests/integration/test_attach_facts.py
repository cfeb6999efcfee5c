# SPDX-License-Identifier: Apache-2.0
"""What attaching finds out by itself on a real Spark: trigger, cap, sources, arrivals; and what the store keeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.spark.query_facts import QuerySource, read_query_facts
from penstock.adaptors.spark.replay import register
from penstock.cli import main

pytestmark = [pytest.mark.spark, pytest.mark.core]

SECONDS = 120.0  # ends a failing test only


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A local session with the replay source."""
    with spark_driver.local() as session:
        register(session)
        yield session


def test_an_attached_query_is_known(spark: SparkSession, tmp_path: Path) -> None:
    """Its arrivals are exact, an objective that its trigger rules out is noted, and the store shows what was wanted."""
    rows = spark.readStream.format("penstock_replay").options(shape="constant:rate=50,duration=1h").load()
    query = rows.writeStream.format("noop").queryName("counts").trigger(processingTime="2 seconds").start()
    store = tmp_path / "scaler.sqlite"
    try:
        with ps.attach(
            query, objective=ps.latency(p95="1500ms"), warm_up_seconds=0.0, window_seconds=3.0, store=store
        ) as scaler:
            (note,) = scaler.notes
            assert note.startswith("p95 <= 1.50 s cannot be met with a trigger of 2.00 s")
            deadline = time.monotonic() + SECONDS
            while scaler.latency is None or scaler.latency.records < 200 or not scaler.decisions:
                assert time.monotonic() < deadline, scaler.observation
                time.sleep(0.2)
        assert query.isActive
    finally:
        query.stop()
    assert scaler.faults == 0
    assert scaler.latency.is_exact
    assert scaler.observation is not None
    assert scaler.observation.backlog_records is not None
    shown = CliRunner().invoke(main, ["explain", str(store), "--all"])
    assert shown.exit_code == 0, shown.output
    assert "counts, objective p95 <= 1.50 s" in shown.output


def test_sources_of_both_apis_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """Files come by Spark's first API, rate and Python sources by the second; a joined table is no source."""
    capped = {"shape": "constant:rate=50,duration=1h", "maxRowsPerBatch": "40"}
    replay = spark.readStream.format("penstock_replay").options(**capped).load()
    files = spark.readStream.format("text").option("maxFilesPerTrigger", 3).load(str(tmp_path))
    names = spark.range(10).selectExpr("id AS index", "'a' AS name")
    query = replay.join(names, "index").writeStream.format("noop").start()
    try:
        facts = read_query_facts(query)
    finally:
        query.stop()
    expected = QuerySource("penstock_replay", {name.lower(): value for name, value in capped.items()})
    assert (facts.sources, facts.cap, facts.trigger_seconds, facts.notes) == ((expected,), 40, None, ())
    query = files.union(replay.select("value")).writeStream.format("noop").trigger(availableNow=True).start()
    try:
        facts = read_query_facts(query)
    finally:
        query.stop()
    assert facts.sources is not None
    assert [source.name for source in facts.sources] == ["text", "penstock_replay"]
    assert facts.sources[0].options["maxfilespertrigger"] == "3"
    assert facts.cap is None
