# SPDX-License-Identifier: Apache-2.0
"""Messages with properties that no row can hold, set aside where the user can see them: one line of JSON for each.

Their bodies are in the stream all the same. The file is bounded: a producer that does so does it in every message.
"""

from __future__ import annotations

import base64
import json
import logging
import os
from pathlib import Path

from penstock.adaptors.rabbitmq.message import Message

_LOG = logging.getLogger(__name__)

MOST_MESSAGES = 1000
MOST_BYTES = 1 << 20
_BODY_BYTES = 200
_LONGEST_TEXT = 300


class PoisonFile:
    """A file of mode 0600 with the first messages that could not be read whole. Not thread-safe.

    Parameters
    ----------
    path
        The file, in a folder that exists. It is made for the first message, and one that is there is gone on with.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._messages: int | None = None
        self._bytes = 0
        self._begin = b""
        """Goes before the next line: it ends one of which a process that was killed has written a part."""
        self._is_broken = False

    def add(self, message: Message) -> None:
        """Set a message aside, where there is room. Where that fails the stream goes on, and the log says so."""
        if self._is_broken:
            return
        try:
            self._add(message)
        except OSError as fault:
            self._is_broken = True
            _LOG.warning("%s: messages that cannot be read are not set aside: %s", self.path, fault)

    def _add(self, message: Message) -> None:
        if self._messages is None:
            self._messages, self._bytes = self._there()
        line = self._begin + _line(message)
        if self._messages >= MOST_MESSAGES or self._bytes + len(line) > MOST_BYTES:
            return
        number = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(number, "wb") as file:
            file.write(line)
        self._messages, self._bytes, self._begin = self._messages + 1, self._bytes + len(line), b""

    def _there(self) -> tuple[int, int]:
        """How many messages and bytes are there."""
        try:
            with self.path.open("rb") as file:
                found = file.read(MOST_BYTES + 1)
        except FileNotFoundError:
            return 0, 0
        self._begin = b"\n" if found and not found.endswith(b"\n") else b""
        return found.count(b"\n"), len(found)


def _line(message: Message) -> bytes:
    shown = {
        "received_us": message.arrival_us,
        "identity": None if message.identity is None else message.identity[:_LONGEST_TEXT],
        "routing_key": message.routing_key[:_LONGEST_TEXT],
        "redelivered": message.redelivered,
        "unreadable": [text[:_LONGEST_TEXT] for text in message.unreadable],
        "body_bytes": len(message.body),
        "body_begins": base64.b64encode(message.body[:_BODY_BYTES]).decode(),
    }
    return json.dumps(shown).encode() + b"\n"
