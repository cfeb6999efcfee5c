# SPDX-License-Identifier: Apache-2.0
"""A streaming job whose executors are containers of the YARN on this machine, with Penstock attached.

    penstock yarn start
    penstock yarn run -- python examples/yarn/job.py --seconds 120
    penstock yarn stop

On a cluster of your own, leave `spark_settings` out: set HADOOP_CONF_DIR, and give the rest to `spark-submit`.
"""

import argparse
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count

import penstock as ps
from penstock.adaptors.process.state_folder import state_folder
from penstock.adaptors.yarn_server.local_cluster import LocalYarn

SETTINGS = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.yarn.am.memory": "256m",
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.executor.failuresValidityInterval": "1h",  # else a job ends after three lost executors in all its life
    "spark.sql.shuffle.partitions": "2",
}


def main() -> None:
    """Count events per key for a while, scaled by Penstock."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=state_folder("yarn"), help="folder of the cluster")
    arguments.add_argument("--seconds", type=float, default=120.0)
    arguments.add_argument("--rate", type=int, default=2000)
    chosen = arguments.parse_args()

    builder = SparkSession.builder.appName("my-job")
    for key, value in {**LocalYarn(chosen.folder).spark_settings(), **SETTINGS}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    events = spark.readStream.format("rate").option("rowsPerSecond", chosen.rate).load()
    counts = events.groupBy((col("value") % 100).alias("key")).agg(count("*").alias("events"))
    with tempfile.TemporaryDirectory(prefix="penstock-job-") as checkpoints:
        writer = counts.writeStream.outputMode("update").format("noop").queryName("my-job")
        query = writer.option("checkpointLocation", checkpoints).trigger(processingTime="1 second").start()
        with ps.attach(
            query, objective=ps.latency(p95="5s"), executors=(1, 3), cpu_shares=(0.5, 0.75, 1.0), mode="act"
        ) as scaler:
            query.awaitTermination(int(chosen.seconds))

        for note in scaler.notes:
            print(f"note: {note}")
        for decision in scaler.decisions[-3:]:
            print(decision.explain())
        query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
