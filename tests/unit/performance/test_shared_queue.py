# SPDX-License-Identifier: Apache-2.0
"""MAP/PH/c against closed forms, MAP/PH/1 and simulation."""

from __future__ import annotations

import heapq
from math import factorial

import numpy as np
import pytest

from penstock.errors import ConfigurationError
from penstock.markov import MAP, PH
from penstock.performance.queueing.shared_queue import SharedQueue, solve_shared_queue
from penstock.performance.queueing.single_server import solve_map_ph_1

BURSTY = MAP.mmpp([[-0.05, 0.05], [0.1, -0.1]], [0.5, 3.0]).with_rate(1.0)


def solved(arrivals: MAP, service: PH, servers: int, most_phases: int = 256) -> SharedQueue:
    """The queue, known to be stable."""
    answer = solve_shared_queue(arrivals, service, servers, most_phases=most_phases)
    assert isinstance(answer, SharedQueue)
    return answer


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (2, 0.3), (5, 0.95), (12, 0.8)])
def test_exponential_services_obey_erlang(servers: int, load: float) -> None:
    """M/M/c has Erlang's probability of waiting, and waits of the known exponential form."""
    a = servers * load
    waits = a**servers / factorial(servers) / (1.0 - load)
    erlang_c = waits / (sum(a**k / factorial(k) for k in range(servers)) + waits)
    queue = solved(MAP.poisson(a), PH.exponential(mean=1.0), servers)
    assert 1.0 - queue.waiting.cdf([0.0])[0] == pytest.approx(erlang_c, rel=1e-9)
    assert queue.waiting.mean == pytest.approx(erlang_c / (servers - a), rel=1e-8)
    assert queue.mean == pytest.approx(erlang_c / (servers - a) + 1.0, rel=1e-8)
    p = 1.0 - 0.1 * erlang_c
    assert queue.waiting.percentile(p) == pytest.approx(np.log(10.0) / (servers - a), rel=1e-6)


@pytest.mark.parametrize("service", [PH.erlang(3, mean=0.8), PH.hyperexponential([0.8, 0.2], [2.0, 0.5])])
def test_one_server_is_the_single_server_queue(service: PH) -> None:
    """MAP/PH/c with c = 1 has mean, variance and percentiles of MAP/PH/1."""
    one, reference = solved(BURSTY, service, 1), solve_map_ph_1(BURSTY, service)
    assert one.mean == pytest.approx(reference.mean, rel=1e-7)
    assert one.variance == pytest.approx(reference.variance, rel=1e-5)
    ps = [0.1, 0.5, 0.95, 0.999]
    assert one.percentiles(ps) == pytest.approx(reference.percentiles(ps), rel=1e-6)


def test_little_holds() -> None:
    """The mean number of records, from the levels, is rate times mean time, from the ticks."""
    queue = solved(BURSTY, PH.erlang(2, mean=2.4), 3)
    assert queue.is_exact
    assert queue.queue_length_mean == pytest.approx(BURSTY.rate * queue.mean, rel=1e-7)


def test_simulation_of_three_servers_agrees() -> None:
    """A simulated queue with three servers comes out near the solution, in the mean and the 95th percentile."""
    rng, n = np.random.default_rng(8), 150_000
    service = PH.erlang(2, mean=2.0)
    free, times = [0.0, 0.0, 0.0], []
    for at, work in zip(np.cumsum(BURSTY.sample(n, rng)).tolist(), service.sample(n, rng).tolist(), strict=True):
        done = max(at, heapq.heappop(free)) + work
        heapq.heappush(free, done)
        times.append(done - at)
    queue = solved(BURSTY, service, 3)
    assert queue.mean == pytest.approx(np.mean(times), rel=0.05)
    assert queue.percentile(0.95) == pytest.approx(np.quantile(times, 0.95), rel=0.06)


def test_the_approximation_says_so_and_is_near() -> None:
    """With too many phases the answer is marked as approximate and lies within a few percent of the exact one."""
    service = PH.hyperexponential([0.8, 0.2], [2.0, 0.5]).with_mean(3.2)
    exact, near = solved(BURSTY, service, 4), solved(BURSTY, service, 4, most_phases=2)
    assert exact.is_exact
    assert not near.is_exact
    assert near.mean == pytest.approx(exact.mean, rel=0.05)
    assert near.percentile(0.95) == pytest.approx(exact.percentile(0.95), rel=0.05)
    assert near.queue_length_mean == pytest.approx(BURSTY.rate * near.mean, rel=1e-6)
    with pytest.raises(ConfigurationError, match="arrivals alone"):
        solve_shared_queue(BURSTY, service, 4, most_phases=1)


def test_time_unit_and_saturation() -> None:
    """Answers scale with the unit of time, and more work than servers is an answer."""
    reference, service = solved(BURSTY, PH.erlang(2, mean=1.7), 2), PH.erlang(2, mean=1.7e-6)
    scaled = solved(BURSTY.time_scaled(1e-6), service, 2)
    assert scaled.percentile(0.95) == pytest.approx(reference.percentile(0.95) * 1e-6, rel=1e-8)
    assert solve_shared_queue(BURSTY, PH.erlang(2, mean=2.0), 2).mean == np.inf
    with pytest.raises(ConfigurationError, match="servers"):
        solve_shared_queue(BURSTY, service, 0)
