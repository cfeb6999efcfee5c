# SPDX-License-Identifier: Apache-2.0
"""Coverage of the upper ends of MEAD's predictions, and what keeping the bound with them costs and earns.

Loads are drawn from the seed alone: no load was looked at when the margins were made.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.loop import CycleReport
from penstock.markov import MAP
from penstock.plan.ladder import ladder
from penstock.ports import AnalysisMemo, FloatArray
from penstock.records import Limits, Objective
from penstock.simulator import ARRIVALS, Hyper2, MicroBatch, Operator, Pipeline, Service, Stream, erlang
from penstock.topology import Path as OperatorPath

KINDS = ("records", "batches", "fork")
LIMITS = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
RATE = 60.0
COVERAGE_BAR = (0.85, 0.95)
"""Of all judged plans together, at a confidence of 90 %."""


@dataclass(frozen=True)
class Load:
    """What arrives, what it flows through, and the bounds."""

    kind: str
    seed: int
    times: FloatArray
    pipeline: Pipeline
    objectives: dict[OperatorPath, Objective]


@dataclass
class Row:
    """One run."""

    kind: str
    seed: int
    policy: str
    cpu: float
    violations: float
    worst_statistic_of_bound: float
    judged: int
    covered: int
    error: float | None


def arrivals(rng: np.random.Generator, minutes: float) -> FloatArray:
    """Bursts of any length, half of them on a load that rises and falls slowly."""
    factor, calm = rng.uniform(1.5, 8.0), float(np.exp(rng.uniform(np.log(2.0), np.log(300.0))))
    burst = float(np.exp(rng.uniform(np.log(0.5), np.log(120.0))))
    process = MAP.mmpp([[-1 / calm, 1 / calm], [1 / burst, -1 / burst]], [1.0, factor]).with_rate(RATE)
    times = np.cumsum(process.sample(int(RATE * minutes * 60.0), rng))
    if rng.random() < 0.5:
        # Time runs faster and slower: the rate moves by two fifths in both directions within the period.
        period = rng.uniform(900.0, 2700.0)
        times = times + 0.4 * period / (2.0 * np.pi) * np.sin(2.0 * np.pi * times / period)
    return np.asarray(times, dtype=np.float64)


def service(rng: np.random.Generator, work: float) -> Service:
    """Work of a record that varies little or much."""
    return erlang(int(rng.integers(1, 5)), work) if rng.random() < 0.7 else Hyper2(work, float(rng.uniform(1.5, 4.0)))


def drawn(kind: str, seed: int, minutes: float) -> Load:
    """A load of a kind; the bound is what a level drawn by lot would have kept."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    times = arrivals(rng, minutes)
    used = rng.uniform(0.15, 0.6)
    work = used / RATE
    if kind == "fork":
        rest = [Operator(name, service(rng, rng.uniform(0.3, 1.0) * work), limits=LIMITS) for name in ("b", "c")]
        operators = (Operator("a", service(rng, 0.5 * work), limits=LIMITS), *rest)
        pipeline = Pipeline(operators, (Stream(ARRIVALS, "a"), Stream("a", "b"), Stream("a", "c")), "fork")
    elif kind == "records":
        pipeline = Pipeline.of_one(Operator("a", service(rng, work), limits=LIMITS))
    else:
        batch = MicroBatch(
            rng.uniform(0.05, 0.3), work, driver=rng.uniform(0.05, 0.5), fixed_scv=0.05, per_record_scv=1.0
        )
        pipeline = Pipeline.of_one(Operator("a", batch, limits=LIMITS, demand_is_known=False))
    statistics = [str(rng.choice(["mean", "p95", "p95", "p99"])) for _ in pipeline.topology.paths]
    level = ladder(LIMITS)[int(rng.integers(2, 8))]
    plain = simulate(times, pipeline, None, Objective("p95", 1e6), seed, start=dict.fromkeys(pipeline.by_name, level))
    objectives = {}
    for path, statistic in zip(pipeline.topology.paths, statistics, strict=True):
        seconds = plain.records_of[path].latencies()
        kept = seconds.mean() if statistic == "mean" else np.quantile(seconds, float(statistic[1:]) / 100.0)
        objectives[path] = Objective(statistic, 1.1 * float(kept))
    return Load(kind, seed, times, pipeline, objectives)


def runs(load: Load, options: dict[str, object]) -> Iterator[Row]:
    """The load with margins and without."""
    memo = AnalysisMemo()
    for name, switched in (("margins", {}), ("none", {"margins": False})):
        told: dict[str, tuple[int, float, float | None]] = {}

        def take(report: CycleReport, told: dict[str, tuple[int, float, float | None]] = told) -> None:
            evidence = {} if report.decision is None else report.decision.evidence
            if evidence.get("predictions_judged"):
                # Decisions tell of the path nearest to its bound: of each path the newest word counts.
                through = str(evidence.get("judged_path"))
                told[through] = (
                    int(evidence["predictions_judged"] or 0),
                    float(evidence["prediction_coverage"] or 0.0),
                    float(evidence["prediction_error"] or 0.0),
                )

        policy = PolicyChoice("mead", {**options, **switched})
        done = simulate(load.times, load.pipeline, policy, load.objectives, load.seed, memo=memo, on_report=take)
        judged = sum(n for n, _, _ in told.values())
        yield Row(
            load.kind,
            load.seed,
            name,
            done.capacity_seconds / done.static_capacity_seconds,
            done.violation_time_share,
            max(
                (path.objective.measured(path.latency) or 0.0) / (path.objective.seconds or 1.0) for path in done.paths
            ),
            judged,
            round(sum(n * part for n, part, _ in told.values())),
            sum(n * (error or 0.0) for n, _, error in told.values()) / judged if judged else None,
        )


def main() -> int:
    """Run, print and keep what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--queues", default=None, help="another model of the queues than the default")
    parser.add_argument("--json", type=Path, help="where rows are kept, after each load")
    asked = parser.parse_args()
    options: dict[str, object] = {} if asked.queues is None else {"queues": asked.queues}
    rows: list[Row] = []
    for seed in asked.seeds:
        for kind in asked.kinds:
            for row in runs(drawn(kind, seed, asked.minutes), options):
                rows.append(row)
                print(row, flush=True)
            if asked.json is not None:
                asked.json.write_text(json.dumps([asdict(one) for one in rows], indent=1))
    judged, covered = sum(row.judged for row in rows), sum(row.covered for row in rows)
    for name in ("margins", "none"):
        mine = [row for row in rows if row.policy == name]
        print(
            f"{name}: CPU {np.mean([r.cpu for r in mine]):.1%}, violations {np.mean([r.violations for r in mine]):.2%}"
        )
    coverage = covered / judged if judged else 0.0
    print(f"coverage {coverage:.1%} of {judged} plans; bar {COVERAGE_BAR[0]:.0%} to {COVERAGE_BAR[1]:.0%}")
    return 0 if COVERAGE_BAR[0] <= coverage <= COVERAGE_BAR[1] else 1


if __name__ == "__main__":
    sys.exit(main())
