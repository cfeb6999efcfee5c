# SPDX-License-Identifier: Apache-2.0
"""The tap on a real broker: exact times, sampling above a rate, counts by instants, an outage; and Spark's batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.adaptors.spark.query_probe import QueryProbe
from penstock.errors import ConfigurationError
from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.monitor.iat_windows import IatWindows
from penstock.monitor.latency import LatencyTracker
from penstock.records import BatchProgress, SourceProgress

pytestmark = [pytest.mark.kafka, pytest.mark.core]

SECONDS = 30.0  # ends a failing test only


def send(connection: KafkaConnection, topic: str, times_ms: list[int], partitions: int = 2) -> None:
    """Write records that bear these times, by turns to the partitions."""
    producer = connection.producer()
    for n, at in enumerate(times_ms):
        producer.produce(topic, b"x" * 100, partition=n % partitions, timestamp=at)
        if n % 1000 == 0:
            producer.poll(0)
    assert producer.flush(SECONDS) == 0


def eventually(holds: Callable[[], bool]) -> bool:
    """Ask again until it holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def batch(topic: str, start: dict[str, int], end: dict[str, int]) -> SourceProgress:
    """A batch of an offset range."""
    return SourceProgress("KafkaV2", json.dumps({topic: start}), json.dumps({topic: end}), None, 0)


def test_times_are_exactly_those_of_the_records(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """An offset range gives its records' timestamps, and the intervals go to the window that asks for them."""
    topic = new_topic()
    times = [1_700_000_000_000 + 10 * n for n in range(2000)]
    windows = IatWindows(5000)
    with TopicTap(kafka_broker.connection, [topic], on_times=windows.add_times) as tap:
        send(kafka_broker.connection, topic, times)
        arrivals = KafkaArrivals(tap, wait_seconds=SECONDS)
        found = arrivals.of(batch(topic, {"0": 100, "1": 50}, {"0": 1000, "1": 1000}))
        assert found is not None
        assert found.tolist() == sorted([t / 1e3 for t in times[200::2]] + [t / 1e3 for t in times[101::2]])
        assert arrivals.is_exact
        assert arrivals.arrived_by(times[499] / 1e3) == 500
        assert arrivals.arrived_by(times[-1] / 1e3) == 2000
        assert eventually(lambda: tap.records_read == 2000)
        assert eventually(lambda: windows.snapshot().seen == 1999)


def test_above_its_rate_it_samples_and_says_so(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """Far above the rate only part of the records is read; the rest is interpolated, and no answer is missing."""
    topic = new_topic()
    gaps: list[bool] = []
    with TopicTap(kafka_broker.connection, [topic], max_rate=500, on_gap=lambda: gaps.append(True)) as tap:
        begun = time.time()
        for n in range(15):
            now = round(time.time() * 1e3)
            send(kafka_broker.connection, topic, [now + k // 20 for k in range(1000)])
            time.sleep(0.2)
            if n >= 5 and tap.is_sampling:
                break
        assert eventually(lambda: tap.is_sampling)
        total = 1000 * (n + 1)
        ended = round(time.time() * 1e3)
        # Something must follow the last stretch that was passed over.
        assert eventually(lambda: settled(tap, kafka_broker.connection, topic, ended))
        arrivals = KafkaArrivals(tap, wait_seconds=SECONDS)
        found = arrivals.of(batch(topic, {"0": 0, "1": 0}, {"0": total // 2, "1": total // 2}))
        assert found is not None
        assert len(found) == total
        assert not arrivals.is_exact
        assert begun - 1 < found[0] <= found[-1] < ended / 1e3 + 1
        assert np.all(np.diff(found) >= 0)
        assert tap.records_read < total
        assert gaps


def settled(tap: TopicTap, connection: KafkaConnection, topic: str, at_ms: int) -> bool:
    """Send a record to each partition; whether one behind the last gap was read."""
    send(connection, topic, [at_ms, at_ms])
    time.sleep(0.3)
    return all(known.known_to == known.position for known in tap._times.values())


def test_a_broker_that_goes_away_is_waited_for(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """While the broker is away counts are unknown and the tap says why; afterwards it has missed nothing."""
    topic = new_topic()
    with TopicTap(kafka_broker.connection, [topic]) as tap:
        arrivals = KafkaArrivals(tap)
        send(kafka_broker.connection, topic, [1000 * n for n in range(1, 11)])
        assert eventually(lambda: tap.records_read == 10)
        with kafka_broker.outage():
            assert arrivals.arrived_by(time.time()) is None
            assert eventually(lambda: tap.fault is not None)
        send(kafka_broker.connection, topic, [1000 * n for n in range(11, 21)])
        assert eventually(lambda: tap.records_read == 20)
        assert tap.fault is None
        assert eventually(lambda: arrivals.arrived_by(time.time()) == 20)


def test_a_missing_topic_is_told_before_anything_runs(kafka_broker: KafkaBroker) -> None:
    """A tap on a topic that is not there is refused."""
    with pytest.raises(ConfigurationError, match="topic 'nowhere' is not on the broker"):
        TopicTap(kafka_broker.connection, ["nowhere"])


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, kafka_connector: dict[str, str]) -> Iterator[SparkSession]:
    """A local session with the connector."""
    with spark_driver.local() as session:
        yield session


@pytest.mark.spark
def test_latency_of_a_query_is_exact_by_timestamps(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Every record's latency is its batch's end less its own timestamp, as the query itself read them."""
    topic = new_topic()
    kept = str(tmp_path / "out")
    rows = (
        spark.readStream.format("kafka")
        .options(**kafka_broker.connection.spark_options())
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("partition", "offset", "timestamp")
    )
    with TopicTap(kafka_broker.connection, [topic]) as tap:
        send(kafka_broker.connection, topic, [round(time.time() * 1e3)] * 300)
        query = (
            rows.writeStream.format("parquet")
            .option("path", kept)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .start()
        )
        try:
            with QueryProbe(query, "reader") as probe:
                batches: list[BatchProgress] = []
                for wanted in (300, 700, 1200):
                    deadline = time.monotonic() + SECONDS
                    while sum(b.rows for b in batches) < wanted:
                        batches += probe.collect().batches
                        assert query.exception() is None
                        assert time.monotonic() < deadline, f"{sum(b.rows for b in batches)} of {wanted} rows came"
                        time.sleep(0.05)
                    if wanted < 1200:
                        now = round(time.time() * 1e3)
                        send(kafka_broker.connection, topic, [now + n // 10 for n in range(400 + (wanted > 300) * 100)])
        finally:
            query.stop()
        arrivals = KafkaArrivals(tap, wait_seconds=SECONDS)
        resolver, tracker = ArrivalResolver(arrivals), LatencyTracker(3600.0)
        for one in batches:
            resolved = resolver.resolve(one)
            if resolved.times is not None:
                tracker.count(one.ended_at, resolved.times, is_exact=resolved.is_exact)
        last = [b for b in batches if b.rows][-1]
        backlog = arrivals.arrived_by(time.time() + 1.0)
        assert backlog is not None
        assert backlog - (arrivals.done_index(last.sources[0]) or 0) == 0
    read = {
        (row["partition"], row["offset"]): row["timestamp"].timestamp() for row in spark.read.parquet(kept).collect()
    }
    assert len(read) == 1200
    expected = []
    for one in batches:
        source = one.sources[0]
        start = json.loads(source.start_offset)[topic] if source.start_offset else {"0": 0, "1": 0}
        end = json.loads(source.end_offset or "{}")[topic]
        carried = [read[int(p), o] for p in end for o in range(start[p], end[p])]
        expected += [one.ended_at - at for at in carried]
        given = arrivals.of(source)
        assert given is not None
        assert given.tolist() == pytest.approx(sorted(carried), rel=1e-12)
    whole = tracker.whole()
    assert whole is not None
    assert whole.is_exact
    assert whole.records == 1200
    assert whole.mean_seconds == pytest.approx(np.mean(np.maximum(expected, 0.0)), rel=1e-9)
