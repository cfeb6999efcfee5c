# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured record latency of a real query: Poisson and bursty arrivals at three loads.

One Spark session on one core runs the log analysis. First at constant rates: from those batches the demand (fixed
and per-record seconds, with their variability) is learnt. Then each of six traces is played, none of which was used
for learning. The prediction is made from the demand and from the Markovian arrival process fitted to the played
trace's inter-arrival times; it knows nothing of the measured latency. Run: ``python benchmarks/spark_latency/run.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from penstock.adaptors.spark.progress import is_batch, to_batch_progress
from penstock.arrivals import ReplayArrivals, parse_shape
from penstock.markov import MAP
from penstock.performance.demand import BatchDemand
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.performance.operator_latency import predict
from penstock.records import Allocation, BatchProgress
from penstock.workload import fit_maps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ONE = Allocation(1, 1.0)
SETTLING_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Compared:
    """One trace: what was predicted and what was measured, in seconds."""

    trace: str
    load: float
    records: int
    batches: int
    measured_mean: float
    predicted_mean: float
    measured_p95: float
    predicted_p95: float

    @property
    def errors(self) -> tuple[float, float]:
        """Predicted over measured, less one: mean, 95th percentile."""
        return self.predicted_mean / self.measured_mean - 1.0, self.predicted_p95 / self.measured_p95 - 1.0


def main() -> int:
    """Learn, play, compare, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=150.0, help="length of each played trace")
    arguments.add_argument("--loads", default="0.3,0.5,0.7", help="rate times per-record seconds of each trace")
    arguments.add_argument("--patterns", type=int, default=30, help="regular expressions looked for in each line")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    chosen = arguments.parse_args()
    loads = [float(text) for text in chosen.loads.split(",")]
    with tempfile.TemporaryDirectory() as folder, session() as spark:
        player = Player(spark, Path(folder), chosen.patterns)
        demand = learn(player)
        compared = [
            compare(player, demand, kind, load, chosen.seconds) for load in loads for kind in ("poisson", "bursty")
        ]
    worst = max(abs(error) for one in compared for error in one.errors)
    if chosen.json:
        print(json.dumps({"demand": asdict(demand), "compared": [asdict(one) for one in compared], "worst": worst}))
    else:
        print(f"largest error {worst:.1%}")
    return 0


@contextmanager
def session() -> Iterator[SparkSession]:
    """One core, one task a stage: batch times without the play of several tasks."""
    from pyspark.sql import SparkSession

    from penstock.adaptors.spark.replay import register

    spark = (
        SparkSession.builder.master("local[1]")
        .appName("latency")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "100000")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


class Player:
    """Plays shapes through the query, each in a query of its own with a checkpoint of its own."""

    def __init__(self, spark: SparkSession, folder: Path, patterns: int) -> None:
        self._spark = spark
        self._folder = folder
        self._patterns = patterns
        self._count = 0

    def play(self, shape: str, seconds: float) -> tuple[list[BatchProgress], ReplayArrivals]:
        """Play a shape for some seconds; gives its batches and its arrival times."""
        from penstock.apps.log_analysis import log_analysis

        self._count += 1
        own = self._folder / str(self._count)
        options = {"shape": shape, "payload": "log", "partitions": "1"}
        stream = self._spark.readStream.format("penstock_replay").options(**options).load()
        writer = log_analysis(stream, {"output": str(own / "output"), "pattern_count": str(self._patterns)})
        query = writer.option("checkpointLocation", str(own / "checkpoint")).start()
        try:
            time.sleep(seconds)
        finally:
            query.stop()
        batches = [to_batch_progress("query", dict(p)) for p in query.recentProgress if is_batch(p)]
        return batches, ReplayArrivals(parse_shape(shape))


def learn(player: Player) -> BatchDemand:
    """The demand, out of runs at constant rates; the first warms the JVM up and is not counted."""
    player.play("constant:rate=4000,duration=10m", 60.0)
    learner = BatchDemandLearner()
    for rate in (1000, 8000, 3000, 10_000, 5000, 2000):
        batches, _ = player.play(f"constant:rate={rate},duration=10m", 25.0)
        learner.restart()
        for batch in batches:
            learner.observe(batch.rows, batch.duration_seconds, ONE, batch.ended_at)
    learnt = learner.learnt()
    demand = learnt.demand
    print(
        f"learnt from {learnt.batches:.0f} batches: {demand.fixed_seconds * 1e3:.0f} ms a batch + "
        f"{demand.per_record_seconds * 1e6:.1f} us a record; SCV of a batch's time {learnt.residual_scv:.4f}",
        file=sys.stderr,
    )
    return demand


def compare(player: Player, demand: BatchDemand, kind: str, load: float, seconds: float) -> Compared:
    """Play one trace and set the prediction beside what was measured."""
    rate = load / demand.per_record_seconds
    process = MAP.poisson(rate) if kind == "poisson" else bursty(rate)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"D0": process.D0.tolist(), "D1": process.D1.tolist()}, file)
        file.flush()
        shape = f"map:file={file.name},duration={seconds}s,seed=7"
        batches, arrivals = player.play(shape, seconds)
    latencies = []
    settled = batches[0].ended_at + SETTLING_SECONDS
    for batch in batches:
        if batch.started_at >= settled:
            latencies += [batch.ended_at - times for s in batch.sources if (times := arrivals.of(s)) is not None]
    measured = np.concatenate(latencies)
    iats = np.diff(arrivals.arrivals.times(0, arrivals.arrivals.total))
    # The whole trace: at thousands of records a second a burst of seconds is longer than the usual window.
    fitted = fit_maps(iats, best=1).maps[0]
    (told,) = predict([fitted.map], demand, [ONE], percentiles=(0.95,))
    p95 = told.statistic("p95")
    assert p95 is not None  # asked for just above
    result = Compared(
        trace=kind,
        load=load,
        records=measured.size,
        batches=len(latencies),
        measured_mean=float(measured.mean()),
        predicted_mean=told.mean_seconds.value,
        measured_p95=float(np.quantile(measured, 0.95)),
        predicted_p95=p95.value,
    )
    mean_error, p95_error = result.errors
    print(
        f"{kind:8} load {load:.2f}: mean {result.predicted_mean:.3f} s predicted, {result.measured_mean:.3f} s seen "
        f"({mean_error:+.1%}); p95 {result.predicted_p95:.3f} s, {result.measured_p95:.3f} s ({p95_error:+.1%}); "
        f"{result.records} records",
        file=sys.stderr,
    )
    return result


def bursty(rate: float) -> MAP:
    """Two and a half times the mean rate for half a second on average, half of it for a second and a half."""
    high, low = 2.5 * rate, 0.5 * rate
    to_low, to_high = 1.0 / 0.5, 1.0 / 1.5
    return MAP(np.array([[-high - to_low, to_low], [to_high, -low - to_high]]), np.array([[high, 0.0], [0.0, low]]))


if __name__ == "__main__":
    sys.exit(main())
