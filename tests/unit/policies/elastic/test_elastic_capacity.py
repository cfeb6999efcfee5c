# SPDX-License-Identifier: Apache-2.0
"""What an allocation sustains, by the best that is known."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.policies.elastic.elastic_worlds import a_look

from penstock.errors import NotReadyError
from penstock.performance.demand import BatchDemand
from penstock.performance.throughput import model_named
from penstock.policies.elastic.capacity import Capacity
from penstock.ports import OperatorSite
from penstock.records import Allocation, Limits, ThroughputSample

LIMITS = Limits(1, 8)


def capacity(
    given: Sequence[tuple[int, float]] = (), confidence: float = 0.9, demand: object | None = None
) -> Capacity:
    """What is known with some samples given."""
    samples = [ThroughputSample(Allocation(executors), rate) for executors, rate in given]
    return Capacity(
        OperatorSite(LIMITS, demand=demand),
        model_named("ensemble"),
        batch_seconds=10.0,
        confidence=confidence,
        given=samples,
    )


def test_nothing_known_is_said() -> None:
    """Without any measurement it is not ready, and says what is missing."""
    with pytest.raises(NotReadyError, match="no throughput was measured yet"):
        capacity().sustained(Allocation(2))


def test_a_declared_demand_is_believed() -> None:
    """Batches of 10 s of which 0.5 s are fixed, at 4 ms a record on two executors: 475 a second, without an error."""
    found = capacity(demand=BatchDemand(0.5, 0.004)).sustained(Allocation(2))
    assert found.prediction.records_per_second == pytest.approx(475.0)
    assert found.low == pytest.approx(475.0)


def test_measurements_of_the_allocation_itself_come_first() -> None:
    """Their mean, with an interval that is narrower the more there are."""
    few = capacity([(2, 390.0), (2, 410.0)]).sustained(Allocation(2))
    many = capacity([(2, 390.0), (2, 410.0)] * 5).sustained(Allocation(2))
    assert few.prediction.records_per_second == pytest.approx(400.0)
    assert few.low < many.low < 400.0 < many.prediction.high < few.prediction.high
    assert "2 measurements" in few.basis


def test_given_samples_stand_until_the_run_has_better_ones() -> None:
    """Long batches before the fixed time is known are rough: they do not replace what was measured before the run."""
    known = capacity([(2, 600.0), (2, 610.0)])
    at = 0.0
    known.watch(a_look(at, Allocation(2)))
    for _ in range(30):
        known.watch(a_look(at := at + 6.5, Allocation(2), (3000, 6.5)))
    assert known.free.samples
    assert {sample.records_per_second for sample in known.samples} == {600.0, 610.0}
    for rows in [2000, 3000, 2500, 3500] * 12:
        known.watch(a_look(at := at + 0.5 + 0.002 * rows, Allocation(2), (rows, 0.5 + 0.002 * rows)))
    assert known.sustained(Allocation(2)).prediction.records_per_second == pytest.approx(475.0, rel=0.01)


def test_one_size_speaks_for_others_in_proportion() -> None:
    """Half the executors do about half, twice as many at most twice."""
    known = capacity([(4, 800.0), (4, 800.0)])
    two, eight = known.sustained(Allocation(2)), known.sustained(Allocation(8))
    assert two.prediction.records_per_second == pytest.approx(400.0, rel=0.06)
    assert eight.prediction.records_per_second <= 1600.0
    assert not two.is_proven
    assert eight.is_proven  # four of them were measured


def test_two_sizes_are_enough_for_a_model() -> None:
    """A model predicts what lies between and beyond, and its prediction stays within what must hold."""
    known = capacity([(2, 395.0), (2, 405.0), (6, 1150.0), (6, 1170.0)])
    four = known.sustained(Allocation(4))
    assert "the model ensemble" in four.basis
    assert 700.0 < four.prediction.records_per_second < 800.0
    assert four.low >= known.sustained(Allocation(2)).low
    one = known.sustained(Allocation(1))
    assert one.low >= 0.4 * known.sustained(Allocation(2)).low  # half of the work with half of the capacity, or nearly


def test_an_interval_that_is_raised_stays_one() -> None:
    """Where a larger size does so well that it raises what a model expects, the upper end rises with the lower one."""
    known = capacity([(2, 395.0), (2, 405.0), (3, 400.0), (3, 410.0), (6, 2350.0), (6, 2370.0)])
    five = known.sustained(Allocation(5)).prediction
    assert five.low >= 0.9 * 5 / 6 * known.sustained(Allocation(6)).low
    assert five.low < five.records_per_second < five.high


def test_a_higher_confidence_counts_on_less() -> None:
    """The lower end falls with the coverage asked for."""
    given = [(2, 390.0), (2, 410.0), (2, 405.0)]
    sure, unsure = capacity(given, 0.99).sustained(Allocation(2)), capacity(given, 0.6).sustained(Allocation(2))
    assert sure.low < unsure.low


def test_own_measurements_replace_those_given() -> None:
    """What this run has measured of a size counts instead of what was given for it."""
    known = capacity([(2, 100.0)] * 5)
    at = 0.0
    known.watch(a_look(at, Allocation(2)))
    for rows in [2000, 3000, 2500, 3500] * 8:
        seconds = 0.5 + 0.002 * rows
        at += seconds
        known.watch(a_look(at, Allocation(2), (rows, seconds)))
    assert known.sustained(Allocation(2)).prediction.records_per_second == pytest.approx(475.0, rel=0.02)


def test_a_slower_machine_makes_all_given_samples_smaller() -> None:
    """Two executors do 475 in the run, where 600 were given: what was given for four is taken to be as much less."""
    known = capacity([(2, 590.0), (2, 610.0), (4, 1100.0), (4, 1100.0)])
    at = 0.0
    known.watch(a_look(at, Allocation(2)))
    assert known.sustained(Allocation(4)).prediction.records_per_second == pytest.approx(1100.0)
    for rows in [2000, 3000, 2500, 3500] * 8:
        seconds = 0.5 + 0.002 * rows
        at += seconds
        known.watch(a_look(at, Allocation(2), (rows, seconds)))
    four = known.sustained(Allocation(4)).prediction.records_per_second
    assert four == pytest.approx(1100.0 * 475.0 / 600.0, rel=0.02)


def test_cpu_per_record_has_a_wide_interval() -> None:
    """Before any sample, what records cost in CPU is a guess: a quarter less is counted on."""
    known = capacity()
    for second in range(17):
        known.watch(a_look(float(second), Allocation(2), utilisation=0.5, processed_rows_per_second=250.0))
    found = known.sustained(Allocation(4))
    assert found.prediction.records_per_second == pytest.approx(1000.0)
    assert found.low < 800.0
    assert not found.is_proven
