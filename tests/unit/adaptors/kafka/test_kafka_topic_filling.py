# SPDX-License-Identifier: Apache-2.0
"""A topic that is filled at once: every partition gets its turn, and what the broker refuses is no filled topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.topic_filling import fill_topic
from penstock.errors import ClusterError


class FakeFault:
    """What a client reports of a record that was not taken."""

    def str(self) -> str:
        """In words."""
        return "too large"


class FakeProducer:
    """Keeps what it is given; its buffer holds `room` records until the next poll."""

    def __init__(self, room: int = 1000, left: int = 0, *, refuses: bool = False) -> None:
        self.sent: list[tuple[bytes, int]] = []
        self._room, self._free, self._left, self._refuses = room, room, left, refuses

    def produce(self, topic: str, value: bytes, *, partition: int, on_delivery: Callable[..., None]) -> None:
        """Take one, or say that the buffer is full."""
        assert topic == "waiting"
        if self._free == 0:
            raise BufferError
        self._free -= 1
        self.sent.append((value, partition))
        if self._refuses:
            on_delivery(FakeFault(), None)

    def poll(self, _seconds: float) -> None:
        """Make room."""
        self._free = self._room

    def flush(self, _seconds: float) -> int:
        """How many are left."""
        return self._left


def filled(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch, values: list[bytes]) -> Any:
    """Fill two partitions through a producer."""
    monkeypatch.setattr(KafkaConnection, "producer", lambda *_: producer)
    return fill_topic(KafkaConnection("127.0.0.1:9092"), "waiting", 2, values)


def test_records_go_to_the_partitions_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the client's buffer is full for a while."""
    producer = FakeProducer(room=2)
    assert filled(producer, monkeypatch, [b"a", b"b", b"c", b"d", b"e"]) == [3, 2]
    assert producer.sent == [(b"a", 0), (b"b", 1), (b"c", 0), (b"d", 1), (b"e", 0)]


@pytest.mark.parametrize(
    ("producer", "why"), [(FakeProducer(left=3), "3 records were not taken"), (FakeProducer(refuses=True), "too large")]
)
def test_what_is_not_taken_is_said(producer: FakeProducer, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with holes would be measured as if it were full."""
    with pytest.raises(ClusterError, match=why):
        filled(producer, monkeypatch, [b"a"])
