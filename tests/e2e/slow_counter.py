# SPDX-License-Identifier: Apache-2.0
"""An operator for tests that takes a set time for each record, so that its cores alone say how many it can do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def slow_count(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Count records in state, ten counters; each batch writes all of them to a file of its own.

    A batch that is run twice leaves a second file, so that it is seen.
    """
    from pyspark.sql.functions import col

    folder, pause = Path(options["output"]), float(options["milliseconds"]) / 1000.0

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            time.sleep(pause * batch.num_rows)
            yield batch

    def write(batch: DataFrame, number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        counts = {str(row["key"]): row["count"] for row in batch.collect()}
        path = folder / f"{number}.json"
        if path.exists():
            path = folder / f"{number}.again"
        path.write_text(json.dumps(counts), encoding="utf-8")

    slowed = stream.select("index").mapInArrow(wait, "index long")
    counted = slowed.groupBy((col("index") % 10).alias("key")).count()
    return counted.writeStream.outputMode("complete").foreachBatch(write)
