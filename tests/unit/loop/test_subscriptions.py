# SPDX-License-Identifier: Apache-2.0
"""A loop has those metrics measured that its policy reads, and no others."""

from __future__ import annotations

from collections.abc import Collection

from penstock.clock import VirtualClock
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle
from penstock.loop.patient_source import PatientSource
from penstock.monitor import Monitor
from penstock.ports import MetricSource
from penstock.records import Allocation, Decision, Limits, Mode, Objective, PlanRequest, Telemetry
from penstock.testing.fakes import FakeActuator, FakeMetricSource


class Metered(FakeMetricSource):
    """A source that notes what is wanted of it, and gives it."""

    def __init__(self) -> None:
        super().__init__([Telemetry("operator", 1.0, metrics={"heap_used": 7.0})])
        self.wanted: list[tuple[tuple[str, ...], float]] = []

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Take note."""
        self.wanted.append((tuple(metrics), every_seconds))


class Reading:
    """A policy that reads some metrics."""

    name = "reading"

    def __init__(self, *metrics: str, every_seconds: float = 2.0) -> None:
        self.metrics, self.every_seconds = frozenset(metrics), every_seconds

    def plan(self, request: PlanRequest) -> Decision:
        """Hold."""
        return Decision(request.operator, request.at, self.name, request.current, request.current, "a test")


class Plain:
    """A policy that reads what everybody gets."""

    name, every_seconds = "plain", 0.1

    def plan(self, request: PlanRequest) -> Decision:
        """Hold."""
        return Decision(request.operator, request.at, self.name, request.current, request.current, "a test")


def a_cycle(source: MetricSource, policy: Reading | Plain) -> Cycle:
    """The loop of one operator."""
    return Cycle(
        source=source,
        monitor=Monitor("operator"),
        policy=policy,
        guards=(),
        reconciler=Reconciler("operator", FakeActuator(Allocation(1), clock=VirtualClock()), Limits()),
        store=MemoryStore(),
        limits=Limits(),
        objective=Objective(),
        mode=Mode.RECOMMEND,
    )


def test_what_the_policy_reads_is_subscribed_to_and_seen() -> None:
    """Only what is not measured for everybody: the queue's length comes with every look."""
    source = Metered()
    cycle = a_cycle(source, Reading("heap_used", "own_sessions", "queue_length"))
    assert source.wanted == [(("heap_used", "own_sessions"), 2.0)]
    assert cycle.run_once(1.0).observation.metrics == {"heap_used": 7.0}


def test_another_policy_ends_the_subscription_of_the_one_before() -> None:
    """Also behind a source that is asked in the background."""
    source = Metered()
    cycle = a_cycle(PatientSource(source), Reading("heap_used"))
    cycle.replace_policy(Plain(), 1.0)
    assert source.wanted == [(("heap_used",), 2.0), ((), 0.5)]


def test_a_source_that_measures_nothing_more_is_left_alone() -> None:
    """Its looks come as before."""
    cycle = a_cycle(FakeMetricSource([Telemetry("operator", 1.0)]), Reading("heap_used"))
    assert cycle.run_once(1.0).observation.metrics == {}
