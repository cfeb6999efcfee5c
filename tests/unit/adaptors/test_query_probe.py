# SPDX-License-Identifier: Apache-2.0
"""What a look at a query brings, and what it does when parts of it fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent, StreamingQueryProgress

from penstock.adaptors.spark.listener import ProgressListener
from penstock.adaptors.spark.query_probe import QueryProbe
from penstock.clock import VirtualClock
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import CpuReading, ExecutorState

REPORT = json.loads((Path(__file__).parent / "recorded" / "progress_rate_stateful.json").read_text())
EXECUTORS = (ExecutorState("0", "h", 1, True, 0, 1.0), ExecutorState("1", "h", 1, True, 0, 1.0))
READING = CpuReading(5.0, 1.0, 0.0, None, 2)


class FakeQuery:
    """A query that is active, or has failed, or whose driver is gone."""

    def __init__(self, failure: str | None = None) -> None:
        self.is_gone, self.failure = False, failure

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        if self.is_gone:
            raise Py4JNetworkError("connection refused")
        return self.failure is None

    def exception(self) -> str | None:
        """Why it failed."""
        return self.failure


def hear(listener: ProgressListener, **changes: Any) -> None:
    """Let the listener hear a report."""
    listener.onQueryProgress(QueryProgressEvent(StreamingQueryProgress.fromJson(REPORT | changes)))


def probe(
    listener: ProgressListener,
    *,
    query: FakeQuery | None = None,
    read_executors: Callable[[], tuple[ExecutorState, ...]] = lambda: EXECUTORS,
    cpu_reader: Callable[[], CpuReading | None] | None = lambda: READING,
    **others: Any,
) -> QueryProbe:
    """A probe over fakes."""
    return QueryProbe(
        cast(Any, query or FakeQuery()),
        "counter",
        cpu_reader,
        read_executors=read_executors,
        clock=VirtualClock(7.0),
        listener=listener,
        **others,
    )


def test_a_look_brings_batches_executors_and_cpu() -> None:
    """Everything measured is there, with no fault."""
    listener = ProgressListener(REPORT["id"])
    source = probe(listener)
    hear(listener, batchId=3)
    hear(listener, batchId=4)
    seen = source.collect()
    assert [b.batch_id for b in seen.batches] == [3, 4]
    assert (seen.operator, seen.at, seen.executors, seen.cpu) == ("counter", 7.0, EXECUTORS, READING)
    assert (seen.is_running, seen.faults) == (True, ())
    assert source.collect().batches == ()


def test_each_batch_is_given_once_but_again_after_a_restart() -> None:
    """A repeated report of a run is dropped; a new run of the query may repeat a batch."""
    listener = ProgressListener(REPORT["id"])
    source = probe(listener)
    hear(listener, batchId=3)
    hear(listener, batchId=3)
    hear(listener, batchId=3, runId="00000000-0000-0000-0000-000000000002")
    assert [b.run_id[:3] for b in source.collect().batches] == [REPORT["runId"][:3], "000"]


def test_an_idle_trigger_is_not_given() -> None:
    """Reports of triggers that executed nothing are left out, without a fault."""
    listener = ProgressListener(REPORT["id"])
    source = probe(listener)
    hear(listener, durationMs={"latestOffset": 1, "triggerExecution": 1}, numInputRows=0)
    seen = source.collect()
    assert seen.batches == ()
    assert seen.faults == ()


def test_draining_executors_are_marked() -> None:
    """What the scaler lets go is marked as draining."""
    seen = probe(ProgressListener(REPORT["id"]), draining=lambda: frozenset({"1"})).collect()
    assert seen.executors is not None
    assert [e.is_draining for e in seen.executors] == [False, True]


def test_what_cannot_be_read_is_none_with_a_fault_and_the_rest_is_there() -> None:
    """Failing readers leave None and a fault each, never zero, never an exception."""

    def blind() -> tuple[ExecutorState, ...]:
        raise MetricSourceError("executors cannot be seen: spark.ui.enabled=true")

    def broken() -> CpuReading:
        raise ZeroDivisionError("odd")

    listener = ProgressListener(REPORT["id"], capacity=1)
    source = probe(listener, read_executors=blind, cpu_reader=broken, other_faults=lambda: ("scaling failed: x",))
    hear(listener, batchId=3)
    hear(listener, batchId=4)
    seen = source.collect()
    assert [b.batch_id for b in seen.batches] == [4]
    assert (seen.executors, seen.cpu) == (None, None)
    assert seen.faults == (
        "1 progress reports were lost: they were not collected in time",
        "executors cannot be seen: spark.ui.enabled=true",
        "CPU counters could not be read: ZeroDivisionError: odd",
        "scaling failed: x",
    )


def test_a_broken_report_is_a_fault_and_the_next_is_read() -> None:
    """One unreadable report does not hide the others."""
    listener = ProgressListener(REPORT["id"])
    source = probe(listener)
    hear(listener, batchId=3, timestamp="yesterday")
    hear(listener, batchId=4)
    seen = source.collect()
    assert [b.batch_id for b in seen.batches] == [4]
    assert "yesterday" in seen.faults[0]


def test_a_failed_query_is_not_running_and_says_why() -> None:
    """The first line of the exception is a fault; earlier batches are still given."""
    listener = ProgressListener(REPORT["id"])
    source = probe(listener)
    hear(listener, batchId=3)
    listener.onQueryTerminated(QueryTerminatedEvent(UUID(REPORT["id"]), UUID(REPORT["runId"]), "boom\n at x", None))
    seen = source.collect()
    assert not seen.is_running
    assert seen.faults == ("the query failed: boom",)
    assert len(seen.batches) == 1


def test_a_failure_is_named_before_spark_reports_the_end() -> None:
    """A query that shows its end before the listener hears of it says itself why it failed."""
    seen = probe(ProgressListener(REPORT["id"]), query=FakeQuery("java.lang.IllegalStateException: no price")).collect()
    assert (seen.is_running, seen.faults) == (False, ("the query failed: IllegalStateException: no price",))


def test_a_driver_that_is_gone_raises() -> None:
    """Only an operator that cannot be reached at all is an error."""
    query = FakeQuery()
    query.is_gone = True
    with pytest.raises(MetricSourceError, match="does not answer"):
        probe(ProgressListener(REPORT["id"]), query=query).collect()


def test_a_connect_query_is_refused_with_the_fix() -> None:
    """A query of Spark Connect has no driver here, and the message says where to attach."""
    with pytest.raises(ConfigurationError, match="inside the driver"):
        QueryProbe(cast(Any, SimpleNamespace(id=REPORT["id"])), "counter")
