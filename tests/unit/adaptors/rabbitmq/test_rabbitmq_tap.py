# SPDX-License-Identifier: Apache-2.0
"""What the tap makes of messages, without a server: instants in a row, and breaks where some were not seen."""

from __future__ import annotations

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from pika import BasicProperties

from penstock.adaptors.produce.sink import DUE_HEADER, PRODUCER_HEADER, SEQUENCE_HEADER
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals
from penstock.adaptors.rabbitmq.queue_tap import QueueTap
from penstock.errors import ConfigurationError

NOBODY = RabbitMQConnection("amqp://127.0.0.1:1/")


def _see(tap: QueueTap, sequence: int, producer: str = "p") -> None:
    headers = {PRODUCER_HEADER: producer, SEQUENCE_HEADER: sequence, DUE_HEADER: 1_000_000 * sequence}
    tap._on_message(None, None, BasicProperties(headers=headers), b"")


def test_messages_in_a_row_are_one_run() -> None:
    """Instants are those the producer gave; taken once, they do not come again."""
    tap = QueueTap(NOBODY, "q")
    for sequence in (3, 4, 5):
        _see(tap, sequence)
    (run,) = tap.take()
    assert (run.times.tolist(), run.follows_break) == ([3.0, 4.0, 5.0], False)
    assert tap.take() == []


def test_a_gap_in_a_producers_numbers_is_a_break() -> None:
    """Messages the queue's limit dropped are counted and told as a break, for each producer apart."""
    tap = QueueTap(NOBODY, "q")
    for sequence, producer in ((0, "a"), (7, "b"), (1, "a"), (8, "b"), (5, "a")):
        _see(tap, sequence, producer)
    first, second = tap.take()
    assert (len(first.times), first.follows_break) == (4, False)
    assert (len(second.times), second.follows_break) == (1, True)
    counts = tap.counts()
    assert (counts.received, counts.missed, counts.breaks) == (5, 3, 1)


def test_a_break_with_nothing_after_it_yet_is_told_later() -> None:
    """A break at the end is not lost between two calls: the next run follows it."""
    tap = QueueTap(NOBODY, "q")
    _see(tap, 0)
    tap._break()
    tap._break()
    assert [run.follows_break for run in tap.take()] == [False]
    assert tap.take() == []
    _see(tap, 9)
    assert [run.follows_break for run in tap.take()] == [True]
    assert tap.counts().breaks == 1


def test_a_run_says_how_many_were_missed_before_it_where_numbers_show_it() -> None:
    """By a gap; none after a break that hid nothing; unknown where the sender does not number its messages."""
    tap = QueueTap(NOBODY, "q")
    for sequence in (0, 1, 5):
        _see(tap, sequence)
    tap._break()
    _see(tap, 6)
    tap._break()
    _see(tap, 9)
    tap._break()
    tap._on_message(None, None, BasicProperties(), b"")
    assert [(run.follows_break, run.missed) for run in tap.take()] == [
        (False, 0), (True, 3), (True, 0), (True, 2), (True, None)
    ]  # fmt: skip


def test_messages_of_other_producers_arrive_when_they_are_received() -> None:
    """Without the header the tap's own clock says when a message arrived."""
    tap = QueueTap(NOBODY, "q")
    tap._on_message(None, None, BasicProperties(), b"")
    (run,) = tap.take()
    assert run.times[0] > 1.6e9


def test_too_low_a_rate_is_refused() -> None:
    """One message a second gives no time between arrivals."""
    with pytest.raises(ConfigurationError, match="most_per_second"):
        QueueTap(NOBODY, "q", most_per_second=1)


def test_a_broker_that_is_away_is_unknown_and_not_empty(tmp_path: object) -> None:
    """How many have arrived is None while the queue cannot be asked, never only those received."""
    arrivals = QueueArrivals(str(tmp_path), NOBODY, "q")
    assert arrivals.waiting() is None
    assert arrivals.arrived_by(1e9) is None
    arrivals.close()


def test_producers_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many only those heard of last stay, and their gaps are still seen."""
    monkeypatch.setattr("penstock.adaptors.rabbitmq.queue_tap._PRODUCERS_KEPT", 3)
    tap = QueueTap(NOBODY, "q")
    for number in range(10):
        _see(tap, number, "stays")
        _see(tap, 0, f"goes {number}")
    assert list(tap._sequences) == ["goes 8", "stays", "goes 9"]
    _see(tap, 12, "stays")
    assert tap.counts().missed == 2
