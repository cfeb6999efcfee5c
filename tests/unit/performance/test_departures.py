# SPDX-License-Identifier: Apache-2.0
"""Departures: exact moments, and processes of bounded order that keep them."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.departure_moments import departure_moments
from penstock.performance.queueing.departures import departure_process

BURSTY = map2_from_moments(1.0, 6.0, 90.0, 0.9)
WIDE = superpose(
    *(MAP.mmpp([[-q, q], [2 * q, -2 * q]], [0.2, r]) for q, r in ((0.5, 2.0), (0.05, 3.0), (0.005, 2.0)))
).with_rate(1.0)


def intervals(arrivals: MAP, service: PH, count: int) -> FloatArray:
    """Simulated intervals between departures."""
    rng = np.random.default_rng(17)
    gaps, times = arrivals.sample(count, rng), service.sample(count, rng)
    walk = np.concatenate([[0.0], np.cumsum(times[:-1] - gaps[1:])])
    return np.diff(np.cumsum(gaps) + walk - np.minimum.accumulate(walk) + times)


def test_poisson_in_poisson_out() -> None:
    """M/M/1 lets a Poisson process out (Burke's theorem): exponential intervals, no correlation."""
    exact = departure_moments(MAP.poisson(2.0), PH.exponential(mean=0.4))
    assert exact.moments == pytest.approx([0.5, 0.5, 0.75], rel=1e-12)
    assert abs(exact.lag1) < 1e-12


def test_moments_agree_with_simulation() -> None:
    """SCV and next-neighbour correlation of a bursty queue's departures are those of a long simulation."""
    service = PH.erlang(2, mean=0.8)
    exact = departure_moments(BURSTY, service)
    gaps = intervals(BURSTY, service, 400_000)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(exact.scv, rel=0.05)
    assert np.corrcoef(gaps[1:], gaps[:-1])[0, 1] == pytest.approx(exact.lag1, abs=0.02)


@pytest.mark.parametrize("load", [0.2, 0.7, 0.95])
@pytest.mark.parametrize("arrivals", [MAP.poisson(1.0), BURSTY, MAP.renewal(PH.erlang(3, mean=1.0))], ids=repr)
def test_small_arrivals_keep_interval_and_correlation(arrivals: MAP, load: float) -> None:
    """Where the phases fit, three moments of the interval and the next-neighbour correlation are exact."""
    service = PH.hyperexponential([0.7, 0.3], [3.0, 0.6]).with_mean(load)
    exact, leaving = departure_moments(arrivals, service), departure_process(arrivals, service)
    assert leaving.order <= 16
    assert leaving.moments(3) == pytest.approx(exact.moments, rel=1e-9)
    assert float(leaving.autocorrelation(1)) == pytest.approx(exact.lag1, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("most_states", [2, 3, 5, 16, 40])
def test_order_is_bounded_and_rate_exact(most_states: int) -> None:
    """Whatever the order allowed, the process is valid, no larger, and has the rate of the arrivals."""
    for service in (PH.erlang(10, mean=0.8), PH.erlang(2, mean=0.8), PH.coxian([9.0, 4.0, 0.5], [0.5, 0.4])):
        leaving = departure_process(WIDE.with_rate(0.8), service.with_mean(0.7), most_states=most_states)
        assert leaving.order <= most_states
        assert leaving.rate == pytest.approx(0.8, rel=1e-9)


def test_wide_arrivals_keep_most_of_their_variability() -> None:
    """Eight phases of arrivals in an order of sixteen: SCV and correlation stay within a tenth."""
    service = PH.erlang(2, mean=0.9)
    exact, leaving = departure_moments(WIDE, service), departure_process(WIDE, service)
    assert leaving.scv == pytest.approx(exact.scv, rel=0.1)
    assert float(leaving.autocorrelation(1)) == pytest.approx(exact.lag1, rel=0.1)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
def test_unit_of_time_does_not_matter(factor: float) -> None:
    """Another unit gives the same process in it."""
    service = PH.erlang(2, mean=0.8)
    one = departure_process(WIDE, service)
    other = departure_process(WIDE.time_scaled(factor), service.time_scaled(factor))
    assert other.order == one.order
    assert other.moments(3) == pytest.approx(one.moments(3) * factor ** np.arange(1, 4), rel=1e-9)


def test_hardly_loaded_queue_lets_arrivals_through() -> None:
    """With next to no service time the departures are the arrivals."""
    leaving = departure_process(BURSTY, PH.erlang(2, mean=1e-9))
    assert leaving.moments(3) == pytest.approx(BURSTY.moments(3), rel=1e-6)
    assert float(leaving.autocorrelation(1)) == pytest.approx(float(BURSTY.autocorrelation(1)), rel=1e-6)


def test_bad_input_is_refused() -> None:
    """A saturated queue and an order below 2 are refused with what to do."""
    with pytest.raises(ConfigurationError, match=r"utilisation 1\.5"):
        departure_process(MAP.poisson(1.0), PH.exponential(mean=1.5))
    with pytest.raises(ConfigurationError, match="at least 2"):
        departure_process(MAP.poisson(1.0), PH.exponential(mean=0.5), most_states=1)
