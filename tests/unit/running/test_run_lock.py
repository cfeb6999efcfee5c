# SPDX-License-Identifier: Apache-2.0
"""One controller for each run; one that never held an operator ends nothing of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.process.detached import DetachedProcess
from penstock.errors import ActuationError, ClusterError, ConfigurationError
from penstock.records import Limits, Mode
from penstock.running.back_off import BackOff
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.run_lock import run_lock
from penstock.running.running_operator import RunningOperator
from penstock.running.topic_streams import TopicStreams
from penstock.settings import OperatorSettings, RestartSettings, parse_settings


def test_a_second_controller_is_refused_and_named_the_first(tmp_path: Path) -> None:
    """Nothing of the run is touched; when the first has ended, another may have the folder."""
    with run_lock(tmp_path):
        code = (
            "import sys; from pathlib import Path; from penstock.running.run_lock import run_lock\n"
            "with run_lock(Path(sys.argv[1])): pass"
        )
        second = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
        )
        assert second.returncode != 0
        assert f"another controller (process {os.getpid()}) runs the run in" in second.stderr
    with run_lock(tmp_path):
        pass


def test_a_folder_that_is_not_there_is_an_error_of_the_user(tmp_path: Path) -> None:
    """It names the folder."""
    with pytest.raises(ConfigurationError, match="cannot be used"), run_lock(tmp_path / "none"):
        pass


class RefusingRemote:
    """An agent that another controller is in charge of, for as long as it is told."""

    def __init__(self) -> None:
        self.refuses = True
        self.stops = 0

    def beat(self) -> None:
        """Refuse."""
        if self.refuses:
            raise ActuationError("another controller is in charge of this operator", target="a", retryable=True)

    def stop(self) -> None:
        """Count."""
        self.stops += 1

    def close(self) -> None:
        """Let go."""


@pytest.fixture
def running(tmp_path: Path) -> Any:
    """A process that another controller started."""
    started = DetachedProcess.start(
        "a", ["sleep", "60"], log=tmp_path / "log", env=os.environ, cwd=tmp_path, identity=tmp_path / "id"
    )
    yield started
    started.stop()


def adopted(running: DetachedProcess, tmp_path: Path) -> RunningOperator:
    """The operator as a controller that resumes the run has it."""
    job = OperatorJob("a", "m:f", "local", Limits(), Mode.ACT, str(tmp_path), "s", JobInput(replay={}))
    launcher = SimpleNamespace(
        adopt=lambda _: (DetachedProcess.adopt("a", log=tmp_path / "log", identity=tmp_path / "id"), job),
        last_words=lambda: None,
        stop=lambda child: child.stop(),
    )
    operator = RunningOperator(
        OperatorSettings(name="a", app="m:f"),
        {None: job},
        launcher=cast("Any", launcher),
        remote=cast("Any", RefusingRemote()),
        back_off=BackOff(RestartSettings()),
    )
    operator.start(0.0, resume=True)
    assert operator.is_adopted
    return operator


def test_an_operator_that_was_never_held_is_not_ended(running: DetachedProcess, tmp_path: Path) -> None:
    """Refused by its agent for three minutes, the controller gives up, and the operator runs on."""
    operator = adopted(running, tmp_path)
    assert not operator.is_ready(1.0)
    with pytest.raises(ClusterError, match="did not start within"):
        operator.is_ready(RestartSettings().start_within + 1.0)
    operator.end()
    operator.close()
    assert running.poll() is None
    assert cast("Any", operator.remote).stops == 0


def test_an_operator_that_was_taken_over_ends_with_its_controller(running: DetachedProcess, tmp_path: Path) -> None:
    """Its agent has accepted this controller."""
    operator = adopted(running, tmp_path)
    cast("Any", operator.remote).refuses = False
    assert operator.is_ready(1.0)
    operator.close()
    assert running.wait(20.0) is not None


def test_topics_of_a_run_that_was_not_taken_over_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are removed only by a controller that had the operators."""
    from penstock.adaptors.kafka import operator_topics

    deleted: list[str] = []
    monkeypatch.setattr(operator_topics, "delete_topics", lambda _, names: deleted.extend(names))
    settings = parse_settings(
        {
            "name": "p",
            "cluster": {"master": "spark://elsewhere:7077"},
            "broker": {"servers": "elsewhere:9092"},
            "arrivals": {"topic": "outside"},
            "operators": [{"name": "a", "app": "a:b"}],
        }
    )

    def streams() -> TopicStreams:
        made = TopicStreams(settings, tmp_path, {}, cast("Any", None), say=print, clock=lambda: 0.0, resume=True)
        made._connection = cast("Any", object())
        made._taken_over = ("p.a",)
        return made

    streams().close()
    assert deleted == []
    taken = streams()
    taken.begin()
    taken.close()
    assert deleted == ["p.a"]
