# SPDX-License-Identifier: Apache-2.0
"""A full disk under the view or the run folder does not end a run: operators are looked after, and started later."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from penstock.adaptors.private_file import write_private
from penstock.errors import ClusterError
from penstock.records import Limits, Mode
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.run_listener import SafeListener
from penstock.running.running_operator import RunningOperator, State
from penstock.settings import OperatorSettings, RestartSettings


def full() -> OSError:
    """What a full disk says."""
    return OSError(errno.ENOSPC, "No space left on device")


class BrokenListener:
    """A view on a full disk."""

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Fail."""
        raise full()

    def report(self, report: Any) -> None:
        """Fail."""
        raise full()

    def fault(self, operator: str, text: str) -> None:
        """Fail."""
        raise full()


def test_a_view_that_breaks_costs_the_view_alone(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reports goes on, and the log says once what could not be shown."""
    listener = SafeListener(BrokenListener())
    with caplog.at_level("WARNING", logger="penstock"):
        for _ in range(3):
            listener.phase("running", 0.5)
            listener.fault("a", "stopped in batch 3")
            listener.report(None)  # type: ignore[arg-type]
    assert len([r for r in caplog.records if "No space left" in r.getMessage()]) == 1


def test_a_private_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file before stays whole, and no draft takes up the little room that is left."""
    path = tmp_path / "job.json"
    write_private(path, "old")

    def fail(_: int) -> None:
        raise full()

    monkeypatch.setattr("penstock.adaptors.private_file.os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        write_private(path, "new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["job.json"]
    assert path.read_text() == "old"


def test_a_launch_that_fails_says_which_operator_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is one that a run expects."""

    def fail(path: Path, text: str) -> None:
        raise full()

    monkeypatch.setattr("penstock.running.operator_launcher.write_private", fail)
    launcher = OperatorLauncher("logs", tmp_path, tmp_path / "logs", {}, None)
    with pytest.raises(ClusterError, match=r"operator logs cannot be started.*No space left"):
        launcher.start(a_job(tmp_path))


class FakeLauncher:
    """Starts nothing; fails as often as it is to."""

    def __init__(self) -> None:
        self.failures = 0
        self.starts = 0

    def start(self, job: OperatorJob) -> Any:
        """A process that never was."""
        if self.failures:
            self.failures -= 1
            raise ClusterError("operator logs cannot be started: No space left on device", target="logs")
        self.starts += 1
        return DeadProcess()

    def stop(self, child: Any) -> None:
        """Nothing to stop."""

    def last_words(self) -> str | None:
        """It has none."""
        return None


class DeadProcess:
    """A process that has ended."""

    log = Path("x.log")

    def poll(self) -> int | None:
        """Killed."""
        return -9

    def tail(self) -> str:
        """Nothing."""
        return ""


def a_job(folder: Path) -> OperatorJob:
    """A job that is never done."""
    return OperatorJob("logs", "a:b", "local", Limits(1, 1), Mode.ACT, str(folder), "s", JobInput(replay={}))


def test_a_restart_that_the_disk_refuses_is_tried_again_and_is_no_death(tmp_path: Path) -> None:
    """The operator stays down, says so once, and is started when there is room again."""
    from penstock.running.back_off import BackOff

    launcher, said = FakeLauncher(), list[str]()
    operator = RunningOperator(
        OperatorSettings(name="logs", app="a:b"),
        {None: a_job(tmp_path)},
        launcher=launcher,  # type: ignore[arg-type]
        remote=None,  # type: ignore[arg-type]
        back_off=BackOff(RestartSettings(most=1, first_wait=1.0, longest_wait=10.0)),
    )
    operator.start(0.0)
    operator.state = State.RUNNING
    launcher.failures = 3
    for now in range(1, 60):
        if operator.starts == 1:
            operator.watch(float(now), said.append)
    assert launcher.starts == 2
    assert state(operator) is State.STARTING
    assert len([text for text in said if "No space left" in text]) == 1


def state(operator: RunningOperator) -> State:
    """Where it is now."""
    return operator.state
