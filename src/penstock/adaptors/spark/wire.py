# SPDX-License-Identifier: Apache-2.0
"""What a controller and an operator's agent say to each other: lines of JSON over a Unix domain socket.

A request is ``{"do": <verb>, ...}``; a reply is ``{"ok": true, ...}`` or
``{"ok": false, "kind": ..., "error": ...}``, its kind being
oversized, malformed, occupied, metrics, rejected or actuation.
Records travel as the text `penstock.records.encode` gives. Nothing received is ever unpickled or evaluated.

=========== ======================================== ============================================================
verb        carries                                  gives
=========== ======================================== ============================================================
hello       controller, protocol                     operator, can_set_cpu_share
collect     ack: number of the last reply received   number, telemetry
request     action                                   nothing; the allocation is asked for
release     nothing                                  nothing; everything is put back as it was
beat        nothing                                  nothing; the lease is renewed, as by every other verb
stop        nothing                                  nothing; the operator was told to end its query
stop_at_    seconds: how long the running batch may  nothing; it was told to end its query after that batch, and
border      take                                     to stay until its last batches were collected
=========== ======================================== ============================================================
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from penstock.errors import ConfigurationError

PROTOCOL = 1
REQUEST_LIMIT_BYTES = 64 << 10
REPLY_LIMIT_BYTES = 16 << 20

# The kernel's sockaddr_un.sun_path holds 108 bytes with the final zero.
_LONGEST_PATH_BYTES = 107


class OversizedMessageError(ValueError):
    """A line was longer than allowed: where the next one starts is not known, so the connection must end."""


class LineChannel:
    """Sends and receives one JSON object per line; `limit_bytes` bounds what is received."""

    def __init__(self, connection: socket.socket, limit_bytes: int) -> None:
        self._connection = connection
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Send one object."""
        self._connection.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Give the next object, or None when the far side has gone.

        Raises
        ------
        ValueError
            When the line is not a JSON object; the next one can still be received.
        OversizedMessageError
            When the line is too long.
        """
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > self._limit_bytes:
                raise OversizedMessageError(f"a message is longer than {self._limit_bytes} bytes")
            received = self._connection.recv(1 << 16)
            if not received:
                return None
            self._buffer += received
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        if len(line) > self._limit_bytes:
            raise OversizedMessageError(f"a message is longer than {self._limit_bytes} bytes")
        try:
            message = json.loads(line)
        except RecursionError as fault:
            raise ValueError("a message is nested too deeply") from fault
        if not isinstance(message, dict):
            raise ValueError(f"a message must be a JSON object, not {type(message).__name__}")
        return message

    def close(self) -> None:
        """End the connection, and with it a `receive` that waits in another thread."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The far side was faster; closing is all that is left to do.
            self._buffer.clear()
        self._connection.close()


def checked_socket_path(path: str | Path) -> Path:
    """Give the path if a socket can have it; the kernel allows 107 bytes."""
    absolute = Path(path).absolute()
    length = len(str(absolute).encode())
    if length > _LONGEST_PATH_BYTES:
        raise ConfigurationError(
            f"socket_path: {absolute} has {length} bytes, a socket's path may have {_LONGEST_PATH_BYTES}; "
            "choose a shorter run folder",
            field="socket_path",
        )
    return absolute
