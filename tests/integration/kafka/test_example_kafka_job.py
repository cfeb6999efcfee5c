# SPDX-License-Identifier: Apache-2.0
"""The example that reads Kafka runs as it stands: three lines, and arrival times are exact."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.example_job import run_example

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.spark.cluster import EmbeddedCluster

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def where_to_read(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> Iterator[tuple[str, ...]]:
    """The job's options for a topic into which 200 records a second are written until the test ends."""
    topic, ended = new_topic(), threading.Event()

    def send() -> None:
        producer = kafka_broker.connection.producer()
        while not ended.wait(0.1):
            for _ in range(20):
                producer.produce(topic, b"x")
            producer.poll(0)
        producer.flush(30.0)

    sender = threading.Thread(target=send)
    sender.start()
    yield "--servers", kafka_broker.connection.bootstrap_servers, "--topic", topic
    ended.set()
    sender.join()


@pytest.mark.parametrize(("p95", "executors"), [("60s", 1), ("100ms", 2)])
def test_the_kafka_job_ends_at_the_size_that_its_objective_needs(
    where_to_read: tuple[str, ...],
    kafka_connector: dict[str, str],
    standalone_cluster: EmbeddedCluster,
    *,
    tmp_path: Path,
    p95: str,
    executors: int,
) -> None:
    """Nobody says what the query reads; latency is exact, and a bound that nothing meets gets the most there is."""
    printed = run_example(
        "attach_to_a_kafka_job.py", *where_to_read, "--p95", p95, "--seconds", "200",
        cluster=standalone_cluster, folder=tmp_path, settings=kafka_connector,
    )  # fmt: skip
    assert f"ended with {executors} executor(s) for p95 <= {p95}" in printed, printed
    assert "latency is exact" in printed, printed
