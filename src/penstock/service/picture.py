# SPDX-License-Identifier: Apache-2.0
"""A whole pipeline as plain data: what it is, what was last seen and decided, and what is ordered."""

from __future__ import annotations

from penstock.knowledge.run_notes import RunNote
from penstock.metrics import METRICS
from penstock.records import Objective, Observation
from penstock.service.bill import Bill
from penstock.service.desk import PipelineDesk
from penstock.service.facts import OperatorFacts
from penstock.service.views import (
    Plain,
    cluster_view,
    cost_view,
    decision_view,
    limits_view,
    metric_values,
    objective_view,
    policy_view,
    size_view,
    steering_view,
)
from penstock.service.why import why_now, why_of_all
from penstock.steering import SteeringState
from penstock.topology import Path

_MOST_NOTES = 50


def line_view(desk: PipelineDesk) -> Plain:
    """A pipeline in the list of all."""
    facts, state, progress = desk.facts, desk.state(), desk.progress()
    return {
        "name": facts.name,
        "is_live": desk.is_live,
        "is_followed": desk.is_followed,
        "can_steer": desk.can_steer,
        "mode": facts.mode,
        "started_at": progress.started_at,
        "ended_at": progress.ended_at,
        "operators": list(facts.names),
        "policy": state.policy.name,
        "is_steered": any(steering.is_steered for steering in state.operators.values()),
        "why": why_of_all({name: why_of(desk, name, state) for name in facts.names}),
    }


def pipeline_view(desk: PipelineDesk) -> Plain:
    """A pipeline with all of its operators."""
    facts, state, progress, now = desk.facts, desk.state(), desk.progress(), desk.now()
    notes, bill = desk.notes(), desk.bill()
    operators = [_operator_view(desk, operator, now, state, notes=notes, bill=bill) for operator in facts.operators]
    return {
        "at": now,
        "name": facts.name,
        "is_live": desk.is_live,
        "is_followed": desk.is_followed,
        "can_steer": desk.can_steer,
        "mode": facts.mode,
        "phase": progress.phase,
        "progress": progress.fraction,
        "started_at": progress.started_at,
        "ended_at": progress.ended_at,
        "interval_seconds": facts.interval_seconds,
        "window_seconds": facts.window_seconds,
        "why": why_of_all({operator["name"]: operator["why"] for operator in operators}),
        "policy": policy_view(state.policy),
        "previous_policy": policy_view(state.previous),
        "cost": cost_view(bill.whole()),
        "paths": [_path_view(path, objective, desk.seen(path[-1])) for path, objective in facts.paths.items()],
        "streams": [
            {"source": stream.source, "target": stream.target, "selectivity": stream.selectivity}
            for stream in facts.streams
        ],
        "operators": operators,
        "notes": [_note_view(note) for note in notes if note.operator not in facts.names][-_MOST_NOTES:],
    }


def why_of(desk: PipelineDesk, operator: str, state: SteeringState) -> str:
    """What happens to an operator now, in one sentence; `state` has the orders in force."""
    return why_now(
        desk.seen(operator),
        desk.decided(operator),
        state.of(operator),
        now=desk.now(),
        interval_seconds=desk.facts.interval_seconds,
        is_live=desk.is_live or desk.is_followed,
        trouble=desk.trouble(operator),
        failed=desk.failed(operator),
    )


def observation_view(desk: PipelineDesk, seen: Observation) -> Plain:
    """One look, as an event has it."""
    return {
        "pipeline": desk.facts.name,
        "operator": seen.operator,
        "at": seen.at,
        "quality": str(seen.quality),
        "missing": list(seen.missing),
        **cluster_view(seen.cluster),
        "metrics": metric_values(seen),
        "why": why_of(desk, seen.operator, desk.state()),
    }


def _operator_view(
    desk: PipelineDesk, operator: OperatorFacts, now: float, state: SteeringState, *, notes: list[RunNote], bill: Bill
) -> Plain:
    name, seen, decision = operator.name, desk.seen(operator.name), desk.decided(operator.name)
    age = None if seen is None else max(0.0, now - seen.at)
    values = metric_values(seen)
    return {
        "name": name,
        "application": operator.application,
        "limits": limits_view(operator.limits),
        "objective": objective_view(operator.objective),
        "is_meeting_objective": None if seen is None else operator.objective.is_met_by(seen.latency),
        "original": size_view(desk.original(name)),
        **cluster_view(None if seen is None else seen.cluster),
        "observed_at": None if seen is None else seen.at,
        "age_seconds": age,
        "quality": None if seen is None else str(seen.quality),
        "missing": [] if seen is None else list(seen.missing),
        "metrics": [
            {"name": name, "unit": METRICS[name].unit, "value": value, "age_seconds": age}
            for name, value in values.items()
        ],
        "cost": cost_view(bill.of(name)),
        "steering": steering_view(state.of(name)),
        "why": why_of(desk, name, state),
        "latest_decision": None if decision is None else decision_view(decision),
        "faults": [_note_view(note) for note in notes if note.operator == name][-_MOST_NOTES:],
    }


def _path_view(path: Path, objective: Objective, last: Observation | None) -> Plain:
    latency = None
    if last is not None:
        latency = last.latency if last.path_latency is None and len(path) == 1 else last.path_latency
    return {
        "operators": list(path),
        "objective": objective_view(objective),
        "latency_seconds": objective.measured(latency),
        "is_met": objective.is_met_by(latency),
    }


def _note_view(note: RunNote) -> Plain:
    return {
        "operator": note.operator,
        "at": note.at,
        "last_at": note.last_at,
        "count": note.count,
        "text": note.text,
    }
