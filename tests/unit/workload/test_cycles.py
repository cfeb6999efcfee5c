# SPDX-License-Identifier: Apache-2.0
"""Windows of a few long bursts are fitted by a cycle of parts, found through their course and its queue."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.workload import fit_maps, predicted_curve, replay
from penstock.workload.added_chance import Added
from penstock.workload.candidates import LARGE, score
from penstock.workload.course import course_of
from penstock.workload.course_queue import course_curves
from penstock.workload.cycle_chain import Cycle
from penstock.workload.cycle_curve import fluid_of, lacking
from penstock.workload.cycle_search import search
from penstock.workload.fluid_curve import fluid_curves
from penstock.workload.load_curve import load_curves
from penstock.workload.moments import describe_iats
from penstock.workload.replay_queue import BARRED

LOADS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9)


def one_burst(seed: int = 1) -> np.ndarray:
    """A window of 20,000: a lull, one burst at two rates with most of the arrivals, and a lull."""
    rng = np.random.default_rng(seed)
    parts = ((2000, 4.0), (6000, 0.04), (10_000, 0.1), (2000, 4.0))
    return np.concatenate([rng.exponential(gap, count) for count, gap in parts])


def test_a_fluid_of_two_states_is_the_one_in_closed_form() -> None:
    """Burst and lull of exponential lengths: levels at arrivals are exponential, with the mean of Anick's formula.

    Rates 4 and 0.25, mean lengths 100 and 400: rate 1. At load 0.5 the level rises by 1 in a burst and falls by 0.875
    in a lull. Its decay is 1 / (1 * 100) - 1 / (0.875 * 400) = 1 / 140, for the falling level as for the rising one.
    """
    moves = np.array([[[-0.01, 0.01], [0.0025, -0.0025]]])
    mean, percentile = fluid_curves(np.array([[4.0, 0.25]]), moves, np.array([0.5]))
    # At level 0 the chain is in the lull for 1 - 0.5 of the time beyond its own work, waiting as Poisson arrivals do.
    rest = 0.25 * (400 * 0.875 - 100) / 0.875 / 500
    wait = 0.75 * 0.5 * 0.125 / 0.875
    above = 1.0 - rest
    assert mean[0, 0] == pytest.approx(above * 140.0 + 0.5 + rest * wait, rel=1e-6)
    assert percentile[0, 0] == pytest.approx(140.0 * np.log(above / 0.05) + 0.5, rel=1e-3)


def test_the_fluid_of_long_bursts_is_their_queue() -> None:
    """Where bursts are thousands of arrivals long, mean and percentile of the fluid are within 2 % of the queue's."""
    theta = np.log([[28.0, 12.0, 0.3, 0.2, 300.0, 900.0, 9000.0, 14_000.0]])
    shape = Cycle((2, 3, 3, 4))
    loads = np.array([0.2, 0.5, 0.9])
    mean, percentile = load_curves(*shape.matrices(theta), loads)
    assert fluid_of(theta, shape, loads)[0] == pytest.approx(np.concatenate([mean[0], percentile[0]]), rel=0.02)


def test_what_the_fluid_lacks_is_that_of_its_queue() -> None:
    """Fluid and what it lacks are the queue where it was solved, below the load at which bursts queue too."""
    theta, shape = np.log([6.0, 0.4, 40.0, 400.0]), Cycle((3, 5))
    loads = np.array([0.05, 0.2, 0.5, 0.9])
    queue = np.concatenate(load_curves(*shape.matrices(theta[None]), loads), axis=1)[0]
    curves = fluid_of(theta[None], shape, loads)[0] * np.exp(lacking(theta, (shape, shape), loads))
    assert curves == pytest.approx(queue)


def test_where_a_fluid_lacks_much_more_stages_are_solved() -> None:
    """At the load at which a burst begins to queue, a cycle of fewer stages does not tell what the fluid lacks."""
    theta, shape = np.log([6.0, 0.4, 400.0, 4000.0]), Cycle((20, 20))
    loads = np.array([0.155, 0.5])
    queue = np.concatenate(load_curves(*shape.matrices(theta[None]), loads), axis=1)[0]
    wanted = np.log(queue / fluid_of(theta[None], shape, loads)[0])
    assert np.abs(wanted[[0, 2]]).max() > 0.3
    found = lacking(theta, (Cycle((1, 1)), shape), loads)
    assert found[[0, 2]] == pytest.approx(wanted[[0, 2]])


def test_a_cycle_has_the_parts_asked_for() -> None:
    """Rates, shares of time and the variance of a part's length are those of its stages."""
    shape = Cycle((4, 2))
    process = MAP(*(matrix[0] for matrix in shape.matrices(np.log([[5.0, 0.5, 10.0, 90.0]]))))
    assert process.rate == pytest.approx((5.0 * 10.0 + 0.5 * 90.0) / 100.0)
    assert process.theta[:4].sum() == pytest.approx(0.1)
    assert -1.0 / (process.D0[0, 0] + process.D1[0, 0]) == pytest.approx(2.5)


def test_stages_go_where_chance_costs_most() -> None:
    """The part that moves the queue most gets most stages; every part has one, and all are given."""
    shape = Cycle.sharing(np.array([10.0, 1.0, 0.1]), np.array([100.0, 10.0, 900.0]), 20)
    assert shape.order == 20
    assert shape.stages[1] == 1
    assert abs(shape.stages[0] - shape.stages[2]) <= 1


def test_the_course_of_a_window_is_found() -> None:
    """Four stretches of constant rate are four pieces that lose little; two pieces lose more."""
    window = one_burst()
    queue = replay(window, np.random.default_rng(1))
    course = course_of(window, queue, 4)
    assert course.counts == pytest.approx([2000, 6000, 10_000, 2000], abs=150)
    assert course.counts.sum() == window.size
    assert course.lengths.sum() == pytest.approx(window.size)
    assert course_of(window, queue, 2).cost > 4.0 * course.cost


def test_a_course_that_repeats_has_the_queue_of_its_replay() -> None:
    """Mean and percentile of a course of three pieces are those of fifty repetitions replayed, to 3 %."""
    counts, gaps = (600, 300, 100), (0.2, 0.8, 6.0)
    once = np.concatenate([np.full(count, gap) for count, gap in zip(counts, gaps, strict=True)])
    queue = replay(np.tile(once, 50), np.random.default_rng(5), (0.3, 0.6, 0.9), times=1)
    theta = np.log([[1.0 / gap for gap in gaps] + [count * gap for count, gap in zip(counts, gaps, strict=True)]])
    mean, percentile = np.exp(course_curves(theta, np.array([0.3, 0.6, 0.9])))[0].reshape(2, -1)
    assert mean == pytest.approx(queue.responses, rel=0.03)
    assert percentile == pytest.approx(queue.percentiles, rel=0.03)


def test_the_queue_of_a_course_has_no_jump_where_a_piece_begins_to_queue() -> None:
    """Near the load at which its rate is the server's, a piece's queue is its own, and grows without a step.

    A burst of 4 times the mean rate and of 1,000 arrivals, in a cycle of 48 stages: the course without chance is within
    a tenth of it from below the load 1 / 4 to above it, where the mean grows thirtyfold.
    """
    theta, shape = np.log([[4.0, 0.25, 250.0, 1000.0]]), Cycle((24, 24))
    loads = np.linspace(0.2, 0.3, 21)
    mean, percentile = np.exp(course_curves(theta, loads))[0].reshape(2, -1)
    queue, _ = load_curves(*shape.matrices(theta), loads)
    assert np.abs(np.log(mean / queue[0])).max() < 0.1
    for curve in (mean, percentile):
        growth = np.diff(np.log(curve))
        assert growth.min() > 0.0
        assert growth.max() < 0.35


def test_what_chance_adds_is_learnt_along_the_steps_taken() -> None:
    """After a step, what is added is right at both ends of it and linear in between; across it, it is unchanged."""
    loads, start = np.array([0.5]), np.array([0.0, 0.0])
    first = Added.of(loads, start, np.array([0.1, 0.2]), None)
    second = Added.of(loads, np.array([0.5, 0.0]), np.array([0.3, 0.1]), first)
    assert second.to(np.array([[0.0, 0.0], [0.25, 0.0], [0.5, 9.0]])) == pytest.approx(
        np.array([[0.1, 0.2], [0.2, 0.15], [0.3, 0.1]])
    )
    assert second.around(first).to(start[None])[0] == pytest.approx([0.1, 0.2])
    wider = Added(np.array([0.2, 0.6]), start, np.array([0.0, 0.4, 1.0, 1.0]), np.zeros((4, 2)))
    assert wider.at(np.array([0.4])).values == pytest.approx([0.2, 1.0])
    assert wider.scaled(0.5).values == pytest.approx([0.0, 0.2, 0.5, 0.5])


def test_a_course_has_no_first_piece_and_no_unit_of_time() -> None:
    """Begun at another piece, or told in other units of time, a course has the same queue."""
    rates, lengths, loads = np.log([6.0, 0.2, 2.0]), np.log([50.0, 700.0, 90.0]), np.array([0.1, 0.5, 0.9])
    rows = np.array(
        [
            np.concatenate([rates, lengths]),
            np.concatenate([np.roll(rates, 1), np.roll(lengths, 1)]),
            np.concatenate([rates - 3.0, lengths + 3.0]),
        ]
    )
    curves = course_curves(rows, loads)
    assert curves[1] == pytest.approx(curves[0], abs=1e-5)
    assert curves[2] == pytest.approx(curves[0], abs=1e-5)


@pytest.mark.parametrize("states", [8, 24])
def test_cycles_have_no_more_states_than_asked_for(states: int) -> None:
    """A search for small cycles gives small ones, each a valid process of mean 1."""
    window = one_burst()
    queue = replay(window, np.random.default_rng(1))
    found = list(search(lambda pieces: course_of(window, queue, pieces), queue, states, lambda: False))
    assert found
    for process, _ in found:
        assert process.order <= states
        assert process.mean == pytest.approx(1.0)


def test_small_processes_are_no_cycles() -> None:
    """Who asks for at most 16 states, as the policy mead does, gets chains of bursts as before."""
    fit = fit_maps(one_burst(), best=3, max_states=16)
    assert all(not fitted.family.startswith("cycle") and fitted.states <= 16 for fitted in fit.maps)


def test_one_long_burst_is_right_at_every_load() -> None:
    """A window with one burst is within the bars at loads of 0.05 to 0.9, against a replay the fit has not seen.

    A chain that returns to its base after exponential times is off by a factor of 3 at a load of 0.9.
    """
    window = one_burst()
    best = fit_maps(window, best=1).maps[0]
    queue = replay(window, np.random.default_rng(77), LOADS, times=2)
    mean, percentile = predicted_curve(best.map, LOADS)
    assert best.family.startswith("cycle")
    assert np.abs(mean / queue.responses - 1.0).max() <= 0.15
    assert np.abs(percentile / queue.percentiles - 1.0).max() <= 0.25
    assert best.map.mean == pytest.approx(window.mean())


def test_the_errors_of_a_cycle_are_those_of_its_queue() -> None:
    """What a cycle reports of itself, by its course and what is added, is what its queue says, to a few points."""
    window = one_burst(2)
    fit = fit_maps(window, best=1)
    at = [5, 15, 25]
    loads = fit.queue.utilisations[at]
    mean, percentile = predicted_curve(fit.maps[0].map, loads)
    told = [(fit.maps[0].queue_errors[u], fit.maps[0].percentile_errors[u]) for u in loads.tolist()]
    seen = np.stack([mean / fit.queue.responses[at], percentile / fit.queue.percentiles[at]], axis=1) - 1.0
    assert np.array(told) == pytest.approx(seen, abs=0.04)


def test_a_cycle_is_gone_on_from() -> None:
    """A window that has moved on by a twentieth is fitted from the last one's cycle."""
    window = one_burst(3)
    first = fit_maps(window, best=1)
    again = fit_maps(np.concatenate([window[1000:], window[:1000]]), best=1, warm=first)
    assert again.is_warm
    assert again.maps[0].family == first.maps[0].family
    assert again.maps[0].worst_error <= max(1.0, 1.5 * first.maps[0].worst_error)


def whole_hours(hours: int = 30, seed: int = 1) -> np.ndarray:
    """Gaps of 110 to 130 arrivals at every full hour, all within a minute, stamped to the second."""
    rng = np.random.default_rng(seed)
    minutes = [3600 * hour + rng.integers(0, 60, rng.integers(110, 131)) for hour in range(hours)]
    return np.diff(np.sort(np.concatenate(minutes)))


def test_a_cycle_of_few_arrivals_is_right_itself() -> None:
    """Where a cycle has a hundred arrivals, its own queue is longer than its curves tell, and is within the bars.

    Such cycles were 4 to 9 % above their bar at a load of 0.9.
    """
    window = whole_hours()
    fit = fit_maps(window, best=1)
    best, barred = fit.maps[0], fit.queue.utilisations <= BARRED
    assert best.states > LARGE
    mean, percentile = predicted_curve(best.map, fit.queue.utilisations[barred])
    assert np.abs(mean / fit.queue.responses[barred] - 1.0).max() < 0.15
    assert np.abs(percentile / fit.queue.percentiles[barred] - 1.0).max() < 0.25
    assert best.meets_bars


def test_bars_are_claimed_of_the_process_and_not_of_its_curves() -> None:
    """A large cycle whose curves are right and whose own queue is not does not meet the bars."""
    window = one_burst()
    queue, trace = replay(window, np.random.default_rng(1)), describe_iats(window)
    courses = search(lambda pieces: course_of(window, queue, pieces), queue, 96, lambda: False)
    process, recipe = next(iter(courses))
    assert score(process, trace, queue, recipe).meets_bars
    exact = np.log(np.stack([queue.responses, queue.percentiles]))
    busier = replace(queue, responses=1.3 * queue.responses, percentiles=1.3 * queue.percentiles)
    claimed = score(process, trace, busier, replace(recipe, curves=exact + np.log(1.3)))
    assert claimed.worst_error < 1e-9
    assert not claimed.meets_bars
