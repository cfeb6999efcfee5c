# SPDX-License-Identifier: Apache-2.0
"""MAP/PH/1 and MAP/MAP/1 against an independent solution in sixty digits, closed forms and long simulations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.reference.transform_solution import solve_by_transform

from penstock.markov import MAP, PH, map2_from_moments
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.departure_process import departure_process
from penstock.performance.queueing.single_server import SingleServer, solve_map_map_1, solve_map_ph_1

pytestmark = pytest.mark.reference

SHARES = [0.05, 0.5, 0.95, 0.99, 0.9999]

POISSON = MAP.poisson(1.0)
BURSTY = map2_from_moments(1.0, 6.0, 90.0, 0.9)  # SCV 5, lag-1 correlation 0.36
VERY_BURSTY = map2_from_moments(1.0, 21.0, 1500.0, 0.97)  # SCV 20, lag-1 correlation 0.46
ALTERNATING = map2_from_moments(1.0, 3.0, 15.0, -0.25)  # negative correlation
STIFF = MAP(
    [[-1e6, 9e5, 0.0], [1.0, -2.0, 0.5], [0.0, 0.3, -1.0]], [[1e5, 0.0, 0.0], [0.2, 0.3, 0.0], [0.2, 0.0, 0.5]]
).with_rate(1.0)
NEARLY_REDUCIBLE = MAP.mmpp([[-1e-7, 1e-7], [3e-7, -3e-7]], [0.5, 1.8]).with_rate(1.0)
HYPER = PH.hyperexponential([0.9, 0.1], [5.0, 0.15])
STIFF_HYPER = PH.hyperexponential([1.0 - 1e-6, 1e-6], [2.0, 2e-6])

HARD = [
    pytest.param(arrivals, service, load, id=f"{name} at {load}")
    for name, arrivals, service in (
        ("M/E2/1", POISSON, PH.erlang(2, mean=1.0)),
        ("M/H2/1", POISSON, HYPER),
        ("bursty/E2/1", BURSTY, PH.erlang(2, mean=1.0)),
        ("bursty/H2/1", BURSTY, HYPER),
        ("very bursty/M/1", VERY_BURSTY, PH.exponential(mean=1.0)),
        ("alternating/H2/1", ALTERNATING, HYPER),
        ("stiff/E2/1", STIFF, PH.erlang(2, mean=1.0)),
        ("bursty/stiff H2/1", BURSTY, STIFF_HYPER),
        ("nearly reducible/E2/1", NEARLY_REDUCIBLE, PH.erlang(2, mean=1.0)),
    )
    for load in (0.3, 0.97, 0.999)
]
ERLANG_10 = [
    pytest.param(BURSTY, PH.erlang(10, mean=1.0), 0.97, id="bursty/E10/1 at 0.97"),
    pytest.param(ALTERNATING, PH.erlang(10, mean=1.0), 0.5, id="alternating/E10/1 at 0.5"),
]


def stable(arrivals: MAP, service: PH | MAP) -> SingleServer:
    """The queue, which must be stable."""
    queue = solve_map_ph_1(arrivals, service) if isinstance(service, PH) else solve_map_map_1(arrivals, service)
    assert isinstance(queue, SingleServer)
    return queue


@pytest.mark.parametrize(("arrivals", "service", "load"), HARD + ERLANG_10)
def test_transform_in_sixty_digits(arrivals: MAP, service: PH, load: float) -> None:
    """Mean to 1e-10, percentiles, variance and decay to 1e-9, where the bars are 1e-8 and 1e-6 (0.999: 1e-4)."""
    scaled = service.with_mean(load)
    exact = solve_by_transform(arrivals, scaled, SHARES)
    queue = stable(arrivals, scaled)
    assert queue.mean == pytest.approx(exact.mean, rel=1e-10)
    assert queue.variance == pytest.approx(exact.variance, rel=1e-9)
    assert queue.percentiles(SHARES) == pytest.approx(exact.percentiles, rel=1e-9)
    assert queue.decay_rate == pytest.approx(exact.decay_rate, rel=1e-9)


@pytest.mark.parametrize("phases", [16, 64])
def test_nearly_constant_service(phases: int) -> None:
    """M/E_k/1 tends to M/D/1: the waiting time is (1 + 1/k) times lam d^2 / 2 (1 - rho) (Kleinrock 1975, eq. 5.71)."""
    queue = stable(POISSON, PH.erlang(phases, mean=0.8))
    assert queue.waiting.mean == pytest.approx((1.0 + 1.0 / phases) * 0.64 / 2.0 / 0.2, rel=1e-12)


def test_erlang_arrivals_and_exponential_service() -> None:
    """E2/M/1: the sojourn time is exponential with rate mu (1 - s), s = A*(mu - mu s) (Kleinrock 1975, eq. 6.29)."""
    mu, s = 1.0 / 0.7, 0.5
    for _ in range(2000):
        s = (2.0 / (2.0 + mu * (1.0 - s))) ** 2
    rate = mu * (1.0 - s)
    queue = stable(MAP.renewal(PH.erlang(2, mean=1.0)), PH.exponential(mean=0.7))
    assert queue.mean == pytest.approx(1.0 / rate, rel=1e-12)
    assert queue.percentiles(SHARES) == pytest.approx([-math.log1p(-p) / rate for p in SHARES], rel=1e-10)
    assert queue.waiting.zero == pytest.approx(1.0 - s, rel=1e-12)


def test_modulated_service_by_truncated_chain() -> None:
    """M/MAP/1: lengths are those of the chain cut at 400 records, beyond which less than 1e-12 lies."""
    services = map2_from_moments(0.6, 1.0, 2.6, 0.6)
    m, top = services.order, 400
    # Generator over (records, phase); with no records the service stands still.
    Q = np.zeros(((top + 1) * m, (top + 1) * m))
    for k in range(top + 1):
        here = slice(k * m, (k + 1) * m)
        if k < top:
            Q[here, (k + 1) * m : (k + 2) * m] = np.eye(m)
        if k:
            Q[here, here] = services.D0 - np.diag(services.D0.diagonal())
            Q[here, (k - 1) * m : k * m] = services.D1
    np.fill_diagonal(Q, Q.diagonal() - Q.sum(axis=1))
    system = Q.T.copy()
    system[-1] = 1.0
    right = np.zeros(len(Q))
    right[-1] = 1.0
    lengths = np.linalg.solve(system, right).reshape(top + 1, m).sum(axis=1)
    queue = stable(POISSON, services)
    assert lengths[-1] < 1e-12
    assert queue.queue_length(np.arange(60)) == pytest.approx(lengths[:60], rel=1e-8)
    assert queue.mean == pytest.approx(np.arange(top + 1) @ lengths, rel=1e-8)


def sojourns(gaps: FloatArray, services: FloatArray) -> FloatArray:
    """Lindley's recursion as a walk less its least value so far."""
    walk = np.concatenate([[0.0], np.cumsum(services[:-1] - gaps[1:])])
    return np.asarray(walk - np.minimum.accumulate(walk) + services)


@pytest.mark.parametrize(
    ("arrivals", "load"),
    [(BURSTY, 0.7), (ALTERNATING, 0.9), (MAP.mmpp([[-0.02, 0.02], [0.06, -0.06]], [0.5, 2.5]), 0.6)],
)
def test_simulation_of_ten_million_records(arrivals: MAP, load: float) -> None:
    """Mean and 95th percentile lie inside the interval of the simulation, or within 1 %."""
    count, batches = 10_000_000, 40
    rng = np.random.default_rng(20)
    process = arrivals.with_rate(1.0)
    service = PH.erlang(2, mean=load)
    times = sojourns(process.sample(count, rng), rng.gamma(2.0, load / 2.0, count))
    parts = times.reshape(batches, -1)
    queue = stable(process, service)
    for exact, values in ((queue.mean, parts.mean(axis=1)), (queue.percentile(0.95), np.quantile(parts, 0.95, axis=1))):
        middle = float(values.mean())
        # 2.71: Student's 99 % quantile at 39 degrees of freedom
        half = 2.71 * float(values.std(ddof=1)) / math.sqrt(batches)
        assert abs(exact - middle) <= max(half, 0.01 * middle)


@pytest.mark.parametrize("arrivals", [BURSTY, ALTERNATING], ids=["bursty", "alternating"])
def test_second_queue_of_a_tandem(arrivals: MAP) -> None:
    """A queue loaded less than the one before it, fed by its departures, is within 5 % of simulation."""
    count = 2_000_000
    rng = np.random.default_rng(6)
    first, second = PH.erlang(2, mean=0.9), PH.erlang(2, mean=0.7)
    gaps = arrivals.sample(count, rng)
    done = np.cumsum(gaps) + sojourns(gaps, first.sample(count, rng))
    simulated = sojourns(np.diff(done, prepend=0.0), second.sample(count, rng))[count // 20 :]
    queue = stable(departure_process(arrivals, first), second)
    assert queue.mean == pytest.approx(float(simulated.mean()), rel=0.05)
    assert queue.percentile(0.95) == pytest.approx(float(np.quantile(simulated, 0.95)), rel=0.05)
