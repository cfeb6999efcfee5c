# SPDX-License-Identifier: Apache-2.0
"""A server that speaks as much AMQP as a consumer asks of it, and then sends bytes that no pika has built."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Any

from pika import BasicProperties, frame, spec

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

CHANNEL = 1


class DamagedProperties(BasicProperties):  # type: ignore[misc]  # pika is untyped
    """Properties whose bytes are changed on their way out: what other clients send, and pika does not."""

    def __init__(self, damage: Callable[[bytes], bytes], **given: Any) -> None:
        super().__init__(**given)
        self._damage = damage

    def encode(self) -> list[bytes]:
        """The bytes that are sent."""
        return [self._damage(b"".join(super().encode()))]


def with_header(kind: bytes, value: bytes, **given: Any) -> DamagedProperties:
    """Properties with the headers `sent`, of this kind and with these bytes, and `colour`."""
    table = {"sent": None, "colour": "red"}
    grown = len(value)

    def damage(encoded: bytes) -> bytes:
        at = encoded.index(b"\x04sentV")
        size = int.from_bytes(encoded[at - 4 : at], "big") + grown
        return encoded[: at - 4] + size.to_bytes(4, "big") + b"\x04sent" + kind + value + encoded[at + 6 :]

    return DamagedProperties(damage, headers=table | given.pop("headers", {}), **given)


def stamped(value: int, **given: Any) -> DamagedProperties:
    """Properties with the header `sent`, which is an AMQP timestamp of this value."""
    return with_header(b"T", value.to_bytes(8, "big"), **given)


def delivery(consumer: str, properties: BasicProperties, body: bytes = b"body", tag: int = 1) -> bytes:
    """The frames of one message, delivered to a consumer."""
    deliver = spec.Basic.Deliver(consumer, tag, False, "", "key")
    frames = (frame.Method(CHANNEL, deliver), frame.Header(CHANNEL, len(body), properties), frame.Body(CHANNEL, body))
    return b"".join(part.marshal() for part in frames)


class FakeBroker:
    """Listens on the loopback. To whoever consumes it sends bytes, on each connection anew.

    Parameters
    ----------
    sent
        The bytes, given the tag of the consumer.
    """

    def __init__(self, sent: Callable[[str], bytes]) -> None:
        self._sent = sent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connections = 0
        self.connection = RabbitMQConnection(f"amqp://127.0.0.1:{self._listener.getsockname()[1]}/")
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10.0)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                with client, contextlib.suppress(OSError):
                    self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        received = b""
        client.settimeout(10.0)
        while True:
            data = client.recv(65_536)
            if not data:
                return
            received += data
            while True:
                used, asked = frame.decode_frame(received)
                if asked is None:
                    break
                received = received[used:]
                for answer in self._answers(asked):
                    client.sendall(answer)

    def _answers(self, asked: frame.Frame) -> list[bytes]:
        if isinstance(asked, frame.ProtocolHeader):
            start = spec.Connection.Start(0, 9, {"capabilities": {}}, "PLAIN", "en_US")
            return [frame.Method(0, start).marshal()]
        if not isinstance(asked, frame.Method):
            return []
        method = asked.method
        known: dict[type, object] = {
            spec.Connection.StartOk: spec.Connection.Tune(0, 131_072, 0),
            spec.Connection.Open: spec.Connection.OpenOk(),
            spec.Connection.Close: spec.Connection.CloseOk(),
            spec.Channel.Open: spec.Channel.OpenOk(),
            spec.Channel.Close: spec.Channel.CloseOk(),
            spec.Queue.Declare: spec.Queue.DeclareOk("q", 0, 0),
            spec.Queue.Purge: spec.Queue.PurgeOk(0),
            spec.Basic.Qos: spec.Basic.QosOk(),
        }
        if isinstance(method, spec.Basic.Consume):
            consuming = frame.Method(CHANNEL, spec.Basic.ConsumeOk(method.consumer_tag)).marshal()
            return [consuming, self._sent(method.consumer_tag)]
        if isinstance(method, spec.Basic.Cancel):
            return [frame.Method(CHANNEL, spec.Basic.CancelOk(method.consumer_tag)).marshal()]
        answer = known.get(type(method))
        return [] if answer is None else [frame.Method(asked.channel_number, answer).marshal()]
