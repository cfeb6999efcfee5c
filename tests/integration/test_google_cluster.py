# SPDX-License-Identifier: Apache-2.0
"""The Google cluster query on a real Spark: equal to pandas to the last digit, as one query and as two."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.spark.replay import register
from penstock.apps.google_cluster import cluster, google_cluster, machines, read_results
from penstock.apps.google_cluster.check import differences, expected_results
from penstock.apps.google_cluster.generated_trace import write_generated
from penstock.apps.google_cluster.operators import STATES_SCHEMA
from penstock.apps.google_cluster.playback import replayed
from penstock.apps.google_cluster.tables import SHEDDING_METRICS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

TRACE = "google-2011/task_events_part-00000-of-00500.csv.gz"


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A session with two tasks to a stage."""
    with spark_driver.local({"spark.sql.shuffle.partitions": "2"}) as session:
        register(session)
        yield session


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated trace of about 5,000 rows and 50 minutes."""
    return write_generated(tmp_path_factory.mktemp("trace") / "trace.csv.gz", 50, 2000, 3000, seed=1)


def played(spark: SparkSession, trace: Path, rows_per_batch: int) -> DataFrame:
    """The trace as fast as it is taken."""
    arrivals = replayed(trace, "fast", rows_per_batch=rows_per_batch)
    reader = spark.readStream.format("penstock_replay").options(trace=arrivals["trace"], **arrivals["options"])
    return reader.option("startAt", str(time.time() - 3600)).load()


def run_to_end(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Run a query over all there is and end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(300), "the query did not end in time"
    finally:
        query.stop()
    return query


def shedding_of(query: StreamingQuery) -> Counter[str]:
    """What was kept, shed and malformed, over all batches."""
    found: Counter[str] = Counter()
    for report in query.recentProgress:
        found.update(json.loads(report.json)["observedMetrics"].get(SHEDDING_METRICS, {}))
    return found


@pytest.mark.core
def test_one_query_gives_what_pandas_gives(spark: SparkSession, trace: Path, tmp_path: Path) -> None:
    """All statistics of all results are equal, over batches that end anywhere; what is shed is counted."""
    query = run_to_end(
        google_cluster(played(spark, trace, 3000), {"output": str(tmp_path / "out"), "groups": "8"}), tmp_path / "cp"
    )
    expected = expected_results(trace)
    assert len(expected) == 4
    assert not differences(read_results(tmp_path / "out"), expected)
    counts = shedding_of(query)
    assert counts["malformed"] == 0
    assert counts["shed"] > counts.total() / 5, "a good part of the trace changes no machine's state"


def test_two_operators_and_no_shedding_give_the_same(spark: SparkSession, trace: Path, tmp_path: Path) -> None:
    """Joined by a folder, and with every event sent on, the results are the same, also over a restart."""
    states = tmp_path / "states"
    options = {"shedding": "off", "groups": "8"}
    writer = machines(played(spark, trace, 3000), options).writeStream.format("parquet").option("path", str(states))
    query = run_to_end(writer, tmp_path / "cp-machines")
    assert shedding_of(query)["shed"] > 0, "what would have been shed is counted as well"
    stream = spark.readStream.schema(STATES_SCHEMA).option("maxFilesPerTrigger", 2).parquet(str(states))
    out, checkpoint = tmp_path / "out", tmp_path / "cp-cluster"
    run_to_end(cluster(stream, {"output": str(out)}), checkpoint)
    assert not differences(read_results(out), expected_results(trace))

    # As after a crash between a batch's result and its commit: the last batch runs again.
    last = max(int(entry.name) for entry in (checkpoint / "commits").glob("[0-9]*"))
    (checkpoint / "commits" / str(last)).unlink()
    (checkpoint / "commits" / f".{last}.crc").unlink(missing_ok=True)
    run_to_end(cluster(stream, {"output": str(out)}), checkpoint)
    assert not differences(read_results(out), expected_results(trace))


def test_malformed_rows_are_counted_and_dropped(spark: SparkSession) -> None:
    """A row with too few fields, an unknown event, or a request that is no number is not taken for an event."""
    from penstock.apps.google_cluster.tables import task_events

    good = "600000000,,1,0,5,1,u,2,9,0.5,1.526e-05,,0"
    wrong = [
        "600000000,,1,0,5", good.replace(",1,u,", ",9,u,"), good.replace("0.5", "half"), good.replace("0.5", "-1"), "",
        good.replace("600000000", "soon"),
    ]  # fmt: skip
    frame = spark.createDataFrame(list(enumerate([good + "\r", *wrong])), "index BIGINT, value STRING")
    (row,) = task_events(frame, is_shedding=True).collect()
    assert row.asDict() == {
        "row": 0, "time": 600_000_000, "machine": 5, "job": 1, "task": 0, "event": 1,
        "cpu": 500_000_000_000, "memory": 15_260_000, "disk": 0,
    }  # fmt: skip


@pytest.mark.data
def test_the_public_trace_gives_what_pandas_gives(spark: SparkSession, tmp_path: Path) -> None:
    """The first part of the public trace, 450,146 events of 12,492 machines: six results, equal to the last digit."""
    data = Path(os.environ.get("PENSTOCK_DATA", Path(__file__).parents[3] / "shared" / "data"))
    if not (data / TRACE).is_file():
        pytest.skip(f"no public trace: {data / TRACE} is not there (set PENSTOCK_DATA to the folder of the traces)")
    query = run_to_end(
        google_cluster(played(spark, data / TRACE, 150_000), {"output": str(tmp_path / "out")}), tmp_path / "cp"
    )
    expected = expected_results(data / TRACE)
    assert len(expected) == 6
    assert not differences(read_results(tmp_path / "out"), expected)
    assert shedding_of(query) == {"kept": 243_702, "shed": 206_444, "malformed": 0}
