# SPDX-License-Identifier: Apache-2.0
"""Messages with properties that no row can hold: the property is left out and counted, the stream goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
pytest.importorskip("pyarrow", reason="needs the extra [spark]")

from pika import BasicProperties
from pika.spec import Basic

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.consumer import SpoolingConsumer
from penstock.adaptors.rabbitmq.message import Message
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import read

NOBODY = RabbitMQConnection("amqp://127.0.0.1:1/")
DELIVERED = Basic.Deliver(routing_key="k", delivery_tag=7)


@pytest.mark.parametrize(
    "properties",
    [
        BasicProperties(timestamp=1_767_225_600_123_456),  # microseconds, where AMQP wants seconds
        BasicProperties(timestamp=2**64 - 1),
        BasicProperties(headers={DUE_HEADER: 2**62}),
        BasicProperties(headers={DUE_HEADER: -5}),
        BasicProperties(headers={PRODUCER_HEADER: "p", SEQUENCE_HEADER: 2**63}),
    ],
)
def test_a_property_beyond_all_rows_is_left_out(tmp_path: Path, properties: BasicProperties) -> None:
    """The message is in the spool with its body, and says what of it could not be read."""
    message = Message.of(DELIVERED, properties, b"body")
    spool = Spool(tmp_path / "spool")
    spool.begin(0)
    spool.append([message])
    (row,) = [row for batch in read(spool.find(0, 1)) for row in batch.to_pylist()]
    spool.close()
    assert (row["body"], row["published"], row["sequence"]) == (b"body", None, None)
    assert len(message.unreadable) == 1


def test_a_good_message_has_nothing_unreadable() -> None:
    """Seconds since 1970 are a time of publication."""
    message = Message.of(DELIVERED, BasicProperties(timestamp=1_767_225_600), b"")
    assert (message.published_us, message.unreadable) == (1_767_225_600_000_000, ())


def test_unreadable_properties_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The log names the first, and then a count now and then, not a line for each."""
    spool = Spool(tmp_path / "spool")
    consumer = SpoolingConsumer(NOBODY, "q", spool, prefetch=10, max_bytes=10_000)
    for _ in range(50):
        consumer._on_message(None, DELIVERED, BasicProperties(timestamp=2**50), b"")
    spool.close()
    assert consumer.unreadable == 50
    lines = [record.getMessage() for record in caplog.records if "timestamp" in record.getMessage()]
    assert [line.split()[0] for line in lines] == ["1", "10"]


def test_the_tap_takes_no_time_from_beyond_the_calendar() -> None:
    """A due instant that cannot be one counts as absent: the message arrived when it was received."""
    tap = QueueTap(NOBODY, "q")
    tap._on_message(None, None, BasicProperties(headers={DUE_HEADER: 2**62}), b"")
    (run,) = tap.take()
    assert 1_500_000_000 < run.times[0] < 200_000_000_000
