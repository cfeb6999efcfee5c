# SPDX-License-Identifier: Apache-2.0
"""Arrivals of a pipeline behind MEAD's fanout: as they come from the monitor's queue, by batches from the spool."""

from __future__ import annotations

import time
from pathlib import Path

from penstock.adaptors.rabbitmq.arrival_log import ArrivalLog
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals
from penstock.ports import FloatArray
from penstock.records import SourceProgress

_NOW_SECONDS = 0.5
"""What is younger is now: the queue is not asked more often."""


class TappedArrivals(QueueArrivals):
    """When the records of a query arrived (`penstock.ports.TimedArrivalTimes`).

    The spool has the arrivals of every batch, the queue what waits, and the log of the tap what came when.

    Parameters
    ----------
    spool_dir, connection, queue
        As `QueueArrivals` has them.
    log
        Of the tap on the monitor's queue. The caller starts and closes it.
    """

    def __init__(self, spool_dir: str | Path, connection: RabbitMQConnection, queue: str, log: ArrivalLog) -> None:
        super().__init__(spool_dir, connection, queue)
        self._log = log
        self.is_exact = True
        """Whether the newest answer is without times that were put between others because the tap had missed some."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return the arrival times of a batch's records, from the spool."""
        self.is_exact = True
        return super().of(source)

    def arrived_by(self, at: float) -> int | None:
        """Return how many records have arrived up to `at`, or None if that is not known."""
        arrived = self.arrived()
        if arrived is None or at >= time.time() - _NOW_SECONDS:
            return arrived
        since = self._log.count_after(at)
        return None if since is None else max(0, arrived - since)

    def between(self, start: float, end: float) -> FloatArray | None:
        """Return the arrival times after `start` and up to `end`, as the tap saw them, or None if it missed some."""
        found = self._log.between(start, end)
        self.is_exact = found is not None and found.is_exact
        return None if found is None else found.times
