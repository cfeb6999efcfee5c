# SPDX-License-Identifier: Apache-2.0
"""Service demand learnt from batches, in spite of pauses, and unlearnt when it changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from penstock.errors import ConfigurationError, NotReadyError
from penstock.performance.batch_time_fit import CPU_PART
from penstock.performance.demand import BatchDemand
from penstock.performance.demand_learning import BatchDemandLearner, Verdict
from penstock.records import Allocation

FIXED, ON_CPU, RECORD = 0.3, 0.2, 0.001


def run(
    learner: BatchDemandLearner,
    batches: int,
    *,
    seed: int = 0,
    noise: float = 0.05,
    pauses: float = 0.0,
    record: float = RECORD,
    share: Callable[[int], float] = lambda _: 1.0,
    executors: int = 1,
) -> list[Verdict]:
    """Batches of a known demand, of different sizes."""
    rng = np.random.default_rng(seed)
    told = []
    for k in range(batches):
        rows, s = int(rng.lognormal(6.0, 0.6)) + 1, share(k)
        seconds = (FIXED - ON_CPU + ON_CPU / s + record * rows / (executors * s)) * rng.lognormal(0.0, noise)
        if rng.random() < pauses:
            seconds += rng.uniform(2.0, 6.0)
        told.append(learner.observe(rows, seconds, Allocation(executors, s)))
    return told


@pytest.mark.parametrize("pauses", [0.0, 0.1])
def test_the_demand_is_found_with_pauses_or_without(pauses: float) -> None:
    """Fixed and per-record time come out within a few percent, and their bounds hold the truth."""
    found = []
    for seed in range(5):
        learner = BatchDemandLearner(cap=500, trigger_seconds=2.0)
        run(learner, 150, seed=seed, pauses=pauses)
        learnt = learner.learnt(confidence=0.999)
        found.append((learnt.demand.fixed_seconds, learnt.demand.per_record_seconds))
        low, high = learnt.per_record_bounds_seconds
        assert low < RECORD < high < 1.2 * RECORD
        low, high = learnt.fixed_bounds_seconds
        assert low < FIXED < high < 1.25 * FIXED
        assert learnt.residual_scv == pytest.approx(0.05**2, rel=0.6)
        assert (learnt.far_off > 0) == (pauses > 0)
        assert (learnt.demand.cap, learnt.demand.trigger_seconds) == (500, 2.0)
    fixed, per_record = np.mean(found, axis=0)
    assert fixed == pytest.approx(FIXED, rel=0.03)
    assert per_record == pytest.approx(RECORD, rel=0.03)


def test_the_first_batches_are_not_learnt_from() -> None:
    """Batches of a cold machine leave no trace; after a restart of the query they are left out again."""
    learner = BatchDemandLearner(skip_first=2)
    for _ in range(2):
        assert learner.observe(100, 60.0, Allocation(1)) is Verdict.WARM_UP
    run(learner, 50, noise=0.001)
    learner.restart()
    assert learner.observe(100, 60.0, Allocation(1)) is Verdict.WARM_UP
    assert learner.learnt().demand.fixed_seconds == pytest.approx(FIXED, rel=0.01)
    assert learner.learnt().far_off == 0


def test_the_part_under_the_cpu_share_is_learnt_when_shares_vary() -> None:
    """With one share only it is assumed, and said to be; with several it is found."""
    learner = BatchDemandLearner()
    run(learner, 60)
    learnt = learner.learnt()
    assert not learnt.is_cpu_part_learnt
    assert learnt.demand.fixed_cpu_seconds == pytest.approx(CPU_PART * learnt.demand.fixed_seconds)
    run(learner, 120, seed=1, noise=0.02, share=lambda k: (1.0, 0.7, 0.4)[k // 5 % 3])
    learnt = learner.learnt()
    assert learnt.is_cpu_part_learnt
    assert learnt.demand.fixed_cpu_seconds == pytest.approx(ON_CPU, rel=0.2)
    assert learnt.demand.per_record_seconds == pytest.approx(RECORD, rel=0.05)


def test_executors_and_share_are_taken_out_of_the_time() -> None:
    """What is learnt is told for one executor at full share, whatever the operator had."""
    learner = BatchDemandLearner()
    run(learner, 200, noise=0.02, executors=3, share=lambda k: (1.0, 0.5)[k // 10 % 2])
    assert learner.learnt().demand.per_record_seconds == pytest.approx(RECORD, rel=0.05)


def test_a_changed_demand_is_followed_within_few_batches() -> None:
    """When a record suddenly costs three times as much, it is known some ten batches later, not a half-life later."""
    learner = BatchDemandLearner()
    run(learner, 300)
    told = run(learner, 20, seed=1, record=3 * RECORD)
    assert Verdict.CHANGED in told[:12]
    assert learner.learnt().demand.per_record_seconds == pytest.approx(3 * RECORD, rel=0.15)


def test_a_single_pause_changes_nothing() -> None:
    """One batch far off is set aside and the demand stays to the last digit."""
    learner = BatchDemandLearner()
    run(learner, 100)
    before = learner.learnt().demand
    assert learner.observe(400, 9.0, Allocation(1)) is Verdict.FAR_OFF
    assert learner.learnt().demand == before


def test_noise_is_shared_out_between_fixed_and_records() -> None:
    """Where only the fixed time varies the records' SCV is near zero, and the other way round."""
    rng = np.random.default_rng(5)
    fixed, records = BatchDemandLearner(), BatchDemandLearner()
    for _ in range(900):
        rows = int(rng.integers(50, 1500))
        fixed.observe(rows, 0.5 * rng.gamma(100.0, 0.01) + RECORD * rows, Allocation(1))
        records.observe(rows, 0.5 + RECORD * rng.gamma(rows / 4.0, 4.0), Allocation(1))
    told = fixed.learnt().demand
    assert told.fixed_scv == pytest.approx(0.01, rel=0.25)
    assert told.per_record_scv < 0.8  # in the other case it is 4
    told = records.learnt().demand
    assert told.per_record_scv == pytest.approx(4.0, rel=0.25)
    assert told.fixed_scv < 0.001


def test_what_is_missing_is_said() -> None:
    """Too few batches, batches all alike and batches whose time does not grow are three different answers."""
    learner = BatchDemandLearner()
    run(learner, 5)
    with pytest.raises(NotReadyError, match="2 batches") as caught:
        learner.learnt()
    assert (caught.value.needed, caught.value.available) == (12, 2)
    alike = BatchDemandLearner()
    for k in range(40):
        alike.observe(120 + k % 2, 0.5, Allocation(1))
    with pytest.raises(NotReadyError, match=r"120 to 121.*cannot be separated"):
        alike.learnt()
    flat = BatchDemandLearner()
    rng = np.random.default_rng(1)
    for _ in range(40):
        flat.observe(int(rng.integers(1, 500)), 0.5 * rng.lognormal(0, 0.6), Allocation(1))
    with pytest.raises(NotReadyError, match="does not yet show to grow"):
        flat.learnt()


def test_records_that_hardly_count_are_known_to() -> None:
    """Where a batch takes the same time whatever its size, that is an answer: a record costs at most so much."""
    learner = BatchDemandLearner()
    rng = np.random.default_rng(1)
    for _ in range(60):
        learner.observe(int(rng.integers(1, 500)), 0.5 * rng.lognormal(0, 0.1), Allocation(1))
    demand = learner.learnt().demand
    assert demand.fixed_seconds == pytest.approx(0.5, rel=0.1)
    assert 0.0 < demand.per_record_seconds < 0.1 * 0.5 / 500
    assert demand.per_record_error_seconds < 0.1 * 0.5 / 500


def _told_by(learner: BatchDemandLearner, at: float, rows: int, speed: float, rng: np.random.Generator) -> None:
    seconds = speed * (FIXED + RECORD * rows) * rng.lognormal(0.0, 0.05)
    learner.observe(rows, seconds, Allocation(1), at)


@pytest.mark.parametrize("seed", range(4))
def test_what_large_batches_taught_is_kept_in_a_lull(seed: int) -> None:
    """Minutes of small batches, slowed by other work on the machine, do not make records look cheap."""
    learner, rng = BatchDemandLearner(), np.random.default_rng(seed)
    for at in range(120):
        _told_by(learner, at, int(rng.integers(500, 3000)), 1.0, rng)
    # The machine becomes slower by and by, and the batches are small: a line through them alone has any slope.
    for at in range(120, 360):
        _told_by(learner, at, int(rng.integers(40, 60)), 1.0 + 0.5 * (at - 120) / 240, rng)
    learnt = learner.learnt(confidence=0.99)
    assert learnt.demand.fixed_seconds == pytest.approx(1.5 * FIXED, rel=0.1)
    # The machine is slow for large batches too, as far as anybody knows; and that is what the error says.
    assert 0.9 * RECORD < learnt.demand.per_record_seconds < 1.7 * RECORD
    assert learnt.per_record_bounds_seconds[1] > 1.35 * RECORD


@pytest.mark.parametrize("factor", [2.0, 0.5])
def test_a_machine_of_another_speed_is_noticed_within_few_batches(factor: float) -> None:
    """Another tenant makes all parts of a batch slower at once; what a record costs besides stays known."""
    learner, rng = BatchDemandLearner(), np.random.default_rng(7)
    for at in range(150):
        _told_by(learner, at, int(rng.integers(50, 1500)), 1.0, rng)
    for at in range(150, 156):
        _told_by(learner, at, int(rng.integers(50, 100)), factor, rng)
    demand = learner.learnt().demand
    assert demand.fixed_seconds == pytest.approx(factor * FIXED, rel=0.15)
    assert demand.per_record_seconds == pytest.approx(factor * RECORD, rel=0.3)


def test_a_young_process_does_not_hide_what_records_cost() -> None:
    """While a JVM warms up batches get faster whatever their size, and c is found all the same."""
    learner, rng = BatchDemandLearner(skip_first=8), np.random.default_rng(2)
    at = 0.0
    for k in range(110):
        rows = 100 if k // 8 % 2 else 1500
        seconds = (1.0 + 2.0 * np.exp(-at / 40.0)) * (FIXED + 0.0002 * rows) * rng.lognormal(0.0, 0.08)
        at += seconds
        learner.observe(rows, seconds, Allocation(1), at)
    demand, speed = learner.learnt().demand, 1.0 + 2.0 * np.exp(-at / 40.0)
    assert demand.per_record_seconds == pytest.approx(speed * 0.0002, rel=0.3)
    assert demand.fixed_seconds == pytest.approx(speed * FIXED, rel=0.2)


def test_predictions_are_graded_before_they_are_learnt_from() -> None:
    """The mean error of predicted times is that of the noise, and nine of ten lie in their interval."""
    learner = BatchDemandLearner()
    run(learner, 200, noise=0.1)
    learnt = learner.learnt()
    assert learnt.error is not None
    assert learnt.coverage is not None
    assert learnt.error == pytest.approx(0.1 * np.sqrt(2 / np.pi), rel=0.3)
    assert 0.8 <= learnt.coverage <= 0.97


def test_a_run_begins_with_what_an_earlier_one_learnt() -> None:
    """The demand is known before the first batch, less surely than at the end; new batches show how fast it is now."""
    earlier = BatchDemandLearner()
    run(earlier, 100)
    later = BatchDemandLearner(skip_first=2)
    later.begin_with(earlier.batches)
    first, last = later.learnt().demand, earlier.learnt().demand
    assert first.fixed_seconds == pytest.approx(FIXED, rel=0.15)
    assert first.per_record_seconds == pytest.approx(RECORD, rel=0.15)
    assert first.fixed_error_seconds > 5 * last.fixed_error_seconds
    rng = np.random.default_rng(4)
    for at in range(1000, 1008):  # small batches on a machine that is slower by half
        _told_by(later, at, 60, 1.5, rng)
    now = later.learnt().demand
    assert now.per_record_seconds == pytest.approx(1.5 * RECORD, rel=0.25)
    assert now.fixed_error_seconds < 0.5 * first.fixed_error_seconds


def test_too_little_of_an_earlier_run_is_no_start() -> None:
    """A handful of batches does not count, nor does anything once the run has batches of its own."""
    earlier, later = BatchDemandLearner(), BatchDemandLearner(skip_first=0)
    run(earlier, 10)
    later.begin_with(earlier.batches)
    assert not later.has_enough_batches
    run(later, 20)
    before = later.learnt()
    later.begin_with(later.batches)
    assert later.learnt() == before


def test_empty_batches_tell_nothing() -> None:
    """A batch without records is not taken for the fixed time."""
    learner = BatchDemandLearner(skip_first=0)
    assert learner.observe(0, 0.01, Allocation(1)) is Verdict.EMPTY
    run(learner, 30, noise=0.001)
    assert learner.observe(0, 0.01, Allocation(1)) is Verdict.EMPTY
    assert learner.learnt().demand.fixed_seconds == pytest.approx(FIXED, rel=0.01)


def test_the_unit_of_time_does_not_matter() -> None:
    """Times a thousand times as long give a demand a thousand times as large, and the same standing."""
    short, long = BatchDemandLearner(), BatchDemandLearner()
    rng = np.random.default_rng(3)
    for learner in (short, long):
        learner.observe(0, 1.0, Allocation(1), at=0.0)  # an hour before, so that no batch is one of a young process
    for at in range(3600, 3660):
        rows = int(rng.integers(10, 900))
        seconds = (FIXED + RECORD * rows) * rng.lognormal(0.0, 0.1)
        one_took = short.observe(rows, seconds, Allocation(1), at)
        assert one_took == long.observe(rows, 1000 * seconds, Allocation(1), at)
    one, two = short.learnt(), long.learnt()
    assert two.demand.fixed_seconds == pytest.approx(1000 * one.demand.fixed_seconds)
    assert two.demand.per_record_error_seconds == pytest.approx(1000 * one.demand.per_record_error_seconds)
    assert two.residual_scv == pytest.approx(one.residual_scv)


@pytest.mark.parametrize(
    ("rows", "seconds", "named"), [(-1, 1.0, "rows"), (1, 0.0, "seconds"), (1, float("nan"), "seconds")]
)
def test_impossible_batches_are_refused(rows: int, seconds: float, named: str) -> None:
    """A batch with a negative count or without a time is an error that names the field."""
    with pytest.raises(ConfigurationError, match=named):
        BatchDemandLearner().observe(rows, seconds, Allocation(1))


def test_wrong_settings_are_refused() -> None:
    """Number of batches and confidence are checked."""
    with pytest.raises(ConfigurationError, match="least_batches"):
        BatchDemandLearner(least_batches=3)
    with pytest.raises(ConfigurationError, match="confidence"):
        BatchDemandLearner().learnt(confidence=95)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_batches_that_are_alike_bound_what_they_cannot_separate(share: float) -> None:
    """Whatever part of the time is fixed, the bound at the slow side is not below what a batch takes under less CPU."""
    learner = BatchDemandLearner()
    assert learner.bounded() is None
    true = BatchDemand(0.2, 0.002, fixed_cpu_seconds=0.14)
    had = true.at(Allocation(1, share))
    for k in range(40):
        learner.observe(100 + k % 2, had.fixed + had.per_record * 100, Allocation(1, share))
    with pytest.raises(NotReadyError):
        learner.learnt()
    bounded = learner.bounded()
    assert bounded is not None
    for less in (Allocation(1, share), Allocation(1, 0.5 * share)):
        rate = 50.0
        slow = bounded.demand.moved(1.0, rate, less).at(less)
        assert slow.fixed + 100 * slow.per_record >= 0.99 * (true.at(less).fixed + 100 * true.at(less).per_record)
    low, high = bounded.per_record_bounds_seconds
    assert low == 0.0
    assert high >= true.per_record_seconds


def test_a_slope_below_zero_bounds_nothing() -> None:
    """Batches that get faster while they get larger, as with a young JVM, do not show that records cost nothing."""
    learner = BatchDemandLearner()
    for k in range(60):
        learner.observe(100 + 2 * k, 1.0 - 0.01 * k, Allocation(1))
    with pytest.raises(NotReadyError):
        learner.learnt()
    bounded = learner.bounded()
    assert bounded is not None
    assert bounded.per_record_bounds_seconds[1] > 0.002  # some 0.7 s for some 160 records
