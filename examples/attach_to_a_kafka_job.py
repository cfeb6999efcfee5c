# SPDX-License-Identifier: Apache-2.0
"""A job that reads Kafka, with Penstock attached in three lines: it finds topics, servers and arrival times by itself.

Try it with a broker of this machine, in three terminals:

    penstock kafka start                              # says at which address it answers
    penstock kafka topic events
    penstock produce kafka://ADDRESS/events --shape constant:rate=200,duration=5m
    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 examples/attach_to_a_kafka_job.py \
      --servers ADDRESS --topic events --login FILE   # the one that `penstock kafka start` names
"""

import argparse
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, window

import penstock as ps


def main() -> None:
    """Count events per window for a while, watched by Penstock."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--servers", required=True)
    arguments.add_argument("--topic", required=True)
    arguments.add_argument("--login", type=Path, help="a file of Kafka's client options, such as client.properties")
    arguments.add_argument("--p95", default="10s")
    arguments.add_argument("--seconds", type=float, default=120.0)
    chosen = arguments.parse_args()

    spark = SparkSession.builder.appName("kafka-job").config("spark.sql.shuffle.partitions", "2").getOrCreate()
    source = {"kafka.bootstrap.servers": chosen.servers, "subscribe": chosen.topic, "startingOffsets": "earliest"}
    for line in chosen.login.read_text(encoding="utf-8").splitlines() if chosen.login else ():
        name, _, value = line.partition("=")
        source[f"kafka.{name}"] = value
    events = spark.readStream.format("kafka").options(**source).load()
    per_window = (
        events.withWatermark("timestamp", "10 seconds")
        .groupBy(window("timestamp", "10 seconds"), (col("offset") % 10).alias("key"))
        .agg(count("*").alias("events"))
    )
    query = per_window.writeStream.outputMode("update").format("noop").queryName("kafka-job").start()

    with ps.attach(query, objective=ps.latency(p95=chosen.p95), executors=(1, 2), mode="act") as scaler:
        query.awaitTermination(int(chosen.seconds))
        last, seen, notes = scaler.decisions[-1], scaler.observation, scaler.notes

    print(last.explain())
    for note in notes:
        print(f"note: {note}")
    # What arrived before the tap began is interpolated, so it is the newest latency that counts here.
    is_exact = seen is not None and seen.latency is not None and seen.latency.is_exact
    print(f"latency is {'exact' if is_exact else 'interpolated'}")
    print(f"ended with {last.target.executors} executor(s) for p95 <= {chosen.p95}")
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
