# SPDX-License-Identifier: Apache-2.0
"""Policies tried on a recorded run, beside what happened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import ConfigurationError
from penstock.evaluation.backtest import AS_RECORDED, Backtest, backtest
from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.recorded_load import recorded_load
from penstock.evaluation.run_reading import read_history
from penstock.knowledge import MemoryStore
from penstock.loop.cycle import latency_fact
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    Outcome,
    OutcomeStatus,
    Quality,
    RunLatency,
    encode,
)

ONE, TWO = Allocation(1, 1.0), Allocation(2, 1.0)
BEGAN = 5000.0
LEARNT = {"fixed_seconds": 0.2, "fixed_cpu_seconds": 0.1, "per_record_seconds": 0.002}


def a_run(evidence: dict[str, float] | None = None, **operator: Any) -> MemoryStore:
    """Two executors for the first minute of a constant load, then one, and two again for the last half minute."""
    settings = {"name": "counter", "executors": [1, 2], "cpu_shares": [1.0], "trigger": None, **operator}
    store = MemoryStore()
    store.set_fact("settings", json.dumps({
        "name": "logs", "objective": {"p95": 1.0}, "operators": [settings],
        "arrivals": {"shape": "constant:rate=100,duration=120s"},
    }))  # fmt: skip
    down = Decision("counter", BEGAN + 60.0, "mead", TWO, ONE, "little to do", evidence or LEARNT)
    up = Decision("counter", BEGAN + 78.0, "mead", ONE, TWO, "much to do", evidence or LEARNT)
    for decision, after in ((down, 0.5), (up, 12.0)):
        store.add_decision(decision)
        asked = Action("counter", decision.at, decision.target, decision.decision_id)
        store.add_action(asked)
        status = OutcomeStatus.DONE
        store.add_outcome(Outcome(asked.request_id, "counter", decision.at + after, status, decision.target, after))
    for second in range(121):
        had = ONE if 60 <= second < 90 else TWO
        store.add_observation(
            Observation(
                "counter", BEGAN + second, 10.0, Quality.GOOD, ClusterState(had, had, had),
                records_arrived=100 * second + 1, latency=_latency(1.5 if 60 <= second < 66 else 0.3),
            )
        )  # fmt: skip
    kept = {"at": BEGAN + 120.0, "operator": json.loads(encode(RunLatency(whole=_latency(0.5)))), "path": None}
    store.set_fact(latency_fact("counter"), json.dumps(kept))
    return store


def _latency(p95: float) -> LatencySummary:
    return LatencySummary(1000, p95 / 2, p95 / 2, p95, p95, p95)


def tried(store: MemoryStore, *policies: tuple[str, PolicyChoice | None], **options: Any) -> Backtest:
    """The policies on what the store has recorded."""
    return backtest(read_history(store), recorded_load(store, "run"), policies, **options)


def test_the_runs_own_allocations_come_first_and_cost_what_they_cost() -> None:
    """The first row has one executor for half a minute out of two, as the run had, and the same cost as measured."""
    found = tried(a_run(), ("static", None))
    assert [one.policy for one in found.results] == [AS_RECORDED, "static"]
    recorded = found.results[0]
    assert [(round(at), had) for at, had in recorded.allocations["counter"]] == [(0, TWO), (60, ONE), (90, TWO)]
    # 1 of 2 executors in 30 s of 120
    assert found.measured.cost_against_static == pytest.approx(0.875, abs=0.005)
    assert recorded.cost_against_static == pytest.approx(0.875, abs=0.01)
    assert found.results[1].cost_against_static == pytest.approx(1.0)


def test_what_happened_is_read_from_the_store() -> None:
    """Latency, changes and the time above the bound are those of the run, and so is the time of a new executor."""
    found = tried(a_run(), ("static", None))
    assert found.measured.latency == _latency(0.5)
    assert found.measured.changes == 2
    assert found.measured.violation_time_share == pytest.approx(6 / 120)
    assert found.start_up_seconds == 12.0
    assert found.objective == Objective("p95", 1.0)


def test_another_objective_judges_what_happened_too() -> None:
    """All rows of the table are about one bound: what was measured never was above 2 s, and always above 0.25 s."""
    assert tried(a_run(), objective=Objective("p95", 2.0)).measured.violation_time_share == 0.0
    assert tried(a_run(), objective=Objective("p95", 0.25)).measured.violation_time_share == 1.0


def test_the_error_of_the_simulator_compares_the_same_allocations() -> None:
    """It is that of the objective's statistic in the first row against the measured one."""
    found = tried(a_run())
    simulated = found.results[0].paths[0].latency
    assert simulated is not None
    assert found.simulator_error == pytest.approx(simulated.p95_seconds / 0.5 - 1.0)


def test_policies_run_as_everywhere_and_within_the_limits() -> None:
    """A threshold gives back what is not needed; given limits take the place of the recorded ones."""
    choice = ("threshold", PolicyChoice("threshold"))
    found = tried(a_run(), choice, limits=Limits(1, 3, (1.0,)), objective=Objective("p95", 5.0))
    assert found.limits.max_executors == 3
    last = found.results[-1]
    assert last.changes
    assert {change.target.executors for change in last.changes} <= {1, 2, 3}
    assert last.paths[0].objective == Objective("p95", 5.0)


def test_an_objective_that_nothing_can_keep_is_found_broken() -> None:
    """A batch alone takes 200 ms: every policy is tried all the same, none meets 50 ms, and it is said why."""
    policies = [(name, None if name == "static" else PolicyChoice(name)) for name in ("static", "threshold", "mead")]
    found = tried(a_run(), *policies, objective=Objective("p95", 0.05))
    assert [one.policy for one in found.results] == [AS_RECORDED, "static", "threshold", "mead"]
    assert [one.is_met for one in found.results] == [False] * 4
    assert [one.violation_time_share for one in found.results] == [1.0] * 4
    assert str(found.why_impossible).startswith("p95 <= 50 ms is impossible on the path counter")
    assert tried(a_run()).why_impossible is None


def test_progress_rises_to_one() -> None:
    """Each policy takes its part of the whole."""
    seen: list[float] = []
    tried(a_run(), ("threshold", PolicyChoice("threshold")), progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_what_is_missing_is_named_with_its_remedy() -> None:
    """Without demand, or without limits, nothing is simulated."""
    with pytest.raises(ConfigurationError, match="not known from run"):
        tried(a_run({"nothing": 1.0}))
    with pytest.raises(ConfigurationError, match="--executors"):
        tried(a_run(executors=None))
