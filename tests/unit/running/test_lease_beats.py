# SPDX-License-Identifier: Apache-2.0
"""The lease is kept alive between passes that are far apart, and only while they succeed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.adaptors.agent.client import RemoteOperator
from penstock.adaptors.agent.server import OperatorAgent
from penstock.clock import VirtualClock
from penstock.errors import ActuationError
from penstock.records import Action, Allocation
from penstock.running.lease_beats import LeaseBeats
from penstock.testing.fakes import FakeActuator, FakeMetricSource


class OpenableActuator(FakeActuator):
    """Counts how often shares are opened."""

    def __init__(self) -> None:
        super().__init__()
        self.openings = 0

    def open_shares(self) -> None:
        """Count."""
        self.openings += 1


class CountingRemote:
    """Counts beats; fails each."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.beats, self.has_beaten = 0, threading.Event()
        self._fault = fault or ActuationError("nobody there", target="x", retryable=True)

    def beat(self) -> None:
        """Count, and fail as an agent that is away does."""
        self.beats += 1
        self.has_beaten.set()
        raise self._fault


def test_shares_stay_though_passes_are_further_apart_than_the_lease(tmp_path: Path) -> None:
    """With a lease of a fifth of a second and no pass for longer, nothing is opened; without beats it is."""
    actuator, path = OpenableActuator(), tmp_path / "s" / "a.sock"
    with OperatorAgent("a", FakeMetricSource(), actuator, path, on_stop=lambda: None, lease_seconds=0.5):
        remote = RemoteOperator(path)
        remote.request(Action("a", 0.0, Allocation(1, 0.5), None))
        with LeaseBeats({"a": remote}, 3600.0, beat_seconds=0.05):
            threading.Event().wait(1.5)
            assert actuator.openings == 0
        waited = threading.Event()
        for _ in range(200):
            if actuator.openings:
                break
            waited.wait(0.05)
        remote.close()
    assert actuator.openings == 1


def test_a_controller_that_no_longer_decides_stops_beating() -> None:
    """After three intervals without a good pass, and a minute at least."""
    clock, remote = VirtualClock(), CountingRemote()
    beats = LeaseBeats({"a": remote}, 100.0, beat_seconds=0.01, monotonic=clock.monotonic)
    clock.advance(300.0)
    assert beats.is_in_control("a")
    clock.advance(1.0)
    assert not beats.is_in_control("a")
    beats.passed("a")
    assert beats.is_in_control("a")
    short = LeaseBeats({"a": remote}, 1.0, monotonic=clock.monotonic)
    clock.advance(60.0)
    assert short.is_in_control("a")
    clock.advance(1.0)
    assert not short.is_in_control("a")


@pytest.mark.parametrize(
    "fault", [ActuationError("nobody there", target="x", retryable=True), RuntimeError("no thread")]
)
def test_an_agent_that_is_away_does_not_end_the_beats(fault: Exception) -> None:
    """It may come back any moment; nor does a defect of ours."""
    remote = CountingRemote(fault)
    with LeaseBeats({"a": remote}, 1.0, beat_seconds=0.01):
        for _ in range(3):
            assert remote.has_beaten.wait(20.0)
            remote.has_beaten.clear()
    assert remote.beats >= 3
