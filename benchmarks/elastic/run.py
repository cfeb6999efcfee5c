# SPDX-License-Identifier: Apache-2.0
"""The elastic policy in the simulator, against the cheapest schedule in hindsight and `threshold`.

Two queries in micro-batches of known throughput, under loads of ten minutes. The loads of the first query are like
those that the policy's constants were set with; the second query and its loads were made for judging alone. Every
policy starts cold and at the top. Given are executor seconds beyond the cheapest schedule that had known arrivals and
throughputs (`penstock.evaluation.hindsight`), and the age of the oldest record. The bar: no record older than the
catch-up time, and below `threshold` in executor seconds, on every load; exit code 1 where it is missed.

Run: ``python benchmarks/elastic/run.py`` (about a minute of CPU).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock.evaluation.hindsight import cheapest_schedule
from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.plan.guards import guards_as_set
from penstock.policies.elastic.options import elastic_options
from penstock.policies.elastic.samples import throughput_of_batches
from penstock.ports import FloatArray
from penstock.records import Allocation, Limits, Objective
from penstock.settings import GuardSettings
from penstock.simulator import MicroBatch, Operator, Pipeline

CATCH_UP = 60.0
SECONDS = 600.0
BATCH = elastic_options(catch_up=CATCH_UP).batch_of(None)
"""The longest batches that count as sustained, by the policy's default."""
Rate = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class World:
    """A query and the loads that it is judged under, each a rate over time."""

    name: str
    server: MicroBatch
    most: int
    start_up: float
    seed: int
    loads: Mapping[str, Rate]
    policies: Mapping[str, PolicyChoice]

    @property
    def limits(self) -> Limits:
        """What the query may have."""
        return Limits(1, self.most, (1.0,))

    @property
    def sustained(self) -> dict[Allocation, float]:
        """What each size sustains, by the query's own costs."""
        fixed = self.server.fixed + self.server.driver
        each = self.server.per_record
        return {Allocation(n): throughput_of_batches(fixed, each / n, BATCH, None) for n in range(1, self.most + 1)}


@dataclass(frozen=True)
class Row:
    """One policy under one load."""

    world: str
    load: str
    policy: str
    beyond_hindsight: float
    oldest_seconds: float
    changes: int


def _day(base: float, peak: float) -> Rate:
    def rate(at: FloatArray) -> FloatArray:
        found: FloatArray = base + (peak - base) * np.sin(np.pi * at / SECONDS) ** 2
        return found

    return rate


def _walk(low: float, high: float) -> Rate:
    def rate(at: FloatArray) -> FloatArray:
        steps = np.random.default_rng(3).normal(size=61).cumsum()
        scaled = low + (high - low) * (steps - steps.min()) / (steps.max() - steps.min())
        found: FloatArray = np.interp(at, np.linspace(0.0, SECONDS, 61), scaled)
        return found

    return rate


THRESHOLD, ELASTIC = PolicyChoice("threshold"), PolicyChoice("elastic")
WORLDS = (
    World(
        "looked at",
        MicroBatch(0.3, 0.006, driver=0.3, fixed_scv=0.05, per_record_scv=1.0),  # one executor sustains 157 a second
        8,
        8.0,
        1,
        {
            "a day in ten minutes": _day(125.0, 875.0),
            "a day with two peaks": lambda at: 125.0 + 750.0 * np.sin(2.0 * np.pi * at / SECONDS) ** 2,
            "a steady rise": lambda at: 60.0 + 1.4 * at,
            "even, three executors' worth": lambda at: np.full_like(at, 430.0),
            "even, just above two executors' worth": lambda at: np.full_like(at, 325.0),
            "12 s at 4.5 times the rate every minute": lambda at: np.where(at % 60.0 < 12.0, 675.0, 150.0),
            "five times the rate, every other 150 s": lambda at: np.where(at % 300.0 < 150.0, 140.0, 700.0),
        },
        {"threshold": THRESHOLD, "elastic": ELASTIC, "elastic:patience=0": PolicyChoice("elastic", {"patience": 0.0})},
    ),
    World(
        "not looked at",
        MicroBatch(0.5, 0.025, driver=0.3, fixed_scv=0.1, per_record_scv=1.0),
        6,
        15.0,
        7,
        {
            "a random walk": _walk(30.0, 180.0),
            "three slow rises, each with a fall at once": lambda at: 30.0 + 130.0 * (at % 200.0) / 200.0,
            "2.5 times the rate for 220 s": lambda at: np.where((at > 200.0) & (at < 420.0), 150.0, 60.0),
            "a day in ten minutes": _day(25.0, 180.0),
        },
        {
            "threshold": THRESHOLD,
            "threshold:upper=0.9,lower=0.7": PolicyChoice("threshold", {"upper": 0.9, "lower": 0.7}),
            "elastic": ELASTIC,
        },
    ),
)


def arrivals(rate: Rate, seed: int) -> FloatArray:
    """Poisson arrivals of this rate, by thinning (Lewis and Shedler 1979)."""
    rng = np.random.default_rng(seed)
    highest = float(np.max(rate(np.linspace(0.0, SECONDS, 6001))))
    times = np.cumsum(rng.exponential(1.0 / highest, int(1.2 * highest * SECONDS) + 1000))
    times = times[times < SECONDS]
    kept: FloatArray = times[rng.random(times.size) * highest < rate(times)]
    return kept


def rows_of(world: World) -> list[Row]:
    """Every policy under every load of a world."""
    found = []
    operator = Operator(
        "query", world.server, limits=world.limits, start_up_seconds=world.start_up, demand_is_known=False
    )
    for load, rate in world.loads.items():
        times = arrivals(rate, world.seed)
        best = cheapest_schedule(times, world.sustained, oldest_seconds=CATCH_UP)
        for name, policy in world.policies.items():
            result = simulate(
                times, Pipeline.of_one(operator), policy, Objective(catch_up_seconds=CATCH_UP), world.seed,
                guards=guards_as_set(GuardSettings()),
            )  # fmt: skip
            assert result.latency is not None
            beyond = result.capacity_seconds / best.executor_seconds - 1.0
            found.append(Row(world.name, load, name, beyond, result.latency.max_seconds, len(result.changes)))
            print(f"  {load}, {name}: {beyond:+.0%}, {result.latency.max_seconds:.0f} s", file=sys.stderr)
    return found


def table(world: World, rows: list[Row]) -> str:
    """The rows as Markdown, a line for each load."""
    lines = ["| Load | " + " | ".join(f"`{name}`" for name in world.policies) + " |"]
    lines.append("|---" * (len(world.policies) + 1) + "|")
    for load in world.loads:
        cells = [row for row in rows if row.load == load]
        shown = [f"{row.beyond_hindsight:+.0%}, {_age(row.oldest_seconds)}".replace("%", " %") for row in cells]
        lines.append(f"| {load} | " + " | ".join(shown) + " |")
    return "\n".join(lines)


def _age(seconds: float) -> str:
    return f"**{seconds:.0f} s**" if seconds > CATCH_UP else f"{seconds:.0f} s"


def main() -> int:
    """Simulate, print the tables, and fail where the bar is missed."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--json", action="store_true", help="one JSON object a row")
    chosen = arguments.parse_args()
    missed: list[str] = []
    documents: list[dict[str, Any]] = []
    for world in WORLDS:
        rows = rows_of(world)
        documents += [vars(row) for row in rows]
        if not chosen.json:
            print(f"\n{world.name}\n\n{table(world, rows)}")
        for load in world.loads:
            of_load = {row.policy: row for row in rows if row.load == load}
            ours, theirs = of_load["elastic"], of_load["threshold"]
            if ours.oldest_seconds > CATCH_UP:
                missed.append(f"{load}: a record was {ours.oldest_seconds:.0f} s old")
            if ours.beyond_hindsight >= theirs.beyond_hindsight:
                missed.append(f"{load}: not below threshold")
    if chosen.json:
        print("\n".join(json.dumps(document) for document in documents))
    for line in missed:
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
