# SPDX-License-Identifier: Apache-2.0
"""Latency from the first arrival to the end of the last operator."""

from itertools import pairwise

import numpy as np
import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor.path import PathMonitor
from penstock.ports import FloatArray
from penstock.records import BatchProgress, SourceProgress


class FakeLineage:
    """Batch n takes batches 2n and 2n + 1 of the operator above."""

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Two batches per batch, by the end offset."""
        if source.end_offset is None:
            return None
        n = int(source.end_offset) // 20 - 1
        return [2 * n, 2 * n + 1]


def add(first: PathMonitor, batch: BatchProgress) -> None:
    """A batch of the first operator, with its arrivals."""
    first.add(batch, FakeArrivals().of(batch.sources[0]))


def test_latency_of_a_path_runs_from_the_first_arrival() -> None:
    """Records that arrived at 0.0 .. 1.9 and left the second operator at 5.0."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=FakeLineage())
    add(first, a_batch(0, 0, 10, 1.0, 2.0))
    add(first, a_batch(1, 10, 20, 2.0, 3.0))
    second.add(a_batch(0, 0, 20, 3.0, 5.0), None)
    summary = second.latency_of_run()
    assert summary is not None
    assert summary.records == 20
    assert summary.mean_seconds == pytest.approx(5.0 - 0.95)  # mean arrival of 0.0 .. 1.9
    of_first = first.latency_of_run()
    assert of_first is not None
    assert of_first.mean_seconds == pytest.approx(1.55)  # both batches end 1.1 .. 2.0 after their arrivals


def test_records_are_given_one_by_one_once() -> None:
    """With first arrival and latency; what was taken is not given again."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=FakeLineage())
    add(first, a_batch(0, 0, 10, 1.0, 2.0))
    add(first, a_batch(1, 10, 20, 2.0, 3.0))
    second.add(a_batch(0, 0, 20, 3.0, 5.0), None)
    done = second.since_last()
    assert done is not None
    assert done.arrived.tolist() == pytest.approx((np.arange(20) / 10.0).tolist())
    assert done.seconds.tolist() == pytest.approx((5.0 - np.arange(20) / 10.0).tolist())
    assert second.since_last() is None


def test_records_that_still_wait_count_with_their_wait() -> None:
    """Nine done at once and one that has waited a minute: the mean knows of it."""
    first = PathMonitor()
    add(first, a_batch(0, 0, 9, 0.8, 1.0))
    summary = first.latency_with_waiting(np.array([0.9]), 60.9)
    assert summary is not None
    assert summary.records == 10
    assert not summary.is_exact
    assert summary.max_seconds == pytest.approx(60.0, rel=1e-3)


def test_a_forgotten_batch_is_counted_as_unknown() -> None:
    """What is no longer remembered gives no latency, and no zero."""
    first = PathMonitor(batches_kept=1)
    second = PathMonitor(above=first, lineage=FakeLineage())
    for n in range(4):
        add(first, a_batch(n, 10 * n, 10 * n + 10, n, n + 1.0))
    second.add(a_batch(0, 0, 20, 4.0, 5.0), None)
    assert second.latency_of_run() is None
    assert second.unknown_batches == 1


class FakeOutput:
    """Latency measured where records come out: none came."""

    def since_last(self) -> None:
        """None since."""

    def window(self, now: float) -> None:
        """None in the window."""

    def whole(self) -> None:
        """None at all."""


def test_a_monitor_needs_one_kind_of_source() -> None:
    """An operator above comes with its lineage, and neither goes with latency measured at the output."""
    with pytest.raises(ValueError, match="`above` and `lineage`, or `measured`"):
        PathMonitor(above=PathMonitor())
    with pytest.raises(ValueError, match="`above` and `lineage`, or `measured`"):
        PathMonitor(lineage=FakeLineage())
    with pytest.raises(ValueError, match="`above` and `lineage`, or `measured`"):
        PathMonitor(above=PathMonitor(), lineage=FakeLineage(), measured=FakeOutput())


def test_a_batch_without_arrivals_is_counted_as_unknown() -> None:
    """A batch of the first operator whose arrivals are not known gives no latency, and no zero."""
    first = PathMonitor()
    first.add(a_batch(0, 0, 10, 1.0, 2.0), None)
    assert first.latency_of_run() is None
    assert first.unknown_batches == 1


class SentLineage:
    """Records are sent one a second; a batch's offsets say which, and so when."""

    def __init__(self, above: PathMonitor) -> None:
        self.above = above

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """By the times at which the first and the last were sent."""
        return self.above.batches_between(float(source.start_offset or 0), float(source.end_offset or 0))


def test_a_record_belongs_to_the_first_batch_that_ends_after_it_was_sent() -> None:
    """Also one that a cut-off batch had sent, for that batch is run again; unknown while none has ended."""
    monitor = PathMonitor()
    assert monitor.batches_between(0.5, 0.6) is None
    add(monitor, a_batch(0, 0, 10, 1.0, 2.0))
    add(monitor, a_batch(1, 10, 20, 7.0, 8.0))
    assert monitor.batches_between(1.5, 1.6) == [0]
    assert monitor.batches_between(1.5, 7.5) == [0, 1]
    assert monitor.batches_between(4.0, 4.5) == [1]
    assert monitor.batches_between(7.5, 8.5) is None


def test_what_was_read_before_the_batch_above_was_done_counts_when_it_is() -> None:
    """A topic gives records before the batch that sends them is done; their latency is known a little later."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=SentLineage(first))
    add(first, a_batch(0, 0, 10, 1.0, 2.0))
    second.add(a_batch(0, 3, 4, 3.5, 5.0), None)  # sent from 3 to 4 by a batch above that ends at 6
    assert second.latency_of_run() is None
    assert second.unknown_batches == 1
    add(first, a_batch(1, 10, 20, 2.0, 6.0))
    summary = second.latency_of_run()
    assert summary is not None
    assert summary.records == 10
    assert summary.mean_seconds == pytest.approx(5.0 - 1.45)  # they arrived at 1.0 .. 1.9
    assert second.unknown_batches == 0


def records_of(monitor: PathMonitor, batches: int) -> int:
    """How many records of so many batches are remembered."""
    found = (monitor.first_arrivals(n) for n in range(batches))
    return sum(0 if arrivals is None else len(arrivals) for arrivals in found)


def test_what_every_operator_below_has_counted_is_forgotten() -> None:
    """But for what a few batches took that a crash may let run again; the last operator remembers nothing."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=FakeLineage())
    third = PathMonitor(above=first, lineage=FakeLineage())
    for n in range(100):
        for m in (2 * n, 2 * n + 1):
            add(first, a_batch(m, 10 * m, 10 * m + 10, m, m + 1.0))
        second.add(a_batch(n, 20 * n, 20 * n + 20, 2 * n + 2.0, 2 * n + 3.0), None)
    assert records_of(first, 200) == 2000, "the third has not counted anything"
    for n in range(100):
        third.add(a_batch(n, 20 * n, 20 * n + 20, 300.0, 301.0), None)
    add(first, a_batch(200, 2000, 2010, 302.0, 303.0))
    assert records_of(first, 201) == 210, "what ten batches of two took, and the newest"
    for last in (second, third):
        assert last.first_arrivals(99) is None
        summary = last.latency_of_run()
        assert summary is not None
        assert summary.records == 2000
        last.add(a_batch(98, 1960, 1980, 310.0, 311.0), None)  # cut off at its end, and run again
        again = last.latency_of_run()
        assert again is not None
        assert again.records == 2020


class LateLineage:
    """Batch n takes batch n of the operator above; of the first one that is known late."""

    is_known = False

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """One batch per batch, by the end offset."""
        n = int(source.end_offset or 0) // 10 - 1
        return [n] if n or self.is_known else None


def test_what_an_early_batch_waits_for_is_not_forgotten() -> None:
    """Though batches that came after it were counted before it."""
    first, lineage = PathMonitor(), LateLineage()
    second = PathMonitor(above=first, lineage=lineage)
    for n in range(40):
        add(first, a_batch(n, 10 * n, 10 * n + 10, n, n + 1.0))
        second.add(a_batch(n, 10 * n, 10 * n + 10, n + 1.0, n + 1000.0), None)
    assert second.unknown_batches == 1
    lineage.is_known = True
    add(first, a_batch(40, 400, 410, 40.0, 41.0))
    summary = second.latency_of_run()
    assert summary is not None
    assert summary.records == 400
    assert second.unknown_batches == 0


class TopicOfAbove(SentLineage):
    """A topic: when each of its records was sent; a batch's offsets are places in it."""

    def __init__(self, above: PathMonitor, sent: list[float]) -> None:
        super().__init__(above)
        self.sent = np.array(sent)

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """By the times at which the first and the last were sent."""
        times = self._of(source)
        return self.above.batches_between(float(times[0]), float(times[-1]))

    def part_read(self, source: SourceProgress, since: float, until: float) -> float | None:
        """Of all that was sent in that time."""
        read, all_sent = (np.sum((times > since) & (times <= until)) for times in (self._of(source), self.sent))
        return float(read / all_sent)

    def _of(self, source: SourceProgress) -> FloatArray:
        return self.sent[int(source.start_offset or 0) : int(source.end_offset or 0)]


def read_in_pieces(above: list[BatchProgress], sent: list[float], *borders: int) -> int:
    """How many records count at the end of an operator that reads the topic in batches between these places."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=TopicOfAbove(first, sent))
    for batch in above:
        add(first, batch)
    for n, (start, end) in enumerate(pairwise(borders)):
        second.add(a_batch(n, start, end, 20.0 + n, 21.0 + n), None)
    summary = second.latency_of_run()
    return 0 if summary is None else summary.records


LONG = a_batch(0, 0, 10, 1.0, 10.0)
NEXT = a_batch(1, 10, 30, 10.0, 20.0)


def test_a_record_counts_once_where_a_batch_above_is_read_in_pieces() -> None:
    """A batch above runs for as long as several below, which read what it has sent so far: ten records stay ten."""
    sent = [1.5 + 0.5 * n for n in range(10)]
    assert read_in_pieces([LONG], sent, 0, 3, 4, 8, 10) == 10


def test_a_record_counts_once_where_a_batch_reads_parts_of_several_above() -> None:
    """The end of one and the beginning of the next: thirty records stay thirty."""
    sent = [1.5 + 0.5 * n for n in range(10)] + [10.5 + 0.4 * n for n in range(20)]
    assert read_in_pieces([LONG, NEXT], sent, 0, 5, 15, 30) == 30


def test_what_an_operator_drops_counts_in_all_pieces_together() -> None:
    """Of ten records five were sent, read in two pieces: all ten count once further down."""
    assert read_in_pieces([LONG], [2.0, 3.0, 4.0, 5.0, 6.0], 0, 2, 5) == 10
    assert read_in_pieces([LONG], [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], 0, 2, 4, 6, 7) in range(10, 14), "rounded up"


def test_records_of_a_batch_that_nobody_saw_are_not_taken_for_those_of_the_first_that_was_seen() -> None:
    """A controller that takes over knows no batch before: what was sent in one has no latency, and is no other's."""
    sent = [0.2, 0.4, 0.6] + [1.5 + 0.5 * n for n in range(10)]
    assert read_in_pieces([LONG], sent, 0, 3) == 0
    assert read_in_pieces([LONG], sent, 0, 8, 13) == 10


def test_latencies_of_a_piece_are_spread_over_all_that_may_be_in_it() -> None:
    """Which records of the batch a piece holds is not known: it counts as many, from the first to the last arrival."""
    first = PathMonitor()
    second = PathMonitor(above=first, lineage=TopicOfAbove(first, [1.5 + 0.5 * n for n in range(10)]))
    add(first, LONG)  # arrived at 0.0 .. 0.9
    second.add(a_batch(0, 0, 5, 8.0, 11.0), None)
    done = second.since_last()
    assert done is not None
    assert done.arrived.tolist() == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
