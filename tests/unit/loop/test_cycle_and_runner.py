# SPDX-License-Identifier: Apache-2.0
"""One pass, and many on time, under a virtual clock."""

import threading
from collections.abc import Callable

import pytest

from penstock.account import OperatorAccount
from penstock.clock import VirtualClock
from penstock.errors import MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies.threshold import ThresholdPolicy
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    Quality,
    SourceProgress,
    Telemetry,
)

LIMITS = Limits(1, 2, (0.5, 1.0))


class ToyOperator:
    """An operator whose CPU use is set by the test, and whose executors come at once."""

    can_set_cpu_share = True

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.load_cores = 0.1
        self.used_seconds = 0.0
        self.allocation = Allocation(2, 1.0)
        self.asked: list[Action] = []
        self.is_lost = False
        self.released = 0
        self._last = clock.now()
        self._batch = 0

    def collect(self) -> Telemetry:
        """A batch per look, CPU as loaded."""
        now = self.clock.now()
        if self.is_lost:
            raise MetricSourceError("socket closed", target="toy", retryable=True)
        self.used_seconds += min(self.load_cores, self.allocation.capacity) * (now - self._last)
        self._last = now
        self._batch += 1
        source = SourceProgress("toy", None, None, None, 10)
        batch = BatchProgress("a", "q", "r", self._batch, now - 0.5, now, 10, {}, (source,))
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self.allocation.executors))
        quota = self.allocation.capacity if self.allocation != LIMITS.top else None
        return Telemetry("a", now, (batch,), executors, CpuReading(now, self.used_seconds, 0.0, quota, 1))

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self.asked.append(action)
        self.allocation = action.target

    def release(self) -> None:
        """Back to the size before."""
        self.released += 1
        self.allocation = Allocation(2, 1.0)


def a_loop(
    clock: VirtualClock, *, mode: Mode = Mode.ACT, on_report: Callable[[CycleReport], None] | None = None
) -> tuple[ToyOperator, MemoryStore, Runner]:
    """A loop over one toy operator."""
    operator = ToyOperator(clock)
    store = MemoryStore()
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=5.0),
        policy=ThresholdPolicy(every_seconds=10.0),
        guards=default_guards(up_seconds=0.0, down_seconds=10.0, opposite_seconds=20.0),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective(),
        mode=mode,
    )
    return operator, store, Runner([cycle], clock, on_report=on_report)


def test_an_idle_operator_is_scaled_down_and_a_busy_one_up() -> None:
    """Load 0.1 cores goes down to the smallest size; load 5 cores goes up to the top again."""
    clock = VirtualClock(1000.0)
    operator, store, runner = a_loop(clock)
    runner.run(until=1200.0)
    assert [d.verb for d in store.decisions(changes_only=True)] == ["scale down"] * 2  # 2 -> 1 x 100% -> 1 x 50%
    assert operator.asked[-1].target == Allocation(1, 0.5)
    assert operator.allocation == Allocation(2, 1.0)  # released at the end
    operator, store, runner = a_loop(clock)
    operator.allocation = Allocation(1, 0.5)
    operator.load_cores = 5.0
    runner.run(until=1400.0)
    assert operator.asked[-1].target == LIMITS.top


def test_every_decision_is_kept_with_evidence_and_reason() -> None:
    """Holds too are remembered, each with what was looked at."""
    clock = VirtualClock(0.0)
    _, store, runner = a_loop(clock)
    runner.run(until=60.0)
    decisions = store.decisions()
    assert len(decisions) == 6  # one every 10 s
    assert all(d.reason and "utilisation" in d.evidence for d in decisions)
    assert len(store.observations()) == 60
    assert {t.stage for t in store.stage_times()} == {"collect", "observe", "plan", "act", "remember"}


def test_a_restarted_controller_keeps_the_guard_times() -> None:
    """What the controller before did counts for the one after: no opposite change right away."""
    clock = VirtualClock(0.0)
    _, store, runner = a_loop(clock)
    runner.run(until=15.0)
    assert len(store.decisions(changes_only=True)) == 1
    operator = ToyOperator(clock)
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=0.0),
        policy=ThresholdPolicy(every_seconds=1.0),
        guards=default_guards(up_seconds=0.0, down_seconds=60.0, opposite_seconds=0.0),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )
    Runner([cycle], clock).run(until=60.0)
    assert operator.asked == []
    assert any("cooldown" in a.guard for d in store.decisions() for a in d.amended_by)


def test_executors_that_still_start_are_not_taken_for_too_few() -> None:
    """Before the data are good nothing is asked for, not even the way into the limits."""
    clock = VirtualClock(0.0)
    operator, store, runner = a_loop(clock)
    operator.allocation = Allocation(0, 1.0)
    runner.run(until=5.0)
    assert operator.asked == []
    assert all(d.target == d.current for d in store.decisions())


def test_what_cannot_be_kept_is_not_done() -> None:
    """With a store that fails no change is asked for."""
    clock = VirtualClock(0.0)
    operator, store, runner = a_loop(clock)

    def full(decision: object) -> None:
        raise OSError("no space left")

    store.add_decision = full  # type: ignore[method-assign]
    runner.run(until=60.0)
    assert operator.asked == []
    assert runner.faults > 0


def test_a_clock_set_back_does_not_stop_the_loop() -> None:
    """After an hour's step back the next pass comes an interval later."""
    clock = VirtualClock(10_000.0)

    def step_back(report: CycleReport) -> None:
        if runner.passes == 1:
            clock._now -= 3600.0
        if runner.passes == 20:
            runner.stop()

    _, _, runner = a_loop(clock, on_report=step_back)
    runner.run()
    assert clock.now() == pytest.approx(6400.0 + 19.0)


def test_recommend_does_all_but_act() -> None:
    """In recommend mode the same decisions come, and nothing is asked for."""
    clock = VirtualClock(0.0)
    operator, store, runner = a_loop(clock, mode=Mode.RECOMMEND)
    runner.run(until=60.0)
    assert operator.asked == []
    assert any(d.is_change and d.mode is Mode.RECOMMEND for d in store.decisions())


def test_a_pass_that_fails_changes_nothing_and_the_next_goes_on() -> None:
    """While the operator cannot be reached nothing is asked for; afterwards control goes on."""
    clock = VirtualClock(0.0)
    reports: list[CycleReport] = []
    operator, _, runner = a_loop(clock, on_report=reports.append)
    faults: list[str] = []
    runner._on_fault = lambda name, text: faults.append(text)
    operator.is_lost = True
    runner.run(until=5.0)
    assert runner.faults == 5
    assert set(faults) == {"socket closed"}
    assert operator.asked == []
    operator.is_lost = False
    runner.run(until=30.0)
    assert reports[-1].observation.quality is Quality.GOOD
    assert operator.asked


def test_a_defect_of_ours_does_not_end_the_loop() -> None:
    """An unexpected exception is counted and the loop goes on."""
    clock = VirtualClock(0.0)

    def broken(report: CycleReport) -> None:
        raise RuntimeError("a view that breaks")

    operator, _, runner = a_loop(clock, on_report=broken)
    runner.run(until=10.0)
    assert runner.passes == 10
    assert runner.faults == 10
    assert operator.released == 1


def test_late_passes_are_counted_and_not_made_up_for() -> None:
    """A pass that takes 3.5 intervals misses turns; the schedule goes on from there."""
    clock = VirtualClock(0.0)

    def slow(report: CycleReport) -> None:
        if clock.now() == 2.0:
            clock.advance(3.5)

    _, _, runner = a_loop(clock, on_report=slow)
    runner.run(until=10.0)
    assert runner.missed_turns == 2  # due at 3, seen at 5.5: the turns of 4 and 5 fell out
    assert runner.passes == 8


def test_stop_ends_the_thread_and_releases() -> None:
    """A loop in a thread ends when told and puts everything back; twice is as good as once."""
    clock = VirtualClock(0.0)
    seen = threading.Event()
    operator, _, runner = a_loop(clock, on_report=lambda report: seen.set())
    runner.start()
    assert seen.wait(10.0)
    runner.stop()
    runner.stop()
    assert operator.released == 1


def test_the_account_integrates_what_was_observed() -> None:
    """Two executors at 100 %, then one at 50 %: executor time and shares add up."""
    clock = VirtualClock(0.0)
    account = OperatorAccount()
    operator, _, runner = a_loop(clock, on_report=account.add)
    runner.run(until=100.0)
    assert account.observed_seconds == pytest.approx(99.0)
    assert account.executor_seconds > 99.0
    assert account.cpu_share_mean is not None
    assert 0.5 < account.cpu_share_mean < 1.0
    assert len(account.decisions) == len(operator.asked) == 2
