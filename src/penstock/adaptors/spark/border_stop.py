# SPDX-License-Identifier: Apache-2.0
"""Ends a query between two batches: the running batch is done and committed, the next one is not begun.

`StreamingQuery.stop` interrupts whatever runs, and a batch that was begun is run again after a restart. Here the
query's thread is told that it is stopping and left alone: it looks before each batch, and ends by itself. Spark 4.3 has
no call for that; what is set is the state that `stop` itself sets first (`StreamExecution.state`).
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
"""So many looks in a row without an active trigger, and the query is asleep until its next one."""


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
    """Let the running batch end and begin no other; gives how the query ended, once it has.

    Parameters
    ----------
    query
        Of this process.
    within_seconds
        How long the running batch may take; then it is stopped all the same.
    hurry
        When it is set, the query is stopped at once.
    """
    deadline, idle_looks = monotonic() + within_seconds, 0
    is_told = _tell_to_end(query)
    while is_told and not _has_ended(query):
        idle_looks = 0 if query.status["isTriggerActive"] else idle_looks + 1
        if idle_looks >= _IDLE_LOOKS:
            break  # asleep between two triggers: no batch is interrupted
        if monotonic() >= deadline or (hurry is not None and hurry.is_set()):
            _log.warning("the running batch did not end within %.0f s: it is stopped", within_seconds)
            query.stop()
            return BorderStop.IN_BATCH
        time.sleep(_LOOK_EVERY_SECONDS)
    query.stop()
    return BorderStop.AT_BORDER if is_told else BorderStop.IN_BATCH


def _tell_to_end(query: StreamingQuery) -> bool:
    """Set the state that the query's thread looks at before each batch; false where this Spark has it elsewhere."""
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
