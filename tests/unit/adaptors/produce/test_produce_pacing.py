# SPDX-License-Identifier: Apache-2.0
"""The pacing loop against a sink that only writes down: all records once, in order, at their times."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("pyarrow", reason="needs the extra [spark]")

from penstock.adaptors.produce.lateness import Lateness
from penstock.adaptors.produce.pacing import Progress, produce
from penstock.adaptors.produce.sink import Delivery
from penstock.adaptors.replay.payloads import LinesPayload, NoPayload
from penstock.arrivals import Trace, parse_shape
from penstock.arrivals.log_lines import LogLines
from penstock.errors import AdaptorError


class RecordingSink:
    """Takes up to `most` records unconfirmed; confirms them at each turn unless told not to."""

    def __init__(self, *, most: int = 10**9, confirms: bool = True, fails_after: int | None = None) -> None:
        self.sent: list[tuple[int, int, bytes]] = []
        self.confirmed = 0
        self._most, self._confirms, self._fails_after = most, confirms, fails_after

    def prepare(self, first: int, due_us: NDArray[np.int64], bodies: Sequence[bytes]) -> list[Any]:
        """Keep everything about a record."""
        return list(zip(range(first, first + len(bodies)), due_us.tolist(), bodies, strict=True))

    def send(self, records: Sequence[Any]) -> int:
        """Write records down, as far as there is room."""
        taken = list(records)[: self._most - (len(self.sent) - self.confirmed)]
        self.sent += taken
        if self._fails_after is not None and len(self.sent) > self._fails_after:
            raise AdaptorError("gone", target="sink")
        return len(taken)

    def turn(self, seconds: float) -> None:
        """Confirm what was sent."""
        if self._confirms:
            self.confirmed = len(self.sent)

    def delivery(self) -> Delivery:
        """What was confirmed."""
        return Delivery(self.confirmed, 0)

    def close(self) -> None:
        """Nothing to let go of."""


def test_every_record_once_with_number_due_instant_and_text() -> None:
    """Records are numbered from 0, stamped with the instant they were due, and carry their text."""
    arrivals = parse_shape("constant:rate=5000,duration=200ms")
    sink = RecordingSink()
    result = produce(arrivals, LinesPayload(LogLines(1, 0.0)), sink, speed=2.0)
    assert [number for number, _, _ in sink.sent] == list(range(1000))
    due = result.epoch * 1e6 + arrivals.times(0, 1000) * 1e6 / 2
    assert np.abs(np.array([us for _, us, _ in sink.sent]) - due).max() <= 1.0
    assert all(b" " in body for _, _, body in sink.sent)
    assert (result.sent, result.due, result.unconfirmed, result.is_stopped) == (1000, 1000, 0, False)
    assert result.lateness is not None
    assert result.lateness.records == 1000
    assert gc.isenabled()


def test_no_record_goes_out_before_it_is_due() -> None:
    """Lateness is never negative: a record goes out at its time or after."""
    result = produce(Trace([0.0, 0.0, 0.01, 0.05, 0.0500001]), NoPayload(), RecordingSink())
    assert result.lateness is not None
    assert 0 <= result.lateness.p50_seconds <= result.lateness.p99_seconds <= result.lateness.max_seconds
    assert result.seconds >= 0.0500001


def test_a_slow_broker_makes_records_late_and_loses_none() -> None:
    """Where few may be unconfirmed, records wait and are counted as late; all go out in the end."""
    sink = RecordingSink(most=3)
    result = produce(Trace(np.zeros(40)), NoPayload(), sink)
    assert [number for number, _, _ in sink.sent] == list(range(40))
    assert result.unconfirmed == 0


def test_unconfirmed_records_are_counted() -> None:
    """Records the broker never confirms are told, after no longer a wait than asked for."""
    result = produce(Trace(np.zeros(4)), NoPayload(), RecordingSink(confirms=False), confirm_seconds=0.0)
    assert (result.sent, result.unconfirmed) == (4, 4)


def test_a_wish_to_stop_ends_it_in_good_order() -> None:
    """Stopped in the middle, it says what was sent and confirmed, and that more was to come."""
    stop = threading.Event()
    told: list[Progress] = []

    def tell(progress: Progress) -> None:
        told.append(progress)
        if progress.sent:
            stop.set()

    sink = RecordingSink()
    result = produce(parse_shape("constant:rate=100,duration=1h"), NoPayload(), sink, stop=stop, tell=tell)
    assert result.is_stopped
    assert 0 < result.sent <= result.due < 360_000
    assert result.unconfirmed == 0
    assert told[-1].total == 360_000


def test_only_the_first_records_where_so_many_are_asked_for() -> None:
    """A limit on records ends the load there."""
    sink = RecordingSink()
    assert produce(Trace(np.zeros(10)), NoPayload(), sink, records=4).sent == 4
    assert len(sink.sent) == 4


def test_a_load_that_another_began_is_gone_on_with() -> None:
    """Only the missing records are sent, with their numbers and the times they were due by the old time zero."""
    arrivals, sink = parse_shape("constant:rate=10,duration=5s"), RecordingSink()
    epoch = time.time() - 100.0
    result = produce(arrivals, NoPayload(), sink, parts=[range(3, 5), range(7, 7), range(9, 50)], epoch=epoch)
    numbers = [3, 4, *range(9, 50)]
    assert [number for number, _, _ in sink.sent] == numbers
    due = round(epoch * 1e6) + np.rint(arrivals.times(0, 50) * 1e6)
    assert [us for _, us, _ in sink.sent] == [int(due[n]) for n in numbers]
    assert (result.sent, result.due, result.unconfirmed) == (43, 43, 0)
    assert round(result.epoch * 1e6) == round(epoch * 1e6)
    assert result.lateness is None, "that they are late is the fault of nobody here"


def test_a_load_gone_on_with_keeps_its_times() -> None:
    """What is not due yet is sent when it is, and counts for lateness."""
    sink = RecordingSink()
    result = produce(Trace([0.0, 0.0, 0.3]), NoPayload(), sink, parts=[range(1, 3)], epoch=time.time() - 0.2)
    assert [number for number, _, _ in sink.sent] == [1, 2]
    assert result.lateness is not None
    assert result.lateness.records == 1
    assert result.seconds >= 0.3


def test_a_lost_broker_is_an_error() -> None:
    """What the sink raises comes through, and Python collects its garbage again."""
    with pytest.raises(AdaptorError, match="gone"):
        produce(Trace(np.zeros(10)), NoPayload(), RecordingSink(fails_after=0))
    assert gc.isenabled()


def test_lateness_percentiles_are_right_to_a_hundredth() -> None:
    """Mean and maximum are exact, percentiles at most a hundredth too high, and never above the maximum."""
    lateness = Lateness()
    assert lateness.summary() is None
    seconds = np.random.default_rng(3).gamma(2.0, 0.001, 20_000)
    for part in np.array_split(seconds, 7):
        lateness.add(part)
    summary = lateness.summary()
    assert summary is not None
    assert summary.mean_seconds == pytest.approx(seconds.mean())
    assert summary.max_seconds == seconds.max()
    exact = np.quantile(seconds, 0.99, method="inverted_cdf")
    assert exact <= summary.p99_seconds <= 1.01 * exact
    assert not summary.is_on_time
    on_time = Lateness()
    on_time.add(np.array([0.0, 0.004]))
    last = on_time.summary()
    assert last is not None
    assert (last.is_on_time, last.p99_seconds) == (True, 0.004)
