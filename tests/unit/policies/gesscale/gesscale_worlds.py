# SPDX-License-Identifier: Apache-2.0
"""Looks and requests for Gesscale's tests: operators whose batches are full, or not."""

from __future__ import annotations

from typing import Any

from penstock.latency_map import LatencyMap, NodeDistances
from penstock.ports import AnalysisPlace, Look, OperatorSite, PolicyContext, WatchingPolicy
from penstock.records import (
    Allocation,
    BatchProgress,
    ClusterState,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
    Telemetry,
)
from penstock.topology import Topology

CAP = 100
# a, b and c are near each other; d is far away.
APART = LatencyMap.of([("a", "b", 0.01), ("a", "c", 0.02), ("b", "c", 0.02), *((n, "d", 0.3) for n in "abc")])
LIMITS = Limits(1, 4, nodes=("a", "b", "c", "d"), executors_per_node=1)


def on(*nodes: str) -> Allocation:
    """One executor on each of these nodes."""
    return Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes))


def a_context(
    *operators: str,
    limits: Limits = LIMITS,
    round_trips: NodeDistances | None = APART,
    tasks: int | None = None,
    trigger: float | None = None,
    is_real_time: bool = False,
) -> PolicyContext:
    """Operators in a row, each with batches of at most `CAP` records in so many tasks; no cap in real-time mode."""
    names = operators or ("operator",)
    inputs = {name: [before] for before, name in zip(["arrivals", *names], names, strict=False)}
    topology, cap = Topology.from_inputs(inputs), None if is_real_time else CAP
    return PolicyContext(
        topology, {name: OperatorSite(limits, trigger, cap, is_real_time, tasks) for name in names},
        dict.fromkeys(topology.paths, Objective()), AnalysisPlace("here"), round_trips=round_trips,
    )  # fmt: skip


def seen(has: Allocation, at: float = 1000.0, operator: str = "operator", **fields: Any) -> Observation:
    """An operator that keeps up with 10 records a second, with `fields` instead of its own."""
    calm: dict[str, Any] = {
        "cluster": ClusterState(has, has, has), "arrival_rate_rows_per_second": 10.0,
        "processed_rows_per_second": 10.0, "backlog_records": 5, "busy_fraction": 0.3, "back_pressure": 0.05,
    }  # fmt: skip
    return Observation(operator, at, 60.0, Quality.GOOD, **calm | fields)


def a_request(has: Allocation, limits: Limits = LIMITS, at: float = 1000.0, **fields: Any) -> PlanRequest:
    """What a policy is asked about it."""
    operator = fields.pop("operator", "operator")
    history = fields.pop("history", ())
    return PlanRequest(operator, at, seen(has, at, operator, **fields), has, limits, Objective(), history=history)


def show_maximum(
    policy: WatchingPolicy,
    has: Allocation,
    rate: float,
    at: float = 0.0,
    operator: str = "operator",
    *,
    rows: int = CAP,
) -> None:
    """Let the policy see full batches of one allocation, a minute long, at so many records a second."""
    policy.watch(Look(Telemetry(operator, at), seen(has, at, operator)))
    seconds = rows / rate
    count = int(60.0 / seconds) + 1
    batches = tuple(
        BatchProgress(operator, "q", "r", i, at + i * seconds, at + (i + 1) * seconds, rows, {}, ())
        for i in range(count)
    )
    end = at + count * seconds
    policy.watch(
        Look(Telemetry(operator, end, batches), seen(has, end, operator, busy_fraction=1.0, back_pressure=0.9))
    )
