# SPDX-License-Identifier: Apache-2.0
"""A RabbitMQ queue as a streaming source: ``spark.readStream.format("penstock_rabbitmq")``.

Delivery is at least once: a message is acknowledged only after Spark has recorded that its batch is done. One reader
beside the driver receives messages into a spool (`spool`), whose row numbers are the offsets. Tasks read the spool's
files. A batch that is run again after a crash has exactly the same rows. Repeated deliveries are marked: `redelivered`
by the broker, `duplicate_of` by the spool if the message can be recognised.

An offset is ``{"spool": id, "number": rows received}``. docs/decisions explains the design.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from penstock.adaptors.rabbitmq.consumer import SpoolingConsumer
from penstock.adaptors.rabbitmq.message import ARROW_SCHEMA, SCHEMA
from penstock.adaptors.rabbitmq.source_options import RabbitMQOptions
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_files import Slice, read, segments_in, slices, split
from penstock.adaptors.spark.python_sources import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from penstock.errors import ConfigurationError

NAME = "penstock_rabbitmq"
_QUIET_SECONDS = 2.0


class RabbitMQSource(DataSource):
    """The source ``penstock_rabbitmq``: ``spark.dataSource.register(penstock.RabbitMQSource)`` makes it known.

    Its options are the fields of `RabbitMQOptions` in camelCase.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.parsed = RabbitMQOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """The columns: the message with its marks, identity and instants."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> RabbitMQStreamReader:  # noqa: N802 - Spark's name
        """Return the reader."""
        if schema.fieldNames() != ARROW_SCHEMA.names:
            raise ConfigurationError(
                f"schema: the RabbitMQ source has the columns {SCHEMA}; leave .schema(...) out", field="schema"
            )
        return RabbitMQStreamReader(self.parsed)


@dataclass(frozen=True)
class SpoolPartition(InputPartition):
    """The rows of one task: file names and positions, no data."""

    slices: tuple[Slice, ...]


class RabbitMQStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Receives messages (in one long-lived process beside the driver) and reads them (in tasks)."""

    def __init__(self, options: RabbitMQOptions) -> None:
        # Planning processes create it too, and tasks get copies: open nothing here.
        self._options = options
        self._spool: Spool | None = None
        self._consumer: SpoolingConsumer | None = None
        self._until: int | None = None
        self._ready_at_start: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the offset before the first message. Raises if the server, queue or password is wrong."""
        self._options.connection().check_queue(self._options.queue)
        return self._offset(0)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset of what was received so far, within `limit`."""
        first = int(start["number"])
        consumer = self._consumer_from(start)
        # Spark asks for what comes after `start` once the batch that ended there is in its commit log.
        consumer.done(first)
        consumer.flush()
        consumer.check()
        end = self._received(consumer, first)
        if isinstance(limit, ReadMaxRows):
            end = min(end, first + limit.max_rows)
        elif isinstance(limit, ReadMinRows) and end - first < limit.min_rows and not consumer.is_full:
            end = first
        return self._offset(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the option maxRowsPerBatch."""
        rows = self._options.max_rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the offset of what was received so far, without a limit. What waits in the broker does not count."""
        return None if self._consumer is None else self._offset(self._consumer.next_number)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """With ``trigger(availableNow=True)``, end the query after what is in the queue now."""
        self._ready_at_start = self._options.connection().check_queue(self._options.queue)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Split the rows of a batch evenly, in order."""
        spool = self._opened_spool()
        spool.check_id(end["spool"])
        first, stop = int(start["number"]), int(end["number"])
        if self._consumer is not None:
            found = self._consumer.find(first, stop)
        else:  # a batch that is run again after a restart, before anything new is requested
            found = slices(segments_in(spool.folder), first, stop)
        return [SpoolPartition(tuple(share)) for share in split(found, self._options.partitions)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the partition's rows as Arrow batches of bounded size."""
        assert isinstance(partition, SpoolPartition)
        yield from read(partition.slices)

    def commit(self, end: dict[str, Any]) -> None:
        """Let the rows below `end` be acknowledged."""
        if self._consumer is not None:
            self._consumer.done(int(end["number"]))

    def stop(self) -> None:
        """Acknowledge what is done, then close the connection and the spool."""
        if self._consumer is not None:
            self._consumer.stop()
        elif self._spool is not None:
            self._spool.close()

    def _consumer_from(self, start: dict[str, Any]) -> SpoolingConsumer:
        spool = self._opened_spool()
        spool.check_id(start["spool"])
        if self._consumer is None:
            options = self._options
            consumer = SpoolingConsumer(
                options.connection(), options.queue, spool,
                prefetch=options.prefetch, max_bytes=options.max_spool_bytes,
            )  # fmt: skip
            consumer.start(int(start["number"]))
            self._consumer = consumer
            if self._ready_at_start is not None:
                self._until = int(start["number"]) + self._ready_at_start
        return self._consumer

    def _received(self, consumer: SpoolingConsumer, first: int) -> int:
        if self._until is None:
            return consumer.next_number
        # Available now: wait for what was in the queue at the start, unless another consumer takes it.
        seen, quiet_since = consumer.next_number, time.monotonic()
        while seen < self._until and not consumer.is_full and time.monotonic() - quiet_since < _QUIET_SECONDS:
            time.sleep(0.05)
            consumer.flush()
            consumer.check()
            if consumer.next_number > seen:
                seen, quiet_since = consumer.next_number, time.monotonic()
        return max(first, min(seen, self._until))

    def _opened_spool(self) -> Spool:
        if self._spool is None:
            self._spool = Spool(Path(self._options.spool_dir), marks_resent=self._options.mark_resent)
        return self._spool

    def _offset(self, number: int) -> dict[str, Any]:
        return {"spool": self._opened_spool().id, "number": number}
