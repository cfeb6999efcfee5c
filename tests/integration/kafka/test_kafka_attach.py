# SPDX-License-Identifier: Apache-2.0
"""Attached to a query that reads from Kafka with a login: its topic is tapped, and latency is exact from then on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.topics import Topics

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.core, pytest.mark.versions]

SECONDS = 300.0  # ends a failing test only


def send(connection: KafkaConnection, topic: str, count: int) -> None:
    """Write records that bear the time of now."""
    producer = connection.producer()
    for _ in range(count):
        producer.produce(topic, b"x")
    assert producer.flush(30.0) == 0


def connector_version(settings: dict[str, str]) -> str:
    """The version of the connector among Spark's jars; it may be an earlier one than Spark's."""
    names = [Path(jar).stem for jar in settings["spark.jars"].split(",")]
    (found,) = [name.rpartition("-")[2] for name in names if name.startswith("spark-sql-kafka")]
    return found


def taps() -> list[threading.Thread]:
    """The taps that read now."""
    return [thread for thread in threading.enumerate() if thread.name == "penstock-kafka-tap"]


def test_a_topic_is_tapped_with_the_querys_own_login(
    login_broker: KafkaBroker,
    spark_driver: SparkDriver,
    kafka_connector: dict[str, str],
    record_property: Callable[[str, object], None],
) -> None:
    """Nothing is said about Kafka but in the query's own options; the tap ends at detaching."""
    record_property("note", f"connector {connector_version(kafka_connector)}")
    connection, topic = login_broker.connection, "attached"
    Topics(connection).create(topic, partitions=2)
    send(connection, topic, 100)
    with spark_driver.local() as spark:
        source = {**connection.spark_options(), "subscribe": topic, "startingOffsets": "earliest"}
        rows = spark.readStream.format("kafka").options(**source, maxOffsetsPerTrigger="5000").load()
        query = rows.writeStream.format("noop").queryName("reader").start()
        deadline = time.monotonic() + SECONDS
        while query.lastProgress is None or query.lastProgress["numInputRows"] == 0:
            assert query.exception() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        with ps.attach(query, objective=ps.latency(p95="60s"), warm_up_seconds=0.0, window_seconds=4.0) as scaler:
            assert scaler.notes == ()
            assert len(taps()) == 1
            while scaler.latency is None or scaler.latency.records < 300:
                send(connection, topic, 50)
                assert time.monotonic() < deadline, scaler.observation
                time.sleep(0.3)
            assert scaler.latency.is_exact
        assert scaler.faults == 0
        assert taps() == []
        assert query.isActive
