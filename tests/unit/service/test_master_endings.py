# SPDX-License-Identifier: Apache-2.0
"""What a master keeps of a run that is over, and when it takes one to be over."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.toy_query import ToyQuery, toy_meters, toy_settings
from tests.unit.service.test_master import Stage, until

from penstock import _master_scaler
from penstock._master_scaler import MasterScaler
from penstock.adaptors.agent.channel import AgentChannel
from penstock.adaptors.agent.wire import Goodbye, Message
from penstock.evaluation.history import RunHistory
from penstock.evaluation.run_reading import read_history
from penstock.service import end_summary, master

PRICES = {"executor_hour": 3600.0, "currency": "EUR"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A master that leads."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        yield made
        made.ends.close()


def history(stage: Stage, name: str = "toy") -> RunHistory:
    """What the store says of a pipeline."""
    store = stage.stores.open_readonly(name)
    try:
        return read_history(store)
    finally:
        store.close()


def is_seen(stage: Stage, name: str = "toy") -> bool:
    """Whether its loop has looked at it."""
    return name in stage.service.desks and stage.service.desks[name].seen(name) is not None


@pytest.fixture
def without_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents go without a word, as those of a process that was killed."""
    send = AgentChannel.send

    def silent(channel: AgentChannel, message: Message) -> None:
        if not isinstance(message, Goodbye):
            send(channel, message)

    monkeypatch.setattr(AgentChannel, "send", silent)


def test_a_query_that_takes_leave_has_a_final_summary(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says why the run is over, and adds the whole of it up, in pieces of its history."""
    monkeypatch.setattr(end_summary, "_PIECE_SECONDS", 0.7)
    _, link, done = stage.add(prices=PRICES)
    until(lambda: len(done) >= 2, "two actions")
    assert not history(stage).is_ended
    link.close("detached")
    until(lambda: history(stage).is_ended, "a summary")
    found = history(stage)
    summary, observed = found.summary, replace(found, final_summary=None).summary
    assert summary["why_ended"] == "its agent took leave: detached"
    assert summary["ended_at"] == found.ended_at
    assert len(summary["decisions"]) >= 2
    for part in ("executor_seconds", "capacity_seconds", "static_capacity_seconds"):
        assert summary[part] == pytest.approx(observed[part])
        assert summary[part] > 0
    assert summary["cost"]["amount"] == pytest.approx(summary["executor_seconds"])  # 3600 EUR an hour
    assert summary["operators"]["toy"]["cost"] == summary["cost"]
    assert summary["records_done"] == observed["records_done"]
    assert summary["latency"]["records"] > 0


def test_a_query_that_comes_back_goes_on(stage: Stage) -> None:
    """However soon it comes, it is in progress again, as the same run; the last summary counts all of it."""
    _, link, _ = stage.add()
    until(lambda: is_seen(stage), "a look")
    began = history(stage).started_at
    link.close("detached")
    until(lambda: history(stage).is_ended, "a summary")
    first, before = history(stage).summary, None
    for _ in range(3):
        _, link, _ = stage.add()
        until(lambda before=before: stage.service.desks.get("toy", before) is not before, "a loop")  # type: ignore[misc]
        before = stage.service.desks["toy"]
        until(lambda: is_seen(stage), "a look")
        assert not history(stage).is_ended
        link.close("detached")  # and at once again
    until(lambda: history(stage).is_ended, "a summary")
    last = history(stage)
    assert last.started_at == began
    assert last.summary["started_at"] == first["started_at"]
    assert last.summary["executor_seconds"] > first["executor_seconds"]


@pytest.mark.usefixtures("without_goodbye")
def test_a_query_that_is_lost_is_in_progress_for_a_while(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its run counts as over, up to the newest look, and the summary says so; it goes on when it comes back."""
    _, link, _ = stage.add()
    until(lambda: is_seen(stage), "a look")
    link.close()
    until(lambda: stage.master.view()["away"] == ["toy"], "its loss")
    failed = stage.service.desks["toy"].tally.faults("toy")
    until(lambda: stage.service.desks["toy"].tally.faults("toy") > failed, "a look that fails")
    assert not history(stage).is_ended
    monkeypatch.setattr(master, "_AWAY_SECONDS", 0.5)
    until(lambda: history(stage).is_ended, "a summary")
    lost = history(stage)
    assert lost.summary["why_ended"].startswith("its agent was lost, and did not come back within 120 s")
    assert lost.summary["ended_at"] == lost.ended_at
    assert lost.summary["faults"] <= failed, "looks at who is lost are none that failed"
    until(lambda: "toy" not in stage.service.desks, "the end of its loop")
    monkeypatch.setattr(master, "_AWAY_SECONDS", 120.0)
    stage.add()
    until(lambda: is_seen(stage), "a look")
    assert not history(stage).is_ended
    assert history(stage).started_at == lost.started_at


def test_the_end_of_a_master_is_not_the_end_of_a_run(tmp_path: Path) -> None:
    """Another one may go on with it."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        made.add()
        until(lambda: is_seen(made), "a look")
    assert not history(made).is_ended
    made.ends.close()
    assert not history(made).is_ended


class RecordingExit:
    """Stands for `atexit`."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.register, self.unregister = self.calls.append, self.calls.remove


def test_an_application_that_ends_takes_leave(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody has called detach; after that there is nothing left to do at its end."""
    at_exit = RecordingExit()
    monkeypatch.setattr(_master_scaler, "atexit", at_exit)

    def attached(name: str) -> MasterScaler:
        query = ToyQuery(name, lambda _: None)
        hold: Any = SimpleNamespace(probe=query, actuator=query, meters=toy_meters(query), close=lambda: None)
        arrivals: Any = SimpleNamespace(times=None, note=None, close=lambda: None)
        scaler = MasterScaler(hold, stage.address, json.loads(json.dumps(toy_settings(name))), (), arrivals)
        until(lambda: is_seen(stage, name), "a look")
        return scaler

    left = attached("left")
    (take_leave,) = at_exit.calls
    take_leave()
    until(lambda: history(stage, "left").is_ended, "a summary")
    assert history(stage, "left").summary["why_ended"] == "its agent took leave: its application has ended"
    left.detach()
    with attached("detached"):
        pass
    assert at_exit.calls == []
