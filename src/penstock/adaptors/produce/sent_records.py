# SPDX-License-Identifier: Apache-2.0
"""What a producer that was killed has sent into a topic, so that another can go on: none twice, and none left out.

The topic itself says so. A record carries its number, and always goes to the same partition (`KafkaSink`). Within a
partition numbers rise. But partitions are not equally far: what was on its way to one of them when the producer died
may be lost, while another has later records. So the tail of every partition is read, back to where all have come.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.ends import PartitionEnds
from penstock.adaptors.kafka.offsets import Partition
from penstock.adaptors.kafka.topics import TIMEOUT_SECONDS, Topics
from penstock.adaptors.produce.sent_load import SentRecord, SentRecords
from penstock.adaptors.produce.sink import DUE_HEADER, SEQUENCE_HEADER
from penstock.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_FIRST_STEP = 1000
_READ_SECONDS = 60.0


def find_sent(connection: KafkaConnection, topic: str) -> SentRecords | None:
    """Find out what is in a topic; None: nothing is.

    Raises
    ------
    ConfigurationError
        The topic is missing, holds records of another kind, or lost records that would have to be known.
    ClusterError
        The broker does not answer.
    """
    partitions = [(found.name, n) for found in Topics(connection).check([topic]) for n in range(found.partitions)]
    ends = PartitionEnds(connection, timeout_seconds=TIMEOUT_SECONDS)
    first, following = ends.first(partitions), ends.next(partitions)
    consumer = connection.consumer()
    try:
        while True:
            found = _find(consumer, partitions, first, following)
            # What the producer had passed to the network when it died may come a moment later.
            now_following = ends.next(partitions)
            if now_following == following:
                return found
            following = now_following
    finally:
        consumer.close()


def _find(
    consumer: Consumer, partitions: Sequence[Partition], first: dict[Partition, int], following: dict[Partition, int]
) -> SentRecords | None:
    newest: dict[Partition, SentRecord] = {}
    for partition in partitions:
        if following[partition] > first[partition]:
            newest[partition] = _read(consumer, partition, following[partition] - 1, following[partition])[0]
        elif first[partition] > 0:
            raise _forgotten(partition)
    if not newest:
        return None
    # A partition without a record says nothing about how far the load has come: then all the others are read.
    all_up_to = -1 if len(newest) < len(partitions) else min(record.number for record in newest.values())
    beyond: set[int] = set()
    for partition, last in newest.items():
        if last.number > all_up_to:
            tail = _tail(consumer, partition, first[partition], following[partition], all_up_to)
            beyond.update(record.number for record in tail if record.number > all_up_to)
    return SentRecords(max(newest.values(), key=lambda record: record.number), all_up_to + 1, frozenset(beyond))


def _tail(consumer: Consumer, partition: Partition, first: int, following: int, down_to: int) -> list[SentRecord]:
    """The records of a partition back to the first whose number is not above `down_to`."""
    step = _FIRST_STEP
    while True:
        start = max(first, following - step)
        found = _read(consumer, partition, start, following)
        if found[0].number <= down_to or start == 0:
            return found
        if start == first:
            raise _forgotten(partition)
        step *= 4


def _read(consumer: Consumer, partition: Partition, start: int, stop: int) -> list[SentRecord]:
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(*partition, start)])
    found: list[SentRecord] = []
    position, deadline = start, time.monotonic() + _READ_SECONDS
    while position < stop:
        for message in consumer.consume(min(1000, stop - position), timeout=1.0):
            if message.error() is None:
                found.append(_record(message, partition))
                position = (message.offset() or 0) + 1
        if time.monotonic() > deadline:
            raise ClusterError(
                f"Kafka does not hand out the records of topic {partition[0]}, partition {partition[1]}, from offset "
                f"{position}; check the broker, and try again",
                target=partition[0],
            )
    return found


def _record(message: Message, partition: Partition) -> SentRecord:
    headers = dict(message.headers() or [])
    try:
        return SentRecord(int(headers[SEQUENCE_HEADER] or ""), int(headers[DUE_HEADER] or ""))
    except (KeyError, ValueError):
        raise ConfigurationError(
            f"resume: topic {partition[0]}, partition {partition[1]}, offset {message.offset()} is not a record of "
            "the run's producer: others write to this topic; start a new run under another name",
            field="resume",
        ) from None


def _forgotten(partition: Partition) -> ConfigurationError:
    return ConfigurationError(
        f"resume: topic {partition[0]}, partition {partition[1]} no longer has the records that show how far the load "
        "came (broker.retention); start a new run",
        field="resume",
    )
