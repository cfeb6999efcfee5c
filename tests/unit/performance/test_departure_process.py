# SPDX-License-Identifier: Apache-2.0
"""What a queue passes on: rate and dispersion are kept, and known cases are exact."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import ConfigurationError, ConvergenceError
from penstock.markov import MAP, PH, map2_from_moments, superpose
from penstock.performance.queueing.departure_process import _series, departure_process
from penstock.performance.queueing.single_server import SingleServer, solve_map_ph_1

BURSTY = map2_from_moments(1.0, 6.0, 64.0, 0.8)


def test_departures_keep_rate_and_dispersion() -> None:
    """What leaves a queue has the rate and the long-run dispersion of what came, at every load and order allowed."""
    for load in (0.3, 0.7, 0.95):
        # With too few states for two parts of each run the dispersion is only nearly kept.
        for most_states, accuracy in ((4, 0.1), (8, 1e-4), (48, 1e-4)):
            leaving = departure_process(BURSTY, PH.exponential(mean=load), most_states=most_states)
            assert leaving.order <= most_states
            assert leaving.rate == pytest.approx(BURSTY.rate, rel=1e-8)
            assert leaving.asymptotic_idc == pytest.approx(BURSTY.asymptotic_idc, rel=accuracy)


def test_departures_of_a_solved_queue_are_the_same() -> None:
    """A queue that was solved already hands its busy period on, and its departures are the same process."""
    service = PH.erlang(2, mean=0.6)
    solved = solve_map_ph_1(BURSTY, service)
    assert isinstance(solved, SingleServer)
    alone, handed = departure_process(BURSTY, service), departure_process(BURSTY, service, Psi=solved.Psi)
    np.testing.assert_allclose(handed.D0, alone.D0, rtol=1e-12)
    np.testing.assert_allclose(handed.D1, alone.D1, rtol=1e-12)


def test_departures_of_the_exponential_queue_are_poisson() -> None:
    """What leaves M/M/1 is Poisson again (Burke 1956): SCV one, no correlation."""
    leaving = departure_process(MAP.poisson(1.0), PH.exponential(mean=0.7))
    assert leaving.scv == pytest.approx(1.0, rel=1e-9)
    assert leaving.autocorrelation([1, 2, 9]) == pytest.approx(0.0, abs=1e-9)


def test_departures_of_an_unstable_queue_are_refused() -> None:
    """A saturated queue has no stationary departures, and services of too many phases need more states."""
    with pytest.raises(ConfigurationError, match="never empties"):
        departure_process(BURSTY, PH.exponential(mean=1.0))
    with pytest.raises(ConfigurationError, match="most_states"):
        departure_process(BURSTY, PH.erlang(10, mean=0.5), most_states=10)


@pytest.mark.parametrize("largest", [0.5, 1.0 - 1e-9], ids=["calm", "nearly saturated"])
def test_passages_are_summed_up(largest: float) -> None:
    """X = first + P X Gamma holds for the sum over all passages, for few of them as for a billion."""
    rng = np.random.default_rng(5)
    P, Gamma, first = rng.random((6, 6)), rng.random((3, 3)), rng.random((6, 3))
    P *= largest / np.abs(np.linalg.eigvals(P)).max()
    Gamma /= Gamma.sum(axis=1, keepdims=True)
    summed = _series(P, Gamma)(first)
    assert summed == pytest.approx(first + P @ summed @ Gamma, rel=1e-12)


def test_a_busy_period_without_end_is_refused() -> None:
    """Passages that do not die out have no sum."""
    with pytest.raises(ConvergenceError):
        _series(np.eye(2), np.eye(2))


@pytest.mark.parametrize("most_states", [4, 8, 48])
@pytest.mark.parametrize("service", [PH.erlang(2, mean=0.7), PH.coxian([4.0, 1.0], [0.3]).with_mean(0.6)])
def test_departures_are_a_valid_process_with_its_stationary_phases(service: PH, most_states: int) -> None:
    """What is put together unchecked passes the checks, and its phases are those that the chain itself gives."""
    leaving = departure_process(BURSTY, service, most_states=max(most_states, 2 + 2 * service.order))
    checked = MAP(leaving.D0, leaving.D1)
    hidden, phases = leaving.D0, leaving.theta
    assert hidden == pytest.approx(checked.D0, rel=1e-15)
    assert phases == pytest.approx(checked.theta, rel=1e-9)


def test_slow_phases_are_passed_on() -> None:
    """Behind a lightly loaded server the arrivals of eight phases with slow and quick bursts hardly change."""
    slow = MAP.mmpp([[-0.002, 0.002], [0.005, -0.005]], [0.3, 4.0])
    quick = MAP.mmpp([[-0.5, 0.5], [0.3, -0.3]], [0.1, 2.0])
    arrivals = superpose(slow, quick, quick.time_scaled(0.2)).with_rate(1.0)
    next_service = PH.erlang(2, mean=0.25)
    leaving = departure_process(arrivals, PH.erlang(2, mean=0.26))
    fed, direct = solve_map_ph_1(leaving, next_service), solve_map_ph_1(arrivals, next_service)
    assert 0.6 * direct.mean < fed.mean < direct.mean
    assert 0.6 * direct.percentile(0.99) < fed.percentile(0.99) < direct.percentile(0.99)
