# SPDX-License-Identifier: Apache-2.0
"""Two operators of your own, joined by a topic: the first takes lines apart, the second counts them in windows.

`windowed-counts.yaml` beside this file runs them: penstock run examples/windowed-counts.yaml
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def enrich(stream: DataFrame, _options: Mapping[str, str]) -> DataFrame:
    """Give each line its level. What it returns goes to the topic `windowed-counts.enrich`, with its types."""
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    level = F.regexp_extract("value", r"\b(TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b", 1)
    return stream.select("index", "arrival", F.when(level == "", "none").otherwise(level).alias("level"))


def count_levels(stream: DataFrame, options: Mapping[str, str]) -> DataStreamWriter:
    """Count the levels of every window, by the time at which lines arrived.

    A window is written once, when the watermark has passed its end. A line that comes more than `late` after the newest
    is not counted if its window was written. What is returned decides where counts go: to files of the run folder.
    """
    from pyspark.sql import functions as F  # noqa: N812

    counts = (
        stream.withWatermark("arrival", options.get("late", "5 seconds"))
        .groupBy(F.window("arrival", options.get("window", "5 seconds")), "level")
        .count()
        .select(F.col("window.start").alias("start"), F.col("window.end").alias("end"), "level", "count")
    )
    return counts.writeStream.outputMode("append").format("parquet").option("path", options["output"])
