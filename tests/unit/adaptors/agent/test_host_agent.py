# SPDX-License-Identifier: Apache-2.0
"""The agent of a host does what the newest leader wants, and nothing that an older one or a stranger does."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.adaptors.agent.host_agent import HostAgent
from penstock.adaptors.agent.meter_agent import MeterAgent
from penstock.adaptors.agent.meters import Meters
from penstock.adaptors.agent.wire import (
    Hello,
    HoldShares,
    Message,
    Pulse,
    Refusal,
    SharesHeld,
    Stop,
    ToAgent,
    frame_of,
    read_from_agent,
    read_to_agent,
)
from penstock.records import CpuReading, ExecutorShare, HeldOnHost

SHARE = ExecutorShare("app", 0.5, "there", ("1",))
HELD = HeldOnHost("app", ("2",), CpuReading(1.0, 2.0, 0.5, 0.5, 1, None, 1), ("a fault",))


class RecordingHolder:
    """Takes down what it is told."""

    def __init__(self) -> None:
        self.told: list[list[ExecutorShare]] = []
        self.fault: Exception | None = None

    def hold(self, shares: Collection[ExecutorShare]) -> list[HeldOnHost]:
        """As the kernel would have it."""
        if self.fault is not None:
            raise self.fault
        self.told.append(list(shares))
        return [HELD]


class Talk:
    """A connection on which some messages come, and what is answered."""

    def __init__(self, *messages: ToAgent) -> None:
        self._coming = [read_to_agent(frame_of(message)[4:]) for message in messages]
        self.answers: list[Message] = []

    def send(self, message: Message) -> None:
        """Take an answer."""
        self.answers.append(read_from_agent(frame_of(message)[4:]))

    def receive(self) -> ToAgent | None:
        """The next one."""
        return self._coming.pop(0) if self._coming else None

    def close(self) -> None:
        """Nothing to close."""


def answers(agent: MeterAgent, *messages: ToAgent) -> list[Message]:
    """What an agent answers on a connection of its own."""
    talk = Talk(*messages)
    agent.serve(talk)
    return talk.answers


@pytest.fixture
def holder() -> RecordingHolder:
    """Who holds."""
    return RecordingHolder()


@pytest.fixture
def agent(holder: RecordingHolder) -> HostAgent:
    """An agent without metrics."""
    return HostAgent(Meters(), holder)


def test_what_is_wanted_reaches_the_host_and_what_is_held_the_master(agent: HostAgent, holder: RecordingHolder) -> None:
    """Both as they were said, over the wire."""
    assert answers(agent, HoldShares(3, [SHARE]), Pulse(), HoldShares(3, [])) == [SharesHeld([HELD])] * 2
    assert holder.told == [[SHARE], []]
    assert agent.fence == 3


def test_a_deposed_master_is_refused_for_ever(agent: HostAgent, holder: RecordingHolder) -> None:
    """Once a larger number was heard, on whatever connection, an order with a smaller one is not carried out."""
    answers(agent, HoldShares(3, []))
    answers(agent, HoldShares(4, [SHARE]))
    (refused,) = answers(agent, HoldShares(3, []))
    assert isinstance(refused, Refusal)
    assert (refused.kind, refused.error) == ("deposed", "fencing number 3 is older than 4: another leads")
    assert holder.told == [[], [SHARE]]
    assert agent.fence == 4


def test_what_cannot_be_done_is_refused_and_the_connection_goes_on(agent: HostAgent, holder: RecordingHolder) -> None:
    """A share that is none, a defect, and messages to an operator's agent."""
    holder.fault = ValueError("cannot be held to nan cores")
    malformed, greeted, stopped = answers(agent, HoldShares(1, [SHARE]), Hello("m", 2, 1), Stop())
    holder.fault = KeyError("a defect")
    (failed,) = answers(agent, HoldShares(1, [SHARE]))
    found = [one.kind for one in (malformed, greeted, stopped, failed) if isinstance(one, Refusal)]
    assert found == ["malformed", "rejected", "malformed", "actuation"]


def test_an_agent_that_only_measures_holds_nothing() -> None:
    """Whatever it is told."""
    (refused,) = answers(MeterAgent(Meters()), HoldShares(1, [SHARE]))
    assert isinstance(refused, Refusal)
    assert refused.error == "HoldShares: this agent only measures"
