# SPDX-License-Identifier: Apache-2.0
"""Measures a query that runs in this process."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.adaptors.spark.executors import ExecutorsByRest
from penstock.adaptors.spark.executors_of_driver import ExecutorsOfDriver
from penstock.adaptors.spark.failure_words import QUERY_FAILED, failure_words
from penstock.adaptors.spark.listener import ProgressListener
from penstock.adaptors.spark.master_address import YARN
from penstock.adaptors.spark.progress import is_batch, to_batch_progress
from penstock.clock import Clock, SystemClock
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import BatchProgress, CpuReading, ExecutorRoom, ExecutorShare, ExecutorState, Refused, Telemetry

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger(__name__)
_MOST_CAUSES = 10

CpuReader = Callable[[], CpuReading | None]
T = TypeVar("T")


class QueryProbe:
    """A MetricSource for a query of this process. It listens from construction until it is closed.

    Parameters
    ----------
    query
        The running query.
    operator
        The operator's name in all records.
    cpu_reader
        Returns the executors' CPU counters. None: they cannot be read here.
    read_executors
        Returns the executors. Default: asks the driver.
    draining
        Returns the ids of executors that are on their way out.
    other_faults
        Returns what else the controller should know, such as failed actuations. Called at each `collect`.
    refused
        Returns the last request, where the cluster has refused it since.
    room
        Returns how many executors the cluster can give, where that is known. It is not to wait for the cluster.
    share
        Returns what executors on other hosts are to be held to, where somebody passes that on.
    why_no_shares
        Returns why executors cannot be held to a CPU share now.
    """

    def __init__(
        self,
        query: StreamingQuery,
        operator: str,
        cpu_reader: CpuReader | None = None,
        *,
        read_executors: Callable[[], tuple[ExecutorState, ...]] | None = None,
        draining: Callable[[], frozenset[str]] = frozenset,
        other_faults: Callable[[], Sequence[str]] = tuple,
        refused: Callable[[], Refused | None] = lambda: None,
        room: Callable[[], ExecutorRoom | None] = lambda: None,
        share: Callable[[], ExecutorShare | None] = lambda: None,
        why_no_shares: Callable[[], str | None] = lambda: None,
        clock: Clock | None = None,
        listener: ProgressListener | None = None,
    ) -> None:
        if listener is None and not hasattr(query, "_jsq"):
            raise ConfigurationError(
                "query: a Spark Connect query has no driver in this process; attach inside the driver, "
                "with a session that remote() did not create",
                field="query",
            )
        self._query = query
        self._operator = operator
        self._cpu_reader = cpu_reader
        self._read_executors = read_executors or executors_of_this_driver()
        self._draining = draining
        self._other_faults = other_faults
        self._refused = refused
        self._room = room
        self._share, self._why_no_shares = share, why_no_shares
        self._clock = clock or SystemClock()
        self._last_batch: tuple[str, int] | None = None
        self._listener = listener or ProgressListener.attached_to(query)

    def collect(self) -> Telemetry:
        """Return what is new since the last call.

        Raises
        ------
        MetricSourceError
            The driver's JVM no longer answers.
        """
        faults: list[str] = []
        is_running = self._is_running(faults)
        batches = self._batches(faults)
        executors = self._attempt("executors", self._read_executors, faults)
        if executors is not None:
            draining = self._draining()
            executors = tuple(replace(e, is_draining=True) if e.executor_id in draining else e for e in executors)
        cpu = None if self._cpu_reader is None else self._attempt("CPU counters", self._cpu_reader, faults)
        faults += self._attempt("faults of actuation", self._other_faults, faults) or ()
        return Telemetry(
            operator=self._operator,
            at=self._clock.now(),
            batches=batches,
            executors=executors,
            cpu=cpu,
            is_running=is_running,
            faults=tuple(faults),
            batch_is_running=self._batch_is_running() if is_running else None,
            refused=self._attempt("refused requests", self._refused, faults),
            room=self._room(),
            share=self._share(),
            why_no_shares=self._why_no_shares(),
        )

    @property
    def has_heard_the_end(self) -> bool:
        """Whether the query's end was reported, and with it every batch before."""
        return self._listener.is_terminated

    def close(self) -> None:
        """Stop listening. The query is not touched. May be called twice."""
        self._listener.detach()

    def __enter__(self) -> QueryProbe:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_running(self, faults: list[str]) -> bool:
        if not self._listener.is_terminated and self._is_active():
            return True
        failure = self._why_ended()
        if failure is not None:
            faults.append(f"{QUERY_FAILED}{failure_words(failure)}")
        return False

    def _is_active(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            return bool(self._query.isActive)
        except (Py4JError, OSError) as fault:
            raise MetricSourceError(
                f"the driver of {self._operator} does not answer: {fault}", target=self._operator
            ) from fault

    def _batch_is_running(self) -> bool | None:
        """Whether the first batch is under way. Its start is not reported, and its end may be minutes away."""
        from py4j.protocol import Py4JError

        if self._last_batch is not None:
            return None
        try:
            status = self._query.status
        except (AttributeError, Py4JError, OSError):
            return None  # not worth a fault: the look itself went well
        return bool(status["isTriggerActive"]) if "isTriggerActive" in status else None

    def _why_ended(self) -> str | None:
        """Return why an ended query failed. Spark reports it after the query shows it: until then, ask the query."""
        from py4j.protocol import Py4JError

        if self._listener.is_terminated:
            return self._listener.exception
        try:
            failure = self._query.exception()
            if failure is None:
                return None
            return _causes(self._query) or str(failure)
        except (Py4JError, OSError):
            return None  # the driver went away meanwhile: its end is known, its reason is not

    def _batches(self, faults: list[str]) -> tuple[BatchProgress, ...]:
        heard = self._listener.drain()
        if heard.lost:
            faults.append(f"{heard.lost} progress reports were lost: they were not collected in time")
        batches = []
        for report in heard.reports:
            if not is_batch(report):
                continue
            batch = self._attempt("a progress report", lambda r=report: self._translate(r), faults)  # type: ignore[misc]
            if batch is None or self._is_known(batch):
                continue
            self._last_batch = (batch.run_id, batch.batch_id)
            batches.append(batch)
        return tuple(batches)

    def _translate(self, report: Mapping[str, Any]) -> BatchProgress:
        return to_batch_progress(self._operator, report)

    def _is_known(self, batch: BatchProgress) -> bool:
        """Whether the batch was returned before. A restarted query (a new run) may repeat its last batch."""
        if self._last_batch is None:
            return False
        run_id, batch_id = self._last_batch
        return batch.run_id == run_id and batch.batch_id <= batch_id

    def _attempt(self, what: str, read: Callable[[], T], faults: list[str]) -> T | None:
        try:
            return read()
        except MetricSourceError as fault:
            faults.append(str(fault))
        except Exception as fault:  # the query must not suffer from a measurement, whatever went wrong with it
            _log.exception("reading %s of %s failed", what, self._operator)
            faults.append(f"{what} could not be read: {type(fault).__name__}: {fault}")
        return None


def executors_of_this_driver() -> ExecutorsByRest | ExecutorsOfDriver:
    """Return a function that reads the executors of this process's SparkContext."""
    from pyspark import SparkContext

    context = SparkContext.getOrCreate()
    if context.master == YARN:
        return ExecutorsOfDriver(context)
    return ExecutorsByRest(context.uiWebUrl, context.applicationId)


def _causes(query: StreamingQuery) -> str | None:
    """Return the causes of a failure, by name and message, as the listener's report begins; None: they are not there.

    The text of PySpark's own exception leaves out of which class the cause is, and one failure would have two names.
    """
    java_query = getattr(query, "_jsq", None)
    if java_query is None:
        return None
    cause = java_query.exception().get().getCause()
    lines: list[str] = []
    while cause is not None and len(lines) < _MOST_CAUSES:
        message = cause.getMessage()
        said = cause.getClass().getName() if message is None else f"{cause.getClass().getName()}: {message}"
        lines.append(f"Caused by: {said}" if lines else said)
        cause = cause.getCause()
    return "\n".join(lines) or None
