# SPDX-License-Identifier: Apache-2.0
"""A master and agents over real connections on the loopback; the queries behind them are toys."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.toy_query import ToyQuery, start, toy_settings

from penstock.adaptors.agent.channel import AgentChannel
from penstock.adaptors.agent.handshake import answer_to, new_greeting
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.master_address import MasterAddress, master_address
from penstock.adaptors.agent.meter_agent import MeterAgent
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    REPLY_LIMIT_BYTES,
    STRANGER_LIMIT_BYTES,
    Accepted,
    Challenge,
    Introduction,
    Message,
    Refusal,
    Subscribe,
    ToAgent,
)
from penstock.arrivals import ReplayArrivals, parse_shape
from penstock.errors import ConfigurationError
from penstock.evaluation.run_reading import read_history
from penstock.ports import WatchingPolicy
from penstock.records import Observation, RunLatency, SourceProgress, Telemetry
from penstock.service import agent_port
from penstock.service.access import Access
from penstock.service.application import make_application
from penstock.service.asking import Service
from penstock.service.attached_pipeline import read_attached
from penstock.service.events import EventFeed
from penstock.service.far_operator import shifted
from penstock.service.master import Master
from penstock.service.master_stores import StoreFolder
from penstock.service.server import Site

OWN = "own_executors"


def until(is_so: Callable[[], bool], what: str = "it") -> None:
    """Wait for threads, and fail if they never get there."""
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.01)


class Stage:
    """A master, and what connects to it."""

    def __init__(self, folder: Path, **site: Any) -> None:
        self.stores = StoreFolder(folder / "masters")
        self.service = Service((), Access(), EventFeed())
        self.master = Master(Site(port=0, **site), self.stores, self.service, watch=[OWN], every_seconds=0.5)
        self.service.master = self.master
        self.ends = ExitStack()

    @property
    def address(self) -> MasterAddress:
        """Where the master is."""
        return MasterAddress((("127.0.0.1", self.master.port.port),), self.stores.token())

    def add(self, name: str = "toy", **settings: Any) -> tuple[ToyQuery, MasterLink, list[dict[str, Any]]]:
        """One more query, and what is done to it."""
        done: list[dict[str, Any]] = []
        query = ToyQuery(name, done.append, skew_seconds=settings.pop("skew_seconds", 0.0))
        agent, link = start(query, self.address, settings=toy_settings(name, **settings))
        self.ends.callback(agent.close)
        self.ends.callback(link.close)
        return query, link, done

    def dial(self) -> AgentChannel:
        """A connection that has said nothing."""
        connection = socket.create_connection(("127.0.0.1", self.master.port.port), timeout=10)
        channel = AgentChannel(connection, REPLY_LIMIT_BYTES)
        self.ends.callback(channel.close)
        return channel

    def introduce(self, name: str, settings: str = "", **changes: Any) -> tuple[AgentChannel, ToAgent | None]:
        """A connection that has introduced itself, and the answer to that."""
        channel, greeting = self.dial(), new_greeting()
        channel.send(greeting)
        challenge = channel.receive()
        assert isinstance(challenge, Challenge)
        proof = answer_to(challenge, greeting, self.stores.token())
        introduction = Introduction(proof, f"agent of {name}", name, "a host", time.time(), [], settings)
        channel.send(msgspec.structs.replace(introduction, **changes))
        return channel, channel.receive()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A master that leads."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        yield made
        made.ends.close()


def agents(stage: Stage) -> list[str]:
    """Who is connected."""
    return [agent["name"] for agent in stage.master.view()["agents"]]


def test_a_master_without_queries_says_its_time_and_what_is_awaited(stage: Stage) -> None:
    """The instant of an answer is never 0, and a name that nobody has is not answered with an empty list of names."""
    token = stage.service.access.operate_token
    client = TestClient(
        make_application(stage.service), base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}
    )
    before = time.time()
    listed = client.get("/api/v1/pipelines").json()
    assert listed["pipelines"] == []
    assert before <= listed["at"] <= time.time()
    assert client.get("/api/v1/pipelines/toy").json()["fix"].startswith("none is here yet")


def test_an_attached_query_is_scaled_and_shown(stage: Stage) -> None:
    """Its loop runs in the master; the API has its decisions and what it reports; detaching leaves its size."""
    query, link, done = stage.add()
    until(lambda: len(done) >= 2, "two actions")
    token = stage.service.access.operate_token
    client = TestClient(
        make_application(stage.service), base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}
    )
    listed = client.get("/api/v1/pipelines").json()["pipelines"]
    assert [one["name"] for one in listed] == ["toy"]
    assert client.get("/readyz").status_code == 200
    decisions = client.get("/api/v1/pipelines/toy/decisions", params={"changes_only": True}).json()["decisions"]
    assert {line["decision"] for line in done[:2]} <= {one["decision_id"] for one in decisions}

    def reported() -> dict[str, Any]:
        (agent,) = client.get("/api/v1/agents").json()["agents"]
        found: dict[str, Any] = agent["metrics"].get(OWN, {})
        return found

    until(lambda: bool(reported()), "a report")
    samples = client.get("/metrics").text
    assert "penstock_master_leading 1.0" in samples
    assert "penstock_master_agents 1.0" in samples
    assert "penstock_master_refused_connections_total 0.0" in samples
    assert reported()["age_seconds"] < 30
    watched = client.put("/api/v1/agents/watch", json={"metrics": ["utilisation", "cpu_utilisation", OWN]})
    assert watched.json()["watched"] == ["cpu_utilisation", OWN]  # by the names of today, each once
    assert client.get("/api/v1/agents").json()["watched"] == ["cpu_utilisation", OWN]
    assert client.post("/api/v1/pipelines/toy/pause", json={"reason": "a test"}).status_code == 200
    link.close("detached")
    until(lambda: "toy" not in stage.service.desks, "the end of its loop")
    assert not [line for line in done if "release" in line]
    assert query.executors >= 1


def test_the_policy_can_be_replaced_and_its_metrics_are_subscribed_to(stage: Stage) -> None:
    """Rules that name a metric of the user's own get it, at every look, although nobody else has asked for it."""
    stage.master.watch([], 5.0)
    query, _, _ = stage.add("ruled")
    until(lambda: "ruled" in stage.service.desks, "its loop")
    token = stage.service.access.operate_token
    client = TestClient(
        make_application(stage.service), base_url="http://127.0.0.1", headers={"Authorization": f"Bearer {token}"}
    )
    assert client.get("/api/v1/agents").json()["agents"][0]["subscribed"] == []
    rules = f'rule "busy":\n  scale-out ruled by 1 never above 4\n  when {OWN} above 0.5 for 1 second\n'
    until(lambda: stage.service.desks["ruled"].seen("ruled") is not None, "a look")
    answer = client.put("/api/v1/pipelines/ruled/policy", json={"rules": rules})
    assert answer.status_code == 200, answer.text
    until(lambda: query.executors == 4, "scaling by the rule")
    seen = stage.service.desks["ruled"].seen("ruled")
    assert seen is not None
    assert seen.metrics[OWN] is not None
    assert client.get("/api/v1/agents").json()["agents"][0]["subscribed"] == [OWN]


def test_a_wrong_token_is_refused_with_a_word_and_nobody_is_disturbed(stage: Stage) -> None:
    """An agent with another token learns it, in both directions, and the other agent goes on."""
    _, good, done = stage.add()
    until(lambda: bool(done), "scaling")
    wrong = replace(stage.address, token=b"another token of some length")
    link = MasterLink(MeterAgent(Meters()), wrong, "stranger").start()
    until(lambda: link.fault is not None)
    assert "does not know the token" in str(link.fault)
    link.close()
    channel, answer = stage.introduce("stranger", proof=b"x" * 32)
    assert isinstance(answer, Refusal)
    assert (answer.kind, "token is wrong" in answer.error) == ("token", True)
    assert channel.receive() is None
    assert good.connected_to is not None
    assert agents(stage) == ["toy"]


def test_another_version_is_refused_with_a_word(stage: Stage) -> None:
    """Whatever else a later version says, its first two fields are read."""
    channel = stage.dial()
    payload = msgspec.msgpack.encode(["greeting", PROTOCOL + 1, b"n" * 32, {"more": "fields"}])
    channel._connection.sendall(len(payload).to_bytes(4, "big") + payload)
    answer = channel.receive()
    assert isinstance(answer, Refusal)
    assert answer.kind == "version"
    assert f"protocol {PROTOCOL + 1} is not {PROTOCOL}" in answer.error


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"GET / HTTP/1.1\r\n\r\n", msgspec.msgpack.encode(["beat"])])
def test_malformed_frames_are_refused(stage: Stage, payload: bytes) -> None:
    """Before and after the handshake; the connection ends, and another agent is taken."""
    channel = stage.dial()
    channel._connection.sendall(len(payload).to_bytes(4, "big") + payload)
    answer = channel.receive()
    assert isinstance(answer, Refusal)
    assert answer.kind == "malformed"
    assert channel.receive() is None
    known, accepted = stage.introduce("known")
    assert isinstance(accepted, Accepted)
    known._connection.sendall(len(payload).to_bytes(4, "big") + payload)
    heard = [message for message in iter(known.receive, None) if isinstance(message, Refusal)]
    assert [one.kind for one in heard] == ["malformed"]
    until(lambda: agents(stage) == [])


def test_oversized_frames_are_refused_before_they_are_read(stage: Stage) -> None:
    """A stranger may send little; nothing of a frame that is too long is kept."""
    channel = stage.dial()
    channel._connection.sendall((STRANGER_LIMIT_BYTES + 1).to_bytes(4, "big"))
    answer = channel.receive()
    assert isinstance(answer, Refusal)
    assert answer.kind == "oversized"
    _, accepted = stage.introduce("other")
    assert isinstance(accepted, Accepted)


def test_an_agent_that_sends_without_end_is_cut_off(stage: Stage) -> None:
    """Beyond the rate that an agent may send at, its connection ends; the others are served."""
    _, _, done = stage.add()
    channel, accepted = stage.introduce("flood")
    assert isinstance(accepted, Accepted)
    frame = msgspec.msgpack.encode(["reports", [[time.time(), {}]], 0])
    whole = (len(frame).to_bytes(4, "big") + frame) * 2000

    def flood() -> None:
        try:
            channel._connection.sendall(whole)
        except OSError:
            return  # it was cut off meanwhile

    threading.Thread(target=flood, daemon=True).start()
    until(lambda: "flood" not in agents(stage), "the end of its connection")
    before = len(done)
    until(lambda: len(done) > before, "scaling of the other")


def test_agents_that_do_not_answer_hold_up_nobody(stage: Stage) -> None:
    """Eight that never reply to their master, and one that does: that one is scaled meanwhile."""
    for number in range(8):
        name = f"hung-{number}"
        _, answer = stage.introduce(name, json.dumps(toy_settings(name)))
        assert isinstance(answer, Accepted)
    _, _, done = stage.add()
    until(lambda: len(done) >= 2, "scaling of the one that answers")
    assert "hung-0" not in stage.service.desks


def test_an_agent_that_falls_silent_is_cut_off_unless_it_only_measures(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One through which a query is scaled has to be heard; one that only measures speaks when somebody subscribes."""
    monkeypatch.setattr(agent_port, "PULSE_SECONDS", 0.05)
    monkeypatch.setattr(agent_port, "_SILENT_AGENT_SECONDS", 0.5)
    monkeypatch.setattr(stage.master, "_begin", lambda _: None)  # a question without an answer would cut it off too
    _, measures = stage.introduce("host")
    channel, scales = stage.introduce("silent", json.dumps(toy_settings("silent")))
    assert isinstance(measures, Accepted)
    assert isinstance(scales, Accepted)

    def has_ended() -> bool:
        try:
            return channel.receive() is None  # else a pulse
        except ConnectionResetError:
            return True

    until(has_ended, "the end of the silent one")
    until(lambda: agents(stage) == ["host"])


def test_two_queries_of_one_name_are_not_mixed_up(stage: Stage) -> None:
    """The second is refused while the first is there, and taken when it has gone."""
    _, first, _ = stage.add()
    until(lambda: first.connected_to is not None)
    _, second, _ = stage.add()
    until(lambda: second.fault is not None)
    assert "give another name" in str(second.fault)
    first.close()
    until(lambda: second.connected_to is not None, "the second one's turn")


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ("{", "not JSON"),
        ("[]", "one operator"),
        (json.dumps(toy_settings("other")), "has to be called"),
        (json.dumps(toy_settings("toy", policy={"name": "no-such"})), "no-such"),
        (json.dumps(toy_settings("toy", interval=-1)), "interval"),
        (json.dumps(toy_settings("toy", cores_per_executor="many")), "whole numbers"),
    ],
)
def test_settings_with_mistakes_are_refused(stage: Stage, settings: str, word: str) -> None:
    """The refusal names the mistake, and so does what the master says of its agents."""
    _, answer = stage.introduce("toy", settings)
    assert isinstance(answer, Refusal)
    assert word in answer.error
    assert word in stage.master.view()["refused"]["toy"]


class RecordingNotebook:
    """Says what was asked for."""

    def __init__(self) -> None:
        self.read_names: list[str] = []

    def read(self, name: str) -> str | None:
        """Nothing is there."""
        self.read_names.append(name)
        return None

    def write(self, name: str, text: str) -> None:
        """Nothing is kept."""


def test_a_policy_begins_with_what_was_learnt_about_the_same_query() -> None:
    """It reads the notebook that masters share; a query is known by its plan, or else by its run."""
    given = toy_settings("toy", policy={"name": "mead"}, objective={"p95": 5.0}, plan="a plan")
    attached = read_attached(json.dumps(given), "toy")
    assert attached.operators["toy"].query == "a plan"
    notebook = RecordingNotebook()
    policy = attached.build_policy(attached.choice, notebook)
    assert [name for name in notebook.read_names if "toy" in name]
    assert isinstance(policy, WatchingPolicy)
    policy.close()
    unknown = read_attached(json.dumps({**given, "plan": ""}), "toy")
    assert unknown.operators["toy"].query == "run run"


class ReplayedToy(ToyQuery):
    """A toy whose batches take what a replay has due."""

    def __init__(self, name: str, times: ReplayArrivals) -> None:
        super().__init__(name, lambda _: None)
        self.times, self._done = times, 0

    def collect(self) -> Telemetry:
        """A batch with all that has come."""
        telemetry = super().collect()
        due = self.times.arrived_by(telemetry.at) or 0
        ends = [f'{{"epoch_us": {self.times.epoch_us}, "index": {index}}}' for index in (self._done, due)]
        (batch,) = telemetry.batches
        source = SourceProgress("replay", ends[0], ends[1], None, due - self._done)
        self._done, rows = due, due - self._done
        return replace(telemetry, batches=(replace(batch, rows=rows, sources=(source,)),))


def test_a_master_knows_when_records_arrived(stage: Stage) -> None:
    """The agent says so: backlog, arrival rate and latency do not rest on interpolated arrivals."""
    epoch_us = round((time.time() - 30.0) * 1e6)
    times = ReplayArrivals(parse_shape("constant:rate=50,duration=1h"), epoch_us=epoch_us)
    query = ReplayedToy("toy", times)
    settings = toy_settings("toy", arrivals="as they come")
    agent, link = start(query, stage.address, settings=settings, arrivals=times)
    stage.ends.callback(agent.close)
    stage.ends.callback(link.close)

    def seen() -> Observation | None:
        desk = stage.service.desks.get("toy")
        return None if desk is None else desk.seen("toy")

    def is_known() -> bool:
        now = seen()
        return now is not None and now.backlog_records is not None and now.arrival_rate_rows_per_second is not None

    until(is_known, "a backlog")
    until(lambda: (now := seen()) is not None and now.latency is not None and now.latency.is_exact, "exact latency")
    now = seen()
    assert now is not None
    assert now.arrival_rate_rows_per_second == pytest.approx(50.0, rel=0.3)


def test_arrivals_of_another_kind_are_refused(stage: Stage) -> None:
    """The refusal names what is known."""
    _, answer = stage.introduce("toy", json.dumps(toy_settings("toy", arrivals="guessed")))
    assert isinstance(answer, Refusal)
    assert "nothing, batches, as they come" in answer.error


def test_settings_name_no_file_of_the_masters_host(tmp_path: Path) -> None:
    """What an agent sends as rules is text, and settings that name files are not taken at all."""
    file = tmp_path / "some.rules"
    file.write_text('rule "a":\n  scale-out toy by 1 never above 4\n  when busy above 50% for 1 second\n')
    given = toy_settings("toy", policy={"name": "rules", "options": {"rules": str(file)}}, cluster={"home": "/"})
    attached = read_attached(json.dumps(given), "toy")
    assert "cluster" not in attached.plain
    with pytest.raises(ConfigurationError):
        attached.build_policy(attached.choice, RecordingNotebook())


def test_a_query_without_guards_is_kept_as_one() -> None:
    """Left out, they would be the default ones; and who looks back reads them as the settings of a run have them."""
    attached = read_attached(json.dumps(toy_settings("toy")), "toy")
    assert attached.settings.guards is None
    assert attached.plain["guards"] is None


def test_a_clock_that_differs_is_noted_and_its_times_are_ours(stage: Stage) -> None:
    """A host whose clock is an hour ahead is scaled all the same, and the run says so; also where it is set later."""
    query, _, done = stage.add("skewed", skew_seconds=3600.0)
    # The link says its time by the real clock: to the master the clock was set right after the agent came.
    until(lambda: bool(done), "scaling in spite of the clock")
    (connection,) = stage.master.port.connections
    assert -3700 < connection.skew_seconds < -3599
    desk = stage.service.desks["skewed"]
    until(lambda: any("s ahead" in note.text for note in desk.notes()), "a note")
    first = desk.seen("skewed")
    assert first is not None
    assert abs(first.at - time.time()) < 60
    query.skew_seconds, before = 0.0, len(done)
    until(lambda: abs(connection.skew_seconds) < 60, "the clock that was set back")
    until(lambda: len(done) > before, "scaling after that")
    stage.introduce("late", at=time.time() - 3600.0)
    until(lambda: "late" in agents(stage))
    (late,) = [agent for agent in stage.master.view()["agents"] if agent["name"] == "late"]
    assert 3599 < late["clock_behind_seconds"] < 3700
    now = Telemetry("a", 5000.0)
    assert shifted(now, -3600.0).at == 1400.0


def test_reports_wait_while_no_master_is_there_and_what_is_dropped_is_counted(tmp_path: Path) -> None:
    """Within a bound they are kept with their times; beyond it the oldest go, and the next message says how many."""
    meters = Meters()
    meters.add_own("sessions", "sessions", lambda: 7)
    agent = MeterAgent(meters, most_kept=3)

    class Far:
        """A master that is there or not."""

        def __init__(self) -> None:
            self.heard: list[Message] = []
            self.is_there = True

        def send(self, message: Message) -> None:
            if not self.is_there:
                raise ConnectionResetError("gone")
            self.heard.append(message)

        def receive(self) -> ToAgent | None:
            return None

        def close(self) -> None:
            """Nothing to close."""

    far, reporter = Far(), agent._reporter
    moment = [0.0]
    reporter._monotonic = lambda: moment[0]
    reporter._end.set()  # no thread: every step is taken here
    reporter.subscribe(Subscribe(["own_sessions"], 1.0), far)
    reporter.step()
    assert [len(one.reports) for one in far.heard] == [1]  # type: ignore[union-attr]
    far.is_there = False
    for _ in range(5):
        moment[0] += 1.0
        reporter.step()
    back = Far()
    reporter.subscribe(Subscribe(["own_sessions"], 1.0), back)
    moment[0] += 1.0
    reporter.step()
    (message,) = back.heard
    assert (len(message.reports), message.dropped) == (3, 3)  # type: ignore[union-attr]
    agent.close()


def test_without_a_subscription_nothing_is_sent(stage: Stage) -> None:
    """An agent whose metrics nobody wants is silent."""
    stage.master.watch([], 5.0)
    meters = Meters()
    meters.add_own("sessions", "sessions", lambda: 7)
    link = MasterLink(MeterAgent(meters), stage.address, "quiet").start()
    until(lambda: agents(stage) == ["quiet"])
    (connection,) = stage.master.port.connections
    before = connection.bytes_in
    time.sleep(1.0)
    assert connection.bytes_in == before
    stage.master.watch(["own_sessions"], 0.5)
    until(lambda: connection.latest.get("own_sessions", (0.0, None))[1] == 7.0)
    link.close()


def test_agents_come_back_by_themselves(stage: Stage) -> None:
    """After a connection breaks, the query is scaled on through another one, by the same loop."""
    _, link, done = stage.add()
    until(lambda: bool(done), "scaling")
    run = stage.master._runs["toy"]
    (connection,) = stage.master.port.connections
    connection.close()
    until(lambda: link.connections == 2, "another connection")
    before = len(done)
    until(lambda: len(done) > before, "scaling again")
    assert stage.master._runs["toy"] is run


def test_a_master_that_does_not_lead_takes_nobody(tmp_path: Path) -> None:
    """It refuses with a word, and the agent goes on looking."""
    stage = Stage(tmp_path)
    stage.stores.leases.take_lease("leader", "another", 600.0)
    with stage.master:
        _, answer = stage.introduce("toy")
        assert isinstance(answer, Refusal)
        assert (answer.kind, answer.retryable) == ("not leading", True)
        assert stage.master.view()["leader"] == "another"
        client = TestClient(make_application(stage.service), base_url="http://127.0.0.1")
        assert "does not lead" in client.get("/readyz").json()["detail"]
        stage.ends.close()


def test_over_tls_the_masters_certificate_is_checked(tmp_path: Path) -> None:
    """With the right certificates agents are served, with others they are not."""
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-keyout", key, "-out", certificate,
         *subject], check=True, capture_output=True,
    )  # fmt: skip
    stage = Stage(tmp_path, certificate=certificate, key=key)
    with stage.master:
        until(lambda: stage.master.leadership.is_leading)
        right = replace(stage.address, ca=certificate)
        link = MasterLink(MeterAgent(Meters()), right, "right").start()
        until(lambda: link.connected_to is not None, "an encrypted connection")
        plain = MasterLink(MeterAgent(Meters()), stage.address, "plain").start()
        until(lambda: plain.fault is not None)
        system = ssl.create_default_context()
        unknown = MasterLink(MeterAgent(Meters()), right, "unknown")
        unknown._encryption = system
        unknown.start()
        until(lambda: unknown.fault is not None and "certificate" in unknown.fault.lower())
        assert agents(stage) == ["right"]
        for one in (link, plain, unknown):
            one.close()


def test_addresses_are_read_with_their_token(tmp_path: Path) -> None:
    """Beyond this machine certificates or an explicit word are needed; a token that can be guessed is refused."""
    file = tmp_path / "token"
    file.write_text("a token of some length\n")
    nothing: dict[str, str] = {}
    found = master_address("127.0.0.1:7071, [::1]:7072", token_file=file, environment=nothing)
    assert found.places == (("127.0.0.1", 7071), ("::1", 7072))
    assert "token of" not in repr(found)
    with pytest.raises(ConfigurationError, match="PENSTOCK_MASTER_CA"):
        master_address("elsewhere:7071", token_file=file, environment=nothing)
    assert master_address("elsewhere:7071", token_file=file, without_tls=True, environment=nothing).ca is None
    with pytest.raises(ConfigurationError, match="the token is missing"):
        master_address("127.0.0.1:7071", environment=nothing)
    with pytest.raises(ConfigurationError, match="can be guessed"):
        master_address("127.0.0.1:7071", environment={"PENSTOCK_AGENT_TOKEN": "short"})
    for wrong in ("", "host", "host:0", "host:port", ":7071"):
        with pytest.raises(ConfigurationError, match="master"):
            master_address(wrong, token_file=file, environment=nothing)


def test_a_query_outlives_its_master(tmp_path: Path) -> None:
    """When the master ends, the agent keeps the query's size and waits for a master to come back."""
    stage = Stage(tmp_path)
    with stage.master:
        until(lambda: stage.master.leadership.is_leading)
        query, link, done = stage.add()
        until(lambda: query.executors > 1, "scaling out")
    until(lambda: link.connected_to is None, "the loss")
    assert not [line for line in done if "release" in line]
    assert link._thread.is_alive()
    stage.ends.close()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(chunks=st.lists(st.binary(max_size=300), max_size=4), is_framed=st.booleans(), is_known=st.booleans())
def test_whatever_bytes_come_the_port_goes_on(
    stage: Stage, chunks: list[bytes], is_framed: bool, is_known: bool
) -> None:
    """From strangers and from agents that have proved who they are: the next agent is taken all the same."""
    channel = stage.introduce("noisy")[0] if is_known else stage.dial()
    try:
        for chunk in chunks:
            channel._connection.sendall((len(chunk).to_bytes(4, "big") if is_framed else b"") + chunk)
    except OSError:
        pass  # it was cut off meanwhile
    finally:
        channel.close()
    until(lambda: "noisy" not in agents(stage))
    good, answer = stage.introduce("good")
    assert isinstance(answer, Accepted)
    good.close()
    until(lambda: agents(stage) == [])


def test_masters_of_one_folder_know_each_others_pages_and_take_the_same_tokens(tmp_path: Path) -> None:
    """Whoever asks the one that does not lead is told where to go, and gets in there with the same token."""
    kept = [StoreFolder(tmp_path / "masters") for _ in range(2)]
    access = [stores.access() for stores in kept]
    assert access[0] == access[1]
    assert (tmp_path / "masters" / "page-tokens").stat().st_mode & 0o777 == 0o600
    services = [Service((), one, EventFeed()) for one in access]
    pages = ["http://127.0.0.1:7077", "http://127.0.0.1:7078"]
    first, second = (
        Master(Site(port=0), stores, service, page=page)
        for stores, service, page in zip(kept, services, pages, strict=True)
    )
    services[1].master = second
    with first:
        until(lambda: first.leadership.is_leading, "the lead")
        with second:
            until(lambda: (first.other_page, second.other_page) == (pages[1], pages[0]), "each other's pages")
            client = TestClient(
                make_application(services[1]),
                base_url="http://127.0.0.1",
                headers={"Authorization": f"Bearer {access[0].read_token}"},
            )
            listed = client.get("/api/v1/pipelines").json()
            assert (listed["is_leading"], listed["other_page"]) == (False, pages[0])
            problem = client.get("/api/v1/pipelines/toy")
            assert problem.status_code == 404
            assert problem.json()["fix"] == f"this master does not lead; ask the one that does at {pages[0]}"
        until(lambda: first.other_page is None, "a page that is gone")


@pytest.mark.parametrize("text", ["", "one\n", "short words\n"])
def test_tokens_that_cannot_be_used_are_refused(tmp_path: Path, text: str) -> None:
    """The fault names the file."""
    stores = StoreFolder(tmp_path / "masters")
    (stores.folder / "page-tokens").write_text(text)
    with pytest.raises(ConfigurationError, match="page-tokens"):
        stores.access()


def test_latency_goes_on_under_another_master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first has counted is in what the second counts, with the same end of the start-up."""
    monkeypatch.setattr("penstock.loop.cycle._LATENCY_EVERY_SECONDS", 0.1)
    first, second = Stage(tmp_path), Stage(tmp_path)
    both = tuple(("127.0.0.1", one.master.port.port) for one in (first, second))

    def counted() -> RunLatency:
        kept = first.stores.open_readonly("toy")
        try:
            return read_history(kept).latencies["toy"].operator
        finally:
            kept.close()

    with ExitStack() as ends, second.ends:
        with first.master:
            until(lambda: first.master.leadership.is_leading, "the lead")
            query = ToyQuery("toy", lambda _: None)
            agent, link = start(query, MasterAddress(both, first.stores.token()), settings=toy_settings("toy"))
            ends.callback(agent.close)
            ends.callback(link.close)
            until(lambda: "toy" in first.service.desks, "its loop")
            until(lambda: first.service.desks["toy"].seen("toy") is not None, "a look")
            until(lambda: counted().steady is not None, "a steady part")
        before = counted()
        assert before.whole is not None
        with second.master:
            until(lambda: "toy" in second.service.desks, "the second one's loop")
            until(lambda: second.service.desks["toy"].seen("toy") is not None, "its look")
            until(lambda: counted() != before, "more latency")
            now = counted()
    assert now.whole is not None
    assert now.whole.records > before.whole.records
    assert now.steady_from == before.steady_from


def test_a_master_whose_store_was_deleted_leads_no_more(tmp_path: Path) -> None:
    """It says why to agents and to those who look; another one on the new folder leads alone."""
    first = Stage(tmp_path)
    with first.master, first.ends:
        until(lambda: first.master.leadership.is_leading, "the lead")
        _, link, done = first.add()
        until(lambda: bool(done), "scaling")
        shutil.rmtree(first.stores.folder)
        until(lambda: not first.master.leadership.is_leading, "the end of the lead")
        until(lambda: "deleted or replaced" in str(link.fault), "the agent's word")
        client = TestClient(make_application(first.service), base_url="http://127.0.0.1")
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "deleted or replaced" in answer.json()["detail"]
        second = Stage(tmp_path)
        with second.master:
            until(lambda: second.master.leadership.is_leading, "the lead of the second")
            assert not first.master.leadership.is_leading
            assert second.master.leadership.fence > 1_700_000_000  # above all that agents have heard of
