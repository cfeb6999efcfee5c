# SPDX-License-Identifier: Apache-2.0
"""Sends prepared records to a Kafka topic: asynchronously, idempotently, each with its delivery report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER, Delivery
from penstock.errors import AdaptorError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_METADATA_SECONDS = 10.0
_CLOSE_SECONDS = 1.0
_POLL_SECONDS = 0.001


class KafkaSink:
    """A topic to send to (`penstock.adaptors.produce.sink.Sink`).

    A record's key is its sequence number, so that records spread evenly over the partitions. Its timestamp is the
    millisecond at which it was due. Headers carry producer, sequence and the due instant in microseconds. The client
    itself resends what was not confirmed, without duplicates (idempotence).

    Parameters
    ----------
    connection, topic
        The destination. The topic must exist.
    producer
        Identifies this producer's records.
    linger_seconds
        How long the client may wait for more records before it sends those it has.

    Raises
    ------
    AdaptorError
        The broker cannot be reached, or has no such topic.
    """

    def __init__(
        self, connection: KafkaConnection, topic: str, producer: str, *, linger_seconds: float = 0.001
    ) -> None:
        self._topic = topic
        self._faults = ClientFaults()
        self._reasons: Counter[str] = Counter()
        self._confirmed = self._failed = 0
        self._producer_header = producer.encode()
        extra: dict[str, str | int | float | bool] = {
            "linger.ms": 1e3 * linger_seconds,
            "enable.idempotence": True,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 262_144,
            "message.timeout.ms": 60_000,
        }
        self._client = connection.producer(extra, self._faults)
        self._check_topic(connection)

    def prepare(self, first: int, due_us: NDArray[np.int64], bodies: Sequence[bytes]) -> list[Any]:
        """Return the records with keys, headers and timestamps."""
        producer = (PRODUCER_HEADER, self._producer_header)
        return [
            (b"%d" % number, body, us // 1000,
             [producer, (SEQUENCE_HEADER, b"%d" % number), (DUE_HEADER, b"%d" % us)])
            for number, us, body in zip(range(first, first + len(bodies)), due_us.tolist(), bodies, strict=True)
        ]  # fmt: skip

    def send(self, records: Sequence[Any]) -> int:
        """Put records into the client's buffer, from which its own thread sends them."""
        topic, report, send = self._topic, self._report, self._client.produce
        taken = 0
        try:
            for key, body, timestamp, headers in records:
                send(topic, body, key, timestamp=timestamp, headers=headers, on_delivery=report)
                taken += 1
        except BufferError:  # too many are unconfirmed
            self._client.poll(0)
        return taken

    def turn(self, seconds: float) -> None:
        """Process delivery reports for about `seconds`."""
        until = time.monotonic() + seconds
        while True:
            left = until - time.monotonic()
            taken = self._client.poll(max(0.0, left))
            left = until - time.monotonic()
            if left <= 0:
                return
            if taken == 0 and left < _POLL_SECONDS:  # the client waits whole milliseconds, or not at all
                time.sleep(left)
                return

    def delivery(self) -> Delivery:
        """Return what the broker has confirmed and refused so far."""
        faults = tuple(f"{reason} ({count:,} records)" for reason, count in self._reasons.most_common())
        return Delivery(self._confirmed, self._failed, faults=faults)

    def close(self) -> None:
        """Drop what is still unsent and close the connection."""
        self._client.purge()
        self._client.flush(_CLOSE_SECONDS)

    def _report(self, fault: KafkaError | None, _message: Message) -> None:
        if fault is None:
            self._confirmed += 1
        else:
            self._failed += 1
            self._reasons[fault.str()] += 1

    def _check_topic(self, connection: KafkaConnection) -> None:
        from confluent_kafka import KafkaError, KafkaException

        try:
            known = self._client.list_topics(self._topic, timeout=_METADATA_SECONDS).topics.get(self._topic)
        except KafkaException as fault:
            raise AdaptorError(
                f"Kafka at {connection.bootstrap_servers} cannot be reached ({fault.args[0].str()}); is it running, "
                "and are address and login right?",
                target="Kafka", retryable=True,
            ) from fault  # fmt: skip
        if known is None or (known.error is not None and known.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
            raise AdaptorError(
                f"Kafka at {connection.bootstrap_servers} has no topic {self._topic!r}; create it first", target="Kafka"
            )
        if known.error is not None:
            raise AdaptorError(f"Kafka: topic {self._topic!r}: {known.error.str()}", target="Kafka")
