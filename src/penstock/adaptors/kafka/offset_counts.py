# SPDX-License-Identifier: Apache-2.0
"""How many records a topic had at an instant, by offsets-for-times queries: no record is read, no payload is sent.

The cheapest look at a stream: one small request however many records came. It gives counts, and so rates and
backlogs; when each record came between two instants it does not know. For that there is the tap.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.ends import PartitionEnds
from penstock.adaptors.kafka.topics import Topics
from penstock.errors import MetricSourceError

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_ASK_SECONDS = 5.0
_END = -1  # what the broker answers where no record is that new


class OffsetCounts:
    """Counts of a topic's records by instants. Use as a context manager, or `close` it."""

    def __init__(self, connection: KafkaConnection, topics: Sequence[str]) -> None:
        found = Topics(connection).check(topics)
        self._partitions = [(topic.name, n) for topic in found for n in range(topic.partitions)]
        self._consumer: Consumer = connection.consumer({"group.id": "penstock-counts"})
        self._ends = PartitionEnds(connection, timeout_seconds=_ASK_SECONDS)
        self._servers = connection.bootstrap_servers

    def count_by(self, at: float) -> int:
        """How many records (offsets, summed over partitions) had arrived up to the instant `at`.

        Raises
        ------
        MetricSourceError
            The broker does not answer.
        """
        from confluent_kafka import KafkaException, TopicPartition

        # The first offset whose time is later: Kafka's clock ticks milliseconds.
        wanted = [TopicPartition(topic, n, int(at * 1e3) + 1) for topic, n in self._partitions]
        try:
            total = 0
            for place in self._consumer.offsets_for_times(wanted, timeout=_ASK_SECONDS):
                if place.error is not None:
                    raise KafkaException(place.error)
                offset = place.offset
                if offset == _END:
                    at_end = (place.topic, place.partition)
                    offset = self._ends.next([at_end])[at_end]
                total += int(offset)
        except KafkaException as fault:
            raise MetricSourceError(
                f"Kafka: {self._servers} cannot tell offsets by time: {fault}", target="Kafka", retryable=True
            ) from fault
        return total

    def close(self) -> None:
        """Let go of the connection."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
