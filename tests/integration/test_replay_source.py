# SPDX-License-Identifier: Apache-2.0
"""The replay source on a real Spark: every record once, at its time, also across a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.integration.spark_driver import SparkDriver
from tests.integration.spark_version import is_older_than

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.records import SourceProgress

IS_TOO_OLD = is_older_than(4, 2)
if not IS_TOO_OLD:  # the import would be refused
    from penstock.adaptors.spark.replay import register, replay_arrivals

pytestmark = [
    pytest.mark.spark,
    pytest.mark.core,
    pytest.mark.skipif(IS_TOO_OLD, reason="Python sources with bounded batches came with Spark 4.2"),
]

OFFSETS = ("startOffset", "endOffset", "latestOffset")


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A session with the source registered."""
    with spark_driver.local({"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}) as session:
        register(session)
        yield session


def _stream(spark: SparkSession, options: dict[str, Any]) -> DataFrame:
    return spark.readStream.format("penstock_replay").options(**options).load()


def _start(frame: DataFrame, folder: Path, trigger: str = "0 seconds") -> StreamingQuery:
    return (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=trigger)
        .start(str(folder / "rows"))
    )


def _wait(query: StreamingQuery, enough: Callable[[list[Any]], bool]) -> list[Any]:
    """The progress of the query's batches with data, as soon as there is enough of it."""
    deadline = time.monotonic() + 120
    while True:
        batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
        if enough(batches):
            return batches
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline, f"not enough after 120 s: {batches}"
        time.sleep(0.1)


def _index(offset: Any) -> int:
    fields = json.loads(offset) if isinstance(offset, str) else offset
    return int(fields["index"])


def _epoch(offset: Any) -> int:
    fields = json.loads(offset) if isinstance(offset, str) else offset
    return int(fields["epoch_us"])


def _rows(spark: SparkSession, folder: Path) -> tuple[list[int], list[int], list[str | None]]:
    """Number, arrival in microseconds and text of all rows written, by number."""
    rows = spark.read.parquet(str(folder / "rows")).selectExpr("index", "unix_micros(arrival) AS us", "value")
    collected = sorted(rows.collect(), key=lambda row: int(row["index"]))
    return (
        [row["index"] for row in collected],
        [row["us"] for row in collected],
        [row["value"] for row in collected],
    )


@pytest.mark.versions
def test_every_record_once_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """A query stopped in the middle and started again from its checkpoint reads each record once, at its time."""
    options = {
        "shape": "sampled:constant:rate=200,duration=3s", "payload": "log", "seed": 7, "maxRowsPerBatch": 60,
    }  # fmt: skip
    replay = replay_arrivals(options)
    total = replay.arrivals.total

    # At most 60 records a second: the stop comes in the middle however slow the machine is.
    query = _start(_stream(spark, options), tmp_path, trigger="1 second")
    before = _wait(query, bool)
    query.stop()
    assert 0 < _index(before[-1]["sources"][0]["endOffset"]) < total
    query = _start(_stream(spark, options), tmp_path)
    try:
        after = _wait(query, lambda batches: bool(batches) and _index(batches[-1]["sources"][0]["endOffset"]) == total)
    finally:
        query.stop()

    epochs = {_epoch(p["sources"][0]["endOffset"]) for p in [*before, *after]}
    assert len(epochs) == 1, "the restart kept time zero"
    (epoch_us,) = epochs
    index, us, values = _rows(spark, tmp_path)
    assert index == list(range(total))
    due = epoch_us + np.rint(replay.arrivals.times(0, total) * 1e6)
    assert np.abs(np.array(us) - due).max() <= 1
    assert all(value for value in values)

    # The offsets of each progress, the first without a start among them, give a watcher the same arrival times.
    for progress in [*before, *after]:
        source = progress["sources"][0]
        first, last, latest = (
            v if v is None or isinstance(v, str) else json.dumps(v) for v in map(source.get, OFFSETS)
        )
        seen = SourceProgress("", first, last, latest, source["numInputRows"])
        watched, done = replay.of(seen), replay.done_index(seen)
        assert watched is not None
        assert len(watched) == seen.rows
        assert done is not None
        assert abs(watched[-1] * 1e6 - us[done - 1]) <= 1
    assert replay.arrived_by(epoch_us / 1e6 + 10) == total


def test_batches_are_limited_and_the_queue_shows(spark: SparkSession, tmp_path: Path) -> None:
    """With a backlog, batches take maxRowsPerBatch and the progress shows what is due and unread."""
    options = {
        "shape": "constant:rate=1000,duration=3s", "startAt": 1000, "maxRowsPerBatch": 700, "partitions": 3,
    }  # fmt: skip
    query = _start(_stream(spark, options), tmp_path)
    try:
        batches = _wait(query, lambda batches: sum(p["numInputRows"] for p in batches) == 3000)
    finally:
        query.stop()
    assert [p["numInputRows"] for p in batches] == [700, 700, 700, 700, 200]
    queue = [_index(p["sources"][0]["latestOffset"]) - _index(p["sources"][0]["endOffset"]) for p in batches]
    assert queue == [2300, 1600, 900, 200, 0]
    index, us, values = _rows(spark, tmp_path)
    assert index == list(range(3000))
    assert us == [1_000_000_000 + 1000 * (i + 1) for i in range(3000)]
    assert set(values) == {None}


def test_a_trace_file_and_a_payload_file(spark: SparkSession, tmp_path: Path) -> None:
    """A trace file in microseconds replays faster than recorded, with the lines of another file."""
    (tmp_path / "trace.txt").write_text("# us\n" + "".join(f"{i * 1500}\n" for i in range(500)))
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    options: dict[str, Any] = {
        "unit": "us", "speed": 3, "startAt": 2000, "payload": f"file:{tmp_path / 'lines.txt'}",
        "cacheDir": str(tmp_path / "cache"),
    }  # fmt: skip
    frame = spark.readStream.format("penstock_replay").options(**options).load(str(tmp_path / "trace.txt"))
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(120)
    index, us, values = _rows(spark, tmp_path)
    assert index == list(range(500))
    assert us == [2_000_000_000 + 500 * i for i in range(500)]
    assert values[:4] == ["one", "two", "three", "one"]


def test_bad_options_surface_before_the_query_starts(spark: SparkSession) -> None:
    """A wrong option fails at load with its name and the known ones; no query is started."""
    with pytest.raises(PySparkException, match=r"unknown option 'rat'.*known options"):
        _stream(spark, {"shape": "constant:rate=5,duration=9s", "rat": 5})
    assert spark.streams.active == []
