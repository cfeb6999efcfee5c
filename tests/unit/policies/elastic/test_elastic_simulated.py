# SPDX-License-Identifier: Apache-2.0
"""The elastic policy on simulated queries of known capacity, against threshold, hindsight and parts of itself."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from tests.unit.policies.elastic.elastic_worlds import (
    CATCH_UP,
    PER_RECORD,
    SUSTAINED,
    arrivals,
    day,
    run_policy,
    simulated_query,
)

from penstock.evaluation.hindsight import cheapest_schedule
from penstock.evaluation.simulation_result import SimulationResult
from penstock.ports import FloatArray
from penstock.records import Allocation, Decision, Limits


@cache
def of_the_day(name: str = "elastic", **options: Any) -> tuple[SimulationResult, list[Decision]]:
    """A policy under a day in ten minutes."""
    return run_policy(arrivals(day), name, **options)


def oldest(result: SimulationResult) -> float:
    """How old the oldest record became."""
    assert result.latency is not None
    return result.latency.max_seconds


def test_it_keeps_up_with_a_day_for_little_more_than_hindsight() -> None:
    """From a cold start at the top no record is older than the catch-up time, for 30 % more than the very best."""
    result, _ = of_the_day()
    best = cheapest_schedule(arrivals(day), SUSTAINED, oldest_seconds=CATCH_UP)
    assert oldest(result) < CATCH_UP
    assert best.executor_seconds <= result.capacity_seconds < 1.3 * best.executor_seconds


def test_it_takes_less_than_threshold() -> None:
    """Under the same load the threshold policy takes at least a quarter more."""
    assert of_the_day("threshold")[0].capacity_seconds > 1.25 * of_the_day()[0].capacity_seconds


def test_its_intervals_hold_what_is_true() -> None:
    """Of the sizes that it measured, nine in ten of its intervals have the true throughput in them, or nearly."""
    _, decisions = of_the_day()
    judged = [d for d in decisions if "measurements" in str(d.evidence.get("known_by"))]
    assert len(judged) > 20

    def holds(decision: Decision) -> bool:
        low, high = decision.evidence["sustained_low"], decision.evidence["sustained_high"]
        assert isinstance(low, float)
        assert isinstance(high, float)
        return 0.98 * low <= SUSTAINED[decision.target] <= 1.02 * high

    assert np.mean([holds(decision) for decision in judged]) > 0.85


def test_patience_saves_executors() -> None:
    """Without patience nobody waits, for more executors."""
    patient, hasty = of_the_day()[0], of_the_day(patience=0.0)[0]
    assert patient.capacity_seconds < 0.95 * hasty.capacity_seconds
    assert oldest(hasty) < oldest(patient)


def test_following_the_trend_keeps_records_younger() -> None:
    """While arrivals rise all the time, capacity comes before it is needed."""

    def rise(at: FloatArray) -> FloatArray:
        return 60.0 + 1.8 * at

    times = arrivals(rise, 300.0)
    ahead, behind = run_policy(times, patience=0.0)[0], run_policy(times, patience=0.0, follow_trend=False)[0]
    assert ahead.latency is not None
    assert behind.latency is not None
    assert ahead.latency.mean_seconds < behind.latency.mean_seconds


def test_it_never_breaks_the_objective_to_learn() -> None:
    """Under an even load that just fits three executors it finds them from eight, and no record gets old."""
    result, _ = run_policy(arrivals(lambda at: np.full_like(at, 430.0)))
    assert oldest(result) < CATCH_UP
    assert result.allocations["query"][-1][1].executors == 3
    assert 430.0 * PER_RECORD < 3.0


def test_a_declared_demand_needs_no_learning() -> None:
    """With the demand declared the first good look is enough."""
    result, decisions = run_policy(
        arrivals(lambda at: np.full_like(at, 430.0), 200.0), operator=simulated_query(demand_is_known=True)
    )
    first = next(d for d in decisions if d.is_change)
    assert first.at <= 30.0
    assert first.target.executors == 3
    assert oldest(result) < CATCH_UP


def test_shares_are_used_before_executors() -> None:
    """Where shares may be chosen they are steps between executors."""
    shares = simulated_query(limits=Limits(1, 4, (0.5, 0.75, 1.0)))
    result, _ = run_policy(arrivals(lambda at: np.full_like(at, 190.0), 300.0), operator=shares)
    assert any(step.cpu_share < 1.0 for _, step in result.allocations["query"])
    assert oldest(result) < CATCH_UP


def test_the_same_seed_gives_the_same_run() -> None:
    """Nothing in it is left to chance."""
    times = arrivals(day, 150.0)
    one, other = run_policy(times)[0], run_policy(times)[0]
    assert one.allocations == other.allocations
    assert one.allocations["query"][0][1] == Allocation(8)
