# SPDX-License-Identifier: Apache-2.0
"""A streaming job whose executors are pods, with Penstock attached. It counts events by key.

On a cluster of your own, `spark-submit` or job.yaml gives master, image and settings. On this machine:

    penstock kubernetes start
    penstock kubernetes run -- python examples/kubernetes/job.py --here --seconds 120
    penstock kubernetes stop
"""

import argparse
import atexit
import shutil
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count

import penstock as ps

SETTINGS = {
    "spark.executor.instances": "1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.kubernetes.executor.request.cores": "300m",
    "spark.kubernetes.executor.limit.cores": "800m",  # without a limit there are no CPU shares
    "spark.dynamicAllocation.enabled": "false",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "2s",
    "spark.sql.shuffle.partitions": "2",
}
"""As in job.yaml; what `spark-submit` was given counts more."""


def main() -> None:
    """Count events per key for a while, scaled by Penstock."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--here", action="store_true", help="on the cluster of `penstock kubernetes start`")
    arguments.add_argument("--seconds", type=float, help="how long it runs; without it until it is ended")
    arguments.add_argument("--rate", type=int, default=2000, help="events a second")
    arguments.add_argument("--checkpoint", help="where all pods can write; needed but with --here")
    arguments.add_argument("--policy", help="Penstock's; without it the one for the objective")
    arguments.add_argument("--master", help="a master of Penstock's, such as penstock:7071, that scales the query")
    chosen = arguments.parse_args()

    builder = SparkSession.builder.appName("counts")
    checkpoint = chosen.checkpoint
    if chosen.here:
        from penstock.adaptors.kubernetes_server.spark_pods import spark_settings

        folder = Path(tempfile.mkdtemp(prefix="penstock-job-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (folder / "checkpoint").mkdir()
        checkpoint = str(folder / "checkpoint")
        for key, value in {**SETTINGS, **spark_settings(folder, writable=[folder / "checkpoint"])}.items():
            builder = builder.config(key, value)
    elif checkpoint is None:
        arguments.error("--checkpoint: give a place that all pods can write to")
    spark = builder.getOrCreate()
    events = spark.readStream.format("rate").option("rowsPerSecond", chosen.rate).load()
    counts = events.groupBy((col("value") % 100).alias("key")).agg(count("*").alias("events"))
    writer = counts.writeStream.outputMode("update").format("noop").queryName("counts")
    query = writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 second").start()

    with ps.attach(
        query,
        objective=ps.latency(p95="5s"),
        executors=(1, 2),
        cpu_shares=(0.5, 0.75, 1.0),
        mode="act",
        policy=chosen.policy,
        master=chosen.master,
    ) as attached:
        for note in attached.notes:
            print(f"note: {note}", flush=True)
        if chosen.seconds is None:
            query.awaitTermination()
        else:
            query.awaitTermination(int(chosen.seconds))
        if chosen.master is None:
            for decision in attached.decisions[-3:]:
                print(decision.explain(), flush=True)
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
