# SPDX-License-Identifier: Apache-2.0
"""What holds for every MAP/PH/1 queue, over processes with rates six orders of magnitude apart."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.markov import MAP, PH
from penstock.performance.queueing.departure_process import departure_process
from penstock.performance.queueing.single_server import SingleServer, solve_many, solve_map_map_1, solve_map_ph_1

SHARES = [1e-6, 0.05, 0.5, 0.95, 0.999999]

rates = st.floats(-3.0, 3.0).map(lambda exponent: 10.0**exponent)
loads = st.floats(0.01, 0.999)


@st.composite
def processes(draw: st.DrawFn) -> MAP:
    """A MAP of one to four phases in a ring, with arrivals on some changes of phase."""
    n = draw(st.integers(1, 4))
    D0, D1 = np.zeros((n, n)), np.zeros((n, n))
    for i in range(n):
        (D1 if draw(st.booleans()) else D0)[i, (i + 1) % n] += draw(rates) if n > 1 else 0.0
        D1[i, i] += draw(rates) * draw(st.sampled_from([0.0, 1.0]))
    D1[0, 0] += draw(rates)
    np.fill_diagonal(D0, 0.0)
    return MAP(D0 - np.diag(D0.sum(axis=1) + D1.sum(axis=1)), D1)


@st.composite
def services(draw: st.DrawFn) -> PH:
    """A Coxian of one to three phases."""
    count = draw(st.integers(1, 3))
    return PH.coxian([draw(rates) for _ in range(count)], [draw(st.floats(0.01, 1.0)) for _ in range(count - 1)])


def solved(arrivals: MAP, service: PH, load: float) -> SingleServer:
    """The queue at a load."""
    queue = solve_map_ph_1(arrivals, service.with_mean(load * arrivals.mean))
    assert isinstance(queue, SingleServer)
    return queue


@settings(max_examples=60, deadline=None)
@given(processes(), services(), loads)
def test_percentiles_increase_and_invert_the_distribution(arrivals: MAP, service: PH, load: float) -> None:
    """Percentiles rise with the share, and the share within them is the one asked for."""
    queue = solved(arrivals, service, load)
    times = queue.percentiles(SHARES)
    assert np.all(np.diff(times) > 0)
    np.testing.assert_allclose(queue.cdf(times), SHARES, rtol=1e-8)
    assert np.all(queue.waiting.percentiles(SHARES) <= times * (1 + 1e-12))


@settings(max_examples=40, deadline=None)
@given(processes(), services(), st.floats(0.01, 0.9), st.floats(1.001, 1.1))
def test_times_rise_with_load(arrivals: MAP, service: PH, load: float, factor: float) -> None:
    """A slower server gives a longer mean and longer percentiles."""
    low, high = solved(arrivals, service, load), solved(arrivals, service, load * factor)
    assert high.mean > low.mean
    assert np.all(high.percentiles(SHARES) > low.percentiles(SHARES))


@settings(max_examples=40, deadline=None)
@given(processes(), services(), loads, st.floats(-9.0, 9.0))
def test_answers_scale_with_the_unit_of_time(arrivals: MAP, service: PH, load: float, exponent: float) -> None:
    """In another unit of time the same queue has the same times in that unit."""
    factor = 10.0**exponent
    one, other = solved(arrivals, service, load), solved(arrivals.time_scaled(factor), service, load)
    np.testing.assert_allclose(other.mean, one.mean * factor, rtol=1e-8)
    np.testing.assert_allclose(other.percentiles(SHARES), one.percentiles(SHARES) * factor, rtol=1e-8)


@settings(max_examples=30, deadline=None)
@given(processes(), services(), loads)
def test_other_ways_to_the_same_queue(arrivals: MAP, service: PH, load: float) -> None:
    """Solved as MAP/MAP/1, or among many, or as its own phase-type distribution, the queue is the same."""
    queue = solved(arrivals, service, load)
    at_load = service.with_mean(load * arrivals.mean)
    as_process = solve_map_map_1(arrivals, MAP.renewal(at_load))
    np.testing.assert_allclose(as_process.mean, queue.mean, rtol=1e-7)
    np.testing.assert_allclose(as_process.percentile(0.95), queue.percentile(0.95), rtol=1e-7)
    many = solve_many([arrivals, arrivals], [at_load, at_load.with_mean(0.5 * at_load.mean)], [0.95])
    np.testing.assert_allclose(many.mean[:, 0], queue.mean, rtol=1e-9)
    np.testing.assert_allclose(many.percentiles[:, 0, 0], queue.percentile(0.95), rtol=1e-9)
    np.testing.assert_allclose(queue.as_phase_type().mean, queue.mean, rtol=1e-7)


@settings(max_examples=40, deadline=None)
@given(processes(), services(), loads, st.integers(8, 48))
def test_departures_keep_order_and_rate(arrivals: MAP, service: PH, load: float, most_states: int) -> None:
    """Departures are a valid process of the order allowed, at the rate of the arrivals."""
    leaving = departure_process(arrivals, service.with_mean(load * arrivals.mean), most_states=most_states)
    assert leaving.order <= most_states
    np.testing.assert_allclose(leaving.rate, arrivals.rate, rtol=1e-6)
