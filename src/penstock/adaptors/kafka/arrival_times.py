# SPDX-License-Identifier: Apache-2.0
"""When the records of a Kafka-fed query arrived: a tap's timestamps, looked up by the batches' offset ranges.

A record's timestamp is its producer's or, in topics stamped by the broker, when the broker took it. Kafka keeps
milliseconds. Latency counts from there to the end of the batch that carried the record.
"""

from __future__ import annotations

import numpy as np

from penstock.adaptors.kafka.offsets import Partition, parse_offsets
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.errors import MetricSourceError
from penstock.ports import FloatArray
from penstock.records import SourceProgress

_WAIT_SECONDS = 2.0


class KafkaArrivals:
    """The arrival times of a query's Kafka source (the `ArrivalTimes` port).

    Counts are offsets summed over partitions: a compacted or transactional topic has offsets without a record, which
    count too, on both sides of a difference.

    Parameters
    ----------
    tap
        Reads the source's topics. The caller starts and stops it.
    wait_seconds
        How long an answer may wait for the tap, which is a few milliseconds behind the broker.
    """

    def __init__(self, tap: TopicTap, *, wait_seconds: float = _WAIT_SECONDS) -> None:
        self._tap = tap
        self._wait_seconds = wait_seconds
        self.is_exact = True
        """Whether the newest answer is without times that were interpolated because the tap samples."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records, in order.

        None if the source is not Kafka, the records came before the tap or are forgotten, or the broker is away.
        """
        end = self._offsets(source.end_offset)
        if end is None:
            return None
        start = self._start(source, end)
        if start is None:
            return None
        parts, is_exact = [], True
        for partition, stop in end.items():
            first = start.get(partition, 0)  # a partition added since: Spark reads it from its beginning
            if first >= stop:
                continue
            found = self._tap.between(partition, first, stop, self._wait_seconds)
            if found is None:
                return None
            is_exact = is_exact and found.is_exact
            parts.append(found.seconds)
        self.is_exact = is_exact
        return np.sort(np.concatenate(parts)) if parts else np.empty(0)

    def arrived_by(self, at: float) -> int | None:
        """Return how many records have arrived up to `at`, or None if that is not known (any more)."""
        counts = [self._tap.count_by(partition, at, self._wait_seconds) for partition in self._tap.partitions]
        return None if None in counts else sum(count for count in counts if count is not None)

    def between(self, start: float, end: float) -> FloatArray | None:
        """Return the arrival times after `start` and up to `end`, in order, or None if they are not known."""
        parts, is_exact = [], True
        for partition in self._tap.partitions:
            low, high = (self._tap.count_by(partition, at, self._wait_seconds) for at in (start, end))
            if low is None or high is None:
                return None
            if low < high:
                found = self._tap.between(partition, low, high, self._wait_seconds)
                if found is None:
                    return None
                is_exact = is_exact and found.is_exact
                parts.append(found.seconds)
        self.is_exact = is_exact
        return np.sort(np.concatenate(parts)) if parts else np.empty(0)

    def done_index(self, source: SourceProgress) -> int | None:
        """Return how many records are done when this batch is, or None if the offsets are not of the tap's topics."""
        end = self._offsets(source.end_offset)
        return None if end is None else sum(end.values())

    def _offsets(self, text: str | None) -> dict[Partition, int] | None:
        found = parse_offsets(text)
        if found is None or not set(found) <= set(self._tap.partitions):
            return None
        return found

    def _start(self, source: SourceProgress, end: dict[Partition, int]) -> dict[Partition, int] | None:
        if source.start_offset is not None:
            return self._offsets(source.start_offset)
        # A query's first batch reports no start. It is the beginning of the topic if that many rows fit.
        if source.rows == 0:
            return end
        try:
            low = self._tap.low_offsets()
        except MetricSourceError:
            return None
        return low if sum(stop - low[partition] for partition, stop in end.items()) == source.rows else None
