# SPDX-License-Identifier: Apache-2.0
"""One connection that sends and receives messages, for code that may wait."""

from __future__ import annotations

import socket
import threading
from typing import Generic, Protocol, TypeVar

from penstock.adaptors.agent.wire import (
    FrameBuffer,
    FromAgent,
    Message,
    ToAgent,
    frame_of,
    read_from_agent,
    read_to_agent,
)

_Received = TypeVar("_Received")
_Received_co = TypeVar("_Received_co", covariant=True)


class Channel(Protocol[_Received_co]):
    """A connection as agents and controllers use it."""

    def send(self, message: Message) -> None:
        """Send one message; raises OSError."""
        ...

    def receive(self) -> _Received_co | None:
        """The next message, or None when the far side has gone; raises OSError and the errors of `wire`."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class _SocketChannel(Generic[_Received]):
    """Messages over a socket. Several threads may send; one receives. Received frames are limited to `limit_bytes`."""

    def __init__(self, connection: socket.socket, limit_bytes: int) -> None:
        self._connection = connection
        self._frames = FrameBuffer(limit_bytes)
        self._sending = threading.Lock()

    def set_patience(self, seconds: float) -> None:
        """Let sending and receiving raise TimeoutError after so long without a byte."""
        self._connection.settimeout(seconds)

    def raise_limit(self, limit_bytes: int) -> None:
        """Take longer frames from now on: the far side has proved who it is."""
        self._frames.limit_bytes = limit_bytes

    def send(self, message: Message) -> None:
        """Send one message."""
        frame = frame_of(message)
        with self._sending:
            self._connection.sendall(frame)

    def receive(self) -> _Received | None:
        """Return the next message, or None when the far side has gone.

        Raises
        ------
        MalformedMessageError
            The frame holds no message. The next one can still be received.
        OversizedMessageError
            The frame is too long.
        """
        while (payload := self._frames.next_payload()) is None:
            received = self._connection.recv(1 << 16)
            if not received:
                return None
            self._frames.feed(received)
        return self._read(payload)

    def close(self) -> None:
        """Close the connection, which also ends a `receive` that waits in another thread."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the far side closed first
        finally:
            self._connection.close()

    def _read(self, payload: bytes) -> _Received:
        raise NotImplementedError


class AgentChannel(_SocketChannel[ToAgent]):
    """The agent's end."""

    def _read(self, payload: bytes) -> ToAgent:
        return read_to_agent(payload)


class ControllerChannel(_SocketChannel[FromAgent]):
    """The controller's end."""

    def _read(self, payload: bytes) -> FromAgent:
        return read_from_agent(payload)
