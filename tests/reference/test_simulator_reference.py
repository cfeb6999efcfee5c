# SPDX-License-Identifier: Apache-2.0
"""The simulator against closed forms: theory lies inside the confidence interval over seeds, and the interval is small.

Sources: Pollaczek and Khinchine for M/G/1; Burke and Reich for queues in tandem; Kleinrock, "Queueing Systems" volume
1 (1975), section 6.4, for GI/M/1. The micro-batch forms are derived beside their test.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import optimize, stats

from penstock.markov import PH
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits
from penstock.simulator import (
    Deterministic,
    Hyper2,
    LogNormal,
    MicroBatch,
    Operator,
    PhaseType,
    Pipeline,
    Samples,
    Service,
    Simulation,
    Stream,
    erlang,
    exponential,
)

pytestmark = pytest.mark.reference

SEEDS = range(32)
RECORDS = 120_000
CONFIDENCE = 0.999
RATE = 1.0


def _poisson(seed: int, records: int = RECORDS, rate: float = RATE) -> FloatArray:
    return np.cumsum(np.random.default_rng([seed, 77]).standard_exponential(records) / rate)


def _settled(latencies: FloatArray) -> FloatArray:
    """Without the first sixth, in which the empty start still shows."""
    return latencies[len(latencies) // 6 :]


def _over_seeds(measure: Callable[[int], float]) -> tuple[float, float]:
    """Mean over the seeds, and half the width of its confidence interval."""
    values = np.array([measure(seed) for seed in SEEDS])
    factor = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1))
    return float(values.mean()), factor * float(values.std(ddof=1)) / math.sqrt(len(values))


def _check(measure: Callable[[int], float], theory: float, *, width: float = 0.03) -> None:
    """Theory lies inside the interval, which is narrower than `width` of it, so that the check can fail."""
    mean, half = _over_seeds(measure)
    assert half < width * theory, f"the interval {mean:.5g} +- {half:.2g} is too wide to tell anything"
    assert abs(mean - theory) <= half, f"theory {theory:.6g} is outside {mean:.6g} +- {half:.2g}"


def _latencies(pipeline: Pipeline, seed: int, start: dict[str, Allocation] | None = None) -> FloatArray:
    simulation = Simulation(pipeline, _poisson(seed), seed=seed, start=start)
    simulation.finish()
    (records,) = simulation.records.values()
    return _settled(records.latencies())


@pytest.mark.parametrize(
    "service",
    [
        exponential(0.7),
        Deterministic(0.8),
        erlang(2, 0.8),
        Hyper2(0.6, 3.0),
        PhaseType(PH.coxian([2.5, 1.0], [0.25])),
        LogNormal(0.6, 1.5),
        Samples([0.2, 0.4, 0.5, 1.5]),
    ],
    ids=lambda s: type(s).__name__,
)
def test_single_server_queues_have_the_mean_of_pollaczek_and_khinchine(service: Service) -> None:
    """M/M/1, M/D/1 and M/PH/1 and others: E[T] = E[S] + lambda E[S^2] / (2 (1 - rho))."""
    rho = RATE * service.mean
    theory = service.mean + RATE * service.mean**2 * (1 + service.scv) / (2 * (1 - rho))
    _check(lambda seed: float(_latencies(Pipeline.of_one(Operator("a", service)), seed).mean()), theory)


@pytest.mark.parametrize("p", [0.5, 0.95, 0.99])
def test_the_latency_of_m_m_1_is_exponential(p: float) -> None:
    """Percentiles of M/M/1: -log(1 - p) / (mu - lambda)."""
    pipeline = Pipeline.of_one(Operator("a", exponential(0.6)))
    theory = -math.log(1 - p) / (1 / 0.6 - RATE)
    _check(lambda seed: float(np.quantile(_latencies(pipeline, seed), p)), theory)


def test_a_share_is_a_slower_server() -> None:
    """M/M/1 with half of the CPU is M/M/1 with work twice as long."""
    pipeline = Pipeline.of_one(Operator("a", exponential(0.3), limits=Limits(1, 1, (0.5, 1.0))))
    half = {"a": Allocation(1, 0.5)}
    _check(lambda seed: float(_latencies(pipeline, seed, half).mean()), 1 / (1 / 0.6 - RATE))


@pytest.mark.parametrize("statistic", ["mean", "p95"])
def test_servers_in_tandem_are_independent(statistic: str) -> None:
    """Three M/M/1 in a row: departures are Poisson (Burke) and sojourns independent (Reich), so latency is their sum.

    The second operator drops a third of the records: what is left is Poisson too.
    """
    means = {"a": 0.5, "b": 0.6, "c": 0.9}
    pipeline = Pipeline(
        tuple(Operator(name, exponential(m), selectivity=2 / 3 if name == "b" else 1.0) for name, m in means.items()),
        (Stream("arrivals", "a"), Stream("a", "b"), Stream("b", "c")),
    )
    rates = {"a": RATE, "b": RATE, "c": RATE * 2 / 3}
    sojourn = PH.series([1 / (1 / m - rates[name]) for name, m in means.items()])
    if statistic == "mean":
        _check(lambda seed: float(_latencies(pipeline, seed).mean()), sojourn.mean)
    else:
        _check(lambda seed: float(np.quantile(_latencies(pipeline, seed), 0.95)), float(sojourn.quantile(0.95)))


def test_streams_that_meet_make_a_poisson_process() -> None:
    """Two halves of a Poisson stream, each through its M/M/1, meet as a Poisson process at a third."""
    parts = {"left": 0.4, "right": 0.6}
    pipeline = Pipeline(
        (Operator("left", exponential(1.2)), Operator("right", exponential(0.8)), Operator("last", exponential(0.7))),
        (*(Stream("arrivals", name, part) for name, part in parts.items()), *(Stream(name, "last") for name in parts)),
    )
    theory = 1 / (1 / 1.2 - 0.4) + 1 / (1 / 0.7 - RATE)

    def measure(seed: int) -> float:
        simulation = Simulation(pipeline, _poisson(seed), seed=seed)
        simulation.finish()
        return float(_settled(simulation.records["left", "last"].latencies()).mean())

    _check(measure, theory)


def test_records_dealt_in_turn_arrive_as_erlang() -> None:
    """Three executors, records in turn: each is E_3/M/1, 1 / E[T] = mu (1 - sigma) with sigma = A*(mu (1 - sigma))."""
    mean = 2.1
    pipeline = Pipeline.of_one(Operator("a", exponential(mean), limits=Limits(3, 3)))
    mu = 1 / mean
    sigma = optimize.brentq(lambda s: s - (RATE / (RATE + mu * (1 - s))) ** 3, 0.0, 1 - 1e-6)
    _check(lambda seed: float(_latencies(pipeline, seed).mean()), 1 / (mu * (1 - float(sigma))))


def test_batches_of_one_are_m_d_1() -> None:
    """Micro-batches capped at one record are a single server with deterministic work."""
    pipeline = Pipeline.of_one(Operator("a", MicroBatch(0.5, 0.2, cap=1)))
    theory = 0.7 + RATE * 0.7**2 / (2 * 0.3)

    def measure(seed: int) -> float:
        simulation = Simulation(pipeline, _poisson(seed, 30_000), seed=seed)
        simulation.finish()
        return float(_settled(simulation.records[("a",)].latencies()).mean())

    _check(measure, theory, width=0.04)


def test_micro_batches_settle_at_f_over_one_minus_lambda_c() -> None:
    """Batches that never find nobody: E[T] = f / (1 - lambda c), and the mean latency that follows from its variance.

    T' = f + c N with N Poisson of mean lambda T gives Var T = c^2 lambda E[T] / (1 - (lambda c)^2). A record comes in a
    batch time T with the density of T^2 and waits for half of it; its own batch is f + c + c lambda T on average. So
    the latency is (1/2 + lambda c) E[T^2] / E[T] + f + c.
    """
    rate, fixed, per_record = 400.0, 0.1, 0.0015
    pipeline = Pipeline.of_one(Operator("a", MicroBatch(fixed, per_record)))
    load = rate * per_record
    mean = fixed / (1 - load)
    variance = per_record**2 * rate * mean / (1 - load**2)
    latency = (0.5 + load) * (variance + mean**2) / mean + fixed + per_record
    found: dict[int, tuple[float, float]] = {}
    for seed in SEEDS:
        simulation = Simulation(pipeline, _poisson(seed, 60_000, rate), seed=seed)
        simulation.finish()
        records = simulation.records[("a",)]
        found[seed] = (
            float(np.diff(np.unique(_settled(records.ended_at()))).mean()),
            float(_settled(records.latencies()).mean()),
        )
    _check(lambda seed: found[seed][0], mean)
    _check(lambda seed: found[seed][1], latency)
