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


def an_operator(launcher: OperatorLauncher, folder: Path, most: int, **restarts: float) -> RunningOperator:
    """An operator that may be started again so many times."""
    settings = OperatorSettings(name="sleeper", app="a:b")
    job = OperatorJob("sleeper", "a:b", "local", Limits(1, 1), Mode.ACT, str(folder), "s", JobInput(replay={}))
    return RunningOperator(
        settings,
        {None: job},
        launcher=launcher,
        remote=cast("Any", Remote()),
        back_off=BackOff(RestartSettings(most=most, first_wait=2.0, **restarts)),
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
    assert said == ["stopped in batch 0: its process ended; starting it again in 2 s"]
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
    assert said[-1] == "stopped in batch 0: its process ended; it has died too often, so it is not started again"
    assert "the end of" in str(operator.failure())
    assert operator.restarts == 1


def test_a_query_that_ended_is_started_again_though_its_process_lingers(sleeper: Sleeper, tmp_path: Path) -> None:
    """The old process is ended before the new one is started: two would write to one checkpoint."""
    operator = an_operator(sleeper, tmp_path, most=3)
    said: list[str] = []
    operator.start(0.0)
    assert operator.is_ready(0.0)
    operator.watch(5.0, said.append, ended="OutOfMemoryError: Java heap space")
    operator.watch(7.0, said.append)
    assert len(sleeper.started) == 2
    assert sleeper.started[0].poll() is not None
    assert sleeper.started[1].poll() is None
    assert "Java heap space" in said[0]


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


def test_one_that_ends_before_it_is_ready_in_a_resumed_run_is_started_again(sleeper: Sleeper, tmp_path: Path) -> None:
    """Seen: the broker was away for some seconds while a resume started an operator that had ended."""
    operator = an_operator(sleeper, tmp_path, most=2)
    said: list[str] = []
    operator.start(0.0)
    cast("Any", operator.remote).answers = False
    assert not operator.is_up_again(1.0, said.append)
    kill(operator, sleeper)
    assert not operator.is_up_again(2.0, said.append)
    (words,) = said
    assert words.startswith("stopped in batch 0: ")
    assert words.endswith("; starting it again in 2 s")
    assert not operator.is_up_again(3.0, said.append)
    assert len(sleeper.started) == 1
    assert not operator.is_up_again(4.0, said.append)
    assert len(sleeper.started) == 2
    cast("Any", operator.remote).answers = True
    assert operator.is_up_again(5.0, said.append)
    assert state(operator) is State.RUNNING
    assert said[1:] == ["started again from its checkpoint (restart 1)", "runs again"]


def test_one_that_ends_again_and_again_fails_a_resume(sleeper: Sleeper, tmp_path: Path) -> None:
    """As often as it may be started again, and no more."""
    operator = an_operator(sleeper, tmp_path, most=1)
    operator.start(0.0)
    kill(operator, sleeper)
    assert not operator.is_up_again(1.0, lambda _: None)
    assert not operator.is_up_again(9.0, lambda _: None)
    kill(operator, sleeper)
    with pytest.raises(ClusterError, match="died too often"):
        operator.is_up_again(10.0, lambda _: None)


def test_one_that_runs_and_does_not_answer_is_left_alone_by_a_resume(sleeper: Sleeper, tmp_path: Path) -> None:
    """It may be another controller's: the resume fails, and ends nothing."""
    operator = an_operator(sleeper, tmp_path, most=5, start_within=30.0)
    operator.start(0.0)
    cast("Any", operator.remote).answers = False
    assert not operator.is_up_again(30.0, lambda _: None)
    with pytest.raises(ClusterError, match="did not start within 30 s"):
        operator.is_up_again(31.0, lambda _: None)
    assert sleeper.started[-1].poll() is None


def test_one_that_was_taken_over_says_nothing(sleeper: Sleeper, tmp_path: Path) -> None:
    """Nothing was wrong."""
    operator, said = an_operator(sleeper, tmp_path, most=1), list[str]()
    operator.start(0.0)
    assert operator.is_up_again(1.0, said.append)
    assert said == []


def test_a_slow_machine_may_be_given_more_time_to_start(sleeper: Sleeper, tmp_path: Path) -> None:
    """As `restarts.start_within` says; the error names it."""
    operator = an_operator(sleeper, tmp_path, most=3, start_within=900.0)
    operator.start(0.0)
    cast("Any", operator.remote).answers = False
    assert not operator.is_ready(899.0)
    with pytest.raises(ClusterError, match=r"within 900 s \(restarts.start_within\)"):
        operator.is_ready(901.0)


def test_a_query_that_spark_cannot_run_is_not_started_again(sleeper: Sleeper, tmp_path: Path) -> None:
    """An analysis error ends the operator at once, and what is said first is the error itself and its batch."""
    operator = an_operator(sleeper, tmp_path, most=3)
    said: list[str] = []
    operator.start(0.0)
    assert operator.is_ready(0.0)
    operator.watch(5.0, said.append, ended="AnalysisException: Redefining watermark is disallowed.")
    assert state(operator) is State.FAILED
    (only,) = said
    assert only == (
        "stopped in batch 0: AnalysisException: Redefining watermark is disallowed.; Spark cannot run this query, so "
        "it is not started again"
    )
    assert str(operator.failure()).startswith(f"operator sleeper {only}; the end of")
    assert len(sleeper.started) == 1


def test_an_error_that_comes_again_at_its_batch_is_not_tried_a_third_time(sleeper: Sleeper, tmp_path: Path) -> None:
    """The user's exception is tried once more; at another batch it counts as new, at the same batch it is the end."""
    operator = an_operator(sleeper, tmp_path, most=9)
    commits = tmp_path / "checkpoint" / "commits"
    commits.mkdir(parents=True)
    said: list[str] = []
    for at, (done, expected) in enumerate([(3, State.DOWN), (7, State.DOWN), (7, State.FAILED)]):
        (commits / str(done)).touch()
        operator.start(100.0 * at)
        assert operator.is_ready(100.0 * at)
        operator.watch(100.0 * at, said.append, ended="ValueError: line 12 is no number")
        assert state(operator) is expected
    assert said[0].startswith("stopped in batch 4: ValueError: line 12 is no number; starting it again")
    assert said[-1].endswith("; the same failure at the same batch as before, so it is not started again")


def test_what_the_process_said_is_named_though_nobody_heard_its_query_end(sleeper: Sleeper, tmp_path: Path) -> None:
    """A process that is gone before the controller looks has left its words in a file; a killed one has not."""
    operator = an_operator(sleeper, tmp_path, most=9)
    said: list[str] = []
    operator.start(0.0)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "failure.txt").write_text("KeyError: 'level'")
    assert operator.is_ready(0.0)
    kill(operator, sleeper)
    operator.watch(1.0, said.append)
    assert said == ["stopped in batch 0: KeyError: 'level'; starting it again in 2 s"]
    with pytest.raises(ClusterError, match="operator sleeper cannot run: KeyError: 'level'; the end of") as lasting:
        operator.is_ready(2.0)
    assert not lasting.value.retryable
    (tmp_path / "own" / "failure.txt").write_text("Python worker failed to connect back.")  # on a busy host
    with pytest.raises(ClusterError, match="failed to connect back") as passing:
        operator.is_ready(2.0)
    assert passing.value.retryable


def test_a_process_that_is_killed_again_and_again_is_started_as_often_as_allowed(
    sleeper: Sleeper, tmp_path: Path
) -> None:
    """Nobody said why, so that it is the same batch means nothing."""
    operator = an_operator(sleeper, tmp_path, most=2)
    for at, expected in enumerate([State.DOWN, State.DOWN, State.FAILED]):
        cast("Any", operator.remote).answers = True
        operator.start(100.0 * at)
        assert operator.is_ready(100.0 * at)
        kill(operator, sleeper)
        operator.watch(100.0 * at, lambda _: None)
        assert state(operator) is expected
