# SPDX-License-Identifier: Apache-2.0
"""Arrivals asked for by time from what a tap has seen: nothing vanishes, and what is not known is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from penstock.adaptors.rabbitmq import arrival_log
from penstock.adaptors.rabbitmq.arrival_log import ArrivalLog
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.queue_tap import TapRun
from penstock.adaptors.rabbitmq.spool_arrivals import write_copies, write_times
from penstock.adaptors.rabbitmq.tapped_arrivals import TappedArrivals
from penstock.errors import AdaptorError
from penstock.monitor.batch_arrivals import ArrivalResolver
from penstock.ports import SampledArrivalTimes, TimedArrivalTimes
from penstock.records import SourceProgress

NOBODY = RabbitMQConnection("amqp://127.0.0.1:1/")


class HandTap:
    """A tap that gives what a test puts into it."""

    def __init__(self) -> None:
        self.is_watching = True
        self.runs: list[TapRun] = []
        self.fault: AdaptorError | None = None
        self.lost: AdaptorError | None = None
        self.is_stopped = False

    def start(self) -> None:
        """Begin: nothing to do."""

    def take(self) -> list[TapRun]:
        """Return what was put in since."""
        if self.fault is not None:
            raise self.fault
        runs, self.runs = self.runs, []
        return runs

    def stop(self) -> None:
        """End."""
        self.is_stopped = True

    def see(self, *times: float, after_break: bool = False, missed: int | None = 0) -> None:
        """Put a run of arrivals in."""
        self.runs.append(TapRun(np.array(times), after_break, missed))


@pytest.fixture
def tap(monkeypatch: pytest.MonkeyPatch) -> HandTap:
    """A tap by hand, for which nobody waits."""
    monkeypatch.setattr(arrival_log, "_WAIT_SECONDS", 0.0)
    return HandTap()


@pytest.fixture
def log(tap: HandTap) -> ArrivalLog:
    """A log that began at second 10."""
    made = ArrivalLog(lambda: tap, lambda: 10.0)
    made.start()
    return made


def _times(log: ArrivalLog, start: float, end: float) -> list[float]:
    found = log.between(start, end)
    assert found is not None
    return [float(at) for at in found.times]


def test_arrivals_are_given_by_time_once_each(log: ArrivalLog, tap: HandTap) -> None:
    """After the start and up to the end, as intervals that follow one another: no arrival is in two or in none."""
    tap.see(10.5, 11.0, 12.0)
    tap.see(12.5)
    assert _times(log, 9.0, 11.0) == [10.5, 11.0]
    assert _times(log, 11.0, 12.25) == [12.0]
    assert _times(log, 12.25, 20.0) == [12.5]
    assert [log.count_after(at) for at in (10.0, 11.0, 12.25)] == [4, 2, 1]
    assert log.count_after(9.0) is None, "what came before the log began is not known"


def test_a_message_that_comes_late_counts_later_and_not_never(log: ArrivalLog, tap: HandTap) -> None:
    """An answer does not change; a late arrival is in the next one, which is not exact."""
    tap.see(10.5)
    assert _times(log, 10.0, 12.0) == [10.5]
    tap.see(11.5, 12.5)
    late = log.between(12.0, 13.0)
    assert late is not None
    assert len(late.times) == 2
    assert late.times[0] == pytest.approx(12.0, abs=1e-5)
    assert not late.is_exact
    assert _times(log, 10.0, 12.0) == [10.5]


def test_what_was_missed_is_put_between_its_neighbours_where_it_was_counted(log: ArrivalLog, tap: HandTap) -> None:
    """Three messages are missing between 11 s and 15 s by their producer's numbers: the answer has them, not exact."""
    tap.see(10.5, 11.0)
    tap.see(15.0, after_break=True, missed=3)
    found = log.between(10.0, 20.0)
    assert found is not None
    assert found.times.tolist() == [10.5, 11.0, 12.0, 13.0, 14.0, 15.0]
    assert not found.is_exact
    before = log.between(10.0, 10.75)
    assert before is not None
    assert before.is_exact


def test_a_break_of_unknown_length_is_not_answered(log: ArrivalLog, tap: HandTap) -> None:
    """Who knows how many came in between? Intervals that touch the break have no answer, others do."""
    tap.see(10.5, 11.0)
    tap.see(15.0, 15.5, after_break=True, missed=None)
    assert log.between(10.0, 12.0) is None
    assert log.count_after(10.75) is None
    assert _times(log, 15.0, 16.0) == [15.5]
    assert log.count_after(15.25) == 1


def test_while_the_broker_is_away_nothing_is_known(log: ArrivalLog, tap: HandTap) -> None:
    """No arrivals seen is not the same as none: the answer is None while the tap does not watch."""
    tap.see(10.5)
    tap.is_watching = False
    assert log.between(10.0, 11.0) is None
    assert log.count_after(10.0) is None
    tap.is_watching = True
    assert _times(log, 10.0, 11.0) == [10.5]


def test_a_tap_that_ended_is_replaced_and_what_it_missed_stays_unknown(log: ArrivalLog, tap: HandTap) -> None:
    """The fault is kept for whoever looks after it; with another tap the log goes on after a break."""
    tap.see(10.5)
    assert _times(log, 10.0, 11.0) == [10.5]
    tap.fault = AdaptorError("the queue is gone", target="RabbitMQ")
    assert log.between(11.0, 12.0) is None
    assert log.fault is tap.fault
    tap.fault = None
    log.start()
    tap.see(14.0, 14.5)
    assert log.fault is None
    assert log.between(11.0, 14.25) is None
    assert _times(log, 14.0, 15.0) == [14.5]


def test_only_the_newest_are_kept(log: ArrivalLog, tap: HandTap, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with the run; what is forgotten is not known, and not zero."""
    monkeypatch.setattr(arrival_log, "KEPT", 3)
    tap.see(10.5, 11.0, 11.5, 12.0, 12.5)
    assert _times(log, 11.5, 13.0) == [12.0, 12.5]
    assert log.count_after(11.0) is None


def _offset(number: int) -> str:
    return json.dumps({"spool": "s", "number": number})


def test_plans_get_arrivals_from_the_tap_before_a_batch_and_latency_from_the_spool(
    log: ArrivalLog, tap: HandTap, tmp_path: Path
) -> None:
    """The resolver takes arrivals as they come; a batch's own are the spool's, without rows that repeat others."""
    arrivals = TappedArrivals(tmp_path, NOBODY, "q", log)
    assert isinstance(arrivals, TimedArrivalTimes)
    assert isinstance(arrivals, SampledArrivalTimes)
    resolver = ArrivalResolver(arrivals)
    assert resolver.comes_before_batches
    tap.see(10.5, 11.0, 13.0)
    assert resolver.since_last(11.2) == ()
    (known,) = resolver.since_last(13.0)
    assert known is not None
    assert known.tolist() == [10.5, 11.0]
    assert resolver.is_exact

    write_times(tmp_path, 0, np.array([10_500_000, 11_000_000, 10_500_000], np.int64))
    write_copies(tmp_path, [2])
    batch = SourceProgress("rabbitmq", _offset(0), _offset(3), None, 3)
    times = arrivals.of(batch)
    assert times is not None
    assert times.tolist() == [10.5, 11.0]
    assert arrivals.done_index(batch) == 2
    assert arrivals.received() == 2


def test_what_has_arrived_is_what_was_received_and_what_waits(
    log: ArrivalLog, tap: HandTap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Now: both together. At an earlier time: without what the tap saw since. Unknown while the queue is."""
    arrivals = TappedArrivals(tmp_path, NOBODY, "q", log)
    write_times(tmp_path, 0, np.arange(1, 5, dtype=np.int64))
    waiting: list[int | None] = [6]
    monkeypatch.setattr(TappedArrivals, "_ask", lambda _self: waiting[0])
    tap.see(10.5, 11.0, 12.0)
    assert arrivals.arrived_by(2e9 * 2) == 10
    assert arrivals.arrived_by(10.75) == 8
    waiting[0] = None
    arrivals._asked_at = float("-inf")
    assert arrivals.arrived_by(10.75) is None
