# SPDX-License-Identifier: Apache-2.0
"""Queues of one and several servers, forks and pipelines against published formulas and long simulations."""

from __future__ import annotations

import heapq
from itertools import pairwise
from math import exp, factorial, floor

import numpy as np
import pytest

from penstock.markov import MAP, PH, fit_mean_scv, nearest_map2
from penstock.markov.conditions import FloatArray
from penstock.performance.queueing.fork_join import Branch, solve_fork_join
from penstock.performance.queueing.general import PoissonArrivals, solve_m_g_1
from penstock.performance.queueing.graph import PipelineGraph, Stream
from penstock.performance.queueing.multi_server import Dispatch, Executors, solve_executors
from penstock.performance.queueing.network import NetworkAnswer, Operator, solve_network
from penstock.performance.queueing.response import Response
from penstock.performance.queueing.single_server import solve_map_ph_1

pytestmark = pytest.mark.reference


def process(scv: float, decay: float) -> MAP:
    """Arrivals of two phases, rate one."""
    return nearest_map2(1.0, 1.0 + scv, 1.5 * (1.0 + scv) ** 2, decay).process


def done_by_one_server(at: FloatArray, work: FloatArray) -> FloatArray:
    """Lindley's recursion as a running maximum."""
    total = np.cumsum(work)
    return np.asarray(np.maximum.accumulate(at - (total - work)) + total)


def near(answer: Response, times: FloatArray, mean: float, p95: float) -> None:
    """Check mean and 95th percentile against a simulation, its own interval of twenty batches allowed for."""
    batches = np.array_split(times[len(times) // 20 :], 20)
    for value, figures, bar in (
        (answer.mean, [float(batch.mean()) for batch in batches], mean),
        (answer.percentile(0.95), [float(np.quantile(batch, 0.95)) for batch in batches], p95),
    ):
        simulated = float(np.mean(figures))
        interval = 2.0 * float(np.std(figures, ddof=1)) / len(figures) ** 0.5
        assert abs(value - simulated) <= bar * simulated + interval


def crommelin(load: float, x: float) -> float:
    """P(W <= x) in M/D/1 with services of length one (Crommelin, POEE Journal 25, 1932)."""
    terms = [(-load * (x - k)) ** k / factorial(k) * exp(load * (x - k)) for k in range(floor(x) + 1)]
    return (1.0 - load) * sum(terms)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_many_phases_near_constant_services(load: float) -> None:
    """With Erlang services of 200 phases M/PH/1 waits as M/D/1: mean within 0.6 %, distribution within 0.003."""
    queue = solve_m_g_1(load, PH.erlang(200, mean=1.0))
    assert isinstance(queue, PoissonArrivals)
    assert queue.mean - 1.0 == pytest.approx(load / (2.0 * (1.0 - load)), rel=0.006)
    times = [0.7, 2.3, 6.5]
    assert queue.waiting.cdf(times) == pytest.approx([crommelin(load, x) for x in times], abs=0.003)


@pytest.mark.parametrize("dispatch", ["hash", "round robin", "shared queue"])
@pytest.mark.parametrize("arrivals", [process(5.0, 0.6), process(2.0, 0.95)], ids=["scv 5", "scv 2"])
def test_executors_come_out_as_simulated(arrivals: MAP, dispatch: Dispatch) -> None:
    """Three executors, dispatched in each way, have the simulated mean and 95th percentile within 1 % and 2 %."""
    rng, n, count = np.random.default_rng(12), 600_000, 3
    service = PH.erlang(2, mean=2.1)
    at, work = np.cumsum(arrivals.sample(n, rng)), service.sample(n, rng)
    times = np.empty(n)
    if dispatch == "shared queue":
        free = [0.0] * count
        for i, (arrival, length) in enumerate(zip(at.tolist(), work.tolist(), strict=True)):
            done = max(arrival, heapq.heappop(free)) + length
            heapq.heappush(free, done)
            times[i] = done - arrival
    else:
        executor = np.arange(n) % count if dispatch == "round robin" else rng.integers(0, count, n)
        for k in range(count):
            mine = executor == k
            times[mine] = done_by_one_server(at[mine], work[mine]) - at[mine]
    candidate = solve_executors(arrivals, service, Executors(count), dispatch=dispatch)
    assert candidate.is_exact
    near(candidate.response, times, 0.01, 0.02)


@pytest.mark.parametrize("loads", [(0.3, 0.3), (0.8, 0.7), (0.9, 0.9), (0.7, 0.7, 0.7, 0.7)])
@pytest.mark.parametrize(
    "arrivals", [MAP.poisson(1.0), process(2.0, 0.9), process(20.0, 0.0)], ids=["M", "scv2", "scv20"]
)
def test_forks_come_out_as_simulated(arrivals: MAP, loads: tuple[float, ...]) -> None:
    """Copies fed by bursts are all done within 10 % of the simulated mean and 15 % of its 95th percentile."""
    rng, n = np.random.default_rng(21), 500_000
    services = [fit_mean_scv(load, (0.5, 1.0)[i % 2]).distribution for i, load in enumerate(loads)]
    at = np.cumsum(arrivals.sample(n, rng))
    last = at.copy()
    for service in services:
        last = np.maximum(last, done_by_one_server(at, service.sample(n, rng)))
    answer = solve_fork_join([Branch(solve_map_ph_1(arrivals, s), s.mean, s.scv) for s in services])
    near(answer, last - at, 0.10, 0.15)


def in_series(arrivals: MAP, services: list[PH]) -> NetworkAnswer:
    """Three operators one after the other, solved."""
    names = tuple(f"op{i}" for i in range(len(services)))
    streams = [Stream("in", None, (names[0],))]
    streams += [Stream(f"after {one}", one, (other,)) for one, other in pairwise(names)]
    operators = {name: Operator(service) for name, service in zip(names, services, strict=True)}
    return solve_network(PipelineGraph(names, tuple(streams)), operators, {"in": arrivals})


@pytest.mark.parametrize("loads", [(0.3, 0.3, 0.3), (0.4, 0.6, 0.8), (0.8, 0.75, 0.8), (0.9, 0.9, 0.9)])
@pytest.mark.parametrize("arrivals", [process(2.0, 0.9), process(20.0, 0.0)], ids=["scv2", "scv20"])
def test_pipelines_come_out_as_simulated(arrivals: MAP, loads: tuple[float, ...]) -> None:
    """Three operators behind bursty arrivals have mean within 10 % and 95th percentile within 15 % of a simulation."""
    rng, n = np.random.default_rng(33), 1_000_000
    services = [fit_mean_scv(load, scv).distribution for load, scv in zip(loads, (2.0, 0.5, 1.0), strict=True)]
    at = np.cumsum(arrivals.sample(n, rng))
    done = at
    for service in services:
        done = done_by_one_server(done, service.sample(n, rng))
    (response,) = in_series(arrivals, services).paths.values()
    near(response, done - at, 0.10, 0.15)


def test_a_pipeline_with_copies_selection_and_a_join_comes_out_as_simulated() -> None:
    """Parse, filter a third to one branch, copy all to another, join both with a second source: paths are near."""
    rng, n = np.random.default_rng(44), 1_500_000
    arrivals, other = process(4.0, 0.5), MAP.poisson(0.5)
    services = {"parse": PH.erlang(2, mean=0.5), "pick": PH.exponential(mean=0.6), "join": PH.erlang(2, mean=0.8)}
    graph = PipelineGraph(
        ("parse", "pick", "join"),
        (
            Stream("log", None, ("parse",)),
            Stream("ticks", None, ("join",)),
            Stream("events", "parse", ("pick",)),
            Stream("picked", "pick", ("join",)),
        ),
    )
    operators = {name: Operator(s, selectivity=0.4 if name == "pick" else 1.0) for name, s in services.items()}
    answer = solve_network(graph, operators, {"log": arrivals, "ticks": other})
    at = np.cumsum(arrivals.sample(n, rng))
    picked = done_by_one_server(
        done_by_one_server(at, services["parse"].sample(n, rng)), services["pick"].sample(n, rng)
    )
    kept = rng.random(n) < 0.4
    ticks = np.cumsum(other.sample(int(at[-1] * 0.5), rng))
    both = np.concatenate([picked[kept], ticks])
    order = np.argsort(both, kind="stable")
    done = np.empty(both.size)
    done[order] = done_by_one_server(both[order], services["join"].sample(both.size, rng))
    (path,) = [path for path in answer.paths if path.source == "log"]
    near(answer.paths[path], done[: kept.sum()] - at[kept], 0.10, 0.15)
    near(answer.operators["join"].response, done - both, 0.10, 0.15)
