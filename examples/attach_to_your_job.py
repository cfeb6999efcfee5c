# SPDX-License-Identifier: Apache-2.0
"""A plain PySpark streaming job with Penstock attached: the three lines are marked.

Run it against any master: ``spark-submit --master spark://host:7077 examples/attach_to_your_job.py --mode act``.
On this machine alone, ``.venv/bin/python examples/attach_to_your_job.py``, it only recommends: executors of a local
master cannot be scaled.
"""

import argparse

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count

import penstock as ps


def main() -> None:
    """Count events per key for a while, watched by Penstock."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60.0)
    arguments.add_argument("--mode", choices=["recommend", "act"], default="recommend")
    arguments.add_argument("--executors", type=int, nargs=2, default=(1, 2), metavar=("MIN", "MAX"))
    chosen = arguments.parse_args()

    # Two shuffle partitions are enough here; Spark's default of 200 makes every small batch slow.
    spark = SparkSession.builder.appName("my-job").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    events = spark.readStream.format("rate").option("rowsPerSecond", 2000).load()
    counts = events.groupBy((col("value") % 100).alias("key")).agg(count("*").alias("events"))
    query = counts.writeStream.outputMode("update").format("noop").queryName("my-job").start()

    lowest, highest = chosen.executors
    with ps.attach(  # line 1: watch the query, and with mode="act" scale it
        query, objective=ps.latency(p95="5s"), executors=(lowest, highest), mode=chosen.mode, warm_up_seconds=5.0
    ) as scaler:
        query.awaitTermination(int(chosen.seconds))  # line 2: whatever your job does

    for decision in scaler.decisions[-3:]:  # line 3: ask why
        print(decision.explain())
    print(f"p95 latency: {scaler.latency.p95_seconds:.2f} s" if scaler.latency else "no record was done")
    assert query.isActive, "Penstock never stops your query"
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
