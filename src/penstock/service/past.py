# SPDX-License-Identifier: Apache-2.0
"""Reads the past of a pipeline out of its store: pages of decisions and of the audit, and series for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.metrics import Metric
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Mode, Outcome
from penstock.service.desk import PipelineDesk
from penstock.service.series import Buckets
from penstock.service.views import Plain, audit_view, decision_view, size_view

_MOST_RECORDS = 100_000
"""How many observations are thinned out for one answer."""
_MOST_PREDICTIONS = 20_000
_MOST_CHANGES = 500
_MOST_ACTIONS = 10_000


def decisions_page(
    desk: PipelineDesk, operator: str | None, *, before: float = math.inf, limit: int = 100, changes_only: bool = False
) -> Plain:
    """Some decisions, newest first, each with what became of it."""
    since = desk.facts.started_at or 0.0
    found = desk.history.decisions(operator, since=since, before=before, limit=limit, changes_only=changes_only)
    outcomes = outcomes_of(desk.history, found)
    return {
        "pipeline": desk.facts.name,
        "decisions": [decision_view(d, outcomes.get(d.decision_id)) for d in reversed(found)],
        "next_before": found[0].at if len(found) == limit else None,
    }


def audit_page(desk: PipelineDesk, operator: str | None, *, before: float = math.inf, limit: int = 100) -> Plain:
    """Some entries of the audit, newest first."""
    since = desk.facts.started_at or 0.0
    found = desk.history.audit(operator, since=since, before=before, limit=limit)
    return {
        "pipeline": desk.facts.name,
        "entries": [audit_view(entry) for entry in reversed(found)],
        "next_before": found[0].at if len(found) == limit else None,
    }


def outcomes_of(store: KnowledgeStore, decisions: Sequence[Decision]) -> dict[str, Outcome]:
    """The last word on each decision that was carried out, by its id."""
    changes = [d for d in decisions if d.is_change and d.mode is Mode.ACT]
    if not changes:
        return {}
    since = min(d.at for d in changes)
    wanted = {d.decision_id for d in changes}
    asked = {
        action.request_id: action.decision_id
        for action in store.actions(since=since, limit=_MOST_ACTIONS)
        if action.decision_id in wanted
    }
    return {
        str(asked[outcome.request_id]): outcome
        for outcome in store.outcomes(since=since, limit=_MOST_ACTIONS)
        if outcome.request_id in asked
    }


def series_view(desk: PipelineDesk, operator: str, metrics: Sequence[Metric], buckets: Buckets) -> Plain:
    """Some metrics over a time, thinned out, with what decisions predicted for them."""
    store = desk.history
    seen = store.observations(operator, since=buckets.start, before=buckets.end, limit=_MOST_RECORDS)
    decided = store.decisions(operator, since=buckets.start, before=buckets.end, limit=_MOST_PREDICTIONS)
    changes = [d for d in decided if d.is_change][-_MOST_CHANGES:]
    return {
        "pipeline": desk.facts.name,
        "operator": operator,
        "from_at": buckets.start,
        "to_at": buckets.end,
        "bucket_seconds": buckets.seconds,
        "bucket_at": buckets.starts(),
        "is_cut": len(seen) == _MOST_RECORDS or len(decided) == _MOST_PREDICTIONS,
        "series": [
            {
                "metric": metric.name,
                "unit": metric.unit,
                **buckets.thinned((one.at, metric.read(one)) for one in seen).plain(),
                "predicted": _predicted(desk, metric.name, decided, buckets),
            }
            for metric in metrics
        ],
        "decisions": [
            {
                "decision_id": d.decision_id,
                "at": d.at,
                "verb": d.verb,
                "target": size_view(d.target),
                "is_recommended_only": d.mode is Mode.RECOMMEND,
            }
            for d in changes
        ],
    }


def _predicted(
    desk: PipelineDesk, metric: str, decided: Sequence[Decision], buckets: Buckets
) -> dict[str, list[float | None]] | None:
    thinned = buckets.thinned((d.at, _prediction(desk, metric, d)) for d in decided)
    return None if thinned.is_empty else thinned.plain()


def _prediction(desk: PipelineDesk, metric: str, decision: Decision) -> float | None:
    """What a decision expected of a metric; None: nothing, or infinity."""
    if metric == "arrival_rate":
        return None if decision.workload is None else decision.workload.arrivals_per_second
    prediction = decision.prediction
    if prediction is None:
        return None
    objective = desk.facts.paths.get(prediction.path)
    if objective is None or objective.statistic is None:
        return None
    names = [f"path_latency_{objective.statistic}"]
    if prediction.path == (decision.operator,):
        names.append(f"latency_{objective.statistic}")
    return prediction.seconds if metric in names else None


def original_size(store: KnowledgeStore, operator: str, since: float) -> Allocation | None:
    """What an operator had before the first change that is remembered; None: nothing was changed."""
    changes = store.decisions(operator, since=since, limit=_MOST_RECORDS, changes_only=True)
    first = next((d for d in changes if d.mode is Mode.ACT), None)
    return None if first is None else first.current
