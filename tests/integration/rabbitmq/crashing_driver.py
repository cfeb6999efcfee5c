# SPDX-License-Identifier: Apache-2.0
"""A driver for the crash test: copies a RabbitMQ queue into a folder, one subfolder per batch.

Run as a program it hangs in the batch after the first, with the batch's rows written and the batch not committed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.adaptors.rabbitmq.source import RabbitMQSource


def start_copying(spark: SparkSession, url: str, queue: str, folder: Path, *, hangs_in: int | None) -> StreamingQuery:
    """Start the query; it hangs in the batch with this number."""

    def keep(rows: DataFrame, batch: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "rows" / f"{batch}"))
        if batch == hangs_in:
            (folder / "hanging").touch()
            time.sleep(600)

    return (
        spark.readStream.format("penstock_rabbitmq")
        .option("url", url)
        .option("queue", queue)
        .option("spoolDir", str(folder / "checkpoint" / "spool"))
        .option("maxRowsPerBatch", "700")
        .load()
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def main(url: str, queue: str, folder: str) -> None:
    """Copy until killed."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "600m")
        .getOrCreate()
    )
    spark.dataSource.register(RabbitMQSource)
    start_copying(spark, url, queue, Path(folder), hangs_in=1).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
