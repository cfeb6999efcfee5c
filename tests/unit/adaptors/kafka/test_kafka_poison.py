# SPDX-License-Identifier: Apache-2.0
"""Records with headers or timestamps that cannot be: they are counted, and measuring goes on."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.kafka import record_latency, topic_tap
from penstock.adaptors.kafka.arrival_header import ARRIVAL_HEADER
from penstock.adaptors.kafka.record_latency import RecordLatency
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.monitor.latency import LatencyTracker

ARRIVED = 1_767_225_600


class FakeMessage:
    """A record with an arrival in its header, done so many seconds later."""

    def __init__(self, offset: int, arrival: bytes, stamp_ms: int) -> None:
        self._offset, self._arrival, self._stamp_ms = offset, arrival, stamp_ms

    def error(self) -> None:
        """It was read."""

    def headers(self) -> list[tuple[str, bytes]]:
        """As the client gives them."""
        return [(ARRIVAL_HEADER, self._arrival)]

    def timestamp(self) -> tuple[int, int]:
        """As the client gives it."""
        return (1, self._stamp_ms)

    def topic(self) -> str:
        """Its topic."""
        return "out"

    def partition(self) -> int:
        """Its partition."""
        return 0

    def offset(self) -> int:
        """Its offset."""
        return self._offset


class FakeConnection:
    """A broker with one topic of one partition, and records that are read once."""

    def __init__(self, messages: list[FakeMessage]) -> None:
        self._messages = messages

    def consumer(self, options: Any, faults: Any) -> Any:
        """A client."""
        return self

    def consume(self, most: int, timeout: float) -> list[FakeMessage]:
        """Everything at once."""
        found, self._messages = self._messages, []
        return found


@pytest.fixture(autouse=True)
def one_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker is asked."""
    ends = SimpleNamespace(next=lambda partitions: dict.fromkeys(partitions, 0))
    for module in (record_latency, topic_tap):
        monkeypatch.setattr(
            module, "Topics", lambda _: SimpleNamespace(check=lambda names: [SimpleNamespace(name="out", partitions=1)])
        )
        monkeypatch.setattr(module, "PartitionEnds", lambda *_, **__: ends)


@pytest.mark.parametrize("poison", [b"soon", b"", b"9" * 5000, b"\xff"])
def test_one_unreadable_header_does_not_end_the_measurement(poison: bytes) -> None:
    """The records around it are measured, it is counted, and the user can read what it was."""
    done = (ARRIVED + 2) * 1000
    good = b"%d" % (ARRIVED * 1_000_000)
    messages = [FakeMessage(0, good, done), FakeMessage(1, poison, done), FakeMessage(2, good, done)]
    latency = RecordLatency(cast("Any", FakeConnection(messages)), "out", LatencyTracker(15.0))
    latency._read_some()
    whole = latency.whole()
    assert whole is not None
    assert (whole.records, latency.records, latency.unreadable) == (2, 3, 1)
    assert whole.mean_seconds == pytest.approx(2.0)
    one_by_one = latency.since_last()
    assert one_by_one is not None
    assert one_by_one.seconds.tolist() == pytest.approx([2.0, 2.0])
    assert one_by_one.arrived.tolist() == [ARRIVED, ARRIVED]
    assert latency.since_last() is None
    assert latency.fault is None
    assert latency.note is not None
    assert ARRIVAL_HEADER in latency.note
    assert len(latency.note) < 300


def test_a_record_without_a_timestamp_has_no_latency() -> None:
    """Kafka's -1 is not an instant before 1970."""
    messages = [FakeMessage(0, b"%d" % (ARRIVED * 1_000_000), -1)]
    latency = RecordLatency(cast("Any", FakeConnection(messages)), "out", LatencyTracker(15.0))
    latency._read_some()
    assert (latency.whole(), latency.unreadable) == (None, 1)


@pytest.mark.parametrize("stamp_ms", [ARRIVED * 1_000_000, -1])
def test_a_timestamp_from_the_future_does_not_become_that_of_all_behind_it(stamp_ms: int) -> None:
    """A record stamped in microseconds, or not at all, counts with when it was read; the next has its own time."""
    before_ms = int(time.time() * 1000) - 60_000
    messages = [FakeMessage(n, b"", at) for n, at in enumerate((before_ms, stamp_ms))]
    tap = TopicTap(cast("Any", FakeConnection(messages)), ["out"])
    tap._read_some()
    found = tap.between(("out", 0), 0, 2)
    assert found is not None
    assert found.seconds[0] == before_ms / 1e3
    assert before_ms / 1e3 < found.seconds[1] <= time.time()
    assert tap.implausible == 1
