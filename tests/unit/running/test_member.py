# SPDX-License-Identifier: Apache-2.0
"""An operator of a run: dead ones are started again from their checkpoint, with waits that grow, and not for ever."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.replay.options import replay_arrivals
from penstock.errors import ActuationError, ClusterError
from penstock.monitor.path import PathMonitor
from penstock.records import Limits, Mode
from penstock.running.back_off import BackOff
from penstock.running.member import Member, OperatorProcess, State
from penstock.running.operator import JobInput, OperatorJob
from penstock.running.streams import Flow
from penstock.settings import OperatorSettings, RestartSettings


class Remote:
    """Answers, or not."""

    def __init__(self) -> None:
        self.answers = True

    def beat(self) -> None:
        """Renew the lease."""
        if not self.answers:
            raise ActuationError("nobody there", target="x", retryable=True)

    def stop(self) -> None:
        """Nobody there to be told."""
        raise ActuationError("nobody there", target="x", retryable=True)

    def close(self) -> None:
        """Let go."""


class Sleeper(OperatorProcess):
    """Runs a process that sleeps in place of an operator's."""

    def __init__(self, warden: Warden, folder: Path) -> None:
        self._warden, self._folder, self._own = warden, folder, folder / "own"
        self._job = None  # type: ignore[assignment]
        self.started: list[Any] = []

    def start(self) -> Any:
        """A process that does nothing for a minute."""
        code = "import time; print('began', flush=True); time.sleep(60)"
        log = self._folder / "sleeper.log"
        assert self._warden is not None
        child = self._warden.start("sleeper", [sys.executable, "-c", code], log=log, env={}, cwd=self._folder)
        self.started.append(child)
        return child


@pytest.fixture
def sleeper(tmp_path: Path) -> Any:
    """A process that can be killed."""
    with Warden() as warden:
        yield Sleeper(warden, tmp_path)


def a_member(process: OperatorProcess, folder: Path, most: int) -> Member:
    """An operator that may be started again so many times."""
    settings = OperatorSettings(name="sleeper", app="a:b")
    job = OperatorJob("sleeper", "a:b", "local", Limits(1, 1), Mode.ACT, str(folder), "s", JobInput(replay={}))
    arrivals = replay_arrivals({"shape": "constant:rate=1,duration=9s"})
    return Member(
        settings,
        job,
        process=process,
        remote=cast("Any", Remote()),
        flow=Flow(arrivals, PathMonitor(arrivals)),
        back_off=BackOff(RestartSettings(most=most, first_wait=2.0)),
    )


def state(member: Member) -> State:
    """Where it is now."""
    return member.state


def kill(member: Member, process: Sleeper) -> None:
    """End the process as a crash would, and see that it has."""
    child = process.started[-1]
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(20.0) is not None
    cast("Any", member.remote).answers = False


def test_a_dead_operator_is_started_again_after_a_wait_and_given_up_in_the_end(
    sleeper: Sleeper, tmp_path: Path
) -> None:
    """It is told that it stopped, when it is started again and that it runs; the last death ends the run."""
    member = a_member(sleeper, tmp_path, most=1)
    told: list[str] = []
    member.start(0.0)
    assert member.is_ready(0.0)
    member.watch(1.0, told.append)
    assert told == []
    kill(member, sleeper)
    member.watch(10.0, told.append)
    assert state(member) is State.DOWN
    assert told == ["stopped: its process ended; starting it again in 2 s"]
    member.watch(11.0, told.append)
    assert len(sleeper.started) == 1
    member.watch(12.0, told.append)
    assert len(sleeper.started) == 2
    assert told[-1] == "started again from its checkpoint (restart 1)"
    member.watch(13.0, told.append)
    assert state(member) is State.STARTING
    cast("Any", member.remote).answers = True
    member.watch(14.0, told.append)
    assert state(member) is State.RUNNING
    assert told[-1] == "runs again"
    kill(member, sleeper)
    member.watch(20.0, told.append)
    assert state(member) is State.FAILED
    assert "the end of" in str(member.failure())
    assert member.restarts == 1


def test_a_query_that_ended_is_started_again_though_its_process_lingers(sleeper: Sleeper, tmp_path: Path) -> None:
    """The old process is ended before the new one is started: two would write to one checkpoint."""
    member = a_member(sleeper, tmp_path, most=3)
    told: list[str] = []
    member.start(0.0)
    assert member.is_ready(0.0)
    member.watch(5.0, told.append, ended="the query failed: out of memory")
    member.watch(7.0, told.append)
    assert len(sleeper.started) == 2
    assert sleeper.started[0].poll() is not None
    assert sleeper.started[1].poll() is None
    assert "out of memory" in told[0]


def test_one_that_never_answers_fails_with_its_log(sleeper: Sleeper, tmp_path: Path) -> None:
    """At the start of a run nothing is tried again: what is wrong then is wrong with the settings."""
    member = a_member(sleeper, tmp_path, most=3)
    member.start(0.0)
    cast("Any", member.remote).answers = False
    assert not member.is_ready(100.0)
    with pytest.raises(ClusterError, match="did not start within 180 s"):
        member.is_ready(181.0)
    member.end()
    assert sleeper.started[0].poll() is not None
