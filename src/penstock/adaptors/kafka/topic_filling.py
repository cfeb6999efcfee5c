# SPDX-License-Identifier: Apache-2.0
"""Fills a topic as fast as the broker takes it: for queries that are measured with everything waiting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

_PATIENCE_SECONDS = 60.0
_BATCH_BYTES = 8000
"""Of a batch of records in the topic: brokers hand out whole batches, so large ones would make small fetches large."""
_POLL_EVERY = 5000


def fill_topic(connection: KafkaConnection, topic: str, partitions: int, values: Iterable[bytes]) -> Sequence[int]:
    """Send values, by turns to each partition; returns how many records each partition got.

    Raises
    ------
    ClusterError
        The broker did not take all of them.
    """
    refused: list[str] = []
    faults = ClientFaults()

    def hear(fault: KafkaError | None, _: Message) -> None:
        if fault is not None:
            refused.append(fault.str())

    client = connection.producer(
        {
            "linger.ms": 20,
            "batch.size": _BATCH_BYTES,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 262_144,
            "delivery.report.only.error": True,
        },
        faults,
    )
    counts = [0] * partitions
    sent = iter(values)
    number = 0
    while part := list(islice(sent, _POLL_EVERY)):
        for value in part:
            place = number % partitions
            while True:
                try:
                    client.produce(topic, value, partition=place, on_delivery=hear)
                    break
                except BufferError:  # the broker takes them more slowly than they are made
                    client.poll(0.1)
            counts[place] += 1
            number += 1
        client.poll(0)
        if refused:
            break
    left = client.flush(_PATIENCE_SECONDS)
    if left or refused:
        why = refused[0] if refused else faults.last or f"{left:,} records were not taken"
        raise ClusterError(f"topic {topic!r} cannot be filled: {why}", target="Kafka")
    return counts
