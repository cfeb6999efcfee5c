# SPDX-License-Identifier: Apache-2.0
"""How long the values of a topic's records are, from the first ones of each partition."""

from __future__ import annotations

import time

from penstock.adaptors.kafka.connection import KafkaConnection

_RECORDS = 1000
_PATIENCE_SECONDS = 10.0


def mean_value_bytes(connection: KafkaConnection, topic: str, partitions: int) -> float | None:
    """Return the mean length of the values of about the first thousand records; None: there are none to read."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer = connection.consumer()
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        lengths: list[int] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(lengths) < _RECORDS and time.monotonic() < deadline:
            got = consumer.consume(_RECORDS - len(lengths), timeout=1.0)
            if not got and lengths:
                break
            lengths += [len(message.value() or b"") for message in got if message.error() is None]
        return sum(lengths) / len(lengths) if lengths else None
    finally:
        consumer.close()
