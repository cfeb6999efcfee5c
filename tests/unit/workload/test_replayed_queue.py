# SPDX-License-Identifier: Apache-2.0
"""Windows replayed through a queue, and the queue of a model."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.workload import predicted_curve, replay


def test_replay_follows_lindley() -> None:
    """The vectorised walk gives the recursion W' = max(0, W + S - A) step by step, mean and percentile."""
    iats = np.random.default_rng(1).gamma(0.3, 1.0, 3000)
    queue = replay(iats, np.random.default_rng(7), (0.7,), times=1)
    chance = np.random.default_rng(7).random((2, iats.size))
    x = iats / iats.mean()
    means, percentiles = [], []
    for share in (1.0 - chance, chance):
        need = -0.7 * 0.5 * np.log(share).sum(axis=0)
        waiting, responses = 0.0, []
        for i in range(x.size):
            if i:
                waiting = max(0.0, waiting + need[i - 1] - x[i])
            responses.append(waiting + need[i])
        means.append(np.mean(responses))
        percentiles.append(sorted(responses)[int(0.95 * x.size)])
    assert queue.responses[0] == pytest.approx(np.mean(means), rel=1e-9)
    assert queue.percentiles[0] == pytest.approx(np.mean(percentiles), rel=1e-9)


def test_every_load_is_replayed_as_if_alone() -> None:
    """Whatever stands beside a load, in any order and twice over, its mean and percentile are the same."""
    iats = np.random.default_rng(3).gamma(0.3, 1.0, 3000)
    loads = (0.6, 0.05, 0.9, 0.3, 0.9, 0.6 + 1e-13)
    together = replay(iats, np.random.default_rng(7), loads, times=1)
    for at, load in enumerate(loads):
        alone = replay(iats, np.random.default_rng(7), (load,), times=1)
        assert together.responses[at] == pytest.approx(alone.responses[0], rel=1e-9)
        assert together.percentiles[at] == pytest.approx(alone.percentiles[0], rel=1e-9)


def test_mirrored_service_times_take_chance_out_of_a_replay() -> None:
    """A pair of replays with mirrored service times scatters less than two independent ones."""
    iats = MAP.mmpp([[-0.02, 0.02], [0.1, -0.1]], [0.5, 3.0]).sample(3000, np.random.default_rng(5))
    x, paired, independent = iats / iats.mean(), [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        paired.append(float(replay(iats, rng, (0.7,), times=1).responses[0]))
        both = []
        for _ in range(2):
            need = 0.7 * rng.gamma(2.0, 0.5, x.size)
            path = np.concatenate([[0.0], np.cumsum(need[:-1] - x[1:])])
            both.append(float((path - np.minimum.accumulate(path) + need).mean()))
        independent.append(np.mean(both))
    assert np.std(paired) < 0.9 * np.std(independent)


def test_a_window_is_replayed_more_often_where_its_percentile_jumps() -> None:
    """Where one arrival in twenty is in a burst that begins to queue, the percentile scatters less.

    Of 6,000 arrivals 330 come at twice the rate, so that the percentile jumps a little above a load of one half.
    """
    rng, loads = np.random.default_rng(3), (0.2, 0.35, 0.45, 0.52, 0.6, 0.7)
    gaps = np.concatenate([rng.exponential(1.1, 5670), rng.exponential(0.5, 330)])
    window = np.concatenate([gaps[:3000], gaps[5670:], gaps[3000:5670]])
    often = [replay(window, np.random.default_rng(seed), loads).percentiles for seed in range(12)]
    once = [replay(window, np.random.default_rng(seed), loads, times=4).percentiles for seed in range(12)]
    scatter = np.std(np.log(often), axis=0) / np.std(np.log(once), axis=0)
    assert scatter[loads.index(0.52)] < 0.75
    assert scatter[loads.index(0.35)] == pytest.approx(1.0)


def test_no_load_gives_no_response_times() -> None:
    """Asked for no utilisation, a replay is empty."""
    queue = replay(np.ones(100), np.random.default_rng(1), (), times=2)
    assert queue.responses.size == queue.percentiles.size == 0


def test_replay_of_a_long_sample_meets_its_model() -> None:
    """A long sample replayed comes out as its own process's queue says."""
    process = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.5, 2.0])
    rng = np.random.default_rng(2)
    queue = replay(process.sample(500_000, rng), rng, (0.2, 0.5, 0.8))
    mean, percentile = predicted_curve(process, queue.utilisations)
    assert queue.responses == pytest.approx(mean, rel=0.06)
    assert queue.percentiles == pytest.approx(percentile, rel=0.06)


def test_unit_of_time_does_not_matter() -> None:
    """Responses are in mean inter-arrival times, whatever the unit."""
    iats = np.random.default_rng(3).exponential(1.0, 2000)
    one = replay(iats, np.random.default_rng(4))
    other = replay(iats * 1e-6, np.random.default_rng(4))
    assert other.responses == pytest.approx(one.responses)
