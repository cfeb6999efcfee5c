# SPDX-License-Identifier: Apache-2.0
"""Finds the batches of the upstream operator that wrote the records of a batch, by the records' timestamps.

The upstream operator sends a batch's records while the batch runs, and its batches run one after another. So the time
at which a record was sent identifies the batch. The topic must keep the producer's times (`operator_topics` creates
topics that do).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.ports import FloatArray
from penstock.records import SourceProgress


class TopicLineage:
    """The arrival times of a topic between two operators, and the upstream batches (the `BatchLineage` port).

    Parameters
    ----------
    arrivals
        When the topic's records were sent.
    batches_between
        Returns the ids, rising, of the upstream batches that ran at any time from its first argument to its second
        (seconds since the epoch, both included). None while one of them is not done or not known. A record can be
        read before the batch that sent it is done: the answer is None then, and known later.
    """

    def __init__(
        self, arrivals: KafkaArrivals, batches_between: Callable[[float, float], Sequence[int] | None]
    ) -> None:
        self._arrivals = arrivals
        self._batches_between = batches_between

    @property
    def is_exact(self) -> bool:
        """Whether every time in the newest answer was that of its record."""
        return self._arrivals.is_exact

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Return when the upstream operator sent a batch's records."""
        return self._arrivals.of(source)

    def arrived_by(self, at: float) -> int | None:
        """Return how many records had been sent up to `at`."""
        return self._arrivals.arrived_by(at)

    def done_index(self, source: SourceProgress) -> int | None:
        """Return how many records are done when this batch is."""
        return self._arrivals.done_index(source)

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Return the ids, rising, of the upstream batches whose records a batch carried, or None if not known (yet)."""
        times = self._arrivals.of(source)
        if times is None:
            return None
        if times.size == 0:
            return []
        batches = self._batches_between(float(times[0]), float(times[-1]))
        return None if batches is None else sorted(batches)

    def part_read(self, source: SourceProgress, since: float, until: float) -> float | None:
        """Return how much a batch carried of what was sent after `since` and up to `until`, or None if not known."""
        times = self._arrivals.of(source)
        if times is None:
            return None
        before, up_to = np.searchsorted(times, (since, until), side="right")
        if before == up_to:
            return 0.0
        # Asking a broker that is away takes seconds: once is enough to know.
        sent_before = self._arrivals.arrived_by(since)
        sent_up_to = None if sent_before is None else self._arrivals.arrived_by(until)
        if sent_before is None or sent_up_to is None or sent_up_to <= sent_before:
            return None
        return min(1.0, float(up_to - before) / (sent_up_to - sent_before))
