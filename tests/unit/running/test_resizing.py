# SPDX-License-Identifier: Apache-2.0
"""An operator gets executors of another size: decided, told, carried out, measured; or recommended, or taken back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.adaptors.process.children import Warden
from penstock.adaptors.replay.options import replay_arrivals
from penstock.errors import ActuationError
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.policies.fixed import FixedPolicy
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    Limits,
    Mode,
    Objective,
    Observation,
    OutcomeStatus,
    Quality,
)
from penstock.running.back_off import BackOff
from penstock.running.member import Member, OperatorProcess, State
from penstock.running.operator import ENDED_AT_BORDER, ENDED_IN_BATCH, JobInput, OperatorJob
from penstock.running.resize import Resizer, job_of_size, size_fact
from penstock.running.streams import Flow
from penstock.settings import OperatorSettings, ResizeSettings, RestartSettings
from penstock.testing.fakes import FakeActuator, FakeMetricSource

LIMITS = Limits(1, 1)


class Remote:
    """Answers, or not, and remembers what it was told."""

    def __init__(self) -> None:
        self.answers = True
        self.borders: list[float] = []

    def beat(self) -> None:
        """Renew the lease."""
        if not self.answers:
            raise ActuationError("nobody there", target="x", retryable=True)

    def stop_at_border(self, within_seconds: float) -> None:
        """Remember."""
        self.beat()
        self.borders.append(within_seconds)


class Sleeper(OperatorProcess):
    """Runs processes that end when a file is there, with the code it holds, in place of an operator's."""

    def __init__(self, warden: Warden, folder: Path) -> None:
        self._warden, self._folder, self._own = warden, folder, folder / "own"
        self.cores: list[str] = []
        self._child: Any = None

    def start(self) -> Any:
        """A process that waits for its end."""
        code = (
            "import pathlib, sys, time\npath = pathlib.Path(sys.argv[1])\n"
            "while not path.exists(): time.sleep(0.02)\nsys.exit(int(path.read_text()))"
        )
        self.cores.append(self._job.spark["spark.executor.cores"])
        argv = [sys.executable, "-c", code, str(self._end(len(self.cores)))]
        assert self._warden is not None
        log = self._folder / "sleeper.log"
        self._child = self._warden.start("sleeper", argv, log=log, env={}, cwd=self._folder)
        return self._child

    def end(self, code: int) -> None:
        """Let the newest process end."""
        draft = self._folder / "draft"
        draft.write_text(str(code))
        draft.rename(self._end(len(self.cores)))
        assert self._child.wait(20.0) is not None

    def _end(self, number: int) -> Path:
        return self._folder / f"end-{number}"


class Scene:
    """An operator of one core that may have two, its control, and a clock moved by hand."""

    def __init__(self, process: Sleeper, folder: Path, mode: Mode = Mode.ACT, **size: Any) -> None:
        settings = OperatorSettings(name="slow", app="a:b", sizes=({"cores": 2, **size},))
        job = OperatorJob("slow", "a:b", "local", LIMITS, mode, str(folder), "s", JobInput(replay={}))
        job = job_of_size(job, settings, settings.executor_sizes[0])
        process.change(job)
        arrivals = replay_arrivals({"shape": "constant:rate=1,duration=9s"})
        self.process, self.remote, self.store, self.told = process, Remote(), MemoryStore(), list[str]()
        self.reconciler = Reconciler("slow", FakeActuator(), LIMITS)
        self.member = Member(
            settings,
            job,
            process=process,
            remote=cast("Any", self.remote),
            flow=Flow(arrivals, PathMonitor(arrivals)),
            back_off=BackOff(RestartSettings(most=0)),
        )
        cycle = Cycle(
            source=FakeMetricSource(),
            monitor=Monitor("slow"),
            policy=FixedPolicy(),
            guards=(),
            reconciler=self.reconciler,
            store=self.store,
            limits=LIMITS,
            objective=Objective(),
            mode=mode,
        )
        self.resizer = Resizer(
            self.member,
            cycle,
            self.store,
            ResizeSettings(after=10.0),
            limits=LIMITS,
            objective=Objective(),
            mode=mode,
            size=0,
            tell=self.told.append,
        )
        self.member.start(0.0)
        assert self.member.is_ready(0.0)

    def see(self, at: float, *batches: BatchProgress) -> CycleReport:
        """One pass: of 1000 records a second, 100 more wait each second."""
        has = ClusterState(observed=Allocation(1))
        seen = Observation("slow", at, 15.0, Quality.GOOD, has, 1000.0, 900.0, int(100 * at), 1.0)
        report = CycleReport(seen, batches=batches)
        self.resizer.take(report)
        self.look(at)
        return report

    def look(self, at: float) -> None:
        """Look after the process, as the run does after each pass, failed ones too."""
        self.member.watch(at, self.told.append)
        self.resizer.follow(at)

    def until_decided(self) -> CycleReport:
        """Twelve seconds at the top of its limits."""
        report = None
        for at in range(13):
            report = self.see(float(at))
            if report.decision is not None:
                return report
        raise AssertionError("nothing was decided")


def a_batch(number: int, run_id: str, ended: float, state_rows: int | None = None) -> BatchProgress:
    """A batch of one second."""
    return BatchProgress("slow", "q", run_id, number, ended - 1.0, ended, 10, {}, (), state_rows)


def state(scene: Scene) -> State:
    """Where the process is now."""
    return scene.member.state


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Sleeper]:
    """A process that can be let end."""
    with Warden() as warden:
        yield Sleeper(warden, tmp_path)


def test_a_larger_size_is_decided_carried_out_and_measured(process: Sleeper, tmp_path: Path) -> None:
    """The process ends at the border and starts with two cores, outside the count of deaths; the pause is kept."""
    scene = Scene(process, tmp_path)
    decision = scene.until_decided().decision
    assert decision is not None
    assert decision.verb == "restart larger"
    assert decision.explain().splitlines()[0] == "slow: restart larger: executors of 1 core, 1g -> 2 cores, 1g"
    assert decision.evidence["pause_expected_seconds"] == 30.0
    assert scene.remote.borders == [60.0]
    assert state(scene) is State.STOPPING
    scene.look(12.5)
    assert process.cores == ["1"], "it was started before the old one had ended"
    scene.see(13.0, a_batch(7, "old", 13.0))
    process.end(ENDED_AT_BORDER)
    scene.remote.answers = False
    scene.look(14.0)
    assert (state(scene), process.cores) == (State.STARTING, ["1", "2"])
    assert scene.member.is_resizing
    scene.remote.answers = True
    scene.look(30.0)
    assert state(scene) is State.RUNNING
    scene.see(34.0, a_batch(8, "new", 34.0))
    assert scene.member.pauses == [20.0]  # 13 to 33
    assert (scene.member.restarts, scene.resizer.size, scene.member.account.weight) == (0, 1, 2.0)
    assert scene.store.fact(size_fact("slow")) == "1"
    (outcome,) = scene.store.outcomes()
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.detail == "stopped at a batch border, paused for 20 s (batch 7 to 8)"
    assert [d.decision_id for d in scene.store.decisions(changes_only=True)] == [decision.decision_id]
    assert [a.decision_id for a in scene.store.actions()] == [decision.decision_id]


def test_in_recommend_mode_nothing_is_done(process: Sleeper, tmp_path: Path) -> None:
    """The decision is kept and told, and the operator goes on."""
    scene = Scene(process, tmp_path, Mode.RECOMMEND)
    decision = scene.until_decided().decision
    assert decision is not None
    assert "recommended only: not carried out" in decision.explain()
    assert (scene.remote.borders, state(scene)) == ([], State.RUNNING)
    assert scene.store.actions() == []


def test_a_size_that_does_not_start_is_taken_back(process: Sleeper, tmp_path: Path) -> None:
    """The operator gets the size before again, no death is counted, and the outcome says that it failed."""
    scene = Scene(process, tmp_path)
    scene.until_decided()
    process.end(ENDED_AT_BORDER)
    scene.look(14.0)
    process.end(1)
    scene.look(15.0)
    assert process.cores == ["1", "2", "1"]
    scene.look(16.0)
    assert (state(scene), scene.resizer.size, scene.member.pauses) == (State.RUNNING, 0, [])
    assert [o.status for o in scene.store.outcomes()] == [OutcomeStatus.FAILED]
    assert any("did not start with another size" in text for text in scene.told)
    assert not scene.member.is_resizing


def test_a_process_that_does_not_end_is_ended(process: Sleeper, tmp_path: Path) -> None:
    """After the patience for its batch and its farewell it is stopped, and started with the new size."""
    scene = Scene(process, tmp_path)
    at = scene.until_decided().observation.at
    scene.look(at + 89.0)
    assert process.cores == ["1"]
    scene.look(at + 90.0)
    assert process.cores == ["1", "2"]


@pytest.mark.parametrize(
    ("code", "told"), [(ENDED_IN_BATCH, "stopped in a batch, which was run again"), (-9, "stopped nobody knows where")]
)
def test_a_batch_that_had_to_be_stopped_is_told(process: Sleeper, tmp_path: Path, code: int, told: str) -> None:
    """The outcome says whether a batch was run again, or that it is not known."""
    scene = Scene(process, tmp_path)
    scene.until_decided()
    scene.see(13.0, a_batch(6, "old", 13.0))
    process.end(code)
    scene.look(14.0)
    scene.look(15.0)
    scene.see(34.0, a_batch(7, "new", 34.0))
    (outcome,) = scene.store.outcomes()
    assert outcome.detail.startswith(told)


def test_one_that_cannot_be_told_goes_on(process: Sleeper, tmp_path: Path) -> None:
    """The change has failed, and is weighed again only when everything has shown again."""
    scene = Scene(process, tmp_path)
    scene.remote.answers = False
    scene.until_decided()
    assert state(scene) is State.RUNNING
    assert [o.status for o in scene.store.outcomes()] == [OutcomeStatus.FAILED]
    assert scene.see(13.0).decision is None


def test_a_live_change_under_way_goes_first(process: Sleeper, tmp_path: Path) -> None:
    """In a pass in which the policy changes the allocation no restart is decided."""
    scene = Scene(process, tmp_path)
    for at in range(10):
        scene.see(float(at))
    changing = scene.see(0.0).observation
    report = CycleReport(replace(changing, at=60.0))
    report.decision = cast("Any", type("Change", (), {"is_change": True})())
    scene.resizer.take(report)
    assert scene.store.decisions() == []


def test_shuffle_partitions_of_a_query_with_state_are_warned_of(process: Sleeper, tmp_path: Path) -> None:
    """Spark keeps the number that the state began with, so the user is told that his has no effect."""
    scene = Scene(process, tmp_path, shuffle_partitions=8)
    scene.see(0.0, a_batch(1, "old", 0.0, state_rows=5))
    for at in range(1, 12):
        scene.see(float(at))
    assert any("shuffle_partitions of its sizes have no effect" in text for text in scene.told)


def test_a_restart_ends_what_was_under_way() -> None:
    """After a restart nothing that was asked for holds, and shares are read with the new cores."""
    reconciler = Reconciler("slow", FakeActuator(), Limits(1, 2))
    asked, _ = reconciler.start(Decision("slow", 1.0, "fixed", Allocation(1), Allocation(2), "why"), 1.0)
    (outcome,) = reconciler.restarted(2, 3.0)
    assert (outcome.request_id, outcome.status) == (asked.request_id, OutcomeStatus.SUPERSEDED)
    assert reconciler.current is None
    assert reconciler.state == ClusterState()
