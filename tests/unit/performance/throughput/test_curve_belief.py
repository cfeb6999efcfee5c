# SPDX-License-Identifier: Apache-2.0
"""What is believed of every size: against a Gaussian process worked out at once, and the noise of measurements."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.performance.throughput import EnsembleModel
from penstock.performance.throughput.curve_belief import CurveBelief, model_curve, repeat_noise
from penstock.records import Allocation, ThroughputSample

SIZES = np.arange(1.0, 9.0)


def a_belief(draws: int = 1) -> CurveBelief:
    """Ten records a second for each machine, give or take a tenth; samples scatter by a twentieth."""
    expected = np.tile(10.0 * SIZES, (draws, 1))
    return CurveBelief(SIZES, expected, np.full_like(expected, 0.1), np.full(draws, 0.05))


def test_learning_one_by_one_is_the_gaussian_process_worked_out_at_once() -> None:
    """Three samples one after the other give the mean and variance of conditioning on all three."""
    places, rates = [2, 5, 5], [33.0, 55.0, 57.0]
    belief = a_belief()
    for place, rate in zip(places, rates, strict=True):
        belief.learn(np.array([place]), np.array([rate]))
    apart = np.sqrt(3.0) * np.abs(np.log(SIZES)[:, None] - np.log(SIZES)) / 0.4
    prior = 0.1**2 * (1.0 + apart) * np.exp(-apart)
    gain = prior[:, places] @ np.linalg.inv(prior[np.ix_(places, places)] + 0.05**2 * np.eye(3))
    logs = np.log(10.0 * SIZES) + gain @ (np.log(rates) - np.log(10.0 * SIZES[places]))
    variance = np.diag(prior - gain @ prior[places])
    assert belief.expected[0] == pytest.approx(np.exp(logs))
    assert belief.low(0.9)[0] == pytest.approx(np.exp(logs - 1.6448536 * np.sqrt(variance)))
    assert belief.high(0.9, noise_part=1.0)[0] == pytest.approx(np.exp(logs + 1.6448536 * np.sqrt(variance + 0.05**2)))


def test_the_mean_of_several_samples_counts_as_all_of_them() -> None:
    """Four samples that agree are one sample of a quarter of the variance."""
    one_by_one, at_once = a_belief(), a_belief()
    for _ in range(4):
        one_by_one.learn(np.array([3]), np.array([44.0]))
    at_once.learn_one(0, 3, 44.0, count=4)
    assert at_once.expected == pytest.approx(one_by_one.expected)
    assert at_once.low(0.9) == pytest.approx(one_by_one.low(0.9))


def test_draws_learn_apart() -> None:
    """What one draw measures says nothing to the next."""
    belief = a_belief(draws=2)
    belief.learn(np.array([0, 7]), np.array([12.0, 60.0]))
    assert belief.expected[0, 0] > 11.0
    assert belief.expected[1, 0] == pytest.approx(10.0, rel=1e-3)
    assert belief.expected[1, 7] < 65.0
    belief.learn_one(1, 0, 9.0)
    assert belief.expected[0, 0] > 11.0


def test_near_sizes_learn_most() -> None:
    """A sample moves its size most, its neighbours nearly as much, and one far away hardly."""
    belief = a_belief()
    belief.learn_one(0, 6, 60.0)
    moved = 1.0 - belief.expected[0] / (10.0 * SIZES)
    assert moved[6] > moved[7] > moved[5] > moved[2] > 0.0
    assert moved[0] < 0.1 * moved[6]


def test_a_model_without_the_noise_of_a_measurement() -> None:
    """The interval of what is sustained is narrower than that of a measurement, and holds the truth."""
    generator = np.random.default_rng(5)
    samples = [
        ThroughputSample(Allocation(size), float(10.0 * size * np.exp(0.08 * generator.standard_normal())))
        for size in (1, 2, 4, 8)
        for _ in range(6)
    ]
    model = EnsembleModel().fit(samples)
    sizes = [Allocation(size) for size in range(1, 9)]
    expected, spread, noise = model_curve(model, samples, sizes)
    assert noise == pytest.approx(0.08, rel=0.3)
    belief = CurveBelief.of([(model, samples)], sizes)
    low, high = belief.low(0.9)[0], belief.high(0.9)[0]
    assert belief.expected[0] == pytest.approx(expected)
    assert all(low[i] > model.predict(size, 0.9).low for i, size in enumerate(sizes))
    assert ((low < 10.0 * np.arange(1, 9)) & (high > 10.0 * np.arange(1, 9))).all()
    assert (spread >= 0.04).all()


def test_noise_is_assumed_where_nothing_was_repeated() -> None:
    """One sample of each size says nothing about noise; samples that agree do not make it zero."""
    apart = [ThroughputSample(Allocation(size), 10.0 * size) for size in (1, 2, 3)]
    assert repeat_noise(apart) == pytest.approx(0.1)
    assert 0.0 < repeat_noise([ThroughputSample(Allocation(2), 20.0)] * 50) < 0.01
