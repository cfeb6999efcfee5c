# SPDX-License-Identifier: Apache-2.0
"""A restart with another size, through the whole loop: decided, guarded, carried out, verified, or taken back."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.adaptors.process.children import Warden
from penstock.clock import VirtualClock
from penstock.crash_points import VARIABLE, plan_crash
from penstock.errors import ActuationError, MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies.fixed import FixedPolicy
from penstock.ports import FloatArray, RestartingActuator
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    ExecutorSize,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    OutcomeStatus,
    SourceProgress,
    Telemetry,
)
from penstock.running.back_off import BackOff
from penstock.running.operator_actuator import OperatorActuator
from penstock.running.operator_job import ENDED_AT_BORDER, ENDED_IN_BATCH, JobInput, OperatorJob
from penstock.running.operator_launcher import OperatorLauncher
from penstock.running.operator_sizes import jobs_by_size, kept_size
from penstock.running.policy_choice import policy_context, policy_of
from penstock.running.running_operator import RunningOperator, State
from penstock.running.spark_configuration import size_configuration
from penstock.running.supervision import Supervision
from penstock.settings import RestartSettings, parse_settings

RATE, DONE = 1000, 900


class Remote:
    """The operator's agent: answers, or not, and remembers what it was asked for."""

    can_set_cpu_share = True

    def __init__(self, clock: VirtualClock) -> None:
        self.answers = True
        self.borders: list[float] = []
        self.requests: list[Action] = []
        self.telemetry: Telemetry | None = None
        self._clock = clock

    def beat(self) -> None:
        """Renew the lease."""
        if not self.answers:
            raise ActuationError("nobody there", target="x", retryable=True)

    def stop_at_border(self, within_seconds: float) -> None:
        """Remember."""
        self.beat()
        self.borders.append(within_seconds)

    def request(self, action: Action) -> None:
        """Remember."""
        self.beat()
        self.requests.append(action)

    def collect(self) -> Telemetry:
        """What the test has set."""
        if not self.answers:
            raise MetricSourceError("nobody there", target="x", retryable=True)
        assert self.telemetry is not None
        return self.telemetry


class Sleeper(OperatorLauncher):
    """Runs processes that end when a file is there, with the code it holds, in place of an operator's."""

    def __init__(self, warden: Warden, folder: Path) -> None:
        self._name, self._warden, self._folder, self._own = "slow", warden, folder, folder / "own"
        self.cores: list[str] = []
        self._child: Any = None

    def start(self, job: OperatorJob) -> Any:
        """A process that waits for its end."""
        code = (
            "import pathlib, sys, time\npath = pathlib.Path(sys.argv[1])\n"
            "while not path.exists(): time.sleep(0.02)\nsys.exit(int(path.read_text()))"
        )
        self.cores.append(job.spark["spark.executor.cores"])
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


class Arrivals:
    """A thousand records a second."""

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Not known one by one."""
        return None

    def arrived_by(self, at: float) -> int | None:
        """How many there are by then."""
        return int(RATE * at)

    def done_index(self, source: SourceProgress) -> int | None:
        """The end of the batch."""
        return int(source.end_offset or 0)


class Listener:
    """Keeps what the user would read."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Not looked at."""

    def report(self, report: CycleReport) -> None:
        """Not looked at."""

    def fault(self, operator: str, text: str) -> None:
        """Remember."""
        self.said.append(text)


class Scene:
    """An operator of one core that may have two: its control, its supervision, and a clock moved by hand."""

    def __init__(self, launcher: Sleeper, folder: Path, mode: Mode = Mode.ACT, deaths: int = 0, **size: Any) -> None:
        self.settings = parse_settings(
            {
                "name": "p",
                "arrivals": {"shape": "constant:rate=5,duration=5s"},
                "operators": [{"name": "slow", "app": "a:b", "sizes": [{"cores": 2, **size}]}],
                "policy": {"name": "fixed", "options": {"every_seconds": "1s"}},
                "resize": {"after": "10s"},
            }
        )
        (slow,) = self.settings.operators
        limits = slow.limits()
        job = OperatorJob("slow", "a:b", "local", limits, mode, str(folder), "s", JobInput(replay={}))
        job = replace(job, spark=size_configuration(slow, slow.executor_sizes[0]))
        self.clock, self.listener, self.store = VirtualClock(), Listener(), MemoryStore()
        self.launcher, self.remote = launcher, Remote(self.clock)
        self.operator = RunningOperator(
            slow,
            jobs_by_size(job, slow),
            launcher=launcher,
            remote=cast("Any", self.remote),
            back_off=BackOff(RestartSettings(most=deaths)),
        )
        self.actuator = OperatorActuator(self.operator, self.settings.resize.patience, self.clock.now)
        self.cycle = Cycle(
            source=self.remote,
            monitor=Monitor("slow", Arrivals(), window_seconds=3.0, warm_up_seconds=0.0),
            policy=policy_of(self.settings, policy_context(self.settings)),
            guards=default_guards(up_seconds=0.0),
            reconciler=Reconciler("slow", self.actuator, limits),
            store=self.store,
            limits=limits,
            objective=Objective(),
            mode=mode,
        )
        self.operator.start(0.0)
        assert self.operator.is_ready(0.0)
        streams = SimpleNamespace(faults=lambda: (), load=SimpleNamespace(span=lambda: None))
        parts = SimpleNamespace(
            operators={"slow": self.operator},
            actuators={"slow": self.actuator},
            cycles={"slow": self.cycle},
            store=self.store,
            streams=streams,
            cluster=None,
            log_folders=(),
        )
        self.supervision = Supervision(
            self.settings, cast("Any", parts), listener=self.listener, clock=self.clock, stop=threading.Event()
        )
        self._batch = 0
        self.state_rows: int | None = None

    @property
    def larger(self) -> ExecutorSize:
        """The size that it may get."""
        return self.settings.operators[0].executor_sizes[1]

    def at(self, now: float) -> None:
        """Move the clock."""
        self.clock.advance(now - self.clock.now())

    def see(self, now: float, run_id: str = "old") -> CycleReport:
        """One pass with a batch of a second: of 1000 records a second, 100 more wait each second."""
        self.at(now)
        self._batch += 1
        source = SourceProgress("s", None, str(int(DONE * now)), None, DONE)
        batch = BatchProgress(
            "slow", "q", run_id, self._batch, now - 1.0, now, DONE, {}, (source,), self.state_rows
        )  # fmt: skip
        executor = ExecutorState("1", "h", 1, True, 0, 0.0)
        self.remote.telemetry = Telemetry("slow", now, (batch,), (executor,), CpuReading(now, now, 0.0, None, 1))
        report = self.cycle.run_once(now)
        self.supervision.take(report)
        return report

    def miss(self, now: float) -> None:
        """A pass that fails because nobody answers."""
        self.at(now)
        with pytest.raises(MetricSourceError) as fault:
            self.cycle.run_once(now)
        self.supervision.note_fault("slow", str(fault.value))

    def until_decided(self) -> CycleReport:
        """Some seconds at the top of its limits."""
        for now in range(1, 30):
            report = self.see(float(now))
            if report.decision is not None and report.decision.is_change:
                return report
        raise AssertionError("nothing was decided")


def state(scene: Scene) -> State:
    """Where the process is now."""
    return scene.operator.state


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Sleeper]:
    """Processes that can be let end."""
    with Warden() as warden:
        yield Sleeper(warden, tmp_path)


def test_a_larger_size_is_decided_carried_out_and_verified(launcher: Sleeper, tmp_path: Path) -> None:
    """The process ends at the border and starts with two cores, outside the count of deaths; the pause is kept."""
    scene = Scene(launcher, tmp_path)
    report = scene.until_decided()
    decision, began = report.decision, report.observation.at
    assert decision is not None
    assert decision.explain().splitlines()[0] == (
        "slow: restart larger: 1 executor x 100% CPU -> 1 executor of 2 cores, 1g x 100% CPU"
    )
    assert decision.evidence["pause_expected_seconds"] == 30.0
    assert (scene.remote.borders, scene.remote.requests) == ([60.0], [])
    assert state(scene) is State.STOPPING
    last = scene.see(began + 1.0)
    assert launcher.cores == ["1"], "it was started before the old one had ended"
    assert last.decision is not None
    assert not last.decision.is_change
    launcher.end(ENDED_AT_BORDER)
    scene.remote.answers = False
    scene.miss(began + 2.0)
    assert (state(scene), launcher.cores) == (State.STARTING, ["1", "2"])
    assert scene.operator.is_resizing
    scene.miss(began + 3.0)
    scene.remote.answers = True
    scene.supervision.note_fault("slow", "not yet")
    assert state(scene) is State.RUNNING
    assert [a.target for a in scene.remote.requests] == [Allocation(1)], "the rest of the allocation, without its size"
    report = scene.see(began + 22.0, "new")
    assert scene.operator.pauses == [20.0]
    assert (scene.operator.restarts, scene.operator.size) == (0, scene.larger)
    assert not any("nobody there" in text for text in scene.listener.said), "it is away, as it should be"
    assert kept_size(scene.store, scene.operator.settings) == scene.larger
    assert report.observation.cluster.observed == Allocation(1, 1.0, scene.larger)
    (outcome,) = scene.store.outcomes()
    assert outcome.status is OutcomeStatus.DONE
    assert outcome.detail.startswith("stopped at a batch border, paused for 20 s (batch ")
    assert any(text.endswith(outcome.detail) for text in scene.listener.said)
    assert [d.decision_id for d in scene.store.decisions(changes_only=True)] == [decision.decision_id]
    assert [a.decision_id for a in scene.store.actions()] == [decision.decision_id]


@pytest.fixture
def crashes() -> Iterator[list[str]]:
    """Gets an entry where a controller could die because a size was kept."""
    happened: list[str] = []
    plan_crash({VARIABLE: "size-kept"}, lambda: happened.append("crash"))
    yield happened
    plan_crash({})


def test_a_size_is_kept_when_it_has_changed(launcher: Sleeper, tmp_path: Path, crashes: list[str]) -> None:
    """Once the new process is there."""
    scene = Scene(launcher, tmp_path)
    began = scene.until_decided().observation.at
    assert crashes == []
    launcher.end(ENDED_AT_BORDER)
    scene.see(began + 1.0)
    assert (launcher.cores, crashes) == (["1", "2"], ["crash"])


def test_no_size_is_kept_after_a_death(launcher: Sleeper, tmp_path: Path, crashes: list[str]) -> None:
    """A process that is started again as it was passes no border between two sizes."""
    scene = Scene(launcher, tmp_path, deaths=1)
    scene.see(0.5)
    launcher.end(1)
    for now in (1.0, 5.0, 10.0):
        scene.at(now)
        scene.supervision.note_fault("slow", "nobody there")
    assert (launcher.cores, state(scene)) == (["1", "1"], State.RUNNING)
    assert crashes == []


def test_larger_executors_count_by_their_cores(launcher: Sleeper, tmp_path: Path) -> None:
    """A second with one executor of two cores costs as much as one with two of one core."""
    scene = Scene(launcher, tmp_path)
    before = scene.until_decided().observation.at
    assert scene.operator.account.executor_seconds == before - 1.0
    launcher.end(ENDED_AT_BORDER)
    scene.see(before + 1.0)
    scene.see(before + 2.0, "new")
    had = scene.operator.account.executor_seconds
    scene.see(before + 3.0, "new")
    assert scene.operator.account.executor_seconds == had + 2.0
    assert scene.operator.account.share_seconds == had + 2.0


def test_in_recommend_mode_nothing_is_done(launcher: Sleeper, tmp_path: Path) -> None:
    """The decision is kept and reported, and the operator goes on."""
    scene = Scene(launcher, tmp_path, Mode.RECOMMEND)
    decision = scene.until_decided().decision
    assert decision is not None
    assert "recommended only: not carried out" in decision.explain()
    assert (scene.remote.borders, state(scene)) == ([], State.RUNNING)
    assert scene.store.actions() == []


def test_a_size_that_does_not_start_is_taken_back(launcher: Sleeper, tmp_path: Path) -> None:
    """The operator gets the size before again, no death is counted, and the outcome says that it failed."""
    scene = Scene(launcher, tmp_path)
    began = scene.until_decided().observation.at
    launcher.end(ENDED_AT_BORDER)
    scene.remote.answers = False
    scene.miss(began + 1.0)
    launcher.end(1)
    scene.miss(began + 2.0)
    assert launcher.cores == ["1", "2", "1"]
    scene.remote.answers = True
    scene.supervision.note_fault("slow", "not yet")
    report = scene.see(began + 20.0, "new")
    assert (state(scene), scene.operator.size, scene.operator.pauses) == (State.RUNNING, None, [])
    (outcome,) = scene.store.outcomes()
    assert outcome.status is OutcomeStatus.FAILED
    assert outcome.detail.startswith("it did not start with this size and has the one before again")
    assert any("did not start with another size" in text for text in scene.listener.said)
    assert (scene.operator.is_resizing, scene.operator.restarts) == (False, 0)
    assert report.observation.cluster.planned is None
    assert kept_size(scene.store, scene.operator.settings) is None


def test_a_process_that_does_not_end_is_ended(launcher: Sleeper, tmp_path: Path) -> None:
    """After the patience for its batch and its farewell it is stopped, and started with the new size."""
    scene = Scene(launcher, tmp_path)
    at = scene.until_decided().observation.at
    scene.see(at + 89.0)
    assert launcher.cores == ["1"]
    scene.see(at + 90.0)
    assert launcher.cores == ["1", "2"]


@pytest.mark.parametrize(
    ("code", "text"),
    [(ENDED_IN_BATCH, "stopped in a batch, which was run again"), (77, "stopped at a point that is not known")],
)
def test_a_batch_that_had_to_be_stopped_is_reported(launcher: Sleeper, tmp_path: Path, code: int, text: str) -> None:
    """The outcome says whether a batch was run again, or that it is not known."""
    scene = Scene(launcher, tmp_path)
    began = scene.until_decided().observation.at
    launcher.end(code)
    scene.see(began + 1.0)
    scene.see(began + 20.0, "new")
    (outcome,) = scene.store.outcomes()
    assert outcome.detail.startswith(text)


def test_one_that_cannot_be_reached_goes_on(launcher: Sleeper, tmp_path: Path) -> None:
    """The change has failed, and is weighed again only when everything has shown again."""
    scene = Scene(launcher, tmp_path)

    def refuse(within_seconds: float) -> None:
        raise ActuationError(f"nobody there within {within_seconds} s", target="x", retryable=True)

    scene.remote.stop_at_border = refuse  # type: ignore[method-assign]
    began = scene.until_decided().observation.at
    assert state(scene) is State.RUNNING
    assert [o.status for o in scene.store.outcomes()] == [OutcomeStatus.FAILED]
    for passed in range(1, 10):
        decision = scene.see(began + passed).decision
        assert decision is not None
        assert not decision.is_change
    decision = scene.see(began + 10.0).decision
    assert decision is not None
    assert decision.is_restart


def test_shuffle_partitions_of_a_query_with_state_are_warned_of(launcher: Sleeper, tmp_path: Path) -> None:
    """Spark keeps the number that the state began with, so the user learns that his has no effect."""
    scene = Scene(launcher, tmp_path, shuffle_partitions=8)
    scene.state_rows = 5
    scene.until_decided()
    assert any("shuffle_partitions of its sizes have no effect" in text for text in scene.listener.said)


# --- the actuator ----------------------------------------------------------------------------------------------


def ask(target: Allocation) -> Action:
    """Ask for an allocation."""
    return Action("slow", 0.0, target, None)


def test_it_is_an_actuator_that_restarts(launcher: Sleeper, tmp_path: Path) -> None:
    """The reconciler finds out by its protocol."""
    assert isinstance(Scene(launcher, tmp_path).actuator, RestartingActuator)


def test_live_changes_are_passed_on(launcher: Sleeper, tmp_path: Path) -> None:
    """A request with the size that the process has goes to its agent."""
    scene = Scene(launcher, tmp_path)
    placed = Allocation(1, 1.0, nodes=(("a", 1),))
    scene.actuator.request(ask(Allocation(1, 0.5)))
    scene.actuator.request(ask(placed))
    assert [a.target for a in scene.remote.requests] == [Allocation(1, 0.5), placed]
    assert scene.remote.borders == []


def test_what_cannot_be_done_is_refused_by_name(launcher: Sleeper, tmp_path: Path) -> None:
    """A size that is not listed, and another size while one is on its way."""
    scene = Scene(launcher, tmp_path)
    with pytest.raises(ActuationError, match=r"^size: slow has no size of 8 cores, 1g; list it under `sizes`"):
        scene.actuator.request(ask(Allocation(1, 1.0, ExecutorSize(8, "1g"))))
    scene.actuator.request(ask(Allocation(1, 1.0, scene.larger)))
    with pytest.raises(ActuationError, match=r"^size: slow is being restarted with another size") as fault:
        scene.actuator.request(ask(Allocation(1, 1.0)))
    assert fault.value.retryable
    scene.actuator.request(ask(Allocation(1, 0.5, scene.larger)))
    assert scene.remote.borders == [60.0], "one restart, whatever else of the allocation changes"


def test_what_is_asked_for_last_is_asked_of_the_new_process(launcher: Sleeper, tmp_path: Path) -> None:
    """An agent that does not answer at once is asked again."""
    scene = Scene(launcher, tmp_path)
    scene.actuator.request(ask(Allocation(1, 1.0, scene.larger)))
    scene.actuator.request(ask(Allocation(1, 0.5, scene.larger)))
    launcher.end(ENDED_AT_BORDER)
    scene.operator.watch(1.0, scene.listener.said.append)
    scene.operator.watch(2.0, scene.listener.said.append)
    scene.remote.answers = False
    scene.actuator.carry_on()
    scene.remote.answers = True
    scene.actuator.carry_on()
    scene.actuator.carry_on()
    assert [a.target for a in scene.remote.requests] == [Allocation(1, 0.5)]


def test_a_policy_gets_sizes_only_where_there_are_some() -> None:
    """Without sizes the policy that is named decides alone."""
    settings = parse_settings(
        {
            "name": "p",
            "arrivals": {"shape": "constant:rate=5,duration=5s"},
            "operators": [{"name": "slow", "app": "a:b"}],
            "policy": {"name": "fixed"},
        }
    )
    assert settings.operators[0].limits() == Limits(1, 1)
    assert isinstance(policy_of(settings, policy_context(settings)), FixedPolicy)
