# SPDX-License-Identifier: Apache-2.0
"""Trace replay as a streaming source: ``spark.readStream.format("penstock_replay")``.

The load is open: a record is due at its time whether or not the query keeps up. Records that are due and unread form
the queue (latestOffset - endOffset of a progress). A record's latency counts from when it was due.

An offset is ``{"epoch_us": ..., "index": ...}`` (`penstock.arrivals.ReplayOffset`). It includes time zero, so a query
restarted from its checkpoint continues in the same trace at the same times. A restart must keep the options: another
speed or trace would give the remaining records other times.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.adaptors.replay.max_rows_file import read_max_rows
from penstock.adaptors.replay.options import ReplayOptions, open_arrivals, replay_arrivals
from penstock.adaptors.replay.payloads import open_payload
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
from penstock.arrivals.due import ReplayOffset, due_index
from penstock.clock import Clock, SystemClock
from penstock.errors import ConfigurationError

NAME = "penstock_replay"
SCHEMA = "index BIGINT, arrival TIMESTAMP, value STRING"
ROWS_PER_ARROW_BATCH = 10_000
_ARROW_SCHEMA = pa.schema([("index", pa.int64()), ("arrival", pa.timestamp("us", tz="UTC")), ("value", pa.string())])


def register(spark: SparkSession) -> None:
    """Register the format ``penstock_replay`` with a session. May be called twice."""
    spark.dataSource.register(ReplayDataSource)


class ReplayDataSource(DataSource):
    """The source ``penstock_replay``. Its options are the fields of `ReplayOptions` in camelCase."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.replay = ReplayOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """The columns: the record's number, when it arrived, and its text."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ReplayStreamReader:  # noqa: N802 - Spark's name
        """Return the reader."""
        if schema.fieldNames() != _ARROW_SCHEMA.names:
            raise ConfigurationError(
                f"schema: the replay source has the columns {SCHEMA}; leave .schema(...) out", field="schema"
            )
        return ReplayStreamReader(self.replay)


@dataclass(frozen=True)
class ReplayPartition(InputPartition):
    """The records of one task: three numbers. The task opens the trace itself."""

    epoch_us: int
    start: int
    stop: int


class ReplayStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Determines what is due (in one long-lived process beside the driver) and reads it (in tasks)."""

    def __init__(self, options: ReplayOptions, clock: Clock | None = None) -> None:
        # Every task gets a copy, so it holds options only. Each process opens arrivals and payloads for itself.
        self._options = options
        self._clock: Clock = SystemClock() if clock is None else clock
        self._epoch_us = options.epoch_us
        self._until = float("inf")

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset at time zero: now, or what the options say. Repeated calls return the same."""
        open_arrivals(self._options)  # raises for a bad trace before time zero is set
        open_payload(self._options)
        if self._epoch_us is None:
            self._epoch_us = round(self._clock.now() * 1e6)
        return ReplayOffset(self._epoch_us, 0).as_dict()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return the offset of what is due by now, within `limit`."""
        # The checkpoint's time zero overrides this process's: after a restart they differ.
        self._epoch_us = start["epoch_us"]
        first = start["index"]
        end = max(first, self._due(self._epoch_us))
        if isinstance(limit, ReadMaxRows):
            end = min(end, first + limit.max_rows)
        elif isinstance(limit, ReadMinRows) and end - first < limit.min_rows and end < self._total():
            end = first
        rows = read_max_rows(self._options)
        return ReplayOffset(self._epoch_us, end if rows is None else min(end, first + rows)).as_dict()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the option maxRowsPerBatch."""
        rows = self._options.max_rows_per_batch
        return ReadAllAvailable() if rows is None else ReadMaxRows(rows)

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Return the offset of what is due by now, without a limit, so that progress shows the queue."""
        if self._epoch_us is None:
            return None
        return ReplayOffset(self._epoch_us, self._due(self._epoch_us)).as_dict()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """With ``trigger(availableNow=True)``, end the query after what is due now."""
        self._until = self._clock.now()

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Split the records of a batch evenly, in order."""
        # Use the end's time zero: a first batch that is run again after a crash has a new start of its own.
        first, stop = start["index"], end["index"]
        count = min(self._options.partitions, stop - first)
        edges = [first + (stop - first) * i // count for i in range(count + 1)] if count > 0 else []
        return [ReplayPartition(end["epoch_us"], a, b) for a, b in pairwise(edges)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Return the partition's records as Arrow batches of bounded size."""
        assert isinstance(partition, ReplayPartition)
        arrivals, payload = open_arrivals(self._options), open_payload(self._options)
        for start in range(partition.start, partition.stop, ROWS_PER_ARROW_BATCH):
            stop = min(start + ROWS_PER_ARROW_BATCH, partition.stop)
            after_us = np.rint(arrivals.times(start, stop) * (1e6 / self._options.speed))
            us = partition.epoch_us + after_us.astype(np.int64)
            columns = [
                pa.array(np.arange(start, stop, dtype=np.int64)),
                pa.array(us).cast(_ARROW_SCHEMA.field("arrival").type),
                payload.column(start, us),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)

    def _due(self, epoch_us: int) -> int:
        at = min(self._clock.now(), self._until)
        return due_index(open_arrivals(self._options), self._options.speed, epoch_us, at)

    def _total(self) -> int:
        return open_arrivals(self._options).total


__all__ = [
    "NAME",
    "ReplayDataSource",
    "ReplayOptions",
    "ReplayPartition",
    "ReplayStreamReader",
    "open_arrivals",
    "register",
    "replay_arrivals",
]
