# SPDX-License-Identifier: Apache-2.0
"""Windows replayed through a queue, and the queue of a model."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP
from penstock.workload import predicted_responses, replay


def test_replay_follows_lindley() -> None:
    """The vectorised walk gives the recursion W' = max(0, W + S - A) step by step."""
    iats = np.random.default_rng(1).gamma(0.3, 1.0, 3000)
    queue = replay(iats, np.random.default_rng(7), (0.7,), times=2)
    rng = np.random.default_rng(7)
    x = iats / iats.mean()
    means = []
    for _ in range(2):
        need = 0.7 * 0.5 * (rng.standard_exponential(x.size) + rng.standard_exponential(x.size))
        waiting, total = 0.0, 0.0
        for i in range(x.size):
            if i:
                waiting = max(0.0, waiting + need[i - 1] - x[i])
            total += waiting + need[i]
        means.append(total / x.size)
    assert queue.responses[0] == pytest.approx(np.mean(means), rel=1e-9)


def test_replay_of_a_long_sample_meets_its_model() -> None:
    """A long sample replayed comes out as its own process's queue says."""
    process = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.5, 2.0])
    rng = np.random.default_rng(2)
    queue = replay(process.sample(500_000, rng), rng)
    assert queue.responses == pytest.approx(predicted_responses(process, queue.utilisations), rel=0.06)


def test_unit_of_time_does_not_matter() -> None:
    """Responses are in mean inter-arrival times, whatever the unit."""
    iats = np.random.default_rng(3).exponential(1.0, 2000)
    one = replay(iats, np.random.default_rng(4))
    other = replay(iats * 1e-6, np.random.default_rng(4))
    assert other.responses == pytest.approx(one.responses)
