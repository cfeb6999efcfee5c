# SPDX-License-Identifier: Apache-2.0
"""Records as the API shows them: plain data, with units in names and nothing that JSON lacks."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from penstock.metrics import METRICS, own_values
from penstock.money import Cost
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    Limits,
    Mode,
    Objective,
    Observation,
    Outcome,
    Prediction,
    encode,
)
from penstock.secrets import shown
from penstock.steering import AuditEntry, HeldSize, OperatorSteering, Order, PolicyChoice, SteeringState

Plain = dict[str, Any]


def size_view(size: Allocation | None) -> Plain | None:
    """An allocation; None where it is not known."""
    if size is None:
        return None
    made_of = size.size
    return {
        "executors": size.executors,
        "cpu_share": size.cpu_share,
        "executor_size": None
        if made_of is None
        else {"cores": made_of.cores, "memory": made_of.memory, "shuffle_partitions": made_of.shuffle_partitions},
        "nodes": [{"node": node, "executors": count} for node, count in size.nodes],
        "capacity": size.capacity,
        "text": str(size),
    }


def cluster_view(cluster: ClusterState | None) -> Plain:
    """What is planned, was asked for, and is there."""
    known = cluster or ClusterState()
    return {
        "planned": size_view(known.planned),
        "requested": size_view(known.requested),
        "observed": size_view(known.observed),
    }


def limits_view(limits: Limits) -> Plain:
    """What an operator may have."""
    return {
        "min_executors": limits.min_executors,
        "max_executors": limits.room,
        "cpu_shares": list(limits.cpu_shares),
        "executor_sizes": [
            {"cores": size.cores, "memory": size.memory, "shuffle_partitions": size.shuffle_partitions}
            for size in limits.sizes
        ],
        "nodes": list(limits.nodes),
        "executors_per_node": limits.executors_per_node,
    }


def objective_view(objective: Objective) -> Plain:
    """What is wanted."""
    keeps_up = objective.statistic is None
    return {
        "statistic": objective.statistic,
        "bound_seconds": objective.seconds,
        "catch_up_seconds": objective.catch_up_seconds if keeps_up else None,
        "text": str(objective),
    }


def cost_view(cost: Cost | None) -> Plain | None:
    """What something cost, and what the top allocation would have; None: no price is known."""
    return None if cost is None else {**cost.to_json(), "text": str(cost)}


def order_view(order: Order | None) -> Plain | None:
    """Who ordered something, when and why."""
    return None if order is None else {"by": order.by, "at": order.at, "reason": order.reason}


def steering_view(steering: OperatorSteering) -> Plain:
    """The orders for one operator."""
    return {
        "paused": order_view(steering.paused),
        "mode": str(steering.mode),
        "mode_order": order_view(steering.mode_order),
        "held_size": _held_view(steering.held),
        "is_steered": steering.is_steered,
    }


def _held_view(held: HeldSize | None) -> Plain | None:
    if held is None:
        return None
    return {"size": size_view(held.size), "until": held.until, "order": order_view(held.order)}


def state_view(state: SteeringState) -> Plain:
    """The orders for all operators, by their names."""
    return {name: steering_view(steering) for name, steering in state.operators.items()}


def policy_view(choice: PolicyChoice | None) -> Plain | None:
    """A policy with its options."""
    if choice is None:
        return None
    return {
        "name": choice.name,
        "options": finite(shown("options", dict(choice.options))),
        "rules": choice.rules,
        "summary": _summary(choice.name),
        "is_object": choice.is_object,
    }


def _summary(name: str) -> str | None:
    from penstock.policies import policy_entries

    entry = policy_entries().get(name)
    return None if entry is None else entry.summary


def audit_view(entry: AuditEntry) -> Plain:
    """An entry of the audit."""
    return {
        "audit_id": entry.audit_id,
        "at": entry.at,
        "by": entry.by,
        "action": str(entry.action),
        "operator": entry.operator,
        "reason": entry.reason,
        "before": finite(shown("before", entry.before)),
        "after": finite(shown("after", entry.after)),
        "text": entry.text,
    }


def outcome_view(outcome: Outcome | None) -> Plain | None:
    """What became of a decision; None: that is not known."""
    if outcome is None:
        return None
    return {
        "status": str(outcome.status),
        "at": outcome.at,
        "after_seconds": outcome.after_seconds,
        "observed": size_view(outcome.observed),
        "detail": outcome.detail,
    }


def decision_view(decision: Decision, outcome: Outcome | None = None) -> Plain:
    """A decision with all that led to it."""
    workload = decision.workload
    return {
        "decision_id": decision.decision_id,
        "operator": decision.operator,
        "at": decision.at,
        "policy": decision.policy,
        "verb": decision.verb,
        "is_change": decision.is_change,
        "is_recommended_only": decision.mode is Mode.RECOMMEND,
        "current": size_view(decision.current),
        "target": size_view(decision.target),
        "reason": decision.reason,
        "explanation": decision.explain(),
        "evidence": finite(decision.evidence),
        "rejected": [{"size": size_view(one.allocation), "reason": one.reason} for one in decision.rejected],
        "amended_by": [
            {"guard": a.guard, "before": size_view(a.before), "after": size_view(a.after), "reason": a.reason}
            for a in decision.amended_by
        ],
        "workload": None
        if workload is None
        else {
            "arrivals_per_second": finite(workload.arrivals_per_second),
            "growth": finite(workload.growth),
            "is_exact": workload.is_exact,
        },
        "prediction": _prediction_view(decision.prediction),
        "outcome": outcome_view(outcome),
    }


def _prediction_view(prediction: Prediction | None) -> Plain | None:
    if prediction is None:
        return None
    return {
        "path": list(prediction.path),
        "seconds": finite(prediction.seconds),
        "low_seconds": finite(prediction.low_seconds),
        "high_seconds": finite(prediction.high_seconds),
        "confidence": prediction.confidence,
        "bound_seconds": finite(prediction.bound_seconds),
        "is_met": prediction.is_met,
    }


def metric_values(seen: Observation | None) -> dict[str, float | None]:
    """Every metric of the catalogue, None where it is not known; then those of the user's own that were measured."""
    known = {name: None if seen is None else finite(metric.read(seen)) for name, metric in METRICS.items()}
    return known if seen is None else {**known, **finite(own_values(seen))}


def finite(value: Any) -> Any:
    """Plain data in which numbers that JSON lacks are None."""
    if isinstance(value, Mapping):
        return {str(key): finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else json.loads(encode(value))
