# SPDX-License-Identifier: Apache-2.0
"""Single servers against the recursion done record by record: levels that change mid-service, executors that come."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.simulator.by_hand import end_of, first_come_first_served

from penstock.ports import FloatArray
from penstock.records import Allocation, Limits
from penstock.simulator import Deterministic, Gamma, Operator, Pipeline, Simulation, exponential
from penstock.simulator.draws import IndexedDraws
from penstock.simulator.work_time import WorkTime

LIMITS = Limits(1, 4, (0.25, 0.5, 1.0))


def _times(n: int, rate: float, seed: int = 3) -> FloatArray:
    return np.cumsum(np.random.default_rng(seed).standard_exponential(n) / rate)


def test_a_level_that_changes_mid_service_scales_what_is_left() -> None:
    """Two seconds of work at full share, cut to a half after one second, end after three."""
    operator = Operator("a", Deterministic(2.0), limits=Limits(cpu_shares=(0.5, 1.0)))
    simulation = Simulation(Pipeline.of_one(operator), np.array([0.0]))
    simulation.advance(1.0)
    simulation.operators["a"].ask(1.0, Allocation(1, 0.5))
    simulation.advance(2.9)
    assert simulation.operators["a"].done == 0
    simulation.advance(3.0)
    assert simulation.records[("a",)].ended_at().tolist() == [3.0]


@pytest.mark.parametrize("load", [0.3, 0.9, 1.5])
def test_departures_are_those_of_the_plain_recursion(load: float) -> None:
    """With levels that change at control instants each record ends when the recursion by hand says."""
    times = _times(3000, rate=1.0)
    operator = Operator("a", Gamma(load, 0.7), limits=LIMITS)
    simulation = Simulation(Pipeline.of_one(operator), times, seed=4, start={"a": Allocation(1, 1.0)})
    rng = np.random.default_rng(1)
    speeds = [(0.0, 1.0)]
    for at in np.arange(10.0, times[-1], 10.0).tolist():
        simulation.advance(at)
        share = float(rng.choice(LIMITS.cpu_shares))
        simulation.operators["a"].ask(at, Allocation(1, share))
        speeds.append((at, share))
    simulation.operators["a"].ask(simulation.now(), Allocation(1, 1.0))
    speeds.append((simulation.now(), 1.0))
    simulation.finish()
    work = IndexedDraws(Gamma(load, 0.7).draw, 4, "a/work").between(0, len(times))
    expected = first_come_first_served(times.tolist(), work.tolist(), speeds)
    assert simulation.records[("a",)].ended_at() == pytest.approx(np.array(expected), rel=1e-12)
    assert simulation.is_done


@pytest.mark.parametrize("executors", [1, 3])
def test_the_answer_does_not_depend_on_how_the_run_is_cut(executors: int) -> None:
    """One stretch, a thousand and a ragged few give the same departures to the last bit."""
    times = _times(100_000, rate=100.0)
    operator = Operator("a", exponential(0.0095 * executors), limits=Limits(executors, executors))
    whole = Simulation(Pipeline.of_one(operator), times, seed=1)
    whole.finish()
    for cuts in (np.linspace(0.0, times[-1], 1000), np.sort(np.random.default_rng(2).uniform(0, times[-1], 37))):
        cut = Simulation(Pipeline.of_one(operator), times, seed=1)
        for at in cuts.tolist():
            cut.advance(at)
        cut.finish()
        assert np.array_equal(cut.records[("a",)].ended_at(), whole.records[("a",)].ended_at())


def test_executors_share_records_in_turn_and_come_late() -> None:
    """Until a new executor has started one server takes all; from then on records go to both in turn."""
    times = np.arange(12.0)
    operator = Operator("a", Deterministic(1.8), limits=LIMITS, start_up_seconds=2.5)
    simulation = Simulation(Pipeline.of_one(operator), times, start={"a": Allocation(1, 1.0)})
    simulation.advance(3.0)
    simulation.operators["a"].ask(3.0, Allocation(2, 1.0))
    assert simulation.operators["a"].allocation == Allocation(1, 1.0)
    simulation.advance(5.0)
    assert simulation.operators["a"].allocation == Allocation(1, 1.0)
    simulation.finish()
    assert simulation.operators["a"].allocation == Allocation(2, 1.0)
    # There from 5.5 on: records 0 to 5 on the first server, then 6, 8, 10 there and 7, 9, 11 on the second.
    first = first_come_first_served([*range(6), 6, 8, 10], [1.8] * 9, [(0.0, 1.0)])
    second = first_come_first_served([7, 9, 11], [1.8] * 3, [(0.0, 1.0)])
    assert simulation.records[("a",)].ended_at() == pytest.approx(np.sort([*first, *second]), rel=1e-12)


def test_an_executor_that_leaves_works_off_what_it_has() -> None:
    """After scaling in nothing is lost, and no new record goes to the executor that left."""
    times = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    operator = Operator("a", Deterministic(1.0), limits=LIMITS)
    simulation = Simulation(Pipeline.of_one(operator), times, start={"a": Allocation(2, 1.0)})
    simulation.advance(0.5)
    simulation.operators["a"].ask(0.5, Allocation(1, 1.0))
    simulation.finish()
    # Each server has two of the first four; the fifth waits behind the first server's second.
    assert simulation.records[("a",)].ended_at().tolist() == [1.0, 1.0, 2.0, 2.0, 3.0]
    assert simulation.operators["a"].work_done(simulation.now()) == pytest.approx(5.0)


def test_work_and_capacity_are_accounted_for() -> None:
    """CPU used is the work done so far, parts of records included; capacity is executors times share over time."""
    simulation = Simulation(Pipeline.of_one(Operator("a", Deterministic(2.0), limits=LIMITS)), np.array([1.0, 1.0]),
                            start={"a": Allocation(1, 0.5)})  # fmt: skip
    simulation.advance(3.0)
    assert simulation.operators["a"].work_done(3.0) == pytest.approx(1.0)
    simulation.operators["a"].ask(3.0, Allocation(1, 1.0))
    simulation.advance(4.0)
    assert simulation.operators["a"].work_done(4.0) == pytest.approx(2.0)
    assert simulation.operators["a"].used(4.0) == pytest.approx((4.0, 2.5))


def test_answers_scale_with_the_unit_of_time() -> None:
    """Times a million times shorter give latencies a million times shorter, in all their digits but the last few."""
    times = _times(20_000, rate=1.0)
    answers = []
    for unit in (1.0, 1e-6):
        simulation = Simulation(Pipeline.of_one(Operator("a", exponential(0.9 * unit))), times * unit, seed=1)
        simulation.finish()
        answers.append(simulation.records[("a",)].latencies().mean() / unit)
    assert answers[1] == pytest.approx(answers[0], rel=1e-9)


def test_no_precision_is_lost_over_many_records() -> None:
    """After a million records latencies still are those of the same records alone with an empty server before them."""
    n = 1_000_000
    times = np.arange(n, dtype=np.float64)  # every record finds the server empty
    simulation = Simulation(Pipeline.of_one(Operator("a", exponential(0.01))), times, seed=2)
    simulation.finish()
    work = IndexedDraws(exponential(0.01).draw, 2, "a/work").between(n - 10_000, n)
    # Times near 1e6 s are told apart to 1.2e-10 s; a sum over all records would be off by far more.
    assert np.abs(simulation.records[("a",)].latencies()[-10_000:] - work).max() < 8 * np.spacing(float(n))


def test_work_time_goes_there_and_back() -> None:
    """Translating to work time and back under one speed is the identity; a change of speed keeps it continuous."""
    clock = WorkTime(0.5)
    clock.set_speed(4.0, 0.25)
    assert clock.work(8.0) == pytest.approx(3.0)
    assert clock.time(3.0) == pytest.approx(8.0)
    assert clock.time(1.0) == 4.0  # what is behind the last change is not told again
    assert clock.count_until(np.array([2.5, 3.0, 3.5]), 8.0) == 2
    assert end_of(0.0, 3.0, [(0.0, 0.5), (4.0, 0.25)]) == pytest.approx(8.0)
