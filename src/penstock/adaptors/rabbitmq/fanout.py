# SPDX-License-Identifier: Apache-2.0
"""MEAD's fanout: producers publish to an exchange that feeds a queue for the pipeline and one for the monitor.

The exchange copies every message to both queues, so the monitor sees each arrival and takes none from the pipeline
(MEAD, Sec. VI). The monitor's queue is bounded and lives in memory: while nobody watches, the oldest messages are
dropped, and producers and pipeline notice nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection, close_quietly
from penstock.errors import ConfigurationError

_LONGEST_NAME_BYTES = 255


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
    """

    exchange: str
    queue: str | None = None
    monitor_queue: str | None = None
    monitor_limit: int = 10_000
    monitor_ttl_seconds: float = 60.0
    is_durable: bool = True

    def __post_init__(self) -> None:
        for field in ("exchange", "queue", "monitor_queue"):
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
    """
    link = connection.open()
    try:
        with connection.explained():
            channel = link.channel()
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
    finally:
        close_quietly(link)


def remove(connection: RabbitMQConnection, fanout: Fanout) -> None:
    """Delete the exchange and its queues, with the messages in them. Those that do not exist are ignored."""
    link = connection.open()
    try:
        with connection.explained():
            channel = link.channel()
            for queue in filter(None, (fanout.pipeline_queue_name, fanout.monitor_queue_name)):
                channel.queue_delete(queue)
            channel.exchange_delete(fanout.exchange)
    finally:
        close_quietly(link)
