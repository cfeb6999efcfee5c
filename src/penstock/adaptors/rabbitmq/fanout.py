# SPDX-License-Identifier: Apache-2.0
"""MEAD's fanout: producers publish to an exchange that feeds a queue for the pipeline and one for the monitor.

The exchange copies every message to both queues, so the monitor sees each arrival and takes none from the pipeline
(MEAD, Sec. VI). The monitor's queue is bounded and lives in memory: while nobody watches, the oldest messages are
dropped, and producers and pipeline notice nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adaptors.produce.sent_load import SentRecord
from penstock.adaptors.produce.sink import DUE_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection, close_quietly
from penstock.adaptors.rabbitmq.message import instant_us, whole
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from pika import BlockingConnection

_LONGEST_NAME_BYTES = 255
_NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class Fanout:
    """Names of the exchange and of its two queues.

    Parameters
    ----------
    exchange
        Where producers publish.
    queue, monitor_queue
        The queues of the pipeline and of the monitor. None: the exchange's name with ``.pipeline`` and ``.monitor``.
        An empty `monitor_queue` declares none.
    monitor_limit
        Most messages that wait for the monitor. Older ones are dropped.
    monitor_ttl_seconds
        The longest time a message waits for the monitor.
    is_durable
        Whether exchange and pipeline queue survive a restart of the server.
    newest_queue
        A queue that holds the newest message alone, which shows how far a load has come. Empty: there is none.
    is_ours
        Whether the exchange is created and removed. If not, it must exist, and be a fanout.
    """

    exchange: str
    queue: str | None = None
    monitor_queue: str | None = None
    monitor_limit: int = 10_000
    monitor_ttl_seconds: float = 60.0
    is_durable: bool = True
    newest_queue: str = ""
    is_ours: bool = True

    def __post_init__(self) -> None:
        for field in ("exchange", "queue", "monitor_queue", "newest_queue"):
            name = getattr(self, field)
            if name is not None and len(name.encode()) > _LONGEST_NAME_BYTES:
                raise ConfigurationError(f"{field}: {name[:40]!r}... is longer than 255 bytes; shorten it", field=field)
        if not self.exchange:
            raise ConfigurationError("exchange: is empty; give it a name", field="exchange")
        if self.queue == "":
            raise ConfigurationError("queue: is empty; give it a name or leave it out", field="queue")
        if self.monitor_limit < 1:
            raise ConfigurationError(
                f"monitor_limit: {self.monitor_limit} is below 1; give at least 1", field="monitor_limit"
            )
        if not self.monitor_ttl_seconds > 0:
            raise ConfigurationError(
                f"monitor_ttl_seconds: {self.monitor_ttl_seconds!r} is not above 0; give seconds such as 60",
                field="monitor_ttl_seconds",
            )

    @property
    def pipeline_queue_name(self) -> str:
        """The queue that the pipeline reads."""
        return self.queue if self.queue is not None else f"{self.exchange}.pipeline"

    @property
    def monitor_queue_name(self) -> str:
        """The queue that the monitor reads, empty if there is none."""
        return self.monitor_queue if self.monitor_queue is not None else f"{self.exchange}.monitor"


def declare(connection: RabbitMQConnection, fanout: Fanout) -> None:
    """Create the exchange and its queues. Existing ones stay as they are.

    Raises
    ------
    AdaptorError
        The server is unreachable or refuses the user, or one of them exists with other properties.
    ConfigurationError
        An exchange that is not ours is not a fanout.
    """
    link = connection.open()
    try:
        with connection.explained():
            if not fanout.is_ours:
                _check_exchange(link, fanout.exchange)
            channel = link.channel()
            if fanout.is_ours:
                channel.exchange_declare(fanout.exchange, exchange_type="fanout", durable=fanout.is_durable)
            channel.queue_declare(fanout.pipeline_queue_name, durable=fanout.is_durable)
            channel.queue_bind(fanout.pipeline_queue_name, fanout.exchange)
            if fanout.monitor_queue_name:
                channel.queue_declare(
                    fanout.monitor_queue_name,
                    arguments={
                        "x-max-length": fanout.monitor_limit,
                        "x-overflow": "drop-head",
                        "x-message-ttl": max(1, round(fanout.monitor_ttl_seconds * 1000)),
                    },
                )
                channel.queue_bind(fanout.monitor_queue_name, fanout.exchange)
            if fanout.newest_queue:
                newest_only = {"x-max-length": 1, "x-overflow": "drop-head"}
                channel.queue_declare(fanout.newest_queue, durable=fanout.is_durable, arguments=newest_only)
                channel.queue_bind(fanout.newest_queue, fanout.exchange)
    finally:
        close_quietly(link)


def remove(connection: RabbitMQConnection, fanout: Fanout) -> None:
    """Delete the queues, with the messages in them, and the exchange if it is ours. What is missing is ignored."""
    link = connection.open()
    try:
        with connection.explained():
            channel = link.channel()
            queues = (fanout.pipeline_queue_name, fanout.monitor_queue_name, fanout.newest_queue)
            for queue in filter(None, queues):
                channel.queue_delete(queue)
            if fanout.is_ours:
                channel.exchange_delete(fanout.exchange)
    finally:
        close_quietly(link)


def why_not_free(connection: RabbitMQConnection, queue: str) -> str | None:
    """Why a queue cannot be taken for a new pipeline; None: it does not exist, or is empty and nobody reads it."""
    from pika.exceptions import ChannelClosedByBroker

    link = connection.open()
    try:
        with connection.explained():
            try:
                found = link.channel().queue_declare(queue, passive=True).method
            except ChannelClosedByBroker as fault:
                if fault.reply_code == _NOT_FOUND:
                    return None
                raise
    finally:
        close_quietly(link)
    if found.consumer_count:
        return f"queue {queue} is being read"
    return f"queue {queue} holds {found.message_count:,} messages" if found.message_count else None


def newest_message(connection: RabbitMQConnection, queue: str) -> SentRecord | None:
    """The newest message that was published, by a queue that holds it alone (`Fanout.newest_queue`); it stays there.

    Raises
    ------
    ConfigurationError
        It is not one of Penstock's producer.
    """
    link = connection.open()
    try:
        with connection.explained():
            method, properties, _ = link.channel().basic_get(queue, auto_ack=False)
    finally:
        close_quietly(link)  # it goes back
    if method is None or properties is None:
        return None
    headers = properties.headers or {}
    number, due_us = whole(headers.get(SEQUENCE_HEADER)), instant_us(headers.get(DUE_HEADER))
    if number is None or due_us is None:
        raise ConfigurationError(
            f"resume: queue {queue} holds a message that is not of the run's producer: others publish to its exchange; "
            "start a new run under another name",
            field="resume",
        )
    return SentRecord(number, due_us)


def _check_exchange(link: BlockingConnection, exchange: str) -> None:
    from pika.exceptions import ChannelClosedByBroker

    link.channel().exchange_declare(exchange, passive=True)
    try:
        link.channel().exchange_declare(exchange, exchange_type="fanout", durable=True)
    except ChannelClosedByBroker as fault:
        # Of another kind it would give our queues nothing, without a word. Other properties are its owner's affair.
        if "'type'" in fault.reply_text:
            raise ConfigurationError(
                f"arrivals.exchange: {exchange!r} is not a fanout exchange; bind one to it, and name that",
                field="arrivals.exchange",
            ) from fault
