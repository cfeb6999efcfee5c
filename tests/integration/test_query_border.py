# SPDX-License-Identifier: Apache-2.0
"""Real queries are ended between two batches, and go on from there with other settings, without a batch run twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.spark.border_stop import BorderStop, stop_at_border

pytestmark = pytest.mark.spark

ROWS = 100


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A local session."""
    with spark_driver.local() as session:
        yield session


def start(
    spark: SparkSession,
    folder: Path,
    *,
    seconds: float = 0.3,
    in_task: bool = False,
    trigger: str = "0 seconds",
    keeps_state: bool = True,
) -> StreamingQuery:
    """A query whose every batch takes so long, in the driver or in a task, and is written down each time it is run."""

    def write(batch: DataFrame, number: int) -> None:
        counts = {str(row[0]): row[1] for row in batch.collect()} if keeps_state else {"rows": batch.count()}
        with (folder / "runs").open("a") as runs:
            runs.write(f"{number}\n")
        (folder / f"{number}.json").write_text(json.dumps(counts))
        if in_task:
            batch.sparkSession.range(0, 1, 1, 1).foreach(lambda _: time.sleep(seconds))
        else:
            time.sleep(seconds)

    folder.mkdir(exist_ok=True)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    key = (col("value") % 5).alias("key")
    result = rows.groupBy(key).count() if keeps_state else rows.repartition(key)
    writer = result.writeStream.outputMode("complete" if keeps_state else "append").foreachBatch(write)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    return writer.trigger(processingTime=trigger).start()


def await_true(is_true: Callable[[], bool]) -> None:
    """Poll."""
    deadline = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def runs(folder: Path) -> list[int]:
    """Numbers of the batches in the order in which they were run."""
    path = folder / "runs"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def newest(folder: Path, log: str) -> int:
    """The newest batch in `offsets` (planned) or `commits` (done)."""
    return max((int(p.name) for p in (folder / "checkpoint" / log).glob("[0-9]*")), default=-1)


def test_no_batch_is_run_twice_over_several_borders(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped at four moments of a batch and started again, all batches come once and every record is counted once."""
    for stop in range(4):
        query = start(spark, tmp_path)
        done = len(runs(tmp_path))
        await_true(lambda d=done: len(runs(tmp_path)) >= d + 2)  # type: ignore[misc]
        time.sleep(0.1 * stop)
        assert stop_at_border(query, 60.0) is BorderStop.AT_BORDER
        assert query.exception() is None
        # Whatever was begun is done. A batch that was planned in the very moment may be left for the next start.
        assert newest(tmp_path, "commits") == runs(tmp_path)[-1]
        assert newest(tmp_path, "offsets") - newest(tmp_path, "commits") in {0, 1}
    numbers = runs(tmp_path)
    assert numbers == list(range(len(numbers)))
    counts = json.loads((tmp_path / f"{numbers[-1]}.json").read_text())
    assert sum(counts.values()) == ROWS * len(numbers)


def test_a_batch_that_takes_longer_than_allowed_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    """It is stopped in the middle; run again, its records are counted once in the state all the same."""
    # In a task, which Spark ends at once. Python in the driver it cannot interrupt, and may then commit the batch.
    query = start(spark, tmp_path, seconds=600.0, in_task=True)
    await_true(lambda: runs(tmp_path) == [0])
    assert stop_at_border(query, 0.2) is BorderStop.IN_BATCH
    assert (newest(tmp_path, "offsets"), newest(tmp_path, "commits")) == (0, -1)
    query = start(spark, tmp_path, seconds=0.0)
    await_true(lambda: len(runs(tmp_path)) >= 3)
    assert stop_at_border(query, 60.0) is BorderStop.AT_BORDER
    numbers = runs(tmp_path)
    assert numbers[:3] == [0, 0, 1]
    counts = json.loads((tmp_path / f"{numbers[-1]}.json").read_text())
    assert sum(counts.values()) == ROWS * (numbers[-1] + 1)


def test_what_is_said_of_a_batch_stopped_in_the_driver_is_what_the_checkpoint_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark waits for Python in the driver, and then commits the batch or not: either way the answer is true."""
    query = start(spark, tmp_path, seconds=2.0)
    await_true(lambda: len(runs(tmp_path)) >= 2)
    is_at_border = stop_at_border(query, 0.0) is BorderStop.AT_BORDER
    assert is_at_border == (newest(tmp_path, "offsets") == newest(tmp_path, "commits"))


def test_a_query_that_waits_for_its_trigger_is_stopped_at_once(spark: SparkSession, tmp_path: Path) -> None:
    """An hour to the next batch is not waited for."""
    query = start(spark, tmp_path, seconds=0.0, trigger="1 hour")
    await_true(lambda: newest(tmp_path, "commits") == 0 and not query.status["isTriggerActive"])
    began = time.monotonic()
    assert stop_at_border(query, 600.0) is BorderStop.AT_BORDER
    assert time.monotonic() - began < 300.0
    assert runs(tmp_path) == [0]


@pytest.mark.parametrize("keeps_state", [True, False], ids=["state", "no state"])
def test_other_shuffle_partitions_take_effect_without_state_alone(
    spark: SparkSession, tmp_path: Path, keeps_state: bool
) -> None:
    """From its checkpoint a query with state goes on with the partitions it began with; another takes the new ones."""
    found = []
    for partitions in ("2", "5"):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        query = start(spark, tmp_path, seconds=0.0, keeps_state=keeps_state)
        done = len(runs(tmp_path))
        await_true(lambda d=done: len(runs(tmp_path)) >= d + 2)  # type: ignore[misc]
        plan = query._jsq.explainInternal(False)
        assert stop_at_border(query, 60.0) is BorderStop.AT_BORDER
        found.append({n for n in ("2", "5") if f", {n})" in plan})
    assert found == ([{"2"}, {"2"}] if keeps_state else [{"2"}, {"5"}])
