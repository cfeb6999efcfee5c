# SPDX-License-Identifier: Apache-2.0
"""HTTP as uvicorn speaks it, with an end to its patience: who connects has to say what it wants in good time.

Otherwise some connections that say nothing, which takes no token, would be all that the service ever has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
"""How long a request may take to arrive, from the connection or its first byte to the end of its body."""
_SELDOM_SECONDS, _MOST_TEXTS = 60.0, 100


class PatientProtocol(H11Protocol):
    """One connection. It is closed where a request does not arrive in time; answers may take as long as they do."""

    _due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Take what came, and wait for the rest of it."""
        super().data_received(data)
        if not self._is_client_due:
            self._stop_waiting()
        elif self._due is None:
            self._wait()

    def on_response_complete(self) -> None:
        """Leave it to uvicorn how long a connection without a request is kept."""
        self._stop_waiting()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._stop_waiting()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End in order; who has not said all gets no answer, and is not waited for."""
        if self._is_client_due:
            self.transport.close()
        else:
            super().shutdown()

    @property
    def _is_client_due(self) -> bool:
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _wait(self) -> None:
        self._due = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


class Seldom(logging.Filter):
    """Lets the same text pass once a minute: what strangers send must not fill a log. Failures of ours always pass."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._said: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is written."""
        if record.exc_info:
            return True
        now, text = self._monotonic(), record.getMessage()
        if now - self._said.get(text, -_SELDOM_SECONDS) < _SELDOM_SECONDS:
            return False
        if len(self._said) >= _MOST_TEXTS:
            self._said.clear()
        self._said[text] = now
        return True
