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
from penstock.errors import ActuationError, ClusterError
from penstock.records import Limits, Mode
from penstock.running.back_off import BackOff
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.running_operator import RunningOperator, State
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
        """Nobody there who could be asked."""
        raise ActuationError("nobody there", target="x", retryable=True)

    def close(self) -> None:
        """Let go."""


class Sleeper(OperatorLauncher):
    """Runs a process that sleeps in place of an operator's."""

    def __init__(self, warden: Warden, folder: Path) -> None:
        self._warden, self._folder, self._own = warden, folder, folder / "own"
        self._name = "sleeper"
        self.started: list[Any] = []

    def start(self, job: OperatorJob) -> Any:
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


def an_operator(launcher: OperatorLauncher, folder: Path, most: int) -> RunningOperator:
    """An operator that may be started again so many times."""
    settings = OperatorSettings(name="sleeper", app="a:b")
    job = OperatorJob("sleeper", "a:b", "local", Limits(1, 1), Mode.ACT, str(folder), "s", JobInput(replay={}))
    return RunningOperator(
        settings,
        {None: job},
        launcher=launcher,
        remote=cast("Any", Remote()),
        back_off=BackOff(RestartSettings(most=most, first_wait=2.0)),
    )


def state(operator: RunningOperator) -> State:
    """Where it is now."""
    return operator.state


def kill(operator: RunningOperator, launcher: Sleeper) -> None:
    """End the process as a crash would, and see that it has."""
    child = launcher.started[-1]
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(20.0) is not None
    cast("Any", operator.remote).answers = False


def test_a_dead_operator_is_started_again_after_a_wait_and_given_up_in_the_end(
    sleeper: Sleeper, tmp_path: Path
) -> None:
    """It is reported that it stopped, when it is started again and that it runs; the last death ends the run."""
    operator = an_operator(sleeper, tmp_path, most=1)
    said: list[str] = []
    operator.start(0.0)
    assert operator.is_ready(0.0)
    operator.watch(1.0, said.append)
    assert said == []
    kill(operator, sleeper)
    operator.watch(10.0, said.append)
    assert state(operator) is State.DOWN
    assert said == ["stopped: its process ended; starting it again in 2 s"]
    operator.watch(11.0, said.append)
    assert len(sleeper.started) == 1
    operator.watch(12.0, said.append)
    assert len(sleeper.started) == 2
    assert said[-1] == "started again from its checkpoint (restart 1)"
    operator.watch(13.0, said.append)
    assert state(operator) is State.STARTING
    cast("Any", operator.remote).answers = True
    operator.watch(14.0, said.append)
    assert state(operator) is State.RUNNING
    assert said[-1] == "runs again"
    kill(operator, sleeper)
    operator.watch(20.0, said.append)
    assert state(operator) is State.FAILED
    assert "the end of" in str(operator.failure())
    assert operator.restarts == 1


def test_a_query_that_ended_is_started_again_though_its_process_lingers(sleeper: Sleeper, tmp_path: Path) -> None:
    """The old process is ended before the new one is started: two would write to one checkpoint."""
    operator = an_operator(sleeper, tmp_path, most=3)
    said: list[str] = []
    operator.start(0.0)
    assert operator.is_ready(0.0)
    operator.watch(5.0, said.append, ended="the query failed: out of memory")
    operator.watch(7.0, said.append)
    assert len(sleeper.started) == 2
    assert sleeper.started[0].poll() is not None
    assert sleeper.started[1].poll() is None
    assert "out of memory" in said[0]


def test_one_that_never_answers_fails_with_its_log(sleeper: Sleeper, tmp_path: Path) -> None:
    """At the start of a run nothing is tried again: what is wrong then is wrong with the settings."""
    operator = an_operator(sleeper, tmp_path, most=3)
    operator.start(0.0)
    cast("Any", operator.remote).answers = False
    assert not operator.is_ready(100.0)
    with pytest.raises(ClusterError, match="did not start within 180 s"):
        operator.is_ready(181.0)
    operator.end()
    assert sleeper.started[0].poll() is not None
