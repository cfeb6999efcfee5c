# SPDX-License-Identifier: Apache-2.0
"""Times that vary, as points and weights, and the cycle of full batches."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammainc

from penstock.performance.queueing.micro_batch.batch_times import COARSE, FINE, full_cycle, gamma_points
from penstock.performance.queueing.micro_batch.server import MicroBatch, batch_time_nodes


@pytest.mark.parametrize("scv", [1e-3, 0.1, 1.0, 4.0, 20.0, 100.0])
@pytest.mark.parametrize("cuts", [COARSE, FINE])
def test_points_have_the_moments_of_the_time(scv: float, cuts: tuple[float, ...]) -> None:
    """Mean, variance and third moment are a gamma distribution's beyond its floor, however long its tail."""
    times, weights = gamma_points(np.array([2.0]), np.array([5.0]), np.array([9.0 * scv]), cuts)
    assert np.all(times >= 2.0)
    assert np.all(weights >= 0)
    mean = float((times * weights).sum())
    assert mean == pytest.approx(5.0, rel=1e-9)
    assert float(((times - mean) ** 2 * weights).sum()) == pytest.approx(9.0 * scv, rel=5e-3)
    assert float(((times - mean) ** 3 * weights).sum()) == pytest.approx(2 * 27.0 * scv**2, rel=2e-2)


def test_a_cut_parts_the_probabilities_exactly() -> None:
    """The weights of the times up to the cut are the distribution function there."""
    times, weights = gamma_points(np.zeros(2), np.array([1.0, 3.0]), np.array([0.5, 3.0]), COARSE, 1.3)
    below = ((times <= 1.3) * weights).sum(axis=1)
    assert below == pytest.approx(gammainc([2.0, 3.0], [2.6, 1.3]), rel=1e-6)


def test_a_time_that_does_not_vary_is_one_point() -> None:
    """Without variance the mean stands for itself."""
    times, weights = batch_time_nodes(MicroBatch(0.5, 0.1), np.array([0.0, 1.0, 10.0]))
    assert times[:, 0].tolist() == pytest.approx([0.0, 0.6, 1.5])
    assert weights.tolist() == [[1.0]] * 3


def test_floor_is_the_part_that_does_not_vary() -> None:
    """If only one part of a batch's time varies, the other is its floor; if both do, it lies below both means."""
    sizes = np.array([1.0, 20.0])
    assert MicroBatch(0.5, 0.1, per_record_scv=2.0).batch_floor(sizes) == pytest.approx([0.5, 0.5])
    assert MicroBatch(0.5, 0.1, fixed_scv=2.0).batch_floor(sizes) == pytest.approx([0.1, 2.0])
    both = MicroBatch(0.5, 0.1, fixed_scv=2.0, per_record_scv=3.0).batch_floor(sizes)
    assert np.all((both >= 0) & (both < 0.5 + 0.1 * sizes))


@pytest.mark.parametrize(("mean", "scv"), [(0.9, 0.1), (1.0, 1.0), (3.0, 1.0)])
def test_full_cycle_agrees_with_simulation(mean: float, scv: float) -> None:
    """Mean and long-run variance of the time from start to start are those of full batches followed one by one."""
    rng = np.random.default_rng(3)
    runs, steps, settle = 4000, 300, 20
    place, spent = rng.random(runs), np.zeros(runs)
    for step in range(settle + steps):
        batch = rng.gamma(1 / scv, mean * scv, runs)
        done = batch <= 1.0 - place
        spent += np.where(done, 1.0 - place, batch) * (step >= settle)
        place = np.where(done, 0.0, (place + batch) % 1.0)
    cycle = full_cycle(0.0, mean, scv * mean**2, 1.0)
    assert cycle.mean == pytest.approx(float(spent.mean()) / steps, rel=4e-3)
    assert cycle.variance == pytest.approx(float(spent.var()) / steps, rel=0.12)
    scaled = full_cycle(0.0, mean * 1e-6, scv * mean**2 * 1e-12, 1e-6)
    assert scaled.mean == pytest.approx(1e-6 * cycle.mean, rel=1e-9)


def test_full_cycle_of_constant_batches() -> None:
    """Batches that do not vary start at every trigger, or follow each other at once if they are longer."""
    assert full_cycle(0.5, 0.5, 0.0, 1.0).mean == 1.0
    assert full_cycle(1.5, 1.5, 0.0, 1.0).mean == 1.5
    assert full_cycle(0.0, 0.5, 0.1, None).mean == 0.5


@pytest.mark.parametrize("deviation", [1e-4, 1e-5, 1e-7, 1e-10])
@pytest.mark.parametrize(("mean", "cycle"), [(0.5, 1.0), (1.5, 1.5), (1.001, 1.001)])
def test_full_cycle_of_almost_constant_batches(mean: float, cycle: float, deviation: float) -> None:
    """However little batches vary, the cycle is nearly that of constant ones."""
    assert full_cycle(0.5 * mean, mean, deviation**2, 1.0).mean == pytest.approx(cycle, rel=0.01)
