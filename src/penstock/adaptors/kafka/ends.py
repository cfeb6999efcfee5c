# SPDX-License-Identifier: Apache-2.0
"""The first and the next offset of partitions, asked of the broker within a time limit.

A client of its own asks. A consumer that reads in one thread was seen to block another thread that asked it for
offsets for ever, whatever its timeout.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.kafka.offsets import Partition
from penstock.errors import MetricSourceError

# After a broker's restart the client keeps asking the leaders it knew and is refused for ever. A new client asks anew.
_STALE_LEADER_ERRORS = ("FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH")


class PartitionEnds:
    """Asks a broker where partitions begin and end. Thread-safe."""

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float = 2.0) -> None:
        self._connection = connection
        self._servers = connection.bootstrap_servers
        self._timeout_seconds = timeout_seconds
        self._client = connection.admin(ClientFaults())

    def first(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the oldest offset that each partition still has.

        Raises
        ------
        MetricSourceError
            The broker does not answer in time.
        """
        return self._ask(partitions, is_newest=False)

    def next(self, partitions: Sequence[Partition]) -> dict[Partition, int]:
        """Return the offset that each partition's next record will have. Raises as `first` does."""
        return self._ask(partitions, is_newest=True)

    def _ask(self, partitions: Sequence[Partition], *, is_newest: bool) -> dict[Partition, int]:
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin._listoffsets import OffsetSpec

        spec = OffsetSpec.latest() if is_newest else OffsetSpec.earliest()  # type: ignore[no-untyped-call]
        deadline = time.monotonic() + self._timeout_seconds
        while True:
            left = max(0.1, deadline - time.monotonic())
            wanted = {TopicPartition(*partition): spec for partition in partitions}
            answers = self._client.list_offsets(wanted, request_timeout=left)
            try:
                return {(at.topic, at.partition): int(answer.result(left).offset) for at, answer in answers.items()}
            except (KafkaException, FutureTimeoutError) as fault:
                # A topic that was just created, or a broker that has just come back, has no leader for a moment.
                if isinstance(fault, KafkaException) and fault.args[0].name() in _STALE_LEADER_ERRORS:
                    self._client = self._connection.admin(ClientFaults())
                if time.monotonic() + 0.1 < deadline:
                    time.sleep(0.05)
                    continue
                raise MetricSourceError(
                    f"Kafka: {self._servers} does not report the offsets of {partitions[0][0]}: "
                    f"{fault or f'no answer within {self._timeout_seconds:g} s'}",
                    target=partitions[0][0],
                    retryable=True,
                ) from fault
