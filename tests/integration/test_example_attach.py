# SPDX-License-Identifier: Apache-2.0
"""The example job runs as it stands, on a cluster, with Penstock acting on it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.adaptors.spark.cluster import EmbeddedCluster

EXAMPLE = Path(__file__).parents[2] / "examples" / "attach_to_your_job.py"


@pytest.mark.core
@pytest.mark.spark
def test_the_example_explains_its_decisions(standalone_cluster: EmbeddedCluster, tmp_path: Path) -> None:
    """The job is watched and scaled, explains itself, and its query is still running after detaching."""
    configuration = {
        "spark.executor.cores": "1", "spark.cores.max": "2", "spark.executor.memory": "600m",
        "spark.driver.host": "127.0.0.1", "spark.ui.port": "0", "spark.sql.shuffle.partitions": "2",
        "spark.ui.showConsoleProgress": "false", "spark.decommission.enabled": "true",
    }  # fmt: skip
    arguments = [part for k, v in configuration.items() for part in ("--conf", f"{k}={v}")]
    job = subprocess.run(
        [sys.executable, str(EXAMPLE), "--seconds", "45", "--mode", "act"],
        env={
            **os.environ,
            **standalone_cluster.spark_environment(),
            "PYSPARK_SUBMIT_ARGS": " ".join(["--master", standalone_cluster.master_url, *arguments, "pyspark-shell"]),
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-3000:]
    assert "because " in job.stdout
    assert "(mead)" in job.stdout
    assert "p95 latency: " in job.stdout
    assert "2 executors" in job.stdout
