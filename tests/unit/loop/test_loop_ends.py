# SPDX-License-Identifier: Apache-2.0
"""How a loop ends: what is put back, what is left, and who is told."""

from __future__ import annotations

import threading

import pytest
from tests.unit.loop.test_cycle_and_runner import LIMITS, RecordingPolicy, ToyOperator

from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.monitor import Monitor
from penstock.policies.fixed import FixedPolicy
from penstock.ports import Policy
from penstock.records import Allocation, Mode, Objective


def a_cycle(name: str, operator: ToyOperator, policy: Policy) -> Cycle:
    """An operator's control, without warm-up or guards."""
    return Cycle(
        source=operator,
        monitor=Monitor(name, None, window_seconds=10.0, warm_up_seconds=0.0),
        policy=policy,
        guards=(),
        reconciler=Reconciler(name, operator, LIMITS),
        store=MemoryStore(),
        limits=LIMITS,
        objective=Objective(),
        mode=Mode.ACT,
    )


def test_an_abandoned_loop_leaves_every_operator_as_it_is() -> None:
    """Another controller goes on: nothing is put back, but the policy is closed."""
    clock = VirtualClock(0.0)
    operator, policy = ToyOperator(clock), RecordingPolicy(Allocation(1, 0.5))
    runner = Runner(
        [a_cycle("a", operator, policy)], clock, on_report=lambda _: runner.abandon() if runner.passes == 3 else None
    )
    runner.run()
    assert runner.has_ended
    assert (runner.passes, operator.released) == (3, 0)
    assert operator.allocation == Allocation(1, 0.5)
    assert policy.closed == 1


def test_an_operator_that_cannot_be_released_keeps_no_other_from_it() -> None:
    """It is a fault with its name, and the others are put back."""
    clock = VirtualClock(0.0)
    stuck, other = ToyOperator(clock), ToyOperator(clock)

    def fail() -> None:
        raise OSError("the cluster is gone")

    stuck.release = fail  # type: ignore[method-assign]
    faults: list[tuple[str, str]] = []
    cycles = [a_cycle("stuck", stuck, FixedPolicy()), a_cycle("other", other, FixedPolicy())]
    runner = Runner(cycles, clock, on_fault=lambda *fault: faults.append(fault))
    runner.run(until=2.0)
    assert other.released == 1
    assert faults == [("stuck", "release failed: the cluster is gone")]
    assert runner.faults == 1


def test_the_loops_thread_never_keeps_a_process_alive() -> None:
    """A program whose main thread ends does not wait for the loop."""
    clock = VirtualClock(0.0)
    seen, go_on = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        seen.set()
        go_on.wait(10.0)

    runner = Runner([a_cycle("a", ToyOperator(clock), FixedPolicy())], clock, on_report=wait)
    runner.start()
    try:
        assert seen.wait(10.0)
        (thread,) = (t for t in threading.enumerate() if t is runner._thread)
        assert thread.daemon
        assert not runner.has_ended
    finally:
        go_on.set()
        runner.stop()
    assert runner.has_ended


@pytest.mark.parametrize("interval", [1.0, 2.0])
def test_a_loop_that_was_late_once_is_on_time_again(interval: float) -> None:
    """Late by less than a turn, a pass has its scheduled instant; by more, turns fall out, and it has its own."""
    clock = VirtualClock(0.0)
    began: list[float] = []
    seen: list[float] = []

    def look(report: CycleReport) -> None:
        began.append(clock.now() / interval)
        seen.append(report.observation.at / interval)
        clock.advance(interval * {2: 0.5, 4: 1.5, 6: 3.25}.get(len(seen), 0.0))

    cycle = a_cycle("a", ToyOperator(clock), FixedPolicy())
    runner = Runner([cycle], clock, interval_seconds=interval, on_report=look)
    runner.run(until=10.0 * interval)
    assert began == [0.0, 1.0, 2.0, 3.0, 4.5, 5.0, 8.25, 9.0]
    assert seen == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 9.0]
    assert runner.missed_turns == 2
