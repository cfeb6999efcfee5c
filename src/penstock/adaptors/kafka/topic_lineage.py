# SPDX-License-Identifier: Apache-2.0
"""Which batches of the operator above wrote the records of a batch, told by the records' timestamps.

A batch of the operator above sends its records while it runs, and its batches run one after another: the time at which
a record was sent names the batch. The topic must bear the producer's times (`operator_topics` makes them so).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.ports import FloatArray
from penstock.records import SourceProgress


class TopicLineage:
    """The arrival times of a topic between two operators, and the batches above (the `BatchLineage` port).

    Parameters
    ----------
    arrivals
        When the topic's records were sent.
    batches_between
        Ids, rising, of the batches above that ran at any time from its first argument to its second (seconds since
        the epoch, both included); None while one of them is not done or not known. A record can be read before
        the batch that sent it is done: then None is the answer, and asking later gives it.
    """

    def __init__(
        self, arrivals: KafkaArrivals, batches_between: Callable[[float, float], Sequence[int] | None]
    ) -> None:
        self._arrivals = arrivals
        self._batches_between = batches_between

    @property
    def is_exact(self) -> bool:
        """Whether every time given so far was that of its record."""
        return self._arrivals.is_exact

    def of(self, source: SourceProgress) -> FloatArray | None:
        """When a batch's records were sent by the operator above."""
        return self._arrivals.of(source)

    def arrived_by(self, at: float) -> int | None:
        """How many records had been sent up to `at`."""
        return self._arrivals.arrived_by(at)

    def done_index(self, source: SourceProgress) -> int | None:
        """How many records are done when this batch is."""
        return self._arrivals.done_index(source)

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Ids of the batches above whose records a batch carried, rising; None where that cannot be told (yet)."""
        times = self._arrivals.of(source)
        if times is None:
            return None
        if times.size == 0:
            return []
        batches = self._batches_between(float(times[0]), float(times[-1]))
        return None if batches is None else sorted(batches)
