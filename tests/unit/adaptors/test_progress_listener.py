# SPDX-License-Identifier: Apache-2.0
"""The listener's queue, without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from py4j.protocol import Py4JNetworkError
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from penstock.adaptors.spark.listener import ProgressListener

REPORT = json.loads((Path(__file__).parent / "recorded" / "progress_rate_stateful.json").read_text())
QUERY = REPORT["id"]
OTHER = "00000000-0000-0000-0000-000000000001"


def progress(batch_id: int, query: str = QUERY) -> QueryProgressEvent:
    """A progress event as the driver's callback gives it."""
    return QueryProgressEvent(StreamingQueryProgress.fromJson(REPORT | {"batchId": batch_id, "id": query}))


def ended(query: str, exception: str | None = None) -> QueryTerminatedEvent:
    """The event of a query's end."""
    return QueryTerminatedEvent(UUID(query), UUID(REPORT["runId"]), exception, None)


def test_reports_are_given_once_and_in_order() -> None:
    """Draining gives what was heard, in order, and then nothing."""
    listener = ProgressListener(QUERY)
    for batch_id in range(3):
        listener.onQueryProgress(progress(batch_id))
    assert [r["batchId"] for r in listener.drain().reports] == [0, 1, 2]
    assert listener.drain().reports == ()


class FakeProgressOf35:
    """A report as PySpark 3.5 gives it: attributes and JSON, and no fields by name."""

    id = UUID(QUERY)
    json = json.dumps(REPORT)


def test_a_report_of_spark_3_5_is_kept_by_its_field_names() -> None:
    """What is no mapping is read from its JSON, so that all that reads reports sees one form."""
    listener = ProgressListener(QUERY)
    listener.onQueryProgress(cast("Any", QueryProgressEvent)(FakeProgressOf35()))
    assert listener.drain().reports == (REPORT,)


def test_other_queries_are_not_heard() -> None:
    """Reports, ends and idling of other queries leave no trace."""
    listener = ProgressListener(QUERY)
    listener.onQueryProgress(progress(0, OTHER))
    listener.onQueryTerminated(ended(OTHER, "boom"))
    listener.onQueryIdle(QueryIdleEvent(UUID(QUERY), UUID(REPORT["runId"]), REPORT["timestamp"]))
    assert listener.drain().reports == ()
    assert not listener.is_terminated


def test_a_full_queue_lets_the_oldest_go_and_counts_them() -> None:
    """Overflow neither blocks nor goes unnoticed, and is told once."""
    listener = ProgressListener(QUERY, capacity=2)
    for batch_id in range(5):
        listener.onQueryProgress(progress(batch_id))
    drained = listener.drain()
    assert [r["batchId"] for r in drained.reports] == [3, 4]
    assert drained.lost == 3
    assert listener.drain().lost == 0


def test_the_end_is_noted_with_its_cause_and_undone_by_a_restart() -> None:
    """A failed query is terminated with its exception; started again it runs."""
    listener = ProgressListener(QUERY)
    listener.onQueryTerminated(ended(QUERY, "boom"))
    assert (listener.is_terminated, listener.exception) == (True, "boom")
    listener.onQueryStarted(QueryStartedEvent(UUID(QUERY), UUID(REPORT["runId"]), None, "", set()))
    assert (listener.is_terminated, listener.exception) == (False, None)


class GoneStreams:
    """A manager of streams whose JVM has ended."""

    def __init__(self) -> None:
        self.removals = 0

    def removeListener(self, listener: object) -> None:
        """Fail as Py4J does."""
        self.removals += 1
        raise Py4JNetworkError("gone")


def test_detaching_after_spark_has_ended_is_no_error() -> None:
    """Detaching from a dead driver is quiet, happens once, and marks the query as ended."""
    listener = ProgressListener(QUERY)
    streams = GoneStreams()
    listener._streams = cast(Any, streams)
    listener.detach()
    listener.detach()
    assert streams.removals == 1
    assert listener.is_terminated
