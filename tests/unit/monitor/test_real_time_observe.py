# SPDX-License-Identifier: Apache-2.0
"""A query in real-time mode: latency where records come out, nothing made up of its long batches."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.records import ClusterState, CpuReading, ExecutorState, LatencySummary, Quality, Telemetry

ONE = (ExecutorState("1", "h", 1, True, 0, 0.0),)
NOWHERE = ClusterState()
FAST = LatencySummary(100, 0.01, 0.01, 0.02, 0.03, 0.04)


class Output:
    """Records that come out from a time on."""

    def __init__(self, begins: float) -> None:
        self.begins, self.now = begins, 0.0

    def since_last(self) -> None:
        """Not one by one."""

    def window(self, now: float) -> LatencySummary | None:
        """Fast, once there are any."""
        self.now = now
        return FAST if now >= self.begins else None

    def whole(self) -> LatencySummary | None:
        """The same."""
        return FAST if self.now >= self.begins else None


def watched(monitor: Monitor, first: int, last: int, batch_every: int = 1000) -> None:
    """One look a second; 10 records a second arrive, and a batch ends now and then."""
    for t in range(first, last + 1):
        n = t // batch_every
        batch = a_batch(n, (t - batch_every) * 10, t * 10, float(t - batch_every), float(t))
        batches = (batch,) if t % batch_every == 0 else ()
        cpu = CpuReading(float(t), 0.5 * t, 0.0, 1.0, 1)
        monitor.look(Telemetry("a", float(t), batches, ONE, cpu), float(t), NOWHERE)


def monitor_of(begins: float) -> Monitor:
    """A monitor of a query whose records come out from then on."""
    arrivals = FakeArrivals()
    return Monitor("a", arrivals, window_seconds=10.0, warm_up_seconds=5.0, record_latencies=Output(begins))


def test_it_is_good_before_any_batch_has_ended() -> None:
    """The first record out begins the warm-up; what only a batch's end shows is said to be missing."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 19)
    seen = monitor.observe(19.0, NOWHERE)
    assert seen.quality is Quality.WARMING_UP
    assert "warming up: no record has come out yet" in seen.missing
    watched(monitor, 20, 24)
    assert monitor.observe(24.0, NOWHERE).quality is Quality.WARMING_UP
    watched(monitor, 25, 30)
    seen = monitor.observe(30.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.latency == FAST
    assert seen.arrival_rate_rows_per_second == pytest.approx(10.0)
    assert seen.utilisation == pytest.approx(0.5)
    assert (seen.backlog_records, seen.records_done, seen.batch_seconds) == (None, None, None)
    assert seen.processed_rows_per_second is None
    assert seen.missing == ("backlog: a real-time query shows what it has read at its checkpoints only",)


def test_a_batch_changes_neither_latency_nor_warm_up() -> None:
    """Its end says what was read, once; its length says nothing of the load."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 63, batch_every=60)
    seen = monitor.observe(63.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.latency == FAST
    assert monitor.latency_of_run() == FAST
    assert seen.records_done == 600
    assert seen.backlog_records is None
    assert seen.batch_seconds is None
    assert seen.processed_rows_per_second is None


def test_all_that_came_being_done_is_no_backlog() -> None:
    """When a checkpoint has passed the last arrival, none waits: that much is certain."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 60, batch_every=60)
    done = a_batch(2, 600, 10_000, 60.0, 61.0)
    assert monitor.look(Telemetry("a", 61.0, (done,), ONE), 61.0, NOWHERE).observation.backlog_records == 0


def test_after_an_absence_it_warms_up_again() -> None:
    """A query started again has a cold JVM, though its old records are still in the window."""
    monitor = monitor_of(5.0)
    watched(monitor, 1, 30)
    assert monitor.observe(30.0, NOWHERE).quality is Quality.GOOD
    watched(monitor, 50, 52)
    assert monitor.observe(52.0, NOWHERE).quality is Quality.WARMING_UP
    watched(monitor, 53, 65)
    assert monitor.observe(65.0, NOWHERE).quality is Quality.GOOD


def test_the_end_of_a_path_is_measured_too() -> None:
    """Its batches are not looked at, and records that may be done long since are not taken for waiting."""
    output = Output(0.0)
    path = PathMonitor(measured=output)
    path.add(a_batch(1, 0, 10, 0.0, 60.0), None)
    assert path.latency(1.0) == FAST
    assert path.latency_of_run() == FAST
    assert path.latency_with_waiting(np.arange(5.0), 90.0) == FAST
