# SPDX-License-Identifier: Apache-2.0
"""Runs a job of examples/ as a user would, on a cluster with executors of one core."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.adaptors.spark.cluster import EmbeddedCluster

EXAMPLES = Path(__file__).parents[2] / "examples"

_TWO_EXECUTORS = {
    "spark.executor.cores": "1", "spark.cores.max": "2", "spark.executor.memory": "600m",
    "spark.driver.host": "127.0.0.1", "spark.ui.port": "0", "spark.sql.shuffle.partitions": "2",
    "spark.ui.showConsoleProgress": "false", "spark.decommission.enabled": "true",
}  # fmt: skip


def run_example(
    name: str, *arguments: str, cluster: EmbeddedCluster, folder: Path, settings: Mapping[str, str] | None = None
) -> str:
    """What the job prints; it has to end well. The time limit ends a failing test only."""
    configuration = {**_TWO_EXECUTORS, **(settings or {})}
    options = [part for key, value in configuration.items() for part in ("--conf", f"{key}={value}")]
    job = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *arguments],
        env={
            **os.environ,
            **cluster.spark_environment(),
            "PYSPARK_SUBMIT_ARGS": " ".join(["--master", cluster.master_url, *options, "pyspark-shell"]),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    return job.stdout
