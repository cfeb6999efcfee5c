# SPDX-License-Identifier: Apache-2.0
"""Record latency measured from outside: reads a query's output topic, where each record carries its first arrival.

A micro-batch query reports its batches. A query in Spark's real-time mode does not: its batch lasts as long as the
trigger says, and records pass through one by one meanwhile. So its output is read, beside whoever uses it. The latency
of a record is its timestamp minus the arrival in its header (`arrival_header`). In a topic stamped by the broker
(``Topics.create(..., stamped_by_broker=True)``) the timestamp is when the broker took the record; otherwise it is the
writing task's, a little earlier. Kafka's timestamps have millisecond precision.

Only written records have a latency. A record that yields no row is not seen, one that yields three rows counts three
times, and a record written again after a restart counts again. For a query that cannot keep up, the figures show how
long the written records waited, and not yet those that still wait.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, cast

import numpy as np

from penstock.adaptors.kafka.arrival_header import ARRIVAL_HEADER
from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.kafka.ends import PartitionEnds
from penstock.adaptors.kafka.topics import Topics
from penstock.errors import ConfigurationError
from penstock.ports import DoneRecords, FloatArray
from penstock.records import LatencySummary

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_READ_AT_ONCE = 2000
_POLL_SECONDS = 0.1
_READS_KEPT = 1000
"""Reads of records that wait for somebody who wants them one by one."""
_DIGITS = 18  # of microseconds since 1970, up to the year 9999
_PATIENCE_SECONDS = 20.0  # asked once, at the start, beside executors that may just be starting


class LatencyCount(Protocol):
    """Counts latencies over a window and over the run, as `penstock.monitor.latency.LatencyTracker` does."""

    def count(self, ended_at: float, arrivals: FloatArray) -> None:
        """Count records that arrived at `arrivals` and were done at `ended_at`."""
        ...

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records done recently."""
        ...

    def whole(self) -> LatencySummary | None:
        """Latency of all records."""
        ...


class RecordLatency:
    """Watches an output topic. Use as a context manager; reading begins at `start`.

    Parameters
    ----------
    connection, topic
        What is watched; every record written to it from the making of this object on is read.
    latencies
        Counts the latencies. This object locks every call, so it need not be thread-safe.
    since
        Records whose cause came before (seconds since 1970) are read, and not counted as a latency; None: all are.

    Raises
    ------
    ConfigurationError
        The topic is missing, or the broker refuses the credentials.
    AdaptorError
        No broker answers.
    """

    def __init__(
        self, connection: KafkaConnection, topic: str, latencies: LatencyCount, *, since: float | None = None
    ) -> None:
        (found,) = Topics(connection).check([topic])
        self.topic = topic
        self._latencies = latencies
        self._since = since
        self._faults = ClientFaults()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._died: str | None = None
        partitions = [(topic, number) for number in range(found.partitions)]
        self._places = PartitionEnds(connection, timeout_seconds=_PATIENCE_SECONDS).next(partitions)
        self._consumer: Consumer = connection.consumer(
            {"group.id": "penstock-latency", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100}, self._faults
        )
        self._thread = threading.Thread(target=self._run, name="penstock-record-latency", daemon=True)
        self.records = 0
        """Records read so far, with or without an arrival."""
        self.without_arrival = 0
        """Records read so far that carry no arrival. They have no latency."""
        self.unreadable = 0
        """Records read so far whose arrival or timestamp cannot be one. They have no latency."""
        self._unreadable_text = ""
        self._new: deque[DoneRecords] = deque(maxlen=_READS_KEPT)
        self.before_since = 0
        """Records read so far that came before `since`."""

    # --- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start reading in a background thread."""
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(*at, offset) for at, offset in self._places.items()])
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop reading and keep the counts. May be called twice."""
        if self._stop.is_set():
            return
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._consumer.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what it knows -----------------------------------------------------------------------------------------

    @property
    def fault(self) -> str | None:
        """Why reading fails at present, in the client's words. None: it works."""
        return self._died or self._faults.last

    @property
    def note(self) -> str | None:
        """What the user should know of records that were left out; None: there were none."""
        if not self.unreadable:
            return None
        return f"records of {self.topic} are left out of its latency, such as: {self._unreadable_text}"

    def window(self, now: float | None = None) -> LatencySummary | None:
        """Latency of the records written recently, or None if there are none."""
        with self._lock:
            return self._latencies.window(time.time() if now is None else now)

    def whole(self) -> LatencySummary | None:
        """Latency of all records written since the start, or None if there are none."""
        with self._lock:
            return self._latencies.whole()

    def since_last(self) -> DoneRecords | None:
        """The records read since this was last asked, each with its own latency."""
        with self._lock:
            found = DoneRecords.joined(tuple(self._new))
            self._new.clear()
        return found

    # --- how ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._read_some()
        except Exception as fault:
            # A defect must not look like a query without output: `fault` reports it.
            self._died = f"watching {self.topic} failed: {fault}"
            raise

    def _read_some(self) -> None:
        ended: list[float] = []
        arrivals: list[float] = []
        read = without = before = unreadable = 0
        for message in self._consumer.consume(_READ_AT_ONCE, timeout=_POLL_SECONDS):
            error = message.error()
            if error is not None:
                self._faults.add(error)
                continue
            read += 1
            try:
                arrival, stamp = arrival_of(message), message.timestamp()[1]
                if arrival is not None and stamp < 0:
                    raise ValueError("a record has no timestamp")
            except ValueError as fault:  # one record of somebody else's must not end the measurement of the others
                unreadable += 1
                self._unreadable_text = str(fault)
                continue
            if arrival is None:
                without += 1
            elif self._since is not None and arrival < self._since:
                before += 1
            else:
                ended.append(stamp / 1e3)
                arrivals.append(arrival)
        if not read:
            return
        self._faults.last = None  # it reads again
        with self._lock:
            self.records += read
            self.without_arrival += without
            self.before_since += before
            self.unreadable += unreadable
            if ended:
                # Counted with the newest of them, each with its own latency.
                newest, came, out = max(ended), np.array(arrivals), np.array(ended)
                self._latencies.count(newest, came + (newest - out))
                self._new.append(DoneRecords(came, np.maximum(out - came, 0.0)))


def arrival_of(message: Message) -> float | None:
    """Return when a record's cause came, in seconds since 1970, or None if the record does not say.

    Raises
    ------
    ConfigurationError
        The header is there and is not a number: somebody else writes it.
    """
    # A client that reads gets a list of pairs. The declared type also covers what it may send.
    for name, value in cast("list[tuple[str, bytes | None]]", message.headers() or []):
        if name == ARRIVAL_HEADER and value is not None:
            text = value.decode(errors="replace")
            if not text.isdecimal() or len(text) > _DIGITS:
                raise ConfigurationError(
                    f"{ARRIVAL_HEADER}: {text[:40]!r} is not a count of microseconds; write_topic does not write "
                    "the records of this topic",
                    field=ARRIVAL_HEADER,
                )
            return int(text) / 1e6
    return None
