# SPDX-License-Identifier: Apache-2.0
"""Reads the past of a pipeline out of its store: pages of decisions and of the audit, and series for plots."""

from __future__ import annotations

import math
from collections.abc import Sequence

from penstock.metrics import Metric
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Mode, Outcome
from penstock.service.columns import OperatorColumns
from penstock.service.desk import PipelineDesk
from penstock.service.series import Buckets
from penstock.service.views import Plain, audit_view, decision_view, size_view
from penstock.topology import Path

_MOST_RECORDS = 100_000
"""How many observations are thinned out for one answer."""
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
    columns = desk.columns.of(operator)
    return {
        "pipeline": desk.facts.name,
        "operator": operator,
        "from_at": buckets.start,
        "to_at": buckets.end,
        "bucket_seconds": buckets.seconds,
        "bucket_at": buckets.starts(),
        "is_cut": columns.is_cut(buckets.start),
        "series": [
            {
                "metric": metric.name,
                "unit": metric.unit,
                **buckets.thinned(*columns.measured(metric.name, buckets.start, buckets.end)).plain(),
                "predicted": _predicted(desk, operator, metric.name, columns, buckets),
            }
            for metric in metrics
        ],
        "decisions": [
            {
                "decision_id": one.decision_id,
                "at": one.at,
                "verb": one.verb,
                "target": size_view(one.target),
                "is_recommended_only": one.is_recommended_only,
            }
            for one in columns.changes(buckets.start, buckets.end, _MOST_CHANGES)
        ],
    }


def _predicted(
    desk: PipelineDesk, operator: str, metric: str, columns: OperatorColumns, buckets: Buckets
) -> dict[str, list[float | None]] | None:
    """What decisions expected of a metric; None: nothing."""
    what = "arrivals" if metric == "arrival_rate" else "latency"
    if what == "latency" and metric not in _predicted_latencies(desk, operator, columns.path()):
        return None
    thinned = buckets.thinned(*columns.expected(what, buckets.start, buckets.end))
    if thinned.is_empty:
        return None
    if what == "arrivals":
        return thinned.plain()
    low, high = (
        buckets.thinned(*columns.expected(end, buckets.start, buckets.end)) for end in ("latency_low", "latency_high")
    )
    return {**thinned.plain(), "min": low.plain()["min"], "max": high.plain()["max"]}


def _predicted_latencies(desk: PipelineDesk, operator: str, path: Path | None) -> tuple[str, ...]:
    """The metrics that predictions for a path are about."""
    objective = None if path is None else desk.facts.paths.get(path)
    if objective is None or objective.statistic is None:
        return ()
    of_path = f"path_latency_{objective.statistic}"
    return (of_path, f"latency_{objective.statistic}") if path == (operator,) else (of_path,)


def original_size(store: KnowledgeStore, operator: str, since: float) -> Allocation | None:
    """What an operator had before the first change that is remembered; None: nothing was changed."""
    changes = store.decisions(operator, since=since, limit=_MOST_RECORDS, changes_only=True)
    first = next((d for d in changes if d.mode is Mode.ACT), None)
    return None if first is None else first.current
