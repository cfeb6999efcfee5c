# SPDX-License-Identifier: Apache-2.0
"""Loads, looks and simulated queries for tests of the elastic policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.evaluation.simulation_result import SimulationResult
from penstock.loop import CycleReport
from penstock.plan.guards import guards_as_set
from penstock.ports import FloatArray, Look
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    Limits,
    Objective,
    Observation,
    Quality,
    Telemetry,
)
from penstock.settings import GuardSettings
from penstock.simulator import MicroBatch, Operator, Pipeline

PER_RECORD, FIXED, BATCH = 0.006, 0.6, 24.0
SUSTAINED = {Allocation(n): (1.0 - FIXED / BATCH) * n / PER_RECORD for n in range(1, 9)}
"""What each size of the simulated query does in batches of 24 s."""
CATCH_UP = 60.0


def simulated_query(**changes: Any) -> Operator:
    """A query on one to eight executors that come after 8 s; policies have to learn what a record costs."""
    server = MicroBatch(fixed=0.3, driver=0.3, per_record=PER_RECORD, fixed_scv=0.05, per_record_scv=1.0)
    fields: dict[str, Any] = {"limits": Limits(1, 8), "start_up_seconds": 8.0, "demand_is_known": False}
    return Operator("query", server, **{**fields, **changes})


def arrivals(rate: Callable[[FloatArray], FloatArray], seconds: float = 600.0) -> FloatArray:
    """Poisson arrivals whose rate follows a function of time."""
    rng, step = np.random.default_rng(1), 0.5
    at = np.arange(0.0, seconds, step)
    counts = rng.poisson(rate(at) * step)
    return np.sort(np.repeat(at, counts) + step * rng.random(int(counts.sum())))


def day(at: FloatArray) -> FloatArray:
    """A day in ten minutes: from 125 to 875 records a second and back."""
    return 500.0 * (1.0 - 0.75 * np.cos(2.0 * np.pi * at / 600.0))


def run_policy(
    times: FloatArray, name: str = "elastic", operator: Operator | None = None, **options: Any
) -> tuple[SimulationResult, list[Decision]]:
    """A policy with the guards of a real run; the result and every decision."""
    decisions: list[Decision] = []

    def keep(report: CycleReport) -> None:
        if report.decision is not None:
            decisions.append(report.decision)

    pipeline = Pipeline.of_one(operator or simulated_query())
    guards = guards_as_set(GuardSettings())
    result = simulate(times, pipeline, PolicyChoice(name, options), Objective(), seed=3, guards=guards, on_report=keep)
    return result, decisions


def a_look(
    at: float,
    has: Allocation,
    *batches: tuple[int, float],
    requested: Allocation | None = None,
    **seen: Any,
) -> Look:
    """A look at which some batches, each of rows and seconds, have just ended one after the other."""
    ends, made = at, list[BatchProgress]()
    for number, (rows, seconds) in enumerate(reversed(batches)):
        made.append(
            BatchProgress("operator", "query", "run", 1000 - number, ends - seconds, ends, rows, {}, ())
        )  # fmt: skip
        ends -= seconds
    fields: dict[str, Any] = {"arrival_rate_rows_per_second": 100.0, "backlog_records": 0, **seen}
    cluster = ClusterState(requested or has, requested or has, has)
    observation = Observation("operator", at, 15.0, Quality.GOOD, cluster, **fields)
    return Look(Telemetry("operator", at, tuple(reversed(made))), observation)
