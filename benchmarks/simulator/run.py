# SPDX-License-Identifier: Apache-2.0
"""Simulated records per second of one core, beside the same queue stepped through record by record in Python."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

from penstock.evaluation.simulation import simulate
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits, Objective
from penstock.simulator import (
    Deterministic,
    Hyper2,
    LogNormal,
    MicroBatch,
    Operator,
    Pipeline,
    Service,
    Simulation,
    Stream,
    erlang,
    exponential,
)

BAR_SINGLE, BAR_PIPELINE = 5e6, 1e6
RATE = 1000.0
LEVELS = (0.4, 0.55, 0.7, 0.85, 1.0)


@dataclass(frozen=True)
class Result:
    """One measured case; processor time, everything from the arrival times to every record's latency."""

    case: str
    records: int
    records_per_second: float
    bar: float | None
    mean_latency_seconds: float
    closed_form_seconds: float | None


def arrivals(records: int) -> FloatArray:
    """A Poisson process."""
    return np.cumsum(np.random.default_rng(1).standard_exponential(records) / RATE)


def log_analysis() -> Pipeline:
    """The log analysis of the MEAD paper: a parser before a counter and a matcher."""
    limits = Limits(1, 1, LEVELS)
    operators = (
        Operator("parser", erlang(2, 0.30 / RATE), selectivity=0.99, limits=limits),
        Operator("counter", erlang(2, 0.25 / RATE), limits=limits),
        Operator("matcher", erlang(2, 0.60 / RATE), limits=limits),
    )
    streams = (Stream("arrivals", "parser"), Stream("parser", "counter"), Stream("parser", "matcher"))
    return Pipeline(operators, streams, "log-analysis")


def run_alone(pipeline: Pipeline, times: FloatArray) -> float:
    """Every record under one allocation; gives the mean latency of the last path."""
    simulation = Simulation(pipeline, times, seed=1)
    simulation.finish()
    return float([path.latencies().mean() for path in simulation.records.values()][-1])


def run_with_changes(pipeline: Pipeline, times: FloatArray, every_seconds: float = 10.0) -> float:
    """The same with another share every so often, for every operator."""
    simulation = Simulation(pipeline, times, seed=1)
    rng = np.random.default_rng(2)
    while simulation.now() < times[-1]:
        simulation.advance(simulation.now() + every_seconds)
        for operator in simulation.operators.values():
            operator.ask(simulation.now(), Allocation(1, float(rng.choice(LEVELS[2:]))))
    simulation.finish()
    return float([path.latencies().mean() for path in simulation.records.values()][-1])


def run_with_policy(pipeline: Pipeline, times: FloatArray) -> float:
    """The whole loop: monitor, threshold policy, reconciler every 10 s, and the account of the run."""
    result = simulate(times, pipeline, ThresholdPolicy(), Objective("p95", 1000.0), seed=1)
    assert result.latency is not None
    return result.latency.mean_seconds


def record_by_record(times: FloatArray, mean: float) -> float:
    """The single server as a loop over records, the way it is usually written."""
    rng = np.random.default_rng(3)
    free, total = 0.0, 0.0
    for at in times.tolist():
        free = max(free, at) + mean * rng.standard_exponential()
        total += free - at
    return total / len(times)


def measure(
    case: str, records: int, bar: float | None, run: Callable[[], float], theory: float | None = None
) -> Result:
    """The better of two runs: what else the machine does must not count."""
    seconds = np.inf
    for _ in range(2):
        began = time.process_time()
        mean = run()
        seconds = min(seconds, time.process_time() - began)
    return Result(case, records, records / seconds, bar, mean, theory)


def khinchine(service: Service) -> float:
    """Mean latency of M/G/1."""
    rho = RATE * service.mean
    return service.mean + RATE * service.mean**2 * (1 + service.scv) / (2 * (1 - rho))


def main() -> int:
    """Measure, print, and fail below a bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    records: int = options.records
    times = arrivals(records)
    mean = 0.7 / RATE
    results = []
    services: list[tuple[str, Service]] = [
        ("exponential", exponential(mean)), ("Erlang-2", erlang(2, mean)), ("deterministic", Deterministic(mean)),
        ("hyperexponential", Hyper2(mean, 4.0)), ("lognormal", LogNormal(mean, 2.0)),
    ]  # fmt: skip
    for name, service in services:
        one = Pipeline.of_one(Operator("operator", service, limits=Limits(1, 1, LEVELS)))
        results.append(
            measure(f"one operator, {name}", records, BAR_SINGLE, lambda p=one: run_alone(p, times), khinchine(service))  # type: ignore[misc]
        )
    one = Pipeline.of_one(Operator("operator", exponential(0.4 / RATE), limits=Limits(1, 1, LEVELS)))
    results.append(
        measure("one operator, a level each 10 s", records, BAR_SINGLE, lambda: run_with_changes(one, times))
    )
    four = Pipeline.of_one(Operator("operator", exponential(2.8 / RATE), limits=Limits(4, 4)))
    results.append(measure("one operator, four executors", records, None, lambda: run_alone(four, times)))
    batches = Pipeline.of_one(Operator("operator", MicroBatch(0.2, 0.5 / RATE, trigger=1.0)))
    results.append(
        measure("one operator, micro-batches of 1 s", records, BAR_SINGLE, lambda: run_alone(batches, times))
    )
    three = log_analysis()
    results.append(measure("three operators", records, BAR_PIPELINE, lambda: run_alone(three, times)))
    results.append(
        measure("three operators, a level each 10 s", records, BAR_PIPELINE, lambda: run_with_changes(three, times))
    )
    results.append(measure("three operators, threshold policy", records, None, lambda: run_with_policy(three, times)))
    few = min(records, 500_000)
    by_hand = measure(
        "record by record in Python",
        few,
        None,
        lambda: record_by_record(times[:few], mean),
        khinchine(exponential(mean)),
    )
    if options.json:
        print(json.dumps([asdict(result) for result in (*results, by_hand)]))
    else:
        print(f"{'case':36} {'M records/s':>12} {'bar':>5} {'ratio':>7} {'mean latency':>13} {'closed form':>12}")
        for result in (*results, by_hand):
            bar = "" if result.bar is None else f"{result.bar / 1e6:g}"
            theory = "" if result.closed_form_seconds is None else f"{1e3 * result.closed_form_seconds:.4f} ms"
            ratio = result.records_per_second / by_hand.records_per_second
            print(f"{result.case:36} {result.records_per_second / 1e6:12.2f} {bar:>5} {ratio:7.1f} "
                  f"{1e3 * result.mean_latency_seconds:10.4f} ms {theory:>12}")  # fmt: skip
    missed = [result.case for result in results if result.bar is not None and result.records_per_second < result.bar]
    if missed:
        print(f"below the bar: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
