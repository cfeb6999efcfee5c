# SPDX-License-Identifier: Apache-2.0
"""A streaming query listener that only enqueues: it can neither block Spark's event bus nor fail on it."""

from __future__ import annotations

import json
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
    """What a listener received since the last call. `lost` counts reports that found the queue full."""

    reports: tuple[Mapping[str, Any], ...]
    lost: int


class ProgressListener(StreamingQueryListener):
    """Keeps the progress reports of one query until they are drained.

    Parameters
    ----------
    query_id
        The id that stays with a query over restarts from its checkpoint.
    capacity
        How many reports are kept. Above it, the oldest are dropped and counted.
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
        """Return a listener for the query, whichever session of the driver started it."""
        from pyspark.sql.streaming.query import StreamingQueryManager

        listener = cls(str(query.id), capacity)
        # Each session has its own manager. The active session need not be the one that the query runs in.
        streams = StreamingQueryManager(query._jsq.sparkSession().streams())
        streams.addListener(listener)
        listener._streams = streams
        return listener

    def detach(self) -> None:
        """Stop listening. What was received can still be drained. May be called twice, or after Spark has ended."""
        from py4j.protocol import Py4JError

        streams, self._streams = self._streams, None
        if streams is None:
            return
        try:
            streams.removeListener(self)
        except (Py4JError, OSError):
            # The driver's JVM is gone, and its listener bus with it: nothing is left to be removed from.
            self._is_terminated = True

    @property
    def is_terminated(self) -> bool:
        """Whether the query has ended."""
        return self._is_terminated

    @property
    def exception(self) -> str | None:
        """Why the query failed, or None if it did not."""
        return self._exception

    def drain(self) -> Drained:
        """Return the reports since the last call, in order."""
        with self._lock:
            drained = Drained(tuple(self._queue), self._lost)
            self._queue.clear()
            self._lost = 0
        return drained

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's name)
        """Record that the query runs (again)."""
        if str(event.id) == self._query_id:
            self._is_terminated, self._exception = False, None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Keep a report."""
        if str(event.progress.id) != self._query_id:
            return
        report = _as_mapping(event.progress)
        with self._lock:
            if len(self._queue) >= self._capacity:
                self._queue.popleft()
                self._lost += 1
            self._queue.append(report)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: a trigger without data is not a batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Record that the query ended."""
        if str(event.id) == self._query_id:
            self._exception, self._is_terminated = event.exception, True


def _as_mapping(progress: Any) -> Mapping[str, Any]:
    """Return a report by field names. PySpark's own object is a mapping since 4.0; that of 3.5 has only its JSON."""
    if isinstance(progress, Mapping):
        return progress
    read: Mapping[str, Any] = json.loads(progress.json)
    return read
