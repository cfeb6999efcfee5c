# SPDX-License-Identifier: Apache-2.0
"""What goes wrong inside a master, or in one agent, ends one connection or one look, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Collection

import pytest
from tests.unit.service.test_master import Stage, agents, stage, until

from penstock.adaptors.agent.wire import Accepted, Refusal
from penstock.service import agent_port
from penstock.service.agent_connection import AgentConnection

__all__ = ["stage"]  # the fixture


@pytest.mark.parametrize("at", [math.inf, -math.inf, math.nan])
def test_an_agent_without_a_time_is_refused(stage: Stage, at: float) -> None:
    """What an agent reports is moved by the difference of the clocks: an infinite one would spoil every record."""
    _, answer = stage.introduce("odd", at=at)
    assert isinstance(answer, Refusal)
    assert "time" in answer.error
    assert agents(stage) == []


def test_a_connection_that_fails_when_it_begins_leaves_nothing_behind(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread could be started for it, say: it is gone, and whoever comes next under that name is taken."""
    watch, faults = AgentConnection.watch, [RuntimeError("can't start new thread")]

    def fails_once(self: AgentConnection, metrics: Collection[str], every_seconds: float) -> None:
        if faults:
            raise faults.pop()
        watch(self, metrics, every_seconds)

    monkeypatch.setattr(AgentConnection, "watch", fails_once)
    stage.introduce("toy")
    until(lambda: not faults, "the fault")
    until(lambda: not stage.master.port.connections and not agents(stage), "nothing left")
    _, answer = stage.introduce("toy", agent="another process")
    assert isinstance(answer, Accepted)


def test_looks_and_pulses_go_on_after_a_fault(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of agents that were lost are ended, and agents are told that the master lives, whatever was raised."""
    looks: list[bool] = []

    class Pages:
        """Cannot say where the other page is."""

        address = None

        def step(self, is_leading: bool) -> None:
            """Fails."""
            looks.append(is_leading)
            raise RuntimeError("a defect")

        def end(self) -> None:
            """Nothing."""

    pulses: list[bytes] = []

    def write(self: AgentConnection, frame: bytes) -> None:
        pulses.append(frame)
        raise RuntimeError("a defect")

    monkeypatch.setattr(agent_port, "PULSE_SECONDS", 0.05)
    stage.master._pages = Pages()  # type: ignore[assignment]
    _, answer = stage.introduce("toy")
    assert isinstance(answer, Accepted)
    monkeypatch.setattr(AgentConnection, "write", write)
    until(lambda: len(looks) >= 2, "a second look")
    until(lambda: len(pulses) >= 2, "a second pulse")
