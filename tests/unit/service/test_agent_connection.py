# SPDX-License-Identifier: Apache-2.0
"""What a master keeps of one agent is bounded, whatever the agent sends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.agent.wire import (
    Advertise,
    Collected,
    Done,
    Introduction,
    MalformedMessageError,
    Offer,
    Report,
    Reports,
    Subscribe,
)
from penstock.records import Telemetry
from penstock.service import agent_connection as subject
from penstock.service.agent_connection import AgentConnection


@pytest.fixture
def connection() -> Iterator[AgentConnection]:
    """An agent with one metric, to which nothing goes out."""
    loop = asyncio.new_event_loop()
    writer = cast("Any", SimpleNamespace(transport=SimpleNamespace(is_closing=lambda: True)))
    introduction = Introduction(b"", "agent", "q", "host", 0.0, [Offer("a", "", "")])
    yield AgentConnection(loop, writer, introduction, "host:1", 0.0)
    loop.close()


def test_replies_that_nobody_asked_for_end_the_connection(connection: AgentConnection) -> None:
    """Some may be late; an agent that goes on must not fill the master's memory."""
    most = subject._MOST_WAITING_REPLIES + subject._MOST_UNASKED
    for _ in range(most):
        connection.take(Done())
    with pytest.raises(MalformedMessageError, match="without a request"):
        connection.take(Done())
    assert connection.replies.qsize() == most


def test_reports_that_nobody_collects_leave_room_for_replies(connection: AgentConnection) -> None:
    """A controller that is slow finds the newest it had room for, and its reply is taken all the same."""
    connection.want(Subscribe(["a"]))
    for at in range(1000):
        connection.take(Reports([Report(float(at), {0: 1.0})]))
        connection.take(Advertise([Offer("a", "", "")]))
    connection.take(Done())
    assert connection.replies.qsize() <= subject._MOST_WAITING_REPLIES + 1
    assert connection.latest["a"][0] == 999.0


def test_metrics_that_are_offered_no_longer_are_forgotten(connection: AgentConnection) -> None:
    """Names are the agent's: other ones every time are not all remembered."""
    for number in range(50):
        connection.take(Advertise([Offer(f"metric-{number}", "", "")]))
        connection.take(Reports([Report(float(number), {0: 1.0})]))
    assert list(connection.latest) == ["metric-49"]


@pytest.mark.parametrize(
    ("clock_ahead", "before", "after"),
    [
        (0.0, 0.0, 0.0),
        (0.8, 0.0, 0.0),  # within what a message takes
        (30.0, 0.0, -30.0),
        (-30.0, 0.0, 30.0),
        (0.0, 30.0, 0.0),
        (None, 30.0, 30.0),  # an agent of before does not say it
        (float("nan"), 30.0, 30.0),
    ],
)
def test_a_clock_that_is_set_is_noticed_with_the_next_reply(
    connection: AgentConnection, clock_ahead: float | None, before: float, after: float
) -> None:
    """By what its host's clock shows, not by how old the look is; and only where it was asked for one."""
    old = Telemetry("a", time.time() - 8.0)
    clock = None if clock_ahead is None else time.time() + clock_ahead
    connection.skew_seconds = before
    connection.take(Collected(1, old, clock=clock))
    assert connection.skew_seconds == before
    connection.asked()
    connection.take(Collected(2, old, clock=clock))
    assert connection.skew_seconds == pytest.approx(after, abs=0.5)
    assert connection.replies.qsize() == 2
