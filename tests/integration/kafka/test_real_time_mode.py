# SPDX-License-Identifier: Apache-2.0
"""The line-by-line matcher in Spark's real-time mode, on a real broker and a real cluster."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.integration.spark_driver import SparkDriver
from tests.integration.spark_version import is_older_than

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.operator_stream import read_topic, write_topic
from penstock.adaptors.kafka.record_latency import RecordLatency
from penstock.adaptors.kafka.topics import Topics
from penstock.adaptors.produce.kafka_sink import KafkaSink
from penstock.adaptors.produce.pacing import produce
from penstock.adaptors.replay.payloads import LinesPayload
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.progress import to_batch_progress
from penstock.adaptors.spark.real_time_mode import check_real_time, explain_refusal
from penstock.apps.log_analysis import match_lines
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS
from penstock.arrivals import parse_shape
from penstock.arrivals.log_lines import LogLines
from penstock.errors import ConfigurationError
from penstock.monitor.latency import LatencyTracker
from penstock.records import Limits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

PARTITIONS = 2
FIRST_LINES, LINES = 50, 600
SECONDS = 180.0
"""How long anything may take before the test fails; nothing is measured by it."""


@pytest.fixture(scope="module")
def spark(
    spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster, kafka_connector: dict[str, str]
) -> Iterator[SparkSession]:
    """A session with as many executors of one core as the topics have partitions."""
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": str(PARTITIONS),
        **kafka_connector,
    }
    with spark_driver.on_cluster(standalone_cluster, settings) as session:
        status = session.sparkContext._jsc.sc()
        eventually(lambda: status.getExecutorMemoryStatus().size() > PARTITIONS)  # the driver counts, too
        yield session


def eventually(is_so: Callable[[], bool]) -> None:
    """Look until it is so."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def send(connection: KafkaConnection, topic: str, lines: int, per_second: int) -> None:
    """Send generated lines, each when it is due."""
    sink = KafkaSink(connection, topic, "test")
    try:
        shape = parse_shape(f"constant:rate={per_second},duration=1h")
        payload = LinesPayload(LogLines(seed=1, malformed=0.1))
        assert produce(shape, payload, sink, records=lines).delivery.confirmed == lines
    finally:
        sink.close()


def started(
    rows: DataFrame, connection: KafkaConnection, topic: str, checkpoint: Path, **trigger: Any
) -> StreamingQuery:
    """Write rows to a topic."""
    writer = write_topic(rows, connection, topic, with_arrival="arrival" in rows.columns).outputMode("update")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def records(connection: KafkaConnection, topic: str) -> list[tuple[float, int, str]]:
    """All that is in a topic: timestamp, index as `read_topic` gives it, and text."""
    from confluent_kafka import TopicPartition

    found: list[tuple[float, int, str]] = []
    consumer = connection.consumer({"auto.offset.reset": "earliest"})
    try:
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, n), timeout=30) for n in range(PARTITIONS)]
        consumer.assign([TopicPartition(topic, n, 0) for n in range(PARTITIONS)])
        deadline = time.monotonic() + SECONDS
        while len(found) < sum(end[1] for end in ends if end is not None):
            assert time.monotonic() < deadline
            for message in consumer.consume(1000, timeout=0.5):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is None and partition is not None and offset is not None and value is not None:
                    found.append((message.timestamp()[1] / 1e3, (partition << 40) + offset, value.decode()))
    finally:
        consumer.close()
    return found


def plain_finds(lines: list[tuple[float, int, str]]) -> Counter[tuple[int, str]]:
    """Index and pattern of every find, without Spark and without the application's own expressions."""
    finds: Counter[tuple[int, str]] = Counter()
    for _, index, line in lines:
        parts = line.split(" ", 3)
        if len(parts) == 4 and parts[1].isupper() and parts[2].endswith(":"):
            finds.update((index, p.name) for p in DEFAULT_PATTERNS if re.search(p.regex, parts[3], re.ASCII))
    return finds


@pytest.mark.versions
@pytest.mark.skipif(is_older_than(4, 2), reason="PySpark has the trigger of real-time mode from 4.2 on")
def test_rows_equal_those_of_micro_batches_and_come_not_with_the_batch(
    spark: SparkSession, kafka_broker: KafkaBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Every find of every line arrives once as micro-batches give it, and not with its batch but by itself."""
    connection = kafka_broker.connection
    lines, quick, slow = new_topic(PARTITIONS), f"quick-{tmp_path.name}", f"slow-{tmp_path.name}"
    for topic in (quick, slow):
        Topics(connection).create(topic, partitions=PARTITIONS, stamped_by_broker=True)
    rows = match_lines(read_topic(spark, connection, lines), {})

    floor = check_real_time("match", Limits(PARTITIONS, 3), 1, PARTITIONS, interval_seconds=20.0)
    assert floor == PARTITIONS
    with RecordLatency(connection, quick, LatencyTracker(3600.0)) as latency:
        query = started(rows, connection, quick, tmp_path / "quick", realTime="20 seconds")
        try:
            send(connection, lines, FIRST_LINES, per_second=100)
            eventually(lambda: latency.records > 0 or not query.isActive)  # executors compile the query at first
            send(connection, lines, LINES, per_second=100)
            total = FIRST_LINES + LINES
            eventually(lambda: not query.isActive or sum(p["numInputRows"] for p in query.recentProgress) >= total)
            assert query.exception() is None
            batches = [to_batch_progress("match", dict(p)) for p in query.recentProgress if p["numInputRows"]]
        finally:
            query.stop()
        found = records(connection, quick)
        eventually(lambda: latency.records >= len(found))
        seen = latency.whole()

    # Not at the same time: the tasks of the one in real-time mode have all cores for as long as a batch lasts.
    reference = started(rows, connection, slow, tmp_path / "slow", availableNow=True)
    try:
        eventually(lambda: not reference.isActive)
        assert reference.exception() is None
    finally:
        reference.stop()
    assert Counter(text for *_, text in found) == Counter(text for *_, text in records(connection, slow))
    rows_found = [json.loads(text) for *_, text in found]
    finds = Counter((row["index"], row["pattern"]) for row in rows_found)
    assert finds == plain_finds(records(connection, lines))
    assert len(finds) > LINES / 4, "the generated lines hold what the patterns look for"

    assert seen is not None
    assert (seen.records, latency.without_arrival, latency.fault) == (len(found), 0, None)
    written = np.array([at for at, *_ in found])
    arrived = np.array([datetime.fromisoformat(row["arrival"]).timestamp() for row in rows_found])
    ends = np.array([batch.ended_at for batch in batches])
    carrier = np.minimum(np.searchsorted(ends, written), len(ends) - 1)
    # Micro-batches know all their lines before they write the first row. Here rows are there before later lines come.
    assert any(written[carrier == n].min() < arrived[carrier == n].max() for n in set(carrier.tolist()))
    assert seen.mean_seconds < float((ends[carrier] - arrived).mean()), "what a batch's end would tell"


def test_too_few_cores_are_refused_before_anything_starts(spark: SparkSession, kafka_broker: KafkaBroker) -> None:
    """An operator below its floor is refused by what the topic says; no query was started."""
    Topics(kafka_broker.connection).create("wide", partitions=4)
    (wide,) = Topics(kafka_broker.connection).check(["wide"])
    with pytest.raises(
        ConfigurationError, match=r"operators\.match: executors: 2 with 1 core each are too few.*\[4, 4\]"
    ):
        check_real_time("match", Limits(2, 3), 1, wide.partitions)
    assert not spark.streams.active


def test_sparks_refusals_are_told_in_one_line(
    spark: SparkSession, kafka_broker: KafkaBroker, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """What Spark itself refuses, at the start or soon after, has an explanation with what to do."""
    from pyspark.sql import functions as sf

    connection, topic = kafka_broker.connection, new_topic(PARTITIONS)
    send(connection, topic, 10, per_second=100)
    lines = read_topic(spark, connection, topic)
    counts = lines.groupBy("key").count().selectExpr("key", "string(count) AS value")
    python = lines.select(sf.udf(lambda text: text, "string")(sf.col("value").cast("string")).alias("value"))
    cases = [
        (counts, "5 seconds", "needs 3 cores at once and 2 are free"),
        (python, "5 seconds", "it is a Python function"),
        (lines.select("value"), "1 second", "at least 5.00 s long"),
    ]
    for number, (rows, length, told) in enumerate(cases):
        try:
            query = started(rows, connection, topic, tmp_path / str(number), realTime=length)
            try:
                eventually(lambda q=query: not q.isActive)  # type: ignore[misc]
                fault: object = query.exception()
            finally:
                query.stop()
        except Exception as refused:  # of several kinds: Spark's own
            fault = refused
        assert told in (explain_refusal(str(fault)) or f"not explained: {fault}")
