# SPDX-License-Identifier: Apache-2.0
"""The HTTP API over a loop under a virtual clock: what it shows, what it orders, and what it refuses."""

import asyncio
import itertools
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import anyio.to_thread
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.loop.steered_loop import LIMITS, Steered, ToyPolicy, grows

from penstock.clock import VirtualClock
from penstock.errors import ActuationError, AdaptorError
from penstock.loop import CycleReport
from penstock.metrics import METRICS
from penstock.records import Action, Allocation
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.events import EventFeed
from penstock.service.facts import facts_of
from penstock.service.gate import Rate
from penstock.service.live_desk import LiveDesk
from penstock.service.machine_routes import _lines
from penstock.service.picture import observation_view
from penstock.service.server import LOOPBACK_NAMES
from penstock.service.stored_desk import StoredDesk
from penstock.settings import parse_settings

PLAIN: dict[str, Any] = {
    "name": "toys",
    "arrivals": {"shape": "constant:rate=5,duration=5s"},
    "operators": [{"name": name, "app": "a:b", "executors": [1, 4], "cpu_shares": [0.5, 1.0]} for name in ("a", "b")],
    "objective": {"p95": "2s"},
    "policy": {"name": "threshold"},
}
SETTINGS = parse_settings(PLAIN)
ACCESS = Access("look", "steer")
SIZE = {"operator": "a", "executors": 2, "for_seconds": 60}


def nested(depth: int) -> list[Any]:
    """Lists in lists."""
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


class World:
    """A steered loop with its desk and a client for each role."""

    def __init__(
        self, rate: Rate | None = None, prices: dict[str, Any] | None = None, guesses: Rate | None = None
    ) -> None:
        self.loop = Steered(ToyPolicy(grows), names=("a", "b"))
        self.feed = EventFeed()
        priced = SETTINGS if prices is None else parse_settings({**PLAIN, "prices": prices})
        facts = facts_of(priced, started_at=1000.0)
        self.desk = LiveDesk(facts, self.loop.helm, self.loop.store, clock=self.loop.clock, feed=self.feed)
        self.loop.on_report = self.desk.report
        roomy = rate or Rate(per_second=1e9, at_once=1e9)
        hosts = {*LOOPBACK_NAMES, "testserver"}  # what fuzzed requests call it
        self.service = Service([self.desk], ACCESS, self.feed, wrong_tokens=guesses)
        self.app = make_application(self.service, rate=roomy, hosts=hosts)

    def client(self, token: str | None = "steer", base: str = "http://127.0.0.1:7077") -> TestClient:
        """One who has that token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return TestClient(self.app, base_url=base, headers=headers, raise_server_exceptions=False)

    def order(self, what: str, **body: Any) -> Any:
        """Steer, which must be accepted."""
        answer = self.client().post(f"/api/v1/pipelines/toys/{what}", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def world() -> Iterator[World]:
    """A world in which some passes have been."""
    made = World()
    made.loop.clock.advance(0.0)
    yield made
    made.feed.close()


def look(world: World, path: str, **query: Any) -> Any:
    """Read, which must be allowed with the token for reading."""
    answer = world.client("look").get(f"/api/v1/{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_pipeline_is_shown_before_the_first_look(world: World) -> None:
    """What is not known is null, and the sentence says that nothing was seen."""
    shown = look(world, "pipelines/toys")
    first = shown["operators"][0]
    assert first["observed"] is None
    assert first["quality"] is None
    assert first["why"] == "nothing was seen of it yet"
    assert [m["name"] for m in first["metrics"]] == list(METRICS)
    assert all(m["value"] is None for m in first["metrics"])


def test_who_asks_is_looked_at_without_another_thread(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what the query says: every hand-over to a thread costs time, and waits for its turn beside the agents."""
    handed_over: list[str] = []
    run_sync = anyio.to_thread.run_sync

    async def counted(call: Any, *given: Any, **named: Any) -> Any:
        handed_over.append(getattr(call, "func", call).__name__)
        return await run_sync(call, *given, **named)

    monkeypatch.setattr(anyio.to_thread, "run_sync", counted)
    look(world, "pipelines")
    assert handed_over  # the answer itself may have to read a store
    assert not {"may_read", "only_known_query"} & set(handed_over)


def test_a_pipeline_is_shown_whole(world: World) -> None:
    """Limits, sizes, metrics with units and ages, objective, policy, streams and the orders in force."""
    world.loop.script[1004.0] = lambda: world.order("pause", operator="b", reason="deploying", by="ana")
    world.loop.run(1008.0)
    shown = look(world, "pipelines/toys")
    a, b = shown["operators"]
    assert a["limits"]["max_executors"] == 4
    assert a["limits"]["cpu_shares"] == [0.5, 1.0]
    assert a["original"]["executors"] == 2
    assert a["planned"]["executors"] == a["requested"]["executors"] == a["observed"]["executors"] == 4
    assert a["age_seconds"] == 1.0
    assert {m["unit"] for m in a["metrics"] if m["name"] == "executors"} == {"executors"}
    assert [m["value"] for m in a["metrics"] if m["name"] == "executors"] == [4]
    assert b["steering"]["paused"]["by"] == "ana"
    assert b["why"].startswith("paused by ana since ")
    assert shown["paths"][0]["objective"]["text"] == "p95 <= 2.00 s"
    assert {(s["source"], s["target"]) for s in shown["streams"]} == {("arrivals", "a"), ("arrivals", "b")}
    listed = look(world, "pipelines")
    assert listed["role"] == "read"
    assert listed["pipelines"][0]["is_steered"] is True
    json.dumps(shown, allow_nan=False)


def test_cost_is_shown_with_prices_and_nowhere_without(world: World) -> None:
    """What observations add up to by hand, in the picture and for Prometheus; without prices null, and no sample."""
    priced = World(prices={"executor_hour": 3600.0, "currency": "EUR"})
    for one in (world, priced):
        one.loop.clock.advance(0.0)
        one.loop.run(1010.0)
    looks = priced.loop.store.observations("a")
    paid = sum(
        (after.at - before.at) * after.cluster.observed.executors
        for before, after in itertools.pairwise(looks)
        if after.cluster.observed is not None
    )
    shown = look(priced, "pipelines/toys")
    a, b = (operator["cost"] for operator in shown["operators"])
    assert a["amount"] == pytest.approx(paid)
    assert a["static"] == pytest.approx(4 * (looks[-1].at - looks[0].at))
    assert a["currency"] == "EUR"
    assert shown["cost"]["amount"] == pytest.approx(a["amount"] + b["amount"])
    assert shown["cost"]["saved"] == pytest.approx(shown["cost"]["static"] - shown["cost"]["amount"])
    lines = priced.client("look").get("/metrics").text.splitlines()
    sample = 'penstock_cost_total{currency="EUR",operator="a",pipeline="toys"} '
    assert [float(one.removeprefix(sample)) for one in lines if one.startswith(sample)] == [pytest.approx(paid)]
    free = look(world, "pipelines/toys")
    assert free["cost"] is None
    assert free["operators"][0]["cost"] is None
    samples = world.client("look").get("/metrics").text.splitlines()
    assert not [one for one in samples if one.startswith("penstock_cost_total{")]


def test_decisions_come_in_pages_with_their_outcomes(world: World) -> None:
    """Newest first, each with reason and outcome; `next_before` leads to the older ones until there are no more."""
    world.loop.run(1010.0)
    seen: list[Any] = []
    before: float | None = None
    for _ in range(20):
        page = look(
            world, "pipelines/toys/decisions", operator="a", limit=3, **({} if before is None else {"before": before})
        )
        seen += page["decisions"]
        before = page["next_before"]
        if before is None:
            break
    assert [d["at"] for d in seen] == sorted((d["at"] for d in seen), reverse=True)
    assert len(seen) == len(world.loop.store.decisions("a"))
    changes = [d for d in seen if d["is_change"]]
    assert [d["target"]["executors"] for d in reversed(changes)] == [3, 4]
    assert changes[-1]["outcome"]["status"] == "done"
    assert look(world, "pipelines/toys/decisions", changes_only=True)["decisions"][0]["is_change"]


def test_series_keep_the_extremes_and_know_gaps(world: World) -> None:
    """Each bucket has the least and most that the store has for it; without a look there is null."""
    world.loop.run(1010.0)
    shown = look(
        world,
        "pipelines/toys/series",
        operator="a",
        metrics="executors,queue_length",
        **{"from": 996.0, "to": 1012.0},
        points=4,
    )
    executors, queue = shown["series"]
    assert shown["bucket_at"] == [996.0, 1000.0, 1004.0, 1008.0]
    seen = [(o.at, o.cluster.observed.executors) for o in world.loop.store.observations("a") if o.cluster.observed]
    for i, start in enumerate(shown["bucket_at"]):
        inside = [value for at, value in seen if start <= at < start + 4.0]
        assert executors["min"][i] == (min(inside) if inside else None)
        assert executors["max"][i] == (max(inside) if inside else None)
    assert executors["mean"][0] is None
    assert queue["mean"] == [None] * 4
    assert queue["predicted"] is None
    assert [d["verb"] for d in shown["decisions"]] == ["scale out", "scale out"]


def test_every_order_is_obeyed_and_in_the_audit(world: World) -> None:
    """Pause, mode, size, policy, roll-back, reset and resume: each has an entry with who, why, before and after."""
    world.order("pause", operator="a", reason="r1", by="ana")
    world.order("mode", mode="scale-in-only", reason="r2")
    world.order("size", operator="b", executors=3, for_seconds=60.0, by="bob")
    answer = world.client().put("/api/v1/pipelines/toys/policy", json={"policy": "fixed", "reason": "r3"})
    assert answer.status_code == 200
    assert answer.json()["previous_policy"]["name"] == "threshold"
    world.order("policy/rollback")
    world.order("reset")
    world.order("resume", operator="b")
    entries = list(reversed(look(world, "pipelines/toys/audit")["entries"]))
    assert [e["action"] for e in entries] == [
        "pause", "mode", "size", "policy", "policy rollback", "reset", "resume"
    ]  # fmt: skip
    assert [e["by"] for e in entries[:3]] == ["ana", "operate", "bob"]
    assert entries[0]["before"] == {"a": {"paused": None}}
    assert entries[0]["after"]["a"]["paused"]["reason"] == "r1"
    assert all(e["text"] for e in entries)
    assert len(look(world, "pipelines/toys/audit", operator="a")["entries"]) == 5
    world.loop.run(1005.0)
    assert world.loop.operators["a"].asked == []


def test_a_dry_run_says_what_would_be_decided_and_changes_nothing(world: World) -> None:
    """The decision is there; policy, audit and what was asked for are as before."""
    answers: list[Any] = []

    def ask() -> None:
        body = {"policy": "toy", "dry_run": True}
        answers.append(world.client().put("/api/v1/pipelines/toys/policy", json=body).json())

    world.order("pause")
    world.loop.script[1005.0] = ask
    world.loop.run(1008.0)
    assert [d["target"]["executors"] for d in answers[0]["would_decide"]] == [LIMITS.max_executors] * 2
    assert answers[0]["audit"] is None
    assert look(world, "pipelines/toys")["policy"]["name"] == "threshold"
    assert [e["action"] for e in look(world, "pipelines/toys/audit")["entries"]] == ["pause"]
    assert world.loop.operators["a"].asked == []


@pytest.mark.parametrize(
    ("method", "order", "body", "would_be"),
    [
        ("POST", "pause", {"operator": "b", "by": "ana"}, lambda steering: steering["b"]["paused"]["by"] == "ana"),
        ("POST", "resume", {"operator": "a"}, lambda steering: steering["a"]["paused"] is None),
        ("POST", "mode", {"mode": "recommend"}, lambda steering: steering["b"]["mode"] == "recommend"),
        ("POST", "size", SIZE, lambda steering: steering["a"]["held_size"]["size"]["executors"] == 2),
        ("POST", "reset", {}, lambda steering: steering["a"]["paused"] is not None),
        ("POST", "policy/rollback", {}, lambda steering: steering["a"]["paused"] is not None),
        ("PUT", "policy", {"policy": "fixed"}, lambda steering: steering["a"]["paused"] is not None),
    ],
)
def test_every_order_can_be_tried(
    world: World, method: str, order: str, body: dict[str, Any], would_be: Callable[[Any], bool]
) -> None:
    """The answer has what would be in force and no entry; what is in force, the audit and what was learnt stay."""
    world.order("pause", operator="a")
    world.client().put("/api/v1/pipelines/toys/policy", json={"policy": "fixed"})
    world.loop.store.set_fact("policy notes", '{"a": "learnt"}')
    before = look(world, "pipelines/toys"), look(world, "pipelines/toys/audit")
    answer = world.client().request(method, f"/api/v1/pipelines/toys/{order}", json={**body, "dry_run": True})
    assert answer.status_code == 200, answer.text
    assert answer.json()["dry_run"] is True
    assert answer.json()["audit"] is None
    assert would_be(answer.json()["steering"])
    if order == "policy/rollback":
        assert answer.json()["policy"]["name"] == "threshold"
        assert "would_decide" in answer.json()
    assert (look(world, "pipelines/toys"), look(world, "pipelines/toys/audit")) == before
    assert world.loop.store.fact("policy notes") == '{"a": "learnt"}'
    wrong = world.client().request(method, f"/api/v1/pipelines/toys/{order}", json={"dry_run": True, "operatr": "a"})
    assert wrong.status_code == 422


def test_a_reset_that_cannot_be_written_down_leaves_what_was_learnt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is in force that is not in the audit."""
    world.loop.store.set_fact("policy notes", '{"a": "learnt"}')

    def full(entry: object) -> None:
        raise AdaptorError(f"no room for {entry}", target="store")

    monkeypatch.setattr(world.loop.store, "add_audit", full)
    assert world.client().post("/api/v1/pipelines/toys/reset", json={}).status_code == 503
    assert world.loop.store.fact("policy notes") == '{"a": "learnt"}'
    monkeypatch.undo()
    assert world.client().post("/api/v1/pipelines/toys/reset", json={}).status_code == 200
    assert world.loop.store.fact("policy notes") == "{}"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "pipelines/other/pause", {}, 404, "there is no pipeline 'other'"),
        ("POST", "pipelines/toys/pause", {"operator": "c"}, 404, "no operator 'c'"),
        ("POST", "pipelines/toys/pause", {"operatr": "a"}, 422, "operatr"),
        ("POST", "pipelines/toys/pause", {"reason": "x" * 501}, 422, "reason"),
        ("POST", "pipelines/toys/mode", {"mode": "sideways"}, 422, "mode"),
        ("POST", "pipelines/toys/size", {"operator": "a", "executors": 5, "for_seconds": 60}, 422, "1 to 4 executors"),
        ("POST", "pipelines/toys/size", {**SIZE, "cpu_share": 0.7}, 422, "0.5, 1"),
        ("POST", "pipelines/toys/size", {"operator": "a", "executors": 2, "for_seconds": 0}, 422, "for_seconds"),
        ("POST", "pipelines/toys/size", {"executors": 2, "for_seconds": 9}, 422, "name the one"),
        ("POST", "pipelines/toys/size", {**SIZE, "executors": True}, 422, "executors: Input should be a valid integer"),
        ("POST", "pipelines/toys/size", {**SIZE, "for_seconds": True}, 422, "for_seconds: Input should be"),
        ("POST", "pipelines/toys/pause", {"dry_run": "perhaps not"}, 422, "dry_run: Input should be a valid boolean"),
        ("PUT", "pipelines/toys/policy", {"policy": "fixed", "options": {"a": nested(500)}}, 422, "options: they nest"),
        ("POST", "pipelines/toys/reset", {"operator": "a"}, 422, "leave operator out"),
        ("PUT", "pipelines/toys/policy", {"policy": "meed"}, 422, "did you mean mead"),
        ("PUT", "pipelines/toys/policy", {"policy": "threshold", "options": {"uper": 1}}, 422, "uper"),
        ("PUT", "pipelines/toys/policy", {}, 422, "policy: is missing"),
        ("PUT", "pipelines/toys/policy", {"rules": "os:system"}, 422, "begins with no rule"),
        ("PUT", "pipelines/toys/policy", {"rules": "/etc/passwd.rules"}, 422, "begins with no rule"),
        ("PUT", "pipelines/toys/policy", {"policy": "rules", "options": {"rules": "os:system"}}, 422, "beside"),
        ("PUT", "pipelines/toys/policy", {"policy": "fixed", "options": {"password": "x"}}, 422, "secret"),
        ("POST", "pipelines/toys/policy/rollback", {}, 409, "nothing to roll back"),
        ("GET", "pipelines/toys/series?operator=a&metrics=latency_p59", None, 422, "latency_p95"),
        ("GET", "pipelines/toys/series?operator=a&from=5&to=4", None, 422, "before"),
        ("GET", "pipelines/toys/series?operator=a&points=100000", None, 422, "points"),
        ("GET", "pipelines/toys/decisions?limit=100000", None, 422, "limit"),
        ("GET", "events?pipelines=toys", None, 422, "pipelines: is no part"),
        ("GET", "events?pipeline=toy", None, 404, "no pipeline 'toy'"),
        ("GET", "events?pipeline=", None, 404, "no pipeline"),
        ("GET", "events?pipeline=toys&pipeline=toys", None, 422, "more than once"),
        ("GET", "events?after=3", None, 422, "after: is no part"),
        ("GET", "agents?name=x", None, 422, "name: is no part"),
        ("DELETE", "pipelines/toys", None, 405, "Not Allowed"),
        ("GET", "nothing", None, 404, "Not Found"),
    ],
)  # fmt: skip
def test_what_is_wrong_gets_a_clear_problem_and_changes_nothing(
    world: World, *, method: str, path: str, body: dict[str, Any] | None, status: int, says: str
) -> None:
    """The answer is a problem document with what to do; nothing is ordered and nothing is in the audit."""
    answer = world.client().request(method, f"/api/v1/{path}", json=body)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert says in problem["detail"]
    assert problem["status"] == status
    assert problem["fix"]
    assert problem["instance"].startswith("/api/v1/")
    assert world.loop.store.audit() == []
    assert not any(orders.is_steered for orders in world.loop.helm.state.operators.values())


@pytest.mark.parametrize(
    ("token", "method", "path", "status"),
    [
        (None, "GET", "/api/v1/pipelines", 401),
        ("wrong", "GET", "/api/v1/pipelines", 401),
        ("", "GET", "/api/v1/pipelines", 401),
        ("wrong", "POST", "/api/v1/pipelines/toys/pause", 401),
        ("look", "POST", "/api/v1/pipelines/toys/pause", 403),
        ("look", "PUT", "/api/v1/pipelines/toys/policy", 403),
        (None, "GET", "/metrics", 401),
        (None, "GET", "/api/v1/events", 401),
        (None, "GET", "/healthz", 200),
        (None, "GET", "/openapi.json", 200),
    ],
)
def test_a_token_is_needed_and_one_that_looks_does_not_steer(
    world: World, token: str | None, method: str, path: str, status: int
) -> None:
    """Without the right token nothing is shown and nothing is ordered."""
    body = {"policy": "fixed"} if method == "PUT" else {} if method == "POST" else None
    answer = world.client(token).request(method, path, json=body)
    assert answer.status_code == status, answer.text
    assert world.loop.store.audit() == []


def test_wrong_tokens_are_slowed_down(world: World) -> None:
    """Who guesses is refused before long; who has the token is not."""
    world.app.state.service = Service([world.desk], ACCESS, world.feed, wrong_tokens=Rate(1.0, 20.0, lambda: 0.0))
    client = world.client("wrong")
    answers = [client.get("/api/v1/pipelines").status_code for _ in range(30)]
    assert answers[0] == 401
    assert answers[-1] == 429
    assert look(world, "pipelines")


@pytest.mark.parametrize(
    ("base", "headers", "status"),
    [
        ("http://localhost:9", {}, 200),
        ("http://[::1]:9", {}, 200),
        ("http://evil.example", {}, 421),
        ("http://127.0.0.1.evil.example:7077", {}, 421),
        ("http://127.0.0.1:7077", {"Origin": "http://evil.example"}, 403),
        ("http://127.0.0.1:7077", {"Origin": "null"}, 403),
        ("http://127.0.0.1:7077", {"Origin": "http://["}, 403),
        ("http://127.0.0.1:7077", {"Origin": "http://127.0.0.1:8080"}, 403),
        ("http://127.0.0.1:7077", {"Origin": "http://127.0.0.1:7077"}, 200),
    ],
)
def test_pages_elsewhere_do_not_get_in(world: World, base: str, headers: dict[str, str], status: int) -> None:
    """Another name for this address, or another origin, is refused even with the token."""
    answer = world.client(base=base).post("/api/v1/pipelines/toys/pause", json={}, headers=headers)
    assert answer.status_code == status, answer.text
    assert bool(world.loop.store.audit()) is (status == 200)


def test_a_body_that_is_too_large_is_refused(world: World) -> None:
    """Also one that does not say how long it is."""
    client, path = world.client(), "/api/v1/pipelines/toys/pause"
    large = json.dumps({"reason": "x" * 100_000}).encode()
    json_type = {"Content-Type": "application/json"}
    assert client.post(path, content=large, headers=json_type).status_code == 413
    answer = client.post(path, content=iter([large]), headers=json_type)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert client.post(path, content=b"{}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.post(path, content=iter([b"{}"]), headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.post(path, content=b"{", headers=json_type).status_code == 422
    assert world.loop.store.audit() == []


def test_too_many_requests_are_refused() -> None:
    """With a rate of one, the second gets 429 and when to come back."""
    world = World(Rate(per_second=1.0, at_once=1.0, monotonic=lambda: 0.0))
    client = world.client()
    assert client.get("/api/v1/policies").status_code == 200
    answer = client.get("/api/v1/policies")
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "1"


def test_those_without_a_token_keep_nobody_out() -> None:
    """They have a rate of their own; and who asks whether the service is there always learns it."""
    world = World(Rate(per_second=1.0, at_once=2.0, monotonic=lambda: 0.0))
    stranger = world.client(None)
    assert [stranger.get("/api/v1/policies").status_code for _ in range(3)] == [401, 401, 429]
    assert [stranger.get("/healthz").status_code for _ in range(3)] == [200, 200, 200]
    assert world.client("look").get("/api/v1/policies").status_code == 200


def test_an_order_that_cannot_be_written_down_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is 503, and nothing is in force."""

    def full(entry: object) -> None:
        raise AdaptorError("the disk is full")

    monkeypatch.setattr(world.loop.store, "add_audit", full)
    answer = world.client().post("/api/v1/pipelines/toys/pause", json={})
    assert answer.status_code == 503
    assert "the disk is full" in answer.json()["detail"]
    assert world.loop.helm.state.of("a").paused is None


def test_a_defect_is_a_problem_that_says_nothing_about_the_inside(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails unexpectedly gives 500 without its text, and the loop does not notice."""

    def broken(operator: str) -> None:
        raise RuntimeError("/secret/path")

    monkeypatch.setattr(world.desk, "original", broken)
    answer = world.client().get("/api/v1/pipelines/toys")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "secret" not in answer.text
    world.loop.run(1003.0)
    assert world.loop.runner.faults == 0


def test_prometheus_finds_units_in_names_and_nothing_that_is_not_known(world: World) -> None:
    """Gauges have bounded labels; an unknown metric has no sample."""
    world.loop.run(1005.0)
    answer = world.client("look").get("/metrics")
    assert answer.status_code == 200
    lines = answer.text.splitlines()
    assert 'penstock_executors{operator="a",pipeline="toys"} 4.0' in lines
    assert any(line.startswith('penstock_cpu_utilisation_ratio{operator="a",pipeline="toys"}') for line in lines)
    assert not any(line.startswith("penstock_queue_length_records{") for line in lines)
    assert 'penstock_steered{operator="b",pipeline="toys"} 0.0' in lines


def test_it_is_ready_after_the_first_look_until_the_end(world: World) -> None:
    """Before and after it is 503, with the reason."""
    client = world.client(None)
    assert client.get("/readyz").status_code == 503
    world.loop.run(1002.0)
    assert client.get("/readyz").json() == {"status": "ready"}
    world.desk.end()
    assert "has ended" in client.get("/readyz").json()["detail"]
    answer = world.client().post("/api/v1/pipelines/toys/pause", json={})
    assert answer.status_code == 409


async def _read(world: World, after: int | None) -> list[tuple[str, Any]]:
    listener = world.feed.listen("toys", after)
    assert listener is not None
    world.loop.script[1002.0] = lambda: world.loop.helm.pause("a", by="ana")
    await asyncio.get_running_loop().run_in_executor(None, world.loop.run, 1004.0)
    world.desk.fault("a", "its driver is away")
    world.feed.close()
    found: list[tuple[str, Any]] = []
    async for text in _lines(world.feed, listener):
        fields = dict(line.partition(": ")[::2] for line in text.splitlines() if line)
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_events_arrive() -> None:
    """Observations, decisions, outcomes, orders and faults come in their order, and then the end."""
    world = World()
    found = asyncio.run(_read(world, None))
    kinds = [kind for kind, _ in found]
    assert kinds.count("observation") == 8
    assert {"decision", "outcome", "audit", "fault"} <= set(kinds)
    assert kinds[-1] == "end"
    audit = next(data for kind, data in found if kind == "audit")
    assert audit["steering"]["a"]["paused"]["by"] == "ana"
    changes = [d["decision"]["decision_id"] for kind, d in found if kind == "decision" and d["decision"]["is_change"]]
    assert {data["decision_id"] for kind, data in found if kind == "outcome"} <= set(changes)


def test_a_slow_client_loses_events_and_the_loop_does_not_wait() -> None:
    """The oldest go, and the client is informed of how many."""
    world = World()

    async def read() -> list[str]:
        listener = world.feed.listen()
        assert listener is not None
        for i in range(1000):
            world.feed.publish("toys", "phase", lambda i=i: {"i": i})  # type: ignore[misc]
        world.feed.close()
        return [text async for text in _lines(world.feed, listener)]

    texts = asyncio.run(read())
    assert json.loads(texts[1].splitlines()[1].removeprefix("data: ")) == {"count": 800}
    assert '"i": 999' in texts[-2]


def test_an_event_that_cannot_be_shown_does_not_end_the_stream() -> None:
    """Those after it come; the phase of a run is an event when it changes, not at every pass."""
    world = World()

    def broken() -> dict[str, Any]:
        raise KeyError("x")

    async def read() -> list[str]:
        listener = world.feed.listen()
        assert listener is not None
        world.feed.publish("toys", "fault", broken)
        for fraction in (0.1, 0.1001, None, None, 0.2):
            world.desk.phase("running", fraction)
        world.desk.end()
        world.feed.close()
        return [text.splitlines()[1] for text in [text async for text in _lines(world.feed, listener)][1:-1]]

    assert asyncio.run(read()) == ["event: phase"] * 4


def test_a_client_that_comes_back_gets_what_it_missed() -> None:
    """Events after the last id are sent again, as far as they are remembered."""
    world = World()

    async def read() -> list[str]:
        for i in range(10):
            world.feed.publish("toys", "phase", lambda i=i: {"i": i})  # type: ignore[misc]
        listener = world.feed.listen(None, 7)
        assert listener is not None
        world.feed.close()
        return [text.splitlines()[0] async for text in _lines(world.feed, listener)]

    assert asyncio.run(read())[1:4] == ["id: 8", "id: 9", "id: 10"]


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "nonsense", "\xb2"])
def test_an_id_that_no_event_has_is_passed_over(world: World, number: str) -> None:
    """Whatever a client says that it has seen, it gets what comes."""
    world.feed.close()
    answer = world.client().get("/api/v1/events", headers={b"Last-Event-ID": number.encode("latin-1")})
    assert answer.status_code == 200, answer.text
    assert "event: end" in answer.text


def test_a_stored_run_is_shown_and_cannot_be_steered(world: World) -> None:
    """The same answers come from its store alone; an order is refused with 409."""
    world.order("pause", operator="b", by="ana")
    world.loop.run(1006.0)
    store = world.loop.store
    store.set_fact("settings", SETTINGS.model_dump_json())
    store.set_fact("started_at", "1000.0")
    live = look(world, "pipelines/toys")
    kept = StoredDesk(store, VirtualClock(9e9), name="kept")
    world.app = make_application(Service([kept], ACCESS, world.feed))
    shown = look(world, "pipelines/kept")
    assert shown["is_live"] is shown["can_steer"] is False
    for stored, seen in zip(shown["operators"], live["operators"], strict=True):
        for part in ("limits", "objective", "original", "planned", "observed", "steering", "quality"):
            assert stored[part] == seen[part], part
    assert shown["operators"][0]["age_seconds"] == 0.0
    assert look(world, "pipelines/kept/decisions")["decisions"]
    answer = world.client().post("/api/v1/pipelines/kept/pause", json={})
    assert answer.status_code == 409
    assert "stored run" in answer.json()["detail"]
    assert len(store.audit()) == 1


def test_a_held_size_is_shown_with_its_end(world: World) -> None:
    """The page can say until when it is held, and by whom."""
    answer = world.order("size", operator="a", executors=3, for_seconds=60.0, by="ana", reason="load test")
    held = answer["steering"]["a"]["held_size"]
    assert held["size"]["executors"] == 3
    assert held["until"] == 1060.0
    assert held["order"]["by"] == "ana"
    world.loop.run(1003.0)
    assert world.loop.operators["a"].allocation == Allocation(3, 1.0)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    [
        "operator",
        "reason",
        "by",
        "mode",
        "executors",
        "cpu_share",
        "for_seconds",
        "policy",
        "options",
        "rules",
        "dry_run",
    ]
)
VALUES = JSON | st.sampled_from(["a", "b", "recommend", "scale-in-only", "fixed", "rules", "threshold", 1, 2, 0.5, 60])
BODIES = st.dictionaries(FIELDS, VALUES, max_size=5) | JSON


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["POST", "PUT"]),
    st.sampled_from(["pause", "resume", "mode", "size", "reset", "policy", "policy/rollback"]),
    BODIES,
)
def test_whatever_is_sent_is_answered(world: World, method: str, what: str, body: Any) -> None:
    """No body is a defect: it is obeyed, or refused with a problem, and what is in force stays within the limits."""
    before = len(world.loop.store.audit())
    answer = world.client().request(
        method,
        f"/api/v1/pipelines/toys/{what}",
        content=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]
        assert len(world.loop.store.audit()) == before
    for orders in world.loop.helm.state.operators.values():
        assert orders.held is None or LIMITS.allows(orders.held.size)


def test_a_change_that_fails_is_said_where_people_look(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the picture, in the list and in events; also by a desk that is made later, as after a takeover."""

    def refuse(action: Action) -> None:
        raise ActuationError("the cluster has no free cores", target=action.operator)

    monkeypatch.setattr(world.loop.operators["a"], "request", refuse)
    world.loop.run(1008.0)
    a = look(world, "pipelines/toys")["operators"][0]
    assert "failed" in a["why"]
    assert a["why"].endswith("the cluster has no free cores; next the policy decides from 2 executors x 100% CPU, "
                             "which is there")  # fmt: skip
    assert "the cluster has no free cores" in look(world, "pipelines")["pipelines"][0]["why"]
    facts = facts_of(SETTINGS, started_at=1000.0)
    later = LiveDesk(facts, world.loop.helm, world.loop.store, clock=world.loop.clock, feed=EventFeed())
    assert str(later.failed("a")) in a["why"]
    assert later.failed("b") is None


def test_metrics_of_the_users_own_are_shown_where_all_are(world: World) -> None:
    """In the picture, in events, in series and for Prometheus; one that is not known now has no sample there."""
    world.loop.run(1004.0)
    seen = world.desk.seen("a")
    assert seen is not None
    own = replace(seen, at=1004.0, metrics={"own_sessions": 12.0, "own_carts": None, "own_broken": math.inf})
    world.loop.store.add_observation(replace(own, metrics={"own_sessions": 12.0}))
    world.desk.report(CycleReport(own))
    shown = {m["name"]: m for m in look(world, "pipelines/toys")["operators"][0]["metrics"]}
    assert (shown["own_sessions"]["value"], shown["own_carts"]["value"], shown["own_broken"]["value"]) == (
        12,
        None,
        None,
    )
    assert list(shown)[: len(METRICS)] == list(METRICS)
    assert observation_view(world.desk, own)["metrics"]["own_sessions"] == 12.0
    series = look(world, "pipelines/toys/series", operator="a", metrics="own_sessions", points=2)["series"][0]
    assert max(value for value in series["max"] if value is not None) == 12.0
    samples = world.client("look").get("/metrics").text
    assert 'penstock_own_metric{metric="own_sessions",operator="a",pipeline="toys"} 12.0' in samples
    assert "own_carts" not in samples
    assert "own_broken" not in samples
