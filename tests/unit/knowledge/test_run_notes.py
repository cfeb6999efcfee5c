# SPDX-License-Identifier: Apache-2.0
"""What a run said is kept: counted where repeated, bounded, without secrets, and apart from earlier runs."""

from __future__ import annotations

import json

from penstock.errors import AdaptorError
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.run_notes import RunNotes, kept_notes
from penstock.running.run_listener import NotingListener, SafeListener


class _Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        self.at += 1.0
        return self.at


def test_a_repeated_note_is_counted_and_not_written_again() -> None:
    """The first time stays, the last time moves on."""
    store = MemoryStore()
    notes = RunNotes(store, _Clock().now)
    for text in ("driver died", "driver died", "started again", "driver died"):
        notes.add("parser", text)
    first, second = kept_notes(store)
    assert (first.text, first.count, first.at, first.last_at) == ("driver died", 3, 101.0, 104.0)
    assert (second.text, second.count) == ("started again", 1)
    assert str(first) == "parser: driver died (said 3 times)"


def test_only_the_newest_are_kept() -> None:
    """A run of weeks does not fill its store with notes."""
    store = MemoryStore()
    notes = RunNotes(store, _Clock().now)
    for number in range(600):
        notes.add(f"parser {number}", "died")
    kept = kept_notes(store)
    assert [kept[0].operator, kept[-1].operator, len(kept)] == ["parser 100", "parser 599", 500]


def test_notes_that_differ_in_a_number_are_one() -> None:
    """How long a driver has not answered is said every second; it is one note, with the newest number."""
    store = MemoryStore()
    notes = RunNotes(store, _Clock().now)
    for seconds in (5, 6, 7.5):
        notes.add("parser", f"its driver has not answered for {seconds} s")
    (only,) = kept_notes(store)
    assert str(only) == "parser: its driver has not answered for 7.5 s (said 3 times)"


def test_notes_of_an_earlier_run_are_dropped_and_those_of_this_one_go_on() -> None:
    """A store that is used again keeps what was said since the run began."""
    store = MemoryStore()
    before = RunNotes(store, _Clock().now)
    before.add("parser", "old")
    before.add("parser", "new")
    resumed = RunNotes(store, _Clock().now, since=102.0)
    resumed.add("parser", "new")
    assert [(note.text, note.count) for note in kept_notes(store)] == [("new", 2)]


def test_secrets_are_not_kept() -> None:
    """A password in an address that a fault names does not get into the store."""
    store = MemoryStore()
    RunNotes(store, _Clock().now).add("streams", "cannot reach amqp://ada:abra@host:5672/")
    assert "abra" not in (store.fact("notes") or "")
    assert "host:5672" in kept_notes(store)[0].text


def test_damaged_notes_are_left_out() -> None:
    """Whatever stands in the fact, what can be read is."""
    store = MemoryStore()
    whole = {"operator": "parser", "at": 1.0, "text": "whole", "count": 1, "last_at": 1.0}
    store.set_fact("notes", json.dumps([{"operator": "x"}, 3, {**whole, "at": "soon"}, whole]))
    assert [note.text for note in kept_notes(store)] == ["whole"]
    store.set_fact("notes", "{")
    assert kept_notes(store) == []


class _Full(MemoryStore):
    def set_fact(self, name: str, value: str) -> None:
        raise AdaptorError("the disk is full", target="disk", retryable=True)


class _Seen:
    def __init__(self) -> None:
        self.faults: list[str] = []

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Nobody looks."""

    def report(self, report: object) -> None:
        """Nobody looks."""

    def fault(self, operator: str, text: str) -> None:
        """Remember it."""
        self.faults.append(f"{operator}: {text}")


def test_a_store_that_cannot_keep_a_note_does_not_keep_it_from_the_user() -> None:
    """The line is shown all the same."""
    seen = _Seen()
    NotingListener(SafeListener(seen), RunNotes(_Full(), _Clock().now)).fault("parser", "died")
    assert seen.faults == ["parser: died"]
