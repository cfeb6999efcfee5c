# SPDX-License-Identifier: Apache-2.0
"""One operator whose driver hangs does not hold up the others."""

from __future__ import annotations

import threading

import pytest

from penstock.clock import VirtualClock
from penstock.errors import MetricSourceError
from penstock.execute import Reconciler
from penstock.knowledge import MemoryStore
from penstock.loop import Cycle, CycleReport, PatientSource, Runner
from penstock.monitor import Monitor
from penstock.policies.fixed import FixedPolicy
from penstock.records import Limits, Mode, Objective, Telemetry
from penstock.testing.fakes import FakeActuator


class ToyEvent(threading.Event):
    """Never comes about, and notes how long it was waited for."""

    def __init__(self, waited: list[float]) -> None:
        super().__init__()
        self._waited = waited

    def wait(self, timeout: float | None = None) -> bool:
        """Take note."""
        assert timeout is not None
        self._waited.append(timeout)
        return False


class GatedSource:
    """Answers when its gate is open."""

    def __init__(self, name: str) -> None:
        self.name, self.gate, self.calls = name, threading.Event(), 0

    def collect(self) -> Telemetry:
        """Wait for the gate."""
        self.calls += 1
        assert self.gate.wait(30.0)
        return Telemetry(self.name, float(self.calls))


def a_cycle(name: str, source: PatientSource) -> Cycle:
    """An operator's control."""
    return Cycle(
        source=source,
        monitor=Monitor(name, None),
        policy=FixedPolicy(),
        guards=(),
        reconciler=Reconciler(name, FakeActuator(), Limits()),
        store=MemoryStore(),
        limits=Limits(),
        objective=Objective(),
        mode=Mode.ACT,
    )


def test_the_passes_of_others_go_on_while_a_driver_hangs() -> None:
    """The one that hangs has faults, each other operator a pass per turn; it is back when its driver is."""
    hung, well, clock = GatedSource("hung"), GatedSource("well"), VirtualClock(100.0)
    well.gate.set()
    seen: list[str] = []
    faults: list[tuple[str, str]] = []

    def on_report(report: CycleReport) -> None:
        seen.append(report.observation.operator)
        if seen.count("well") == 5:
            hung.gate.set()
        if "hung" in seen:
            runner.stop()

    cycles = [a_cycle(s.name, PatientSource(s, patience_seconds=0.05)) for s in (hung, well)]
    runner = Runner(cycles, clock, on_report=on_report, on_fault=lambda *fault: faults.append(fault))
    runner.run(until=100_000.0)
    assert seen.count("well") >= 5
    assert seen.count("hung") == 1
    assert hung.calls == 1, "it was asked again while it had not answered"
    assert {name for name, _ in faults} == {"hung"}
    assert "has not answered for" in faults[0][1]


def test_an_error_of_the_source_is_raised_in_the_pass() -> None:
    """It is the same error, and the next call asks again."""
    calls: list[int] = []

    class Failing:
        """Fails once."""

        def collect(self) -> Telemetry:
            """Fail, then answer."""
            calls.append(1)
            if len(calls) == 1:
                raise MetricSourceError("socket closed", target="x", retryable=True)
            return Telemetry("a", 1.0)

    source = PatientSource(Failing())
    with pytest.raises(MetricSourceError, match="socket closed"):
        source.collect()
    assert source.collect() == Telemetry("a", 1.0)


def test_the_time_since_it_was_asked_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is waited for as long as is left of the patience; once that is over, no later pass waits at all."""
    now, waited, source = [100.0], list[float](), GatedSource("a")
    patient = PatientSource(source, patience_seconds=5.0, monotonic=lambda: now[0])
    patient.begin()
    try:
        with monkeypatch.context() as patch:
            assert patient._answer is not None
            patch.setattr(patient._answer, "is_there", ToyEvent(waited))
            for at, words in ((102.0, "for 2 s"), (107.0, "for 7 s")):
                now[0] = at
                with pytest.raises(MetricSourceError, match=words):
                    patient.collect()
    finally:
        source.gate.set()
    assert waited == [3.0, 0.0]
