# SPDX-License-Identifier: Apache-2.0
"""Operators of every kind that a pipeline may have behind a topic, each with a watermark of its own where it needs one.

Their input has the columns `id`, `at` (event time), `kind` and `value`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

WINDOW_SECONDS = 10
_DELAY = "10 minutes"
"""Longer than all records but the closing one: none is late, so that expected results are plain sums."""


def plain(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """Row by row."""
    return stream.selectExpr("id", "value * 2 as twice")


def windowed(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """Counts and sums of closed windows, in append mode."""
    return _windows(stream)


def windowed_update(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """The same in update mode: each batch writes the windows that it changed."""
    folder = Path(options["output"])

    def write(batch: DataFrame, number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rows = [row.asDict() for row in batch.selectExpr("string(window_start)", "kind", "records", "total").collect()]
        (folder / f"{number:06}.json").write_text(json.dumps(rows), encoding="utf-8")

    return _windows(stream).writeStream.outputMode("update").foreachBatch(write)


def joined(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """The stream joined with itself: a record of kind `a` with the next, of kind `b`."""
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    marked = stream.withWatermark("at", _DELAY)
    left = marked.where("kind = 'a'").select(F.col("id").alias("left_id"), F.col("at").alias("left_at"))
    right = marked.where("kind = 'b'").select(F.col("id").alias("right_id"), F.col("at").alias("right_at"))
    near = F.expr("right_id = left_id + 1 and right_at between left_at and left_at + interval 5 seconds")
    return left.join(right, near).select("left_id", "right_id")


def deduplicated(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """One record of each value."""
    return stream.withWatermark("at", _DELAY).dropDuplicatesWithinWatermark(["value"]).select("value")


def _windows(stream: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    windows = stream.withWatermark("at", _DELAY).groupBy(F.window("at", f"{WINDOW_SECONDS} seconds"), "kind")
    counted = windows.agg(F.count("*").alias("records"), F.sum("value").alias("total"))
    return counted.select(F.col("window.start").alias("window_start"), "kind", "records", "total")
