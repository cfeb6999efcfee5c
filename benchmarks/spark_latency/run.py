# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured record latency of a real query, over allocations, loads and kinds of arrivals.

The log analysis runs on the embedded cluster as one application for all cells; Penstock is attached to it and changes
executors and CPU shares by a timetable. Before each cell comes a turn at another allocation and load: what batches
cost is learnt in these turns alone. A cell begins with 38 s whose arrivals are all that is known of its load. From
these, and from the demand learnt so far, the analysis of `mead` predicts mean and 95th percentile of the next 38 s,
with the interval that the cells before have taught it. Then they are measured.

Every cell is added to `cells.jsonl` beside this file when it ends. Run again, the command goes on where it was, so it
can be interrupted, or run in pieces (`--cells`), on several days. It ends with 1 where a bar was missed or cells are
still to be measured. A cell takes a minute and a half, and each start two and a half. `--rounds 2` measures each cell
twice. `--readme` puts the table into the README. Run: ``python benchmarks/spark_latency/run.py``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.marked_part import write_marked_part
from benchmarks.spark_latency.cells import LIMITS, OBJECTIVE, POISSON, Cell, Measured, missing_cells, read, write
from benchmarks.spark_latency.timetable import Turn, arrivals, turns_for
from benchmarks.spark_latency.verdict import table, told, verdicts, versions
from benchmarks.spark_latency.watcher import Watcher, say

import penstock as ps
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.progress import is_batch, to_batch_progress
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.ports import FloatArray
from penstock.records import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

HERE = Path(__file__).resolve().parent
WARM_UP_RATES, WARM_UP_SECONDS = (500.0, 2000.0, 1000.0, 4000.0, 1500.0, 3000.0), 8.0
"""Records a second, for so long each, on all there is: code is compiled, and what a record costs is seen."""
WARM_UP_BATCHES, WARM_UP_PATIENCE_SECONDS = 30, 240.0
START_SECONDS = 20.0
"""From the start of the query to its first record: Penstock is attached meanwhile."""
PATIENCE_SECONDS = 60.0
"""For the last records of the last cell."""


def main() -> int:
    """Measure what is missing, print the table and the verdicts."""
    chosen = _arguments()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    file: Path = chosen.file
    file.parent.mkdir(parents=True, exist_ok=True)
    before = read(file)
    missing = missing_cells(chosen.rounds, before)[: chosen.cells]
    if missing:
        with tempfile.TemporaryDirectory() as folder, application(Path(folder)) as spark:
            measure(Queries(spark, Path(folder), chosen.patterns), missing, before, chosen)
    measured = read(file)
    found = verdicts(measured, chosen.rounds)
    print("\n".join([*table(measured), *told(found), versions(measured)]))
    if chosen.readme:
        write_marked_part(HERE / "README.md", readme_part(measured))
    if chosen.json:
        print(json.dumps({"cells": [one.to_json() for one in measured], "verdicts": dict(found)}))
    return 0 if all(is_so for _, is_so in found) else 1


def readme_part(measured: Sequence[Measured]) -> list[str]:
    """What the README says of the cells that were measured."""
    if not measured:
        return ["No cell was measured yet."]
    return [*table(measured), "", *told(verdicts(measured)), "", f"{len(measured)} cells, {versions(measured)}."]


@contextmanager
def application(folder: Path) -> Iterator[SparkSession]:
    """An application with as many executors of one core as the limits allow, on a cluster of its own."""
    from pyspark.sql import SparkSession

    from penstock.adaptors.spark.replay import register

    most = LIMITS.max_executors
    with Warden() as warden, EmbeddedCluster(warden, folder / "cluster", cores_per_worker=most) as cluster:
        os.environ.update(cluster.spark_environment())
        configuration = {
            "spark.executor.cores": "1",
            "spark.cores.max": str(most),
            "spark.executor.memory": "1g",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(most),
            "spark.sql.streaming.numRecentProgressUpdates": "10000",
            "spark.ui.showConsoleProgress": "false",
            "spark.ui.port": "0",
            # Executors are drained, as `penstock run` drains them.
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            "spark.storage.decommission.shuffleBlocks.enabled": "true",
            "spark.storage.decommission.rddBlocks.enabled": "true",
            "spark.storage.decommission.replicationReattemptInterval": "2s",
        }
        builder = SparkSession.builder.master(cluster.master_url).appName("latency")
        for key, value in configuration.items():
            builder.config(key, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        register(spark)
        try:
            yield spark
        finally:
            spark.stop()


class Queries:
    """Starts the log analysis on arrivals, each time with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path, patterns: int) -> None:
        self._spark, self._folder, self._patterns, self._count = spark, folder, patterns, 0

    @contextmanager
    def on(self, times: FloatArray, start_at: float) -> Iterator[StreamingQuery]:
        """A query on records that arrive at these times, counted from the instant `start_at`."""
        from penstock.apps.log_analysis import log_analysis

        self._count += 1
        own = self._folder / str(self._count)
        own.mkdir()
        np.save(own / "arrivals.npy", times)
        options = {"trace": str(own / "arrivals.npy"), "origin": "zero", "payload": "log", "startAt": str(start_at)}
        stream = self._spark.readStream.format("penstock_replay").options(**options).load()
        writer = log_analysis(stream, {"output": str(own / "output"), "pattern_count": str(self._patterns)})
        query = writer.queryName(f"latency{self._count}").option("checkpointLocation", str(own / "checkpoint")).start()
        try:
            yield query
        finally:
            query.stop()


def measure(queries: Queries, cells: Sequence[Cell], before: Sequence[Measured], chosen: argparse.Namespace) -> None:
    """Go through the cells, and add each to the file."""
    record_seconds = warm_up(queries)
    if before:  # the rates of the cells before
        record_seconds = before[0].record_seconds
    lot = Random(len(before))
    turns = turns_for(cells, 0.0, lot)
    times = arrivals(turns, record_seconds, np.random.default_rng(len(before)))
    ahead = Turn(turns[-1].end, turns[-1].end + PATIENCE_SECONDS, cells[-1].allocation, POISSON, 0.1)
    # Somebody has to come after the last cell, so that it shows when its last records are done.
    times = np.concatenate([times, arrivals([ahead], record_seconds, np.random.default_rng(0))])
    begin = time.time() + START_SECONDS

    def keep(measured: Measured) -> None:
        write(chosen.file, measured)
        mean, p95 = measured.errors
        say(
            f"{measured.cell}: mean {measured.mean:.2f} s (predicted {mean:+.0%}), "
            f"p95 {measured.p95:.2f} s (predicted {p95:+.0%})"
        )

    instants = [replace(turn, begin=begin + turn.begin, end=begin + turn.end) for turn in turns]
    # As `mead` has it: a process of its own, which yields to the query.
    pool = ProcessPoolExecutor(1, get_context("spawn"), initializer=os.nice, initargs=(10,))
    watcher = Watcher(instants, record_seconds, before, keep, pool)
    try:
        with (
            queries.on(times, begin) as query,
            ps.attach(
                query,
                objective=OBJECTIVE,
                executors=(LIMITS.min_executors, LIMITS.max_executors),
                cpu_shares=LIMITS.cpu_shares,
                mode="act",
                policy=watcher,
                guards="none",
                warm_up_seconds=0.0,
            ),
        ):
            end = instants[-1].end
            while time.time() < end or (not watcher.is_done and time.time() < end + PATIENCE_SECONDS):
                if query.exception() is not None:
                    raise SystemExit(f"the query failed: {query.exception()}")
                time.sleep(0.5)
            keep_course(chosen.folder, instants, begin + times, query)
    finally:
        pool.shutdown(cancel_futures=True)


def keep_course(folder: Path, turns: Sequence[Turn], times: FloatArray, query: StreamingQuery) -> None:
    """Keep turns, arrivals and batches of this start, so that a cell that was missed can be looked into."""
    name = f"course-{turns[0].begin:.0f}"
    batches = [dict(p) for p in query.recentProgress if is_batch(p)]
    text = json.dumps({"turns": [asdict(turn) for turn in turns], "batches": batches}, default=str)
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    np.save(folder / f"{name}-arrivals.npy", times)


def warm_up(queries: Queries) -> float:
    """What a record costs, roughly, once code is compiled: by batches, not by the clock, for a busy machine is slow."""
    rng = np.random.default_rng(1)
    rates = WARM_UP_RATES * math.ceil(WARM_UP_PATIENCE_SECONDS / (WARM_UP_SECONDS * len(WARM_UP_RATES)))
    times = [
        i * WARM_UP_SECONDS + np.sort(rng.uniform(0.0, WARM_UP_SECONDS, rng.poisson(rate * WARM_UP_SECONDS)))
        for i, rate in enumerate(rates)
    ]
    learner = BatchDemandLearner(skip_first=8)
    began = time.time()
    least = began + WARM_UP_SECONDS * len(WARM_UP_RATES)
    with queries.on(np.concatenate(times), began) as query:
        seen: list[BatchProgress] = []
        while time.time() < least or len(seen) < WARM_UP_BATCHES:
            if query.exception() is not None or time.time() > began + WARM_UP_PATIENCE_SECONDS:
                raise SystemExit(
                    f"{len(seen)} batches in {time.time() - began:.0f} s: {query.exception() or 'too slow'}"
                )
            time.sleep(0.5)
            seen = [to_batch_progress("query", dict(p)) for p in query.recentProgress if is_batch(p)]
    for batch in seen:
        learner.observe(batch.rows, batch.duration_seconds, LIMITS.top, batch.ended_at)
    demand = learner.learnt().demand
    say(f"a batch takes {demand.fixed_seconds:.2f} s and {demand.per_record_seconds * 1e3:.3f} ms a record")
    return demand.per_record_seconds


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cells", type=int, help="most cells to measure now; default: all that are missing")
    arguments.add_argument("--rounds", type=int, default=1, help="how often each cell is measured in all")
    arguments.add_argument("--patterns", type=int, default=30, help="regular expressions looked for in each line")
    arguments.add_argument("--folder", type=Path, default=Path("build/spark-latency"), help="gets what cells came from")
    arguments.add_argument("--file", type=Path, default=HERE / "cells.jsonl", help="gets every cell")
    arguments.add_argument("--readme", action="store_true", help="put table and verdicts into the README")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
