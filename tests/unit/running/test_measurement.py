# SPDX-License-Identifier: Apache-2.0
"""The turns of a measurement: caps by trial, restarts, what is kept; with an application that needs no Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.clock import VirtualClock
from penstock.errors import ClusterError, ConfigurationError
from penstock.measuring.batch_cap import CapTrial
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Sample
from penstock.measuring.sample_file import SampleFile
from penstock.measuring.steady_looks import SteadyLooks
from penstock.measuring.taking import Phase, SampleTaking
from penstock.measuring.throughput import Throughput
from penstock.records import Telemetry
from penstock.running import measurement
from penstock.running.measured_application import MeasuredApplication, Site, operator_data
from penstock.running.measurement import check_plan

PLAN = MeasurePlan("a:b", (1, 2), batch_seconds=3.0, source_check=False, repeats=2)


class FakeSite:
    """Nothing but the event that ends a measurement."""

    def __init__(self) -> None:
        self.stop = threading.Event()


class FakeSource:
    """A source whose cap is fixed when its application starts."""

    can_change_cap = False


class FakeApplications:
    """Applications whose batches take 0.5 s and 1 ms a record, over the executors; the first starts may fail."""

    def __init__(self, faults: list[ClusterError] | None = None) -> None:
        self.caps: list[tuple[int, int]] = []
        self.ended = 0
        self.limits: list[float | None] = []
        self._faults = faults or []

    def __call__(self, _site: Any, _plan: Any, turn: Turn, _source: Any, cap: int) -> FakeApplications:
        """Start one."""
        self._turn, self._cap = turn, cap
        self.caps.append((turn.executors, cap))
        return self

    def __enter__(self) -> FakeApplications:
        return self

    def __exit__(self, *_: object) -> None:
        self.ended += 1

    def read_host(self) -> None:
        """Nobody else is there."""

    def measure(self, taking: SampleTaking, say: Callable[[str, float], None], keep: Callable[[Sample], None]) -> Phase:
        """Judge the cap as the real one does, and keep a sample."""
        if self._faults:
            raise self._faults.pop(0)
        say("sampling", 0.5)
        seconds = 0.5 + 1e-3 * self._cap / self._turn.executors
        if taking._is_cap_open and not 2.25 <= seconds <= 4.05:
            taking.cap_trial = CapTrial(self._cap, seconds)
            return Phase.OTHER_CAP
        self.limits.append(taking._source_limit)
        rate = self._cap / seconds
        keep(
            Sample(
                at=1.0, executors=self._turn.executors, repeat=self._turn.repeat, attempt=1,
                is_source=self._turn.is_source, cpu_share=None, parallelism=1, cap=self._cap, seconds=20.0,
                throughput=Throughput(7, rate, rate, rate, rate, rate), batch_seconds=seconds,
                converged_after_seconds=15.0,
            )
        )  # fmt: skip
        return Phase.DONE


class RecordingListener:
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.done: list[float] = []
        self.samples: list[Sample] = []

    def phase(self, text: str, done: float) -> None:
        """Keep how much is done."""
        self.done.append(done)

    def sample(self, sample: Sample) -> None:
        """Keep it."""
        self.samples.append(sample)


def take(
    monkeypatch: pytest.MonkeyPatch, folder: Path, plan: MeasurePlan, applications: FakeApplications
) -> tuple[SampleFile, RecordingListener]:
    """Take all turns of a plan."""
    monkeypatch.setattr(measurement, "MeasuredApplication", applications)
    file, listener = SampleFile(folder, plan), RecordingListener()
    taken = measurement._Measurement(plan, cast("Site", FakeSite()), cast("Any", FakeSource()), file, listener=listener)
    turns = plan.left(file.samples)
    for number, turn in enumerate(turns):
        taken.take(turn, number / len(turns), 1 / len(turns))
    return file, listener


def test_the_cap_is_found_once_for_each_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials lead to batches of about the set time; the next size begins in proportion, repeats keep the cap."""
    applications = FakeApplications()
    file, listener = take(monkeypatch, tmp_path / "m", PLAN, applications)
    assert all(2.25 <= sample.batch_seconds <= 4.05 for sample in file.samples)
    by_size = {size: {s.cap for s in file.samples if s.executors == size} for size in (1, 2)}
    assert {size: len(caps) for size, caps in by_size.items()} == {1: 1, 2: 1}
    assert by_size[2] == {2 * cap for cap in by_size[1]}
    assert applications.ended == len(applications.caps)
    assert listener.samples == file.samples
    assert listener.done == sorted(listener.done)


def test_a_given_cap_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --cap every application has it for each executor, however long its batches are."""
    applications = FakeApplications()
    take(monkeypatch, tmp_path / "m", replace(PLAN, cap=7), applications)
    assert applications.caps == [(1, 7), (2, 14), (1, 7), (2, 14)]


def test_the_source_is_measured_first_and_known_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples of the application are judged against the source alone with as many executors."""
    applications = FakeApplications()
    file, _ = take(monkeypatch, tmp_path / "m", replace(PLAN, source_check=True, repeats=1), applications)
    of_source = [sample.throughput.mean for sample in file.samples if sample.is_source]
    assert applications.limits[1::2] == of_source


def test_an_application_that_fails_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure that may pass is tried twice more; the third one is reported with its size."""
    passing = ClusterError("a worker did not come", retryable=True)
    file, _ = take(monkeypatch, tmp_path / "m", PLAN, FakeApplications([passing, passing]))
    assert len(file.samples) == 4
    with pytest.raises(ClusterError, match="1 x: a worker did not come"):
        take(monkeypatch, tmp_path / "n", PLAN, FakeApplications([passing] * 3))


def test_a_lasting_failure_is_not_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that has run dry will be dry again."""
    applications = FakeApplications([ClusterError("run dry")])
    with pytest.raises(ClusterError, match="1 x: run dry"):
        take(monkeypatch, tmp_path / "m", PLAN, applications)
    assert (len(applications.caps), applications.ended) == (1, 1)


def test_parallelism_follows_the_size() -> None:
    """As many tasks follow a shuffle as there are cores; the user's own number wins."""
    plan = replace(PLAN, cores=2, units=3)
    assert operator_data(plan, Turn(5, 1))["spark"]["spark.sql.shuffle.partitions"] == "3"
    mine = replace(plan, spark={"spark.sql.shuffle.partitions": "9"})
    assert operator_data(mine, Turn(5, 1))["spark"]["spark.sql.shuffle.partitions"] == "9"


def test_a_size_that_does_not_fit_into_memory_is_refused() -> None:
    """The embedded cluster cannot hold 256 executors of 100 GB, which is said before anything starts."""
    source = {"shape": "constant:rate=1,duration=1m"}
    plan = MeasurePlan("penstock.apps.read_only:read_only", (256,), source=source, executor_memory="100g")
    with pytest.raises(ConfigurationError, match="this machine has"):
        check_plan(plan)


class WaitedFor:
    """An operator that is ready at the third look, and whose batches bring nothing."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock, self.asked = clock, list[float]()
        self.remote = self

    def start(self, now: float) -> None:
        """Note when."""
        self.asked.append(now)

    def is_ready(self, now: float) -> bool:
        """Somebody sets the clock meanwhile."""
        self.asked.append(now)
        self.clock.set_by(3600.0)
        return len(self.asked) > 3

    def collect(self) -> Telemetry:
        """No batch."""
        return Telemetry("measured", self.clock.now())


def test_a_clock_that_is_set_neither_ends_nor_prolongs_a_measurement() -> None:
    """An application has its time to start, and its time to be silent, by a clock that nobody sets."""
    clock = VirtualClock(1e9)
    site = cast("Any", SimpleNamespace(clock=clock, stop=threading.Event(), folder=Path()))
    measured = MeasuredApplication.__new__(MeasuredApplication)
    operator = WaitedFor(clock)
    measured._site, measured._operator, measured._cap = site, cast("Any", operator), 10
    measured._plan = cast("Any", SimpleNamespace(holds_cpu=False))
    measured._looks = SteadyLooks(clock)
    began = clock.monotonic()
    taking = cast("Any", SimpleNamespace(phase=Phase.WARMING, see=lambda *_: None, cap=10, samples=[]))
    with pytest.raises(ClusterError, match="no batch with records ended for 240 s"):
        measured.measure(taking, lambda *_: None, lambda _: None)
    assert operator.asked[-1] - operator.asked[0] < 5.0
    assert 240.0 <= clock.monotonic() - began < 260.0
