# SPDX-License-Identifier: Apache-2.0
"""Closed forms and derivatives of the families that are searched."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.markov import MAP, compose, map2_from_moments
from penstock.workload import describe_iats, free_chain, product_form, replay
from penstock.workload.free_chain import Chain, FreeChain
from penstock.workload.lag_grid import dispersion_weights, lag_grid
from penstock.workload.least_squares import least_squares, onto_constraints
from penstock.workload.product_form import Shape
from penstock.workload.queue_terms import queue_terms
from penstock.workload.targets import M2_TOLERANCE, M3_TOLERANCE, Targets, targets_of

SHAPES = [Shape(1), Shape(2), Shape(3), Shape(1, 2), Shape(2, 2), Shape(1, 4)]


@pytest.fixture(scope="module")
def targets() -> Targets:
    """Targets of a bursty window."""
    window = map2_from_moments(1.0, 5.0, 60.0, 0.9).sample(8000, np.random.default_rng(1))
    return targets_of(describe_iats(window), replay(window, np.random.default_rng(2)))


def residuals_of(process: MAP, targets: Targets) -> np.ndarray:
    """The residuals a process of mean 1 has, from its own formulas."""
    moments = process.moments(3)
    acf = process.autocorrelation(targets.lags)
    idi = process.scv * (1.0 + 2.0 * targets.idi_map @ acf)
    bicovariance = process.bicovariance(targets.pairs[:, 0], targets.pairs[:, 1])
    return np.concatenate(
        [
            [np.log(moments[1] / targets.m2) / M2_TOLERANCE, np.log(moments[2] / targets.m3) / M3_TOLERANCE],
            (acf - targets.acf) * targets.acf_weights,
            np.log(idi / targets.idi) * targets.idi_weights,
            (bicovariance - targets.bicovariances) * targets.bicovariance_weights,
        ]
    )


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_closed_forms_are_those_of_the_composed_process(shape: Shape, targets: Targets) -> None:
    """Residuals in closed form equal those of the matrices composed, of the order stated and of mean 1."""
    theta = product_form.starts(shape, targets, 3, np.random.default_rng(3))
    residuals, _ = product_form.evaluate(theta, shape, targets)
    d0, d1 = product_form.matrices(theta, shape)
    for row in range(3):
        process = MAP(d0[row], d1[row])
        assert process.order == shape.order
        assert process.mean == pytest.approx(1.0)
        assert residuals[row] == pytest.approx(residuals_of(process, targets), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_derivatives_equal_differences(shape: Shape, targets: Targets) -> None:
    """Closed-form derivatives agree with central differences for every parameter."""
    theta = product_form.starts(shape, targets, 2, np.random.default_rng(4))
    _, slopes = product_form.evaluate(theta, shape, targets)
    for k in range(shape.parameters):
        step = np.zeros(shape.parameters)
        step[k] = 1e-6
        ahead, behind = (product_form.evaluate(theta + sign * step, shape, targets)[0] for sign in (1, -1))
        scale = 1.0 + np.abs(slopes[:, :, k]).max()
        assert np.abs((ahead - behind) / 2e-6 - slopes[:, :, k]).max() / scale < 1e-5


def test_matrices_are_kronecker_products_of_valid_components(targets: Targets) -> None:
    """A composition of two is what `markov.compose` makes of its components."""
    shape = Shape(2)
    theta = product_form.starts(shape, targets, 1, np.random.default_rng(5))
    single = [product_form.matrices(theta[:, i::2], Shape(1)) for i in range(2)]
    whole = compose(*(MAP(d0[0], d1[0]) for d0, d1 in single))
    d0, d1 = product_form.matrices(theta, shape)
    assert d0[0] == pytest.approx(whole.D0)
    assert d1[0] == pytest.approx(whole.D1)


def test_on_moments_meets_the_moments(targets: Targets) -> None:
    """A few steps of the retraction bring a start near the targets' second and third moment."""
    shape = Shape(3)
    theta = product_form.starts(shape, targets, 6, np.random.default_rng(6))
    before = np.abs(product_form.evaluate(theta, shape, targets)[0][:, :2]).sum(axis=1)
    moved = product_form.on_moments(theta, shape, targets, rounds=8)
    after = np.abs(product_form.evaluate(moved, shape, targets)[0][:, :2]).sum(axis=1)
    assert np.all(after <= before)
    assert np.median(after) < 1.0


def test_invariants_do_not_see_the_order_of_components(targets: Targets) -> None:
    """Swapping components, or a component's two phases, leaves the invariants as they are."""
    shape = Shape(2)
    theta = product_form.starts(shape, targets, 1, np.random.default_rng(7))
    swapped = theta[:, [1, 0, 3, 2, 5, 4]]
    turned = theta * np.array([-1.0, 1.0, -1.0, 1.0, 1.0, 1.0])
    mark = product_form.invariants(theta, shape)
    assert product_form.invariants(swapped, shape) == pytest.approx(mark)
    assert product_form.invariants(turned, shape) == pytest.approx(mark)


def test_queue_terms_equal_differences(targets: Targets) -> None:
    """The queue's residuals have the derivatives that differences show."""
    shape = Shape(2)
    theta = product_form.starts(shape, targets, 2, np.random.default_rng(8))
    theta[:, 4:] = np.clip(theta[:, 4:], -1.0, 3.0)

    def matrices(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return product_form.matrices(rows, shape)

    _, slopes = queue_terms(theta, matrices, targets)
    for k in range(shape.parameters):
        step = np.zeros(shape.parameters)
        step[k] = 1e-5
        ahead, behind = (queue_terms(theta + sign * step, matrices, targets)[0] for sign in (1, -1))
        assert slopes[:, :, k] == pytest.approx((ahead - behind) / 2e-5, rel=1e-3, abs=1e-3)


def alternating(parts: int) -> Chain:
    """A chain of two short and two long times in turn, the long ones of `parts` phases."""
    p = np.kron(np.array([[0.2, 0.8], [0.7, 0.3]]), np.array([[0.6, 0.4], [0.6, 0.4]]))
    return Chain(free_chain.unit_mean(np.array([[0.2, 0.5, 2.0, 6.0]]), p[None])[0], p, np.array([1, 1, parts, parts]))


def test_free_chain_round_trips_and_keeps_its_zeros(targets: Targets) -> None:
    """Parameters of a free chain give the chain back, and moving them adds no transition."""
    known = alternating(2)
    known.p[0] = [0.0, 0.2, 0.5, 0.3]
    mu, p = free_chain.unit_mean(known.mu[None], known.p[None]), known.p[None]
    chain = FreeChain.like(p[0], known.phases)
    theta = chain.parameters(mu[0], p[0])
    again_mu, again_p = chain.chains(theta[None])
    assert again_mu[0] == pytest.approx(mu[0])
    assert again_p[0] == pytest.approx(p[0])
    _, moved = chain.chains(theta[None] + np.random.default_rng(9).normal(0, 1, theta.size))
    assert np.array_equal(moved[0] > 0, p[0] > 0)
    residuals, slopes = free_chain.evaluate_chain(theta[None], chain.chains, chain.phases, targets, pull=theta)
    assert residuals.shape[1] == slopes.shape[1]
    assert np.all(residuals[0, -theta.size :] == 0.0)


@pytest.mark.parametrize("parts", [1, 3])
def test_chain_residuals_are_those_of_the_process(parts: int, targets: Targets) -> None:
    """Following powers of two along the lags gives the autocorrelation of the process."""
    known = alternating(parts)
    mu, p = known.mu[None], known.p[None]
    chain = FreeChain.like(p[0], known.phases)
    residuals, _ = free_chain.evaluate_chain(chain.parameters(mu[0], p[0])[None], chain.chains, chain.phases, targets)
    d0, d1 = free_chain.rates_of(mu, p, known.phases)
    expected = residuals_of(MAP(d0[0], d1[0]), targets)[: residuals.shape[1]]
    assert residuals[0] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_lag_grid_steps_are_powers_of_two() -> None:
    """Each lag is a power of two from the one before, the first eight are all there, none is beyond the end."""
    lags = lag_grid(1000)
    steps = np.diff(lags)
    assert np.all(steps & (steps - 1) == 0)
    assert np.all(np.diff(steps) >= 0)
    assert lags[:8].tolist() == list(range(1, 9))
    assert lags[-1] <= 1000 < 2 * lags[-1]


def test_dispersion_weights_sum_what_they_should() -> None:
    """For a decay that is linear between the lags of the grid the weighted sum is exact."""
    lags = lag_grid(500)
    every = np.arange(1, 300)
    values = np.interp(every, lags, np.exp(-lags / 100.0))
    exact = float(((1.0 - every / 300) * values).sum())
    assert dispersion_weights(lags, 300) @ np.exp(-lags / 100.0) == pytest.approx(exact)


def test_least_squares_finds_minima_within_bounds() -> None:
    """Rosenbrock's valley is followed to its end, and a bound in the way is kept."""

    def valley(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = np.stack([10.0 * (x[:, 1] - x[:, 0] ** 2), 1.0 - x[:, 0]], axis=1)
        j = np.zeros((len(x), 2, 2))
        j[:, 0, 0], j[:, 0, 1], j[:, 1, 0] = -20.0 * x[:, 0], 10.0, -1.0
        return r, j

    start = np.array([[-1.2, 1.0], [0.0, 0.0]])
    free, loss = least_squares(valley, start, np.full(2, -5.0), np.full(2, 5.0), iterations=200, tolerance=1e-12)
    assert free == pytest.approx(np.ones((2, 2)), abs=1e-4)
    assert np.all(loss < 1e-8)
    bound, _ = least_squares(valley, start, np.full(2, -5.0), np.full(2, 0.5), iterations=200, tolerance=1e-12)
    assert np.all(bound <= 0.5)


def test_least_squares_stops_when_late_and_shuns_the_infinite() -> None:
    """A search that is late returns its start; a start that is not finite stays infinitely bad."""

    def line(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r = np.where(x > 3.0, np.inf, x - 2.0)
        return r, np.ones((len(x), 1, 1))

    start = np.array([[0.0], [4.0]])
    same, _ = least_squares(line, start, np.full(1, -9.0), np.full(1, 9.0), iterations=9, is_late=lambda: True)
    assert same == pytest.approx(start)
    moved, loss = least_squares(line, start, np.full(1, -9.0), np.full(1, 9.0), iterations=30)
    assert moved[0, 0] == pytest.approx(2.0, abs=1e-3)
    assert loss[1] == np.inf


def test_onto_constraints_leaves_what_it_cannot_mend() -> None:
    """A constraint without a zero leaves the point where it was."""

    def never(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.exp(-x) * 0.0 + 1.0, np.full((len(x), 1, 1), 1e-9)

    start = np.array([[0.3]])
    assert onto_constraints(start, never) == pytest.approx(start)
