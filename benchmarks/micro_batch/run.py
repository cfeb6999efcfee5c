# SPDX-License-Identifier: Apache-2.0
"""How fast and how true the micro-batch queue is: CPU time over the order, and answers beside long simulations.

The simulation is that of `benchmarks.micro_batch.simulate`, which shares no code with the model.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, as the bar says; before numpy is loaded
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.micro_batch.cases import LOADS, RATE, bursty, processes, servers
from benchmarks.micro_batch.simulate import simulate

from penstock.markov import MAP, superpose
from penstock.performance.queueing.micro_batch import MicroBatchAnswer, MicroBatchSolver, solve_micro_batch

MEAN_BAR, P95_BAR = 0.05, 0.10


@dataclass(frozen=True)
class Comparison:
    """One queue solved and simulated; times in seconds, half-widths of 95 % intervals."""

    process: str
    server: str
    utilisation: float
    batch_records: float
    method: str
    mean: float
    simulated_mean: float
    mean_interval: float
    p95: float
    simulated_p95: float
    p95_interval: float
    error_estimate: float
    imbalance: float
    left_out: float
    cpu_seconds: float

    @property
    def mean_error(self) -> float:
        """Relative error of the mean."""
        return self.mean / self.simulated_mean - 1.0

    @property
    def p95_error(self) -> float:
        """Relative error of the 95th percentile."""
        return self.p95 / self.simulated_p95 - 1.0

    @property
    def verdict(self) -> str:
        """Whether the bars are met, met within the interval of the simulation only, or missed."""
        excess = max(abs(self.mean_error) - MEAN_BAR, abs(self.p95_error) - P95_BAR)
        if excess <= 0:
            return "met"
        mean = abs(self.mean - self.simulated_mean) <= max(self.mean_interval, MEAN_BAR * self.simulated_mean)
        p95 = abs(self.p95 - self.simulated_p95) <= max(self.p95_interval, P95_BAR * self.simulated_p95)
        return "inside the interval" if mean and p95 else "MISSED"


def compare(
    records: int, batches: tuple[float, ...], *, real: bool, seed: int, only: str | None = None
) -> Iterator[Comparison]:
    """Solve and simulate every process, or only one, with every server."""
    for name, process in processes(real).items():
        if only is not None and name != only:
            continue
        rng = np.random.default_rng(seed)
        arrivals = np.cumsum(process.sample(records, rng)) / RATE
        for batch in batches:
            for load in LOADS:
                for kind, server in servers(load, batch).items():
                    started = time.process_time()
                    answer = solve_micro_batch(process.with_rate(RATE), server)
                    p95 = answer.percentile(0.95)
                    seconds = time.process_time() - started
                    if not isinstance(answer, MicroBatchAnswer):
                        continue
                    run = simulate(
                        arrivals, server.fixed, server.per_record, rng, cap=server.cap, trigger=server.trigger,
                        fixed_scv=server.fixed_scv, per_record_scv=server.per_record_scv,
                    )  # fmt: skip
                    mean, mean_interval = run.mean_interval()
                    simulated_p95, p95_interval = run.percentile_interval(0.95)
                    yield Comparison(
                        name, kind, answer.utilisation, answer.batch_size_mean, answer.method, answer.mean, mean,
                        mean_interval, p95, simulated_p95, p95_interval, answer.error_estimate, answer.imbalance,
                        answer.left_out, seconds,
                    )  # fmt: skip


def against(simulated: Path, only: str | None) -> Iterator[Comparison]:
    """Solve every queue that `long_runs.py` simulated, and set the two side by side."""
    known = processes(real=True)
    solvers = {name: MicroBatchSolver(process.with_rate(RATE)) for name, process in known.items()}
    for row in (json.loads(line) for line in simulated.read_text().splitlines()):
        name = row["process"]
        if name not in known or (only is not None and name != only):
            continue
        if abs(known[name].scv / row["scv"] - 1.0) > 1e-6:
            print(f"{name}: fitted otherwise than it was simulated; simulate it again", file=sys.stderr)
            continue
        started = time.process_time()
        answer = solvers[name].solve(servers(row["load"], row["batch"])[row["server"]])
        p95, seconds = answer.percentile(0.95), time.process_time() - started
        assert isinstance(answer, MicroBatchAnswer)
        yield Comparison(
            name, row["server"], row["load"], answer.batch_size_mean, answer.method, answer.mean, row["mean"],
            row["mean_interval"], p95, row["p95"], row["p95_interval"], answer.error_estimate, answer.imbalance,
            answer.left_out, seconds,
        )  # fmt: skip


def speed(repeats: int) -> Iterator[tuple[int, str, float]]:
    """Give (order, kind of server, median CPU seconds of mean and three percentiles)."""
    two, four = bursty(4.0, 0.9), superpose(bursty(4.0, 0.95), bursty(10.0, 0.9))
    by_order = {1: MAP.poisson(1.0), 2: two, 4: four, 8: superpose(four, two), 16: superpose(four, four)}
    by_order |= {32: superpose(by_order[16], two), 64: superpose(by_order[16], four)}
    for order, process in by_order.items():
        for kind, server in servers(0.7, 200.0).items():
            spent = []
            for _ in range(repeats if order <= 16 else 1):
                started = time.process_time()
                answer = solve_micro_batch(process.with_rate(RATE), server)
                answer.percentiles([0.5, 0.95, 0.99])
                spent.append(time.process_time() - started)
            yield order, kind, statistics.median(spent)


def main() -> None:
    """Print the comparison and the speed, as tables or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, default=1e7)
    parser.add_argument("--batches", default="2,50,2000", help="records that arrive in the fixed time of a batch")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-simulation", action="store_true")
    parser.add_argument("--no-speed", action="store_true")
    parser.add_argument("--against", type=Path, help="what long_runs.py wrote: no simulation now")
    parser.add_argument("--only", help="one process, by its name in the table")
    parser.add_argument("--no-real", action="store_true")
    options = parser.parse_args()
    times: list[tuple[int, str, float]] = []
    rows: list[Comparison] = []
    if not options.json and not options.no_speed:
        print("| order | server | CPU ms |\n|---:|---|---:|")
    for order, kind, seconds in () if options.no_speed else speed(options.repeats):
        times.append((order, kind, seconds))
        if not options.json:
            print(f"| {order} | {kind} | {1e3 * seconds:.0f} |", flush=True)
    if not options.json:
        print(
            "\n| process | server | load | records a batch | mean s | simulated | error "
            "| p95 s | simulated | error | bars |"
            "\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|",
            flush=True,
        )
    if not options.no_simulation:
        batches = tuple(float(value) for value in options.batches.split(","))
        queues = (
            compare(int(options.records), batches, real=not options.no_real, seed=options.seed, only=options.only)
            if options.against is None
            else against(options.against, options.only)
        )
        for row in queues:
            rows.append(row)
            if not options.json:
                print(
                    f"| {row.process} | {row.server} | {row.utilisation:.2f} | {row.batch_records:.0f} "
                    f"| {row.mean:.4g} | {row.simulated_mean:.4g} ± {row.mean_interval:.2g} | {row.mean_error:+.1%} "
                    f"| {row.p95:.4g} | {row.simulated_p95:.4g} ± {row.p95_interval:.2g} | {row.p95_error:+.1%} "
                    f"| {row.verdict} |",
                    flush=True,
                )
    if options.json:
        print(json.dumps({"speed": times, "comparison": [asdict(row) | {"verdict": row.verdict} for row in rows]}))
    elif rows:
        for verdict in ("met", "inside the interval", "MISSED"):
            print(f"{verdict}: {sum(row.verdict == verdict for row in rows)} of {len(rows)}")


if __name__ == "__main__":
    main()
