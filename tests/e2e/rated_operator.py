# SPDX-License-Identifier: Apache-2.0
"""An operator for tests each of whose cores does so many records a second, and nothing else with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def pass_on(stream: DataFrame, options: Mapping[str, str]) -> DataFrame:
    """Take the time of each record, and hand it on."""
    pause = float(options["milliseconds"]) / 1000.0

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        for batch in batches:
            time.sleep(pause * batch.num_rows)
            yield batch

    return stream.select("index").mapInArrow(wait, "index long")


def keep_nothing(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Take the time of each record, and drop it."""
    return pass_on(stream, options).writeStream.format("noop")
