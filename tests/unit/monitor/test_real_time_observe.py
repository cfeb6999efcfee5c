# SPDX-License-Identifier: Apache-2.0
"""A query in real-time mode: latency where records come out, nothing made up of its long batches."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.records import (
    Allocation,
    ClusterState,
    CpuReading,
    ExecutorState,
    LatencySummary,
    Observation,
    Quality,
    Telemetry,
)

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
    assert seen.batch_seconds is None


def after_a_checkpoint(
    *, read: int, latency: LatencySummary | None = FAST, now: float = 63.0, cluster: ClusterState = NOWHERE
) -> Observation:
    """What is seen some seconds after a minute's batch that has read so many of the 600 records that came in it."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 59)
    monitor.observe(59.0, cluster)
    batch = a_batch(1, 0, read, 0.0, 60.0)
    monitor.look(Telemetry("a", 60.0, (batch,), ONE, CpuReading(60.0, 30.0, 0.0, 1.0, 1)), 60.0, cluster)
    output = monitor._records
    assert isinstance(output, Output)
    output.begins = 20.0 if latency is not None else float("inf")
    monitor.look(Telemetry("a", now, (), ONE, CpuReading(now, 0.5 * now, 0.0, 1.0, 1)), now, cluster)
    return monitor.observe(now, cluster)


def test_a_checkpoint_says_what_waits_and_what_is_done_until_the_next_one_is_due() -> None:
    """Of 601 records that had come 300 were read, 5 a second. A minute and a window later nobody knows."""
    seen = after_a_checkpoint(read=300)
    assert seen.backlog_records == 301
    assert seen.processed_rows_per_second == pytest.approx(5.0)
    assert after_a_checkpoint(read=300, now=69.0).backlog_records == 301
    late = after_a_checkpoint(read=300, now=131.0)
    assert (late.backlog_records, late.processed_rows_per_second) == (None, None)
    assert any(note.startswith("backlog") for note in late.missing)


def test_what_has_come_since_a_checkpoint_is_never_no_backlog() -> None:
    """One that has read all that there was says nothing of the next minute: as much is under way as latency says."""
    seen = after_a_checkpoint(read=601)
    assert seen.backlog_records == 1  # ten records a second for 10 ms, rounded up
    assert after_a_checkpoint(read=601, latency=None).backlog_records is None


def test_a_query_that_leaves_records_at_a_checkpoint_for_longer_than_a_window_is_busy() -> None:
    """Whatever its CPU does: far from its broker it waits for fetches. Half an executor's CPU is used here."""
    assert after_a_checkpoint(read=300).busy_fraction == 1.0
    assert after_a_checkpoint(read=590).busy_fraction == pytest.approx(0.5)


def test_without_records_that_come_out_pressure_is_of_what_waits_at_the_checkpoint() -> None:
    """301 records at 5 a second are a minute, six times the window; with latencies, these say it.

    A query that reads nothing is stuck.
    """
    assert after_a_checkpoint(read=300, latency=None).back_pressure == pytest.approx(60.2 / 70.2)
    assert after_a_checkpoint(read=300).back_pressure == pytest.approx(0.01 / 10.01)
    assert after_a_checkpoint(read=0, latency=None).back_pressure == 1.0


def test_what_was_done_before_a_change_says_nothing_of_the_rate_after_it() -> None:
    """A minute that holds a change is of two sizes; the records that wait are there all the same."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 29)
    one, two = (ClusterState(Allocation(n), Allocation(n), Allocation(n)) for n in (1, 2))
    monitor.observe(30.0, one)
    monitor.observe(31.0, two)
    monitor.look(Telemetry("a", 60.0, (a_batch(1, 0, 300, 0.0, 60.0),), ONE), 60.0, two)
    seen = monitor.observe(61.0, two)
    assert (seen.backlog_records, seen.processed_rows_per_second) == (301, None)
    monitor.look(Telemetry("a", 120.0, (a_batch(2, 300, 1200, 60.0, 120.0),), ONE), 120.0, two)
    assert monitor.observe(121.0, two).processed_rows_per_second == pytest.approx(15.0)


def test_a_restart_or_a_clock_that_is_set_forgets_the_checkpoint() -> None:
    """How old it is is not known any more, or what it was of."""
    for forget in (Monitor.restarted, lambda monitor: monitor.clock_was_set(3600.0)):
        monitor = monitor_of(20.0)
        watched(monitor, 1, 63, batch_every=60)
        forget(monitor)
        assert monitor.observe(64.0, NOWHERE).processed_rows_per_second is None


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


@pytest.mark.parametrize("step", [3600.0, -30.0])
def test_a_checkpoint_of_a_batch_in_which_the_clock_was_set_says_nothing(step: float) -> None:
    """Spark says that it took what the clock was set by, too: the rate would be a sixtieth, or twice as high."""
    monitor = monitor_of(20.0)
    watched(monitor, 1, 30)
    monitor.clock_was_set(step)
    for now, batch in ((60.0 + step, a_batch(1, 0, 600, 0.0, 60.0 + step)),
                       (120.0 + step, a_batch(2, 600, 1200, 60.0 + step, 120.0 + step))):  # fmt: skip
        monitor.look(Telemetry("a", now, (batch,), ONE), now, NOWHERE)
        seen = monitor.observe(now + 1.0, NOWHERE)
        assert seen.processed_rows_per_second == (None if now < 100.0 + step else 10.0)
