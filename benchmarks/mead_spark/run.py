# SPDX-License-Identifier: Apache-2.0
"""MEAD on a real Spark under bursty arrivals: latency against its bound, CPU against static, simulated beside it.

The log analysis runs three times as ``penstock run`` runs it, on an embedded cluster, with the same replayed arrivals:
with everything it may have (static), with MEAD, and with the threshold policy. A minute of few records comes before the
bursts, for a cold JVM is nobody's policy. From the batches of the static and the
MEAD run the demand is learnt; with it the simulator plays the MEAD run once more, under the same policy code, guards
and settings, and its mean latency is set beside the measured one. Run: ``python benchmarks/mead_spark/run.py``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.account import RunSummary
from penstock.adaptors.replay.options import replay_arrivals
from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.loop import CycleReport
from penstock.markov import MAP
from penstock.monitor.steady import SteadyBatches
from penstock.performance.demand import BatchDemand
from penstock.performance.demand_learning import BatchDemandLearner
from penstock.plan.guards import guards_as_set
from penstock.records import Allocation, LatencySummary, Quality
from penstock.running.pipeline_run import run_pipeline
from penstock.settings import RunSettings, parse_settings
from penstock.simulator import MicroBatch, Operator, Pipeline

NAME = "log-analysis"
MEAD = {"window": 50_000, "every_seconds": "15s", "rescue_every": "2s"}


@dataclass
class Watched:
    """What is kept of a run while it goes by."""

    batches: list[tuple[int, float, Allocation]] = field(default_factory=list)
    """Rows, time and allocation of batches that ran wholly under one."""
    _steady: SteadyBatches = field(default_factory=SteadyBatches)

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Say what is done now."""
        if fraction is None:
            print(f"    {text}", file=sys.stderr)

    def report(self, report: CycleReport) -> None:
        """Keep batches, and print changes."""
        seen = report.observation
        steady = self._steady.take(seen.at, seen.cluster.observed, report.batches)
        if seen.quality is Quality.GOOD:
            self.batches += [(batch.rows, batch.duration_seconds, had) for batch, had in steady]
        if report.decision is not None and report.decision.is_change:
            print(
                f"    {report.decision.current} -> {report.decision.target}: {report.decision.reason}", file=sys.stderr
            )

    def fault(self, operator: str, text: str) -> None:
        """Print a fault."""
        print(f"    {operator}: {text}", file=sys.stderr)


def main() -> int:
    """Run, simulate, compare, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=5.0, help="how long records arrive in each run")
    arguments.add_argument("--rate", type=float, default=2000.0, help="mean records per second")
    arguments.add_argument("--bound", default="4s", help="bound on the 95th percentile")
    arguments.add_argument("--policies", default="static,mead,threshold", help="which of the three to run")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs: dict[str, RunSummary] = {}
        batches: list[tuple[int, float, Allocation]] = []
        for policy in chosen.policies.split(","):
            print(f"{policy}:", file=sys.stderr)
            watched = Watched()
            runs[policy] = run_pipeline(
                settings(policy, folder, chosen), folder / policy, listener=watched, stop=threading.Event()
            )
            batches += watched.batches
        demand = learn(batches)
        simulated = simulated_mead(settings("mead", folder, chosen), demand)
    return tell(runs, simulated, demand, as_json=chosen.json)


def settings(policy: str, folder: Path, chosen: argparse.Namespace) -> RunSettings:
    """The run under a policy; the arrivals are the same for all."""
    trace = folder / "arrivals.npy"
    np.save(trace, arrivals(chosen.rate, 60.0 * chosen.minutes))
    options: dict[str, dict[str, Any]] = {
        "static": {"name": "fixed"},
        "mead": {"name": "mead", "options": MEAD},
        "threshold": {"name": "threshold", "options": {"every_seconds": "5s"}},
    }
    return parse_settings(
        {
            "name": "mead-spark",
            "arrivals": {
                "trace": str(trace),
                "options": {"payload": "log", "partitions": 2, "seed": 1},
            },
            "operators": [
                {
                    "name": NAME,
                    "app": "penstock.apps.log_analysis:log_analysis",
                    "executors": [1, 1],
                    "cpu_shares": [0.4, 0.55, 0.7, 0.85, 1.0],
                }
            ],
            "objective": {"p95": chosen.bound},
            "policy": options[policy],
            "window": "10s",
            "warm_up": "20s",
        },
        "benchmark",
    )


def arrivals(rate: float, seconds: float, lead_in: float = 60.0) -> npt.NDArray[np.float64]:
    """A minute at a tenth of the rate, then, on average, 12 s at 0.6 of it and 6 s at three times that, by turns."""
    rng = np.random.default_rng(7)
    low, high = 0.6 * rate, 1.8 * rate
    to_high, to_low = 1.0 / 12.0, 1.0 / 6.0
    process = MAP(np.array([[-low - to_high, to_high], [to_low, -high - to_low]]), np.array([[low, 0.0], [0.0, high]]))
    bursts = np.cumsum(process.sample(int(1.5 * rate * seconds), rng))
    before = np.sort(rng.uniform(0.0, lead_in, rng.poisson(0.1 * rate * lead_in)))
    return np.concatenate([before, lead_in + bursts[bursts < seconds]])


def learn(batches: list[tuple[int, float, Allocation]]) -> BatchDemand:
    """What a batch costs, out of all runs."""
    learner = BatchDemandLearner()
    for rows, seconds, allocation in batches:
        learner.observe(rows, seconds, allocation)
    return learner.learnt().demand


def simulated_mead(run: RunSettings, demand: BatchDemand) -> Any:
    """The same run in the simulator, under the same policy and guards."""
    (operator,) = run.operators
    replay = replay_arrivals(run.arrivals.replay_options())
    times = replay.arrivals.times(0, replay.arrivals.total) / replay.speed
    server = MicroBatch(
        fixed=demand.fixed_cpu_seconds,
        per_record=demand.per_record_seconds,
        driver=demand.fixed_seconds - demand.fixed_cpu_seconds,
        fixed_scv=demand.fixed_scv * (demand.fixed_seconds / max(demand.fixed_cpu_seconds, 1e-9)) ** 2,
        per_record_scv=demand.per_record_scv,
    )
    return simulate(
        times,
        Pipeline.of_one(Operator(NAME, server, limits=operator.limits(), demand_is_known=False)),
        PolicyChoice("mead", run.policy.options),
        run.objective_of(NAME),
        seed=1,
        guards=guards_as_set(run.guards),
        interval_seconds=run.interval,
    )


def tell(runs: dict[str, RunSummary], simulated: Any, demand: BatchDemand, *, as_json: bool) -> int:
    """Print the table; the code is 1 where MEAD broke its bound or the simulator is off by more than 20 %."""
    print(
        f"learnt: {demand.fixed_seconds:.3f} s a batch, {demand.fixed_cpu_seconds:.3f} s of it under the share, and "
        f"{demand.per_record_seconds * 1e6:.0f} us a record"
    )
    rows = [(name, run.latency, run.capacity_seconds / run.static_capacity_seconds) for name, run in runs.items()]
    (path,) = simulated.paths
    rows.append(("mead, simulated", path.latency, simulated.cpu_share_mean))
    print("run                mean      p95      CPU of static")
    for name, latency, cpu in rows:
        assert latency is not None
        print(f"{name:16} {latency.mean_seconds:6.3f} s {latency.p95_seconds:6.3f} s   {cpu:6.1%}")
    result = compared(runs["mead"], path.latency, simulated.cpu_share_mean)
    print(f"bound p95 <= {result['bound']:g} s: {'met' if result['is_met'] else 'BROKEN'}; simulated mean "
          f"{result['mean_error']:+.1%} of the measured, bar 20 %")  # fmt: skip
    if as_json:
        print(json.dumps(result))
    return 0 if result["is_met"] and abs(result["mean_error"]) <= 0.2 else 1


def compared(run: RunSummary, simulated: LatencySummary | None, cpu: float) -> dict[str, Any]:
    """MEAD measured and simulated."""
    assert run.latency is not None
    assert simulated is not None
    return {
        "bound": run.worst.objective.seconds,
        "is_met": bool(run.is_met),
        "p95": run.latency.p95_seconds,
        "mean": run.latency.mean_seconds,
        "simulated_mean": simulated.mean_seconds,
        "simulated_p95": simulated.p95_seconds,
        "mean_error": simulated.mean_seconds / run.latency.mean_seconds - 1.0,
        "cpu": run.capacity_seconds / run.static_capacity_seconds,
        "simulated_cpu": cpu,
        "records": run.records_done,
        "changes": len(run.decisions),
    }


if __name__ == "__main__":
    sys.exit(main())
