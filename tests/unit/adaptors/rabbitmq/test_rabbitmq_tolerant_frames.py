# SPDX-License-Identifier: Apache-2.0
"""Frames with headers that pika cannot read: the header is left out, and the message and the connection stay."""

from __future__ import annotations

import inspect
import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")
pytest.importorskip("pyarrow", reason="needs the extra [spark]")

from pika import BasicProperties, BlockingConnection, SelectConnection, exceptions, frame
from tests.unit.adaptors.rabbitmq.fake_broker import DamagedProperties, FakeBroker, delivery, stamped, with_header

from penstock.adaptors.produce.sink import DUE_HEADER
from penstock.adaptors.rabbitmq.connection import close_quietly
from penstock.adaptors.rabbitmq.consumer import SpoolingConsumer
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import read
from penstock.adaptors.rabbitmq.tolerant_frames import MOST_NAMED, read_frame
from penstock.errors import AdaptorError

MICROSECONDS = 1_795_000_000_123_456
UNREADABLE = [
    stamped(1_795_000_000_123),
    stamped(MICROSECONDS),
    stamped(2**64 - 1),
    with_header(b"d", struct.pack(">d", float("nan"))),
    with_header(b"d", struct.pack(">d", float("inf"))),
    with_header(b"F", b"\0\0\0\x0b\x01aT" + MICROSECONDS.to_bytes(8, "big")),
    with_header(b"A", b"\0\0\0\x09T" + MICROSECONDS.to_bytes(8, "big")),
    with_header(b"A", b"".join(b"A" + (5 * left).to_bytes(4, "big") for left in range(20_000, -1, -1))[1:]),
]


def _until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _consume_for_a_while(link: BlockingConnection) -> None:
    link.channel().basic_consume("q", lambda *_: None)
    link.process_data_events(10.0)


def _header(properties: BasicProperties) -> BasicProperties:
    """What is read of the header frame of a message with these properties."""
    encoded = frame.Header(1, 4, properties).marshal()
    used, found = read_frame(encoded + b"the next")
    assert (used, found.body_size, found.channel_number) == (len(encoded), 4, 1)
    return found.properties


@pytest.mark.parametrize("properties", UNREADABLE)
def test_a_header_that_cannot_be_read_is_left_out_and_named(properties: BasicProperties) -> None:
    """The other headers and properties of the message are read."""
    properties.message_id, properties.content_type, properties.timestamp = "m7", "text/plain", 7
    found = _header(properties)
    assert found.headers == {"colour": "red"}
    assert (found.message_id, found.content_type, found.timestamp) == ("m7", "text/plain", 7)
    (text,) = found.unreadable
    assert "'sent'" in text


def test_behind_a_value_of_unknown_kind_the_headers_end() -> None:
    """How long it is, nobody knows. Those before it are read, and the properties behind the headers."""
    found = _header(with_header(b"b", b"\x01\x03odd?123", message_id="m7"))
    assert (found.headers, found.message_id) == ({"sent": 1}, "m7")
    (text,) = found.unreadable
    assert "'odd'" in text
    assert "after" in text


def test_properties_that_end_too_early_are_left_out() -> None:
    """Nothing is read of them, and the message is there."""
    found = _header(DamagedProperties(lambda encoded: encoded[:9], headers={"a": "b" * 50}))
    assert (found.headers, found.message_id) == (None, None)
    assert len(found.unreadable) == 1


def test_few_of_many_unreadable_headers_are_named() -> None:
    """A line of the log stays a line."""
    many = b"".join(b"\x02%02dT" % number + b"\xff" * 8 for number in range(50))
    properties = with_header(b"V", many)
    found = _header(properties)
    assert len(found.unreadable) == MOST_NAMED + 1
    assert found.unreadable[-1] == f"{50 - MOST_NAMED} more headers"


def test_good_frames_are_read_as_pika_reads_them() -> None:
    """Ours is only for what pika's cannot."""
    encoded = delivery("tag", BasicProperties(headers={"a": 1, "b": [None, {"c": True}]}, message_id="m"))
    while encoded:
        (used, found), (pikas, expected) = read_frame(encoded), frame.decode_frame(encoded)
        assert (used, found) == (pikas, expected)
        encoded = encoded[used:]
    assert read_frame(b"\x01\0") == (0, None)


@pytest.mark.parametrize(
    "received",
    [
        b"\x01\0\x01\0\0\0\x04\xff\xff\xff\xff\xce",  # a method that there is not
        b"\x01\0\x01\0\0\0\x00\xce",
        b"\x02\0\x01\0\0\0\x0c\0\x3d" + bytes(10) + b"\xce",  # the header of a class without content
        b"\x02\0\x01\0\0\0\x02\0\x3c\xce",
        b"\x03\0\x01\x7f\xff\xff\xff",  # its end would be gigabytes away
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
    ],
)
def test_what_is_no_frame_is_one_of_pikas_errors(received: bytes) -> None:
    """It says so, whatever pika's reading stumbled over, and waits for nothing."""
    with pytest.raises(exceptions.InvalidFrameError, match="not AMQP"):
        read_frame(received)


def test_pika_still_reads_frames_where_we_do() -> None:
    """The names without a public one that our connections use."""
    assert list(inspect.signature(SelectConnection._read_frame).parameters) == ["self"]
    assert "_impl_class" in inspect.signature(BlockingConnection.__init__).parameters


@pytest.mark.parametrize("stamp", [MICROSECONDS // 1000, MICROSECONDS, 2**64 - 1])
def test_the_source_takes_a_message_whose_header_cannot_be_read(tmp_path: Path, stamp: int) -> None:
    """It is delivered once, stays in the stream with its body, is counted and set aside; the next one comes too."""
    good = BasicProperties(message_id="m8")

    def sent(consumer: str) -> bytes:
        return delivery(consumer, stamped(stamp, message_id="m7")) + delivery(consumer, good, tag=2)

    with FakeBroker(sent) as broker:
        spool = Spool(tmp_path / "spool")
        consumer = SpoolingConsumer(broker.connection, "q", spool, prefetch=10, max_bytes=10_000)
        consumer.start(0)
        _until(lambda: consumer.next_number >= 2 or broker.connections > 1)
        rows = [row for batch in read(consumer.find(0, 2)) for row in batch.to_pylist()]
        consumer.stop()
    assert [(row["message_id"], row["body"]) for row in rows] == [("m7", b"body"), ("m8", b"body")]
    assert (consumer.unreadable, broker.connections) == (1, 1)
    (line,) = (tmp_path / "spool" / "poison.jsonl").read_text().splitlines()
    assert "'sent'" in json.loads(line)["unreadable"][0]


def test_the_tap_takes_a_message_whose_header_cannot_be_read() -> None:
    """Its due instant is beside that header, and counts."""
    properties = stamped(MICROSECONDS, headers={DUE_HEADER: 5_000_000_000})
    with FakeBroker(lambda consumer: delivery(consumer, properties)) as broker:
        tap = QueueTap(broker.connection, "q")
        with tap:
            _until(lambda: tap.counts().received > 0 or broker.connections > 1)
            (run,) = tap.take()
    assert run.times.tolist() == [5000.0]
    assert broker.connections == 1


@pytest.mark.parametrize("sent", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x01\0\x01\0\0\0\x04\xff\xff\xff\xff\xce"])
def test_a_server_that_sends_no_amqp_is_named_as_one(sent: bytes) -> None:
    """What came is no frame: the words say so, and not that the server cannot be reached."""
    with FakeBroker(lambda _: sent) as broker:
        link = broker.connection.open()
        try:
            with pytest.raises(AdaptorError, match="not AMQP") as told, broker.connection.explained():
                _consume_for_a_while(link)
        finally:
            close_quietly(link)
    assert told.value.retryable
    assert "cannot be reached" not in str(told.value)
