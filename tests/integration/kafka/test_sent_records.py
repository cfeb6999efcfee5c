# SPDX-License-Identifier: Apache-2.0
"""How far a killed producer came, read back from a real broker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.produce.kafka_sink import KafkaSink
from penstock.adaptors.produce.sent_load import SentRecord, SentRecords
from penstock.adaptors.produce.sent_records import find_sent
from penstock.adaptors.produce.sink import DUE_HEADER, SEQUENCE_HEADER
from penstock.errors import ConfigurationError

pytestmark = pytest.mark.kafka

SECONDS = 60.0


def put(connection: KafkaConnection, topic: str, partition: int, numbers: Sequence[int]) -> None:
    """Put records of a load into one partition."""
    producer = connection.producer()
    for number in numbers:
        headers: dict[str, str | bytes | None] = {SEQUENCE_HEADER: b"%d" % number, DUE_HEADER: b"%d" % (1000 * number)}
        producer.produce(topic, b"", b"%d" % number, partition=partition, headers=headers)
    assert producer.flush(SECONDS) == 0


def test_what_is_missing_behind_the_foremost_partition_is_found(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str]
) -> None:
    """One partition is far ahead of the other: the numbers between that never came are missing, the others are not."""
    topic, connection = new_topic(2), kafka_broker.connection
    assert find_sent(connection, topic) is None
    put(connection, topic, 0, range(0, 9000, 2))
    found = find_sent(connection, topic)
    assert found is not None
    assert found.missing(4) == [range(1, 2), range(3, 4)]
    put(connection, topic, 1, range(1, 2000, 2))
    found = find_sent(connection, topic)
    assert found == SentRecords(SentRecord(8998, 8_998_000), 2000, frozenset(range(2000, 9000, 2)))
    assert found.missing(2005) == [range(2001, 2002), range(2003, 2004)]
    assert found.missing(9001)[-1] == range(8999, 9001)


def test_a_record_always_goes_to_the_same_partition(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """Two producers put the same numbers into the same partitions, on which it rests that none is sent twice."""
    topic, connection = new_topic(3), kafka_broker.connection
    for name in ("first", "second"):
        sink = KafkaSink(connection, topic, name)
        assert sink.send(sink.prepare(0, np.arange(300), [b""] * 300)) == 300
        while sink.delivery().confirmed < 300:
            sink.turn(0.1)
        sink.close()
    consumer = connection.consumer({"auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    places: dict[bytes, set[int]] = {}
    read = 0
    while read < 600:
        for message in consumer.consume(600, timeout=SECONDS):
            assert message.error() is None
            places.setdefault(bytes(message.key() or b""), set()).add(message.partition() or 0)
            read += 1
    consumer.close()
    assert len(places) == 300
    assert {len(partitions) for partitions in places.values()} == {1}


def test_records_of_others_are_refused(kafka_broker: KafkaBroker, new_topic: Callable[..., str]) -> None:
    """A record without a number cannot be counted."""
    topic = new_topic(1)
    producer = kafka_broker.connection.producer()
    producer.produce(topic, b"x")
    assert producer.flush(SECONDS) == 0
    with pytest.raises(ConfigurationError, match="offset 0 is not a record of the run's producer"):
        find_sent(kafka_broker.connection, topic)
