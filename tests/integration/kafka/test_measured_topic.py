# SPDX-License-Identifier: Apache-2.0
"""`penstock measure` on a topic that was filled before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.value_bytes import mean_value_bytes

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(600), pytest.mark.long]

READ_ONLY = "penstock.apps.read_only:read_only"


def fill(connection: KafkaConnection, topic: str, records: int, value: bytes) -> None:
    """Write so many records."""
    producer = connection.producer()
    for number in range(records):
        producer.produce(topic, value)
        if number % 10_000 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0


def measured(broker: KafkaBroker, topic: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command on a topic, with batches of 500 records and short times."""
    place = f"kafka://{broker.connection.bootstrap_servers}/{topic}"
    return subprocess.run(
        [sys.executable, "-m", "penstock", "measure", READ_ONLY, "--executors", "1", "--topic", place, "--cap", "500",
         "--repeats", "1", "--tries", "1", "--sample", "2s", "--warm-up", "1s", "--converge", "10s",
         "--no-source-check", "--folder", str(folder), "--json"],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip


def test_a_filled_topic_is_read_as_fast_as_it_goes(
    kafka_broker: KafkaBroker, kafka_connector: dict[str, str], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Records and bytes per second of a topic with two partitions; bytes are those of the values."""
    topic = new_topic(partitions=2)
    fill(kafka_broker.connection, topic, 300_000, b"x" * 25)
    assert mean_value_bytes(kafka_broker.connection, topic, 2) == 25.0
    done = measured(kafka_broker, topic, tmp_path / "m")
    assert done.returncode == 0, done.stderr
    (size,) = json.loads(done.stdout.strip().splitlines()[-1])["sizes"]
    assert size["throughput"] > 100
    assert size["bytes_per_second"] == pytest.approx(25 * size["throughput"])


def test_a_topic_that_runs_dry_is_an_error(
    kafka_broker: KafkaBroker, kafka_connector: dict[str, str], new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Seven hundred records are a full batch and a part of one: no figure is given."""
    topic = new_topic(partitions=1)
    fill(kafka_broker.connection, topic, 700, b"x")
    done = measured(kafka_broker, topic, tmp_path / "m")
    assert done.returncode == 1, done.stderr
    assert "the source has run dry after 700 records" in done.stderr
    assert json.loads(done.stdout.strip().splitlines()[-1])["sizes"] == []
