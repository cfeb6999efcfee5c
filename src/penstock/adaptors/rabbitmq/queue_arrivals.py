# SPDX-License-Identifier: Apache-2.0
"""Arrivals of a RabbitMQ-fed query, for latency and backlog: from the spool's instants and the queue's length."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection, close_quietly
from penstock.adaptors.rabbitmq.spool_arrivals import SpoolArrivals
from penstock.errors import AdaptorError

if TYPE_CHECKING:
    from pika import BlockingConnection
    from pika.adapters.blocking_connection import BlockingChannel

_ASK_EVERY_SECONDS = 0.5


class QueueArrivals(SpoolArrivals):
    """When the records of a query arrived (`penstock.ports.ArrivalTimes`), including those still in the broker.

    Parameters
    ----------
    spool_dir
        The source's option ``spoolDir``.
    connection, queue
        The queue that the source reads. Only its length is asked; nothing is consumed.
    """

    def __init__(self, spool_dir: str | Path, connection: RabbitMQConnection, queue: str) -> None:
        super().__init__(spool_dir)
        self._connection = connection
        self._queue = queue
        self._guard = threading.Lock()
        self._link: BlockingConnection | None = None
        self._channel: BlockingChannel | None = None
        self._waiting: int | None = None
        self._arrived: int | None = None
        self._asked_at = float("-inf")

    def arrived_by(self, at: float) -> int | None:
        """Return how many records have arrived up to `at`, which must be about now. None while the broker is away."""
        received = super().arrived_by(at)
        waiting = self.waiting()
        return None if waiting is None else (received or 0) + waiting

    def waiting(self) -> int | None:
        """Return how many messages wait in the queue. None while the broker is away."""
        with self._guard:
            self._look()
            return self._waiting

    def arrived(self) -> int | None:
        """Return how many records have arrived: received, and waiting in the queue. None while the broker is away."""
        with self._guard:
            self._look()
            return self._arrived

    def close(self) -> None:
        """Close the connection."""
        with self._guard:
            self._drop()

    def _look(self) -> None:
        if time.monotonic() - self._asked_at >= _ASK_EVERY_SECONDS:
            received = self.received()  # both at one time, lest what moves between them counts twice
            self._waiting = self._ask()
            self._arrived = None if self._waiting is None else received + self._waiting
            self._asked_at = time.monotonic()

    def _ask(self) -> int | None:
        try:
            with self._connection.explained():
                if self._channel is None or not self._channel.is_open:
                    self._drop()
                    self._link = self._connection.open()
                    self._channel = self._link.channel()
                return int(self._channel.queue_declare(self._queue, passive=True).method.message_count)
        except AdaptorError:
            self._drop()
            return None

    def _drop(self) -> None:
        if self._link is not None:
            close_quietly(self._link)
        self._link = self._channel = None
