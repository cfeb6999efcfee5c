# SPDX-License-Identifier: Apache-2.0
"""What the log says of a loop, and how loudly: who watches for warnings finds what went wrong, and nothing else."""

from __future__ import annotations

import logging

import pytest
from tests.unit.loop.test_cycle_and_runner import LIMITS, ToyOperator, a_loop

from penstock.clock import VirtualClock
from penstock.errors import ActuationError, MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge.memory import MemoryStore
from penstock.loop import Cycle, Runner
from penstock.monitor import Monitor
from penstock.policies.fixed import FixedPolicy
from penstock.records import Action, Allocation, Mode, Objective, Telemetry


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    """Level and text of every line of the loop."""
    return [(r.levelno, r.getMessage()) for r in caplog.records if r.name.startswith("penstock.loop")]


def test_a_change_that_succeeds_is_no_warning_and_one_that_fails_is(caplog: pytest.LogCaptureFixture) -> None:
    """Both say how long it took; the second says why it failed."""
    caplog.set_level("INFO", logger="penstock")
    clock = VirtualClock(0.0)
    operator = ToyOperator(clock)

    def refuse(action: Action) -> None:
        raise ActuationError("no room in the cluster", target="toy", retryable=True)

    for request in (operator.request, refuse):
        operator.request = request  # type: ignore[method-assign]
        operator.allocation = Allocation(2, 1.0)
        cycle = Cycle(
            source=operator,
            monitor=Monitor("a", None, window_seconds=10.0, warm_up_seconds=0.0),
            policy=FixedPolicy(Allocation(1, 0.5), every_seconds=2.0),
            guards=(),
            reconciler=Reconciler("a", operator, LIMITS),
            store=MemoryStore(),
            limits=LIMITS,
            objective=Objective(),
            mode=Mode.ACT,
        )
        Runner([cycle], clock).run(until=clock.now() + 4.0)
    outcomes = [(level, text) for level, text in lines(caplog) if " after " in text]
    assert outcomes == [
        (logging.INFO, "a: done after 1.0 s"),
        (logging.WARNING, "a: failed after 0.0 s: no room in the cluster"),
    ]


def test_the_first_look_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """However long the loop runs."""
    caplog.set_level("INFO", logger="penstock")
    _, _, runner = a_loop(VirtualClock(1000.0))
    runner.run(until=1005.0)
    assert [text for _, text in lines(caplog)].count("a: first look") == 1


def test_a_recommendation_is_not_logged_as_done(caplog: pytest.LogCaptureFixture) -> None:
    """The line says that it is only recommended, and no outcome follows."""
    caplog.set_level("INFO", logger="penstock")
    _, _, runner = a_loop(VirtualClock(1000.0), mode=Mode.RECOMMEND)
    runner.run(until=1030.0)
    said = [text for _, text in lines(caplog) if "scale in" in text]
    assert said
    assert all(text.startswith("a: recommended: scale in: ") for text in said)
    assert not [text for _, text in lines(caplog) if " after " in text]


def test_a_latency_that_was_never_exact_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A source that does not say when its records arrived is said once, as it is no fault."""
    caplog.set_level("INFO", logger="penstock")
    _, _, runner = a_loop(VirtualClock(1000.0))
    runner.run(until=1010.0)
    (level,) = {level for level, text in lines(caplog) if "latency is not exact" in text}
    assert level == logging.INFO


def test_another_fault_of_a_policy_has_a_traceback_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    """The same fault at every pass is shown once; a new one is shown again."""

    class Worsening(FixedPolicy):
        """Fails, and later fails otherwise."""

        name = "worsening"

        def plan(self, request):  # type: ignore[no-untyped-def]
            """Fail."""
            raise KeyError("first" if request.at < 3.0 else "second")

    clock = VirtualClock(0.0)
    operator, _, runner = a_loop(clock)
    runner.replace_policy(Worsening(every_seconds=1.0))
    runner.run(until=6.0)
    shown = [r.exc_info[1] for r in caplog.records if r.exc_info]
    assert ["first" in str(fault) for fault in shown] == [True, False]
    assert operator.asked == []


def test_a_fault_that_goes_on_is_said_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """At its first pass, then with how often it came, at once where it becomes another, and when it is over."""
    caplog.set_level("INFO", logger="penstock.loop.fault_log")
    clock = VirtualClock(0.0)
    operator, _, runner = a_loop(clock)
    collect = operator.collect

    def away() -> Telemetry:
        if clock.now() < 150.0:
            raise MetricSourceError(
                f"its driver has not answered for {clock.now():.0f} s", target="toy", retryable=True
            )
        if clock.now() < 155.0:
            raise MetricSourceError("its socket is gone", target="toy", retryable=True)
        return collect()

    operator.collect = away  # type: ignore[method-assign]
    runner.run(until=200.0)
    assert lines(caplog) == [
        (logging.WARNING, "a: a pass failed: its driver has not answered for 0 s"),
        (logging.WARNING, "a: 61 passes in a row have failed: its driver has not answered for 60 s"),
        (logging.WARNING, "a: 121 passes in a row have failed: its driver has not answered for 120 s"),
        (logging.WARNING, "a: a pass failed: its socket is gone"),
        (logging.INFO, "a: passes succeed again, after 155 that failed"),
    ]
    assert runner.faults == 155
