# SPDX-License-Identifier: Apache-2.0
"""Compare `PipelineLatency`, which the policy uses, with simulations of pipelines of three operators.

The simulation shares no code with the model: inter-arrival and service times are drawn, and departures are
running maxima (Lindley's recursion without a loop). Intervals are two standard errors of the means of twenty batches.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from penstock.markov import MAP, PH, fit_mean_scv, nearest_map2, superpose
from penstock.markov.conditions import FloatArray
from penstock.performance.demand import RecordDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.records import Allocation, Objective

BAR_MEAN, BAR_P95 = 0.10, 0.15
BATCHES = 20
_BLOCK = 1_000_000

PROCESSES = {"scv 2 lag-1 0.24": (2.0, 0.95), "scv 5 lag-1 0.24": (5.0, 0.6), "scv 20 lag-1 0": (20.0, 0.0),
             "scv 20 lag-1 0.43": (20.0, 0.9)}  # fmt: skip
LOADS = ((0.3, 0.3, 0.3), (0.3, 0.6, 0.8), (0.6, 0.6, 0.6), (0.8, 0.75, 0.8), (0.9, 0.9, 0.9), (0.95, 0.9, 0.8),
         (0.8, 0.9, 0.95))  # fmt: skip


@dataclass(frozen=True)
class Result:
    """One pipeline: errors of the model relative to the simulation, and the simulation's own half-intervals."""

    arrivals: str
    services: str
    loads: tuple[float, ...]
    mean: float
    mean_error: float
    mean_interval: float
    p95: float
    p95_error: float
    p95_interval: float
    model_milliseconds: float

    @property
    def within(self) -> bool:
        """Whether the model is within the bars, or too near to them to tell."""
        return (
            abs(self.mean_error) <= BAR_MEAN + self.mean_interval and abs(self.p95_error) <= BAR_P95 + self.p95_interval
        )


def arrivals_of(scv: float, decay: float) -> MAP:
    """A process of two phases with rate one."""
    return nearest_map2(1.0, 1.0 + scv, 1.5 * (1.0 + scv) ** 2, decay).process


def services_of(kind: str, loads: Sequence[float]) -> list[PH]:
    """All Erlang-2, or one of each: SCV 2, 1/2 and 1."""
    if kind == "E2 E2 E2":
        return [PH.erlang(2, mean=load) for load in loads]
    return [fit_mean_scv(load, scv).distribution for load, scv in zip(loads, (2.0, 0.5, 1.0), strict=True)]


def drawn(rng: np.random.Generator) -> tuple[str, MAP, list[PH]]:
    """A pipeline of two to five operators unlike those the model's one factor was set on: random MMPPs, loads, SCVs."""
    while True:
        phases = int(rng.integers(2, 5))
        Q = np.exp(rng.normal(size=(phases, phases))) * 10.0 ** rng.uniform(-3.0, 0.0)
        np.fill_diagonal(Q, 0.0)
        np.fill_diagonal(Q, -Q.sum(axis=1))
        process = MAP.mmpp(Q, np.exp(1.2 * rng.normal(size=phases)))
        if rng.random() < 0.4:
            other = MAP.renewal(fit_mean_scv(1.0, float(rng.uniform(2.0, 15.0))).distribution)
            process = superpose(process.with_rate(1.0), other)
        process = process.with_rate(1.0)
        if 1.5 < process.scv < 20.0 and process.asymptotic_idc < 150.0:
            break
    loads = rng.uniform(0.3, 0.93, int(rng.integers(2, 6)))
    services = [fit_mean_scv(float(u), float(rng.choice([0.25, 0.5, 1.0, 1.5, 2.0]))).distribution for u in loads]
    return f"scv {process.scv:.1f} lag-1 {float(process.autocorrelation(1)):.2f}", process, services


def simulate(arrivals: MAP, services: Sequence[PH], records: int, rng: np.random.Generator) -> FloatArray:
    """Times through all servers, in blocks; the first twentieth is left out."""
    sampler, clock = arrivals.sampler(rng), 0.0
    free = [0.0] * len(services)
    times = np.empty(records)
    for start in range(0, records, _BLOCK):
        size = min(_BLOCK, records - start)
        at = clock + np.cumsum(sampler.draw(size, rng))
        clock = float(at[-1])
        done = at
        for i, service in enumerate(services):
            work = service.sample(size, rng)
            total = np.cumsum(work)
            begins = np.maximum.accumulate(np.maximum(done - (total - work), free[i]))
            done = begins + total
            free[i] = float(done[-1])
        times[start : start + size] = done - at
    return times[records // 20 :]


def model(arrivals: MAP, services: Sequence[PH], statistic: str, bound: float) -> float:
    """A statistic of the same pipeline, as the policy predicts it."""
    names = [f"operator {i}" for i in range(len(services))]
    operators = [
        OperatorModel(name, RecordDemand(service), (names[i - 1],) if i else ())
        for i, (name, service) in enumerate(zip(names, services, strict=True))
    ]
    latency = PipelineLatency(PipelineModel(operators, Objective(statistic, bound)), {"arrivals": arrivals})
    (path,) = latency.predict(dict.fromkeys(names, Allocation(1, 1.0)))
    return path.seconds


def compare(
    name: str, kind: str, arrivals: MAP, services: Sequence[PH], *, records: int, rng: np.random.Generator
) -> Result:
    """Solve and simulate one pipeline."""
    loads = tuple(round(arrivals.rate * service.mean, 2) for service in services)
    bound = 10.0 * sum(service.mean for service in services)  # only sets the grid on which percentiles are read
    mean = model(arrivals, services, "mean", bound)
    started = time.process_time()
    p95 = model(arrivals, services, "p95", bound)
    spent = time.process_time() - started
    times = simulate(arrivals, services, records, rng)
    batches = np.array_split(times, BATCHES)
    means, p95s = [batch.mean() for batch in batches], [np.quantile(batch, 0.95) for batch in batches]
    simulated, simulated_p95 = float(times.mean()), float(np.quantile(times, 0.95))
    return Result(
        name,
        kind,
        loads,
        simulated,
        mean / simulated - 1.0,
        2.0 * float(np.std(means, ddof=1)) / BATCHES**0.5 / simulated,
        simulated_p95,
        p95 / simulated_p95 - 1.0,
        2.0 * float(np.std(p95s, ddof=1)) / BATCHES**0.5 / simulated_p95,
        1e3 * spent,
    )


def line(result: Result) -> str:
    """One pipeline for people."""
    return (
        f"{result.arrivals:18} {result.services:9} {'/'.join(f'{load:g}' for load in result.loads):14} "
        f"mean {result.mean:9.2f} {result.mean_error:+7.1%} (+-{result.mean_interval:.1%})  "
        f"p95 {result.p95:9.2f} {result.p95_error:+7.1%} (+-{result.p95_interval:.1%})  "
        f"model {result.model_milliseconds:4.0f} ms{'' if result.within else '  outside'}"
    )


def main() -> int:
    """Run and print; the exit code says whether every pipeline is within the bars."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument(
        "--drawn", type=int, default=0, help="so many random pipelines of two to five operators instead"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one line of JSON for each pipeline")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    if options.drawn:
        cases = [drawn(rng) for _ in range(options.drawn)]
        pipelines = [
            (name, "/".join(f"{s.scv:g}" for s in services), arrivals, services) for name, arrivals, services in cases
        ]
    else:
        pipelines = []
        for name, shape in PROCESSES.items():
            for i, loads in enumerate(LOADS):
                kind = ("E2 E2 E2", "H2 E2 M")[i % 2]
                pipelines.append((name, kind, arrivals_of(*shape), services_of(kind, loads)))
    results = []
    for pipeline in pipelines:
        result = compare(*pipeline, records=options.records, rng=rng)
        results.append(result)
        print(json.dumps(asdict(result)) if options.json else line(result), flush=True)
    outside = sum(not result.within for result in results)
    mean = np.mean([abs(result.mean_error) for result in results])
    p95 = np.mean([abs(result.p95_error) for result in results])
    print(
        f"{len(results)} pipelines, {outside} outside {BAR_MEAN:.0%} in the mean or {BAR_P95:.0%} in the 95th "
        f"percentile by more than the interval; mean absolute errors {mean:.1%} and {p95:.1%}",
        file=sys.stderr if options.json else sys.stdout,
    )
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
