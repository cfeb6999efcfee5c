# SPDX-License-Identifier: Apache-2.0
"""A tap: a light consumer that reads when a topic's records arrived, beside the pipeline, and nothing else.

It assigns itself the partitions, joins no group and commits nothing, so nobody else notices it. It drops payloads as
they come. Above `max_rate` it samples: it reads the first `max_rate` records of each second and skips the rest of the
second. Skipped records are interpolated, and answers say so.

If the broker goes away, the tap waits: `fault` says so meanwhile, and reading resumes where it was.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import numpy as np

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.kafka.ends import PartitionEnds
from penstock.adaptors.kafka.offsets import Partition
from penstock.adaptors.kafka.record_times import RangeTimes, RecordTimes
from penstock.adaptors.kafka.topics import TIMEOUT_SECONDS, Topics
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.ports import FloatArray

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_LOG = logging.getLogger(__name__)
_READ_AT_ONCE = 2000
_POLL_SECONDS = 0.1
_MOST_AHEAD_MS = 60_000
"""How far a producer's clock may be ahead of ours."""
_CLIENT_OPTIONS: Mapping[str, str | int | float | bool] = {
    "group.id": "penstock-tap",
    # Fetch little at a time: what is fetched is held only until two of its numbers are read.
    "queued.max.messages.kbytes": 4096,
    "queued.min.messages": 4000,
    "fetch.max.bytes": 4 << 20,
    # At most ten answers a second while little comes: otherwise the broker answers once for each record.
    "fetch.wait.max.ms": 100,
    "fetch.min.bytes": 64 << 10,
    "auto.offset.reset": "earliest",  # after retention deleted what was to be read next
    "check.crcs": False,
}


class TopicTap:
    """Timestamps of the records of one or more topics. Use as a context manager; reading begins at `start`.

    Parameters
    ----------
    connection, topics
        What to watch. The constructor raises if a topic is missing.
    begin
        ``"end"``: records that come from now on; ``"beginning"``: all records in the topic.
    max_rate
        Records per second, over all partitions, above which it samples.
    max_records
        Most timestamps kept, over all partitions (16 bytes each); the oldest go first.
    on_times
        Receives the arrival times, in seconds, of records as they are read (for example `IatWindows.add_times`).
        `on_gap` is called where records were skipped. Both are called from the tap's thread.

    Raises
    ------
    ConfigurationError
        A topic is missing, the broker refuses the credentials, or a value is wrong.
    AdaptorError
        No broker answers.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        *,
        begin: str = "end",
        max_rate: float = 20_000.0,
        max_records: int = 1_000_000,
        on_times: Callable[[FloatArray], None] | None = None,
        on_gap: Callable[[], None] | None = None,
    ) -> None:
        if begin not in ("end", "beginning"):
            raise ConfigurationError(f"begin: unknown {begin!r}; known: end, beginning", field="begin")
        if not max_rate > 0:
            raise ConfigurationError(f"max_rate: {max_rate!r} must be above 0", field="max_rate")
        if not topics:
            raise ConfigurationError("topics: is empty; name at least one", field="topics")
        found = Topics(connection).check(topics)
        self.connection = connection
        self.topics = tuple(topics)
        self._max_rate = max_rate
        self._on_times = on_times
        self._on_gap = on_gap
        self._faults = ClientFaults()
        self._ends = PartitionEnds(connection)
        self._changed = threading.Condition()
        partitions = [(topic.name, n) for topic in found for n in range(topic.partitions)]
        capacity = max(1000, max_records // len(partitions))
        self._times: dict[Partition, RecordTimes] = {}
        patient = PartitionEnds(connection, timeout_seconds=TIMEOUT_SECONDS)
        places = patient.next(partitions) if begin == "end" else patient.first(partitions)
        for partition, place in places.items():
            # If retention deleted records before, they came before: the beginning then is the same kind as the end.
            since = time.time() if place > 0 or begin == "end" else None
            self._times[partition] = RecordTimes(place, capacity, since)
        self._consumer: Consumer = connection.consumer(_CLIENT_OPTIONS, self._faults)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="penstock-kafka-tap", daemon=True)
        self._died: str | None = None
        self.records_read = 0
        self.records_skipped = 0
        self.implausible = 0
        """Records read so far without a timestamp, or with one from the future; they count with when they were read."""

    # --- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start reading in a background thread."""
        self._assign()
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop reading and keep what is known. May be called twice."""
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
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions that the tap watches."""
        return tuple(self._times)

    @property
    def fault(self) -> str | None:
        """Why reading fails at present, in the client's words. None: it works."""
        return self._died or self._faults.last

    @property
    def is_sampling(self) -> bool:
        """Whether records were ever skipped."""
        return self.records_skipped > 0

    def between(self, partition: Partition, start: int, end: int, wait_seconds: float = 0.0) -> RangeTimes | None:
        """Return the times of a partition's records with start <= offset < end. Wait for the tap to get there.

        None if it does not get there in time, or if they are forgotten or older than the tap.
        """
        known = self._times.get(partition)
        if known is None:
            return None
        with self._changed:
            self._changed.wait_for(lambda: known.known_to >= end or not self._thread.is_alive(), wait_seconds)
            return known.between(start, end)

    def count_by(self, partition: Partition, at: float, wait_seconds: float = 0.0) -> int | None:
        """Return how many records a partition had at `at`. Ask the broker if the newest known record came before."""
        known = self._times[partition]
        with self._changed:
            newest = known.newest_at
            if newest is not None and newest > at:
                return known.count_by(at)
        try:
            high = self._ends.next([partition])[partition]
        except MetricSourceError:
            return None
        self._faults.last = None  # it answers
        with self._changed:
            if high < known.position:
                return None  # a broker that was killed and is back reports too few for a moment: they were read already
            if not self._changed.wait_for(lambda: known.position >= high, wait_seconds):
                return None
            newest = known.newest_at
            return known.count_by(at) if newest is not None and newest > at else high

    def low_offsets(self) -> dict[Partition, int]:
        """Return the oldest offset that each partition still has."""
        return self._ends.first(self.partitions)

    # --- how ---------------------------------------------------------------------------------------------------

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign([TopicPartition(t, n, known.position) for (t, n), known in self._times.items()])

    def _run(self) -> None:
        second, read = time.monotonic(), 0
        try:
            while not self._stop.is_set():
                read += self._read_some()
                now = time.monotonic()
                if read >= self._max_rate and now - second < 1.0:
                    self._pass_over(second + 1.0)
                    now = time.monotonic()
                if now - second >= 1.0:
                    second, read = now, 0
        except Exception as fault:
            # A defect must not look like a topic at rest: `fault` reports it, and answers become None.
            self._died = f"the tap failed: {fault}"
            raise
        finally:
            with self._changed:
                self._changed.notify_all()

    def _read_some(self) -> int:
        room = max(1, min(_READ_AT_ONCE, int(self._max_rate)))
        messages = self._consumer.consume(room, timeout=_POLL_SECONDS)
        now_ms = time.time_ns() // 1_000_000
        columns: dict[Partition, tuple[list[int], list[int]]] = {}
        order: list[int] = []
        for message in messages:
            error, offset = message.error(), message.offset()
            topic, number = message.topic(), message.partition()
            if error is not None:
                self._faults.add(error)
            elif topic is not None and number is not None and offset is not None:
                at_ms = self._plausible(message.timestamp()[1], now_ms)
                offsets, times = columns.setdefault((topic, number), ([], []))
                offsets.append(offset)
                times.append(at_ms)
                order.append(at_ms)
        if not order:
            return 0
        self._faults.last = None  # it reads again
        with self._changed:
            for partition, (offsets, times) in columns.items():
                self._times[partition].add(offsets, times)
            self.records_read += len(order)
            self._changed.notify_all()
        if self._on_times is not None:
            self._on_times(np.sort(np.array(order, dtype=np.float64)) / 1e3)
        return len(order)

    def _plausible(self, at_ms: int, now_ms: int) -> int:
        # Times of a partition never fall: one from the year 50,000 would be that of every record behind it.
        if 0 <= at_ms <= now_ms + _MOST_AHEAD_MS:
            return at_ms
        self.implausible += 1
        if self.implausible == 1:
            _LOG.warning(
                "a record of %s has the timestamp %d ms, which cannot be; it counts with when it was read",
                ", ".join(self.topics), at_ms,
            )  # fmt: skip
        return now_ms

    def _pass_over(self, until: float) -> None:
        """Read nothing until then, and continue with what comes after."""
        # Unassign and assign again: after a pause, paused partitions resume where they were, whatever was sought.
        self._consumer.unassign()
        self._stop.wait(max(0.0, until - time.monotonic()))
        skipped = 0
        try:
            ends = self._ends.next(self.partitions)
        except MetricSourceError:
            ends = {}  # the broker is away: resume later from the same place
        with self._changed:
            for partition, high in ends.items():
                known = self._times[partition]
                newest = high - 1  # read it, so that the skipped stretch has a neighbour behind it
                if newest > known.position:
                    skipped += newest - known.position
                    known.skip_to(newest)
        self._assign()
        self.records_skipped += skipped
        if skipped and self._on_gap is not None:
            self._on_gap()
