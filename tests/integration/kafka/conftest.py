# SPDX-License-Identifier: Apache-2.0
"""Real Kafka brokers for the tests in this folder: started when first asked for, gone at the end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connector import connector_settings
from penstock.adaptors.kafka.distribution import fetch_kafka
from penstock.adaptors.kafka.maven import NotFetchedError
from penstock.adaptors.kafka.topics import Topics
from penstock.adaptors.process.children import Warden
from penstock.adaptors.process.leftovers import marked_processes
from penstock.adaptors.spark.java import find_java
from penstock.errors import ConfigurationError

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def kafka_warden() -> Iterator[Warden]:
    """A warden for the brokers of this folder; skipped where Java or Kafka's jars cannot be had."""
    try:
        find_java()
    except ConfigurationError as fault:
        pytest.skip(f"no Java for a Kafka broker: {fault}")
    try:
        fetch_kafka()
    except NotFetchedError as fault:
        pytest.skip(f"Kafka's jars cannot be fetched: {str(fault).splitlines()[0]}")
    with Warden() as warden:
        yield warden
    assert warden.mark not in marked_processes().values()


@pytest.fixture(scope="session")
def kafka_broker(kafka_warden: Warden, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker without login."""
    with KafkaBroker(kafka_warden, tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def login_broker(kafka_warden: Warden, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker that asks for a login; its own connection is Ada's, whose password has a quote in it."""
    users = {"ada": 'se"cret', "bob": "cGFzc3dvcmQ-unseen"}
    with KafkaBroker(kafka_warden, tmp_path_factory.mktemp("login"), users=users) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_connector() -> dict[str, str]:
    """The Spark configuration with the Kafka connector; skipped where it cannot be had."""
    try:
        return connector_settings()
    except NotFetchedError as fault:
        pytest.skip(f"Spark's Kafka connector cannot be fetched: {str(fault).splitlines()[0]}")


@pytest.fixture
def new_topic(kafka_broker: KafkaBroker) -> Callable[..., str]:
    """Make a topic of a name of its own, with `partitions`; give the name."""

    def make(partitions: int = 2) -> str:
        name = f"numbers-{next(_numbers)}"
        Topics(kafka_broker.connection).create(name, partitions=partitions)
        return name

    return make
