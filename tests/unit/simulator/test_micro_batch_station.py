# SPDX-License-Identifier: Apache-2.0
"""Micro-batches: what rides together, when a batch starts, and levels that change while it runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.unit.simulator.by_hand import end_of

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits
from penstock.simulator import MicroBatch, Operator, Pipeline, Simulation

LIMITS = Limits(1, 4, (0.5, 1.0))


def _simulation(batch: MicroBatch, times: list[float] | FloatArray, seed: int = 0) -> Simulation:
    operator = Operator("a", batch, limits=LIMITS)
    return Simulation(Pipeline.of_one(operator), np.asarray(times), seed=seed, start={"a": Allocation(1, 1.0)})


def _by_hand(batch: MicroBatch, times: list[float], speeds: list[tuple[float, float]]) -> list[float]:
    done: list[float] = []
    ready = 0.0
    while len(done) < len(times):
        first = times[len(done)]
        start = ready
        if first > ready:
            start = first if batch.trigger is None else math.ceil(first / batch.trigger) * batch.trigger
        riding = [t for t in times[len(done) :] if t <= start][: batch.cap]
        end = end_of(start, batch.fixed + batch.per_record * len(riding), speeds) + batch.driver
        done += [end] * len(riding)
        ready = end if batch.trigger is None else max(end, (start // batch.trigger + 1) * batch.trigger)
    return done


def test_all_that_wait_ride_together() -> None:
    """The first record rides alone, those that came meanwhile together; each batch is f + c n long."""
    simulation = _simulation(MicroBatch(fixed=1.0, per_record=0.5), [0.0, 0.2, 0.4, 9.0])
    simulation.finish()
    # 0.0 + 1.5; then two records from 1.5 on: 1 + 2 x 0.5; then one alone at 9.
    assert simulation.records[("a",)].ended_at().tolist() == [1.5, 3.5, 3.5, 10.5]


def test_a_cap_leaves_the_rest_for_the_next_batch() -> None:
    """With a cap of two, five records at once go in batches of two, two and one."""
    simulation = _simulation(MicroBatch(fixed=1.0, per_record=0.0, cap=2), [0.0] * 5)
    simulation.finish()
    assert simulation.records[("a",)].ended_at().tolist() == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_a_trigger_starts_batches_at_its_multiples() -> None:
    """Batches wait for the next multiple of the interval; one that overran is followed by the next at once."""
    batch = MicroBatch(fixed=0.5, per_record=1.0, trigger=2.0)
    simulation = _simulation(batch, [0.5, 1.0, 3.0, 3.5, 7.0, 12.5])
    simulation.finish()
    # At 2: two records, to 4.5, past the trigger at 4. At once the next two, to 7. The fifth came at 7: at once
    # again (the trigger at 6 is past), to 8.5. The last waits for 14.
    assert simulation.records[("a",)].ended_at().tolist() == [4.5, 4.5, 7.0, 7.0, 8.5, 15.5]


@pytest.mark.parametrize("trigger", [None, 0.75])
@pytest.mark.parametrize("cap", [None, 6])
@pytest.mark.parametrize("driver", [0.0, 0.2])
def test_batches_are_those_made_by_hand(trigger: float | None, cap: int | None, driver: float) -> None:
    """Under bursts and levels that change mid-batch every record ends when the plain recursion says."""
    rng = np.random.default_rng(8)
    times = np.cumsum(rng.standard_exponential(800) * rng.choice([0.02, 0.5], 800))
    batch = MicroBatch(fixed=0.3, per_record=0.03, cap=cap, trigger=trigger, driver=driver)
    simulation = _simulation(batch, times)
    speeds = [(0.0, 1.0)]
    for at in np.arange(5.0, times[-1], 5.0).tolist():
        simulation.advance(at)
        speeds.append((at, float(rng.choice([0.5, 1.0]))))
        simulation.operators["a"].ask(at, Allocation(1, speeds[-1][1]))
    simulation.finish()
    expected = _by_hand(batch, times.tolist(), speeds)
    assert simulation.records[("a",)].ended_at() == pytest.approx(np.array(expected), rel=1e-11)


def test_a_trigger_that_is_no_binary_number_fires_once_each() -> None:
    """Multiples of 0.7 are rounded; still one batch starts at each of them, none is taken twice or left out."""
    simulation = _simulation(MicroBatch(fixed=0.1, per_record=0.0, trigger=0.7), np.arange(0.0, 700.0, 0.35))
    simulation.finish()
    ends = np.unique(simulation.records[("a",)].ended_at())
    assert np.diff(ends) == pytest.approx(np.full(len(ends) - 1, 0.7), rel=1e-9)


def test_executors_divide_the_work_of_records_from_the_next_batch_on() -> None:
    """Four executors leave the fixed part as it is; a batch under way is not touched."""
    simulation = _simulation(MicroBatch(fixed=1.0, per_record=1.0), [0.0, 0.1, 0.1, 0.1, 0.1])
    simulation.advance(1.0)
    simulation.operators["a"].ask(1.0, Allocation(4, 1.0))
    simulation.finish()
    assert simulation.records[("a",)].ended_at().tolist() == [2.0, 4.0, 4.0, 4.0, 4.0]
    assert simulation.operators["a"].work_done(simulation.now()) == pytest.approx(7.0)


def test_work_of_a_running_batch_counts_in_part() -> None:
    """Half through a batch half of its work is done."""
    simulation = _simulation(MicroBatch(fixed=2.0, per_record=2.0), [0.0])
    simulation.advance(1.0)
    assert simulation.operators["a"].work_done(1.0) == pytest.approx(1.0)


def test_random_batches_do_not_depend_on_the_cut() -> None:
    """With random parts, cutting a run differently gives the same to the last bit."""
    times = np.cumsum(np.random.default_rng(1).standard_exponential(5000)) * 0.01
    batch = MicroBatch(fixed=0.05, per_record=0.004, fixed_scv=0.5, per_record_scv=2.0, trigger=0.2)
    whole, cut = _simulation(batch, times, seed=3), _simulation(batch, times, seed=3)
    whole.finish()
    for at in np.linspace(0.0, times[-1], 311).tolist():
        cut.advance(at)
    cut.finish()
    assert np.array_equal(whole.records[("a",)].ended_at(), cut.records[("a",)].ended_at())


@pytest.mark.parametrize(
    ("field", "value"), [("fixed", -1.0), ("cap", 0), ("trigger", 0.0), ("per_record_scv", float("nan"))]
)
def test_impossible_batches_are_refused(field: str, value: float) -> None:
    """A cost, cap or trigger that cannot be raises ConfigurationError that names it."""
    with pytest.raises(ConfigurationError, match=field):
        MicroBatch(**{"fixed": 1.0, "per_record": 1.0, field: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="some work"):
        MicroBatch(0.0, 0.0)
