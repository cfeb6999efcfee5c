# SPDX-License-Identifier: Apache-2.0
"""Forks with joins: exact cases, bounds, and simulation."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.fork_join import Branch, ForkJoin, solve_fork_join
from penstock.performance.queueing.response import Saturated
from penstock.performance.queueing.single_server import solve_map_ph_1

BURSTY = map2_from_moments(1.0, 4.0, 26.0, 0.7)


def fork(arrivals: MAP, services: list[PH]) -> ForkJoin:
    """A stable fork, one operator in each branch."""
    branches = [Branch(solve_map_ph_1(arrivals, s), s.mean, s.scv) for s in services]
    answer = solve_fork_join(branches)
    assert isinstance(answer, ForkJoin)
    return answer


def simulated(arrivals: MAP, services: list[PH], n: int, seed: int) -> FloatArray:
    """Times until the last copy is done, by the recursion of Lindley in each branch."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(arrivals.sample(n, rng))
    latest = at.copy()
    for service in services:
        work = np.cumsum(service.sample(n, rng))
        latest = np.maximum(latest, np.maximum.accumulate(at - np.append(0.0, work[:-1])) + work)
    return np.asarray((latest - at)[n // 20 :])


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9])
def test_two_exponential_branches_have_the_exact_mean(load: float) -> None:
    """For two equal M/M/1 branches the mean is (12 - rho) / 8 times that of one (Flatto and Hahn 1984)."""
    both = fork(MAP.poisson(load), [PH.exponential(mean=1.0)] * 2)
    assert both.mean == pytest.approx((12.0 - load) / 8.0 / (1.0 - load), rel=1e-6)


@pytest.mark.parametrize("branches", [3, 8, 16])
def test_more_exponential_branches_are_near_nelson_and_tantawi(branches: int) -> None:
    """For up to 16 M/M/1 branches the mean is within 6 % of the approximation of Nelson and Tantawi (1988)."""
    rho = 0.8
    harmonic = sum(1.0 / k for k in range(1, branches + 1))
    factor = harmonic / 1.5 + 4.0 / 11.0 * (1.0 - harmonic / 1.5) * rho
    expected = factor * (12.0 - rho) / 8.0 / (1.0 - rho)
    assert fork(MAP.poisson(rho), [PH.exponential(mean=1.0)] * branches).mean == pytest.approx(expected, rel=0.06)


def test_the_answer_lies_between_the_bounds() -> None:
    """Mean and percentiles lie between branches in step and branches independent; the slowest branch is a floor."""
    both = fork(BURSTY, [PH.erlang(2, mean=0.6), PH.exponential(mean=0.7)])
    assert both.lower.mean < both.mean < both.upper.mean
    for p in (0.5, 0.95, 0.999):
        assert both.lower.percentile(p) <= both.percentile(p) <= both.upper.percentile(p)
        assert both.percentile(p) >= max(branch.response.percentile(p) for branch in both.branches) * (1 - 1e-9)


def test_independent_branches_multiply() -> None:
    """The upper bound is the maximum of independent times: for exponential ones the harmonic sum of means."""
    three = fork(MAP.poisson(0.5), [PH.exponential(mean=1.0)] * 3).upper
    assert three.mean == pytest.approx(2.0 * (1 + 1 / 2 + 1 / 3), rel=1e-8)
    assert three.variance == pytest.approx(4.0 * (1 + 1 / 4 + 1 / 9), rel=1e-6)
    assert three.percentile(0.9) == pytest.approx(-2.0 * np.log(1.0 - 0.9 ** (1 / 3)), rel=1e-8)


@pytest.mark.parametrize(
    ("arrivals", "services"),
    [
        (BURSTY, [PH.erlang(2, mean=0.7)] * 2),
        (BURSTY, [PH.exponential(mean=0.8), PH.erlang(4, mean=0.6), PH.exponential(mean=0.7)]),
        (MAP.renewal(PH.erlang(2, mean=1.0)), [PH.exponential(mean=0.8)] * 2),
    ],
)
def test_simulated_forks_come_out_near(arrivals: MAP, services: list[PH]) -> None:
    """Against simulation the mean is within 10 % and the 95th percentile within 15 %."""
    times, answer = simulated(arrivals, services, 400_000, 4), fork(arrivals, services)
    assert answer.mean == pytest.approx(times.mean(), rel=0.10)
    assert answer.percentile(0.95) == pytest.approx(np.quantile(times, 0.95), rel=0.15)


def test_one_branch_is_itself() -> None:
    """A fork of one branch has that branch's mean and percentiles."""
    one = fork(BURSTY, [PH.erlang(2, mean=0.7)])
    response = one.branches[0].response
    assert one.mean == pytest.approx(response.mean, rel=1e-8)
    assert one.percentile(0.9) == pytest.approx(response.percentile(0.9), rel=1e-8)


def test_a_saturated_branch_saturates_the_fork() -> None:
    """One branch that cannot keep up makes every time infinite; a fork without branches is refused."""
    fast, slow = (solve_map_ph_1(BURSTY, PH.exponential(mean=mean)) for mean in (0.5, 1.5))
    answer = solve_fork_join([Branch(fast, 0.5, 1.0), Branch(slow, 1.5, 1.0)])
    assert isinstance(answer, Saturated)
    assert answer.utilisation == pytest.approx(1.5)
    with pytest.raises(ConfigurationError, match="branches"):
        solve_fork_join([])
