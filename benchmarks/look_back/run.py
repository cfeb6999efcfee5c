# SPDX-License-Identifier: Apache-2.0
"""How far `mead` should look back: bound, violations and CPU under loads that come again, in the simulator.

The loads are those of `benchmarks/promise`, at the pace of the demo and with the guards of every run. A batch costs
about what one of the log analysis costs on two cores, and `mead` has to learn it.
Run: ``python benchmarks/look_back/run.py``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.promise.rivals import LOADS, arrivals

from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.plan.guards import default_guards
from penstock.records import Limits, Objective
from penstock.simulator import MicroBatch, Operator, Pipeline

BOUND = Objective("p95", 6.0)
LIMITS = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
BATCH = MicroBatch(fixed=0.25, per_record=0.00016, trigger=1.0, fixed_scv=0.03, driver=0.15)
PACE: dict[str, Any] = {"window": 20_000, "every_seconds": "5s", "rescue_every": "2s"}
"""Of the demo."""


def main() -> int:
    """Simulate and print a table."""
    asked = _arguments()
    operator = Operator("log-analysis", BATCH, limits=LIMITS, start_up_seconds=6.0, demand_is_known=False)
    print("| load | seed | look_back | p95 | violations | CPU of static | changes |\n|---|---|---|---|---|---|---|")
    for load in asked.loads:
        for seed in asked.seeds:
            times = arrivals(load, 60.0 * asked.minutes, np.random.default_rng(seed))
            for look_back in asked.look_back:
                options = {**PACE, "look_back": None if look_back == "none" else look_back}
                done = simulate(
                    times, Pipeline.of_one(operator), PolicyChoice("mead", options), BOUND, seed,
                    guards=default_guards(), monitor_seconds=10.0,
                )  # fmt: skip
                assert done.latency is not None  # records came
                figures = (
                    f"{done.latency.p95_seconds:.2f} s", f"{done.violation_time_share:.1%}",
                    f"{done.capacity_seconds / done.static_capacity_seconds:.1%}", str(len(done.changes)),
                )  # fmt: skip
                print(f"| {load} | {seed} | {look_back} | {' | '.join(figures)} |", flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--loads", nargs="+", choices=LOADS, default=list(LOADS))
    arguments.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    arguments.add_argument("--look-back", nargs="+", default=["none", "30s", "2m"], help="none: the windows alone")
    arguments.add_argument("--minutes", type=float, default=6.0)
    return arguments.parse_args()


if __name__ == "__main__":
    sys.exit(main())
