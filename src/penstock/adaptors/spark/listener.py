# SPDX-License-Identifier: Apache-2.0
"""A streaming query listener that only enqueues: it can neither block Spark's event bus nor fail on it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager

DEFAULT_CAPACITY = 10_000


@dataclass(frozen=True, slots=True)
class Drained:
    """What a listener heard since it was last asked; `lost` counts reports that found the queue full."""

    reports: tuple[Mapping[str, Any], ...]
    lost: int


class ProgressListener(StreamingQueryListener):
    """Keeps the progress reports of one query until they are drained.

    Parameters
    ----------
    query_id
        The id that stays with a query over restarts from its checkpoint.
    capacity
        How many reports are kept; above it the oldest go, and are counted.
    """

    def __init__(self, query_id: str, capacity: int = DEFAULT_CAPACITY) -> None:
        self._query_id = query_id
        self._capacity = capacity
        self._queue: deque[Mapping[str, Any]] = deque()
        self._lost = 0
        self._lock = threading.Lock()
        self._is_terminated = False
        self._exception: str | None = None
        self._streams: StreamingQueryManager | None = None

    @classmethod
    def attached_to(cls, query: StreamingQuery, capacity: int = DEFAULT_CAPACITY) -> ProgressListener:
        """Give a listener that hears the query, whichever session of the driver it was started from."""
        from pyspark.sql.streaming.query import StreamingQueryManager

        listener = cls(str(query.id), capacity)
        # Each session has a manager of its own; the active session need not be the one the query runs in.
        streams = StreamingQueryManager(query._jsq.sparkSession().streams())
        streams.addListener(listener)
        listener._streams = streams
        return listener

    def detach(self) -> None:
        """Stop listening; what was heard can still be drained. May be called twice, or after Spark has ended."""
        from py4j.protocol import Py4JError

        streams, self._streams = self._streams, None
        if streams is None:
            return
        try:
            streams.removeListener(self)
        except (Py4JError, OSError):
            # The driver's JVM is gone, and its listener bus with it: there is nothing left to be removed from.
            self._is_terminated = True

    @property
    def is_terminated(self) -> bool:
        """Whether the query has ended."""
        return self._is_terminated

    @property
    def exception(self) -> str | None:
        """Why the query ended, where it was a failure."""
        return self._exception

    def drain(self) -> Drained:
        """Give the reports heard since the last call, in order."""
        with self._lock:
            drained = Drained(tuple(self._queue), self._lost)
            self._queue.clear()
            self._lost = 0
        return drained

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        """Note that the query (again) runs."""
        if str(event.id) == self._query_id:
            self._is_terminated, self._exception = False, None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep a report."""
        if str(event.progress["id"]) != self._query_id:
            return
        with self._lock:
            if len(self._queue) >= self._capacity:
                self._queue.popleft()
                self._lost += 1
            self._queue.append(event.progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: a trigger without data is not a batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Note that the query ended."""
        if str(event.id) == self._query_id:
            self._exception, self._is_terminated = event.exception, True
