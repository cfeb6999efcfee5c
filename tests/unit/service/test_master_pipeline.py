# SPDX-License-Identifier: Apache-2.0
"""A pipeline of several operators under one master, each with an agent of its own; the operators are toys."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.toy_query import ToyQuery, pipeline_settings, start
from tests.unit.service.test_master import Stage, agents, until

from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.server import HeardFence
from penstock.adaptors.agent.wire import Accepted, Refusal
from penstock.evaluation.run_reading import read_history
from penstock.service.agent_connection import RequestChannel
from penstock.service.desk import PipelineDesk
from penstock.service.picture import pipeline_view

OPERATORS = ("parser", "matcher")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A master that leads."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        yield made
        made.ends.close()


class Pipeline:
    """A run of toys whose operators come and go one by one."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._heard = stage, HeardFence()
        self.done: dict[str, list[dict[str, Any]]] = {name: [] for name in OPERATORS}

    def bring(self, operator: str, write: Callable[[dict[str, Any]], None] | None = None) -> MasterLink:
        """Connect the agent of an operator; `write` takes down what is done to it."""
        query = ToyQuery(operator, write or self.done[operator].append)
        settings = pipeline_settings("logs", OPERATORS)
        agent, link = start(query, self._stage.address, settings=settings, pipeline="logs", heard=self._heard)
        self._stage.ends.callback(agent.close)
        self._stage.ends.callback(link.close)
        return link

    @property
    def desk(self) -> PipelineDesk | None:
        """Where the master shows it."""
        return self._stage.service.desks.get("logs")

    def why(self, operator: str) -> str:
        """The sentence about an operator."""
        if self.desk is None:
            return ""
        (found,) = [one for one in pipeline_view(self.desk)["operators"] if one["name"] == operator]
        return str(found["why"])


def test_operators_may_come_one_after_the_other_and_one_that_is_away_holds_the_others(stage: Stage) -> None:
    """Nothing is changed until all are there; the sentence names who is missing, and goes when that one is back."""
    logs = Pipeline(stage)
    logs.bring("parser")
    until(lambda: "matcher is missing: " in logs.why("parser"), "a word about who is missing")
    assert logs.why("parser").startswith("holding: ")
    assert "logs/matcher" in logs.why("matcher")
    assert stage.master.view()["away"] == ["logs/matcher"]
    time.sleep(2.5)  # longer than a half-period of the toys' load: alone it would have been scaled
    assert logs.done["parser"] == []

    matcher = logs.bring("matcher")
    until(lambda: all(len(done) >= 2 for done in logs.done.values()), "scaling of both")
    assert logs.desk is not None
    assert logs.desk.facts.names == OPERATORS
    assert agents(stage) == ["logs/matcher", "logs/parser"]
    assert stage.master.view()["away"] == []

    matcher.close("its process ended")
    until(lambda: "matcher is missing: " in logs.why("parser"), "a word about who has gone")
    before = len(logs.done["parser"])
    time.sleep(2.5)
    assert len(logs.done["parser"]) == before
    assert "logs" in stage.service.desks, "one that is away does not end the loop"

    logs.bring("matcher")
    until(lambda: len(logs.done["parser"]) > before, "scaling when it is back")


def test_an_operator_that_hangs_while_it_is_asked_does_not_hold_up_the_passes_of_others(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others are looked at meanwhile; the request is made once, and what follows comes when it was answered."""
    # Whoever waited for the answer would wait for longer than this test.
    monkeypatch.setattr(RequestChannel.__init__, "__kwdefaults__", {"timeout_seconds": 600.0})
    logs, gate, asked = Pipeline(stage), threading.Event(), list[dict[str, Any]]()
    stage.ends.callback(gate.set)

    def hang(done: dict[str, Any]) -> None:
        asked.append(done)
        gate.wait()

    logs.bring("parser", hang)
    logs.bring("matcher")
    until(lambda: bool(asked), "a request")
    store = stage.stores.open_readonly("logs")
    stage.ends.callback(store.close)

    def looks() -> int:
        return len(store.observations("matcher", limit=10_000))

    before = looks()
    until(lambda: looks() >= before + 10, "a look at the other one")
    assert len(asked) == 1
    assert "has not answered the last request" in logs.why("matcher")
    gate.set()
    until(lambda: len(asked) >= 2, "control of the one that hung")


def test_the_loop_ends_when_the_last_agent_has_taken_leave(stage: Stage) -> None:
    """Not with the first; then what the run came to is kept, of all operators."""
    logs = Pipeline(stage)
    links = [logs.bring(operator) for operator in OPERATORS]
    until(lambda: all(logs.done.values()), "scaling of both")
    links[0].close("the run has ended")
    time.sleep(1.5)
    assert logs.desk is not None
    links[1].close("the run has ended")
    until(lambda: logs.desk is None, "the end of the loop")
    store = stage.stores.open_readonly("logs")
    stage.ends.callback(store.close)
    until(lambda: read_history(store).is_ended, "a summary")
    summary = read_history(store).summary
    assert list(summary["operators"]) == list(OPERATORS)
    assert list(summary["paths"]) == ["parser -> matcher"]
    assert summary["why_ended"] == "its agent took leave: the run has ended"


def test_agents_of_another_run_are_not_mixed_in(stage: Stage) -> None:
    """While one agent of a run is there, those of another run of that name are refused, also for other operators."""
    given = json.dumps(pipeline_settings("logs", OPERATORS))
    channel, answer = stage.introduce("logs/parser", given)
    assert isinstance(answer, Accepted)
    until(lambda: agents(stage) == ["logs/parser"])
    other = json.dumps(pipeline_settings("logs", OPERATORS, query_run="another"))
    _, answer = stage.introduce("logs/matcher", other)
    assert isinstance(answer, Refusal)
    assert (answer.kind, answer.retryable) == ("occupied", True)
    assert "another run of 'logs'" in answer.error
    channel.close()
    until(lambda: agents(stage) == [])
    _, answer = stage.introduce("logs/matcher", other)
    assert isinstance(answer, Accepted)


@pytest.mark.parametrize("name", ["logs", "logs/counter", "logs/"])
def test_an_agent_says_whose_it_is(stage: Stage, name: str) -> None:
    """One that speaks for none of the operators is refused, with the names that it could have."""
    _, answer = stage.introduce(name, json.dumps(pipeline_settings("logs", OPERATORS)))
    assert isinstance(answer, Refusal)
    assert "logs/parser, logs/matcher" in answer.error
