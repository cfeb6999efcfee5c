# SPDX-License-Identifier: Apache-2.0
"""Hands what happens in a loop to whoever listens over HTTP, without ever waiting for them."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_LOG = logging.getLogger(__name__)

REMEMBERED = 500
"""Events that a client may ask for again after its connection broke."""
_MOST_WAITING = 200
"""Events that wait for a slow client. Beyond it the oldest are dropped, and the client is informed."""
MOST_CLIENTS = 16


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened in a pipeline.

    Attributes
    ----------
    number
        Rises by one with each event.
    kind
        ``observation``, ``decision``, ``outcome``, ``audit``, ``fault`` or ``phase``.
    pipeline
        Whose.
    plain
        Gives it as plain data; called by those who send it, not by the loop.
    """

    number: int
    kind: str
    pipeline: str
    plain: Callable[[], dict[str, Any]]


class Listener:
    """One client's share of the events; `take` and `wait` belong to its event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipeline: str | None) -> None:
        self._loop, self.pipeline = loop, pipeline
        self._lock = threading.Lock()
        self._waiting: deque[Event] = deque()
        self._dropped = 0
        self._is_there = asyncio.Event()
        self.has_ended = False

    def put(self, event: Event) -> None:
        """Give it an event, from any thread; never waits."""
        if self.pipeline not in (None, event.pipeline):
            return
        with self._lock:
            self._waiting.append(event)
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
        self._wake()

    def end(self) -> None:
        """Say that nothing comes any more."""
        self.has_ended = True
        self._wake()

    def take(self) -> tuple[list[Event], int]:
        """What has come since the last call, and how many events were dropped."""
        self._is_there.clear()
        with self._lock:
            taken, dropped = list(self._waiting), self._dropped
            self._waiting.clear()
            self._dropped = 0
        return taken, dropped

    @property
    def has_news(self) -> bool:
        """Whether anything has come since the last `take`."""
        return bool(self._waiting)

    async def wait(self, seconds: float) -> None:
        """Wait until something has come, at most so long."""
        try:
            await asyncio.wait_for(self._is_there.wait(), seconds)
        except TimeoutError:
            return

    def _wake(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._is_there.set)
        except RuntimeError:  # its event loop has ended
            self.has_ended = True


class EventFeed:
    """The events of all pipelines of a service. `publish` is called by loops: it never waits and never raises."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._kept: deque[Event] = deque(maxlen=REMEMBERED)
        self._listeners: list[Listener] = []
        self._has_ended = False

    def publish(self, pipeline: str, kind: str, plain: Callable[[], dict[str, Any]]) -> None:
        """Hand an event to all who listen."""
        try:
            with self._lock:
                self._number += 1
                event = Event(self._number, kind, pipeline, plain)
                self._kept.append(event)
                listeners = list(self._listeners)
            for listener in listeners:
                listener.put(event)
        except Exception:  # whatever is wrong with who listens, the loop is not
            _LOG.exception("an event could not be handed on")

    def listen(self, pipeline: str | None = None, after: int | None = None) -> Listener | None:
        """Begin to listen, with the events after a number that are remembered; None: too many do already."""
        listener = Listener(asyncio.get_running_loop(), pipeline)
        with self._lock:
            if len(self._listeners) >= MOST_CLIENTS:
                return None
            missed = [event for event in self._kept if after is not None and event.number > after]
            if not self._has_ended:
                self._listeners.append(listener)
        for event in missed:
            listener.put(event)
        if self._has_ended:
            listener.end()
        return listener

    def leave(self, listener: Listener) -> None:
        """End listening."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def close(self) -> None:
        """Let every stream end."""
        with self._lock:
            self._has_ended = True
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener.end()
