# SPDX-License-Identifier: Apache-2.0
"""The benchmark applications on a real Spark, in one session: each equals a direct computation on the same records."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.spark.replay import register
from penstock.apps import (
    data_clean,
    grep,
    page_view,
    rolling_count,
    rolling_sort,
    sol,
    taxi_attractions,
    unique_visitor,
    vht,
    word_count,
)
from penstock.apps.counts import read_counts
from penstock.apps.data_clean import check as data_clean_check
from penstock.apps.grep import check as grep_check
from penstock.apps.page_view import check as page_view_check
from penstock.apps.rolling_count import check as rolling_count_check
from penstock.apps.rolling_sort import check as rolling_sort_check
from penstock.apps.rolling_sort.ring_buffer import Sorted
from penstock.apps.sol import check as sol_check
from penstock.apps.taxi_attractions import check as taxi_attractions_check
from penstock.apps.unique_visitor import check as unique_visitor_check
from penstock.apps.vht import check as vht_check
from penstock.apps.vht.learning import Settings
from penstock.apps.word_count import check as word_count_check
from penstock.arrivals.feature_lines import FeatureLines
from penstock.arrivals.generated_lines import GeneratedLines, decode_lines
from penstock.arrivals.taxi_ride_lines import TaxiRideLines
from penstock.arrivals.text_lines import TextLines
from penstock.arrivals.web_log_lines import WebLogLines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark

SEED = 5
RATE = 40
RECORDS = 6000
ROWS_PER_BATCH = 2500
"""Three batches, which end in the middle of periods."""
EPOCH = 1_790_000_000
ARRIVAL_US = EPOCH * 1_000_000 + np.arange(1, RECORDS + 1, dtype=np.int64) * (1_000_000 // RATE)


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A session with two tasks to a stage."""
    with spark_driver.local({"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}) as session:
        register(session)
        yield session


def replayed(spark: SparkSession, payload: str, rows_per_batch: int = ROWS_PER_BATCH) -> DataFrame:
    """The records of a payload, all due, in three batches unless told otherwise."""
    shape = f"constant:rate={RATE},duration={RECORDS // RATE}s"
    reader = spark.readStream.format("penstock_replay").options(shape=shape, payload=payload, seed=SEED)
    return reader.options(startAt=EPOCH, maxRowsPerBatch=rows_per_batch).load()


def lines_of(generator: GeneratedLines) -> list[str]:
    """The same records without Spark."""
    return decode_lines(*generator.encode(0, ARRIVAL_US))


def run_to_end(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run a query over all there is and end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(240), "the query did not end in time"
    finally:
        query.stop()


def counted(writer: DataStreamWriter, folder: Path) -> object:
    """The counts that a query writes into a folder."""
    run_to_end(writer, folder.with_suffix(".checkpoint"))
    counts = read_counts(folder)
    assert counts is not None
    assert counts.batch_id == 2, "the records came in three batches"
    return counts.by_kind


def collected(frame: DataFrame, folder: Path, *columns: str) -> list[tuple[object, ...]]:
    """The rows that a query gives, columns as SQL, in order."""
    run_to_end(frame.writeStream.format("parquet").option("path", str(folder)), folder.with_suffix(".checkpoint"))
    return sorted(tuple(row) for row in frame.sparkSession.read.parquet(str(folder)).selectExpr(*columns).collect())


@pytest.mark.core
def test_word_count_and_page_view_and_unique_visitor_count_exactly(spark: SparkSession, tmp_path: Path) -> None:
    """Words, views of each site and its different visitors are as a direct count has them, over three batches."""
    text, visits = lines_of(TextLines(SEED)), lines_of(WebLogLines(SEED))
    out = {name: tmp_path / name for name in ("words", "views", "visitors")}
    words = word_count.word_count(replayed(spark, "text"), {"output": str(out["words"])})
    assert counted(words, out["words"]) == word_count_check.expected_counts(text)
    views = page_view.page_view(replayed(spark, "web-log"), {"output": str(out["views"])})
    assert counted(views, out["views"]) == page_view_check.expected_counts(visits)
    visitors = unique_visitor.unique_visitor(replayed(spark, "web-log"), {"output": str(out["visitors"])})
    expected = unique_visitor_check.expected_counts(visits)
    assert counted(visitors, out["visitors"]) == expected
    assert sum(expected["site"].values()) < RECORDS, "some visitors come again"


def test_grep_counts_matched_lines(spark: SparkSession, tmp_path: Path) -> None:
    """The lines in which the expression is found, and all lines, are counted."""
    found = counted(grep.grep(replayed(spark, "text"), {"output": str(tmp_path / "out")}), tmp_path / "out")
    expected = grep_check.expected_counts(lines_of(TextLines(SEED)))
    assert found == expected
    assert RECORDS / 10 < expected["matched"][""] < RECORDS


def test_grep_searches_the_start_of_long_lines(spark: SparkSession, tmp_path: Path) -> None:
    """What lies behind the limit is not searched, and such lines are counted."""
    options = {"output": str(tmp_path / "out"), "longest_line": "20"}
    expected = grep_check.expected_counts(lines_of(TextLines(SEED)), longest_line=20)
    assert counted(grep.grep(replayed(spark, "text"), options), tmp_path / "out") == expected
    assert expected["cut"][""] > 0


def test_sol_forwards_every_record_once_to_each_unit(spark: SparkSession, tmp_path: Path) -> None:
    """Every record comes out as it went in, after as many shuffles as there are forwards."""
    frame = sol.sol(replayed(spark, "text"), {"forwards": "3"})
    plan = sol.sol(spark.range(9).selectExpr("id AS index", "now() AS arrival", "'' AS value"), {"forwards": "3"})
    executed = plan._jdf.queryExecution().executedPlan().toString()
    assert executed.count("Exchange hashpartitioning") == 3
    found = collected(frame, tmp_path / "out", "index", "value", "task")
    assert [row[:2] for row in found] == sol_check.expected_rows(lines_of(TextLines(SEED)))
    assert {row[2] for row in found} == {0, 1}, "both tasks of the last unit got records"


def test_data_clean_keeps_what_succeeded(spark: SparkSession, tmp_path: Path) -> None:
    """Exactly the accesses with status 200 come out, with their fields."""
    frame = data_clean.data_clean(replayed(spark, "web-log"), {})
    found = collected(frame, tmp_path / "out", "index", "time", "visitor", "site", "path")
    expected = data_clean_check.expected_rows(lines_of(WebLogLines(SEED)))
    assert found == expected
    assert 0.7 * RECORDS < len(found) < 0.9 * RECORDS


def test_taxi_attractions_finds_the_nearest(spark: SparkSession, tmp_path: Path) -> None:
    """Every ride comes out as it came, three times, with its nearest attraction and the distance to the last digit."""
    frame = taxi_attractions.taxi_attractions(replayed(spark, "taxi-ride"), {})
    found = collected(frame, tmp_path / "out", "index", "value", "attraction", "distance")
    assert found == taxi_attractions_check.expected_rows(lines_of(TaxiRideLines(SEED)))
    assert len(found) == RECORDS
    wrong = spark.createDataFrame(
        [
            (0, "no ride"),
            (1, ",".join(["1"] * 4 + ["0", "0"] + ["1"] * 5)),
            (2, ",".join(["1"] * 4 + ["x", "1"] + ["1"] * 5)),
        ],
        "index LONG, value STRING",
    ).selectExpr("index", "now() AS arrival", "value")
    assert taxi_attractions.taxi_attractions(wrong, {}).collect() == [], "lines without a pickup are dropped"


def test_rolling_count_outputs_each_period_once_it_is_over(spark: SparkSession, tmp_path: Path) -> None:
    """The words of each minute are counted; the last minute, which is not over, does not come out."""
    frame = rolling_count.rolling_count(replayed(spark, "text"), {"every": "60s", "lateness": "0s"})
    found = collected(frame, tmp_path / "out", "unix_micros(start)", "word", "count", "unix_micros(end)")
    records = list(zip(ARRIVAL_US.tolist(), lines_of(TextLines(SEED)), strict=True))
    expected = rolling_count_check.expected_rows(records, 60_000_000)
    assert {(start, word): count for start, word, count, _ in found} == expected
    assert len(found) == len(expected)
    assert len({start for start, *_ in found}) == 2, "150 s from within a minute have two whole or begun and ended"


def test_rolling_sort_sorts_the_newest_records(spark: SparkSession, tmp_path: Path) -> None:
    """Each group's buffer is sorted every 20 s and holds its newest 500 records, wherever batches end."""
    frame = rolling_sort.rolling_sort(replayed(spark, "text"), {"every": "20s", "buffer": "500", "groups": "3"})
    found = collected(frame, tmp_path / "out", "group", *Sorted._fields)
    records = list(zip(ARRIVAL_US.tolist(), lines_of(TextLines(SEED)), strict=True))
    expected = rolling_sort_check.expected_rows(records, 20_000_000, 500, 3)
    assert found == sorted((group, *result) for group, result in expected)
    assert {row[2] for row in found} > {500}, "some buffers are full, the first are not"


@pytest.mark.core
def test_vht_learns_the_same_tree_as_without_spark_over_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Stopped in the middle and started again, it has the tree, accuracy and exact statistics of all instances."""
    out, checkpoint, size = tmp_path / "out", tmp_path / "checkpoint", 1000

    def learn() -> DataStreamWriter:
        return vht.vht(replayed(spark, "features", size), {"output": str(out), "groups": "3"})

    query = learn().option("checkpointLocation", str(checkpoint)).start()
    try:
        deadline = time.monotonic() + 240
        while (model := vht.read_model(out)) is None or model.batch_id < 1:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline, "no second batch ended in time"
            time.sleep(0.05)
    finally:
        query.stop()
    run_to_end(learn(), checkpoint)

    values, labels = FeatureLines(SEED).instances(0, RECORDS)
    classes = labels.astype(np.int64)
    data = [(classes[at : at + size], values[at : at + size]) for at in range(0, RECORDS, size)]
    tree, correct, leaves_of = vht_check.learn_alone(data, Settings())
    model = vht.read_model(out)
    assert model is not None
    assert model.tree.to_json() == tree.to_json()
    assert (model.batch_id, model.seen, model.correct, model.malformed) == (5, RECORDS, correct, 0)
    assert len(tree.leaves) >= 6, "it has learnt something"

    leaves = np.concatenate(leaves_of)
    for group, statistics in vht.read_statistics(out, model.batch_id).items():
        part = Settings(groups=3).slices()[group]
        for leaf, found in statistics.items():
            expected = vht_check.expected_statistics(classes, values[:, part.start : part.stop], leaves, leaf)
            assert vht_check.differences(found, expected) == []
