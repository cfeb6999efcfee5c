# SPDX-License-Identifier: Apache-2.0
"""The cheapest schedule in hindsight."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.hindsight import HindsightSchedule, cheapest_schedule
from penstock.ports import FloatArray
from penstock.records import Allocation

SIZES = {Allocation(n): 10.0 * n for n in range(1, 5)}


def even(rate: float, seconds: float) -> FloatArray:
    """So many records a second, evenly."""
    return np.arange(0.0, seconds, 1.0 / rate)


def oldest(schedule: HindsightSchedule, times: FloatArray) -> float:
    """How old records become under a schedule, played record by record."""
    done, step = 0.0, 0
    for at in times:
        left = 1.0
        done = max(done, at)
        while left > 1e-12:
            step = min(int((done + 1e-9) / schedule.step_seconds), len(schedule.allocations) - 1)
            rate = SIZES[schedule.allocations[step]]
            end = schedule.step_seconds * (step + 1)
            part = left / rate if step == len(schedule.allocations) - 1 else min(left / rate, end - done)
            done, left = done + part, left - part * rate
        if done - at > 1e6:
            break
    return done - float(times[-1])


def test_an_even_load_that_fits_a_size_takes_that_size() -> None:
    """19 a second with no time to wait takes two all the time."""
    schedule = cheapest_schedule(even(19.0, 100.0), SIZES, oldest_seconds=0.2)
    assert {a.executors for a in schedule.allocations} == {2}
    assert schedule.executor_seconds == pytest.approx(200.0)


def test_time_to_wait_saves() -> None:
    """12 a second for 300 s are 360 executor seconds of work; with a minute to wait nearly no more are needed."""
    patient = cheapest_schedule(even(12.0, 300.0), SIZES, oldest_seconds=60.0)
    hasty = cheapest_schedule(even(12.0, 300.0), SIZES, oldest_seconds=0.5)
    assert 360.0 <= patient.executor_seconds < 375.0
    assert hasty.executor_seconds > patient.executor_seconds


def test_a_burst_is_spread_over_the_time_there_is() -> None:
    """A burst beyond the largest size is worked off before its records are too old."""
    times = np.sort(np.concatenate([even(5.0, 100.0), 40.0 + even(60.0, 10.0)]))
    schedule = cheapest_schedule(times, SIZES, oldest_seconds=30.0)
    assert oldest(schedule, times) <= 30.0
    assert max(a.executors for a in schedule.allocations) > 1


def test_it_ends_with_the_last_record() -> None:
    """Nothing is paid for when nothing is left to do."""
    schedule = cheapest_schedule(even(9.0, 50.0), SIZES, oldest_seconds=30.0)
    assert schedule.executor_seconds <= 55.0
    assert schedule.executor_seconds == pytest.approx(schedule.step_seconds * len(schedule.allocations))


def test_executors_that_take_long_to_start_are_kept() -> None:
    """15 a second are one and two executors in turn while starts are free; when they cost much, two all the time."""
    times = even(15.0, 200.0)
    free = cheapest_schedule(times, SIZES, oldest_seconds=20.0)
    dear = cheapest_schedule(times, SIZES, oldest_seconds=20.0, start_seconds=100.0)
    assert len(set(pairwise(free.allocations))) > 2
    assert sum(after.executors > before.executors for before, after in pairwise(dear.allocations)) == 0
    assert dear.executor_seconds > free.executor_seconds


def test_a_record_is_done_when_its_batch_ends() -> None:
    """When a burst ends, the oldest is 5 s old and 100 are left: one by one none is older than 10 s, in a batch 15."""
    times = np.sort(np.concatenate([even(5.0, 200.0), 50.0 + even(15.0, 10.0)]))
    one_by_one, tiny, large = (
        cheapest_schedule(times, SIZES, oldest_seconds=12.0, start_seconds=20.0, cap=cap) for cap in (None, 1, 100)
    )
    assert {a.executors for a in one_by_one.allocations} == {a.executors for a in tiny.allocations} == {1}
    assert {a.executors for a in large.allocations} == {1, 2}


def test_a_slow_spell_takes_more_executors() -> None:
    """Half as fast in its second half, the same load takes the larger size there alone."""
    times = even(9.0, 200.0)
    found = cheapest_schedule(
        times, SIZES, oldest_seconds=10.0, speed=lambda at: np.where(at < 100.0, 1.0, 0.5)
    )  # fmt: skip
    first, second = (sum(a.executors for a in found.allocations[part]) / 20 for part in (slice(20), slice(20, 40)))
    assert first == pytest.approx(0.9, abs=0.2)
    assert second == pytest.approx(1.8, abs=0.2)


def test_it_is_the_cheapest_of_all_schedules() -> None:
    """Of every schedule of six steps, played through, none that keeps up is cheaper; starts are counted."""
    times = np.sort(np.concatenate([even(8.0, 10.0), 10.0 + even(30.0, 10.0)]))
    found = cheapest_schedule(times, SIZES, oldest_seconds=10.0, start_seconds=7.0)
    ends = 5.0 * np.arange(1, 7)
    arrived, due = (np.searchsorted(times, ends - back, side="right") for back in (0.0, 10.0))
    costs = []
    for sizes in product(range(1, 5), repeat=6):
        done, cost = 0.0, 0.0
        for step, size in enumerate(sizes):
            if step >= 4 and done >= len(times):
                break
            cost += 5.0 * size + 7.0 * max(0, size - sizes[max(0, step - 1)])
            done = min(done + 50.0 * size, float(arrived[step]))
            if done < due[step]:
                cost = np.inf
        costs.append(cost if done >= len(times) else np.inf)
    assert found.executor_seconds == pytest.approx(min(costs))


def test_what_cannot_be_done_is_said() -> None:
    """More than the largest size does is an error that says how much that is."""
    with pytest.raises(ConfigurationError, match="the largest size sustains 40 records"):
        cheapest_schedule(even(80.0, 300.0), SIZES, oldest_seconds=10.0)
    with pytest.raises(ConfigurationError, match="must be positive"):
        cheapest_schedule(even(80.0, 300.0), SIZES, oldest_seconds=0.0)
    with pytest.raises(ConfigurationError, match="start_seconds must not be negative"):
        cheapest_schedule(even(8.0, 30.0), SIZES, oldest_seconds=10.0, start_seconds=-1.0)
