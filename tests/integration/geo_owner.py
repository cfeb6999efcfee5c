# SPDX-License-Identifier: Apache-2.0
"""A geo cluster with a taxi query on it, for a test that controls it from outside and kills it.

Arguments: a folder, and `driver` for the query itself. Prints one line of JSON when all is up.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

DELAYS = "home:near=10ms, home:middle=60ms, home:far=200ms, near:middle=60ms, near:far=200ms, middle:far=200ms"
RECORDS, RATE = 12_000, 30
"""They last for 400 s: as long as the test may take."""
SEED = 7


def own(folder: Path) -> None:
    """Start the cluster and the driver, say so, and wait to be killed."""
    from penstock.adaptors.geo.cluster import GeoCluster
    from penstock.adaptors.geo.delays import OneWayDelays
    from penstock.adaptors.geo.probe import geo_round_trips
    from penstock.adaptors.process.children import Warden

    warden = Warden(grace_seconds=3.0)
    own_folder = warden.temporary_folder(folder)
    nodes: dict[str, float | None] = {"near": 0.8, "middle": 0.8, "far": 0.8}
    cluster = GeoCluster(warden, own_folder, nodes, OneWayDelays.parse(DELAYS), memory_per_worker="1g").start()
    trips = geo_round_trips(cluster)
    trips.refresh()
    listening = folder / "listening.json"
    listening.write_text(json.dumps(cluster.listening()))
    argv = [sys.executable, __file__, str(folder), "driver", cluster.master_url]
    warden.start(
        "driver",
        cluster.driver_command(argv),
        log=folder / "driver.log",
        env={**os.environ, **cluster.spark_environment()},
    )
    said = {
        "mark": warden.mark,
        "folder": str(own_folder),
        "namespaces": [Path(cluster.network.namespace(node)).stat().st_ino for node in cluster.network.nodes],
        "groups": cluster.quotas.folders,
        "round_trips": [[*pair, seconds] for pair, seconds in trips.seconds().items()],
    }
    print(json.dumps(said), flush=True)
    time.sleep(3600)


def drive(folder: Path, master: str) -> None:
    """Run the taxi query on the cluster, with an agent that places its executors."""
    from pyspark.sql import SparkSession

    from penstock.adaptors.agent.server import OperatorAgent
    from penstock.adaptors.clusters import RunningApplication, cluster_of
    from penstock.adaptors.spark.actuator import SparkActuator
    from penstock.adaptors.spark.executor_round_trips import measure_from_executors
    from penstock.adaptors.spark.query_probe import QueryProbe, executors_of_this_driver
    from penstock.adaptors.spark.replay import register
    from penstock.adaptors.spark.scaling import ExecutorScaler
    from penstock.apps.taxi_attractions import taxi_attractions

    settings = {
        "spark.executor.cores": "1", "spark.executor.memory": "512m", "spark.cores.max": "3",
        "spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "2s", "spark.sql.shuffle.partitions": "2",
    }  # fmt: skip
    builder = SparkSession.builder.master(master).appName("taxi")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    shape = f"constant:rate={RATE},duration={RECORDS // RATE}s"
    rides = spark.readStream.format("penstock_replay").options(shape=shape, payload="taxi-ride", seed=SEED).load()
    query = (
        taxi_attractions(rides, {})
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="1 second")
        .start()
    )
    read_executors = executors_of_this_driver()
    # A starting JVM may take minutes on a busy machine.
    cluster = cluster_of(RunningApplication(spark.sparkContext, read_executors))
    scaler = ExecutorScaler(cluster, read_executors, placing_patience_seconds=600.0)
    actuator = SparkActuator(scaler, reconcile_every_seconds=0.5)
    probe = QueryProbe(
        query,
        "taxi",
        read_executors=read_executors,
        draining=lambda: scaler.draining,
        other_faults=actuator.take_faults,
    )
    with OperatorAgent("taxi", probe, actuator, folder / "agent.sock", on_stop=lambda: None):
        wanted, measured = folder / "measure", folder / "measured.json"
        listening = {
            host: (address, port)
            for host, (address, port) in json.loads((folder / "listening.json").read_text()).items()
        }
        while query.isActive:
            if wanted.exists() and not measured.exists():
                found = measure_from_executors(spark.sparkContext, listening, tasks=4)
                part = folder / "measured.part"
                part.write_text(json.dumps([[*pair, seconds] for pair, seconds in found.items()]))
                part.rename(measured)
            time.sleep(0.2)


if __name__ == "__main__":
    if len(sys.argv) == 2:
        own(Path(sys.argv[1]))
    else:
        drive(Path(sys.argv[1]), sys.argv[3])
