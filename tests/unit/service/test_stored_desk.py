# SPDX-License-Identifier: Apache-2.0
"""A stored run of some minutes, looked at over HTTP."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from penstock.clock import SystemClock, VirtualClock
from penstock.errors import ConfigurationError
from penstock.knowledge import MemoryStore, SqliteStore
from penstock.records import Prediction, WorkloadEstimate
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.stored_desk import StoredDesk
from penstock.testing import a_decision
from penstock.testing.synthetic_run import START, fill_store

NAME = "log-analysis"


def client_of(store: MemoryStore | SqliteStore) -> TestClient:
    """One who may look at the run in a store."""
    service = Service([StoredDesk(store, SystemClock())], Access("look", None), EventFeed())
    headers = {"Authorization": "Bearer look"}
    return TestClient(make_application(service), base_url="http://localhost", headers=headers)


def test_a_run_on_disk_is_shown(tmp_path: Path) -> None:
    """Series, decisions and the picture come from the file; peaks are those of the records."""
    path = tmp_path / "knowledge.sqlite"
    store = SqliteStore(path)
    fill_store(store, NAME)
    store.close()
    kept = SqliteStore.open_readonly(path)
    client = client_of(kept)
    shown = client.get("/api/v1/pipelines/synthetic").json()
    operator = shown["operators"][0]
    assert operator["age_seconds"] == 0.0
    assert operator["limits"]["max_executors"] == 2
    assert operator["original"]["cpu_share"] == 0.4
    query: dict[str, Any] = {"operator": NAME, "metrics": "latency_p95,arrival_rate", "points": 10}
    series = client.get("/api/v1/pipelines/synthetic/series", params={**query, "from": START, "to": START + 240}).json()
    seen = [o.latency.p95_seconds for o in kept.observations(NAME) if o.latency is not None]
    assert max(v for v in series["series"][0]["max"] if v is not None) == max(seen)
    assert min(v for v in series["series"][0]["min"] if v is not None) == min(seen)
    decisions = client.get("/api/v1/pipelines/synthetic/decisions", params={"changes_only": True}).json()["decisions"]
    assert {d["outcome"]["status"] for d in decisions if d["outcome"] is not None} >= {"done"}
    assert client.get("/readyz").status_code == 200
    kept.close()


@pytest.mark.parametrize(
    ("method", "order", "body"),
    [
        ("POST", "pause", {}),
        ("POST", "resume", {}),
        ("POST", "mode", {"mode": "recommend"}),
        ("POST", "size", {"executors": 1, "for_seconds": 60}),
        ("POST", "reset", {}),
        ("PUT", "policy", {"policy": "threshold", "dry_run": True}),
        ("POST", "policy/rollback", {}),
    ],
)
def test_orders_to_a_stored_run_are_a_conflict_whoever_gives_them(
    method: str, order: str, body: dict[str, Any]
) -> None:
    """There is no token that would help: the fix says where to steer. Without a token nothing is said."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=20)
    client = client_of(store)
    path = f"/api/v1/pipelines/synthetic/{order}"
    answer = client.request(method, path, json=body)
    assert answer.status_code == 409, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["detail"].startswith("a stored run cannot be steered")
    assert "start it again with a page" in answer.json()["fix"]
    assert client.request(method, path, json=body, headers={"Authorization": ""}).status_code == 401
    assert client.request(method, path.replace("synthetic", "other"), json=body).status_code == 404
    assert store.audit() == []


def test_an_order_to_a_run_that_goes_on_elsewhere_says_where_to_steer() -> None:
    """Through the service of the process that runs it."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=20)
    newest = max(one.at for one in store.observations())
    service = Service([StoredDesk(store, VirtualClock(newest + 1.0))], Access("look", None), EventFeed())
    client = TestClient(make_application(service), base_url="http://localhost")
    answer = client.post("/api/v1/pipelines/synthetic/pause", json={}, headers={"Authorization": "Bearer look"})
    assert answer.status_code == 409
    assert "it goes on in another process" in answer.json()["fix"]


def test_a_stored_run_is_priced_once_however_often_it_is_read() -> None:
    """Each look counts once, and what came since the last reading is added."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=120)
    kept = json.loads(store.fact("settings") or "null")
    store.set_fact("settings", json.dumps({**kept, "prices": {"executor_hour": 3600.0}}))
    client = client_of(store)
    first = client.get("/api/v1/pipelines/synthetic").json()["cost"]
    assert client.get("/api/v1/pipelines/synthetic").json()["cost"] == first
    seen = [one.cluster.observed is not None for one in store.observations(NAME)]
    assert first["static"] == pytest.approx(2.0 * sum(seen[1:]))  # two executors, a second for each look
    newest = store.observations(NAME)[-1]
    store.add_observation(replace(newest, at=newest.at + 10.0))
    later = client.get("/api/v1/pipelines/synthetic").json()["cost"]
    assert newest.cluster.observed is not None
    assert later["amount"] - first["amount"] == pytest.approx(10.0 * newest.cluster.observed.executors)


def test_the_cost_of_a_run_that_has_ended_is_what_it_said() -> None:
    """Nothing is counted again: the store may have forgotten the beginning. What it says of a part only is counted."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=20)
    kept = json.loads(store.fact("settings") or "null")
    store.set_fact("settings", json.dumps({**kept, "prices": {"executor_hour": 3600.0, "currency": "EUR"}}))
    cost = {"amount": 7.0, "static": 10.0, "saved": 3.0, "saved_fraction": 0.3, "currency": "EUR"}
    ended = START + 20.0
    store.set_fact("summary", json.dumps({"ended_at": ended, "operators": {NAME: {"cost": cost}}}))
    assert client_of(store).get("/api/v1/pipelines/synthetic").json()["cost"]["amount"] == 7.0
    store.set_fact("summary", json.dumps({"ended_at": ended, "operators": {}, "cost": cost}))
    assert client_of(store).get("/api/v1/pipelines/synthetic").json()["cost"]["amount"] == 7.0
    store.set_fact("summary", json.dumps({"ended_at": ended, "operators": {"other": {"cost": cost}}}))
    seen = [one.cluster.observed is not None for one in store.observations(NAME)]
    counted = client_of(store).get("/api/v1/pipelines/synthetic").json()["cost"]
    assert counted["static"] == pytest.approx(2.0 * sum(seen[1:]))


def test_predictions_stand_beside_measurements() -> None:
    """Arrivals and the path's latency as decisions expected them; an infinite one is not known."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=20)
    for at, seconds in ((START + 1.0, 2.5), (START + 2.0, float("inf"))):
        store.add_decision(
            a_decision(
                operator=NAME,
                at=at,
                workload=WorkloadEstimate(at, 900.0),
                prediction=Prediction((NAME,), seconds, 3.0, {}, {}, "x"),
            )
        )
    answer = client_of(store).get(
        "/api/v1/pipelines/synthetic/series",
        params={
            "operator": NAME,
            "metrics": "latency_p95,arrival_rate,busy",
            "from": START,
            "to": START + 4,
            "points": 4,
        },
    )
    latency, rate, busy = answer.json()["series"]
    assert latency["predicted"]["max"] == [None, 2.5, None, None]
    assert rate["predicted"]["mean"] == [None, 900.0, 900.0, None]
    assert busy["predicted"] is None


def test_an_interval_stands_beside_what_was_predicted() -> None:
    """Its ends are the least and the most that were predicted, and a decision gives all three."""
    store = MemoryStore()
    fill_store(store, NAME, seconds=20)
    told = Prediction((NAME,), 2.5, 3.0, {}, {}, "x", low_seconds=2.0, high_seconds=2.9, confidence=0.9)
    store.add_decision(a_decision(operator=NAME, at=START + 1.0, prediction=told))
    client = client_of(store)
    answer = client.get(
        "/api/v1/pipelines/synthetic/series",
        params={"operator": NAME, "metrics": "latency_p95", "from": START, "to": START + 4, "points": 4},
    )
    predicted = answer.json()["series"][0]["predicted"]
    assert (predicted["min"][1], predicted["mean"][1], predicted["max"][1]) == (2.0, 2.5, 2.9)
    decisions = client.get("/api/v1/pipelines/synthetic/decisions", params={"operator": NAME}).json()["decisions"]
    shown = next(one["prediction"] for one in decisions if one["prediction"] is not None)
    assert (shown["low_seconds"], shown["high_seconds"], shown["confidence"]) == (2.0, 2.9, 0.9)


def test_settings_of_an_attached_query_can_be_shown() -> None:
    """They are a part of a run's settings, with the start of the run among them."""
    store = MemoryStore()
    fill_store(store, "counts", seconds=10)
    kept = {
        "name": "counts",
        "mode": "recommend",
        "objective": {"p95": 2.0},
        "operators": [
            {
                "name": "counts",
                "executors": [1, 3],
                "cpu_shares": [1.0],
                "input_options": {"maxOffsetsPerTrigger": "5"},
            }
        ],
        "policy": {"name": "mine", "options": {"x": 1}},
        "guards": None,
        "query_run": "r",
        "started_at": START + 5.0,
    }
    store.set_fact("settings", json.dumps(kept))
    desk = StoredDesk(store, SystemClock())
    assert desk.facts.operators[0].limits.max_executors == 3
    assert desk.facts.started_at == START + 5.0
    assert desk.state().policy.name == "mine"


@pytest.mark.parametrize("settings", [None, "[]", "{", json.dumps({"name": "x"}), json.dumps({"operators": [1]})])
def test_a_store_without_a_run_is_refused(settings: str | None) -> None:
    """The message says that it is no run."""
    store = MemoryStore()
    if settings is not None:
        store.set_fact("settings", settings)
    with pytest.raises(ConfigurationError, match="settings of"):
        StoredDesk(store, SystemClock())
