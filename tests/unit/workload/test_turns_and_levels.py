# SPDX-License-Identifier: Apache-2.0
"""Windows that come alike again after a while: their period and turns, and cycles of one turn, at one level or more."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.workload import fit_maps, predicted_curve, replay
from penstock.workload.cycle_curve import fluid_of
from penstock.workload.load_curve import load_curves
from penstock.workload.minimax import descend
from penstock.workload.modulated_cycle import ModulatedCycle
from penstock.workload.turns import Turns

LOADS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.72, 0.75, 0.8, 0.85, 0.9)


def minutes(levels: np.ndarray, seed: int = 1) -> np.ndarray:
    """Gaps of 800 arrivals a minute, times the minute's level: half of them in its first half second."""
    rng = np.random.default_rng(seed)
    times = []
    for minute, level in enumerate(levels):
        burst, rest = rng.poisson(400 * level, 2)
        times += [60 * minute + rng.uniform(0.0, 0.5, burst), 60 * minute + rng.uniform(0.0, 60.0, rest)]
    return np.diff(np.sort(np.concatenate(times)))


def rising(seed: int = 1) -> np.ndarray:
    """A window of 43 minutes whose rate rises tenfold, fast at first."""
    return minutes(0.13 + 1.3 * (1.0 - np.exp(-np.arange(43) / 12.0)), seed)


@pytest.mark.parametrize("seed", range(3))
def test_the_period_of_full_minutes_is_a_minute(seed: int) -> None:
    """Found to a tenth of a second, also where the rate rises."""
    for window in (rising(seed), minutes(np.ones(20), seed)):
        turns = Turns.of(window)
        assert turns is not None
        assert turns.period * window.mean() == pytest.approx(60.0, abs=0.1)


def test_windows_that_do_not_come_again_have_no_period() -> None:
    """Neither Poisson arrivals nor bursts at random times have turns, nor does a window of equal gaps."""
    rng = np.random.default_rng(2)
    random = MAP.mmpp([[-1 / 18, 1 / 18], [0.5, -0.5]], [100.0, 600.0]).sample(30_000, rng)
    for window in (rng.exponential(1.0, 20_000), random, np.ones(5000)):
        assert Turns.of(window) is None


def test_a_turn_has_its_own_course() -> None:
    """Half of the arrivals at once, the others spread over the minute, in units of the mean gap."""
    window = minutes(np.ones(30))
    turns = Turns(60.0 / window.mean(), np.cumsum(window / window.mean()))
    course = turns.course(replay(window, np.random.default_rng(1)), 2)
    assert course.lengths.sum() == pytest.approx(turns.period, rel=1e-6)
    assert course.counts.sum() == pytest.approx(turns.period, rel=1e-6)
    assert course.counts[0] / course.counts.sum() == pytest.approx(0.5, abs=0.03)
    assert course.lengths[0] / course.lengths.sum() < 0.02


def test_levels_are_cut_where_the_counts_change() -> None:
    """Eight turns of a half, ten of one and a half, twelve of one: the levels, and how long they last."""
    turns = Turns.of(minutes(np.repeat([0.5, 1.5, 1.0], [8, 10, 13])))
    assert turns is not None
    levels, lasting = turns.levels()
    assert lasting[:2].tolist() == [8, 10]
    assert levels / levels[2] == pytest.approx([0.5, 1.5, 1.0], abs=0.1)
    assert turns.spread == pytest.approx(0.37, abs=0.05)
    even = Turns.of(minutes(np.ones(20)))
    assert even is not None
    assert even.spread < 0.1


def test_a_modulated_cycle_has_the_turns_asked_for() -> None:
    """Levels are met in the shares of time that their turns ask for, arrivals in those of levels and parts."""
    shape = ModulatedCycle(((2, 3), (1, 1)))
    theta = np.log([[12.0, 0.5, 3.0, 57.0, 1.0, 3.0, 8.0, 4.0]])
    process = MAP(*(matrix[0] for matrix in shape.matrices(theta)))
    assert process.rate == pytest.approx(1.0)
    assert process.order == shape.order == 7
    assert process.theta[:5].sum() == pytest.approx(2 / 3)  # 8 turns of 12
    assert process.theta[:2].sum() == pytest.approx(2 / 3 * 3 / 60)
    came = process.theta @ process.D1
    assert came[5:].sum() == pytest.approx(3 * 4 / (8 + 3 * 4))
    assert came[5] / came[5:].sum() == pytest.approx(36.0 / (36.0 + 28.5))


def test_at_one_level_it_is_a_cycle() -> None:
    """A level that lasts one turn and another that is the same are a cycle of twice as many parts: a period of two."""
    loads = np.array([0.2, 0.9])
    once = ModulatedCycle(((2, 3),)).matrices(np.log([[6.0, 0.5, 40.0, 400.0, 1.0, 1.0]]))
    twice = ModulatedCycle(((2, 3), (2, 3))).matrices(np.log([[6.0, 0.5, 40.0, 400.0, 1.0, 1.0, 1.0, 1.0]]))
    for one, two in zip(load_curves(*once, loads), load_curves(*twice, loads), strict=True):
        assert two == pytest.approx(one, rel=1e-6)


def test_stages_go_to_the_level_at_which_the_queue_wanders() -> None:
    """The level that is the server's rate at a load within the bars gets most states, forth and back alike."""
    theta = np.log([30.0, 0.5, 13.0, 750.0, 0.2, 0.6, 1.2, 8.0, 10.0, 25.0])
    shape = ModulatedCycle.sharing(theta, 3, 96, np.array([0.05, 0.5, 0.9]), np.array([10.0, 100.0, 3000.0]))
    assert shape.order <= 96
    assert all(k >= 1 for level in shape.stages for k in level)
    assert sum(shape.stages[2]) > 0.7 * 96
    assert abs(shape.stages[2][0] - shape.stages[2][1]) <= 3
    assert shape.with_at_most(6).order < 36


def test_the_fluid_of_long_turns_is_their_queue() -> None:
    """Where bursts are hundreds of arrivals long, mean and percentile of the fluid are within 3 % of the queue's."""
    theta = np.log([[60.0, 0.4, 8.0, 800.0, 0.5, 1.2, 8.0, 12.0]])
    shape, loads = ModulatedCycle(((2, 2), (3, 3))), np.array([0.3, 0.6, 0.9])
    queue = np.concatenate(load_curves(*shape.matrices(theta), loads), axis=1)
    assert fluid_of(theta, shape, loads) == pytest.approx(queue, rel=0.03)


def test_the_largest_error_is_lowered() -> None:
    """Three lines through two unknowns: the largest of the errors is the least that there can be, a third."""

    def errors_of(rows: np.ndarray) -> np.ndarray:
        return np.stack([rows[:, 0] - 1.0, rows[:, 1] - 1.0, rows[:, 0] + rows[:, 1] - 1.0], axis=1)

    theta, errors = descend(errors_of, np.zeros(2), 30, 0.0)
    assert np.abs(errors).max() == pytest.approx(1 / 3, abs=0.03)
    assert theta == pytest.approx([2 / 3, 2 / 3], abs=0.05)


@pytest.mark.parametrize("seed", [1, 2])
def test_bursts_at_full_minutes_and_a_rising_rate_are_right_at_every_load(seed: int) -> None:
    """Two time scales at once are within the bars, against a replay the fit has not seen."""
    window = rising(seed)
    best = fit_maps(window, best=1).maps[0]
    queue = replay(window, np.random.default_rng(77), LOADS, times=3)
    mean, percentile = predicted_curve(best.map, LOADS)
    assert best.family == "cycle of 2 parts at 3 levels"
    assert best.states <= 96
    assert np.abs(mean / queue.responses - 1.0).max() <= 0.15
    assert np.abs(percentile / queue.percentiles - 1.0).max() <= 0.25
    assert best.map.mean == pytest.approx(window.mean())


def test_even_turns_are_a_cycle_of_one_turn() -> None:
    """Without levels a window of turns is a cycle as long as one of them, and right at every load."""
    window = minutes(np.ones(25), 3)
    best = fit_maps(window, best=1).maps[0]
    queue = replay(window, np.random.default_rng(77), LOADS, times=3)
    mean, percentile = predicted_curve(best.map, LOADS)
    assert best.family == "cycle of 2 parts"
    assert np.abs(mean / queue.responses - 1.0).max() <= 0.15
    assert np.abs(percentile / queue.percentiles - 1.0).max() <= 0.25


def test_turns_and_levels_are_gone_on_from() -> None:
    """The same window is fitted from the last result: its turns and levels tell the same, so the chain stays."""
    window = rising(1)
    first = fit_maps(window, best=1)
    again = fit_maps(window, best=1, warm=first)
    assert first.maps[0].recipe.modulated is not None
    assert again.is_warm
    assert again.maps[0].worst_error <= max(1.0, first.maps[0].worst_error)


def test_small_processes_have_no_levels() -> None:
    """Who asks for at most 16 states gets chains of bursts."""
    fit = fit_maps(rising(), best=3, max_states=16)
    assert all("levels" not in fitted.family and fitted.states <= 16 for fitted in fit.maps)
