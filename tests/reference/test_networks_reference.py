# SPDX-License-Identifier: Apache-2.0
"""Queues and pipelines against published formulas and long simulations."""

from __future__ import annotations

from math import exp, factorial, floor

import numpy as np
import pytest

from penstock.markov import MAP, PH, fit_mean_scv, nearest_map2
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import BatchDemand, RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.queueing.general import PoissonArrivals, solve_m_g_1
from penstock.records import Allocation, Limits, Objective
from penstock.simulator import MicroBatch, Operator, PhaseType, Pipeline, Simulation
from penstock.topology import ARRIVALS, Stream

pytestmark = pytest.mark.reference


def process(scv: float, decay: float) -> MAP:
    """Arrivals of two phases, rate one."""
    return nearest_map2(1.0, 1.0 + scv, 1.5 * (1.0 + scv) ** 2, decay).process


def done_by_one_server(at: FloatArray, work: FloatArray) -> FloatArray:
    """Lindley's recursion as a running maximum."""
    total = np.cumsum(work)
    return np.asarray(np.maximum.accumulate(at - (total - work)) + total)


def near(
    operators: list[OperatorModel],
    allocations: dict[str, Allocation],
    arrivals: MAP,
    measured: dict[tuple[str, ...], FloatArray],
    *,
    bars: tuple[float, float],
) -> None:
    """Check mean and 95th percentile of paths against a simulation, its own interval of twenty batches allowed for."""
    for statistic, bar in zip(("mean", "p95"), bars, strict=True):
        latency = PipelineLatency(PipelineModel(operators, Objective(statistic, 50.0)), {"arrivals": arrivals})
        for path in latency.predict(allocations):
            batches = np.array_split(measured[path.path][len(measured[path.path]) // 20 :], 20)
            figures = [float(b.mean() if statistic == "mean" else np.quantile(b, 0.95)) for b in batches]
            simulated = float(np.mean(figures))
            interval = 2.0 * float(np.std(figures, ddof=1)) / len(figures) ** 0.5
            assert abs(path.seconds - simulated) <= bar * simulated + interval, (path.path, statistic)


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
    operators = [
        OperatorModel(f"op{i}", RecordDemand(service), (f"op{i - 1}",) if i else ())
        for i, service in enumerate(services)
    ]
    path = tuple(operator.name for operator in operators)
    near(operators, dict.fromkeys(path, Allocation(1)), arrivals, {path: done - at}, bars=(0.10, 0.15))


def graph_is_as_simulated(
    arrivals: MAP,
    operators: dict[str, tuple[PH | BatchDemand, float]],
    streams: list[Stream],
    allocations: dict[str, Allocation],
    *,
    bars: tuple[float, float],
    records: int,
) -> None:
    """Simulate a graph of operators, each with its demand and selectivity, and compare every path."""
    models, parts = [], []
    for name, (kind, selectivity) in operators.items():
        inputs = tuple(stream for stream in streams if stream.target == name)
        if isinstance(kind, BatchDemand):
            models.append(OperatorModel(name, kind, inputs, selectivity))
            server = MicroBatch(fixed=kind.fixed_seconds, per_record=kind.per_record_seconds)
            parts.append(Operator(name, server, selectivity, Limits(max_executors=4)))
        else:
            models.append(OperatorModel(name, RecordDemand(kind), inputs, selectivity))
            parts.append(Operator(name, PhaseType(kind), selectivity, Limits(max_executors=4)))
    times = np.cumsum(arrivals.sample(records, np.random.default_rng(44)))
    simulation = Simulation(Pipeline(tuple(parts), tuple(streams)), times, seed=7, start=allocations)
    simulation.finish()
    measured = {path: found.latencies() for path, found in simulation.records.items()}
    near(models, allocations, arrivals, measured, bars=bars)


@pytest.mark.parametrize("arrivals", [MAP.poisson(1.0), process(4.0, 0.5), process(2.0, 0.9)], ids=["M", "4", "2"])
def test_copies_selection_and_merging_come_out_as_simulated(arrivals: MAP) -> None:
    """Parse; pick two fifths; copy all to another branch; merge both: within 20 %."""
    streams = [
        Stream(ARRIVALS, "parse"),
        Stream("parse", "pick", 0.4),
        Stream("parse", "count"),
        Stream("pick", "join"),
        Stream("count", "join"),
    ]
    services = {"parse": 0.5, "pick": 1.1, "count": 0.35, "join": 0.4}
    operators: dict[str, tuple[PH | BatchDemand, float]] = {
        name: (PH.erlang(2, mean=mean), 1.0) for name, mean in services.items()
    }
    allocations = dict.fromkeys(services, Allocation(1))
    graph_is_as_simulated(arrivals, operators, streams, allocations, bars=(0.2, 0.2), records=1_000_000)


@pytest.mark.parametrize("arrivals", [process(5.0, 0.6), process(2.0, 0.95)], ids=["scv 5", "scv 2"])
def test_executors_come_out_as_simulated(arrivals: MAP) -> None:
    """Three executors that take records in turn, and two behind them, are within 5 % and 8 %."""
    operators: dict[str, tuple[PH | BatchDemand, float]] = {
        "a": (PH.erlang(2, mean=2.1), 1.0),
        "b": (PH.exponential(mean=1.2), 1.0),
    }
    streams = [Stream(ARRIVALS, "a"), Stream("a", "b")]
    allocations = {"a": Allocation(3), "b": Allocation(2)}
    graph_is_as_simulated(arrivals, operators, streams, allocations, bars=(0.05, 0.08), records=600_000)


@pytest.mark.parametrize("arrivals", [MAP.poisson(1.0), process(8.0, 0.4), process(3.0, 0.8)], ids=["M", "8", "3"])
@pytest.mark.parametrize(("first", "second"), [(3.0, 5.0), (6.0, 3.0)])
def test_micro_batch_operators_in_a_row_come_out_as_simulated(arrivals: MAP, first: float, second: float) -> None:
    """Batches fed by batches are within 12 % in the mean and 15 % in the 95th percentile."""
    operators: dict[str, tuple[PH | BatchDemand, float]] = {
        "a": (BatchDemand(first, 0.25, fixed_cpu_seconds=first), 0.5),
        "b": (BatchDemand(second, 0.7, fixed_cpu_seconds=second), 1.0),
    }
    streams = [Stream(ARRIVALS, "a"), Stream("a", "b")]
    allocations = {"a": Allocation(1), "b": Allocation(1)}
    graph_is_as_simulated(arrivals, operators, streams, allocations, bars=(0.12, 0.15), records=300_000)
