# SPDX-License-Identifier: Apache-2.0
"""The MAP/PH/1 queue against closed forms, simulation and differences."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import InvalidProcessError
from penstock.markov import MAP, PH, superpose
from penstock.markov.queue_gradient import mean_response, queue_gradient, queue_means, stationary_rows

BURSTY = superpose(MAP.mmpp([[-0.01, 0.01], [0.02, -0.02]], [0.2, 5.0]), MAP.renewal(PH.erlang(2, mean=3.0))).with_rate(
    1.0
)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.99])
def test_poisson_arrivals_obey_pollaczek_and_khinchin(load: float) -> None:
    """M/PH/1 has the mean response time of the Pollaczek-Khinchin formula."""
    service = PH.coxian([3.0, 0.5], [0.2])
    arrivals = MAP.poisson(load / service.mean)
    m2 = float(service.moments(2)[1])
    expected = service.mean + arrivals.rate * m2 / 2.0 / (1.0 - load)
    assert mean_response(arrivals, service) == pytest.approx(expected, rel=1e-10)


def test_erlang_arrivals_obey_the_root_of_their_transform() -> None:
    """E2/M/1 has response 1 / (mu (1 - s)), s being the root of s = (2 lam / (2 lam + mu (1 - s)))^2."""
    lam, mu = 0.7, 1.0
    s = 0.5
    for _ in range(500):
        s = (2 * lam / (2 * lam + mu * (1 - s))) ** 2
    arrivals = MAP.renewal(PH.erlang(2, mean=1.0 / lam))
    assert mean_response(arrivals, PH.exponential(mean=1.0 / mu)) == pytest.approx(1.0 / (mu * (1 - s)), rel=1e-10)


def test_time_unit_does_not_matter() -> None:
    """Microseconds and hours give the same queue."""
    service = PH.erlang(2, mean=0.8)
    expected = mean_response(BURSTY, service)
    for factor in (1e-9, 1e9):
        scaled = mean_response(BURSTY.time_scaled(factor), service.time_scaled(factor))
        assert scaled == pytest.approx(expected * factor, rel=1e-9)


def test_simulation_agrees() -> None:
    """A long Lindley recursion of the same arrivals comes out near the solution."""
    rng = np.random.default_rng(3)
    process = MAP.mmpp([[-0.2, 0.2], [0.3, -0.3]], [0.5, 2.0]).with_rate(1.0)
    n = 1_000_000
    service = 0.7 * rng.gamma(2.0, 0.5, n)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - process.sample(n, rng)[1:])])
    simulated = float((walk - np.minimum.accumulate(walk)).mean() + service.mean())
    assert mean_response(process, PH.erlang(2, mean=0.7)) == pytest.approx(simulated, rel=0.05)


def test_unstable_queue_is_infinite() -> None:
    """At and above utilisation 1 the mean is infinite, in a stack as well as alone."""
    service = PH.exponential(mean=1.0)
    assert mean_response(MAP.poisson(1.0), service) == np.inf
    d0 = np.array([[[-0.5]], [[-2.0]]])
    means = queue_means(d0, -d0, service.alpha, np.stack([service.T] * 2))
    assert means.response[0] == pytest.approx(2.0)
    assert means.response[1] == np.inf


def test_stack_equals_single_queues() -> None:
    """Queues solved together come out as each alone."""
    unit = PH.erlang(2, mean=1.0)
    loads = np.array([0.3, 0.6, 0.9])
    d0, d1 = np.stack([BURSTY.D0] * 3), np.stack([BURSTY.D1] * 3)
    together = queue_means(d0, d1, unit.alpha, unit.T / loads[:, None, None])
    assert np.all(together.residuals < 1e-10)
    for load, response in zip(loads, together.response, strict=True):
        assert response == pytest.approx(mean_response(BURSTY, PH.erlang(2, mean=float(load))), rel=1e-10)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_gradient_equals_differences(load: float) -> None:
    """Derivatives to entries of D0 and D1 agree with central differences."""
    unit = PH.erlang(2, mean=load)
    gradient = queue_gradient(BURSTY.D0[None], BURSTY.D1[None], unit.alpha, unit.T[None])
    means = queue_means(BURSTY.D0[None], BURSTY.D1[None], unit.alpha, unit.T[None])
    assert gradient.number[0] == pytest.approx(means.number[0], rel=1e-10)
    h = 1e-6

    def number(i: int, j: int, step: float, arriving: bool) -> float:
        d0, d1 = BURSTY.D0.copy(), BURSTY.D1.copy()
        (d1 if arriving else d0)[i, j] += step
        d0[i, i] -= step
        return float(queue_means(d0[None], d1[None], unit.alpha, unit.T[None]).number[0])

    for i, j, arriving in ((0, 1, False), (2, 3, False), (1, 0, True), (2, 2, True), (3, 2, True)):
        difference = (number(i, j, h, arriving) - number(i, j, -h, arriving)) / (2 * h)
        exact = (gradient.to_D1 if arriving else gradient.to_D0)[0, i, j] - gradient.to_D0[0, i, i]
        assert exact == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_service_of_wrong_shape_is_refused() -> None:
    """One service matrix for two queues is an error that names the shape."""
    d0 = np.full((2, 1, 1), -0.5)
    with pytest.raises(InvalidProcessError, match="one 2 x 2 matrix"):
        queue_gradient(d0, -d0, np.array([1.0, 0.0]), PH.erlang(2, mean=1.0).T[None])


def test_stationary_rows_of_a_stack() -> None:
    """Each generator of a stack has its own stationary vector."""
    q = np.array([[[-1.0, 1.0], [3.0, -3.0]], [[-2.0, 2.0], [2.0, -2.0]]])
    assert stationary_rows(q) == pytest.approx(np.array([[0.75, 0.25], [0.5, 0.5]]))
