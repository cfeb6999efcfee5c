# SPDX-License-Identifier: Apache-2.0
"""Owns a YARN and an application on it until it is killed: ``python tests/yarn/cluster_owner.py FOLDER``."""

import json
import os
import sys
import time
from pathlib import Path

from penstock.adaptors.process.children import Warden
from penstock.adaptors.yarn_server.site_files import YarnPlan
from penstock.adaptors.yarn_server.yarn_cluster import YarnCluster

APPLICATION = """
import sys, time
from pyspark.sql import SparkSession
builder = SparkSession.builder.appName("endless")
for pair in sys.argv[1:]:
    builder = builder.config(*pair.split("=", 1))
spark = builder.getOrCreate()
spark.sparkContext.parallelize(range(2), 2).map(lambda n: time.sleep(600)).count()
"""
SETTINGS = {"spark.executor.instances": "1", "spark.executor.memory": "512m", "spark.yarn.am.memory": "256m"}

if __name__ == "__main__":
    with Warden(grace_seconds=3.0) as warden:
        folder = warden.temporary_folder(Path(sys.argv[1]))
        with YarnCluster(warden, folder, YarnPlan(nodes=1), timeout_seconds=400.0) as cluster:
            pairs = [f"{name}={value}" for name, value in {**cluster.spark_settings(), **SETTINGS}.items()]
            driver = warden.start(
                "driver",
                cluster.command([sys.executable, "-c", APPLICATION, *pairs]),
                log=Path(sys.argv[1]) / "driver.log",
                env={**os.environ, **cluster.spark_environment()},
            )
            told = {"warden": warden.pid, "network": cluster.network_pid, "folder": str(folder)}
            print(json.dumps(told), flush=True)
            while True:
                time.sleep(1.0)
