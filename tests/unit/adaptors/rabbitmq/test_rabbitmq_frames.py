# SPDX-License-Identifier: Apache-2.0
"""Frames made ahead of time are those pika would make; confirms are counted in any order."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

import pika
from pika import frame, spec
from pika.connection import Connection

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq.amqp_frames import FrameTemplate
from penstock.adaptors.rabbitmq.confirms import Confirms
from penstock.adaptors.rabbitmq.message import Message


def _decoded(data: bytes) -> list[Any]:
    frames = []
    while data:
        used, decoded = frame.decode_frame(data)
        assert decoded is not None
        frames.append(decoded)
        data = data[used:]
    return frames


@pytest.mark.parametrize("size", [0, 1, 100, 4088, 4089, 10_000])
def test_a_message_reads_back_as_it_was_meant(size: int) -> None:
    """Exchange, key, headers, timestamp and body of any size come out of pika's own decoder."""
    body = bytes(i % 251 for i in range(size))
    template = FrameTemplate(1, "ex", "key", "me", 4096, is_persistent=True)
    template.message(1, 1, b"another before")
    method, header, *bodies = _decoded(template.message(77, 1_700_000_000_123_456, body))
    assert isinstance(method.method, spec.Basic.Publish)
    assert (method.method.exchange, method.method.routing_key, method.method.mandatory) == ("ex", "key", True)
    assert header.body_size == size
    assert header.properties.headers == {
        PRODUCER_HEADER: "me", SEQUENCE_HEADER: 77, DUE_HEADER: 1_700_000_000_123_456,
    }  # fmt: skip
    assert (header.properties.timestamp, header.properties.delivery_mode) == (1_700_000_000, 2)
    assert b"".join(part.fragment for part in bodies) == body
    assert all(len(part.fragment) <= 4088 for part in bodies)


def test_the_source_reads_what_the_producer_wrote() -> None:
    """A delivered message keeps sequence and due instant; AMQP's own timestamp is second choice."""
    template = FrameTemplate(1, "ex", "key", "me", 4096, is_persistent=False)
    properties = _decoded(template.message(5, 2_500_000, b"x"))[1].properties
    deliver = spec.Basic.Deliver("tag", 9, True, "ex", "key")
    message = Message.of(deliver, properties, b"x")
    assert (message.producer, message.sequence, message.due_us, message.published_us) == ("me", 5, 2_500_000, 2_500_000)
    assert (message.delivery_tag, message.redelivered, message.identity) == (9, True, "me:5")
    plain = Message.of(deliver, pika.BasicProperties(timestamp=7, headers={SEQUENCE_HEADER: "x"}), b"x")
    assert (plain.published_us, plain.due_us, plain.sequence, plain.identity) == (7_000_000, None, None, None)


def test_pika_still_takes_ready_made_frames() -> None:
    """The call without a public name that the producer uses is there and takes a list of bytes."""
    sent: list[bytes] = []

    class FakeConnection:
        bytes_sent = frames_sent = 0

        def _adapter_emit_data(self, data: bytes) -> None:
            sent.append(data)

    Connection._output_marshaled_frames(FakeConnection(), [b"abc"])
    assert sent == [b"abc"]


def test_confirms_count_each_tag_once() -> None:
    """Single and multiple confirmations in any order settle every tag once."""
    confirms = Confirms()
    assert [confirms.settle(tag, multiple=False) for tag in (3, 1, 3)] == [1, 1, 0]
    assert (confirms.settled_below, confirms.settled) == (1, 2)
    assert confirms.is_settled(3)
    assert not confirms.is_settled(2)
    assert confirms.settle(5, multiple=True) == 3
    assert (confirms.settled_below, confirms.settled) == (5, 5)
