# SPDX-License-Identifier: Apache-2.0
"""A run of another process is followed through its store: what is new is shown, and handed on as events."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.clock import VirtualClock
from penstock.errors import AdaptorError
from penstock.knowledge import MemoryStore, SqliteStore
from penstock.records import Allocation
from penstock.service.columns import OperatorColumns
from penstock.service.events import EventFeed, Listener
from penstock.service.follower import Follower
from penstock.service.picture import line_view, pipeline_view
from penstock.service.stored_desk import StoredDesk
from penstock.steering import AuditAction, AuditEntry, OperatorSteering, Order, PolicyChoice, SteeringState
from penstock.testing import a_decision, an_observation
from penstock.testing.synthetic_run import START, fill_store, synthetic_settings

NAME = "log-analysis"


async def _listening(feed: EventFeed) -> Listener:
    found = feed.listen()
    assert found is not None
    return found


def taken(listener: Listener) -> list[tuple[str, dict[str, Any]]]:
    """The events that have come."""
    return [(event.kind, event.plain()) for event in listener.take()[0]]


@pytest.fixture
def loop() -> Any:
    """An event loop for who listens."""
    made = asyncio.new_event_loop()
    yield made
    made.close()


def test_what_another_process_adds_is_shown_and_handed_on(tmp_path: Path, loop: Any) -> None:
    """Looks, decisions, orders and the end, each once; nothing of what was there before."""
    writer = SqliteStore(tmp_path / "k.sqlite")
    fill_store(writer, NAME, seconds=30)
    reader, feed, clock = SqliteStore.open_readonly(tmp_path / "k.sqlite"), EventFeed(), VirtualClock(START + 30.0)
    desk = StoredDesk(reader, clock, feed=feed)
    listener = loop.run_until_complete(_listening(feed))
    desk.refresh()
    assert taken(listener) == []
    assert desk.is_followed
    assert line_view(desk)["is_followed"] is True
    writer.add_observation(an_observation(operator=NAME, at=START + 31.0))
    writer.add_decision(a_decision(Allocation(1), Allocation(2), operator=NAME, at=START + 31.0, decision_id="d1"))
    order = Order("ana", START + 32.0, "deploying")
    state = SteeringState({NAME: OperatorSteering(order)}, PolicyChoice("threshold"))
    clock.advance(2.0)
    desk.refresh()
    kinds = [(kind, data["pipeline"]) for kind, data in taken(listener)]
    assert kinds == [("observation", "synthetic"), ("decision", "synthetic")]
    assert (desk.seen(NAME) or an_observation()).at == START + 31.0
    writer.add_audit(AuditEntry(START + 32.0, "ana", AuditAction.PAUSE, NAME, "deploying", {}, {}, state))
    desk.refresh()
    assert pipeline_view(desk)["operators"][0]["why"].startswith("paused by ana")
    writer.set_fact("summary", json.dumps({"ended_at": START + 40.0}))
    desk.refresh()
    desk.refresh()
    assert [(kind, data["phase"]) for kind, data in taken(listener) if kind == "phase"] == [("phase", "ended")]
    assert not desk.is_followed
    assert desk.progress().ended_at == START + 40.0
    reader.close()
    writer.close()


def test_a_run_that_fell_silent_is_not_followed() -> None:
    """One that was cut off has no end in its store: ages then count from its newest record, as of any stored run."""
    store, clock = MemoryStore(), VirtualClock(START + 60.0)
    fill_store(store, NAME, seconds=30)
    desk = StoredDesk(store, clock)
    newest = store.observations(NAME)[-1].at
    assert not desk.is_followed
    assert desk.now() == newest
    store.add_observation(an_observation(operator=NAME, at=START + 59.0))  # it was resumed
    desk.refresh()
    assert desk.is_followed
    assert desk.now() == START + 60.0


def test_looks_of_operators_that_overlap_are_not_lost() -> None:
    """A record may be written after a newer one of another operator."""
    store, clock = MemoryStore(), VirtualClock(START + 5.0)
    fill_store(store, "a", "b", seconds=3)
    desk = StoredDesk(store, clock)
    store.add_observation(an_observation(operator="a", at=START + 4.0))
    desk.refresh()
    store.add_observation(an_observation(operator="b", at=START + 3.9))
    desk.refresh()
    assert [desk.seen(name).at for name in ("a", "b")] == [START + 4.0, START + 3.9]  # type: ignore[union-attr]


def test_a_store_that_fails_for_a_while_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """The others are followed all the same, and it is tried again."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=3)

    class Broken(StoredDesk):
        """Cannot be read."""

        def refresh(self) -> None:
            """Fail, once it is made."""
            if hasattr(self, "is_made"):
                raise AdaptorError("the disk is gone", target="x")
            super().refresh()

    broken, well = Broken(store, VirtualClock(START), name="gone"), StoredDesk(store, VirtualClock(START))
    broken.is_made = True  # type: ignore[attr-defined]
    store.add_observation(an_observation(operator=NAME, at=START + 9.0))
    follower = Follower([broken, well], every_seconds=0.01)
    caplog.set_level(logging.WARNING)
    with follower:
        deadline = time.monotonic() + 20.0
        while (well.seen(NAME) or an_observation(at=0.0)).at < START + 9.0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        follower.look()
    assert [record.getMessage() for record in caplog.records] == ["gone cannot be followed: the disk is gone"]


def test_a_hundred_operators_take_few_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture of a stored run asks the store a bounded number of times for each operator, and a second one less."""
    store, names = MemoryStore(), [f"op{i}" for i in range(100)]
    store.set_fact("settings", json.dumps(synthetic_settings(*names)))
    for name in names:
        store.add_observation(an_observation(operator=name, at=START))
    desk = StoredDesk(store, VirtualClock(START))
    asked = itertools.count()
    for method in ("observations", "decisions", "audit", "fact"):
        plain = getattr(store, method)

        def counted(*args: Any, plain: Any = plain, **kwargs: Any) -> Any:
            next(asked)
            return plain(*args, **kwargs)

        monkeypatch.setattr(store, method, counted)
    desk.refresh()
    pipeline_view(desk)
    assert next(asked) < 2 * len(names)


@given(st.lists(st.tuples(st.floats(0.0, 100.0), st.none() | st.floats(0.0, 10.0)), max_size=30), st.integers(1, 5))
def test_columns_have_every_look_once_however_they_are_read(
    looks: list[tuple[float, float | None]], pieces: int
) -> None:
    """Read in one go or piece by piece, in a time that goes on, they hold what the store holds."""
    looks = sorted(dict(looks).items())
    store, columns = MemoryStore(), None
    for number, (at, value) in enumerate(looks):
        store.add_observation(an_observation(operator="a", at=at, utilisation=value))
        if number % pieces == 0:
            columns = columns or OperatorColumns(store, "a", 0.0)
            columns.read()
    columns = columns or OperatorColumns(store, "a", 0.0)
    columns.read()
    times, values = columns.measured("cpu_utilisation", 0.0, 1000.0)
    assert times.tolist() == [one for one, _ in looks]
    assert [None if math.isnan(value) else value for value in values.tolist()] == [value for _, value in looks]
    begin, end = 20.0, 60.0
    assert columns.measured("cpu_utilisation", begin, end)[0].tolist() == [x for x, _ in looks if begin <= x < end]


def test_metrics_of_the_users_own_are_kept_too() -> None:
    """Also where they come later than the first look; a name that nobody gave has no values."""
    store = MemoryStore()
    store.add_observation(an_observation(operator="a", at=1.0))
    store.add_observation(an_observation(operator="a", at=2.0, metrics={"own_sessions": 7.0}))
    columns = OperatorColumns(store, "a", 0.0)
    columns.read()
    assert columns.measured("own_sessions", 0.0, 9.0)[1].tolist()[1:] == [7.0]
    assert columns.measured("own_others", 0.0, 9.0)[0].tolist() == []
