# SPDX-License-Identifier: Apache-2.0
"""An operator for tests: it keeps the number of every record that comes, each batch in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def keep_numbers(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Write the column `index` of each batch to a file under the batch's number; a batch run again replaces it."""
    folder = Path(options["output"])

    def keep(batch: DataFrame, number: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        found = batch.select("index").toPandas()["index"].to_numpy()
        draft = folder / f"{number}.draft"
        draft.write_bytes(found.astype("<i8").tobytes())
        draft.replace(folder / f"{number}.numbers")

    return stream.writeStream.foreachBatch(keep)


def number_by_key(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """Number records as their producer did, not by their place in the topic: one that was sent twice comes twice."""
    return stream.selectExpr("cast(key as bigint) as index")
