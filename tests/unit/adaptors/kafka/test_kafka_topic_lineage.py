# SPDX-License-Identifier: Apache-2.0
"""Which batches above wrote a batch's records, on arrivals that are played."""

from __future__ import annotations

from typing import cast

import numpy as np

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.adaptors.kafka.topic_lineage import TopicLineage
from penstock.ports import ArrivalTimes, BatchLineage, FloatArray, PartialLineage, SampledArrivalTimes
from penstock.records import SourceProgress

SOURCE = SourceProgress("KafkaV2[Subscribe[t]]", None, '{"t": {"0": 3}}', None, 3)


class PlayedArrivals:
    """Arrivals that are told."""

    is_exact = False

    def __init__(self, times: list[float] | None) -> None:
        self.times = times
        self.asked: list[float] = []

    def of(self, source: SourceProgress) -> FloatArray | None:
        """When the batch's records were sent."""
        return None if self.times is None else np.array(self.times)

    def arrived_by(self, at: float) -> int | None:
        """How many had come: one a second, from the first second on."""
        self.asked.append(at)
        return None if at > 100.0 else int(at)

    def done_index(self, source: SourceProgress) -> int | None:
        """How many are done."""
        return 5


def lineage(times: list[float] | None, answer: list[int] | None) -> tuple[TopicLineage, list[tuple[float, float]]]:
    """A lineage whose batches are told, and the spans it asked for."""
    asked: list[tuple[float, float]] = []

    def batches_between(first: float, last: float) -> list[int] | None:
        asked.append((first, last))
        return answer

    return TopicLineage(cast(KafkaArrivals, PlayedArrivals(times)), batches_between), asked


def test_batches_are_asked_for_by_the_first_and_last_record() -> None:
    """The span from the oldest to the newest record names the batches, which come rising."""
    told, asked = lineage([2.0, 3.0, 9.5], [4, 3])
    assert told.upstream_batches(SOURCE) == [3, 4]
    assert asked == [(2.0, 9.5)]


def test_what_is_not_known_is_none_and_no_records_have_no_batches() -> None:
    """Unknown times and unfinished batches give None; an empty batch has none above, and nobody is asked."""
    told, asked = lineage(None, [1])
    assert told.upstream_batches(SOURCE) is None
    assert not asked
    told, asked = lineage([], [1])
    assert told.upstream_batches(SOURCE) == []
    assert not asked
    told, asked = lineage([1.0], None)
    assert told.upstream_batches(SOURCE) is None
    assert asked == [(1.0, 1.0)]


def test_it_stands_for_the_arrivals_too() -> None:
    """Arrival times, counts and exactness are those of the topic."""
    told, _ = lineage([1.0], [1])
    as_arrivals: ArrivalTimes = told
    as_lineage: BatchLineage = told
    assert isinstance(as_arrivals, SampledArrivalTimes)
    assert not as_arrivals.is_exact
    assert as_arrivals.arrived_by(3.0) == 3
    assert as_arrivals.done_index(SOURCE) == 5
    assert as_lineage.upstream_batches(SOURCE) == [1]
    found = as_arrivals.of(SOURCE)
    assert found is not None
    assert found.tolist() == [1.0]


def test_the_part_that_was_read_of_what_was_sent_meanwhile() -> None:
    """Of eight that were sent from 2 to 10 these are two; of none it is none, and what is not known is None."""
    told, _ = lineage([2.0, 3.0, 9.5], None)
    assert isinstance(told, PartialLineage)
    assert told.part_read(SOURCE, 2.0, 10.0) == 2 / 8
    assert told.part_read(SOURCE, 10.0, 12.0) == 0.0
    assert told.part_read(SOURCE, 2.0, 101.0) is None
    assert lineage(None, None)[0].part_read(SOURCE, 2.0, 10.0) is None


def test_a_broker_that_is_away_is_asked_once() -> None:
    """Each question to it takes seconds of a pass."""
    played = PlayedArrivals([101.5])
    told = TopicLineage(cast(KafkaArrivals, played), lambda _first, _last: None)
    assert told.part_read(SOURCE, 101.0, 102.0) is None
    assert played.asked == [101.0]


def test_no_more_is_read_than_was_sent() -> None:
    """Where counts and times disagree by a record at the border, it was all."""
    told, _ = lineage([2.2, 2.4, 2.6], None)
    assert told.part_read(SOURCE, 2.0, 3.0) == 1.0
    assert told.part_read(SOURCE, 2.0, 2.9) is None, "records, and none was sent: it is not known"
