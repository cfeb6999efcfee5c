# SPDX-License-Identifier: Apache-2.0
"""One pass, and many on time, under a virtual clock."""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from penstock.account import OperatorAccount
from penstock.clock import VirtualClock
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.monitor import Monitor
from penstock.plan.guards import default_guards
from penstock.policies.fixed import FixedPolicy
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import Look, Policy
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    CpuReading,
    Decision,
    ExecutorRoom,
    ExecutorState,
    Limits,
    Mode,
    Objective,
    PlanRequest,
    Quality,
    SourceProgress,
    Telemetry,
)
from penstock.testing import a_decision

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
        self.room: ExecutorRoom | None = None
        self.why_no_shares: str | None = None
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
        cpu = CpuReading(now, self.used_seconds, 0.0, quota, 1)
        return Telemetry("a", now, (batch,), executors, cpu, room=self.room, why_no_shares=self.why_no_shares)

    def request(self, action: Action) -> None:
        """Take the new size at once."""
        self.asked.append(action)
        self.allocation = action.target

    def release(self) -> None:
        """Back to the size before."""
        self.released += 1
        self.allocation = Allocation(2, 1.0)


def a_loop(
    clock: VirtualClock,
    *,
    mode: Mode = Mode.ACT,
    on_report: Callable[[CycleReport], None] | None = None,
    store: MemoryStore | None = None,
    since: float = 0.0,
) -> tuple[ToyOperator, MemoryStore, Runner]:
    """A loop over one toy operator."""
    operator = ToyOperator(clock)
    store = store or MemoryStore()
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
        since=since,
    )
    return operator, store, Runner([cycle], clock, on_report=on_report)


def test_an_idle_operator_is_scaled_down_and_a_busy_one_up() -> None:
    """Load 0.1 cores goes down to the smallest size; load 5 cores goes up to the top again."""
    clock = VirtualClock(1000.0)
    operator, store, runner = a_loop(clock)
    runner.run(until=1200.0)
    assert [d.verb for d in store.decisions(changes_only=True)] == [
        "scale in",
        "scale down",
    ]  # 2 -> 1 x 100% -> 1 x 50%
    assert operator.asked[-1].target == Allocation(1, 0.5)
    assert operator.allocation == Allocation(2, 1.0)  # released at the end
    operator, store, runner = a_loop(clock)
    operator.allocation = Allocation(1, 0.5)
    operator.load_cores = 5.0
    runner.run(until=1400.0)
    assert operator.asked[-1].target == LIMITS.top


def test_what_the_cluster_does_not_give_is_not_planned_for() -> None:
    """A busy operator gets all CPU of the one executor that can be had, and a second one when there is room for it."""
    clock, reports = VirtualClock(1000.0), list[CycleReport]()
    operator, store, runner = a_loop(clock, on_report=reports.append)
    operator.allocation, operator.load_cores = Allocation(1, 0.5), 5.0
    operator.room = ExecutorRoom(1, "the queue is full")
    runner.run(until=1100.0)
    assert {decision.target for decision in store.decisions(changes_only=True)} == {Allocation(1, 1.0)}
    said = [note for report in reports for note in report.notes]
    assert said == ["the cluster gives at most 1 executor now, and 2 are allowed: the queue is full"]  # once
    operator, store, runner = a_loop(clock)
    operator.allocation, operator.load_cores = Allocation(1, 1.0), 5.0
    operator.room = ExecutorRoom(2, "the queue is full")
    runner.run(until=1200.0)
    assert operator.asked[-1].target == LIMITS.top


def test_shares_that_nobody_can_set_are_not_planned_for() -> None:
    """An idle operator goes down to one whole executor; when it can be held to a share again, to half of that."""
    clock, reports = VirtualClock(1000.0), list[CycleReport]()
    operator, store, runner = a_loop(clock, on_report=reports.append)
    operator.why_no_shares = "no agent holds executor 1"
    runner.run(until=1100.0)
    assert {decision.target for decision in store.decisions(changes_only=True)} == {Allocation(1, 1.0)}
    said = [note for report in reports for note in report.notes]
    assert said == ["executors are planned without CPU shares: no agent holds executor 1"]  # once
    reports.clear()
    operator, store, runner = a_loop(clock, on_report=reports.append)
    runner.run(until=1200.0)
    assert operator.asked[-1].target == Allocation(1, 0.5)
    assert not [note for report in reports for note in report.notes]


def test_a_full_cluster_takes_nothing_away() -> None:
    """Room bounds what an operator grows to: what it has, it keeps, and the bottom of its limits stays allowed."""
    clock = VirtualClock(1000.0)
    operator, store, runner = a_loop(clock)
    operator.load_cores = 5.0
    operator.room = ExecutorRoom(0, "the ResourceManager has just started")
    runner.run(until=1100.0)
    assert store.decisions(changes_only=True) == []


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


@pytest.mark.parametrize(("since", "is_held"), [(0.0, True), (15.0, False)])
def test_a_restarted_controller_keeps_the_guard_times(since: float, is_held: bool) -> None:
    """What the controller before did counts for the one after, unless that was another run."""
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
        since=since,
    )
    Runner([cycle], clock).run(until=60.0)
    assert (operator.asked == []) == is_held
    assert any("cooldown" in a.guard for d in store.decisions() for a in d.amended_by) or not is_held


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
    """A loop in a thread ends when asked to and puts everything back; twice is as good as once."""
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


class RecordingPolicy(FixedPolicy):
    """Holds; remembers what it was asked and shown, and whether it was closed."""

    name = "recording"

    def __init__(self, allocation: Allocation | None = None) -> None:
        super().__init__(allocation, every_seconds=1.0)
        self.asked: list[PlanRequest] = []
        self.looks: list[Look] = []
        self.closed = 0

    def watch(self, look: Look) -> tuple[str, ...]:
        """Take note."""
        self.looks.append(look)
        return (f"look {len(self.looks)}",)

    def plan(self, request: PlanRequest) -> Decision:
        """Take note, and decide as fixed."""
        self.asked.append(request)
        return super().plan(request)

    def close(self) -> None:
        """Take note."""
        self.closed += 1


def test_a_watching_policy_is_shown_every_look_before_it_is_asked() -> None:
    """It sees each pass once, with the observation that it is then asked about, and its notes stand in the report."""
    clock = VirtualClock(0.0)
    notes: list[tuple[str, ...]] = []
    policy = RecordingPolicy()
    operator, store, _ = a_loop(clock)
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=0.0),
        policy=policy,
        guards=(),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )
    Runner([cycle], clock, on_report=lambda report: notes.append(report.notes)).run(until=5.0)
    assert [look.telemetry.at for look in policy.looks] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert [request.observation for request in policy.asked] == [look.observation for look in policy.looks]
    assert [len(request.history) for request in policy.asked] == [1, 2, 3, 4, 5]
    assert notes[0] == ("look 1",)
    assert policy.closed == 1  # with the end of the loop


def test_another_policy_takes_over_at_the_border_of_a_pass() -> None:
    """From the next pass on the new one decides, and it is asked at once; the change is kept with the decisions."""
    clock = VirtualClock(0.0)
    second = RecordingPolicy()

    def change(report: CycleReport) -> None:
        if clock.now() == 7.0:
            runner.replace_policy(second)
            assert runner._cycles[0].policy is not second  # not in the middle of a pass
            second.asked.clear()  # what it was tried on

    _, store, runner = a_loop(clock, on_report=change)
    runner.run(until=12.0)
    assert [request.at for request in second.asked] == [8.0, 9.0, 10.0, 11.0]
    by_policy = [(d.at, d.policy) for d in store.decisions()]
    assert by_policy[0] == (0.0, "threshold")
    assert all(policy == "recording" for at, policy in by_policy if at >= 8.0)
    record = next(d for d in store.decisions() if "from now on" in d.reason)
    assert (record.at, record.policy, record.is_change) == (8.0, "recording", False)
    assert record.reason == "the policy is recording from now on, instead of threshold"


def test_the_policy_before_is_closed_when_the_next_takes_over() -> None:
    """It is closed once, not before the border, and the new one only with the end of the loop."""
    clock = VirtualClock(0.0)
    first, second = RecordingPolicy(), RecordingPolicy()
    closed: dict[float, tuple[int, int]] = {}

    def change(report: CycleReport) -> None:
        if clock.now() == 1.0:
            runner.replace_policy(first)
        if clock.now() == 3.0:
            runner.replace_policy(second)
        closed[clock.now()] = (first.closed, second.closed)

    _, _, runner = a_loop(clock, on_report=change)
    runner.run(until=6.0)
    assert (closed[3.0], closed[4.0], closed[5.0]) == ((0, 0), (1, 0), (1, 0))
    assert (first.closed, second.closed) == (1, 1)


def test_a_policy_that_never_took_over_is_closed_too() -> None:
    """One that another replaced before its pass came, and one that came too late for any pass."""
    clock = VirtualClock(0.0)
    dropped, late = RecordingPolicy(), RecordingPolicy()

    def change(report: CycleReport) -> None:
        if clock.now() == 2.0:
            runner.replace_policy(dropped)
            runner.replace_policy(late)
            assert dropped.closed == 1
            runner.stop()

    _, _, runner = a_loop(clock, on_report=change)
    runner.run(until=6.0)
    assert (dropped.closed, late.closed) == (1, 1)
    assert dropped.looks == late.looks == []


def test_a_policy_that_fails_on_what_is_seen_is_refused_and_the_old_one_goes_on() -> None:
    """It is tried on every operator's last observation before anything changes."""
    clock = VirtualClock(0.0)

    class Broken(RecordingPolicy):
        name = "broken"

        def plan(self, request: PlanRequest) -> Decision:
            raise ZeroDivisionError("no load")

    class Confused(RecordingPolicy):
        name = "confused"

        def plan(self, request: PlanRequest) -> Decision:
            return replace(super().plan(request), operator="another")

    refused: list[str] = []

    def change(report: CycleReport) -> None:
        if clock.now() in (5.0, 6.0):
            with pytest.raises(ConfigurationError) as caught:
                runner.replace_policy(Broken() if clock.now() == 5.0 else Confused())
            refused.append(str(caught.value))

    _, store, runner = a_loop(clock, on_report=change)
    runner.run(until=30.0)
    assert refused[0] == "policy: broken failed in plan for a: ZeroDivisionError: no load"
    assert refused[1] == "policy: confused gave a decision for 'another' instead of a"
    assert {d.policy for d in store.decisions()} == {"threshold"}
    assert runner.faults == 0


def test_a_policy_may_be_replaced_before_anything_was_seen() -> None:
    """Without an observation there is nothing to try it on; it decides from the first pass."""
    clock = VirtualClock(0.0)
    _, store, runner = a_loop(clock)
    runner.replace_policy(RecordingPolicy())
    runner.run(until=3.0)
    assert {d.policy for d in store.decisions()} == {"recording"}


def test_a_store_that_fails_at_a_change_of_policy_does_not_end_the_loop() -> None:
    """The fault is counted, the new policy decides, and every operator is controlled as before."""
    clock = VirtualClock(0.0)
    second = RecordingPolicy()

    def change(report: CycleReport) -> None:
        if clock.now() == 5.0:
            runner.replace_policy(second)
            kept = store.add_decision

            def full_once(decision: Decision) -> None:
                store.add_decision = kept  # type: ignore[method-assign]
                raise OSError("no space left")

            store.add_decision = full_once  # type: ignore[method-assign]

    _, store, runner = a_loop(clock, on_report=change)
    runner.run(until=10.0)
    assert runner.passes == 10
    assert runner.faults == 1
    assert second.looks[-1].telemetry.at == 9.0


# --- policies that break their promises ----------------------------------------------------------------------------


def a_loop_under(
    clock: VirtualClock, policy: Policy, *, on_report: Callable[[CycleReport], None] | None = None
) -> tuple[ToyOperator, MemoryStore, Runner]:
    """A loop over one toy operator, without warm-up or guards, under a policy of the test's own."""
    operator, store = ToyOperator(clock), MemoryStore()
    cycle = Cycle(
        source=operator,
        monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=0.0),
        policy=policy,
        guards=(),
        reconciler=Reconciler("a", operator, LIMITS),
        store=store,
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )
    return operator, store, Runner([cycle], clock, on_report=on_report)


class Faulty(RecordingPolicy):
    """Fails in one of its parts, from the third second on."""

    name = "faulty"

    def __init__(self, part: str, answer: object = None) -> None:
        super().__init__(Allocation(1, 0.5))
        self.part, self.answer = part, answer

    def watch(self, look: Look) -> tuple[str, ...]:
        """Fail, or take note."""
        if self.part == "watch" and look.telemetry.at >= 3.0:
            raise KeyError("colour")
        return super().watch(look) if self.part != "notes" else self.answer  # type: ignore[return-value]

    def plan(self, request: PlanRequest) -> Decision:
        """Fail, answer what the test wants, or decide as fixed."""
        if self.part == "plan" and request.at >= 3.0:
            raise ZeroDivisionError("no load")
        return super().plan(request) if self.part != "answer" else self.answer  # type: ignore[return-value]

    def close(self) -> None:
        """Fail, or take note."""
        super().close()
        if self.part == "close":
            raise RuntimeError("it is stuck")


@pytest.mark.parametrize(
    ("part", "words"),
    [("plan", "plan for a: ZeroDivisionError: no load"), ("watch", "watch for a: KeyError: 'colour'")],
)
def test_a_policy_that_fails_costs_its_decision_and_nothing_else(
    part: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The pass goes on: it is seen, remembered and reported, the hold explains itself, and what drifted is healed.

    The log has the traceback once, not at every pass.
    """
    clock = VirtualClock(0.0)
    reports: list[CycleReport] = []
    operator, store, runner = a_loop_under(clock, Faulty(part), on_report=reports.append)
    faults: list[str] = []
    runner._on_fault = lambda name, text: faults.append(text)

    def drift(report: CycleReport) -> None:
        reports.append(report)
        if clock.now() == 5.0:
            operator.allocation = Allocation(2, 0.5)  # somebody started another executor

    runner._on_report = drift
    runner.run(until=10.0)
    assert len(reports) == len(store.observations()) == 10
    assert (runner.passes, runner.faults) == (10, 7)
    assert set(faults) == {f"policy: faulty failed in {words}"}
    held = [d for d in store.decisions() if d.at >= 3.0]
    assert len(held) == 7
    assert all(not d.is_change and d.reason == f"holding: policy: faulty failed in {words}" for d in held)
    assert [action.target for action in operator.asked] == [Allocation(1, 0.5)] * 2  # the plan, and the healing
    assert sum(record.exc_info is not None for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "gave None instead of a Decision for a"),
        ("scale up", "gave 'scale up' instead of a Decision for a"),
        (a_decision(Allocation(1), Allocation(2), operator="b"), "gave a decision for 'b' instead of a"),
        (replace(a_decision(operator="a"), target=None), "gave the target None; it must be an Allocation"),  # type: ignore[arg-type]
        (replace(a_decision(operator="a"), target=Allocation(1.5)), "gave 1.5 executors; it must be a whole number"),  # type: ignore[arg-type]
        (replace(a_decision(operator="a"), target=Allocation(1, float("nan"))), "gave the CPU share nan"),
    ],
)
def test_what_is_not_a_decision_is_not_acted_on(answer: object, words: str) -> None:
    """The loop holds and reports what came instead of a decision."""
    clock = VirtualClock(0.0)
    operator, store, runner = a_loop_under(clock, Faulty("answer", answer))
    faults: list[str] = []
    runner._on_fault = lambda name, text: faults.append(text)
    runner.run(until=3.0)
    assert operator.asked == []
    assert len(faults) == len(store.observations()) == 3
    assert words in faults[0]
    with pytest.raises(ConfigurationError, match=re.escape(words)):
        runner._cycles[0].try_policy(Faulty("answer", answer))


def test_whole_numbers_of_any_kind_will_do() -> None:
    """Executors counted with NumPy are asked for, and kept, as plain numbers."""
    clock = VirtualClock(0.0)
    target = Allocation(np.int64(1), np.float64(0.5))  # type: ignore[arg-type]
    operator, _, runner = a_loop_under(clock, RecordingPolicy(target))
    runner.run(until=2.0)
    assert runner.faults == 0
    assert [type(operator.asked[0].target.executors), type(operator.asked[0].target.cpu_share)] == [int, float]


def test_a_target_outside_the_limits_is_brought_into_them() -> None:
    """A thousand executors are asked for by the policy, and two by the loop."""
    clock = VirtualClock(0.0)
    operator, store, runner = a_loop_under(clock, RecordingPolicy(Allocation(1000, 1.0)))
    operator.allocation = Allocation(1, 1.0)
    runner.run(until=2.0)
    assert [action.target for action in operator.asked] == [Allocation(2, 1.0)]
    assert store.decisions()[0].amended_by


@pytest.mark.parametrize(("notes", "shown"), [(None, ()), ("one line", ("one line",)), (["a", "b"], ("a", "b"))])
def test_notes_of_any_kind_are_lines(notes: object, shown: tuple[str, ...]) -> None:
    """A `watch` that returns nothing has no notes, and one line is not taken for its letters."""
    clock = VirtualClock(0.0)
    reports: list[CycleReport] = []
    _, _, runner = a_loop_under(clock, Faulty("notes", notes), on_report=reports.append)
    runner.run(until=1.0)
    assert (reports[0].notes, runner.faults) == (shown, 0)


def test_a_policy_that_cannot_be_closed_keeps_nobody_from_anything() -> None:
    """Neither the next policy from deciding, nor the loop from going on, nor the operator from being released."""
    clock = VirtualClock(0.0)
    first, dropped, second, last = (Faulty("close") for _ in range(4))

    def change(report: CycleReport) -> None:
        if clock.now() == 2.0:
            runner.replace_policy(dropped)
            runner.replace_policy(second)
        if clock.now() == 5.0:
            runner.replace_policy(last)
            runner.stop()

    operator, _, runner = a_loop_under(clock, first, on_report=change)
    runner.run()
    assert [policy.closed for policy in (first, dropped, second, last)] == [1, 1, 1, 1]
    assert runner.passes == 6
    assert operator.released == 1
    assert runner.faults == 4


def test_an_operator_that_cannot_be_asked_ahead_does_not_end_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel gives no more threads, passes fail or succeed one by one, and the loop goes on."""

    def refuse(_: Cycle) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Cycle, "begin", refuse)
    operator, _, runner = a_loop(VirtualClock(0.0))
    runner.run(until=3.0)
    assert (runner.passes, runner.faults, operator.released) == (3, 0, 1)


def test_a_view_of_faults_that_breaks_does_not_end_the_loop() -> None:
    """What cannot be shown is in the log."""
    clock = VirtualClock(0.0)

    def broken(operator: str, text: str) -> None:
        raise RuntimeError("a view that breaks")

    operator, _, runner = a_loop_under(clock, Faulty("plan"))
    runner._on_fault = broken
    runner.run(until=6.0)
    assert (runner.passes, operator.released) == (6, 1)


def test_the_policy_that_decides_may_replace_itself() -> None:
    """It goes on as before: it is not closed while it decides, and no change is written down."""
    clock = VirtualClock(0.0)
    first, second = RecordingPolicy(), RecordingPolicy()
    closed: list[int] = []

    def change(report: CycleReport) -> None:
        if clock.now() == 1.0:
            runner.replace_policy(first)
        if clock.now() == 3.0:
            runner.replace_policy(first)
            runner.replace_policy(second)  # `first` is dropped from what comes next, and decides until then
            closed.append(first.closed)
        if clock.now() == 5.0:
            runner.replace_policy(first)
            runner.replace_policy(second)
            closed.append(second.closed)

    _, store, runner = a_loop_under(clock, first, on_report=change)
    runner.run(until=8.0)
    assert closed == [0, 0]
    assert [d.at for d in store.decisions() if "from now on" in d.reason] == [4.0]
    assert second.closed == 1


def test_a_loop_that_has_ended_takes_no_policy() -> None:
    """Nobody would ask it: that is said instead of done without effect."""
    clock = VirtualClock(0.0)
    _, _, runner = a_loop_under(clock, RecordingPolicy())
    runner.run(until=2.0)
    with pytest.raises(ConfigurationError, match="policy: the loop has ended"):
        runner.replace_policy(RecordingPolicy())


def test_the_log_has_a_line_for_each_change_with_the_instant_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    """Decisions, outcomes and lost exactness are logged with the time that the store keeps for them."""
    caplog.set_level("INFO", logger="penstock")
    clock = VirtualClock(1000.0)
    _, store, runner = a_loop(clock)
    runner.run(until=1060.0)
    logged = {(getattr(record, "at", None), record.getMessage()) for record in caplog.records}
    (first, *_) = store.decisions(changes_only=True)
    (outcome, *_) = store.outcomes()
    assert (first.at, f"a: scale in: {first.change_text}: {first.reason}") in logged
    assert (outcome.at, f"a: done after {outcome.after_seconds:.1f} s") in logged
    lost = [(at, text) for at, text in logged if "latency is not exact" in text]
    assert lost == [(1001.0, "a: latency is not exact from here on: the source does not say when its records arrived")]


def test_the_latency_since_the_start_is_kept_while_the_run_goes_on() -> None:
    """A run that is cut off has it up to some seconds before, with the start-up apart."""
    clock = VirtualClock(1000.0)
    reports: list[CycleReport] = []
    _, store, runner = a_loop(clock, on_report=reports.append)
    runner.run(until=1030.0)
    kept = json.loads(store.fact("latency of a") or "null")
    assert kept["at"] == 1025.0
    assert kept["operator"]["steady_from"] == 1005.0  # the first batch ends at 1000 s, the warm-up takes 5 s
    assert kept["operator"]["steady"]["records"] + kept["operator"]["start_up"]["records"] == 250
    assert kept["path"] is None
    newest = reports[-1].run_latency
    assert newest is not None
    assert newest.whole is not None
    assert newest.whole.records == 250


@pytest.mark.parametrize(
    ("since", "damage", "records"), [(1000.0, None, 500), (1028.0, None, 250), (1000.0, {"steady": None}, 250)]
)
def test_another_controller_goes_on_counting_latency(
    since: float, damage: dict[str, object] | None, records: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the same run, with its start-up; what is of a run before, or damaged, is left out, and the log says so."""
    clock = VirtualClock(1000.0)
    _, store, runner = a_loop(clock)
    runner.run(until=1030.0)
    kept = json.loads(store.fact("latency of a") or "null")
    if damage is not None:
        kept["counts"]["operator"].update(damage)
        store.set_fact("latency of a", json.dumps(kept))
    reports: list[CycleReport] = []
    _, _, runner = a_loop(clock, store=store, since=since, on_report=reports.append)
    runner.run(until=1060.0)
    later = json.loads(store.fact("latency of a") or "null")["operator"]
    # The first batch of each controller does not count: when its records came is not known.
    assert later["whole"]["records"] == records
    assert later["steady_from"] == (1005.0 if records == 500 else 1035.0)
    first = reports[0].run_latency
    assert first is not None
    assert (first.whole is not None) == (records == 500)
    assert ("counted anew" in caplog.text) == (damage is not None)
