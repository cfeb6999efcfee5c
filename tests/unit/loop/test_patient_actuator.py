# SPDX-License-Identifier: Apache-2.0
"""One operator whose driver hangs while it is asked for something does not hold up the others."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from penstock.clock import VirtualClock
from penstock.crash_points import POINTS, VARIABLE, plan_crash
from penstock.errors import ActuationError, ActuationTimeoutError
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle, CycleReport, PatientActuator, Runner
from penstock.monitor import Monitor
from penstock.ports import AnsweringActuator
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    Decision,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    OutcomeStatus,
    PlanRequest,
    SourceProgress,
    Telemetry,
)
from penstock.testing import FakeActuator, check_actuator

LIMITS = Limits(1, 4)
WAIT_SECONDS = 30.0


class Gated:
    """An operator: what it is asked for is done when its gate is open, and not done where it is to fail."""

    can_set_cpu_share = True

    def __init__(self, name: str = "a", *, is_open: bool = False) -> None:
        self.name, self.gate = name, threading.Event()
        self.clock = VirtualClock(100.0)
        self.executors, self.batch = 1, 0
        self.done: list[str] = []
        self.requests: list[Action] = []
        self.fault: Exception | None = None
        if is_open:
            self.gate.set()

    def request(self, action: Action) -> None:
        """Wait for the gate."""
        self.requests.append(action)
        self._wait()
        if self.fault is not None:
            raise self.fault
        self.executors = action.target.executors
        self.done.append("request")

    def open_shares(self) -> None:
        """Wait for the gate."""
        self._wait()
        self.done.append("open")

    def release(self) -> None:
        """Wait for the gate."""
        self._wait()
        self.done.append("release")

    def collect(self) -> Telemetry:
        """What is there now, and a batch."""
        now = self.clock.now()
        self.batch += 1
        source = SourceProgress("toy", None, None, None, 10)
        batch = BatchProgress(self.name, "q", "r", self.batch, now - 0.5, now, 10, {}, (source,))
        executors = tuple(ExecutorState(str(n), "h", 1, True, 0, 0.0) for n in range(self.executors))
        return Telemetry(self.name, now, (batch,), executors, CpuReading(now, now, 0.0, None, self.executors))

    def _wait(self) -> None:
        assert self.gate.wait(WAIT_SECONDS)


class Wish:
    """Wants what it is set to, as often as it is asked."""

    name, every_seconds = "wish", 1.0

    def __init__(self, executors: int) -> None:
        self.executors = executors

    def plan(self, request: PlanRequest) -> Decision:
        """The wish."""
        target = Allocation(self.executors)
        return Decision(request.operator, request.at, self.name, request.current, target, "a wish")


class Scene:
    """The control of one operator, which knows it for some passes, and now wants two executors for it."""

    def __init__(self, operator: Gated, *, patience_seconds: float = 0.5, executors: int = 2) -> None:
        self.operator, self.wish, self.store = operator, Wish(operator.executors), MemoryStore()
        self.actuator = PatientActuator(operator, patience_seconds=patience_seconds)
        self.reconciler = Reconciler(operator.name, self.actuator, LIMITS)
        self.cycle = Cycle(
            source=operator,
            monitor=Monitor(operator.name, None, window_seconds=3.0, warm_up_seconds=0.0),
            policy=self.wish,
            guards=(),
            reconciler=self.reconciler,
            store=self.store,
            limits=LIMITS,
            objective=Objective(),
            mode=Mode.ACT,
        )
        for _ in range(3):
            self.see()
        self.wish.executors = executors

    def see(self) -> CycleReport:
        """One pass, a second after the one before."""
        self.operator.clock.advance(1.0)
        return self.cycle.run_once(self.operator.clock.now())

    @property
    def decided(self) -> list[Allocation]:
        """What was to be changed, as the store has it."""
        return [decision.target for decision in self.store.decisions(self.operator.name, changes_only=True)]

    def answer(self) -> None:
        """Let the driver answer, and wait until it has."""
        self.operator.gate.set()
        newest = self.actuator._newest
        assert newest is not None
        assert newest.is_there.wait(WAIT_SECONDS)


def test_the_passes_of_others_go_on_while_a_request_hangs() -> None:
    """The one that hangs has faults that say so, and the others a pass per turn; it is back when it answers."""
    hung, well = Scene(Gated("hung")), Scene(Gated("well", is_open=True), executors=1)
    meanwhile, faults = list[str](), list[tuple[str, str]]()

    def on_report(report: CycleReport) -> None:
        operator = report.observation.operator
        if hung.operator.done and operator == "hung":
            runner.stop()
        elif hung.operator.requests and not hung.operator.done:
            meanwhile.append(operator)
            if meanwhile.count("well") == 5:
                hung.answer()

    clock = hung.operator.clock = well.operator.clock
    runner = Runner([hung.cycle, well.cycle], clock, on_report=on_report, on_fault=lambda *f: faults.append(f))
    runner.run(until=clock.now() + 60.0)
    assert meanwhile == ["hung", "well", "well", "well", "well", "well"], "the well one waited for the other"
    assert hung.operator.done == ["request", "release"], "it was asked more than once"
    assert {name for name, _ in faults} == {"hung"}
    assert faults[0][1].startswith("its driver has not answered the last request for ")
    assert hung.decided == [Allocation(2)]


def test_a_late_answer_counts_from_the_pass_after_it() -> None:
    """Until then nothing is decided, recorded or asked for; then what was asked for is known, and verified as ever."""
    scene = Scene(Gated())
    scene.see()
    assert scene.reconciler.state.planned == Allocation(2)
    assert scene.reconciler.state.requested is None, "nobody has said that it was heard"
    scene.wish.executors = 3
    for _ in range(3):
        with pytest.raises(ActuationError, match="has not answered the last request") as fault:
            scene.see()
        assert fault.value.retryable
    assert scene.decided == [Allocation(2)]
    assert [action.target for action in scene.store.actions("a")] == [Allocation(2)]
    scene.answer()
    reports = [scene.see() for _ in range(3)]
    assert [outcome.status for outcome in reports[0].outcomes] == [OutcomeStatus.DONE]
    assert [report.action.target for report in reports if report.action] == [Allocation(3)], "it follows what is wanted"
    assert scene.reconciler.state.requested == Allocation(3)
    assert [action.target.executors for action in scene.operator.requests] == [2, 3]


def test_a_late_answer_says_what_was_requested() -> None:
    """Also while what was asked for is not there yet: it is waited for, not asked for again."""
    scene = Scene(Gated())
    scene.see()
    scene.answer()
    scene.operator.executors = 1
    report = scene.see()
    assert report.outcomes == []
    assert report.action is None
    assert scene.reconciler.state.requested == Allocation(2)
    assert len(scene.operator.requests) == 1


def test_a_late_error_ends_the_action() -> None:
    """The action has failed with the words of the driver, and planning goes on from what is there."""
    scene = Scene(Gated())
    scene.operator.fault = ActuationError("no executors here", target="a")
    first = scene.see()
    assert first.action is not None
    scene.answer()
    scene.wish.executors = 1
    report = scene.see()
    (failed,) = report.outcomes
    assert (failed.request_id, failed.status, failed.detail) == (
        first.action.request_id,
        OutcomeStatus.FAILED,
        "no executors here",
    )
    assert scene.reconciler.state.planned is None
    assert scene.reconciler.state.requested is None
    assert scene.see().outcomes == [], "it was said twice"


def test_a_late_error_of_what_came_about_all_the_same_is_none() -> None:
    """Where only the answer was lost, what is seen counts."""
    scene = Scene(Gated())
    scene.operator.fault = ActuationError("the reply was lost", target="a", retryable=True)
    scene.see()
    scene.answer()
    scene.operator.executors = 2
    report = scene.see()
    assert [outcome.status for outcome in report.outcomes] == [OutcomeStatus.DONE]
    assert scene.reconciler.state.planned == Allocation(2)


def test_an_answer_in_time_is_as_one_without_patience() -> None:
    """A request that is answered is known in its own pass, and so is one that is refused."""
    scene = Scene(Gated(is_open=True), patience_seconds=WAIT_SECONDS)
    scene.see()
    assert scene.reconciler.state.requested == Allocation(2)
    scene.operator.fault, scene.wish.executors = ActuationError("no more", target="a"), 3
    report = scene.see()
    assert [(o.status, o.detail) for o in report.outcomes] == [
        (OutcomeStatus.DONE, ""),
        (OutcomeStatus.FAILED, "no more"),
    ]
    assert scene.reconciler.state.requested == Allocation(2)


def test_what_was_let_go_is_not_taken_up_by_a_late_answer() -> None:
    """Somebody else has changed what the operator has: the request of before says nothing about it."""
    scene = Scene(Gated())
    scene.see()
    scene.cycle.let_go()
    scene.answer()
    assert scene.reconciler.hear() is None
    assert scene.reconciler.state.requested is None


class Dead(BaseException):
    """The controller died."""


@pytest.mark.parametrize("point", ["request-made", "requested", "acted", "action-kept", "pass-ended"])
def test_a_controller_that_dies_while_an_answer_is_outstanding_leaves_its_decision(point: str) -> None:
    """The decision was kept before anything was asked for, and nothing before its point is said to have happened."""

    def die() -> None:
        raise Dead

    assert point in POINTS
    scene = Scene(Gated())
    plan_crash({VARIABLE: point}, die)
    try:
        with pytest.raises(Dead):
            scene.see()
    finally:
        plan_crash({})
    assert scene.decided == [Allocation(2)]
    assert len(scene.store.actions("a")) == (1 if point in ("action-kept", "pass-ended") else 0)
    is_asked = point != "request-made"
    assert len(scene.operator.requests) == (1 if is_asked else 0)
    assert scene.reconciler.state.requested is None
    if is_asked:
        # The next controller sees what came of it, and asks for nothing again.
        scene.answer()
        following = Scene(scene.operator)
        report = following.see()
        assert report.action is None
        assert len(scene.operator.requests) == 1


def test_a_release_waits_for_what_is_outstanding() -> None:
    """In this order, so that a request that was late does not put a cap on what was released."""
    scene = Scene(Gated())
    scene.see()
    released = threading.Thread(target=scene.cycle.release)
    released.start()
    scene.operator.gate.set()
    released.join(WAIT_SECONDS)
    assert not released.is_alive()
    assert scene.operator.done == ["request", "release"]


def test_a_release_waits_for_so_long_only() -> None:
    """The user's program must not hang with the driver; where that comes back in time, all is put back after all."""
    operator = Gated()
    actuator = PatientActuator(operator, patience_seconds=0.5, release_seconds=0.1)
    actuator.request(Action("a", 0.0, Allocation(2), None))
    with pytest.raises(ActuationTimeoutError, match=r"did not answer within 0\.1 s"):
        actuator.release()
    operator.gate.set()
    assert actuator._newest is not None
    assert actuator._newest.is_there.wait(WAIT_SECONDS)
    assert operator.done == ["request", "release"]


def test_shares_are_opened_after_what_is_outstanding() -> None:
    """A store that is lost opens the shares of all: one driver that hangs does not keep the others waiting."""
    operator = Gated()
    actuator = PatientActuator(operator, patience_seconds=0.5)
    actuator.request(Action("a", 0.0, Allocation(2), None))
    with pytest.raises(ActuationTimeoutError, match=r"did not answer within 0\.5 s"):
        actuator.open_shares()
    operator.gate.set()
    actuator.open_shares(WAIT_SECONDS)
    assert operator.done == ["request", "open", "open"]


def test_nothing_is_asked_for_while_an_answer_is_outstanding() -> None:
    """Neither another allocation nor anything else; the request itself is refused with what is waited for."""
    operator = Gated()
    now, calls = [100.0], list[str]()
    actuator = PatientActuator(operator, patience_seconds=0.5, monotonic=lambda: now[0])
    actuator.attempt(lambda: calls.append("before"))
    actuator.request(Action("a", 0.0, Allocation(2), None))
    now[0] = 107.0
    assert actuator.outstanding == "its driver has not answered the last request for 7 s"
    with pytest.raises(ActuationError, match="for 7 s") as fault:
        actuator.request(Action("a", 0.0, Allocation(3), None))
    assert fault.value.retryable
    actuator.attempt(lambda: calls.append("meanwhile"))
    operator.gate.set()
    assert actuator._newest is not None
    assert actuator._newest.is_there.wait(WAIT_SECONDS)
    assert actuator.outstanding is None
    assert actuator.take_answer()
    actuator.attempt(lambda: calls.append("after"))
    assert calls == ["before", "after"]
    assert [action.target.executors for action in operator.requests] == [2]


def test_an_error_of_what_was_attempted_is_raised() -> None:
    """Where it comes in time: a defect is not lost."""
    actuator = PatientActuator(Gated(), patience_seconds=WAIT_SECONDS)
    with pytest.raises(ZeroDivisionError):
        actuator.attempt(lambda: cast("None", 1 / 0))


def test_a_machine_without_threads_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has failed, and the next one is not refused because of it; a release needs no thread."""

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    operator = Gated(is_open=True)
    actuator = PatientActuator(operator)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(ActuationError, match="was not asked: can't start new thread"):
            actuator.request(Action("a", 0.0, Allocation(2), None))
        assert actuator.outstanding is None
        actuator.release()
    assert operator.done == ["release"]


class OpeningActuator(FakeActuator):
    """A fake that can open shares."""

    def open_shares(self) -> None:
        """Nothing is capped."""


def test_it_keeps_the_promises_of_an_actuator() -> None:
    """The suite that every actuator passes."""
    inner: list[OpeningActuator] = []

    def make() -> PatientActuator:
        inner.append(OpeningActuator())
        return PatientActuator(inner[-1], patience_seconds=WAIT_SECONDS)

    check_actuator(make, lambda _: inner[-1].observed, lambda _: None)
    assert isinstance(make(), AnsweringActuator)
