# SPDX-License-Identifier: Apache-2.0
"""The Kafka path on every supported version of Spark: the connector of that version, offsets, backlog, the tap."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.spark.query_facts import read_query_facts
from penstock.adaptors.spark.query_probe import QueryProbe
from penstock.records import BatchProgress

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.versions]

SECONDS = 300.0  # ends a failing test only


def send(broker: KafkaBroker, topic: str, count: int) -> None:
    """Write records that bear the time of now."""
    producer = broker.connection.producer()
    for _ in range(count):
        producer.produce(topic, b"x")
    assert producer.flush(30.0) == 0


@pytest.mark.usefixtures("kafka_connector")
def test_a_topic_is_read_once_and_its_arrival_times_are_exact(
    kafka_broker: KafkaBroker, spark_driver: SparkDriver, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Every record is in one batch, copied into another topic; offsets say which; latency is that of the records."""
    topic, copies = new_topic(2), new_topic(1)
    send(kafka_broker, topic, 100)
    sent = 100
    address = kafka_broker.connection.spark_options()
    source = {**address, "subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "60"}
    seen: list[BatchProgress] = []
    with spark_driver.local() as spark:
        rows = spark.readStream.format("kafka").options(**source).load().select("value")
        query = (
            rows.writeStream.format("kafka").options(**address, topic=copies, checkpointLocation=str(tmp_path)).start()
        )
        with (
            QueryProbe(query, "reader") as probe,
            ps.attach(query, objective=ps.latency(p95="60s"), warm_up_seconds=0.0, window_seconds=4.0) as scaler,
        ):
            facts = read_query_facts(query)
            assert facts.cap == 60
            assert scaler.notes == ()
            deadline = time.monotonic() + SECONDS
            while scaler.latency is None or scaler.latency.records < 200 or not scaler.latency.is_exact:
                if sent < 500:
                    send(kafka_broker, topic, 50)
                    sent += 50
                seen.extend(probe.collect().batches)
                assert query.exception() is None
                assert time.monotonic() < deadline, scaler.observation
                time.sleep(0.3)
            while sum(b.rows for b in seen) < sent:
                seen.extend(probe.collect().batches)
                assert time.monotonic() < deadline, seen[-1:]
                time.sleep(0.3)
        assert scaler.faults == 0
    assert max(b.rows for b in seen) <= 60
    ends = [json.loads(b.sources[0].end_offset or "{}") for b in seen]
    assert sum(ends[-1][topic].values()) == sent
    assert json.loads(seen[-1].sources[0].latest_offset or "{}") == ends[-1]
    assert records_in(kafka_broker, copies) == sent


def records_in(broker: KafkaBroker, topic: str) -> int:
    """How many records a topic of one partition holds."""
    consumer = broker.connection.consumer()
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1])
    finally:
        consumer.close()
