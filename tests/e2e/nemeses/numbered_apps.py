# SPDX-License-Identifier: Apache-2.0
"""The operators of a nemesis run: one gives each record its number and place, one keeps them, one counts in state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.nemeses.checker import SUFFIX

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def number(stream: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """The number that the producer gave a record, and the record's place in the topic of arrivals.

    Each takes `milliseconds` of CPU, where these are not 0.
    """
    from tests.costly_lines import made_costly

    numbered = stream.selectExpr(
        "cast(key as bigint) as index", "cast(partition as bigint) as partition", "cast(offset as bigint) as place"
    )
    return numbered if float(options["milliseconds"]) == 0.0 else made_costly(numbered, options)[0]


def keep_places(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Write number, partition and offset of each record to a file for the batch; one that is run again replaces it."""
    folder = Path(options["output"])

    def keep(batch: DataFrame, batch_number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        rows = batch.select("index", "partition", "place").toPandas().to_numpy()
        draft = folder / f"{batch_number}.draft"
        draft.write_bytes(rows.astype("<i8").tobytes())
        draft.replace(folder / f"{batch_number}{SUFFIX}")

    return stream.writeStream.foreachBatch(keep)


def count_keys(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Count records by key in the query's state; every batch writes all counts to a file of its own."""
    folder, keys = Path(options["output"]), int(options["keys"])

    def write(batch: DataFrame, batch_number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        counts = {str(row["key"]): row["count"] for row in batch.collect()}
        draft = folder / f"{batch_number}.draft"
        draft.write_text(json.dumps(counts), encoding="utf-8")
        draft.replace(folder / f"{batch_number}.json")

    counted = stream.selectExpr(f"index % {keys} as key").groupBy("key").count()
    return counted.writeStream.outputMode("complete").foreachBatch(write)
