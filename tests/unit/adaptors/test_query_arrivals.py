# SPDX-License-Identifier: Apache-2.0
"""Who knows when a query's records arrived, by what it reads; what fails is a note and nothing more."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import pytest

from penstock.adaptors.kafka import topic_tap
from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.query_arrivals import find_arrivals
from penstock.adaptors.spark.query_facts import QuerySource
from penstock.arrivals import ReplayArrivals
from penstock.errors import ClusterError

KAFKA = QuerySource("kafka", {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "a, b"})


class FakeTap:
    """Records how it was made and whether it runs."""

    made: ClassVar[list[FakeTap]] = []
    fault: Exception | None = None

    def __init__(self, connection: KafkaConnection, topics: list[str]) -> None:
        if self.fault is not None:
            raise self.fault
        self.connection, self.topics, self.calls = connection, topics, list[str]()
        self.made.append(self)

    def start(self) -> None:
        """Begin."""
        self.calls.append("start")

    def close(self) -> None:
        """End."""
        self.calls.append("close")


@pytest.fixture
def taps(monkeypatch: pytest.MonkeyPatch) -> list[FakeTap]:
    """The taps that are made in the place of real ones."""
    monkeypatch.setattr(FakeTap, "made", [])
    monkeypatch.setattr(FakeTap, "fault", None)
    monkeypatch.setattr(topic_tap, "TopicTap", FakeTap)
    return FakeTap.made


def test_topics_are_tapped_until_closed(taps: list[FakeTap]) -> None:
    """The tap has the query's broker and topics."""
    found = find_arrivals([KAFKA])
    assert isinstance(found.times, KafkaArrivals)
    assert found.note is None
    assert (taps[0].connection, taps[0].topics) == (KafkaConnection("127.0.0.1:9092"), ["a", "b"])
    assert taps[0].calls == ["start"]
    found.close()
    assert taps[0].calls == ["start", "close"]


def _kafka(**options: str) -> QuerySource:
    return QuerySource("kafka", {"kafka.bootstrap.servers": "127.0.0.1:9092", **options})


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ([_kafka(subscribepattern="a.*")], "the query has subscribePattern; name its topics with the option subscribe"),
        ([_kafka(assign='{"a":[0]}')], "the query has assign; name its topics with the option subscribe"),
        ([KAFKA, _kafka(subscribe="b")], "the query reads a topic twice"),
        (
            [KAFKA, QuerySource("kafka", {"kafka.bootstrap.servers": "other:1", "subscribe": "c"})],
            "the query reads from several brokers",
        ),
    ],
)
def test_what_a_tap_cannot_follow_is_interpolated(taps: list[FakeTap], sources: list[QuerySource], why: str) -> None:
    """The note says what stands in the way."""
    found = find_arrivals(sources)
    assert (found.times, taps) == (None, [])
    assert found.note == f"arrival times of kafka are interpolated between batches: {why}"


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (ClusterError("no broker answers\nat 127.0.0.1:9092"), "no broker answers at 127.0.0.1:9092"),
        (RuntimeError("a defect"), "RuntimeError: a defect"),
    ],
)
def test_a_tap_that_fails_is_done_without(
    taps: list[FakeTap], monkeypatch: pytest.MonkeyPatch, fault: Exception, why: str
) -> None:
    """Nothing reaches the user's job; the note is one line."""
    monkeypatch.setattr(FakeTap, "fault", fault)
    found = find_arrivals([KAFKA])
    found.close()
    assert (found.times, taps) == (None, [])
    assert found.note == f"arrival times of kafka are interpolated between batches: {why}"


def test_without_the_kafka_package_the_note_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is optional."""
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    found = find_arrivals([KAFKA])
    assert found.times is None
    assert found.note is not None
    assert "pip install 'penstock[kafka]'" in found.note


def test_a_replay_is_known_exactly_and_a_wrong_one_is_not() -> None:
    """Options that no replay has are a note."""
    found = find_arrivals([QuerySource("penstock_replay", {"shape": "constant:rate=10,duration=1m", "startat": "5"})])
    assert isinstance(found.times, ReplayArrivals)
    assert (found.times.epoch_us, found.note) == (5_000_000, None)
    wrong = find_arrivals([QuerySource("penstock_replay", {"trace": "/no/such/file"})])
    assert wrong.times is None
    assert wrong.note is not None
    assert wrong.note.startswith("arrival times of penstock_replay are interpolated between batches: ")


@pytest.mark.parametrize(
    ("sources", "note"),
    [
        ([QuerySource("delta")], "arrival times of delta are interpolated between batches"),
        ([QuerySource("rate"), KAFKA], "arrival times of rate, kafka are interpolated between batches"),
        ([], "arrival times are interpolated between batches: what the query reads is not known"),
        (None, "arrival times are interpolated between batches: what the query reads is not known"),
    ],
)
def test_other_sources_are_interpolated(sources: Any, note: str) -> None:
    """Nothing is started for them."""
    found = find_arrivals(sources)
    assert (found.times, found.note) == (None, note)
