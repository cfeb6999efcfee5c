# SPDX-License-Identifier: Apache-2.0
"""Arrival times of batches by their offset ranges, on a tap that is played."""

from __future__ import annotations

import json
from typing import cast

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.adaptors.kafka.offsets import Partition
from penstock.adaptors.kafka.record_times import RangeTimes, RecordTimes
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.errors import MetricSourceError
from penstock.ports import TimedArrivalTimes
from penstock.records import SourceProgress


class PlayedTap:
    """Two partitions of one topic; `is_away`: the broker does not answer."""

    def __init__(self) -> None:
        self.times = {("t", 0): RecordTimes(0, 100), ("t", 1): RecordTimes(0, 100)}
        self.is_away = False

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """The partitions watched."""
        return tuple(self.times)

    def between(self, partition: Partition, start: int, end: int, wait_seconds: float) -> RangeTimes | None:
        """Times of an offset range."""
        return self.times[partition].between(start, end)

    def count_by(self, partition: Partition, at: float, wait_seconds: float) -> int | None:
        """How many had come."""
        if self.is_away:
            return None
        known = self.times[partition]
        newest = known.newest_at
        return known.count_by(at) if newest is not None and newest > at else known.position

    def low_offsets(self) -> dict[Partition, int]:
        """The beginnings."""
        if self.is_away:
            raise MetricSourceError("away")
        return dict.fromkeys(self.times, 0)


def played() -> tuple[PlayedTap, KafkaArrivals]:
    """A tap that knows five records, and the arrivals on it."""
    tap = PlayedTap()
    tap.times["t", 0].add([0, 1, 2], [1000, 3000, 5000])
    tap.times["t", 1].add([0, 1], [2000, 4000])
    return tap, KafkaArrivals(cast(TopicTap, tap))


def progress(start: dict[str, int] | None, end: dict[str, int], rows: int = 0, topic: str = "t") -> SourceProgress:
    """What Spark reports of one batch."""
    return SourceProgress(
        "KafkaV2[Subscribe[t]]",
        None if start is None else json.dumps({topic: start}),
        json.dumps({topic: end}),
        None,
        rows,
    )


def test_a_batch_has_the_times_of_its_records_over_all_partitions() -> None:
    """The records of a batch's offset range are given in the order of their arrival."""
    _, arrivals = played()
    times = arrivals.of(progress({"0": 1, "1": 0}, {"0": 3, "1": 2}))
    assert times is not None
    assert times.tolist() == [2.0, 3.0, 4.0, 5.0]
    assert arrivals.is_exact


def test_a_batch_without_records_has_no_times() -> None:
    """An empty range is empty, not unknown."""
    _, arrivals = played()
    times = arrivals.of(progress({"0": 1, "1": 1}, {"0": 1, "1": 1}))
    assert times is not None
    assert times.size == 0


def test_the_first_batch_begins_with_the_topic_if_its_rows_fit() -> None:
    """Spark names no start for a first batch: the topic's beginning is one only where the rows agree."""
    _, arrivals = played()
    times = arrivals.of(progress(None, {"0": 3, "1": 2}, rows=5))
    assert times is not None
    assert times.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert arrivals.of(progress(None, {"0": 3, "1": 2}, rows=4)) is None


def test_a_partition_added_later_is_read_from_its_beginning() -> None:
    """A partition that the start does not name counts from its first record."""
    _, arrivals = played()
    times = arrivals.of(progress({"0": 3}, {"0": 3, "1": 2}))
    assert times is not None
    assert times.tolist() == [2.0, 4.0]


def test_other_topics_are_not_known_here() -> None:
    """Offsets of a topic that is not tapped give None, for times and for counts."""
    _, arrivals = played()
    other = progress({"0": 0}, {"0": 1}, topic="other")
    assert arrivals.of(other) is None
    assert arrivals.done_index(other) is None


def test_the_backlog_is_what_arrived_less_what_is_done() -> None:
    """Arrived and done count the same way, so that their difference is the queue."""
    _, arrivals = played()
    done = arrivals.done_index(progress({"0": 0, "1": 0}, {"0": 1, "1": 1}))
    assert done == 2
    assert arrivals.arrived_by(3.5) == 3
    assert arrivals.arrived_by(9.0) == 5


def test_a_broker_that_is_away_makes_counts_unknown() -> None:
    """While the broker is away nothing is read as zero: the answers are None."""
    tap, arrivals = played()
    tap.is_away = True
    assert arrivals.arrived_by(3.5) is None
    assert arrivals.of(progress(None, {"0": 3, "1": 2}, rows=5)) is None


def test_arrivals_are_known_as_they_come() -> None:
    """Between two instants, over all partitions and in order; none is told twice, and away is not none."""
    tap, arrivals = played()
    assert isinstance(arrivals, TimedArrivalTimes)
    told = [arrivals.between(*span) for span in ((0.0, 2.0), (2.0, 4.5), (4.5, 5.0), (5.0, 9.0))]
    assert [None if times is None else times.tolist() for times in told] == [[1.0, 2.0], [3.0, 4.0], [5.0], []]
    tap.is_away = True
    assert arrivals.between(0.0, 2.0) is None


def test_sampled_answers_say_so() -> None:
    """Once a batch had interpolated times the arrivals are no longer exact."""
    tap, arrivals = played()
    tap.times["t", 0].skip_to(6)
    tap.times["t", 0].add([6], [9000])
    times = arrivals.of(progress({"0": 3, "1": 2}, {"0": 7, "1": 2}))
    assert times is not None
    assert times.tolist() == [6.0, 7.0, 8.0, 9.0]
    assert not arrivals.is_exact
