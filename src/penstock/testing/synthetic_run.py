# SPDX-License-Identifier: Apache-2.0
"""A run's worth of records without a cluster: a fluid queue under a periodic load, steered by a real policy.

For tests and drafts of views, pages and stores. It is not a model of Spark and is graded against nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

from penstock.loop.cycle import CycleReport
from penstock.plan.guards import apply_guards, default_guards
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import KnowledgeStore
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
    PlanRequest,
    Quality,
    StageTime,
)

START = 1_700_000_000.0
_ROWS_PER_CAPACITY = 2500.0


def synthetic_reports(
    seconds: int = 240, *, operator: str = "log-analysis", objective: Objective | None = None, warm_up: int = 15
) -> Iterator[CycleReport]:
    """The reports of a run, one a second: warming up, then a peak, a lost metric, and calm again."""
    objective = objective or Objective("p95", 3.0)
    limits = Limits(1, 2, (0.4, 0.55, 0.7, 0.85, 1.0))
    policy, guards = ThresholdPolicy(every_seconds=5.0), default_guards()
    current, waiting, arrived = Allocation(1, 0.4), 0.0, 0.0
    recent: list[Decision] = []
    under_way: Action | None = None
    for second in range(seconds):
        now = START + second
        rate = 600.0 + 3400.0 * max(0.0, math.sin(2 * math.pi * (second - 30) / 180)) ** 2
        capacity = current.capacity * _ROWS_PER_CAPACITY
        arrived += rate
        done_now = min(waiting + rate, capacity)
        waiting += rate - done_now
        delay = 0.6 + 0.25 * math.sin(second / 3) ** 2 + waiting / capacity
        is_warm, is_lost = second >= warm_up, 150 <= second < 162
        observation = Observation(
            operator=operator, at=now, window_seconds=15.0,
            quality=Quality.WARMING_UP if not is_warm else Quality.INCOMPLETE if is_lost else Quality.GOOD,
            cluster=ClusterState(current, current, current if second > 3 else None),
            arrival_rate_rows_per_second=rate,
            processed_rows_per_second=done_now if second > 2 else None,
            backlog_records=round(waiting + 0.6 * rate),
            utilisation=None if is_lost or second < 5 else min(1.0, 0.12 + 0.85 * done_now / capacity),
            batch_seconds=0.6 + done_now / 9000,
            latency=None if second < 3 else LatencySummary(
                round(done_now), delay, 0.9 * delay, 1.5 * delay, 1.8 * delay, 2.0 * delay
            ),
            records_arrived=round(arrived), records_done=round(arrived - waiting), last_batch_id=second,
            missing=("utilisation: the CPU counters could not be read",) if is_lost else (),
        )  # fmt: skip
        report = CycleReport(observation)
        if under_way is not None:
            status = OutcomeStatus.DONE if second != 95 else OutcomeStatus.FAILED
            detail = "" if status is OutcomeStatus.DONE else "the executor did not come"
            report.outcomes.append(Outcome(under_way.request_id, operator, now, status, under_way.target, 1.0, detail))
            under_way = None
        if second % 5 == 0:
            request = PlanRequest(operator, now, observation, current, limits, objective, tuple(recent))
            report.decision = apply_guards(policy.plan(request), request, guards)
            if report.decision.is_change:
                recent = [*recent[-20:], report.decision]
                current = report.decision.target
                under_way = report.action = Action(operator, now, current, report.decision.decision_id)
        report.stage_times = [
            StageTime(now, stage, base * (1 + 0.5 * math.sin(second) ** 2))
            for stage, base in (("collect", 0.011), ("observe", 2e-4), ("plan", 8e-5), ("act", 1e-3))
        ]
        yield report


def synthetic_settings(*operators: str) -> dict[str, object]:
    """The settings such a run would have had."""
    return {
        "name": "synthetic",
        "objective": {"p95": 3.0},
        "mode": "act",
        "policy": {"name": "threshold", "options": {"every_seconds": "5s"}},
        "arrivals": {"shape": "periodic:base=600,peak=4000,period=180s,width=90s,duration=4m"},
        "operators": [
            {"name": name, "app": "penstock.apps.log_analysis:log_analysis", "executors": [1, 2],
             "cpu_shares": [0.4, 0.55, 0.7, 0.85, 1.0]}
            for name in operators
        ],
    }  # fmt: skip


def fill_store(store: KnowledgeStore, *operators: str, seconds: int = 240) -> None:
    """Put a run of the given operators into a store, as the loop would have done."""
    store.set_fact("settings", json.dumps(synthetic_settings(*operators)))
    for operator in operators:
        for report in synthetic_reports(seconds, operator=operator):
            store.add_observation(report.observation)
            if report.decision is not None:
                store.add_decision(report.decision)
            if report.action is not None:
                store.add_action(report.action)
            for outcome in report.outcomes:
                store.add_outcome(outcome)
            store.add_stage_times(report.stage_times)
