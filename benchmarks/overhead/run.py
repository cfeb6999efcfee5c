# SPDX-License-Identifier: Apache-2.0
"""Throughput of the same query with and without Penstock attached, in one run, alternating.

A query on the embedded cluster works off a backlog in batches of equal size, so that its throughput is all it can do.
Penstock is attached (mode act, at the top of the limits, CPU group and loop included) and detached in turn; each
phase counts the batches that began and ended within it. The figure is the ratio of the median batch times: above 1,
the query is slower with Penstock. Run: ``python benchmarks/overhead/run.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import penstock as ps
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster


def main() -> int:
    """Run the phases and print the ratio."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--phases", type=int, default=12, help="phases in all, half of them attached")
    arguments.add_argument("--seconds", type=float, default=12.0, help="length of a phase")
    arguments.add_argument("--rows", type=int, default=20_000, help="rows of a batch")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    chosen = arguments.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Warden() as warden,
        EmbeddedCluster(warden, Path(folder) / "cluster", cores_per_worker=2) as cluster,
    ):
        os.environ.update(cluster.spark_environment())
        result = measure(cluster.master_url, Path(folder), chosen.phases, chosen.seconds, chosen.rows)
    ratio = float(result["ratio"])
    print(f"batch time with Penstock over without, neighbours paired: {result['ratios']}", file=sys.stderr)
    print(json.dumps(result) if chosen.json else f"overhead: {(ratio - 1) * 100:+.2f} % (median of pairs)")
    return 0


def measure(master: str, folder: Path, phases: int, seconds: float, rows: int) -> dict[str, Any]:
    """Alternate phases on one query; pairs of neighbours are compared, so that slow drift falls out."""
    from pyspark.sql import SparkSession

    from penstock.adaptors.spark.replay import register
    from penstock.apps.log_analysis import log_analysis

    spark = (
        SparkSession.builder.master(master)
        .appName("overhead")
        .config("spark.executor.cores", "1")
        .config("spark.cores.max", "2")
        .config("spark.executor.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.port", "0")
        .getOrCreate()
    )
    register(spark)
    options = {
        "shape": "constant:rate=100000,duration=24h",
        "startAt": str(time.time() - 86_000),
        "payload": "log",
        "maxRowsPerBatch": str(rows),
    }
    stream = spark.readStream.format("penstock_replay").options(**options).load()
    writer = log_analysis(stream, {"output": str(folder / "output")})
    query = writer.queryName("overhead").option("checkpointLocation", str(folder / "checkpoint")).start()
    while (progress := query.lastProgress) is None or progress["batchId"] < 10:  # the JVM compiles
        time.sleep(0.5)
    seen: dict[int, tuple[float, float]] = {}
    medians: list[float] = []
    for phase in range(phases):
        scaler = None
        if phase % 2 == 1:
            scaler = ps.attach(
                query, executors=(2, 2), cpu_shares=(0.5, 1.0), mode="act", policy="fixed", warm_up_seconds=0.0
            )
        time.sleep(1.0)  # neither attaching nor detaching is part of the phase
        began = time.time()
        while time.time() < began + seconds:
            for report in query.recentProgress:
                start = _epoch(report["timestamp"])
                seen[report["batchId"]] = (start, report["durationMs"]["triggerExecution"] / 1e3)
            time.sleep(0.25)
        ended = time.time()
        inside = [d for start, d in seen.values() if start >= began and start + d <= ended]
        medians.append(statistics.median(inside))
        print(
            f"{'with   ' if scaler else 'without'} {medians[-1]:.3f} s a batch, {len(inside)} batches",
            file=sys.stderr,
        )
        if scaler is not None:
            scaler.detach()
    query.stop()
    spark.stop()
    ratios = [round(b / a, 4) for a, b in zip(medians[::2], medians[1::2], strict=False)]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "without_seconds": medians[::2],
        "with_seconds": medians[1::2],
        "rows_per_batch": rows,
    }


def _epoch(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp).timestamp()


if __name__ == "__main__":
    sys.exit(main())
