# SPDX-License-Identifier: Apache-2.0
"""An agent and its controller over a real socket, with nothing behind the agent but notes."""

from __future__ import annotations

import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.adaptors.agent.channel import ControllerChannel
from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import HeardFence, OperatorAgent
from penstock.adaptors.agent.wire import (
    PROTOCOL,
    REPLY_LIMIT_BYTES,
    REQUEST_LIMIT_BYTES,
    Beat,
    Collect,
    Collected,
    Done,
    FromAgent,
    Hello,
    Refusal,
    Request,
    ToAgent,
    Welcome,
    frame_of,
)
from penstock.errors import (
    ActuationError,
    ActuationRejectedError,
    ConfigurationError,
    MetricSourceError,
)
from penstock.records import Action, Allocation, BatchProgress, Telemetry
from penstock.testing.fakes import FakeActuator, FakeMetricSource

HELLO = Hello("c1", PROTOCOL)


def batch(batch_id: int) -> BatchProgress:
    """A batch without rows."""
    return BatchProgress("operator", "q", "r", batch_id, 0.0, 1.0, 0, {"addBatch": 0.5}, ())


def telemetry(*batch_ids: int, **fields: Any) -> Telemetry:
    """A look that brought batches."""
    return Telemetry("operator", 1.0, tuple(batch(i) for i in batch_ids), **fields)


def action(executors: int = 2, share: float = 0.5, operator: str = "operator") -> Action:
    """A new request."""
    return Action(operator, 0.0, Allocation(executors, share), None)


class RecordingActuator(FakeActuator):
    """An actuator whose shares can be opened alone."""

    def __init__(self) -> None:
        super().__init__()
        self.openings = 0
        self.open_fails = False

    def open_shares(self) -> None:
        """Count."""
        self.openings += 1
        if self.open_fails:
            raise OSError("read-only file system")


class Time:
    """A monotonic clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        """The instant."""
        return self.now


class Served:
    """An agent that listens, and its parts."""

    def __init__(self, folder: Path) -> None:
        self.source = FakeMetricSource()
        self.actuator = RecordingActuator()
        self.time = Time()
        self.stops = 0
        self.path = folder / "a" / "agent.sock"
        self.agent = OperatorAgent(
            "operator",
            self.source,
            self.actuator,
            self.path,
            on_stop=self.note_stop,
            monotonic=self.time,
            batches_per_reply=3,
            batches_kept=5,
        )
        self.remotes: list[RemoteOperator] = []

    def note_stop(self) -> None:
        """Count."""
        self.stops += 1

    def remote(self) -> RemoteOperator:
        """A controller that has not connected yet."""
        self.remotes.append(RemoteOperator(self.path, timeout_seconds=10))
        return self.remotes[-1]


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """An agent that listens during the test."""
    before = set(threading.enumerate())
    parts = Served(tmp_path_factory.mktemp("s"))
    with parts.agent:
        yield parts
        for remote in parts.remotes:
            remote.close()
    assert not parts.path.exists()
    left = set(threading.enumerate()) - before
    assert not [t for t in left if t.name.startswith("penstock-agent")]


class RawController:
    """Says what it is told to, well formed or not."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._channel = ControllerChannel(self._socket, REPLY_LIMIT_BYTES)

    def say(self, payload: bytes, *, length: int | None = None) -> FromAgent | None:
        """Send a frame, whatever is in it, and give the reply."""
        self._socket.sendall((len(payload) if length is None else length).to_bytes(4, "big") + payload)
        return self._channel.receive()

    def tell(self, message: ToAgent) -> FromAgent | None:
        """Send a message, and give the reply."""
        return self.say(frame_of(message)[4:])

    def is_closed(self) -> bool:
        """Whether the agent has hung up; with bytes of ours unread, the kernel calls that a reset."""
        try:
            return self._channel.receive() is None
        except ConnectionResetError:
            return True

    def close(self) -> None:
        """Go away."""
        self._channel.close()


@pytest.fixture
def raw(served: Served) -> Iterator[RawController]:
    """A controller that has connected and said nothing."""
    controller = RawController(served.path)
    yield controller
    controller.close()


def until(is_so: Callable[[], bool]) -> None:
    """Wait for the agent's threads, and fail if they never get there."""
    deadline = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < deadline, "the agent did not get there"
        threading.Event().wait(0.005)


def test_only_this_user_can_reach_the_socket(served: Served) -> None:
    """The socket has mode 0600, in a folder of mode 0700."""
    assert stat.S_IMODE(served.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(served.path.parent.stat().st_mode) == 0o700


def test_a_controller_collects_acts_releases_and_stops(served: Served) -> None:
    """Every verb reaches the operator's side."""
    remote = served.remote()
    served.source.push(telemetry(0, 1))
    assert remote.operator == "operator"
    assert remote.can_set_cpu_share
    assert remote.collect() == telemetry(0, 1)
    wanted = action()
    remote.request(wanted)
    assert served.actuator.requests == [wanted]
    remote.beat()
    remote.release()
    assert served.actuator.releases == 1
    remote.stop()
    assert served.stops == 1


def packed(*fields: object) -> bytes:
    """A payload as another implementation would write it."""
    return msgspec.msgpack.encode(fields)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"{",
        packed(),
        packed(7),
        packed("explode"),
        packed(["collect"]),
        msgspec.msgpack.encode({"do": "beat"}),
        b"\x91" * 50_000,
        packed("collect"),
        packed("collect", "1"),
        packed("collect", True),
        packed("collect", -1),
        packed("request"),
        packed("request", 5),
        packed("request", {}),
        packed("request", {"operator": "operator", "at": 0.0, "target": {"executors": "2"}, "decision_id": None}),
        packed("hello"),
        packed("hello", "", PROTOCOL),
        packed("hello", "c2", 99),
        packed("hello", "c2", PROTOCOL, -1),
        packed("stop_at_border", "soon"),
        frame_of(Done())[4:],
    ],
)
def test_malformed_input_gets_an_error_and_changes_nothing(served: Served, raw: RawController, payload: bytes) -> None:
    """Whatever arrives, the reply says what is wrong, nothing is done, and the connection goes on."""
    assert isinstance(raw.tell(HELLO), Welcome)
    reply = raw.say(payload)
    assert isinstance(reply, Refusal)
    assert reply.kind == "malformed"
    assert reply.error
    assert served.source.calls == served.stops == served.actuator.releases == 0
    assert served.actuator.requests == []
    assert raw.tell(Beat()) == Done()


@pytest.mark.parametrize(
    "wrong",
    [
        action(0),
        action(-3),
        action(share=0.0),
        action(share=7.0),
        replace(action(), target=Allocation(1, float("inf"))),
    ],
)
def test_an_impossible_allocation_is_rejected(served: Served, wrong: Action) -> None:
    """An allocation no operator can have does not reach the actuator."""
    with pytest.raises(ActuationError):
        served.remote().request(wrong)
    assert served.actuator.requests == []


def test_a_request_for_another_operator_is_rejected(served: Served) -> None:
    """A controller that has mixed up its operators changes nothing."""
    with pytest.raises(ActuationRejectedError, match="'operator', not 'matcher'"):
        served.remote().request(action(operator="matcher"))
    assert served.actuator.requests == []


def test_a_message_without_end_is_cut_off(served: Served, raw: RawController) -> None:
    """A line above the limit gets an error and the end of the connection; others are served."""
    raw.tell(HELLO)
    reply = raw.say(b"x", length=REQUEST_LIMIT_BYTES + 1)
    assert isinstance(reply, Refusal)
    assert reply.kind == "oversized"
    assert raw.is_closed()
    served.source.push(telemetry(0))
    assert len(served.remote().collect().batches) == 1


def test_without_hello_nothing_is_done(served: Served, raw: RawController) -> None:
    """A connection that is not that of the controller in charge is refused."""
    reply = raw.tell(Request(action()))
    assert isinstance(reply, Refusal)
    assert reply.kind == "malformed"
    assert served.actuator.requests == []


def test_a_second_controller_is_refused_while_the_first_is_alive(served: Served, raw: RawController) -> None:
    """One controller at a time; the refusal may be retried."""
    raw.tell(HELLO)
    with pytest.raises(MetricSourceError, match="another controller is in charge") as caught:
        served.remote().collect()
    assert caught.value.retryable
    assert raw.tell(Beat()) == Done()


def test_a_controller_that_went_is_replaced_at_once(served: Served, raw: RawController) -> None:
    """When the connection has ended the next controller takes over without waiting for the lease."""
    raw.tell(HELLO)
    raw.close()
    remote = served.remote()

    def is_served() -> bool:
        try:
            remote.beat()
        except ActuationError:
            return False
        return True

    until(is_served)


def test_a_controller_that_hangs_is_replaced_after_the_lease(served: Served, raw: RawController) -> None:
    """A silent connection gives way when its lease has run out, and is hung up on."""
    raw.tell(HELLO)
    served.time.now += 5.1
    served.remote().beat()
    assert raw.is_closed()


def test_the_same_controller_takes_its_seat_again(served: Served, raw: RawController) -> None:
    """A controller that reconnects replaces its own old connection at once."""
    raw.tell(HELLO)
    again = RawController(served.path)
    assert isinstance(again.tell(HELLO), Welcome)
    assert raw.is_closed()
    again.close()


def test_shares_are_opened_when_a_controller_that_acted_falls_silent(served: Served) -> None:
    """After the lease CPU shares are opened once, executors stay, and the next look says so."""
    remote = served.remote()
    remote.request(action())
    served.time.now += 4.9
    served.agent.check_lease()
    assert served.actuator.openings == 0
    served.time.now += 0.2
    until(lambda: served.actuator.openings == 1)
    served.agent.check_lease()
    assert (served.actuator.openings, served.actuator.releases) == (1, 0)
    served.source.push(telemetry())
    assert remote.collect().faults == ("the controller was silent for 5.1 s: CPU shares were opened",)
    remote.request(action())
    assert len(served.actuator.requests) == 2


def test_every_valid_message_renews_the_lease_and_no_other_does(served: Served, raw: RawController) -> None:
    """A beat keeps the shares; nonsense does not."""
    raw.tell(HELLO)
    raw.tell(Request(action()))
    served.time.now += 4.0
    assert raw.tell(Beat()) == Done()
    served.time.now += 4.0
    served.agent.check_lease()
    assert served.actuator.openings == 0
    raw.say(b"nonsense")
    served.time.now += 2.0
    until(lambda: served.actuator.openings == 1)


def test_an_operator_that_fails_does_not_end_its_controllers_lease(served: Served) -> None:
    """A look that fails on the operator's side is still a word from the controller."""
    remote = served.remote()
    remote.request(action())
    served.time.now += 4.0
    served.source.push(MetricSourceError("the driver does not answer", retryable=True))
    with pytest.raises(MetricSourceError):
        remote.collect()
    served.time.now += 4.0
    served.agent.check_lease()
    assert served.actuator.openings == 0


def test_a_controller_that_only_looked_has_no_lease(served: Served) -> None:
    """Without an action, or after a release, silence opens nothing."""
    remote = served.remote()
    served.source.push(telemetry())
    remote.collect()
    served.time.now += 60
    served.agent.check_lease()
    remote.request(action())
    remote.release()
    served.time.now += 60
    served.agent.check_lease()
    assert served.actuator.openings == 0


def test_shares_that_could_not_be_opened_are_tried_again(served: Served) -> None:
    """A failed opening is repeated at the next look."""
    served.remote().request(action())
    served.actuator.open_fails = True
    served.time.now += 6
    until(lambda: served.actuator.openings >= 2)
    served.actuator.open_fails = False
    before = served.actuator.openings
    until(lambda: served.actuator.openings == before + 1)


def test_a_batch_whose_reply_was_lost_comes_again_once(served: Served, raw: RawController) -> None:
    """What was not confirmed is given again, before what is new; what was confirmed is not."""
    served.source.push(telemetry(0, faults=("gap",)), telemetry(1), telemetry(2))
    raw.tell(HELLO)

    def collect(ack: int) -> tuple[int, list[int], list[str]]:
        reply = raw.tell(Collect(ack))
        assert isinstance(reply, Collected)
        seen = reply.telemetry
        return reply.number, [b.batch_id for b in seen.batches], list(seen.faults)

    assert collect(0) == (1, [0], ["gap"])
    assert collect(0)[:2] == (2, [0, 1])
    assert collect(2)[:2] == (3, [2])


def test_controllers_that_take_over_from_each_other_see_no_batch_twice(served: Served) -> None:
    """The agent repeats what the one before did not confirm; one that had it already leaves it out."""
    first, second = served.remote(), served.remote()
    served.source.push(telemetry(1, 2), telemetry(3), telemetry(4))
    assert [b.batch_id for b in first.collect().batches] == [1, 2]
    served.time.now += 60  # the first one hangs
    assert [b.batch_id for b in second.collect().batches] == [1, 2, 3]
    served.time.now += 60  # and is back, while the second hangs
    assert [b.batch_id for b in first.collect().batches] == [3]
    assert [b.batch_id for b in first.collect().batches] == [4]


def test_a_look_that_failed_loses_nothing(served: Served, raw: RawController) -> None:
    """When the operator cannot be reached, unconfirmed batches stay for later."""
    served.source.push(telemetry(0), MetricSourceError("the driver does not answer", retryable=True), telemetry(1))
    raw.tell(HELLO)
    raw.tell(Collect(0))
    failed = raw.tell(Collect(0))
    assert isinstance(failed, Refusal)
    assert (failed.kind, failed.retryable) == ("metrics", True)
    seen = raw.tell(Collect(0))
    assert isinstance(seen, Collected)
    assert [b.batch_id for b in seen.telemetry.batches] == [0, 1]


def test_many_batches_come_in_bounded_replies_and_overflow_is_told(served: Served) -> None:
    """A reply holds so many batches and no more; what no controller fetched is lost with a fault."""
    remote = served.remote()
    served.source.push(telemetry(0, 1, 2, 3), telemetry(), telemetry(4, 5, 6, 7, 8, 9))
    assert [b.batch_id for b in remote.collect().batches] == [0, 1, 2]
    assert [b.batch_id for b in remote.collect().batches] == [3]
    seen = remote.collect()
    assert [b.batch_id for b in seen.batches] == [5, 6, 7]
    assert seen.faults == ("1 batches were lost: no controller collected them in time",)


def test_a_controller_reconnects_to_an_agent_that_was_started_again(served: Served) -> None:
    """Connection loss is a retryable error of the right kind, and over when the agent is back."""
    remote = served.remote()
    remote.beat()
    served.agent.close()
    with pytest.raises(MetricSourceError) as looked:
        remote.collect()
    with pytest.raises(ActuationError) as acted:
        remote.request(action())
    assert looked.value.retryable
    assert acted.value.retryable
    again = Served(served.path.parent.parent)
    again.source.push(telemetry(7))
    with again.agent:
        assert [b.batch_id for b in remote.collect().batches] == [7]


def test_errors_keep_their_kind_over_the_socket(served: Served) -> None:
    """The operator's errors are raised at the controller with kind, request and whether to retry."""
    remote = served.remote()
    served.source.push(MetricSourceError("no answer", retryable=True))
    with pytest.raises(MetricSourceError, match="no answer") as looked:
        remote.collect()
    assert looked.value.retryable
    served.actuator.fail_with = ActuationRejectedError("executors cannot be scaled on a local master")
    with pytest.raises(ActuationRejectedError, match="local master"):
        remote.request(action())
    served.actuator.fail_with = ActuationError("busy", request_id="r7", retryable=True)
    with pytest.raises(ActuationError, match="busy") as acted:
        remote.request(action())
    assert (acted.value.request_id, acted.value.retryable) == ("r7", True)


def test_a_path_too_long_for_a_socket_is_refused(tmp_path: Path) -> None:
    """The kernel's limit is told before anything is started, on both sides."""
    path = tmp_path / ("x" * 120) / "agent.sock"
    with pytest.raises(ConfigurationError, match="107"):
        RemoteOperator(path)
    with pytest.raises(ConfigurationError, match="shorter run folder"):
        OperatorAgent("operator", FakeMetricSource(), RecordingActuator(), path, on_stop=lambda: None)
    assert not path.parent.exists()


def test_a_folder_others_can_enter_is_refused(served: Served) -> None:
    """A folder with wider rights is refused with the command that mends it, and nothing is made in it."""
    folder = served.path.parent.parent / "wide"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    agent = OperatorAgent("operator", served.source, served.actuator, folder / "agent.sock", on_stop=lambda: None)
    with pytest.raises(ConfigurationError, match="chmod 700"):
        agent.start()
    assert list(folder.iterdir()) == []


def test_a_socket_left_by_a_dead_agent_is_replaced_and_a_living_one_is_not(served: Served) -> None:
    """A stale socket does not hinder a new agent; one that answers, or a file, does."""
    other = Served(served.path.parent.parent)
    with pytest.raises(ConfigurationError, match="another agent listens"):
        other.agent.start()
    stale = served.path.parent / "stale.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(stale))
    agent = OperatorAgent("operator", served.source, served.actuator, stale, on_stop=lambda: None)
    with agent:
        assert stale.is_socket()
    (served.path.parent / "file").write_text("mine")
    with pytest.raises(ConfigurationError, match="not a socket"):
        OperatorAgent(
            "operator", served.source, served.actuator, served.path.parent / "file", on_stop=lambda: None
        ).start()


def test_a_controller_can_have_the_shares_opened(served: Served) -> None:
    """The executors stay, and the lease is over until the next request."""
    remote = served.remote()
    remote.request(action())
    remote.open_shares()
    assert (served.actuator.openings, served.actuator.releases) == (1, 0)
    served.time.now += 100.0
    served.agent.check_lease()
    assert served.actuator.openings == 1


def test_a_larger_fencing_number_takes_over_at_once(served: Served, raw: RawController) -> None:
    """The one before is hung up on although it lives, and what it says from then on is refused."""
    raw.tell(Hello("first leader", PROTOCOL, 3))
    raw.tell(Request(action()))
    second = RawController(served.path)
    assert isinstance(second.tell(Hello("second leader", PROTOCOL, 4)), Welcome)
    assert raw.is_closed()
    late = RawController(served.path)
    reply = late.tell(Hello("first leader", PROTOCOL, 3))
    assert isinstance(reply, Refusal)
    assert reply.kind == "deposed"
    assert isinstance(late.tell(Request(action())), Refusal)
    assert len(served.actuator.requests) == 1
    assert second.tell(Beat()) == Done()
    second.close()
    late.close()


def test_what_one_agent_hears_holds_for_those_that_share_it(served: Served, raw: RawController) -> None:
    """A leader that still serves one operator of a run is deposed there as well, and the new one takes over at once."""
    heard = HeardFence()
    path = served.path.parent / "other.sock"
    with (
        OperatorAgent("other", served.source, served.actuator, path, on_stop=lambda: None, heard=heard),
        OperatorAgent(
            "operator", served.source, served.actuator, path.with_name("one.sock"), on_stop=lambda: None, heard=heard
        ),
    ):
        deposed, leader = RawController(path), RawController(path.with_name("one.sock"))
        assert isinstance(deposed.tell(Hello("first leader", PROTOCOL, 3)), Welcome)
        assert deposed.tell(Beat()) == Done()
        assert isinstance(leader.tell(Hello("second leader", PROTOCOL, 4)), Welcome)
        reply = deposed.tell(Request(action(operator="other")))
        assert isinstance(reply, Refusal)
        assert (reply.kind, served.actuator.requests) == ("deposed", [])
        second = RawController(path)
        assert isinstance(second.tell(Hello("second leader", PROTOCOL, 4)), Welcome)
        assert second.tell(Request(action(operator="other"))) == Done()
        for controller in (deposed, leader, second):
            controller.close()


def test_an_older_fencing_number_is_refused_also_after_the_lease(served: Served, raw: RawController) -> None:
    """However long the newer leader is silent, an older one does not come back."""
    raw.tell(Hello("second leader", PROTOCOL, 4))
    served.time.now += 60
    with pytest.raises(MetricSourceError, match="older than 4"):
        served.remote().collect()


def test_metrics_come_along_with_telemetry_once_subscribed(served: Served) -> None:
    """What is not subscribed to does not come; one that cannot be read is None."""
    served.agent.meters.add_own("depth", "records", lambda: 12)
    served.agent.meters.add_own("broken", "", lambda: 1 // 0)
    served.agent.meters.add_own("other", "", lambda: 3)
    remote = served.remote()
    served.source.push(telemetry())
    assert remote.collect().metrics == {}
    remote.subscribe(["own_depth", "own_broken", "own_unknown"], 0.1)

    def found() -> dict[str, float | None]:
        served.source.push(replace(telemetry(), at=time.time()))
        return dict(remote.collect().metrics)

    until(lambda: bool(found()))
    assert found() == {"own_depth": 12.0, "own_broken": None}


def test_without_a_thread_for_a_connection_the_lease_is_still_watched(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the limit of threads a connection is closed; the next one is served, and the agent can be closed."""
    began = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "penstock-agent-connection":
            raise RuntimeError("can't start new thread")
        began(thread)

    remote = served.remote()
    remote.request(action())
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        refused = RawController(served.path)
        assert refused.is_closed()
        refused.close()
        served.time.now += 3600
        until(lambda: served.actuator.openings == 1)
    raw = RawController(served.path)
    assert isinstance(raw.tell(HELLO), Welcome)
    raw.close()
