# SPDX-License-Identifier: Apache-2.0
"""Record latency joined from arrivals and batch ends."""

import json
from typing import Any

import numpy as np
import pytest

from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.monitor.kept_counts import packed_counts
from penstock.monitor.latency import HistogramPart, LatencyHistogram, LatencyTracker
from penstock.ports import ArrivalTimes, FloatArray
from penstock.records import BatchProgress, RunLatency, SourceProgress


class FakeArrivals:
    """Records that arrive ten times a second from time zero on."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Arrival times of the offset range."""
        if source.start_offset is None or source.end_offset is None:
            return None
        return np.arange(json.loads(source.start_offset), json.loads(source.end_offset)) / 10.0

    def arrived_by(self, at: float) -> int | None:
        """Arrivals so far."""
        return int(at * 10) + 1

    def done_index(self, source: SourceProgress) -> int | None:
        """The end of the offset range."""
        return None if source.end_offset is None else int(json.loads(source.end_offset))


def a_batch(batch_id: int, start: int, end: int, started_at: float, ended_at: float) -> BatchProgress:
    """A batch with records start..end-1."""
    source = SourceProgress("fake", str(start), str(end), None, end - start)
    return BatchProgress("a", "q", "r", batch_id, started_at, ended_at, end - start, {}, (source,))


class BatchLatency(LatencyTracker):
    """A tracker that counts whole batches, their arrivals resolved as the monitor does it."""

    def __init__(self, arrival_times: ArrivalTimes | None, window_seconds: float) -> None:
        super().__init__(window_seconds)
        self.resolver = ArrivalResolver(arrival_times)

    def add(self, batch: BatchProgress) -> None:
        """Count a batch's records, as far as their arrivals are known."""
        found = self.resolver.resolve(batch)
        if found.times is not None:
            self.count(batch.ended_at, found.times, is_exact=found.is_exact)


def test_latency_runs_from_arrival_to_the_batch_end() -> None:
    """Ten records of one batch: the mean is exact, percentiles are within a bin."""
    tracker = BatchLatency(FakeArrivals(), 30.0)
    tracker.add(a_batch(0, 0, 10, 1.0, 2.0))  # arrivals 0.0 .. 0.9, end 2.0: latencies 2.0 .. 1.1
    summary = tracker.window(2.0)
    assert summary is not None
    assert summary.is_exact
    assert summary.records == 10
    assert summary.mean_seconds == pytest.approx(1.55)  # (2.0 + 1.1) / 2
    assert summary.p50_seconds == pytest.approx(1.5, rel=1e-3)  # fifth smallest of 1.1, 1.2, ... 2.0
    assert summary.p95_seconds == pytest.approx(2.0, rel=1e-3)  # rank ceil(9.5) = 10
    assert summary.max_seconds == pytest.approx(2.0, rel=1e-3)


def test_a_slow_batch_makes_the_waiting_records_late() -> None:
    """No coordinated omission: records that were due during a stall count their whole wait."""
    tracker = BatchLatency(FakeArrivals(), 1000.0)
    tracker.add(a_batch(0, 0, 10, 1.0, 61.0))  # one batch took a minute
    tracker.add(a_batch(1, 10, 610, 61.0, 62.0))  # what came meanwhile: arrivals 1.0 .. 60.9
    summary = tracker.whole()
    assert summary is not None
    # batch 1: mean of 62 - t for t in 1.0 .. 60.9 = 31.05; batch 0: 60.55; (600*31.05 + 10*60.55) / 610
    assert summary.mean_seconds == pytest.approx((600 * 31.05 + 10 * 60.55) / 610)


def test_the_window_forgets_and_the_whole_does_not() -> None:
    """After the window has passed its records are gone from it; the run's summary keeps them."""
    tracker = BatchLatency(FakeArrivals(), 10.0)
    tracker.add(a_batch(0, 0, 10, 1.0, 2.0))
    assert tracker.window(100.0) is None
    whole = tracker.whole()
    assert whole is not None
    assert whole.records == 10


def test_without_arrival_times_latency_is_interpolated_and_says_so() -> None:
    """Records of a batch are spread over the time since the batch before."""
    tracker = BatchLatency(None, 100.0)
    tracker.add(a_batch(0, 0, 10, 0.0, 1.0))
    assert tracker.whole() is None  # nothing is known of when the first batch's records came
    tracker.add(a_batch(1, 10, 20, 1.0, 3.0))
    summary = tracker.whole()
    assert summary is not None
    assert not summary.is_exact
    assert summary.mean_seconds == pytest.approx(2.5)  # arrivals spread over 0..1, end 3


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_percentiles_are_within_a_bin_of_the_exact_ones(scale: float) -> None:
    """Against numpy on a heavy-tailed sample, relative error below 0.1 %."""
    sample = np.random.default_rng(1).lognormal(0.0, 1.5, 20_000) * scale
    histogram = LatencyHistogram()
    histogram.add(HistogramPart.of(sample))
    for p in (0.5, 0.95, 0.99):
        exact = float(np.quantile(sample, p, method="inverted_cdf"))
        assert histogram.quantiles(p) == pytest.approx([exact], rel=1e-3)


def test_taking_out_what_was_put_in_leaves_nothing() -> None:
    """A part added and removed leaves the histogram empty."""
    histogram = LatencyHistogram()
    part = HistogramPart.of(np.array([0.5, 1.0, 2.0]))
    histogram.add(part)
    histogram.add(part, sign=-1)
    assert histogram.records == 0
    assert histogram.summary() is None


def test_latency_from_sampled_arrivals_is_not_called_exact() -> None:
    """Where the source says that some of its times were interpolated, the latency made of them says so too."""

    class SampledFakeArrivals(FakeArrivals):
        is_exact = False

    tracker = BatchLatency(SampledFakeArrivals(), 10.0)
    tracker.add(a_batch(0, 0, 10, 1.0, 2.0))
    summary = tracker.whole()
    assert summary is not None
    assert summary.mean_seconds == pytest.approx(1.55)
    assert not summary.is_exact


def test_one_interpolated_batch_makes_the_whole_run_inexact() -> None:
    """The run's summary stays inexact, with the reason; the window is exact again when that batch has left it."""
    tracker = LatencyTracker(10.0)
    tracker.count(2.0, np.array([1.0]), is_exact=True)
    summary = tracker.whole()
    assert summary is not None
    assert summary.is_exact
    tracker.count(3.0, np.array([2.0]), is_exact=False, why="the broker was away")
    for summary in (tracker.whole(), tracker.window(3.0)):
        assert summary is not None
        assert (summary.is_exact, summary.inexact_because) == (False, "the broker was away")
    tracker.count(30.0, np.array([29.0]), is_exact=True)
    summary = tracker.window(30.0)
    assert summary is not None
    assert (summary.is_exact, summary.inexact_because) == (True, "")
    summary = tracker.whole()
    assert summary is not None
    assert not summary.is_exact


def test_records_of_the_start_up_are_counted_apart_by_their_arrival() -> None:
    """Those that arrived before the start-up was over count there, however late they are done, and in the whole."""
    tracker = LatencyTracker(10.0)
    tracker.count(33.0, np.array([0.0, 1.0]))  # before anybody knows when it ends
    tracker.steady_from = 48.0
    tracker.count(50.0, np.array([47.0, 49.0]))
    tracker.count(52.0, np.array([51.0, 51.5]))
    run = tracker.run()
    assert run.steady is not None
    assert run.start_up is not None
    assert run.whole is not None
    assert (run.start_up.records, run.steady.records, run.whole.records) == (3, 3, 6)
    assert run.start_up.mean_seconds == pytest.approx((33.0 + 32.0 + 3.0) / 3)
    assert run.steady.max_seconds == pytest.approx(1.0, rel=1e-3)  # 50 - 49, 52 - 51, 52 - 51.5
    assert run.whole.max_seconds == pytest.approx(33.0, rel=1e-3)
    assert run.headline == run.steady
    assert run.steady_from == 48.0


def test_without_a_steady_part_the_headline_is_of_all_records() -> None:
    """While the start-up lasts, nothing else is known."""
    tracker = LatencyTracker(10.0)
    tracker.count(33.0, np.array([0.0, 1.0]))
    run = tracker.run()
    assert run.steady is None
    assert run.headline == run.whole == run.start_up


def test_a_batch_without_records_counts_nothing() -> None:
    """Empty arrivals leave the summaries as they were: there are none."""
    tracker = LatencyTracker(10.0)
    tracker.count(2.0, np.empty(0))
    assert tracker.whole() is None
    assert tracker.window(2.0) is None


def test_another_tracker_goes_on_from_what_was_counted() -> None:
    """As one that has counted all: start-up apart, exactness, mean and percentiles; what is told again counts once."""
    whole, first, second = (LatencyTracker(30.0) for _ in range(3))
    generator = np.random.default_rng(0)
    for batch in range(40):
        arrivals = np.sort(generator.uniform(batch, batch + 1.0, 50))
        if batch == 20:
            second.restore(json.loads(json.dumps(first.plain())))
            second.count(20.5, arrivals - 1.0)  # the last one of the first tracker, reported a second time
            assert second.run() == whole.run()
            assert second.window(20.5) is not None
        for tracker in (whole, first if batch < 20 else second):
            tracker.count(batch + 1.5, arrivals, is_exact=batch > 0)
            if batch == 5:
                tracker.steady_from = 7.0
    assert second.run() == whole.run()
    assert second.run().steady is not None
    assert not second.run().whole.is_exact  # type: ignore[union-attr]
    third = LatencyTracker(30.0)
    third.restore(second.plain())
    assert third.run() == whole.run()
    empty = LatencyTracker(30.0)
    empty.restore(json.loads(json.dumps(LatencyTracker(30.0).plain())))
    assert empty.run() == RunLatency()


@pytest.mark.parametrize(
    "change",
    [
        {"counts": "not packed"},
        {"counts": ""},
        {"counts": packed_counts(np.array([-1]), np.array([5]))},
        {"counts": packed_counts(np.array([10**9]), np.array([5]))},
        {"counts": packed_counts(np.array([7, 7]), np.array([5, 5]))},
        {"counts": packed_counts(np.array([7]), np.array([-5]))},
        {"sum_seconds": "nan"},
        {"sum_seconds": None},
    ],
)
def test_counts_that_are_damaged_are_refused_whole(change: dict[str, Any]) -> None:
    """And the tracker counts on as it was."""
    tracker = LatencyTracker(30.0)
    tracker.count(2.0, np.array([1.0]))
    kept = tracker.plain()
    with pytest.raises((ValueError, TypeError)):
        tracker.restore({**kept, "steady": {**kept["steady"], **change}})
    assert tracker.plain() == kept


def gone_on_from(tracker: LatencyTracker) -> LatencyTracker:
    """What another controller goes on with."""
    after = LatencyTracker(10.0)
    after.restore(tracker.plain())
    return after


def counted(tracker: LatencyTracker) -> int:
    """All records of the run."""
    whole = tracker.whole()
    return 0 if whole is None else whole.records


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_the_controllers_clock_alone_is_set(by: float) -> None:
    """Batches go by their own host's clock: the next controller counts the new ones, and none of those before again."""
    tracker = LatencyTracker(10.0)
    for ended_at, step in ((5000.0, by), (5002.0, -by), (5004.0, 0.0)):
        tracker.count(ended_at, np.array([ended_at - 1.0]))
        tracker.clock_was_set(step)
    after = gone_on_from(tracker)
    for ended_at in (5002.0, 5004.0, 5006.0):
        after.count(ended_at, np.array([ended_at - 1.0]))
    assert counted(after) == 4


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_the_clock_of_all_is_set(by: float) -> None:
    """Batches go by the clock that was set: the same."""
    tracker = LatencyTracker(10.0)
    tracker.count(5000.0, np.array([4999.0]))
    tracker.clock_was_set(by)
    for ended_at in (5002.0 + by, 5004.0 + by):
        tracker.count(ended_at, np.array([ended_at - 1.0]))
    after = gone_on_from(tracker)
    for ended_at in (5002.0 + by, 5004.0 + by, 5006.0 + by):
        after.count(ended_at, np.array([ended_at - 1.0]))
    assert counted(after) == 4


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_controller_that_took_over_counts_on_when_its_clock_is_set(by: float) -> None:
    """What was done since it took over is new, whatever the clock shows."""
    before = LatencyTracker(10.0)
    before.count(5000.0, np.array([4999.0]))
    after = gone_on_from(before)
    after.count(5000.0, np.array([4999.0]))
    after.count(5002.0, np.array([5001.0]))
    after.clock_was_set(by)
    after.count(5004.0, np.array([5003.0]))
    assert counted(after) == 3
