# SPDX-License-Identifier: Apache-2.0
"""M/G/1 and GI/G/1 against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.general import PoissonArrivals, TwoMoments, solve_gi_g_1, solve_m_g_1
from penstock.performance.queueing.single_server import solve_map_ph_1

COXIAN = PH.coxian([3.0, 0.5], [0.2])


def stable(rate: float, service: PH) -> PoissonArrivals:
    """The solved queue, known to be stable."""
    answer = solve_m_g_1(rate, service)
    assert isinstance(answer, PoissonArrivals)
    return answer


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.99])
def test_exponential_services_give_an_exponential_time(load: float) -> None:
    """The sojourn time of M/M/1 is exponential with mean 1 / (mu - lam)."""
    queue = stable(load, PH.exponential(mean=1.0))
    mean = 1.0 / (1.0 - load)
    assert queue.mean == pytest.approx(mean, rel=1e-12)
    assert queue.variance == pytest.approx(mean**2, rel=1e-12)
    assert queue.percentiles([0.5, 0.999]) == pytest.approx(-mean * np.log([0.5, 0.001]), rel=1e-9)


@pytest.mark.parametrize("load", [0.2, 0.8, 0.97])
@pytest.mark.parametrize("service", [PH.erlang(10, mean=1.0), COXIAN.with_mean(1.0)])
def test_moments_of_the_formula_are_those_of_the_distribution(service: PH, load: float) -> None:
    """Mean and variance by Pollaczek and Khinchine agree with the phase-type distribution of the sojourn time."""
    queue = stable(load, service)
    assert queue.mean == pytest.approx(queue.distribution.mean, rel=1e-11)
    assert queue.variance == pytest.approx(queue.distribution.variance, rel=1e-10)
    assert queue.waiting.mean + service.mean == pytest.approx(queue.mean, rel=1e-11)
    assert queue.waiting.variance + service.variance == pytest.approx(queue.variance, rel=1e-10)


def test_it_agrees_with_the_matrix_analytic_solution() -> None:
    """M/PH/1 is MAP/PH/1 with one phase of arrivals."""
    queue, general = stable(1.1, COXIAN.with_mean(0.8)), solve_map_ph_1(MAP.poisson(1.1), COXIAN.with_mean(0.8))
    assert queue.mean == pytest.approx(general.mean, rel=1e-10)
    ps = [0.05, 0.5, 0.95, 0.9999]
    assert queue.percentiles(ps) == pytest.approx(general.percentiles(ps), rel=1e-8)
    assert queue.cdf([0.5, 3.0]) == pytest.approx(general.cdf([0.5, 3.0]), rel=1e-9)


def test_a_record_waits_with_the_probability_of_a_busy_server() -> None:
    """The waiting time is zero for the share of the idle time."""
    waiting = stable(0.7, PH.erlang(2, mean=1.0)).waiting
    assert waiting.cdf([0.0])[0] == pytest.approx(0.3, rel=1e-12)
    assert waiting.percentile(0.2) == 0.0
    assert waiting.percentile(0.31) > 0.0


def test_the_unit_of_time_does_not_matter() -> None:
    """Nanoseconds and years give the same queue."""
    reference = stable(0.8, COXIAN.with_mean(1.0))
    for factor in (1e-9, 3e7):
        scaled = stable(0.8 / factor, COXIAN.with_mean(factor))
        assert scaled.percentile(0.95) == pytest.approx(reference.percentile(0.95) * factor, rel=1e-9)
        assert scaled.variance == pytest.approx(reference.variance * factor**2, rel=1e-9)


def test_saturated_queues_are_answers() -> None:
    """At and above utilisation 1 every time is infinite and nothing is raised."""
    for answer in (solve_m_g_1(2.0, PH.exponential(mean=0.5)), solve_gi_g_1(3.0, 1.0, 0.5, 1.0)):
        assert not answer.is_stable
        assert answer.mean == answer.percentile(0.9) == np.inf


def test_two_moments_are_exact_for_poisson_arrivals() -> None:
    """With Poisson arrivals the approximation of the mean is that of Pollaczek and Khinchine."""
    answer = solve_gi_g_1(0.6, 1.0, COXIAN.mean, COXIAN.scv)
    assert answer.mean == pytest.approx(stable(0.6, COXIAN).mean, rel=1e-12)


@pytest.mark.parametrize("scv", [0.25, 0.5, 1.0])
def test_the_bound_holds(scv: float) -> None:
    """Kingman's bound lies above the exact mean of renewal arrivals, and nears the approximation in heavy traffic."""
    arrivals = MAP.renewal(PH.erlang(round(1 / scv), mean=1.0))
    for load in (0.3, 0.9):
        answer = solve_gi_g_1(1.0, scv, load, 0.5)
        assert isinstance(answer, TwoMoments)
        assert answer.upper_bound >= solve_map_ph_1(arrivals, PH.erlang(2, mean=load)).mean * (1 - 1e-9)
    near = solve_gi_g_1(1.0, scv, 0.9999, 0.5)
    assert isinstance(near, TwoMoments)
    assert near.mean == pytest.approx(near.upper_bound, rel=1e-3)


def test_percentiles_of_two_moments_are_refused_with_the_reason() -> None:
    """Two moments say nothing of percentiles, variance or distribution, and the error says what to give instead."""
    answer = solve_gi_g_1(0.5, 2.0, 1.0, 1.0)
    for ask in (
        lambda: answer.percentile(0.95),
        lambda: answer.percentiles([0.5]),
        lambda: answer.cdf([1.0]),
        lambda: answer.variance,
    ):
        with pytest.raises(ConfigurationError, match="MAP/PH/1"):
            ask()
    with pytest.raises(ConfigurationError, match="outside"):
        answer.percentile(1.0)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.nan, np.inf])
def test_wrong_rates_are_refused_by_name(rate: float) -> None:
    """A rate that is no positive number is refused, naming the field."""
    for solve in (lambda: solve_m_g_1(rate, COXIAN), lambda: solve_gi_g_1(rate, 1.0, 1.0, 1.0)):
        with pytest.raises(ConfigurationError) as caught:
            solve()
        assert caught.value.field == "rate"
    with pytest.raises(ConfigurationError, match="service_scv"):
        solve_gi_g_1(1.0, 1.0, 0.5, -1.0)
