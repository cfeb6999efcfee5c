# SPDX-License-Identifier: Apache-2.0
"""A master, a query and agents of hosts over real connections: what the query wants reaches the hosts, and comes back.

The hosts are toys: what they are told is taken down. Real groups in namespaces are in `tests/integration`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.shared_query import SharedQuery, shared_settings
from tests.toy_query import start
from tests.unit.service.test_master import Stage, until

from penstock.adaptors.agent.host_agent import HostAgent
from penstock.adaptors.agent.link import MasterLink
from penstock.adaptors.agent.meter_agent import MeterAgent
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.wire import HOLD_LIMIT_BYTES, MOST_SHARES, HoldShares, Refusal, SharesHeld, frame_of
from penstock.errors import ActuationError
from penstock.records import CpuReading, ExecutorShare, HeldOnHost
from penstock.service.host_agents import _MOST_NAME_BYTES, _widest


class ToyHost:
    """A host that holds what it is told, with these executors on it."""

    def __init__(self, stage: Stage, name: str, *executors: str) -> None:
        self.executors = list(executors)
        self.told: list[ExecutorShare] = []
        self.words = 0
        self._began = time.monotonic()
        self.agent = HostAgent(Meters(), self)
        self.link = MasterLink(self.agent, stage.address, f"host {name}", holds_at=name).start()
        stage.ends.callback(self.agent.close)
        stage.ends.callback(self.link.close)

    def hold(self, shares: Collection[ExecutorShare]) -> list[HeldOnHost]:
        """Take it down, and say what a kernel would."""
        self.told = list(shares)
        self.words += 1
        return [HeldOnHost(one.application_id, tuple(self.executors), self._cpu(one)) for one in shares]

    def _cpu(self, share: ExecutorShare) -> CpuReading:
        number, each = len(self.executors), share.cores_each
        used = 0.05 * number * (time.monotonic() - self._began)
        return CpuReading(0.0, used, 0.0, None if each is None or not number else number * each, number, None, number)

    @property
    def cores(self) -> float | None:
        """What each executor of the only application may use; 0: none was named."""
        return self.told[0].cores_each if self.told else 0.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A master that leads."""
    made = Stage(tmp_path)
    with made.master:
        until(lambda: made.master.leadership.is_leading, "the lead")
        yield made
        made.ends.close()


def a_query(stage: Stage, *executors: tuple[str, str]) -> tuple[SharedQuery, MasterLink]:
    """A query with these executors, by id and host, which the master wants at 10 % of a core each."""
    query = SharedQuery("shared", lambda _: None, "app-1", lambda: list(executors))
    agent, link = start(query, stage.address, settings=shared_settings("shared", executors=len(executors)))
    stage.ends.callback(agent.close)
    stage.ends.callback(link.close)
    return query, link


def test_a_share_goes_to_all_hosts_and_their_cpu_comes_back(stage: Stage) -> None:
    """The master decides, the driver says what that means for an executor, the hosts hold; all CPU is one sum."""
    one, two = ToyHost(stage, "one", "1"), ToyHost(stage, "two", "2", "3")
    query, link = a_query(stage, ("1", "one"), ("2", "two"), ("3", "two"))
    until(lambda: one.cores == two.cores == 0.1, "the share")
    assert one.told == [ExecutorShare("app-1", 0.1)]
    desk = stage.service.desks["shared"]
    until(
        lambda: (
            (seen := desk.seen("shared")) is not None
            and seen.cluster.observed is not None
            and seen.cluster.observed.cpu_share == 0.1
            and seen.cpu_used_cores is not None
            and 0.1 < seen.cpu_used_cores < 0.2
        ),
        "the CPU of all three",
    )
    shown = {agent["name"]: agent["shares"] for agent in stage.master.view()["agents"]}
    assert shown["shared"] is None
    assert shown["host two"]["can_hold"] is True
    assert shown["host two"]["held"]["app-1"]["executors"] == ["2", "3"]
    assert shown["host two"]["held"]["app-1"]["quota_cores"] == pytest.approx(0.2)
    query.shares.open()
    until(lambda: one.cores is None and two.cores is None, "no cap")
    link.close()
    until(lambda: one.told == two.told == [], "nothing to hold, once the query has taken leave")


def test_hosts_hear_a_word_every_second_and_none_from_a_master_that_does_not_lead(stage: Stage) -> None:
    """So that their leases last, and end with the lead; an agent that only measures is told nothing."""
    host = ToyHost(stage, "one")
    measuring = MeterAgent(Meters())
    link = MasterLink(measuring, stage.address, "measures").start()
    stage.ends.callback(link.close)
    until(lambda: link.connections == 1 and host.words > 1, "a word")
    before, began = host.words, time.monotonic()
    until(lambda: host.words >= before + 3, "three more")
    assert time.monotonic() - began < 4.5
    assert host.agent.fence == stage.master.leadership.fence
    assert (link.connections, measuring.fence) == (1, 0)
    stage.master.leadership.__exit__(None, None, None)
    until(lambda: not stage.master.leadership.is_leading, "the end of the lead")
    time.sleep(0.2)
    before = host.words
    stage.master._hosts.tell()
    time.sleep(1.5)
    assert host.words == before


def test_caps_are_lifted_when_the_driver_is_silent(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens its own then, for it does not hear the master either; the application stays named."""
    host = ToyHost(stage, "one", "1")
    a_query(stage, ("1", "one"))
    until(lambda: host.cores == 0.1, "the share")
    far = stage.master._runs["shared"]._far["shared"]
    is_over = threading.Event()

    def hang() -> None:
        is_over.wait(60.0)
        raise ActuationError("the driver hangs", target="driver")

    with monkeypatch.context() as silent:
        silent.setattr(far.remote, "beat", hang)
        silent.setattr(far.remote, "collect", hang)
        until(lambda: host.cores is None, "no cap")
        assert far._share == ExecutorShare("app-1", 0.1)  # it said nothing else before it fell silent
        assert host.told == [ExecutorShare("app-1", None)]
        is_over.set()


def test_a_second_agent_of_the_same_host_that_would_hold_is_refused(stage: Stage) -> None:
    """Two would take the executors from each other. It is told what to do, and one that only measures may come."""
    ToyHost(stage, "one")
    until(lambda: len(stage.master.port.connections) == 1, "the first")
    _, answer = stage.introduce("another", holds_at="one")
    assert "start this one with --measure-only" in str(answer)
    stage.introduce("measures", why_not="it was started with --measure-only")
    until(lambda: len(stage.master.port.connections) == 2, "the one that measures")


def test_a_host_that_refuses_is_not_counted_on(stage: Stage) -> None:
    """What it said before is not known any more, and why is shown."""
    channel, _ = stage.introduce("host one", holds_at="one")
    message = channel.receive()
    while not isinstance(message, HoldShares):
        message = channel.receive()
    channel.send(SharesHeld([HeldOnHost("app", ("1",))]))
    until(lambda: stage.master._hosts.said("app") != {}, "what it holds")
    channel.send(Refusal("deposed", "another leads"))
    until(lambda: stage.master._hosts.said("app") == {}, "that nothing is known")
    (shown,) = stage.master.view()["agents"]
    assert shown["shares"]["why_not"] == "another leads"


def test_hosts_are_told_of_thousands_of_applications(stage: Stage) -> None:
    """The word is longer than that of a request may be, and so is the answer; both come through."""
    host = ToyHost(stage, "one", "1")
    many = [ExecutorShare(f"app-20261119{number:06d}-0001", 0.5, "4026531836:" + "b" * 36) for number in range(3000)]
    stage.master._hosts._wanted = lambda: many
    until(lambda: host.told == many, "all of them")
    until(lambda: stage.master._hosts.said(many[-1].application_id) != {}, "the answer")
    assert (host.link.connections, host.link.fault) == (1, None)


def test_more_applications_than_a_host_takes_do_not_cost_the_others_their_caps(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """Those beyond the bound are left out, and so is one whose name is none; the log says so once."""
    host = ToyHost(stage, "one", "1")
    many = [ExecutorShare(f"app-{number}", 0.5) for number in range(MOST_SHARES)]
    wanted = [ExecutorShare("x" * 5_000_000, 0.5), *many, ExecutorShare("one-too-many", 0.5)]
    with caplog.at_level(logging.WARNING):
        stage.master._hosts._wanted = lambda: wanted
        until(lambda: host.told == many, "all but two")
        before = host.words
        until(lambda: host.words > before + 1, "two more words")
    said = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    longest = [ExecutorShare("x" * _MOST_NAME_BYTES, 0.123456789, "y" * _MOST_NAME_BYTES)] * MOST_SHARES
    assert len(frame_of(HoldShares(2**62, longest))) < HOLD_LIMIT_BYTES
    assert said == [f"2 applications are left out of what hosts hold: {MOST_SHARES} is the most they take"]


def test_of_two_queries_of_one_application_the_wider_share_counts() -> None:
    """They have the same executors."""
    shares = [ExecutorShare("a", 0.5), ExecutorShare("b", 1.0), ExecutorShare("a", 0.7), ExecutorShare("b", None)]
    assert list(_widest(shares)) == [ExecutorShare("a", 0.7), ExecutorShare("b", None)]
    assert list(_widest(reversed(shares))) == [ExecutorShare("b", None), ExecutorShare("a", 0.7)]
