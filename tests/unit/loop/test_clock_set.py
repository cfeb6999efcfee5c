# SPDX-License-Identifier: Apache-2.0
"""A wall clock that is set while the loop runs: what is due stays due, and records have the time that it shows."""

from __future__ import annotations

import pytest

from penstock.account import OperatorAccount
from penstock.clock import ClockSteps, PassedTime, VirtualClock
from penstock.errors import MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies.background import BackgroundAnalysis
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import AnalysisPlace
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
    SourceProgress,
    Telemetry,
)

LIMITS = Limits(1, 2, (0.5, 1.0))


class BusyOperator:
    """An operator that uses all CPU it is given, and never gets the executors that it asks for."""

    can_set_cpu_share = True

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.batch = clock, 0
        self.asked: list[Action] = []
        self.is_deaf = False
        self.allocation = Allocation(1, 0.5)

    def collect(self) -> Telemetry:
        """A batch per look, all CPU used."""
        now, self.batch = self.clock.now(), self.batch + 1
        source = SourceProgress("toy", None, None, None, 10)
        batch = BatchProgress("a", "q", "r", self.batch, now - 0.5, now, 10, {}, (source,))
        executors = tuple(ExecutorState(str(i), "h", 1, True, 0, 0.0) for i in range(self.allocation.executors))
        used = self.clock.monotonic() * self.allocation.capacity
        return Telemetry("a", now, (batch,), executors, CpuReading(now, used, 0.0, self.allocation.capacity, 1))

    def request(self, action: Action) -> None:
        """Take the new size, or not."""
        self.asked.append(action)
        if not self.is_deaf:
            self.allocation = action.target

    def release(self) -> None:
        """Nothing to put back."""


class Setter:
    """Sets the clock at a pass, back again at another one, and ends the loop after a number of them."""

    def __init__(
        self, clock: VirtualClock, at_pass: int, by: float, last: int, *, back_at_pass: int | None = None
    ) -> None:
        self.clock, self.at_pass, self.by, self.last, self.back_at_pass = clock, at_pass, by, last, back_at_pass
        self.runner: Runner | None = None
        self.reports: list[CycleReport] = []

    def __call__(self, report: CycleReport) -> None:
        """One more pass."""
        self.reports.append(report)
        if len(self.reports) == self.at_pass:
            self.clock.set_by(self.by)
        if len(self.reports) == self.back_at_pass:
            self.clock.set_by(-self.by)
        if len(self.reports) == self.last:
            assert self.runner is not None
            self.runner.stop()


def a_loop(clock: VirtualClock, setter: Setter) -> tuple[BusyOperator, MemoryStore, Runner]:
    """A loop over one busy operator."""
    operator, store = BusyOperator(clock), MemoryStore()
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=5.0),
        policy=ThresholdPolicy(every_seconds=10.0),
        guards=default_guards(up_seconds=5.0, down_seconds=10.0, opposite_seconds=20.0),
        reconciler=Reconciler("a", operator, LIMITS, deadline_seconds=30.0),
        store=store,
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )
    setter.runner = Runner([cycle], clock, on_report=setter)
    return operator, store, setter.runner


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_an_overloaded_operator_is_scaled_though_the_clock_was_set(by: float) -> None:
    """Set at the third pass, before any decision: half a minute later it has more, as without."""
    clock = VirtualClock(100_000.0)
    setter = Setter(clock, 3, by, 40)
    operator, _, runner = a_loop(clock, setter)
    runner.run()
    assert operator.allocation == LIMITS.top
    assert runner.missed_turns == 0
    assert [r.observation.at for r in setter.reports[2:5]] == [100_002.0, 100_003.0 + by, 100_004.0 + by]


@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_an_action_fails_at_its_deadline_whatever_the_clock_shows(by: float) -> None:
    """Asked for and never seen: it has failed after 30 s, no sooner and no later."""
    clock = VirtualClock(100_000.0)
    setter = Setter(clock, 20, by, 80)
    operator, store, runner = a_loop(clock, setter)
    operator.is_deaf = True
    runner.run()
    failed = [outcome for outcome in store.outcomes() if outcome.status is OutcomeStatus.FAILED]
    assert failed
    assert failed[0].after_seconds == 30.0
    assert len(operator.asked) == 2


def test_policies_see_how_long_ago_a_change_was() -> None:
    """What they look back at moves with the clock; the store keeps the times that it showed."""
    clock = VirtualClock(100_000.0)
    setter = Setter(clock, 30, -3600.0, 34)
    _, store, runner = a_loop(clock, setter)
    runner.run()
    (change, *_) = store.decisions(changes_only=True)
    cycle = runner._cycles[0]
    passed = 33 - (change.at - 100_000.0)
    assert clock.now() - 1.0 - cycle._recent[0].at == pytest.approx(passed, abs=1.0)
    assert change.at > 100_000.0
    times = [seen.at for seen in cycle._history]
    assert times == sorted(times)


def test_a_clock_that_is_slewed_is_not_set() -> None:
    """Small differences between the two clocks are no step, and they do not add up to one unseen."""
    steps = ClockSteps(least_seconds=2.0)
    assert [steps.take(1000.0 + 1.001 * t, float(t)) for t in range(100)] == [0.0] * 100
    assert steps.take(500.0, 100.0) == pytest.approx(-600.0)


def test_an_analysis_is_due_again_after_the_clock_was_set_back() -> None:
    """It is not put off until the clock shows that time once more."""
    analysis: BackgroundAnalysis[int, int] = BackgroundAnalysis(
        lambda question: question, period_seconds=10.0, place=AnalysisPlace(worker="here")
    )
    analysis.tick(10_000.0, lambda: 1)
    analysis.tick(6_401.0, lambda: 2)
    assert analysis.latest is not None
    assert analysis.latest.answer == 2


def test_a_decision_is_made_right_after_the_clock_was_set_back() -> None:
    """The plan that was due in 10 s is due in 10 s, not in an hour."""
    clock = VirtualClock(100_000.0)
    setter = Setter(clock, 12, -3600.0, 60)
    _, store, runner = a_loop(clock, setter)
    runner.run()
    after = [decision for decision in store.decisions() if isinstance(decision, Decision) and decision.at < 100_000.0]
    assert len(after) >= 4


@pytest.mark.parametrize("back_at_pass", [None, 20])
@pytest.mark.parametrize("by", [-3600.0, 3600.0])
def test_an_account_counts_the_time_that_passed(by: float, back_at_pass: int | None) -> None:
    """Forty passes a second apart are 39 s, whatever the clock shows meanwhile: no hour is paid for that was none."""
    clock, account = VirtualClock(100_000.0), OperatorAccount()
    setter = Setter(clock, 10, by, 40, back_at_pass=back_at_pass)
    _, _, runner = a_loop(clock, setter)
    runner.run()
    for report in setter.reports:
        account.add(report)
    assert account.observed_seconds == 39.0
    assert account.executor_seconds <= 2 * 39.0


def test_a_pass_that_failed_is_within_the_time_that_passed() -> None:
    """The report after it says how long the last report is ago, not the last pass."""
    clock = VirtualClock(100_000.0)
    setter = Setter(clock, 10, -3600.0, 20)
    operator, _, runner = a_loop(clock, setter)
    collect = operator.collect

    def fail_at_fifth() -> Telemetry:
        if clock.monotonic() == 100_005.0:
            raise MetricSourceError("its driver does not answer", target="driver", retryable=True)
        return collect()

    operator.collect = fail_at_fifth  # type: ignore[method-assign]
    runner.run()
    assert [report.passed_seconds for report in setter.reports] == [None, *[1.0] * 4, 2.0, *[1.0] * 14]


def test_an_account_of_kept_looks_leaves_out_an_hour_that_did_not_pass() -> None:
    """Looks in the store have the time that the clock showed: set back, and forward again by as much, it took none."""
    clock, account = VirtualClock(100_000.0), OperatorAccount()
    setter = Setter(clock, 10, -3600.0, 40, back_at_pass=20)
    _, store, runner = a_loop(clock, setter)
    runner.run()
    for seen in store.observations():
        account.add(CycleReport(seen))
    assert account.observed_seconds == pytest.approx(39.0, abs=2.0)


def test_a_gap_without_a_step_back_before_it_is_real() -> None:
    """A controller that was away for an hour left the operator what it had: that hour was paid for."""
    passed = PassedTime()
    assert [passed.take(at) for at in (0.0, 1.0, 3601.0, 3602.0)] == [0.0, 1.0, 3600.0, 1.0]
    assert [passed.take(at) for at in (3302.0, 3303.0, 7000.0)] == [0.0, 1.0, 3697.0], "more than the step back"
