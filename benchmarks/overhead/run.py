# SPDX-License-Identifier: Apache-2.0
"""Throughput of the same query with and without Penstock attached, in one run, alternating.

A query on the embedded cluster works off a backlog, so that its throughput is all it can do. Penstock is attached (mode
act, CPU group and loop included) with the default policy, `mead`, which plans every five seconds, twelve times as often
as by default. Its records are late, so it stays at the top of the limits, and what is compared is the same query with
the same CPU. Batches have two sizes by turns, from which `mead` learns what a record costs; without that it would make
no plan. Then Penstock is detached, and so on. Each phase counts the large batches that began and ended within it. The
figure is the ratio of the median batch times: above 1, the query is slower with Penstock. The command ends with 1 where
no plan was made in a phase. Run: ``python benchmarks/overhead/run.py``.
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
from typing import TYPE_CHECKING, Any

import penstock as ps
from penstock.adaptors.process.children import Warden
from penstock.adaptors.replay.max_rows_file import write_max_rows
from penstock.adaptors.spark.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


RATE = 5000
"""Records a second that arrive: a part of what the query can do, so that there is something to plan."""
PATIENCE_SECONDS = 120.0
"""For the first plan."""
WRITTEN_SECONDS = 35.0
"""After the first plan: `mead` writes down what it has learnt every 30 s. A phase is too short to learn it anew."""
LOOKS_OF_A_SIZE = 12
"""Looks after which batches get the other size: three seconds."""


def main() -> int:
    """Run the phases and print the ratio."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--phases", type=int, default=12, help="phases in all, half of them attached")
    arguments.add_argument("--seconds", type=float, default=18.0, help="length of a phase")
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
    if not all(result["plans"]):
        print(f"plans of each phase: {result['plans']}; a phase without one does not count", file=sys.stderr)
        return 1
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
    limit = folder / "max-rows"
    write_max_rows(limit, rows)
    options = {
        "shape": f"constant:rate={RATE},duration=24h",
        "startAt": str(time.time() - 80_000),
        "payload": "log",
        "maxRowsFile": str(limit),
    }
    stream = spark.readStream.format("penstock_replay").options(**options).load()
    writer = log_analysis(stream, {"output": str(folder / "output")})
    query = writer.queryName("overhead").option("checkpointLocation", str(folder / "checkpoint")).start()
    phase = Phases(query, limit, rows, folder / "knowledge.sqlite")
    while (progress := query.lastProgress) is None or progress["batchId"] < 10:  # the JVM compiles
        phase.look()
        time.sleep(0.5)
    with phase.attached() as scaler:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _plans(scaler):
            if time.monotonic() > deadline:
                raise SystemExit(f"no plan in {PATIENCE_SECONDS:g} s: {scaler.decisions[-1].explain()}")
            phase.look()
            time.sleep(0.5)
        until = time.monotonic() + WRITTEN_SECONDS
        while time.monotonic() < until:  # what it has learnt by then is the start of all phases
            phase.look()
            time.sleep(0.5)
    medians: list[float] = []
    plans: list[int] = []
    for _ in range(phases // 2):
        medians.append(phase.median(seconds))
        with phase.attached() as scaler:
            medians.append(phase.median(seconds))
            plans.append(_plans(scaler))
        print(
            f"without {medians[-2]:.3f} s a batch, with {medians[-1]:.3f} s and {plans[-1]} plans",
            file=sys.stderr,
        )
    query.stop()
    spark.stop()
    ratios = [round(b / a, 4) for a, b in zip(medians[::2], medians[1::2], strict=True)]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "without_seconds": medians[::2],
        "with_seconds": medians[1::2],
        "rows_per_batch": rows,
        "plans": plans,
    }


class Phases:
    """Phases of one query, with Penstock and without."""

    def __init__(self, query: StreamingQuery, limit: Path, rows: int, store: Path) -> None:
        self._query, self._limit, self._rows, self._store = query, limit, rows, store
        self._seen: dict[int, tuple[float, float, int]] = {}
        self._looks = 0

    def attached(self) -> ps.Scaler:
        """Penstock, with what it has learnt in the phases before."""
        return ps.attach(
            self._query,
            objective=ps.latency(p95="5s"),
            executors=(2, 2),
            cpu_shares=(0.5, 1.0),
            mode="act",
            policy="mead",
            policy_options={"every_seconds": "5s", "rescue_every": "2s"},
            warm_up_seconds=0.0,
            store=self._store,
        )

    def look(self) -> None:
        """Take note of new batches, and set the size of the next ones."""
        for report in self._query.recentProgress:
            start = _epoch(report["timestamp"])
            seconds = report["durationMs"]["triggerExecution"] / 1e3
            self._seen[report["batchId"]] = (start, seconds, report["numInputRows"])
        self._looks += 1
        write_max_rows(self._limit, self._rows if self._looks // LOOKS_OF_A_SIZE % 2 == 0 else self._rows // 2)

    def median(self, seconds: float) -> float:
        """The time of a large batch, over a phase that begins now."""
        time.sleep(1.0)  # neither attaching nor detaching is part of the phase
        began = time.time()
        while time.time() < began + seconds:
            self.look()
            time.sleep(0.25)
        ended = time.time()
        inside = [
            lasted
            for start, lasted, rows in self._seen.values()
            if start >= began and start + lasted <= ended and rows == self._rows
        ]
        if not inside:
            raise SystemExit(f"no batch of {self._rows} rows began and ended within {seconds:g} s; give more --seconds")
        return statistics.median(inside)


def _plans(scaler: ps.Scaler) -> int:
    """Plans that were made: a decision says how old the newest one is."""
    told = [(decision.at, decision.evidence.get("plan_age_seconds")) for decision in scaler.decisions]
    return len({round(at - float(age)) for at, age in told if age is not None})


def _epoch(timestamp: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(timestamp).timestamp()


if __name__ == "__main__":
    sys.exit(main())
