# SPDX-License-Identifier: Apache-2.0
"""A real broker: up, asked wrongly, away and back with its records, logged in to, killed, and run from the shell."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.detached_broker import DetachedBroker
from penstock.adaptors.kafka.topics import Topic, Topics
from penstock.cli.main import main
from penstock.errors import ClusterError, ConfigurationError

pytestmark = pytest.mark.kafka


def produce(connection: KafkaConnection, topic: str, values: range, partition: int = 0) -> None:
    """Write numbered records, and see that the broker has them."""
    lost: list[object] = []
    producer = connection.producer({"linger.ms": 5})
    for value in values:
        producer.produce(
            topic, str(value).encode(), partition=partition, on_delivery=lambda e, _: lost.append(e) if e else None
        )
    assert producer.flush(60) == 0
    assert lost == []


def consume(connection: KafkaConnection, topic: str, count: int) -> list[int]:
    """Read the first `count` records of partition 0."""
    from confluent_kafka import TopicPartition

    consumer = connection.consumer()
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=60)
        assert messages, f"only {len(found)} of {count} records came"
        found += [int(value) for m in messages if m.error() is None and (value := m.value()) is not None]
    consumer.close()
    return found


def test_topics_are_made_described_and_missed(kafka_broker: KafkaBroker) -> None:
    """A topic is made once; another number of partitions and a misspelt name are refused with a way out."""
    topics = Topics(kafka_broker.connection)
    assert topics.create("clicks", partitions=2) == Topic("clicks", 2, 1)
    assert topics.create("clicks", partitions=2) == Topic("clicks", 2, 1)
    assert Topic("clicks", 2, 1) in topics.all()
    with pytest.raises(ConfigurationError, match="exists with 2 partitions, not 3"):
        topics.create("clicks", partitions=3)
    with pytest.raises(ConfigurationError, match="did you mean 'clicks'"):
        topics.check(["clicsk"])
    with pytest.raises(ConfigurationError, match="cannot be created"):
        topics.create("no/such name")
    topics.delete("clicks")
    topics.delete("clicks")


def test_it_listens_on_the_loopback_only(kafka_broker: KafkaBroker) -> None:
    """No port of the broker can be reached from another machine."""
    listening = {
        c.laddr.ip.removeprefix("::ffff:")
        for c in psutil.Process(kafka_broker.pid).net_connections("inet")
        if c.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_a_broker_that_is_not_there_is_told() -> None:
    """An address where nobody listens gives an error that names it, and may be tried again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"no broker answers at {servers}") as caught:
            Topics(KafkaConnection(servers), timeout_seconds=1.0).names()
    assert caught.value.retryable


def test_records_outlive_an_outage(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """While it is away the broker does not answer; back on the same address it has every record."""
    topic = new_topic(1)
    servers = kafka_broker.bootstrap_servers
    produce(kafka_broker.connection, topic, range(1000))
    with kafka_broker.outage():
        assert not kafka_broker.is_running
        with pytest.raises(ClusterError, match="no broker answers"):
            Topics(kafka_broker.connection, timeout_seconds=0.5).names()
    assert kafka_broker.bootstrap_servers == servers
    assert consume(kafka_broker.connection, topic, 1000) == list(range(1000))


def test_wrong_credentials_are_told_and_right_ones_let_in(login_broker: KafkaBroker) -> None:
    """A broker that asks for a login takes the right password only; the error says what to check."""
    right, servers = login_broker.connection, login_broker.bootstrap_servers
    Topics(right).create("mine")
    produce(right, "mine", range(10))
    assert consume(right, "mine", 10) == list(range(10))
    with pytest.raises(ConfigurationError, match="refuses the connection"):
        Topics(KafkaConnection(servers, {**right.options, "sasl.password": "guess"})).names()
    with pytest.raises(ClusterError, match="does it speak PLAINTEXT"):
        Topics(KafkaConnection(servers), timeout_seconds=2.0).names()


@pytest.mark.kill
def test_the_shells_broker_is_started_found_and_stopped(tmp_path: Path) -> None:
    """It outlives the command, is found again with its topics, forgets nothing over a kill, and stops on command."""
    run = CliRunner().invoke
    where = ["--json", "--folder", str(tmp_path)]
    # A process of its own: the broker is nobody's child when it has ended.
    shell = [sys.executable, "-m", "penstock", "kafka", "start", *where]
    started = subprocess.run(shell, capture_output=True, text=True, timeout=180, check=False)
    assert started.returncode == 0, started.stderr
    first = json.loads(started.stdout.splitlines()[-1])
    try:
        connection = DetachedBroker(tmp_path).connection
        assert connection is not None
        Topics(connection).create("kept", partitions=3)
        with pytest.raises(ClusterError, match="does it speak PLAINTEXT"):  # another user of the machine
            Topics(KafkaConnection(first["bootstrap_servers"]), timeout_seconds=2.0).names()
        again = json.loads(run(main, ["kafka", "start", *where]).stdout.splitlines()[-1])
        assert again["pid"] == first["pid"]
        os.kill(first["pid"], signal.SIGKILL)
        assert has_ended(first["pid"])
        assert run(main, ["kafka", "status", *where]).exit_code == 1
        restarted = subprocess.run(shell, capture_output=True, text=True, timeout=180, check=False)
        assert restarted.returncode == 0, restarted.stderr
        found = run(main, ["kafka", "status", *where])
        assert found.exit_code == 0, found.output
        status = json.loads(found.stdout.splitlines()[-1])
        assert status["bootstrap_servers"] == first["bootstrap_servers"]
        assert status["topics"] == [{"name": "kept", "partitions": 3}]
        assert DetachedBroker(tmp_path).connection == connection, "the login is that of the first start"
    finally:
        stopped = run(main, ["kafka", "stop", *where])
    assert json.loads(stopped.stdout.splitlines()[-1])["stopped"] is True
    assert has_ended(status["pid"])


def has_ended(pid: int) -> bool:
    """Wait for the end of a process; one that only waits to be collected by its parent has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False
