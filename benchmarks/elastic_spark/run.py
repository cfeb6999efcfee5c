# SPDX-License-Identifier: Apache-2.0
"""The elastic policy on a real Spark under a day's load in ten minutes, against the cheapest schedule in hindsight.

The log analysis runs twice as ``penstock run`` runs it, on an embedded cluster whose executors are held to a small CPU
share, so that one to five of them show a difference on two cores. First every size gets more than it can do, in turn:
what its full batches did is its throughput. A batch has at most so many records in both runs, so that this is what a
size sustains in the day as well. Then it goes up again in steps: what all executors could have done, and did not, until
the first batch that began with new ones has ended, is what these cost. Then records arrive with the shape of a day,
between a fifth and most of what the largest size sustains, and the policy decides. The bar: no record older than the
catch-up time, and at most 15 % more executor seconds than the cheapest schedule that had known arrivals, throughputs
and what a new executor costs (`penstock.evaluation.hindsight`). It knows how fast the machine was (`day_speed`).

A lead-in at the lowest rate comes before the day and is not measured, for a cold JVM is nobody's policy. The policy
starts with the measured throughputs (its option `samples`); with ``--cold`` it has to find everything itself.

Everything is kept in the folder: throughputs as soon as a size has them, every look and decision of the day
(knowledge.sqlite), the result and a picture. Another run in the same folder does not measure the sizes again.
Run: ``python benchmarks/elastic_spark/run.py`` (about 24 minutes).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a file: `benchmarks` is not installed

from benchmarks.elastic_spark.outcome import Day, Times, draw, outcome
from benchmarks.elastic_spark.pipeline import kept, run, settings, source_options
from benchmarks.elastic_spark.sizes import free_folder, measured

_PEAK, _TROUGH = 0.85, 0.2
"""The day's highest and lowest rate, as parts of what the largest size sustains."""


def main() -> int:
    """Measure, run, compare, print."""
    chosen = _arguments()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    print("what each size sustains:", file=sys.stderr)
    known = measured(chosen.folder, chosen)
    for size, rate in known.sustained.items():
        print(f"    {size}: {rate:,.0f} records/s", file=sys.stderr)
    print(f"    a new executor costs {known.start_seconds:.1f} executor seconds", file=sys.stderr)
    times = arrivals(max(known.sustained.values()), chosen)
    print("the day:", file=sys.stderr, flush=True)
    folder = chosen.judge or free_folder(chosen.folder, "day-cold" if chosen.cold else "day")
    if chosen.judge is None:
        folder.mkdir(mode=0o700)
        np.save(folder / "arrivals.npy", times)
        run(_day(folder / "arrivals.npy", known.samples, chosen), folder / "run")
    looks, changes = kept(folder / "run")
    day = Day.of(looks, np.load(folder / "arrivals.npy"), chosen.lead_in)
    found, schedule, speed = outcome(
        day, sum(at >= day.began_at for at in changes), times, known,
        lead_in=chosen.lead_in, catch_up=chosen.catch_up, cap=chosen.rows, is_warm=not chosen.cold,
    )  # fmt: skip
    (folder / "result.json").write_text(json.dumps(found.to_json(), indent=1) + "\n")
    draw(folder / "picture.png", day, schedule, found, speed)
    print(found)
    print(f"kept in {folder}", file=sys.stderr)
    if chosen.json:
        print(json.dumps(found.to_json()))
    return 0 if found.is_met else 1


def _arguments() -> argparse.Namespace:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--folder", type=Path, default=Path("build/elastic-spark"), help="gets everything")
    arguments.add_argument("--minutes", type=float, default=10.0, help="how long the day is")
    arguments.add_argument("--lead-in", type=float, default=120.0, help="seconds at the lowest rate before it")
    arguments.add_argument("--sizes", type=int, default=5, help="most executors")
    arguments.add_argument("--share", type=float, default=0.2, help="CPU share of each executor")
    arguments.add_argument("--each", type=float, default=45.0, help="seconds for which each size is measured at least")
    arguments.add_argument("--rows", type=int, default=48_000, help="most records of a batch")
    arguments.add_argument("--catch-up", type=float, default=60.0, help="how old a record may be, in seconds")
    arguments.add_argument("--cold", action="store_true", help="give the policy no samples")
    arguments.add_argument("--judge", type=Path, help="run nothing: judge the day in this folder again")
    arguments.add_argument("--json", action="store_true", help="one JSON object as the last line")
    return arguments.parse_args()


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


def _day(trace: Path, samples: Path, chosen: argparse.Namespace) -> Any:
    """The run under the elastic policy."""
    options: dict[str, Any] = {"catch_up": f"{chosen.catch_up:g}s"}
    if not chosen.cold:
        options["samples"] = str(samples.absolute())
    load = {"trace": str(trace.absolute()), "options": {**source_options(chosen), "seed": 1}}
    guards = {"drain": f"{0.5 * chosen.catch_up:g}s"}
    return settings(chosen, load, {"name": "elastic", "options": options}, guards)


if __name__ == "__main__":
    sys.exit(main())
