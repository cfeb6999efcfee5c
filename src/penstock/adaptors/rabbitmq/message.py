# SPDX-License-Identifier: Apache-2.0
"""A delivered message: the headers its producer sets, and the row of the Spark source.

The AMQP ``message_id`` identifies a message, or else the pair (producer, sequence) in its headers. A message with
neither cannot be recognised when it is delivered again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER

if TYPE_CHECKING:
    from pika import BasicProperties
    from pika.spec import Basic

SCHEMA = (
    "number BIGINT, body BINARY, routing_key STRING, delivery_tag BIGINT, redelivered BOOLEAN, duplicate_of BIGINT, "
    "message_id STRING, producer STRING, sequence BIGINT, published TIMESTAMP, arrival TIMESTAMP"
)
_TIME = pa.timestamp("us", tz="UTC")
ARROW_SCHEMA = pa.schema(
    [
        ("number", pa.int64()),
        ("body", pa.binary()),
        ("routing_key", pa.string()),
        ("delivery_tag", pa.int64()),
        ("redelivered", pa.bool_()),
        ("duplicate_of", pa.int64()),
        ("message_id", pa.string()),
        ("producer", pa.string()),
        ("sequence", pa.int64()),
        ("published", _TIME),
        ("arrival", _TIME),
    ]
)


_LATEST_US = 253_402_300_799_999_999
"""The end of the year 9999: no later instant fits into a row."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """One delivered message. Instants are microseconds since 1970, None if the producer gave none.

    `unreadable` names properties that no row can hold, such as a timestamp in microseconds where AMQP has seconds. They
    count as absent: a message that cannot be taken would come again, and again, and stop the stream.
    """

    body: bytes
    routing_key: str
    delivery_tag: int
    redelivered: bool
    message_id: str | None
    producer: str | None
    sequence: int | None
    published_us: int | None
    arrival_us: int
    due_us: int | None
    unreadable: tuple[str, ...] = ()

    @classmethod
    def of(cls, method: Basic.Deliver, properties: BasicProperties, body: bytes) -> Message:
        """Read what pika delivered. Headers of an unexpected type count as absent."""
        headers: dict[str, Any] = properties.headers or {}
        producer, sequence = headers.get(PRODUCER_HEADER), whole(headers.get(SEQUENCE_HEADER))
        due, stamp = whole(headers.get(DUE_HEADER)), whole(properties.timestamp)
        due_us, stamp_us = instant_us(due), instant_us(None if stamp is None else stamp * 1_000_000)
        number = sequence if sequence is None or abs(sequence) <= _LARGEST else None
        found = {
            f"timestamp {stamp} (seconds since 1970 are expected)": (stamp, stamp_us),
            f"{DUE_HEADER} {due}": (due, due_us),
            f"{SEQUENCE_HEADER} {sequence}": (sequence, number),
        }
        unreadable = [name for name, (given, read) in found.items() if given is not None and read is None]
        # pika gives short strings that are not UTF-8 as bytes, which no row takes.
        routing_key, message_id = method.routing_key or "", properties.message_id
        if isinstance(routing_key, bytes):
            unreadable.append(f"routing key {routing_key!r} (UTF-8 is expected)")
            routing_key = routing_key.decode(errors="replace")
        if isinstance(message_id, bytes):
            unreadable.append(f"message_id {message_id!r} (UTF-8 is expected)")
            message_id = None
        return cls(
            body=body,
            routing_key=routing_key,
            delivery_tag=method.delivery_tag or 0,
            redelivered=bool(method.redelivered),
            message_id=message_id,
            producer=producer if isinstance(producer, str) else None,
            sequence=number,
            published_us=due_us if due_us is not None else stamp_us,
            arrival_us=time.time_ns() // 1000,
            due_us=due_us,
            # Headers that our connections have left out (`tolerant_frames`).
            unreadable=(*unreadable, *getattr(properties, "unreadable", ())),
        )

    @property
    def identity(self) -> str | None:
        """The message's identity, or None if it has none."""
        return identity(self.message_id, self.producer, self.sequence)


def identity(message_id: str | None, producer: str | None, sequence: int | None) -> str | None:
    """Return the text that identifies a message, or None if nothing does.

    Examples
    --------
    >>> identity("m-7", None, None), identity(None, "p", 7), identity(None, None, 7)
    ('id:m-7', 'p:7', None)
    """
    if message_id:
        return f"id:{message_id}"
    return f"{producer}:{sequence}" if producer is not None and sequence is not None else None


def whole(value: object) -> int | None:
    """Return the value if it is a whole number, or else None."""
    # pika uses a subclass of int for long ones.
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def instant_us(value: object) -> int | None:
    """Return the value if it can be an instant in microseconds since 1970, or else None."""
    number = whole(value)
    return number if number is not None and 0 <= number <= _LATEST_US else None


def as_batch(messages: Sequence[Message], first: int, duplicate_of: Sequence[int | None]) -> pa.RecordBatch:
    """Return the rows of messages numbered from `first` on."""
    columns = [
        pa.array(range(first, first + len(messages)), pa.int64()),
        pa.array([m.body for m in messages], pa.binary()),
        pa.array([m.routing_key for m in messages], pa.string()),
        pa.array([m.delivery_tag for m in messages], pa.int64()),
        pa.array([m.redelivered for m in messages], pa.bool_()),
        pa.array(duplicate_of, pa.int64()),
        pa.array([m.message_id for m in messages], pa.string()),
        pa.array([m.producer for m in messages], pa.string()),
        pa.array([m.sequence for m in messages], pa.int64()),
        pa.array([m.published_us for m in messages], pa.int64()).cast(_TIME),
        pa.array([m.arrival_us for m in messages], pa.int64()).cast(_TIME),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ARROW_SCHEMA)
