# SPDX-License-Identifier: Apache-2.0
"""A real RabbitMQ for the tests that need one: started when first asked for, gone at the end."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from penstock.adaptors.process.children import Warden
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.fanout import Fanout, declare, remove
from penstock.adaptors.rabbitmq.server import RabbitMQServer, find_rabbitmq
from penstock.errors import ConfigurationError

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQServer]:
    """A private server on the loopback."""
    try:
        find_rabbitmq()
    except ConfigurationError as fault:
        pytest.skip(str(fault))
    with Warden() as warden, RabbitMQServer(warden, tmp_path_factory.mktemp("rabbitmq")) as server:
        yield server


@pytest.fixture
def connection(rabbitmq: RabbitMQServer) -> RabbitMQConnection:
    """How to reach it."""
    return RabbitMQConnection(rabbitmq.url)


@pytest.fixture
def fanout(connection: RabbitMQConnection) -> Iterator[Fanout]:
    """An exchange with its two queues, for one test."""
    made = Fanout(f"test-{next(_numbers)}", monitor_limit=1000)
    declare(connection, made)
    yield made
    remove(connection, made)
