# SPDX-License-Identifier: Apache-2.0
"""Rows per second of the replay source on one core: the reader alone, and through Spark into the noop sink."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.adaptors.spark.replay import (
    ReplayOptions,
    ReplayPartition,
    ReplayStreamReader,
    open_arrivals,
    register,
)

BAR_ROWS_PER_SECOND = 200_000
ROWS_PER_BATCH = 500_000
WARM_UP_BATCHES = 2
# Each shape with its mean rate, so that a duration gives the wanted number of rows.
SHAPES = {
    "periodic": ("periodic:base=50000,peak=500000,period=6s,width=2s", 125_000),
    "sampled": ("sampled:constant:rate=200000", 200_000),
}
CASES = [("periodic", "none"), ("periodic", "log"), ("sampled", "log")]


@dataclass(frozen=True)
class Result:
    """One measured case."""

    path: str
    shape: str
    payload: str
    rows_per_second: float


def shape_of(name: str, rows: int) -> str:
    """The shape, as long as it takes to give about so many rows."""
    text, rate = SHAPES[name]
    return f"{text},duration={rows / rate}s"


def measure_read(shape: str, payload: str, rows: int) -> float:
    """Rows per second of `read` in this process, its batches thrown away."""
    options = ReplayOptions.parse({"shape": shape_of(shape, rows), "payload": payload, "startAt": 1})
    reader, total = ReplayStreamReader(options), open_arrivals(options).total
    for _ in reader.read(ReplayPartition(0, 0, 50_000)):
        pass  # pools and tables are made once per worker, not per batch
    begun = time.perf_counter()
    count: int = sum(batch.num_rows for batch in reader.read(ReplayPartition(0, 0, total)))
    return count / (time.perf_counter() - begun)


def measure_spark(spark: Any, shape: str, payload: str, rows: int) -> float:
    """Rows per second of the batches after the first ones, from a backlog that was due long ago."""
    backlog = rows + WARM_UP_BATCHES * ROWS_PER_BATCH
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        query = (
            spark.readStream.format("penstock_replay")
            .option("shape", shape_of(shape, backlog))
            .option("payload", payload)
            .option("partitions", 1)
            .option("startAt", 1)
            .option("maxRowsPerBatch", ROWS_PER_BATCH)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            if not query.awaitTermination(300):
                raise RuntimeError(f"the query did not read {backlog} rows in 300 s")
        finally:
            query.stop()
        counted = [p for p in query.recentProgress if p["batchId"] >= WARM_UP_BATCHES and p["numInputRows"]]
    return float(sum(p["numInputRows"] for p in counted) / (sum(p["batchDuration"] for p in counted) / 1e3))


def main() -> int:
    """Measure all cases and print them."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments.add_argument("--rows", type=int, default=3_000_000, help="rows counted in each case")
    arguments.add_argument("--skip-spark", action="store_true", help="the reader alone")
    options = arguments.parse_args()

    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})  # before Spark starts: the JVM and its workers inherit it
    results = [Result("read", *case, measure_read(*case, options.rows)) for case in CASES]
    if not options.skip_spark:
        from pyspark.sql import SparkSession

        spark = (
            SparkSession.builder.master("local[1]")
            .appName("benchmark-replay")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "1g")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
        try:
            register(spark)
            results += [Result("spark", *case, measure_spark(spark, *case, options.rows)) for case in CASES]
        finally:
            spark.stop()
    is_met = all(result.rows_per_second >= BAR_ROWS_PER_SECOND for result in results)
    if options.json:
        rows = [asdict(result) for result in results]
        print(json.dumps({"bar_rows_per_second": BAR_ROWS_PER_SECOND, "is_met": is_met, "results": rows}))
    else:
        for r in results:
            print(f"{r.path:<6} {r.shape:<9} {r.payload:<5} {r.rows_per_second:>12,.0f} rows/s")
        print(f"bar: {BAR_ROWS_PER_SECOND:,} rows/s on one core: {'met' if is_met else 'NOT met'}")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
