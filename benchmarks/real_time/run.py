# SPDX-License-Identifier: Apache-2.0
"""End-to-end record latency of one query by turns in micro-batches and in Spark's real-time mode.

One broker, one cluster and one Spark session on this machine. The query is `match_lines`: lines out of a topic, a row
for each pattern found in one, into a topic. By turns it runs with Spark's default trigger (the next batch as soon as
the last ended) and in real-time mode, with the same lines, rate, partitions and executors, each time with topics and a
checkpoint of its own. A producer in a process of its own sends at set times, whether or not anybody keeps up. Latency
is from when a line was due to the timestamp the broker gave its result. The first turn of each way is not counted, for
the JVMs compile what they run most, and neither are the first seconds of any turn.

Both ways must give the same number of rows, or the run fails. Run: ``python benchmarks/real_time/run.py``; some seven
minutes. It ends by itself and leaves nothing.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.connector import connector_settings
from penstock.adaptors.kafka.operator_stream import read_topic, write_topic
from penstock.adaptors.kafka.record_latency import RecordLatency
from penstock.adaptors.kafka.topics import Topics
from penstock.adaptors.process.children import Warden
from penstock.adaptors.produce.kafka_sink import KafkaSink
from penstock.adaptors.produce.pacing import Produced, produce
from penstock.adaptors.replay.payloads import LinesPayload
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.real_time_mode import check_real_time
from penstock.arrivals import parse_shape
from penstock.arrivals.log_lines import LogLines
from penstock.monitor.latency import LatencyTracker
from penstock.records import LatencySummary, Limits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAYS = ("micro-batch", "real-time")
STATISTICS = ("mean", "p50", "p95", "p99", "max")
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One way for one load. `rows` counts all it wrote, `latency` those of the measured part."""

    way: str
    sent: int
    rows: int
    producer_p99_seconds: float
    latency: LatencySummary


def send(connection: KafkaConnection, topic: str, shape: str) -> Produced:
    """The load, in a process of its own."""
    sink = KafkaSink(connection, topic, "benchmark")
    try:
        return produce(parse_shape(shape), LinesPayload(LogLines(seed=1, malformed=0.0)), sink)
    finally:
        sink.close()


@contextmanager
def session(cluster: EmbeddedCluster, executors: int) -> Iterator[SparkSession]:
    """Executors of one core each."""
    from pyspark.sql import SparkSession

    os.environ.update(cluster.spark_environment())
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.executor.cores": "1",
        "spark.executor.memory": "600m",
        "spark.cores.max": str(executors),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        **connector_settings(lambda text: print(text, file=sys.stderr)),
    }
    builder = SparkSession.builder.master(cluster.master_url).appName("real-time")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        wait_for(lambda: spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() > executors, "the executors")
        yield spark
    finally:
        spark.stop()


def wait_for(is_there: Callable[[], bool], what: str) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_there():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {_PATIENCE_SECONDS:g} s for {what}")
        time.sleep(0.1)


class Bench:
    """Takes the turns."""

    def __init__(
        self, spark: SparkSession, connection: KafkaConnection, folder: Path, arguments: argparse.Namespace
    ) -> None:
        self._spark = spark
        self._connection = connection
        self._folder = folder
        self._arguments = arguments
        self._count = 0

    def turn(self, way: str, pool: ProcessPoolExecutor) -> Turn:
        """One way: start the query, let it settle under the load, measure, wait for the last rows."""
        self._count += 1
        lines, rows = f"lines-{self._count}", f"rows-{self._count}"
        for topic, is_stamped in ((lines, False), (rows, True)):
            Topics(self._connection).create(topic, partitions=self._arguments.partitions, stamped_by_broker=is_stamped)
        query = self._start(way, lines, rows)
        whole = self._arguments.warm_up + self._arguments.seconds
        try:
            with RecordLatency(self._connection, rows, LatencyTracker(whole)) as every:
                load = pool.submit(
                    send, self._connection, lines, f"constant:rate={self._arguments.rate},duration={whole}s"
                )
                self._sleep(self._arguments.warm_up, query, load)
                tracker = LatencyTracker(whole)
                with RecordLatency(self._connection, rows, tracker, since=time.time()) as measured:
                    produced = load.result(timeout=whole + _PATIENCE_SECONDS)
                    self._settle(every, query)
                    latency = measured.whole()
        finally:
            query.stop()
        if latency is None or produced.lateness is None:
            raise SystemExit(f"{way}: nothing came out")
        return Turn(way, produced.sent, every.records, produced.lateness.p99_seconds, latency)

    def _start(self, way: str, lines: str, rows: str) -> StreamingQuery:
        from penstock.apps.log_analysis import match_lines

        options = {"pattern_count": str(self._arguments.patterns)}
        found = match_lines(read_topic(self._spark, self._connection, lines), options)
        writer = (
            write_topic(found, self._connection, rows, with_arrival=True)
            .option("checkpointLocation", str(self._folder / f"checkpoint-{self._count}"))
            .outputMode("update")
        )
        if way == "real-time":
            length = f"{self._arguments.interval:g} seconds"
            writer = writer.trigger(realTime=length)  # type: ignore[call-overload]  # missing in PySpark's types
        return writer.start()

    def _sleep(self, seconds: float, query: StreamingQuery, load: Future[Produced]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not query.isActive:
                raise SystemExit(f"the query ended: {query.exception()}")
            if load.done():
                load.result()  # what went wrong
                raise SystemExit("the load ended early")
            time.sleep(0.2)

    def _settle(self, every: RecordLatency, query: StreamingQuery) -> None:
        """Wait until no more rows come for longer than a border between two batches."""
        seen, since = every.records, time.monotonic()
        deadline = since + _PATIENCE_SECONDS
        while time.monotonic() - since < self._arguments.quiet and time.monotonic() < deadline:
            time.sleep(0.2)
            if not query.isActive:
                raise SystemExit(f"the query ended: {query.exception()}")
            if every.records != seen:
                seen, since = every.records, time.monotonic()


def measure(arguments: argparse.Namespace) -> list[Turn]:
    """All turns."""
    executors = arguments.partitions
    check_real_time("match", Limits(executors, executors), 1, arguments.partitions, interval_seconds=arguments.interval)
    turns = []
    with (
        Warden() as warden,
        tempfile.TemporaryDirectory() as folder,
        KafkaBroker(warden, Path(folder) / "kafka") as broker,
        EmbeddedCluster(warden, Path(folder) / "cluster", cores_per_worker=executors) as cluster,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
        session(cluster, executors) as spark,
    ):
        bench = Bench(spark, broker.connection, Path(folder), arguments)
        for number in range(arguments.turns + 1):
            for way in WAYS:
                turn = bench.turn(way, pool)
                told = turn.latency
                if number > 0:
                    turns.append(turn)
                print(
                    f"{f'turn {number}' if number else 'not counted'}, {way}: p50 {told.p50_seconds * 1e3:.1f} ms, p99 "
                    f"{told.p99_seconds * 1e3:.1f} ms, {told.records} rows; producer late by "
                    f"{turn.producer_p99_seconds * 1e3:.1f} ms (p99)",
                    file=sys.stderr,
                )
    return turns


def summed_up(turns: list[Turn]) -> dict[str, dict[str, float]]:
    """The median over the turns of each statistic, by way, and how many times longer micro-batches take."""
    medians = {
        way: {
            name: statistics.median(getattr(turn.latency, f"{name}_seconds") for turn in turns if turn.way == way)
            for name in STATISTICS
        }
        for way in WAYS
    }
    slow, quick = (medians[way] for way in WAYS)
    return {**medians, "ratio": {name: slow[name] / quick[name] for name in STATISTICS}}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=int, default=200, help="lines a second")
    parser.add_argument("--partitions", type=int, default=2, help="of both topics; as many executors of one core")
    parser.add_argument("--patterns", type=int, default=22, help="regular expressions looked for in each line")
    parser.add_argument("--interval", type=float, default=20.0, help="seconds of a real-time batch, at least 5")
    parser.add_argument("--warm-up", type=float, default=15.0, help="seconds of each turn that are not counted")
    parser.add_argument("--seconds", type=float, default=40.0, help="seconds of each turn that are")
    parser.add_argument("--turns", type=int, default=2, help="how often each way has its turn, and is counted")
    parser.add_argument("--quiet", type=float, default=4.0, help="seconds without a row after which a turn is over")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    turns = measure(arguments)
    table = summed_up(turns)
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    is_same = len({turn.rows for turn in turns}) == 1
    if arguments.json:
        settings = {name: value for name, value in vars(arguments).items() if name != "json"}
        print(
            json.dumps(
                {
                    "settings": settings,
                    "cores": cores,
                    "load_average": load,
                    "latency_seconds": table,
                    "same_rows": is_same,
                    "turns": [asdict(turn) for turn in turns],
                }
            )
        )
    else:
        print(
            f"{arguments.rate:,} lines/s, {arguments.partitions} partitions, {arguments.patterns} patterns; record "
            f"latency in ms, medians of {arguments.turns} turns; {cores} cores, load average {load:.1f}"
        )
        print(f"{'':<14}" + "".join(f"{name:>10}" for name in STATISTICS))
        for way in WAYS:
            print(f"{way:<14}" + "".join(f"{table[way][name] * 1e3:>10.1f}" for name in STATISTICS))
        print(f"{'ratio':<14}" + "".join(f"{table['ratio'][name]:>10.1f}" for name in STATISTICS))
    if not is_same:
        print(f"not the same rows: {[(turn.way, turn.rows) for turn in turns]}", file=sys.stderr)
    return 0 if is_same else 1


if __name__ == "__main__":
    sys.exit(main())
