# SPDX-License-Identifier: Apache-2.0
"""The elastic policy on a real Spark under a day's load in ten minutes, against the cheapest schedule in hindsight.

The log analysis runs twice as ``penstock run`` runs it, on an embedded cluster whose executors are held to a small CPU
share, so that one to six of them show a difference on two cores. First every size gets more than it can do, in turn:
what its full batches did is its throughput. Then records arrive with the shape of a day, between a fifth and most of
what the largest size sustains, and the policy decides. The bar: no record older than the catch-up time, and at most
15 % more executor seconds than the cheapest schedule that had known arrivals and throughputs
(`penstock.evaluation.hindsight`).

A lead-in at the lowest rate comes before the day and is not measured, for a cold JVM is nobody's policy. The policy
starts with the measured throughputs (its option `samples`); with ``--cold`` it has to find everything itself.
Run: ``python benchmarks/elastic_spark/run.py``.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.evaluation.hindsight import HindsightSchedule, cheapest_schedule
from penstock.loop import CycleReport
from penstock.monitor.steady import SteadyBatches
from penstock.records import Allocation, Decision, Observation, Quality
from penstock.running.pipeline_run import run_pipeline
from penstock.settings import RunSettings, parse_settings

NAME = "log-analysis"
BAR = 0.15
_PEAK, _TROUGH = 0.85, 0.2
"""The day's highest and lowest rate, as parts of what the largest size sustains."""
Times = npt.NDArray[np.float64]


@dataclass
class Watched:
    """What is kept of a run while it goes by."""

    stop: threading.Event
    stop_after: float = math.inf
    """Seconds after the first good look."""
    looks: list[Observation] = field(default_factory=list)
    changes: list[Decision] = field(default_factory=list)
    batches: list[tuple[int, float, Allocation, float]] = field(default_factory=list)
    """Rows, time, allocation and end of batches that ran wholly under one allocation."""
    _steady: SteadyBatches = field(default_factory=SteadyBatches)
    _good_since: float | None = None

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Say what is done now."""
        if fraction is None:
            print(f"    {text}", file=sys.stderr)

    def report(self, report: CycleReport) -> None:
        """Keep looks and batches, and print changes."""
        seen = report.observation
        self.looks.append(seen)
        steady = self._steady.take(seen.at, seen.cluster.observed, report.batches)
        self.batches += [(b.rows, b.duration_seconds, had, b.ended_at) for b, had in steady if b.rows > 0]
        if seen.quality is Quality.GOOD:
            self._good_since = self._good_since or seen.at
            if seen.at - self._good_since > self.stop_after:
                self.stop.set()
        decision = report.decision
        if decision is not None and decision.is_change:
            self.changes.append(decision)
            print(f"    {decision.change_text}: {decision.reason}", file=sys.stderr)

    def fault(self, operator: str, text: str) -> None:
        """Print a fault."""
        print(f"    {operator}: {text}", file=sys.stderr)


def main() -> int:
    """Measure, run, compare, print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--minutes", type=float, default=10.0, help="how long the day is")
    arguments.add_argument("--lead-in", type=float, default=90.0, help="seconds at the lowest rate before it")
    arguments.add_argument("--sizes", type=int, default=6, help="most executors")
    arguments.add_argument("--share", type=float, default=0.25, help="CPU share of each executor")
    arguments.add_argument("--each", type=float, default=40.0, help="seconds for which each size is measured")
    arguments.add_argument("--rows", type=int, default=4000, help="records of a full batch")
    arguments.add_argument("--catch-up", type=float, default=60.0, help="how old a record may be, in seconds")
    arguments.add_argument("--throughput", help="records a second of each size, with commas: nothing is measured then")
    arguments.add_argument("--cold", action="store_true", help="give the policy no samples")
    arguments.add_argument("--plot", type=Path, help="draw the run into this PNG file")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    chosen = arguments.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.throughput is None:
            print("what each size sustains:", file=sys.stderr)
            sustained = measured_sizes(folder, chosen)
        else:
            rates = [float(text) for text in chosen.throughput.split(",")]
            sustained = {Allocation(n, chosen.share): rate for n, rate in enumerate(rates, 1)}
        for allocation, rate in sustained.items():
            print(f"    {allocation}: {rate:,.0f} records/s", file=sys.stderr)
        times = arrivals(max(sustained.values()), chosen)
        print("the day:", file=sys.stderr)
        watched = run(day_settings(folder, times, sustained, chosen), folder / "day", math.inf)
    return finish(watched, times, sustained, chosen)


# --- what runs ---------------------------------------------------------------------------------------------------


def settings(chosen: argparse.Namespace, load: dict[str, Any], policy: dict[str, Any], *, guards: Any) -> RunSettings:
    """A run of the log analysis on small executors."""
    return parse_settings(
        {
            "name": "elastic-spark",
            "arrivals": load,
            "operators": [
                {
                    "name": NAME,
                    "app": "penstock.apps.log_analysis:log_analysis",
                    "executors": [1, chosen.sizes],
                    "cpu_shares": [chosen.share],
                    "executor_memory": "600m",
                    "driver_memory": "700m",
                }
            ],
            "policy": policy,
            "guards": guards,
            "window": "10s",
            "warm_up": "20s",
            "drain": "300s",
        },
        "benchmark",
    )


def run(settings: RunSettings, folder: Path, stop_after: float) -> Watched:
    """One run to its end, or for some seconds."""
    watched = Watched(threading.Event(), stop_after)
    run_pipeline(settings, folder, listener=watched, stop=watched.stop)
    return watched


def measured_sizes(folder: Path, chosen: argparse.Namespace) -> dict[Allocation, float]:
    """Every size in turn under more than it can do; its throughput is that of its full batches."""
    load = {
        "shape": "constant:rate=20000,duration=3600s",
        "options": {"payload": "log", "partitions": 2 * chosen.sizes, "maxRowsPerBatch": chosen.rows},
    }
    # By rising and falling turns, so that the JVM's warming up is not one size's alone.
    steps = ",".join(f"{chosen.each:g}s@{n}x{chosen.share:g}" for n in range(1, chosen.sizes + 1))
    policy = {"name": "schedule", "options": {"steps": steps, "every_seconds": "2s"}}
    whole = chosen.each * (chosen.sizes + 1)
    # With more than they can do there is always a backlog, and a guard would keep executors from being taken away.
    watched = run(settings(chosen, load, policy, guards="none"), folder / "sizes", whole)
    found: dict[Allocation, float] = {}
    for executors in range(1, chosen.sizes + 1):
        allocation = Allocation(executors, chosen.share)
        # The first batch of new executors compiles their code.
        rates = [rows / seconds for rows, seconds, had, _ in watched.batches if had == allocation][1:]
        if rates:
            found[allocation] = median(rates)
    if len(found) < chosen.sizes:
        missing = [str(n) for n in range(1, chosen.sizes + 1) if Allocation(n, chosen.share) not in found]
        raise SystemExit(f"no full batch with {', '.join(missing)} executors: raise --each, or lower --rows")
    return found


def arrivals(most: float, chosen: argparse.Namespace) -> Times:
    """A lead-in at the lowest rate, and then a day: low at night, a rise in the morning, two peaks."""
    seconds, step = 60.0 * chosen.minutes, 0.5
    at = np.arange(0.0, seconds, step)
    day = 0.5 - 0.4 * np.cos(2 * np.pi * at / seconds) - 0.1 * np.cos(6 * np.pi * at / seconds)
    rates = most * (_TROUGH + (_PEAK - _TROUGH) * day / day.max())
    rates = np.concatenate([np.full(int(chosen.lead_in / step), rates[0]), rates])
    rng = np.random.default_rng(7)
    counts = rng.poisson(rates * step)
    return np.sort(np.repeat(step * np.arange(len(rates)), counts) + step * rng.random(int(counts.sum())))


def day_settings(
    folder: Path, times: Times, sustained: dict[Allocation, float], chosen: argparse.Namespace
) -> RunSettings:
    """The run under the elastic policy."""
    trace, samples = folder / "arrivals.npy", folder / "samples.csv"
    np.save(trace, times)
    with samples.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["executors", "cpu_share", "throughput"])
        writer.writerows([a.executors, a.cpu_share, rate] for a, rate in sustained.items())
    options: dict[str, Any] = {"catch_up": f"{chosen.catch_up:g}s"}
    if not chosen.cold:
        options["samples"] = str(samples)
    load = {"trace": str(trace), "options": {"payload": "log", "partitions": 2 * chosen.sizes, "seed": 1}}
    guards = {"drain": f"{0.5 * chosen.catch_up:g}s"}
    return settings(chosen, load, {"name": "elastic", "options": options}, guards=guards)


# --- what came of it -----------------------------------------------------------------------------------------------


def finish(watched: Watched, times: Times, sustained: dict[Allocation, float], chosen: argparse.Namespace) -> int:
    """Compare the day with hindsight, print and draw; the code is 1 where the bar is missed."""
    looks = [look for look in watched.looks if look.records_arrived is not None]
    first = next(look for look in looks if look.records_arrived)
    assert first.records_arrived is not None
    zero = first.at - float(times[min(first.records_arrived, len(times)) - 1])
    begins = zero + chosen.lead_in
    ends = next((look.at for look in looks if (look.records_done or 0) >= len(times)), looks[-1].at)
    day = [look for look in looks if begins <= look.at <= ends]
    schedule = cheapest_schedule(
        times[times >= chosen.lead_in] - chosen.lead_in, sustained, oldest_seconds=chosen.catch_up
    )
    used = sum(
        (after.at - before.at) * (0 if before.cluster.observed is None else before.cluster.observed.executors)
        for before, after in pairwise(day)
    )
    oldest = max((look.latency.max_seconds for look in day if look.latency is not None), default=math.nan)
    best = schedule.executor_seconds / chosen.share
    result = {
        "throughput": {a.executors: rate for a, rate in sustained.items()},
        "records": len(times),
        "day_seconds": day[-1].at - day[0].at,
        "executor_seconds": used,
        "hindsight_executor_seconds": best,
        "more_than_hindsight": used / best - 1.0,
        "bar": BAR,
        "oldest_record_seconds": oldest,
        "catch_up_seconds": chosen.catch_up,
        "changes": sum(change.at >= begins for change in watched.changes),
        "warm_start": not chosen.cold,
        "is_met": used / best - 1.0 <= BAR and oldest <= chosen.catch_up,
    }
    print(
        f"{used:,.0f} executor seconds, {result['more_than_hindsight']:+.1%} of the cheapest schedule's {best:,.0f} "
        f"(bar {BAR:+.0%}); oldest record {oldest:.1f} s (bar {chosen.catch_up:g} s); {result['changes']} changes: "
        f"{'met' if result['is_met'] else 'MISSED'}"
    )
    if chosen.plot is not None:
        draw(chosen.plot, day, begins, schedule, sustained)
    if chosen.json:
        print(json.dumps(result))
    return 0 if result["is_met"] else 1


def draw(
    path: Path, day: list[Observation], zero: float, schedule: HindsightSchedule, sustained: dict[Allocation, float]
) -> None:
    """Arrivals and throughput, executors beside those of hindsight, and the age of records."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    at = [look.at - zero for look in day]
    figure, (load, size, age) = plt.subplots(3, 1, figsize=(9, 8), sharex=True, layout="constrained")
    load.plot(at, [look.arrival_rate_rows_per_second or math.nan for look in day], label="arrivals")
    has = [0.0 if look.cluster.observed is None else sustained.get(look.cluster.observed, math.nan) for look in day]
    load.plot(at, has, drawstyle="steps-post", label="what the executors sustain")
    load.set_ylabel("records a second")
    size.plot(
        at, [0 if look.cluster.observed is None else look.cluster.observed.executors for look in day],
        drawstyle="steps-post", label="elastic",
    )  # fmt: skip
    steps = [schedule.step_seconds * n for n in range(len(schedule.allocations))]
    size.plot(
        steps, [a.executors for a in schedule.allocations],
        drawstyle="steps-post", linestyle="--", label="cheapest in hindsight",
    )  # fmt: skip
    size.set_ylabel("executors")
    ages = [math.nan if look.latency is None else look.latency.max_seconds for look in day]
    age.plot(at, ages, label="oldest record")
    age.set_ylabel("seconds")
    age.set_xlabel("seconds since the day began")
    for panel in (load, size, age):
        panel.legend(loc="upper left")
        panel.grid(alpha=0.3)
        panel.set_ylim(bottom=0)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
