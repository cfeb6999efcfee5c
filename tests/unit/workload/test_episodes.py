# SPDX-License-Identifier: Apache-2.0
"""Ordinary traffic with episodes of burst and lull, and the search for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.workload import FitResult, describe_iats, fit_maps, replay, staged
from penstock.workload.cycle_search import can_have, cycle, starts
from penstock.workload.episodes import Episode, episodes_for, start
from penstock.workload.staged import Chain
from penstock.workload.targets import Targets, targets_of

TRUE = np.array([np.log(0.6), np.log(0.06), np.log(0.1), np.log(9.0), 7.0, np.log(60_000.0)])
"""Of 1.66 parts of the arrivals 0.6 in bursts, 0.06 in lulls; a tenth of the others long, in runs of about 10."""


def one_episode(size: int, seed: int) -> np.ndarray:
    """A lull of long and short times in runs, then a burst of six times as many arrivals."""
    rng = np.random.default_rng(seed)
    lull = size // 7
    is_long = np.repeat(rng.random(lull // 10 + 1) < 0.5, 10)[:lull]
    return np.concatenate(
        [
            np.where(is_long, rng.exponential(12.0, lull), rng.exponential(0.05, lull)),
            rng.exponential(0.05, size - lull),
        ]
    )


def targets_for(window: np.ndarray) -> Targets:
    """Targets of a window."""
    return targets_of(describe_iats(window), replay(window, np.random.default_rng(2)))


@pytest.fixture(scope="module")
def targets() -> Targets:
    """Targets of a window that is one episode."""
    return targets_for(one_episode(10_000, 1))


@pytest.fixture(scope="module")
def fit() -> FitResult:
    """The fit of a window that is one episode."""
    return fit_maps(one_episode(10_000, 1))


def process_of(episode: Episode, theta: np.ndarray) -> MAP:
    """The process of an episode's parameters."""
    d0, d1 = staged.rates_of(*episode.chains(theta[None]), episode.phases())
    return MAP(d0[0], d1[0])


@pytest.mark.parametrize("episode", [Episode(3, 4), Episode(2, 3, 2, 3)], ids=str)
def test_chain_has_the_shares_and_the_length_asked_for(episode: Episode) -> None:
    """Bursts, lulls and ordinary traffic have their shares of the arrivals, a cycle its length, and the mean is 1."""
    process = process_of(episode, TRUE)
    _, p = episode.chains(TRUE[None])
    arrivals = np.linalg.matrix_power(p[0], 2**26)[0]
    assert process.order == episode.order
    assert process.mean == pytest.approx(1.0)
    assert arrivals[: episode.burst].sum() == pytest.approx(0.6 / 1.66, rel=1e-4)
    assert arrivals[-2:].sum() == pytest.approx(1.0 / 1.66, rel=1e-4)
    assert 1.0 / (arrivals[0] * p[0, 0, 1]) == pytest.approx(60_000.0, rel=1e-4)


def test_every_parameter_within_its_bounds_is_a_process_of_mean_one() -> None:
    """Any parameters within the bounds are a MAP of mean 1."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        episode = Episode(*(int(k) for k in rng.integers(1, 5, 4)))
        process = process_of(episode, rng.uniform(*episode.bounds(50_000)))
        assert process.mean == pytest.approx(1.0, rel=1e-6)


def test_start_is_read_off_the_descriptors(targets: Targets) -> None:
    """From a process's exact descriptors the start has its moments and the level of its autocorrelation."""
    episode = Episode(6, 6)
    process = process_of(episode, TRUE)
    moments = process.moments(3)
    exact = replace(targets, m2=moments[1], m3=moments[2], acf=process.autocorrelation(targets.lags), n=60_000)
    theta = start(episode, exact)
    assert theta is not None
    read = process_of(episode, theta)
    assert read.moments(3)[1:] == pytest.approx(moments[1:], rel=0.1)
    assert read.autocorrelation(100) == pytest.approx(process.autocorrelation(100), rel=0.15)
    assert read.autocorrelation(5) == pytest.approx(process.autocorrelation(5), rel=0.3)


def test_there_is_no_start_without_a_level(targets: Targets) -> None:
    """Where the autocorrelation is gone at far lags, or no lag is far, nothing can be read off."""
    assert start(Episode(6, 6), replace(targets, acf=0.3 * 0.5 ** (targets.lags / 4.0))) is None
    near = targets.lags <= 8
    assert start(Episode(6, 6), replace(targets, lags=targets.lags[near], acf=targets.acf[near])) is None


@pytest.mark.parametrize("most", [2, 4, 6, 8, 13, 16, 32])
@pytest.mark.parametrize("third", [1.1, 1.32, 1.4, 1.5, 3.0])
def test_sizes_keep_to_the_states_allowed(most: int, third: float, targets: Targets) -> None:
    """Episodes have at most the states allowed, and more phases a long time the smaller the third moment."""
    sizes = episodes_for(replace(targets, m3=third * targets.m2**2), most)
    assert all(size.order <= most for size in sizes)
    assert [size.order for size in sizes] == sorted((size.order for size in sizes), reverse=True)
    if most >= 16 and third > 1.3:
        assert sizes[0].parts == {1.32: 3, 1.4: 2, 1.5: 1, 3.0: 1}[third]
    if most < 6:
        assert not sizes


def test_moments_out_of_reach_are_moved_little_and_alike(targets: Targets) -> None:
    """The second and third moment give way by the same part, by 1 % at the most, and only if they have to."""
    ratio = targets.m3 / targets.m2**2
    assert targets.with_third_moment_above(0.9 * ratio) is targets
    moved = targets.with_third_moment_above(1.02 * ratio)
    assert moved.m3 / moved.m2**2 >= 1.02 * ratio
    assert moved.m3 / targets.m3 == pytest.approx(targets.m2 / moved.m2)
    most = targets.with_third_moment_above(2.0 * ratio)
    assert most.m3 / targets.m3 == pytest.approx(np.exp(0.01))


def test_chains_know_the_third_moments_they_can_have(targets: Targets) -> None:
    """States of one phase have m3 / m2^2 of at least 1.5, a hundredth of each moment aside; of two phases 4/3."""
    p = np.array([[0.9, 0.1], [0.2, 0.8]])
    chain = Chain(np.array([0.5, 2.0]), p, np.array([1, 1]))
    double = Chain(np.array([0.5, 2.0]), p, np.array([2, 2]))
    for third, one, two in ((1.6, True, True), (1.48, True, True), (1.4, False, True), (1.2, False, False)):
        wanted = replace(targets, m3=third * targets.m2**2)
        assert can_have(chain, wanted) is one
        assert can_have(double, wanted) is two


def test_stages_are_tried_only_with_a_composition_to_start_from(targets: Targets) -> None:
    """Without a composition of two components only what can be read off the window is tried."""
    rounds = starts(targets, 16, None)
    assert rounds
    assert {one.family for rivals in rounds for one in rivals} == {"episodes"}
    ((process, recipe),) = cycle(rounds[0][0], targets, lambda: False)
    assert process.order <= 16
    assert recipe.chain is not None


def test_a_window_that_is_one_episode_keeps_its_queue(fit: FitResult) -> None:
    """16 states meet the moments and come near the queue of a window with a single lull and burst."""
    best = fit.maps[0]
    assert best.family == "episodes"
    assert best.states <= 16
    assert abs(best.errors["m2"] or 0.0) <= 0.01
    assert abs(best.errors["m3"] or 0.0) <= 0.01
    assert best.worst_queue_factor < 1.3


def test_a_warm_start_outlives_a_change_of_the_third_moment(fit: FitResult) -> None:
    """When moved moments ask for other phases, chains are read off anew instead of searching everything anew."""
    later = one_episode(10_000, 1)[300:]
    again = fit_maps(later, warm=fit)
    assert again.is_warm
    assert again.maps[0].loss < 1.5 * fit.maps[0].loss
