# SPDX-License-Identifier: Apache-2.0
"""Ends a query between two batches: the running batch is done and committed, and the next one does not start.

`StreamingQuery.stop` interrupts whatever runs, and an interrupted batch is run again after a restart. Here the query's
thread sees that it is stopping and is left alone: it checks before each batch, and ends by itself. Spark 4.3 has no
call for that. What is set is the state that `stop` itself sets first (`StreamExecution.state`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)

_LOOK_EVERY_SECONDS = 0.05
_IDLE_LOOKS = 4
"""After so many looks in a row at a thread that waits without an active trigger, it sleeps until its next one."""


class BorderStop(Enum):
    """How a query ended."""

    AT_BORDER = "at a batch border"
    IN_BATCH = "in a batch, which will be run again"


def stop_at_border(
    query: StreamingQuery,
    within_seconds: float,
    *,
    hurry: threading.Event | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> BorderStop:
    """Let the running batch end and start no other. Return how the query ended, once it has.

    Parameters
    ----------
    query
        A query of this process.
    within_seconds
        How long the running batch may take before it is stopped anyway.
    hurry
        Set it to stop the query at once.
    """
    deadline, idle_looks, has_ended_itself = monotonic() + within_seconds, 0, False
    is_asked = _ask_to_end(query)
    while is_asked and not (has_ended_itself := _has_ended(query)):
        idle_looks = idle_looks + 1 if _is_asleep(query) else 0
        if idle_looks >= _IDLE_LOOKS:
            break  # asleep between two triggers: no batch is interrupted
        if monotonic() >= deadline or (hurry is not None and hurry.is_set()):
            _log.warning("the running batch did not end within %.0f s: it is stopped", within_seconds)
            query.stop()
            return _how_it_ended(query)
        time.sleep(_LOOK_EVERY_SECONDS)
    query.stop()
    return BorderStop.AT_BORDER if has_ended_itself else _how_it_ended(query)


def _ask_to_end(query: StreamingQuery) -> bool:
    """Set the state that the query's thread checks before each batch. False if this Spark keeps it elsewhere."""
    from py4j.protocol import Py4JError

    try:
        execution = query._jsq.streamingQuery()
        state = execution.state()
        package = state.get().getClass().getPackage().getName()
        state.set(
            execution.getClass().getClassLoader().loadClass(f"{package}.TERMINATED$").getField("MODULE$").get(None)
        )
    except (Py4JError, AttributeError) as fault:
        _log.warning("this Spark cannot be stopped at a batch border: %s", fault)
        return False
    return True


def _has_ended(query: StreamingQuery) -> bool:
    return not query._jsq.streamingQuery().queryExecutionThread().isAlive()


def _is_asleep(query: StreamingQuery) -> bool:
    """Whether it waits for its next trigger. A thread that only got no CPU may be about to begin a batch."""
    if query.status["isTriggerActive"]:
        return False
    return str(query._jsq.streamingQuery().queryExecutionThread().getState().name()) == "TIMED_WAITING"


def _how_it_ended(query: StreamingQuery) -> BorderStop:
    """Compare the logs of what was planned and what was done: Spark may still commit the batch that it interrupts."""
    from py4j.protocol import Py4JError

    try:
        execution = query._jsq.streamingQuery()
        planned, done = execution.offsetLog().getLatestBatchId(), execution.commitLog().getLatestBatchId()
        return BorderStop.AT_BORDER if planned.equals(done) else BorderStop.IN_BATCH
    except (Py4JError, AttributeError) as fault:
        _log.info("whether the batch was committed cannot be read: %s", fault)
        return BorderStop.IN_BATCH
