# SPDX-License-Identifier: Apache-2.0
"""Observations: what is known is exact, what is not known is marked."""

from dataclasses import replace

import numpy as np
import pytest
from tests.unit.monitor.test_latency import FakeArrivals, a_batch

from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.ports import FloatArray
from penstock.records import (
    Allocation,
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
        monitor.look(Telemetry("a", float(t), (batch,), ONE, cpu), float(t), NOWHERE)


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


def test_a_batch_from_before_the_clock_was_set_back_is_as_old_as_its_report() -> None:
    """It ended a day from now, says its stamp: neither the warm-up nor the window waits for that day."""
    monitor = Monitor("a", None, window_seconds=10.0, warm_up_seconds=5.0)
    ahead = a_batch(0, 0, 10, 86_399.5, 86_400.0)
    look = monitor.look(Telemetry("a", 1.0, (ahead,), ONE), 1.0, NOWHERE)
    assert [(b.started_at, b.ended_at) for b in look.telemetry.batches] == [(0.5, 1.0)]
    looks(monitor, 30)
    seen = monitor.observe(30.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.processed_rows_per_second == pytest.approx(10.0)


def test_a_running_batch_is_no_growth() -> None:
    """11 of 10 a second are done: a backlog that shrinks presses at no look, wherever in a batch of 13 s that falls."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=60.0, warm_up_seconds=5.0, stale_after_seconds=120.0)
    pressures = list[float | None]()
    # At the instant 2,000 as many records wait as arrive in 100 s; then batches of 143 follow each other without a gap.
    full = [a_batch(i, 19_000 + 143 * i, 19_143 + 143 * i, 2000.0 + 13 * i, 2013.0 + 13 * i) for i in range(40)]
    for now in range(2020, 2400, 20):
        ended = tuple(batch for batch in full if now - 20 < batch.ended_at <= now)
        seen = monitor.look(Telemetry("a", float(now), ended, ONE), float(now), NOWHERE).observation
        pressures.append(seen.back_pressure)
    assert pressures[6:] == [0.0] * len(pressures[6:])


def test_before_the_first_batch_nothing_is_zero() -> None:
    """A query that has done nothing yet is warming up, with None where nothing is known."""
    monitor = Monitor("a", None)
    seen = monitor.look(Telemetry("a", 1.0, (), ONE), 1.0, NOWHERE).observation
    assert seen.quality is Quality.WARMING_UP
    assert seen.arrival_rate_rows_per_second is None
    assert seen.backlog_records is None
    assert seen.utilisation is None
    assert seen.latency is None
    assert seen.records_done is None


def test_the_backlog_of_a_query_that_was_taken_over_is_not_all_that_ever_arrived() -> None:
    """What was done before is not known until a batch ends: seen with a query that had nothing more to do."""
    before = Monitor("a", FakeArrivals(), window_seconds=10.0, warm_up_seconds=5.0)
    looks(before, 30)
    after = Monitor("a", FakeArrivals(), window_seconds=10.0, warm_up_seconds=5.0)
    after.restore(before.plain())
    seen = after.look(Telemetry("a", 31.0, (), ONE), 31.0, NOWHERE).observation
    assert seen.backlog_records is None
    assert "backlog: not known before the first batch" in seen.missing
    batch = a_batch(32, 310, 320, 31.5, 32.0)
    seen = after.look(Telemetry("a", 32.0, (batch,), ONE), 32.0, NOWHERE).observation
    assert seen.backlog_records == 1


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
    look = monitor.look(Telemetry("a", 31.0, (), ONE, is_running=False), 31.0, NOWHERE)
    assert look.observation.quality is Quality.STOPPED


def test_missing_counters_make_it_incomplete() -> None:
    """Without executors and CPU there is no utilisation, and the quality says so."""
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=1.0)
    telemetry = Telemetry("a", 5.0, (a_batch(0, 0, 10, 0.5, 1.0),), faults=("executors: refused",))
    seen = monitor.look(telemetry, 5.0, NOWHERE).observation
    assert seen.quality is Quality.INCOMPLETE
    assert "executors: refused" in seen.missing


def test_a_gap_in_the_batches_is_named_once() -> None:
    """Batch numbers that were not reported are named, and the count of done records stays right."""
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=1.0)
    looks(monitor, 10)
    seen = monitor.look(Telemetry("a", 12.0, (a_batch(14, 130, 140, 13.0, 14.0),), ONE), 14.0, NOWHERE).observation
    assert any("batches 11 to 13" in note for note in seen.missing)
    assert seen.records_done == 140
    assert not any("gap" in note for note in monitor.observe(14.5, NOWHERE).missing)


def test_a_long_batch_does_not_hide_the_overload() -> None:
    """While one batch runs for minutes, CPU and backlog are still seen and may be decided upon."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=10.0, warm_up_seconds=1.0)
    looks(monitor, 20)
    for t in range(21, 60):
        cpu = CpuReading(float(t), 10.0 + (t - 20), 0.0, 1.0, 1)
        monitor.look(Telemetry("a", float(t), (), ONE, cpu), float(t), NOWHERE)
    seen = monitor.observe(59.0, NOWHERE)
    assert seen.quality is Quality.GOOD
    assert seen.utilisation == pytest.approx(1.0)
    assert seen.backlog_records == 391  # 591 arrived, 200 done
    assert seen.processed_rows_per_second is None
    assert seen.latency is None
    assert any(note.startswith("latency") for note in seen.missing)


def test_where_the_backlog_is_not_known_no_batch_in_the_window_is_not_idle() -> None:
    """A batch that is longer than the window may run: how busy the operator is cannot be said."""
    monitor = Monitor("a", None, window_seconds=10.0, warm_up_seconds=5.0)
    looks(monitor, 20)
    assert monitor.observe(20.0, NOWHERE).busy_fraction == pytest.approx(0.5)
    for t in range(21, 41):
        monitor.look(Telemetry("a", float(t), (), ONE, CpuReading(float(t), 0.99 * t, 0.0, 1.0, 1)), float(t), NOWHERE)
    seen = monitor.observe(40.0, NOWHERE)
    assert seen.backlog_records is None
    assert seen.busy_fraction is None


def test_without_offsets_rows_are_counted() -> None:
    """A source that says nothing about arrivals still has its rows counted."""
    monitor = Monitor("a", None, window_seconds=10.0, warm_up_seconds=1.0)
    source = SourceProgress("rate", None, None, None, 10)
    batch = BatchProgress("a", "q", "r", 0, 0.5, 1.0, 10, {}, (source,))
    for t in range(1, 21):
        later = replace(batch, batch_id=t, started_at=t - 0.5, ended_at=float(t))
        monitor.look(Telemetry("a", float(t), (later,), ONE), float(t), NOWHERE)
    seen = monitor.observe(20.0, NOWHERE)
    assert seen.records_done == 200
    assert seen.backlog_records is None
    assert seen.arrival_rate_rows_per_second == pytest.approx(10.0)
    assert seen.latency is not None
    assert not seen.latency.is_exact


class LateArrivals(FakeArrivals):
    """Ten records a second, of which the first comes at 100 s."""

    def arrived_by(self, at: float) -> int | None:
        """None came before."""
        return max(0, int((at - 100.0) * 10) + 1) if at >= 100.0 else 0


def test_there_is_no_arrival_rate_while_the_stream_began_within_the_window() -> None:
    """Over a window that is older than the stream the rate would seem to rise, so it is not given yet."""
    monitor = Monitor("a", LateArrivals(), window_seconds=10.0)
    rates = {at: monitor.observe(at, NOWHERE).arrival_rate_rows_per_second for at in (90.0, 99.0, 100.0, 105.0, 109.0)}
    assert rates == {90.0: 0.0, 99.0: 0.0, 100.0: None, 105.0: None, 109.0: None}
    assert monitor.observe(110.0, NOWHERE).arrival_rate_rows_per_second == pytest.approx(10.0)
    assert monitor.observe(150.0, NOWHERE).arrival_rate_rows_per_second == pytest.approx(10.0)


def test_a_look_hands_on_the_arrivals_of_its_batches() -> None:
    """A policy gets the arrival times that the monitor has resolved, batch by batch, and what it was made of."""
    monitor = Monitor("a", FakeArrivals())
    telemetry = Telemetry("a", 2.0, (a_batch(0, 0, 10, 0.5, 1.0), a_batch(1, 10, 15, 1.0, 2.0)), ONE)
    look = monitor.look(telemetry, 2.0, NOWHERE)
    assert look.operator == "a"
    assert look.telemetry is telemetry
    assert look.observation == monitor.observe(2.0, NOWHERE)
    assert look.is_exact
    runs = [times.tolist() for times in look.arrivals if times is not None]
    assert runs == [pytest.approx(np.arange(10) / 10.0), pytest.approx(np.arange(10, 15) / 10.0)]


def test_arrivals_that_are_not_known_are_a_gap_in_the_look() -> None:
    """Without arrival times the first batch leaves a gap, the next one is interpolated, and the look says so."""
    monitor = Monitor("a", None)
    first = monitor.look(Telemetry("a", 1.0, (a_batch(0, 0, 10, 0.0, 1.0),), ONE), 1.0, NOWHERE)
    assert first.arrivals == (None,)
    assert not first.is_exact
    second = monitor.look(Telemetry("a", 3.0, (a_batch(1, 10, 14, 1.0, 3.0),), ONE), 3.0, NOWHERE)
    (times,) = second.arrivals
    assert times is not None
    assert times.tolist() == pytest.approx([0.125, 0.375, 0.625, 0.875])
    assert not second.is_exact


def test_a_batch_with_more_records_than_can_be_told_apart_is_a_gap_in_the_look() -> None:
    """A policy that counts arrivals must not take a time for one record that stands for many; latency is known."""
    monitor = Monitor("a", None)
    monitor.look(Telemetry("a", 1.0, (a_batch(0, 0, 10, 0.0, 1.0),), ONE), 1.0, NOWHERE)
    large = replace(a_batch(1, 10, 14, 1.0, 3.0), rows=50_000_000)
    look = monitor.look(Telemetry("a", 3.0, (large,), ONE), 3.0, NOWHERE)
    assert look.arrivals == (None,)
    assert look.observation.latency is not None
    assert look.observation.latency.records == 50_000_000


class LiveArrivals(FakeArrivals):
    """The same records, known as they come."""

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`."""
        times = np.arange(0, 10_000) / 10.0
        return times[(times > start) & (times <= end)]


def test_arrivals_known_as_they_come_are_handed_on_before_any_batch() -> None:
    """They are given a second late, each once, and a batch that carries them adds nothing."""
    monitor = Monitor("a", LiveArrivals())
    seen: list[float] = []
    for at in (5.0, 6.0, 7.0):
        batches = (a_batch(0, 0, 10, 5.0, 6.0),) if at == 6.0 else ()
        for times in monitor.look(Telemetry("a", at, batches, ONE), at, NOWHERE).arrivals:
            assert times is not None
            seen += times.tolist()
    assert seen == pytest.approx(np.arange(41, 61) / 10.0)  # from the first look's 4 s on, to 6 s


def test_the_path_gets_each_batch_with_its_arrivals_resolved_once() -> None:
    """The observation has the latency since the first arrival at the pipeline beside that at the operator."""

    class CountedArrivals(FakeArrivals):
        asked = 0

        def of(self, source: SourceProgress) -> FloatArray | None:
            CountedArrivals.asked += 1
            return super().of(source)

    path = PathMonitor()
    monitor = Monitor("a", CountedArrivals(), path=path)
    seen = monitor.look(Telemetry("a", 2.0, (a_batch(0, 0, 10, 1.0, 2.0),), ONE), 2.0, NOWHERE).observation
    assert seen.path_latency is not None
    assert seen.path_latency.mean_seconds == pytest.approx(1.55)
    assert seen.path_latency == seen.latency
    assert CountedArrivals.asked == 1
    assert Monitor("a", FakeArrivals()).observe(2.0, NOWHERE).path_latency is None


def test_interpolated_arrivals_do_not_reach_the_path() -> None:
    """A path's latency is never made of times that were only interpolated: such a batch counts as unknown."""
    path = PathMonitor()
    monitor = Monitor("a", None, path=path)
    for n in range(3):
        monitor.look(Telemetry("a", n + 1.0, (a_batch(n, 10 * n, 10 * n + 10, n, n + 1.0),), ONE), n + 1.0, NOWHERE)
    assert path.latency_of_run() is None
    assert path.unknown_batches == 3


def test_the_start_up_ends_with_the_warm_up_after_the_first_batch_with_records() -> None:
    """Records that arrived before then are counted apart, also along the path; a restart begins no other."""
    path = PathMonitor()
    monitor = Monitor("a", FakeArrivals(), warm_up_seconds=5.0, path=path)
    empty = replace(a_batch(0, 0, 0, 0.0, 0.5), sources=())
    monitor.look(Telemetry("a", 1.0, (empty,), ONE), 1.0, NOWHERE)
    assert monitor.run_latency().steady_from is None
    monitor.look(Telemetry("a", 20.0, (a_batch(1, 0, 100, 10.0, 20.0),), ONE), 20.0, NOWHERE)
    monitor.restarted()
    again = replace(a_batch(2, 100, 300, 20.0, 31.0), run_id="another")
    seen = monitor.look(Telemetry("a", 31.0, (again,), ONE), 31.0, NOWHERE).observation
    assert seen.query_run == "another"
    for run in (monitor.run_latency(), path.run_latency()):
        assert run.steady_from == 25.0
        assert run.start_up is not None
        assert run.steady is not None
        # Ten records a second: those of batch 1 and the 150 of batch 2 that came before 25 s.
        assert (run.start_up.records, run.steady.records) == (250, 50)


def test_a_first_batch_that_runs_long_is_said_to() -> None:
    """Before a batch has ended it is said whether one has begun, and since when; a policy's reason repeats it."""
    monitor = Monitor("a", None)

    def said(at: float, is_running: bool | None) -> str:
        telemetry = Telemetry("a", at, (), ONE, batch_is_running=is_running)
        return monitor.look(telemetry, at, NOWHERE).observation.quality_text

    assert said(1.0, None) == "the data of a are warming up: no batch has ended yet"
    assert said(2.0, False) == "the data of a are warming up: no batch has begun yet"
    said(10.0, True)
    assert said(140.0, True).endswith("no batch has ended yet; the first has run for 130 s")


def test_a_look_that_took_long_does_not_make_the_first_batch_run_backwards() -> None:
    """A look may end seconds after the instant that its pass began at."""
    telemetry = Telemetry("a", 9.0, (), ONE, batch_is_running=True)
    said = Monitor("a", None).look(telemetry, 0.0, NOWHERE).observation.quality_text
    assert said.endswith("the first has run for 0 s")


def test_a_look_gives_the_records_that_it_found_done() -> None:
    """With arrival and latency, at the operator and, where it is followed, since the first arrival; none: None."""
    monitor = Monitor("a", FakeArrivals(), path=PathMonitor())
    look = monitor.look(Telemetry("a", 1.0, (a_batch(1, 0, 10, 0.5, 1.0),), ONE), 1.0, NOWHERE)
    for done in (look.done, look.path_done):
        assert done is not None
        assert done.arrived.tolist() == pytest.approx((np.arange(10) / 10.0).tolist())
        assert done.seconds.tolist() == pytest.approx((1.0 - np.arange(10) / 10.0).tolist())
    again = monitor.look(Telemetry("a", 2.0, (), ONE), 2.0, NOWHERE)
    assert (again.done, again.path_done) == (None, None)


def pressures(rows: int, seconds: float = 40.0, *, until: float = 400.0, stops_at: float = 1e9) -> list[float | None]:
    """Those of an operator whose batches of so many records follow each other, look by look every 5 s.

    Ten records a second arrive. The window is shorter than a batch. None ends after `stops_at`.
    """
    monitor = Monitor("a", FakeArrivals(), window_seconds=15.0, warm_up_seconds=5.0)
    found = list[float | None]()
    for now in np.arange(5.0, until, 5.0):
        number = int(now // seconds) - 1
        ended = now % seconds == 0.0 and now <= stops_at
        batch = a_batch(number, rows * number, rows * (number + 1), seconds * number + seconds, now) if ended else None
        if batch is not None:
            batch = replace(batch, started_at=now - seconds)
        telemetry = Telemetry("a", float(now), () if batch is None else (batch,), ONE)
        found.append(monitor.look(telemetry, float(now), NOWHERE).observation.back_pressure)
    return found


def test_pressure_is_known_while_a_batch_runs_that_is_longer_than_the_window() -> None:
    """Eight of ten records a second are done: once 520 wait it presses at every look, wherever in a batch of 40 s."""
    overloaded = [one or 0.0 for one in pressures(320)[20:]]
    assert overloaded == sorted(overloaded)
    assert min(overloaded[40:]) > 0.5
    keeping_up = pressures(400)[20:]
    assert all(one is not None and one <= 0.5 for one in keeping_up), keeping_up


def test_a_batch_that_lasts_for_twice_the_last_one_says_nothing_of_its_pace() -> None:
    """Then nobody knows how fast things go."""
    found = pressures(320, stops_at=200.0)
    assert found[50] is not None  # 255 s
    assert found[60] is None  # 305 s: more than two batches and a window after the last


def test_a_long_batch_that_began_before_a_change_is_no_measure_of_what_is_there() -> None:
    """It was done by other executors in part."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=15.0, warm_up_seconds=5.0)
    has = [ClusterState(Allocation(n), Allocation(n), Allocation(n)) for n in (1, 2)]
    found = dict[float, float | None]()
    for now in np.arange(5.0, 240.0, 5.0):
        ended = [a_batch(int(now // 40), int(8 * now) - 320, int(8 * now), now - 40.0, now)] if now % 40 == 0 else []
        telemetry = Telemetry("a", float(now), tuple(ended), ONE)
        found[now] = monitor.look(telemetry, float(now), has[int(now >= 130.0)]).observation.back_pressure
    assert all(found[now] is not None for now in (100.0, 125.0, 205.0, 230.0))
    assert all(found[now] is None for now in (130.0, 165.0, 195.0))


@pytest.mark.parametrize("step", [3600.0, 20.0, -20.0])
def test_a_long_batch_in_which_the_clock_was_set_says_nothing_of_the_pressure(step: float) -> None:
    """Spark says that it took what the clock was set by, too. The next one begins and ends by one clock."""
    monitor = Monitor("a", FakeArrivals(), window_seconds=15.0, warm_up_seconds=5.0)
    found = dict[float, float | None]()
    shown = 0.0  # by which the clock is ahead
    for now in np.arange(5.0, 400.0, 5.0):
        if now == 140.0:
            shown = step
            monitor.clock_was_set(step)
        ended = []
        if now % 40.0 == 0.0:
            begin = now - 40.0 if now - 40.0 < 140.0 else now - 40.0 + step
            ended = [a_batch(int(now // 40), int(8 * now) - 320, int(8 * now), begin, now + shown)]
        telemetry = Telemetry("a", now + shown, tuple(ended), ONE)
        found[now] = monitor.look(telemetry, now + shown, NOWHERE).observation.back_pressure
    assert found[135.0] is not None
    assert all(found[now] is None for now in (140.0, 155.0, 160.0, 175.0, 195.0))
    assert found[200.0] is not None
