# SPDX-License-Identifier: Apache-2.0
"""An operator of a run whose agent hangs does not hold up those who look after all operators."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, cast

import pytest
from tests.unit.running.test_run_wiring import Listener

from penstock.clock import VirtualClock
from penstock.errors import ActuationError, AdaptorError, ClusterError
from penstock.loop import PatientActuator
from penstock.policies.fixed import FixedPolicy
from penstock.ports import RestartingActuator
from penstock.records import Action, Allocation, ExecutorSize, Limits, Mode
from penstock.running import assembly, running_operator
from penstock.running.assembly import Assembly
from penstock.running.back_off import BackOff
from penstock.running.operator_actuator import OperatorActuator, PatientOperatorActuator
from penstock.running.operator_job import JobInput, OperatorJob
from penstock.running.running_operator import RunningOperator, State
from penstock.settings import OperatorSettings, RestartSettings, parse_settings

WAIT_SECONDS = 30.0
LARGER = ExecutorSize(2, "1g")


class GatedRemote:
    """An agent that answers when its gate is open."""

    can_set_cpu_share = True

    def __init__(self) -> None:
        self.gate, self.is_there = threading.Event(), True
        self.gate.set()
        self.asked: list[str] = []

    def beat(self) -> None:
        """Answer in time."""
        self._answer("beat")

    def request(self, action: Action) -> None:
        """Answer in time."""
        self._answer(f"request {action.target.executors}")

    def stop_at_border(self, within_seconds: float) -> None:
        """Answer in time."""
        self._answer(f"stop within {within_seconds:.0f} s")

    def open_shares(self) -> None:
        """Answer in time."""
        self._answer("open")

    def release(self) -> None:
        """Answer in time."""
        self._answer("release")

    def _answer(self, asked: str) -> None:
        self.asked.append(asked)
        assert self.gate.wait(WAIT_SECONDS)
        if not self.is_there:
            raise ActuationError("nobody there", target="x", retryable=True)


class ToyProcess:
    """A process that ends when it is told to."""

    log = Path("x.log")

    def __init__(self) -> None:
        self.code: int | None = None

    def poll(self) -> int | None:
        """How it ended, if it has."""
        return self.code

    def raise_if_ended(self) -> None:
        """It has not."""

    def tail(self) -> str:
        """Nothing was written."""
        return ""


class ToyLauncher:
    """Starts toys."""

    def __init__(self) -> None:
        self.started: list[ToyProcess] = []

    def start(self, job: OperatorJob) -> ToyProcess:
        """One more."""
        self.started.append(ToyProcess())
        return self.started[-1]

    def stop(self, child: ToyProcess) -> None:
        """End it."""
        child.code = 0

    def last_words(self) -> str | None:
        """It has none."""
        return None


class Scene:
    """An operator of two sizes, and those who act on it."""

    def __init__(self, folder: Path) -> None:
        self.launcher, self.remote, self.said = ToyLauncher(), GatedRemote(), list[str]()
        job = OperatorJob("a", "a:b", "local", Limits(1, 4), Mode.ACT, str(folder), "s", JobInput(replay={}))
        other = OperatorJob("a", "a:b", "local", Limits(1, 4), Mode.ACT, str(folder), "s", JobInput(replay={}))
        self.operator = RunningOperator(
            OperatorSettings(name="a", app="a:b"),
            {None: job, LARGER: other},
            launcher=cast("Any", self.launcher),
            remote=cast("Any", self.remote),
            back_off=BackOff(RestartSettings(first_wait=2.0, start_within=100.0)),
        )
        self.inner = OperatorActuator(self.operator, 60.0, VirtualClock().monotonic)
        self.actuator = PatientOperatorActuator(self.inner, patience_seconds=0.5)
        self.operator.start(0.0)

    def watch(self, now: float) -> None:
        """Look after it."""
        self.operator.watch(now, self.said.append)

    def ask(self, executors: int, size: ExecutorSize | None = None) -> None:
        """Ask for an allocation."""
        self.actuator.request(Action("a", 0.0, Allocation(executors, 1.0, size), None))

    def answer(self) -> None:
        """Let the agent answer, and wait until it has."""
        self.remote.gate.set()
        assert self.actuator._newest is not None
        assert self.actuator._newest.is_there.wait(WAIT_SECONDS)


def state(scene: Scene) -> State:
    """Where the process is now."""
    return scene.operator.state


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """An operator whose agent is waited for a moment only."""
    monkeypatch.setattr(running_operator, "_PATIENCE_SECONDS", 0.5)
    return Scene(tmp_path)


def test_an_agent_that_hangs_at_the_start_is_asked_once(scene: Scene) -> None:
    """It has not answered until it does; whoever looks after the operators goes on."""
    scene.remote.gate.clear()
    for now in (1.0, 2.0, 3.0):
        scene.watch(now)
    assert scene.remote.asked == ["beat"]
    assert state(scene) is State.STARTING
    beat = scene.operator._beat
    assert beat is not None
    scene.remote.gate.set()
    assert beat.is_there.wait(WAIT_SECONDS)
    scene.watch(4.0)
    assert scene.said == ["runs again"]


def test_an_agent_that_hangs_for_too_long_did_not_start(scene: Scene) -> None:
    """Once the connection has given it up; a process that is asked long after its start may take that long, too."""
    scene.remote.gate.clear()
    for now in (99.0, 101.0):
        assert not scene.operator.is_ready(now)
    beat = scene.operator._beat
    assert beat is not None
    scene.remote.is_there = False
    scene.remote.gate.set()
    assert beat.is_there.wait(WAIT_SECONDS)
    with pytest.raises(ClusterError, match="did not start within 100 s"):
        scene.operator.is_ready(102.0)


def test_what_an_agent_answers_late_says_nothing_about_the_next_process(scene: Scene) -> None:
    """A process that was started since is asked itself."""
    scene.remote.gate.clear()
    scene.watch(1.0)
    beat = scene.operator._beat
    assert beat is not None
    scene.operator.start(2.0)
    scene.remote.gate.set()
    assert beat.is_there.wait(WAIT_SECONDS)
    scene.remote.is_there = False
    assert not scene.operator.is_ready(3.0)
    assert scene.remote.asked == ["beat", "beat"]


def test_a_late_answer_to_a_restart_begins_it(scene: Scene) -> None:
    """Until then the operator counts as one that runs; the rest of its allocation is asked for when it runs again."""
    scene.watch(1.0)
    scene.remote.gate.clear()
    scene.ask(2, LARGER)
    assert scene.actuator.outstanding is not None
    scene.watch(2.0)
    assert state(scene) is State.RUNNING
    scene.answer()
    assert scene.actuator.take_answer()
    assert state(scene) is State.STOPPING
    scene.launcher.started[0].code = 0
    scene.watch(3.0)
    assert scene.operator.size == LARGER
    scene.watch(4.0)
    scene.actuator.carry_on()
    scene.actuator.carry_on()
    assert scene.remote.asked == ["beat", "stop within 60 s", "beat", "request 2"]


def test_an_agent_that_hangs_is_asked_once_for_the_rest_of_an_allocation(scene: Scene) -> None:
    """Those who look after all operators go on meanwhile, and nothing else is asked for."""
    scene.watch(1.0)
    scene.ask(2, LARGER)
    scene.launcher.started[0].code = 0
    for now in (2.0, 3.0):
        scene.watch(now)
    scene.remote.gate.clear()
    for _ in range(3):
        scene.actuator.carry_on()
    assert scene.remote.asked[-2:] == ["beat", "request 2"]
    with pytest.raises(ActuationError, match="has not answered the last request"):
        scene.ask(3, LARGER)
    scene.answer()
    scene.actuator.carry_on()
    assert scene.remote.asked[-2:] == ["beat", "request 2"]


def test_a_process_that_died_and_was_started_again_is_not_ended_by_a_late_answer(scene: Scene) -> None:
    """What was asked to end has ended: the change has failed, and the next decision may ask again."""
    scene.watch(1.0)
    scene.remote.gate.clear()
    scene.ask(2, LARGER)
    scene.launcher.started[0].code = -9
    scene.watch(2.0)
    scene.watch(10.0)
    assert len(scene.launcher.started) == 2
    scene.answer()
    with pytest.raises(ActuationError, match="ended while it was asked to") as fault:
        scene.actuator.take_answer()
    assert fault.value.retryable
    assert state(scene) is State.STARTING
    assert not scene.operator.is_resizing


def test_an_operator_that_is_being_stopped_for_another_size_is_started_by_who_leaves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else will start it: whoever leaves waits until its agent has said that it stops."""
    scene.watch(1.0)
    scene.remote.gate.clear()
    scene.ask(2, LARGER)
    parts = object.__new__(Assembly)
    parts.operators, parts.actuators, parts.cycles = {"a": scene.operator}, {"a": scene.actuator}, {}
    parts._clock, parts.listener = VirtualClock(), Listener()
    waits, settle = threading.Event(), scene.actuator.settle

    def wait_for_it(seconds: float) -> None:
        waits.set()
        settle(seconds)

    monkeypatch.setattr(scene.actuator, "settle", wait_for_it)
    leaving = threading.Thread(target=parts.leave)
    leaving.start()
    assert waits.wait(WAIT_SECONDS)
    assert len(scene.launcher.started) == 1
    scene.remote.gate.set()
    leaving.join(WAIT_SECONDS)
    assert not leaving.is_alive()
    assert len(scene.launcher.started) == 2, "it runs with its new size"
    assert state(scene) is State.STARTING


def test_a_run_asks_its_operators_patiently(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What acts for the loop is waited for only so long; a run that is left waits longer, for nobody waits for it."""
    monkeypatch.setattr(assembly, "OperatorLauncher", lambda *_, **__: ToyLauncher())
    run = {"arrivals": {"shape": "constant:rate=5,duration=5s"}, "operators": [{"name": "a", "app": "a:b"}]}
    settings, listener = (
        parse_settings({"name": "p", "cluster": {"master": "spark://elsewhere:7077"}, **run}),
        Listener(),
    )
    with Assembly(
        settings,
        tmp_path,
        listener=listener,
        clock=VirtualClock(),
        stop=threading.Event(),
        resume=False,
        policy=None,
    ) as parts:
        (only,) = settings.operators
        parts._start_operator(only, "local", {}, tmp_path)
        operator = parts.operators[only.name]
        operator.remote._can_set_cpu_share = False
        cycle = parts._make_cycle(operator, FixedPolicy())
        actuator = parts.actuators[only.name]
        assert isinstance(actuator, PatientActuator)
        assert isinstance(actuator, RestartingActuator), "a restart is judged by the process"
        assert cycle._reconciler._actuator is actuator
        within: list[float | None] = []

        def refuse(seconds: float | None = None) -> None:
            within.append(seconds)
            raise AdaptorError("nobody there")

        monkeypatch.setattr(actuator, "open_shares", refuse)
        parts.cycles[only.name] = cycle
        parts._open_shares()
        parts.leave()
        assert within == [None, 60.0]
        parts.cycles.clear()
    assert any("CPU shares could not be opened" in text for text in listener.said)
