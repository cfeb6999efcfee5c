# SPDX-License-Identifier: Apache-2.0
"""Observations: what is known is exact, what is not known is marked."""

from dataclasses import replace

import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor import Monitor
from penstock.records import (
    BatchProgress,
    ClusterState,
    CpuReading,
    ExecutorState,
    Quality,
    SourceProgress,
    Telemetry,
)

ONE = (ExecutorState("1", "h", 1, True, 0, 0.0),)
NOWHERE = ClusterState()


def looks(monitor: Monitor, seconds: int, *, used_per_second: float = 0.5) -> None:
    """Feed one look and one batch per second from second 1 to `seconds`."""
    for t in range(1, seconds + 1):
        batch = a_batch(t, (t - 1) * 10, t * 10, t - 0.5, float(t))
        cpu = CpuReading(float(t), used_per_second * t, 0.0, 1.0, 1)
        monitor.ingest(Telemetry("a", float(t), (batch,), ONE, cpu))


def test_a_settled_query_is_observed_whole() -> None:
    """Rate, backlog, utilisation, batch time and latency are all there and right."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=10.0, warm_up_seconds=5.0)
    looks(monitor, 30)
    seen = monitor.observe(30.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.missing == ()
    assert seen.arrival_rate_rows_per_second == pytest.approx(10.0)
    assert seen.processed_rows_per_second == pytest.approx(10.0)
    assert seen.utilisation == pytest.approx(0.5)
    assert seen.batch_seconds == pytest.approx(0.5)
    assert seen.records_arrived == 301
    assert seen.records_done == 300
    assert seen.backlog_records == 1
    assert seen.latency is not None
    assert seen.latency.mean_seconds == pytest.approx(0.55)  # latencies 1.0 .. 0.1


def test_before_the_first_batch_nothing_is_zero() -> None:
    """A query that has done nothing yet is warming up, with None where nothing is known."""
    monitor = Monitor("a", None)
    monitor.ingest(Telemetry("a", 1.0, (), ONE))
    seen = monitor.observe(1.0, NOWHERE)
    assert seen.quality is Quality.WARMING_UP
    assert seen.arrival_rate_rows_per_second is None
    assert seen.backlog_records is None
    assert seen.utilisation is None
    assert seen.latency is None
    assert seen.records_done is None


def test_an_operator_not_heard_of_is_stale() -> None:
    """Old telemetry is marked, whatever it said."""
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=1.0, stale_after_seconds=10.0)
    looks(monitor, 30)
    assert monitor.observe(39.0, NOWHERE).quality is Quality.GOOD
    seen = monitor.observe(41.0, NOWHERE)
    assert seen.quality is Quality.STALE
    assert any("stale" in note for note in seen.missing)


def test_a_stopped_query_is_stopped() -> None:
    """A query that ended is not decided upon."""
    monitor = Monitor("a", FakeArrivals())
    looks(monitor, 30)
    monitor.ingest(Telemetry("a", 31.0, (), ONE, is_running=False))
    assert monitor.observe(31.0, NOWHERE).quality is Quality.STOPPED


def test_missing_counters_make_it_incomplete() -> None:
    """Without executors and CPU there is no utilisation, and the quality says so."""
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=1.0)
    monitor.ingest(Telemetry("a", 5.0, (a_batch(0, 0, 10, 0.5, 1.0),), faults=("executors: refused",)))
    seen = monitor.observe(5.0, NOWHERE)
    assert seen.quality is Quality.INCOMPLETE
    assert "executors: refused" in seen.missing


def test_a_gap_in_the_batches_is_named_once() -> None:
    """Batch numbers that were not reported are told, and the count of done records stays right."""
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=1.0)
    looks(monitor, 10)
    monitor.ingest(Telemetry("a", 12.0, (a_batch(14, 130, 140, 13.0, 14.0),), ONE))
    seen = monitor.observe(14.0, NOWHERE)
    assert any("batches 11 to 13" in note for note in seen.missing)
    assert seen.records_done == 140
    assert not any("gap" in note for note in monitor.observe(14.5, NOWHERE).missing)


def test_a_long_batch_does_not_hide_the_overload() -> None:
    """While one batch runs for minutes, CPU and backlog are still seen and may be decided upon."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=10.0, warm_up_seconds=1.0)
    looks(monitor, 20)
    for t in range(21, 60):
        monitor.ingest(Telemetry("a", float(t), (), ONE, CpuReading(float(t), 10.0 + (t - 20), 0.0, 1.0, 1)))
    seen = monitor.observe(59.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.utilisation == pytest.approx(1.0)
    assert seen.backlog_records == 391  # 591 arrived, 200 done
    assert seen.processed_rows_per_second is None
    assert seen.latency is None
    assert any(note.startswith("latency") for note in seen.missing)


def test_without_offsets_rows_are_counted() -> None:
    """A source that tells nothing of arrivals still has its rows counted."""
    monitor = Monitor("a", None, window_seconds=10.0, warm_up_seconds=1.0)
    source = SourceProgress("rate", None, None, None, 10)
    batch = BatchProgress("a", "q", "r", 0, 0.5, 1.0, 10, {}, (source,))
    for t in range(1, 21):
        later = replace(batch, batch_id=t, started_at=t - 0.5, ended_at=float(t))
        monitor.ingest(Telemetry("a", float(t), (later,), ONE))
    seen = monitor.observe(20.0, NOWHERE)
    assert seen.records_done == 200
    assert seen.backlog_records is None
    assert seen.arrival_rate_rows_per_second == pytest.approx(10.0)
    assert seen.latency is not None
    assert not seen.latency.is_exact
