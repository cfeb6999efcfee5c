# SPDX-License-Identifier: Apache-2.0
"""What an agent reads off the telemetry that passes through it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.adaptors.agent import record_meters
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.telemetry_meters import NAMES, TelemetryMeters
from penstock.ports import ArrivalTimes, FloatArray
from penstock.records import BatchProgress, CpuReading, ExecutorState, SourceProgress, Telemetry
from penstock.testing.fakes import FakeMetricSource


def a_look(at: float, rows: int, used: float) -> Telemetry:
    """One batch of half a second, two executors, and the CPU that was used so far."""
    batch = BatchProgress("a", "q", "r", int(at), at - 0.5, at, rows, {}, ())
    executors = tuple(ExecutorState(str(n), "h", 1, True, 0, 0.0) for n in range(2))
    return Telemetry("a", at, (batch,), executors, CpuReading(at, used, used / 10, None, 2))


def test_metrics_are_of_the_last_seconds() -> None:
    """Three batches of 100 in 2 s; 0.5 s each, 0.8 cores used."""
    moment = [0.0]
    source = FakeMetricSource([a_look(10.0, 100, 0.0), a_look(11.0, 100, 0.8), a_look(12.0, 100, 1.6)])
    meters, watched = Meters(), TelemetryMeters(source, monotonic=lambda: moment[0])
    watched.offer(meters)
    for second in range(3):
        moment[0] = float(second)
        watched.collect()
    assert meters.sample(NAMES) == {
        "processed_rate": 150.0,  # 300 rows in the 2 s since the first look
        "batch_time": 0.5,
        "busy": 0.75,  # 1.5 s of batches in 2 s
        "cpu_used": pytest.approx(0.8),
        "cpu_throttled": pytest.approx(0.08),
        "executors": 2.0,
    }


def test_without_a_controller_that_collects_nothing_is_known() -> None:
    """Neither before the first look, nor long after the last one."""
    moment = [0.0]
    watched = TelemetryMeters(FakeMetricSource([a_look(10.0, 100, 0.0)]), monotonic=lambda: moment[0])
    assert set(watched.read().values()) == {None}
    watched.collect()
    moment[0] = 60.0
    assert set(watched.read().values()) == {None}


def test_a_group_that_was_made_anew_gives_no_negative_cpu() -> None:
    """Counters that fall say nothing."""
    watched = TelemetryMeters(FakeMetricSource([a_look(10.0, 1, 5.0), a_look(11.0, 1, 1.0)]))
    watched.collect()
    watched.collect()
    assert watched.read()["cpu_used"] is None


def test_cpu_that_cannot_be_seen_stays_unknown() -> None:
    """A reading with a cap and without counters gives no figures."""
    looks = [replace(a_look(at, 1, 0.0), cpu=CpuReading(at, None, None, 0.5, 1)) for at in (10.0, 11.0)]
    watched = TelemetryMeters(FakeMetricSource(looks))
    watched.collect()
    watched.collect()
    assert (watched.read()["cpu_used"], watched.read()["cpu_throttled"]) == (None, None)


def test_what_nobody_reads_is_not_kept() -> None:
    """A query of weeks whose metrics are not subscribed to does not fill the memory of its driver."""
    moment, looks = [0.0], 500
    source = FakeMetricSource([a_look(float(second), 100, 0.0) for second in range(looks)])
    watched = TelemetryMeters(source, monotonic=lambda: moment[0])
    for second in range(looks):
        moment[0] = float(second)
        watched.collect()
    assert max(len(watched._batches), len(watched._cpu)) <= 16


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_a_clock_that_is_set_does_not_change_how_much_cpu_was_used(by: float) -> None:
    """0.8 cores, whatever the wall clock shows."""
    moment = [0.0]
    source = FakeMetricSource([a_look(1e6, 100, 0.0), a_look(1e6 + 1.0 + by, 100, 0.8)])
    watched = TelemetryMeters(source, monotonic=lambda: moment[0])
    watched.collect()
    moment[0] = 1.0
    watched.collect()
    assert watched.read()["cpu_used"] == pytest.approx(0.8)


def a_batch(number: int, started_at: float, rows: int, latest: str | None = None, run: str = "r") -> BatchProgress:
    """A batch of half a second whose offsets count records."""
    source = SourceProgress("s", str(rows * number), str(rows * (number + 1)), latest, rows)
    return BatchProgress("a", "q", run, number, started_at, started_at + 0.5, rows, {}, (source,))


class FakeTenASecond:
    """Records that arrive ten times a second from time zero on."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Arrival times of the offset range."""
        return np.arange(int(source.start_offset or 0), int(source.end_offset or 0)) / 10.0

    def arrived_by(self, at: float) -> int | None:
        """Arrivals so far."""
        return int(at * 10)

    def done_index(self, source: SourceProgress) -> int | None:
        """The end of the offset range."""
        return int(source.end_offset or 0)


def records(arrivals: ArrivalTimes | None, batches: list[BatchProgress]) -> dict[str, float | None]:
    """What is reported about records after a look for each batch, one a second."""
    moment = [0.0]
    looks = [Telemetry("a", batch.ended_at, (batch,)) for batch in batches]
    meters = Meters()
    watched = TelemetryMeters(FakeMetricSource(looks), arrivals, monotonic=lambda: moment[0])
    watched.offer(meters)
    for second in range(len(batches)):
        moment[0] = float(second)
        watched.collect()
    return meters.sample(record_meters.NAMES)


def test_records_are_told_by_their_arrivals() -> None:
    """Ten arrive a second; 30 are done at 3.5 s, the oldest of each batch after 1.5 s, and 5 wait."""
    found = records(FakeTenASecond(), [a_batch(n, n + 1.0, 10) for n in range(3)])
    assert found["arrival_rate"] == pytest.approx(10.0)
    assert found["queue_length"] == 5.0
    assert found["latency_mean"] == pytest.approx(1.05)
    assert found["latency_p50"] == pytest.approx(1.0)
    assert found["latency_p99"] == pytest.approx(1.5)


def test_without_arrivals_latency_is_interpolated_and_offsets_tell_the_queue() -> None:
    """As the monitor does it; a batch of 1,000 records is told by fewer. The first batch of a run says nothing."""
    found = records(None, [a_batch(n, n + 1.0, 1000, str(1000 * (n + 1) + 7)) for n in range(3)])
    assert found["arrival_rate"] == pytest.approx(1500.0)  # 3 batches in the 2 s since the first look
    assert found["queue_length"] == 7.0
    assert found["latency_mean"] == pytest.approx(1.0)  # evenly from 0.5 s to 1.5 s
    assert found["latency_p95"] == pytest.approx(1.45, abs=0.01)
    restarted = records(None, [a_batch(0, 1.0, 10), a_batch(1, 2.0, 10, run="other")])
    assert restarted["latency_mean"] is None
    assert restarted["queue_length"] is None


@pytest.mark.parametrize(
    ("end", "latest", "behind"),
    [
        ('{"t": {"0": 7, "1": 4}}', '{"t": {"0": 9, "1": 5}}', 3),
        ("7", "9", 2),
        ("9", "7", 0),
        (None, "9", None),
        ("7", None, None),
        ("no JSON", "9", None),
        ('{"t": {"0": 7}}', '{"t": {"0": 9, "1": 5}}', None),
        ('{"file": "a"}', '{"file": "b"}', None),
        ("{}", "{}", None),
    ],
)
def test_offsets_that_count_records_tell_how_many_wait(end: str | None, latest: str | None, behind: int | None) -> None:
    """By partition; others tell nothing, and a partition that no batch has read yet makes it unknown."""
    assert record_meters.records_behind(SourceProgress("s", None, end, latest, 1)) == behind
