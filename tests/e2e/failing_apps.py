# SPDX-License-Identifier: Apache-2.0
"""Operators for tests that fail, always in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fails_at_a_record(stream: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Raises at the record whose number is given."""
    number = int(options["number"])

    def look(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if number in batch.column("index").to_pylist():
                raise ValueError(f"record {number} has no price")
            yield batch

    return stream.select("index").mapInArrow(look, "index long")


def two_watermarks(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """Spark refuses it, but only when it plans a batch that has a watermark to pass on."""
    once = stream.withWatermark("arrival", "1 minute").dropDuplicatesWithinWatermark(["index"])
    return once.withColumn("again", once["arrival"]).withWatermark("again", "2 minutes").select("index")
