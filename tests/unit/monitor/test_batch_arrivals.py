# SPDX-License-Identifier: Apache-2.0
"""When a batch's records arrived: known where the source knows, interpolated where it does not, never made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor.batch_arrivals import MOST_TIMES, ArrivalResolver
from penstock.monitor.latency import LatencyTracker
from penstock.ports import FloatArray
from penstock.records import BatchProgress, SourceProgress


class LiveArrivals(FakeArrivals):
    """Ten records a second, known as they come once they are known at all."""

    known_from = 0.0

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`; None where the beginning is not known."""
        times = np.arange(0, 10_000) / 10.0
        return None if start < self.known_from else times[(times > start) & (times <= end)]


class SampledFakeArrivals(FakeArrivals):
    """The same times, of which some were interpolated from the second batch on."""

    def __init__(self) -> None:
        self.is_exact = True


def without_rows(batch: BatchProgress) -> BatchProgress:
    """The batch with nothing in it and no offsets."""
    return replace(batch, rows=0, sources=())


def test_known_times_are_taken_from_every_source_in_order() -> None:
    """A batch that reads two ranges has the times of both, and they are exact."""
    batch = a_batch(0, 0, 3, 1.0, 2.0)
    two = replace(batch, sources=(*batch.sources, SourceProgress("fake", "10", "12", None, 2)), rows=5)
    resolver = ArrivalResolver(FakeArrivals())
    found = resolver.resolve(two)
    assert found.times is not None
    assert found.times.tolist() == pytest.approx([0.0, 0.1, 0.2, 1.0, 1.1])
    assert found.is_exact
    assert resolver.is_exact
    assert not resolver.comes_before_batches


def test_without_a_source_times_are_spread_between_two_batch_starts() -> None:
    """Records are taken to have come evenly since the batch before began; the result is marked as not exact."""
    resolver = ArrivalResolver(None)
    assert resolver.resolve(a_batch(0, 0, 10, 1.0, 2.0)).times is None
    found = resolver.resolve(a_batch(1, 10, 14, 3.0, 4.0))
    assert found.times is not None
    assert found.times.tolist() == pytest.approx([1.25, 1.75, 2.25, 2.75])
    assert not found.is_exact
    assert not resolver.is_exact


def test_nothing_is_interpolated_across_a_restart() -> None:
    """The first batch of a new run may carry what came at any time before, so its times are not known."""
    resolver = ArrivalResolver(None)
    resolver.resolve(a_batch(0, 0, 10, 1.0, 2.0))
    restarted = replace(a_batch(1, 10, 20, 50.0, 51.0), run_id="another")
    assert resolver.resolve(restarted).times is None
    again = replace(a_batch(2, 20, 22, 52.0, 53.0), run_id="another")
    found = resolver.resolve(again)
    assert found.times is not None
    assert found.times.tolist() == pytest.approx([50.5, 51.5])


def test_an_empty_batch_says_nothing_and_costs_no_exactness() -> None:
    """A batch without records has no times, and those of later batches may still be exact."""
    resolver = ArrivalResolver(FakeArrivals())
    found = resolver.resolve(without_rows(a_batch(0, 0, 10, 1.0, 2.0)))
    assert found.times is None
    assert found.is_exact
    assert resolver.is_exact


def test_a_source_that_does_not_know_a_range_is_interpolated_and_marked() -> None:
    """Where the source has no answer for a batch, its records are spread evenly; later batches may be exact again."""
    resolver = ArrivalResolver(FakeArrivals())
    resolver.resolve(a_batch(0, 0, 10, 1.0, 2.0))
    unknown = replace(a_batch(1, 10, 12, 3.0, 4.0), sources=(SourceProgress("other", None, None, None, 2),))
    found = resolver.resolve(unknown)
    assert found.times is not None
    assert found.times.tolist() == pytest.approx([1.5, 2.5])
    assert not found.is_exact
    assert "could not say when some records arrived" in found.why
    later = resolver.resolve(a_batch(2, 12, 14, 5.0, 6.0))
    assert (later.is_exact, later.why) == (True, "")
    assert not resolver.is_exact  # of all that was given so far


def test_times_that_the_source_has_interpolated_are_not_exact() -> None:
    """A sampled source says itself which of its answers do not hold every time."""
    arrivals = SampledFakeArrivals()
    resolver = ArrivalResolver(arrivals)
    assert resolver.resolve(a_batch(0, 0, 10, 1.0, 2.0)).is_exact
    arrivals.is_exact = False
    found = resolver.resolve(a_batch(1, 10, 20, 2.0, 3.0))
    assert not found.is_exact
    assert "lie between those of a sample" in found.why
    arrivals.is_exact = True
    assert resolver.resolve(a_batch(2, 20, 30, 3.0, 4.0)).is_exact
    assert not resolver.is_exact


def test_arrivals_as_they_come_are_given_once_and_a_second_late() -> None:
    """Each call goes on where the last one ended; a call that is no later gives nothing."""
    resolver = ArrivalResolver(LiveArrivals())
    assert resolver.comes_before_batches
    assert resolver.since_last(5.0) == ()
    (times,) = resolver.since_last(5.5)
    assert times is not None
    assert times.tolist() == pytest.approx([4.1, 4.2, 4.3, 4.4, 4.5])
    assert resolver.since_last(5.5) == ()
    assert resolver.since_last(5.2) == ()
    (times,) = resolver.since_last(5.7)
    assert times is not None
    assert times.tolist() == pytest.approx([4.6, 4.7])


def test_a_range_that_is_not_known_is_a_gap_once_arrivals_have_begun() -> None:
    """Before the first known range it is waited for; afterwards what is missing is a gap, and it goes on behind it."""
    arrivals = LiveArrivals()
    arrivals.known_from = 100.0
    resolver = ArrivalResolver(arrivals)
    assert resolver.since_last(5.0) == ()
    assert resolver.since_last(6.0) == ()
    arrivals.known_from = 0.0
    (times,) = resolver.since_last(7.0)
    assert times is not None
    assert times[0] == pytest.approx(4.1)  # from the first call on: nothing was lost
    arrivals.known_from = 100.0
    assert resolver.since_last(8.0) == (None,)
    arrivals.known_from = 0.0
    (times,) = resolver.since_last(9.0)
    assert times is not None
    assert times[0] == pytest.approx(7.1)


def test_batches_from_before_the_watch_do_not_spoil_what_is_watched() -> None:
    """A tap that begins while a query runs does not know the first batches; the arrivals it sees are exact."""
    resolver = ArrivalResolver(LiveArrivals())
    unknown = replace(a_batch(0, 0, 10, 1.0, 2.0), sources=())
    assert not resolver.resolve(unknown).is_exact
    resolver.since_last(10.0)
    assert resolver.since_last(12.0)
    assert resolver.is_exact
    assert resolver.resolve(a_batch(1, 10, 14, 3.0, 4.0)).is_exact


def test_a_batch_of_a_thousand_million_records_takes_little_memory() -> None:
    """Each time stands for many records: their latency is counted, and they are no arrivals one by one."""
    resolver, rows = ArrivalResolver(None), 3_000_000_001
    resolver.resolve(a_batch(0, 0, 10, 1.0, 2.0))
    found = resolver.resolve(replace(a_batch(1, 10, 14, 3.0, 4.0), rows=rows))
    assert found.times is not None
    assert len(found.times) <= MOST_TIMES
    assert found.each == 601  # a thousand million and more in at most 5 million times
    assert found.one_by_one is None
    tracker = LatencyTracker(60.0)
    tracker.count(4.0, found.times, is_exact=False, each=found.each)
    counted = tracker.window(4.0)
    assert counted is not None
    assert counted.records == pytest.approx(rows, rel=1e-6)
    assert counted.mean_seconds == pytest.approx(2.0, rel=1e-3)  # from 1 to 3 s, evenly, until 4 s
