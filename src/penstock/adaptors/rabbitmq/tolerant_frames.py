# SPDX-License-Identifier: Apache-2.0
"""Reads frames as pika does, and the headers of messages also where pika cannot.

A header with a time in milliseconds is a year that Python does not have, and pika raises within its connection, which
it closes then. The server delivers the message again on the next connection, and so on for ever. Here a header that
cannot be read is left out and named, and the message is delivered.

Only connections of `TolerantConnection` read so; pika is otherwise as it was, for others in the process use it too.
"""

from __future__ import annotations

import struct
from typing import Any

from pika import BasicProperties, SelectConnection, data, exceptions, frame, spec

from penstock.adaptors.rabbitmq.connection import NOT_AMQP

if not hasattr(SelectConnection, "_read_frame"):  # else a message would be delivered for ever again, without a word
    raise ImportError("this pika reads frames in another way than those from 1.3 to 1.4; install pika<1.5")

MOST_NAMED = 10
"""Headers of one message."""
LARGEST_BYTES = 512 << 20
"""No message of RabbitMQ is larger, and no frame. A size above is none, and its end would be waited for."""

_FRAME = struct.Struct(">BHI")
"""Type, channel, size."""
_CONTENT = struct.Struct(">HHQ")
"""Class, weight, size of the body."""
_SIZE = struct.Struct(">I")
_FLAGS = struct.Struct(">H")
_FIXED = {b"t": 1, b"b": 1, b"B": 1, b"U": 2, b"u": 2, b"s": 2, b"I": 4, b"i": 4, b"f": 4, b"L": 8, b"l": 8, b"d": 8,
          b"T": 8, b"D": 5, b"V": 0}  # fmt: skip
"""Bytes of a value, by its kind (AMQP 0-9-1 with RabbitMQ's errata)."""
_SIZED = (b"S", b"x", b"A", b"F")
"""Kinds of values that begin with how many bytes they have."""


class PartialProperties(BasicProperties):  # type: ignore[misc]  # pika is untyped
    """The properties of a message without those that cannot be read, which `unreadable` names."""

    unreadable: tuple[str, ...] = ()


class TolerantConnection(SelectConnection):  # type: ignore[misc]  # pika is untyped
    """A connection that a message does not end."""

    def _read_frame(self) -> tuple[int, Any]:
        return read_frame(self._frame_buffer)


def read_frame(received: bytes) -> tuple[int, Any]:
    """Return the first frame and how many bytes it has, or (0, None) while its end is missing.

    Raises
    ------
    pika.exceptions.InvalidFrameError
        The bytes are no frame.
    """
    try:
        used, found = frame.decode_frame(received)
    except Exception as fault:  # KeyError, ValueError, OverflowError, RecursionError, struct.error, pika's own
        # It has the whole frame, or its end was wrong.
        partial = _partial_header(received)
        if partial is None:
            raise exceptions.InvalidFrameError(f"{NOT_AMQP}: {type(fault).__name__}: {fault}") from fault
        return partial
    if found is None and len(received) >= _FRAME.size and _FRAME.unpack_from(received)[2] > LARGEST_BYTES:
        raise exceptions.InvalidFrameError(f"{NOT_AMQP}: begins with {received[:20]!r}")
    return used, found


def _partial_header(received: bytes) -> tuple[int, Any] | None:
    """The first frame if it begins the content of a message, whatever its properties are."""
    kind, channel, size = _FRAME.unpack_from(received)
    end = _FRAME.size + size
    is_whole = received[end : end + 1] == bytes([spec.FRAME_END])
    if kind != spec.FRAME_HEADER or not is_whole or size < _CONTENT.size:
        return None
    content = received[_FRAME.size : end]
    class_id, _, body_size = _CONTENT.unpack_from(content)
    if class_id != BasicProperties.INDEX:
        return None
    return end + 1, frame.Header(channel, body_size, _partial_properties(content[_CONTENT.size :]))


def _partial_properties(encoded: bytes) -> PartialProperties:
    properties = PartialProperties()
    try:
        begin, end = _place_of_headers(encoded)
        properties.decode(encoded[:begin] + _SIZE.pack(0) + encoded[end:])
    except Exception as fault:  # another one cannot be told from what is left
        properties = PartialProperties()
        properties.unreadable = (f"all properties: {fault}",)
        return properties
    properties.headers, unreadable = _readable(encoded[begin + _SIZE.size : end])
    more = len(unreadable) - MOST_NAMED
    properties.unreadable = (*unreadable[:MOST_NAMED], *([f"{more} more headers"] if more > 0 else ()))
    return properties


def _place_of_headers(encoded: bytes) -> tuple[int, int]:
    """Where the table of headers begins, with its size, and ends."""
    (flags,) = _FLAGS.unpack_from(encoded)
    at, newest = _FLAGS.size, flags
    while newest & 1:  # more flags follow, of properties that there are not yet
        (newest,) = _FLAGS.unpack_from(encoded, at)
        at += _FLAGS.size
    for flag in (BasicProperties.FLAG_CONTENT_TYPE, BasicProperties.FLAG_CONTENT_ENCODING):
        if flags & flag:
            at += 1 + encoded[at]
    if not flags & BasicProperties.FLAG_HEADERS:
        raise ValueError("cut short")
    end = at + _SIZE.size + _SIZE.unpack_from(encoded, at)[0]
    if end > len(encoded):
        raise ValueError("the headers end after the message's properties")
    return at, end


def _readable(table: bytes) -> tuple[dict[Any, Any], list[str]]:
    """The headers that can be read, and names of the others."""
    headers = dict[Any, Any]()
    unreadable = list[str]()
    at = 0
    while at < len(table):
        name, at = data.decode_short_string(table, at)
        kind, end = table[at : at + 1], _end_of_value(table, at)
        if end is None:
            unreadable.append(f"header {name!r} of kind {kind!r}, and what comes after it")
            break
        try:
            headers[name], _ = data.decode_value(table[at:end], 0)
        except Exception as fault:
            unreadable.append(f"header {name!r} of kind {kind!r}: {fault}")
        at = end
    return headers, unreadable


def _end_of_value(table: bytes, at: int) -> int | None:
    """Where a value ends; None: that cannot be known."""
    kind, begin = table[at : at + 1], at + 1
    size = _FIXED.get(kind)
    if kind in _SIZED and begin + _SIZE.size <= len(table):
        size = _SIZE.size + int(_SIZE.unpack_from(table, begin)[0])
    return None if size is None or begin + size > len(table) else begin + size
