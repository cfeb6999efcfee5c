# SPDX-License-Identifier: Apache-2.0
"""A stateful job of your own, kept inside a latency bound: the same job ends at another size under another bound.

Every event is looked up in a slow service (5 ms each, here a pause), and lookups are counted per key and window. One
executor keeps up with the load, but batches grow long; two are faster. Run it on a cluster with executors of one core:

    spark-submit --master spark://host:7077 --conf spark.executor.cores=1 --conf spark.cores.max=2 \
      --conf spark.decommission.enabled=true examples/stateful_lookups.py --p95 60s
"""

import argparse
import time
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, window

import penstock as ps

LOOKUP_SECONDS = 0.005


def looked_up(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Ask the slow service about every event."""
    for events in parts:
        time.sleep(LOOKUP_SECONDS * len(events))
        yield events.assign(key=events["value"] % 20)


def main() -> None:
    """Count lookups for a while, and say at which size the job ended."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--p95", default="60s", help="bound on the 95th percentile of record latency")
    arguments.add_argument("--seconds", type=float, default=150.0)
    chosen = arguments.parse_args()

    spark = SparkSession.builder.appName("lookups").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    events = spark.readStream.format("rate").options(rowsPerSecond=100, numPartitions=2).load()
    found = events.mapInPandas(looked_up, "timestamp timestamp, value long, key long")
    per_window = (
        found.withWatermark("timestamp", "10 seconds")
        .groupBy(window("timestamp", "10 seconds"), col("key"))
        .agg(count("*").alias("lookups"))
    )
    query = per_window.writeStream.outputMode("append").format("noop").queryName("lookups").start()

    with ps.attach(query, objective=ps.latency(p95=chosen.p95), executors=(1, 2), mode="act") as scaler:
        query.awaitTermination(int(chosen.seconds))
        last = scaler.decisions[-1]

    print(last.explain())
    print(f"ended with {last.target.executors} executor(s) for p95 <= {chosen.p95}")
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
