# SPDX-License-Identifier: Apache-2.0
"""The phases of one measured application, driven by made-up looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from penstock.errors import ClusterError
from penstock.measuring.disturbance import HostReading
from penstock.measuring.plan import MeasurePlan, Turn
from penstock.measuring.sample import Mark
from penstock.measuring.taking import Phase, SampleTaking
from penstock.records import BatchProgress, CpuReading, ExecutorState, Telemetry

CAP = 1000
PLAN = MeasurePlan("app:f", (2,), cpu_share=0.25, batch_seconds=2.0, sample_seconds=10.0, warm_up_seconds=4.0)
TURN = Turn(2, 1)


class FakeApplication:
    """Ends a batch every so many seconds, and is held to its quota once it was asked to be.

    Until then a batch takes half of the time, with the same CPU.
    """

    def __init__(self, seconds: Callable[[int], float] = lambda _: 2.0, *, rows: int = CAP, used: float = 0.49) -> None:
        self.now, self.executors, self.rows = 1000.0, 2, rows
        self._seconds, self._used = seconds, used
        self._batch, self._cpu = 0, 0.0
        self.quota: float | None = None

    def looks(self) -> Iterator[Telemetry]:
        """A look at the end of each batch."""
        while True:
            began, seconds = self.now, self._seconds(self._batch)
            self.now += 0.5 * seconds if self.quota is None else seconds
            batch = BatchProgress("measured", "q", "r", self._batch, began, self.now, self.rows, {}, ())
            self._batch += 1
            executors = tuple(ExecutorState(str(i), "h", 1, True, 1, 0.0) for i in range(self.executors))
            self._cpu += self._used * seconds
            cpu = CpuReading(self.now, self._cpu, 0.0, self.quota, 2)
            yield Telemetry("measured", self.now, (batch,), executors, cpu)


def drive(taking: SampleTaking, application: FakeApplication, most: int = 200) -> list[Phase]:
    """Let it run to its end; the phases it went through."""
    phases = []
    for _, look in zip(range(most), application.looks(), strict=False):
        phases.append(taking.see(look, 2))
        if taking.phase is Phase.HOLDING:
            application.quota = 0.5
        if taking.phase in (Phase.DONE, Phase.OTHER_CAP):
            break
    return phases


def host(others: Iterator[float]) -> Callable[[], HostReading]:
    """A host of two cores, 20 s of CPU from one reading to the next, of which others use a part."""
    readings = {"busy": 0.0, "n": 0}

    def read() -> HostReading:
        readings["n"] += 1
        if readings["n"] % 2 == 0:  # the end of a window
            readings["busy"] += 20.0 * next(others)
        return HostReading(0.0, 2, readings["busy"], 20.0 * readings["n"] - readings["busy"], 0.0, 1, 0.0)

    return read


def test_a_calm_application_gives_one_sample() -> None:
    """Warm-up, hold, convergence, sample: the rate is that of the batches after its size was held."""
    taking = SampleTaking(PLAN, TURN, CAP, source_limit=2000.0, read_host=host(iter([0.0])))
    phases = drive(taking, FakeApplication())
    assert list(dict.fromkeys(phases)) == [
        Phase.WARMING, Phase.HOLDING, Phase.CONVERGING, Phase.SAMPLING, Phase.DONE,
    ]  # fmt: skip
    (sample,) = taking.samples
    assert (sample.throughput.mean, sample.throughput.batches, sample.seconds) == (500.0, 5, 10.0)
    assert (sample.batch_seconds, sample.cap, sample.parallelism) == (2.0, CAP, 2)
    assert sample.converged_after_seconds is not None
    assert sample.utilisation == pytest.approx(0.98)
    assert sample.source_limit == 2000.0
    assert sample.marks == ()


def test_a_cap_that_cannot_be_changed_ends_the_taking() -> None:
    """Batches of a fifth of the set time ask for another start; a cap of the user's is sampled as it is."""
    taking = SampleTaking(PLAN, TURN, CAP, is_cap_fixed=True)
    assert drive(taking, FakeApplication(lambda _: 0.4, used=0.5))[-1] is Phase.OTHER_CAP
    assert taking.cap_trial is not None
    assert taking.cap_trial.batch_seconds == pytest.approx(0.4)
    for plan, may_change in ((replace(PLAN, cap=CAP), True), (PLAN, False)):
        fixed = SampleTaking(plan, TURN, CAP, may_change_cap=may_change, is_cap_fixed=True)
        assert drive(fixed, FakeApplication(lambda _: 0.4, used=0.5))[-1] is Phase.DONE


def test_a_fixed_cap_is_judged_by_the_last_batches() -> None:
    """Batches that fit at first and come out too short when the code is compiled ask for another start in the end."""
    taking = SampleTaking(PLAN, TURN, CAP, is_cap_fixed=True)
    phases = drive(taking, FakeApplication(lambda batch: 2.0 if batch < 12 else 1.2, used=0.5))
    assert (phases.count(Phase.SAMPLING), phases[-1]) == (0, Phase.OTHER_CAP)
    assert taking.cap_trial is not None
    assert taking.cap_trial.batch_seconds == pytest.approx(1.2)


class FakeCappedApplication(FakeApplication):
    """Takes 0.2 s for a batch and 1 ms for a record of the cap that the taking asks for, a batch late."""

    def __init__(self, taking: SampleTaking) -> None:
        super().__init__(lambda _: 0.2 + 1e-3 * self.rows)
        self._taking = taking

    def looks(self) -> Iterator[Telemetry]:
        """The batch that is under way at a change keeps its cap."""
        planned = self._taking.cap
        for look in super().looks():
            yield look
            self.rows, planned = planned, self._taking.cap


@pytest.mark.parametrize("first", [50, 900, 30_000])
def test_a_running_application_is_given_the_cap_that_fits(first: int) -> None:
    """Whatever the first cap, batches of about the set time are sampled, and only those of the last cap."""
    taking = SampleTaking(PLAN, TURN, first)
    application = FakeCappedApplication(taking)
    application.rows = first
    assert drive(taking, application)[-1] is Phase.DONE
    (sample,) = taking.samples
    assert 1.5 <= sample.batch_seconds <= 2.7
    assert sample.throughput.mean == pytest.approx(sample.cap / (0.2 + 1e-3 * sample.cap))
    assert sample.converged_after_seconds is not None


def test_a_held_up_batch_keeps_its_cap() -> None:
    """Batches that others make half as long again, with the CPU that they should take, give no other cap."""
    taking = SampleTaking(PLAN, TURN, CAP)
    drive(taking, FakeApplication(lambda _: 3.0, used=0.34))  # 1.02 s of CPU at a quota of 0.5 cores
    assert [(s.cap, s.batch_seconds) for s in taking.samples] == [(CAP, 3.0)]


def test_what_still_compiles_is_not_held() -> None:
    """As long as a record takes less CPU than it took before, the application stays without a cap on its CPU."""
    taking = SampleTaking(replace(PLAN, cap=CAP), TURN, CAP)
    application = FakeApplication(lambda batch: max(2.0, 8.0 * 0.9**batch))  # it uses 0.49 cores all the time
    phases = drive(taking, application)
    assert phases.count(Phase.WARMING) >= 13  # 8 * 0.9^13 = 2.03: from there on nothing falls
    short = SampleTaking(replace(PLAN, cap=CAP, warm_up_most_seconds=10.0), TURN, CAP)
    assert drive(short, FakeApplication(lambda batch: max(2.0, 8.0 * 0.9**batch))).count(Phase.WARMING) < 6


def test_several_samples_of_one_start() -> None:
    """They follow each other, each with its number, and a disturbed one is taken again before the next."""
    taking = SampleTaking(replace(PLAN, samples_each=3), TURN, CAP, read_host=host(iter([0.0, 0.5, 0.0, 0.0])))
    assert drive(taking, FakeApplication())[-1] is Phase.DONE
    assert [(s.part, s.attempt, s.is_disturbed) for s in taking.samples] == [
        (1, 1, False), (2, 1, True), (2, 2, False), (3, 1, False),
    ]  # fmt: skip


def test_what_never_converges_is_sampled_and_marked() -> None:
    """After the time for it a sample is taken in any case, and says that it did not converge."""
    taking = SampleTaking(PLAN, TURN, CAP, may_change_cap=False)
    drive(taking, FakeApplication(lambda batch: 1.5 if batch % 2 else 2.5))
    (sample,) = taking.samples
    assert sample.converged_after_seconds is None
    assert Mark.NOT_CONVERGED in sample.marks


def test_a_disturbed_sample_is_taken_again() -> None:
    """The second window of the same application is calm: both samples are given, the first one marked."""
    taking = SampleTaking(PLAN, TURN, CAP, read_host=host(iter([0.5, 0.0])))
    drive(taking, FakeApplication())
    assert [(s.attempt, s.is_disturbed) for s in taking.samples] == [(1, True), (2, False)]
    assert "other processes" in str(taking.samples[0].disturbed_by)


def test_a_host_that_is_never_calm_ends_after_the_tries() -> None:
    """After the third disturbed sample it is over."""
    taking = SampleTaking(PLAN, TURN, CAP, read_host=host(iter([0.5] * 10)))
    assert drive(taking, FakeApplication())[-1] is Phase.DONE
    assert [s.is_disturbed for s in taking.samples] == [True] * 3


def test_marks_say_what_bounds_the_throughput() -> None:
    """A source that is hardly faster, and executors that leave CPU unused, are marked."""
    taking = SampleTaking(PLAN, TURN, CAP, source_limit=600.0, may_change_cap=False)
    drive(taking, FakeApplication(used=0.2))
    assert taking.samples[0].marks == (Mark.SOURCE_BOUND, Mark.CPU_LEFT)


def test_the_source_itself_is_not_bound_by_the_source() -> None:
    """The turn that measures the source has no limit to be near to."""
    taking = SampleTaking(PLAN, Turn(2, 1, is_source=True), CAP, source_limit=500.0)
    drive(taking, FakeApplication())
    assert (taking.samples[0].source_limit, taking.samples[0].marks) == (None, ())


def test_a_source_that_runs_dry_is_an_error() -> None:
    """A batch that is not full took all there was: the rate would be that of the arrivals."""
    taking = SampleTaking(PLAN, TURN, CAP)
    with pytest.raises(ClusterError, match="run dry after 500 records"):
        drive(taking, FakeApplication(rows=500))


def test_executors_that_do_not_come_are_an_error() -> None:
    """With one executor of two nothing is measured."""
    application = FakeApplication()
    application.executors = 1
    with pytest.raises(ClusterError, match="2 executors did not come: there are 1"):
        drive(SampleTaking(PLAN, TURN, CAP), application)


def test_a_lost_executor_ends_the_sample() -> None:
    """Half a sample with one executor fewer is no sample."""
    application, taking = FakeApplication(), SampleTaking(PLAN, TURN, CAP)
    looks = application.looks()
    while taking.phase is not Phase.SAMPLING:
        taking.see(next(looks))
        application.quota = 0.5
    application.executors = 1
    lost = next(looks)
    with pytest.raises(ClusterError, match="was lost"):
        taking.see(lost)


def test_a_share_that_was_lifted_disturbs() -> None:
    """A quota that is gone in the middle of a sample makes it worthless, and it is taken again."""
    application, taking = FakeApplication(), SampleTaking(PLAN, TURN, CAP)
    for _, look in zip(range(100), application.looks(), strict=False):
        phase = taking.see(look)
        application.quota = None if phase is Phase.SAMPLING and not taking.samples else 0.5
        if phase is Phase.DONE:
            break
    assert [s.is_disturbed for s in taking.samples] == [True, False]
