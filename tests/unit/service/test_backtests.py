# SPDX-License-Identifier: Apache-2.0
"""Backtests over HTTP: the command in a process of its own, and what it refuses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.unit.evaluation.test_backtest import a_run

from penstock.clock import SystemClock
from penstock.knowledge import MemoryStore, SqliteStore
from penstock.loop.cycle import latency_fact
from penstock.ports import KnowledgeStore
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.stored_desk import StoredDesk


def copied(store: KnowledgeStore) -> None:
    """Put a recorded run into a store."""
    memory = a_run()
    for fact in ("settings", latency_fact("counter")):
        if (value := memory.fact(fact)) is not None:
            store.set_fact(fact, value)
    for observation in memory.observations(limit=1000):
        store.add_observation(observation)
    for decision in memory.decisions(limit=1000):
        store.add_decision(decision)


class World:
    """A stored run behind the API."""

    def __init__(self, store: KnowledgeStore) -> None:
        desk = StoredDesk(store, SystemClock())
        self.service = Service([desk], Access("look", None), EventFeed())
        self.path = f"/api/v1/pipelines/{desk.facts.name}/backtests"
        self.client = TestClient(
            make_application(self.service), base_url="http://localhost", headers={"Authorization": "Bearer look"}
        )

    def ask(self, **body: Any) -> Any:
        """Ask for a backtest."""
        return self.client.post(self.path, json=body)

    def newest(self) -> Any:
        """The newest backtest."""
        return self.client.get(self.path).json()["backtests"][0]


@pytest.fixture
def world(tmp_path: Path) -> Any:
    """A run in a file."""
    store = SqliteStore(tmp_path / "k.sqlite")
    copied(store)
    made = World(store)
    yield made
    made.service.close()
    store.close()


def test_policies_are_tried_on_what_was_recorded(world: World) -> None:
    """The answer comes at once, another one has to wait, and the result has a row for each policy."""
    policies = [{"policy": "static"}, {"policy": "threshold", "options": {"upper": 0.5, "lower": 0.3}}]
    before = SystemClock().now()
    begun = world.ask(policies=policies)
    assert begun.status_code == 202, begun.text
    assert begun.json()["state"] == "running"
    assert begun.json()["started_at"] >= before  # the present, however old the run is
    second = world.ask(policies=policies)
    assert second.status_code == 409
    assert second.json()["fix"] == "wait until it is done"
    deadline = time.monotonic() + 240.0
    while (found := world.newest())["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["state"] == "done", found["detail"]
    rows = [row["policy"] for row in found["result"]["results"]]
    assert rows == ["as recorded", "static", "threshold:upper=0.5,lower=0.3"]
    assert found["result"]["measured"]["changes"] >= 0


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"policies": []}, 422, "policies"),
        ({"policies": [{"policy": "thresold"}]}, 422, "did you mean threshold"),
        ({"policies": [{"policy": "static"}], "operator": "nobody"}, 404, "nobody"),
        ({"policies": [{"policy": "elastic", "options": {"samples": "/etc/passwd"}}]}, 422, "files cannot be named"),
        ({"policies": [{"policy": "threshold", "options": {"upper=1,rules": 1}}]}, 422, "files cannot be named"),
        ({"policies": [{"policy": "rules", "options": {"rules": "/etc/passwd"}}]}, 422, "rules stand beside"),
        ({"policies": [{"policy": "threshold", "options": {"upper": [1]}}]}, 422, "give a number"),
    ],
)
def test_mistakes_are_refused_before_anything_is_started(
    world: World, body: dict[str, Any], status: int, said: str
) -> None:
    """No file of the machine can be named: who may look could read it in what is wrong with it."""
    answer = world.ask(**body)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert world.client.get(world.path).json()["backtests"] == []


def test_a_wrong_option_is_said_by_the_backtest(world: World) -> None:
    """What only the policy knows is wrong comes as the detail of a failure."""
    assert world.ask(policies=[{"policy": "threshold", "options": {"uper": 1}}]).status_code == 202
    deadline = time.monotonic() + 120.0
    while (found := world.newest())["state"] == "running":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert found["state"] == "failed"
    assert "uper" in found["detail"]


def test_a_history_that_is_in_no_file_is_left_to_the_command() -> None:
    """The fix names the command."""
    store = MemoryStore()
    copied(store)
    answer = World(store).ask(policies=[{"policy": "static"}])
    assert answer.status_code == 409
    assert "penstock backtest" in answer.json()["fix"]
