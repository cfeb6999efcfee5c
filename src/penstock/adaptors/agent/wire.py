# SPDX-License-Identifier: Apache-2.0
"""Messages between a controller and an operator's agent: lines of JSON over a Unix domain socket.

A request is ``{"do": <verb>, ...}``. A reply is ``{"ok": true, ...}`` or ``{"ok": false, "kind": ..., "error": ...}``,
where the kind is oversized, malformed, occupied, metrics, rejected or actuation.
Records travel as the text that `penstock.records.encode` returns. Nothing received is ever unpickled or evaluated.

=========== ======================================== ============================================================
verb        carries                                  reply carries, effect
=========== ======================================== ============================================================
hello       controller, protocol                     operator, can_set_cpu_share
collect     ack: number of the last reply received   number, telemetry
request     action                                   nothing; the agent requests the allocation
release     nothing                                  nothing; the agent puts everything back as it was
open        nothing                                  nothing; the agent lifts the CPU cap and keeps the executors
beat        nothing                                  nothing; renews the lease, as every other verb does
stop        nothing                                  nothing; the operator ends its query
stop_at_    seconds: how long the running batch may  nothing; the operator ends its query after that batch and
border      take                                     stays until the controller has collected its last batches
=========== ======================================== ============================================================
"""

from __future__ import annotations

import json
import socket
from typing import Any

PROTOCOL = 1
REQUEST_LIMIT_BYTES = 64 << 10
REPLY_LIMIT_BYTES = 16 << 20


class OversizedMessageError(ValueError):
    """A line was too long. The start of the next one is unknown, so the connection must end."""


class LineChannel:
    """Sends and receives one JSON object per line. Received lines are limited to `limit_bytes`."""

    def __init__(self, connection: socket.socket, limit_bytes: int) -> None:
        self._connection = connection
        self._limit_bytes = limit_bytes
        self._buffer = bytearray()

    def send(self, message: dict[str, Any]) -> None:
        """Send one object."""
        self._connection.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")

    def receive(self) -> dict[str, Any] | None:
        """Return the next object, or None when the far side has gone.

        Raises
        ------
        ValueError
            The line is not a JSON object. The next one can still be received.
        OversizedMessageError
            The line is too long.
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
        """Close the connection, which also ends a `receive` that waits in another thread."""
        try:
            self._connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            # The far side closed first.
            self._buffer.clear()
        self._connection.close()
