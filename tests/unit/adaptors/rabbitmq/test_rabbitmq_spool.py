# SPDX-License-Identifier: Apache-2.0
"""The spool: rows under numbers, nothing lost over crashes, copies marked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs the extra [spark]")

import pyarrow as pa

from penstock.adaptors.rabbitmq import spool, spool_arrivals
from penstock.adaptors.rabbitmq.message import Message
from penstock.adaptors.rabbitmq.spool import Spool
from penstock.adaptors.rabbitmq.spool_arrivals import SpoolArrivals
from penstock.adaptors.rabbitmq.spool_files import read, segments_in, split
from penstock.errors import AdaptorError, ConfigurationError
from penstock.records import SourceProgress


def _messages(numbers: range, *, tag: int = 1, redelivered: bool = False, has_id: bool = True) -> list[Message]:
    return [
        Message(
            body=b"m%d" % n, routing_key="k", delivery_tag=tag + i, redelivered=redelivered, message_id=None,
            producer="p" if has_id else None, sequence=n if has_id else None, published_us=None,
            arrival_us=1_000_000 * (n + 1), due_us=None,
        )
        for i, n in enumerate(numbers)
    ]  # fmt: skip


def _rows(held: Spool, start: int, stop: int) -> list[dict[str, Any]]:
    return [row for batch in read(held.find(start, stop)) for row in batch.to_pylist()]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Spool]:
    """A fresh spool, begun at number 0."""
    held = Spool(tmp_path / "spool")
    held.begin(0)
    yield held
    held.close()


def test_rows_come_back_under_their_numbers(opened: Spool) -> None:
    """Appended messages are read back by any range of numbers, in order."""
    opened.append(_messages(range(3)))
    opened.append(_messages(range(3, 7), tag=4))
    assert [(row["number"], row["body"]) for row in _rows(opened, 2, 6)] == [(n, b"m%d" % n) for n in range(2, 6)]
    assert opened.next_number == 7


def test_tasks_share_a_batch_evenly_and_in_order(opened: Spool) -> None:
    """Splitting a range over tasks loses and repeats nothing, whatever the segments are."""
    opened.append(_messages(range(3)))
    opened.append(_messages(range(3, 10), tag=4))
    shares = split(opened.find(1, 10), 4)
    numbers = [[row["number"] for batch in read(share) for row in batch.to_pylist()] for share in shares]
    assert [number for part in numbers for number in part] == list(range(1, 10))
    assert {len(part) for part in numbers} == {2, 3}
    assert split([], 4) == []


def test_only_what_is_done_is_acknowledged_and_removed(opened: Spool) -> None:
    """The tag to acknowledge is that of the last row done; files go when all of their rows are done."""
    opened.append(_messages(range(3), tag=11))
    opened.append(_messages(range(3, 6), tag=14))
    assert (opened.last_tag(0), opened.last_tag(2), opened.last_tag(3), opened.last_tag(5)) == (None, 12, 13, 15)
    opened.release(5)
    assert [(s.first, s.stop) for s in segments_in(opened.folder)] == [(3, 6)]
    opened.release(6)
    assert segments_in(opened.folder) == []


def test_a_batch_run_again_has_the_same_rows(opened: Spool) -> None:
    """After a crash the rows of the last planned batch are still there, and read the same."""
    opened.append(_messages(range(5)))
    before = _rows(opened, 0, 4)
    opened.close()
    again = Spool(opened.folder)
    assert _rows(again, 0, 4) == before
    again.close()


def test_copies_after_a_restart_are_marked_and_the_rest_is_new(opened: Spool) -> None:
    """Rows in a batch come again marked with the first one's number; rows in no batch were dropped and are new."""
    opened.append(_messages(range(6)))
    opened.close()
    again = Spool(opened.folder)
    again.begin(4)  # Spark is done with 0 to 3; 4 and 5 were in no batch
    again.append(_messages(range(6), redelivered=True))
    marks = [(row["number"], row["sequence"], row["duplicate_of"]) for row in _rows(again, 4, 10)]
    assert marks == [(4, 0, 0), (5, 1, 1), (6, 2, 2), (7, 3, 3), (8, 4, None), (9, 5, None)]
    again.release(10)
    assert segments_in(again.folder) == []
    again.close()


def test_a_second_restart_still_knows_the_first_rows(opened: Spool) -> None:
    """Copies that were received but in no batch when the driver died again are marked when they come once more."""
    opened.append(_messages(range(3)))
    opened.close()
    again = Spool(opened.folder)
    again.begin(3)
    again.append(_messages(range(3), redelivered=True))
    again.close()
    third = Spool(opened.folder)
    third.begin(3)
    third.append(_messages(range(4), redelivered=True))
    assert [row["duplicate_of"] for row in _rows(third, 3, 7)] == [0, 1, 2, None]
    third.close()


def test_a_lost_connection_makes_unacknowledged_rows_come_again(opened: Spool) -> None:
    """Rows received on a channel that died cannot be acknowledged; they stay readable, and their copies are marked."""
    opened.append(_messages(range(3), tag=8))
    opened.lose_channel()
    assert opened.last_tag(3) is None
    opened.append(_messages(range(4), tag=1, redelivered=True))
    assert [row["duplicate_of"] for row in _rows(opened, 0, 7)] == [None] * 3 + [0, 1, 2, None]
    opened.release(3)
    assert [s.first for s in segments_in(opened.folder)] == [0, 3], "the copies are not acknowledged yet"
    assert opened.last_tag(7) == 4
    opened.release(7)
    assert segments_in(opened.folder) == []


def test_a_first_delivery_is_never_marked(opened: Spool) -> None:
    """What the broker delivers for the first time repeats nothing, even under a known number."""
    opened.append(_messages(range(2)))
    opened.lose_channel()
    opened.append(_messages(range(2)))
    assert [row["duplicate_of"] for row in _rows(opened, 2, 4)] == [None, None]


def test_messages_without_identity_are_not_marked(opened: Spool) -> None:
    """Without message id or sequence nothing can be said beyond the broker's own mark, and nothing is kept for it."""
    opened.append(_messages(range(2), has_id=False))
    opened.lose_channel()
    opened.append(_messages(range(2), has_id=False, redelivered=True))
    assert [(row["redelivered"], row["duplicate_of"]) for row in _rows(opened, 2, 4)] == [(True, None)] * 2
    opened.release(2)
    assert [s.first for s in segments_in(opened.folder)] == [2]


def test_an_unfinished_segment_is_as_if_never_received(opened: Spool) -> None:
    """A crash in the middle of writing leaves nothing that is read."""
    opened.append(_messages(range(2)))
    (opened.folder / "unfinished").write_bytes(b"half")
    opened.close()
    again = Spool(opened.folder)
    again.begin(2)
    again.append(_messages(range(2, 4)))
    assert [row["number"] for row in _rows(again, 0, 4)] == [0, 1, 2, 3]
    again.close()


def test_a_missing_segment_is_told(opened: Spool) -> None:
    """A batch whose rows are gone is an error that says what to do, never an empty batch."""
    opened.append(_messages(range(3)))
    opened.append(_messages(range(3, 5)))
    Path(segments_in(opened.folder)[0].path).unlink()
    opened.close()
    again = Spool(opened.folder)
    with pytest.raises(AdaptorError, match=r"no longer holds the records 0 to 5.*new checkpoint"):
        again.find(0, 5)
    again.close()


def test_a_spool_of_another_checkpoint_is_refused(opened: Spool) -> None:
    """An offset of another spool is refused; an empty folder takes the offset's name."""
    opened.check_id(opened.id)
    with pytest.raises(ConfigurationError, match="belongs to another checkpoint"):
        opened.check_id("other")
    fresh = Spool(opened.folder.parent / "fresh")
    fresh.check_id("other")
    assert fresh.id == "other"
    fresh.close()


def test_two_queries_cannot_share_a_spool(opened: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second to open a spool is refused while the first has it."""
    monkeypatch.setattr(spool, "_LOCK_SECONDS", 0.0)
    with pytest.raises(AdaptorError, match="in use by another query"):
        Spool(opened.folder)
    opened.close()
    Spool(opened.folder).close()


def test_arrival_times_outlive_the_rows(opened: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrival times of a batch are known after its rows are gone, over the borders of files; unknown is None."""
    monkeypatch.setattr(spool_arrivals, "PER_FILE", 4)
    monkeypatch.setattr(spool_arrivals, "KEPT_FILES", 2)
    opened.append(_messages(range(6)))
    opened.release(6)
    times = SpoolArrivals(opened.folder)

    def progress(start: int | None, end: int) -> SourceProgress:
        texts = [None if n is None else json.dumps({"spool": opened.id, "number": n}) for n in (start, end)]
        return SourceProgress("", texts[0], texts[1], None, 0)

    first = times.of(progress(None, 3))
    second = times.of(progress(3, 6))
    assert first is not None
    assert second is not None
    assert (first.tolist(), second.tolist()) == ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert times.of(progress(5, 9)) is None
    assert times.of(SourceProgress("", None, '{"epoch_us": 1, "index": 2}', None, 0)) is None
    assert times.done_index(progress(0, 6)) == 6
    assert times.arrived_by(5.5) == 5
    opened.append(_messages(range(6, 10)))
    assert times.of(progress(0, 3)) is None, "the oldest file is gone"
    assert times.of(progress(4, 10)) is not None


def test_rows_have_the_schema_that_spark_is_told(opened: Spool) -> None:
    """Instants are UTC timestamps in microseconds; what a producer did not say is null."""
    opened.append(_messages(range(1)))
    (batch,) = list(read(opened.find(0, 1)))
    assert batch.schema.field("arrival").type == pa.timestamp("us", tz="UTC")
    assert batch.to_pylist()[0]["published"] is None


def test_dropped_rows_have_not_arrived(opened: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a restart drops are not counted as received: they are in the broker's queue again."""
    monkeypatch.setattr(spool_arrivals, "PER_FILE", 4)
    opened.append(_messages(range(10)))
    opened.close()
    times = SpoolArrivals(opened.folder)
    assert times.arrived_by(1e9) == 10
    for start in (6, 4, 0):
        again = Spool(opened.folder)
        again.begin(start)
        again.close()
        assert (times.arrived_by(1e9) or 0) == start


def test_copies_that_never_come_are_not_waited_for_for_ever(opened: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some time after a channel was lost, what it held is forgotten, whatever was lost since."""
    now = [0.0]
    monkeypatch.setattr("penstock.adaptors.rabbitmq.spool.time.monotonic", lambda: now[0])
    opened.append(_messages(range(3)))
    opened.lose_channel()
    now[0] = 3000.0
    opened.append(_messages(range(3, 5)))
    opened.lose_channel()
    assert len(opened._known) == 5
    opened.release(5)
    now[0] = 3700.0
    opened.append(_messages(range(5, 6)))
    opened.release(6)
    assert sorted(opened._known) == ["p:3", "p:4"]
    assert [segment.first for segment in opened._old] == [3]
    now[0] = 7000.0
    opened.release(6)
    assert (opened._known, opened._old, opened._remembered_at) == ({}, [], {})


@pytest.fixture
def careful(tmp_path: Path) -> Iterator[Spool]:
    """A spool behind a producer that never uses a number twice."""
    held = Spool(tmp_path / "careful", marks_resent=True)
    held.begin(0)
    yield held
    held.close()


def test_a_message_that_its_producer_sent_twice_is_marked_and_not_counted(careful: Spool) -> None:
    """After a lost connection a producer sends again what was not confirmed: a copy, though not redelivered."""
    opened = careful
    opened.append(_messages(range(4)))
    opened.append(_messages(range(2, 6), tag=5))
    assert [row["duplicate_of"] for row in _rows(opened, 4, 8)] == [2, 3, None, None]
    arrivals = SpoolArrivals(opened.folder)
    assert arrivals.received() == 6
    ends = [json.dumps({"spool": opened.id, "number": number}) for number in (4, 5, 8)]
    assert [arrivals.records_before(end) for end in ends] == [4, 4, 6]


def test_copies_among_rows_that_no_batch_took_are_forgotten_with_them(tmp_path: Path) -> None:
    """After a restart such rows come again under the same numbers, and need not be copies then."""
    held = Spool(tmp_path / "spool", marks_resent=True)
    held.begin(0)
    held.append(_messages(range(3)))
    held.append(_messages(range(3), tag=4))
    held.close()
    again = Spool(tmp_path / "spool")
    again.begin(4)
    assert spool_arrivals.read_copies(again.folder).tolist() == [3]
    again.close()


def test_messages_that_share_an_id_are_new_unless_the_broker_says_otherwise(careful: Spool) -> None:
    """A `message_id` that its sender does not make unique must not cost messages."""
    careful.append([replace(message, message_id="always this") for message in _messages(range(3))])
    assert [row["duplicate_of"] for row in _rows(careful, 0, 3)] == [None, None, None]
    assert SpoolArrivals(careful.folder).received() == 3
