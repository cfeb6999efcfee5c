# SPDX-License-Identifier: Apache-2.0
"""The part of the API that only looks."""

from __future__ import annotations

import math
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from penstock.errors import ConfigurationError
from penstock.metrics import catalogue, metric_named
from penstock.service.access import Role
from penstock.service.asking import check_operator, desk_of, may_read, only_known_query, service_of
from penstock.service.past import audit_page, decisions_page, series_view
from penstock.service.picture import line_view, pipeline_view
from penstock.service.series import Buckets
from penstock.service.views import finite

_DEFAULT_SPAN_SECONDS = 900.0
_MOST_METRICS = 20
_DEFAULT_METRICS = "arrival_rate,processed_rate,latency_p95,executors,cpu_share"

router = APIRouter(prefix="/api/v1", tags=["read"], dependencies=[Depends(may_read), Depends(only_known_query)])

Limit = Annotated[int, Query(ge=1, le=500, description="how many")]
Before = Annotated[float | None, Query(allow_inf_nan=False, description="only what is older than this instant")]
Operator = Annotated[str | None, Query(max_length=200, description="of one operator; left out: of all")]


@router.get("/pipelines")
def pipelines(request: Request, role: Annotated[Role, Depends(may_read)]) -> dict[str, Any]:
    """Every pipeline, with one sentence about it."""
    service = service_of(request)
    desks = service.desks.values()
    for desk in desks:
        desk.refresh()
    at = max((desk.now() for desk in desks), default=time.time())
    leadership = None if service.master is None else service.master.leadership
    return {"at": at, "role": str(role), "has_agents": leadership is not None,
            "is_leading": None if leadership is None else leadership.is_leading,
            "trouble": None if leadership is None else leadership.trouble,
            "other_page": service.other_page, "pipelines": [line_view(desk) for desk in desks]}  # fmt: skip


@router.get("/pipelines/{name}")
def pipeline(request: Request, name: str) -> dict[str, Any]:
    """One pipeline: operators, sizes, metrics, objectives, policy, and what is ordered."""
    return {**pipeline_view(desk_of(request, name)), "other_page": service_of(request).other_page}


@router.get("/pipelines/{name}/decisions")
def decisions(
    request: Request,
    name: str,
    *,
    operator: Operator = None,
    before: Before = None,
    limit: Limit = 100,
    changes_only: bool = False,
) -> dict[str, Any]:
    """Decisions with reasons, evidence and outcomes, newest first."""
    desk = desk_of(request, name)
    check_operator(desk, operator)
    until = math.inf if before is None else before
    return decisions_page(desk, operator, before=until, limit=limit, changes_only=changes_only)


@router.get("/pipelines/{name}/audit")
def audit(
    request: Request, name: str, operator: Operator = None, before: Before = None, limit: Limit = 100
) -> dict[str, Any]:
    """Who ordered what, newest first."""
    desk = desk_of(request, name)
    check_operator(desk, operator)
    return audit_page(desk, operator, before=math.inf if before is None else before, limit=limit)


@router.get("/pipelines/{name}/series")
def series(
    request: Request,
    name: str,
    *,
    operator: Annotated[str, Query(max_length=200)],
    metrics: Annotated[str, Query(max_length=2000, description="names, joined by commas")] = _DEFAULT_METRICS,
    from_at: Annotated[float | None, Query(alias="from", allow_inf_nan=False, description="an instant")] = None,
    to_at: Annotated[float | None, Query(alias="to", allow_inf_nan=False, description="an instant")] = None,
    points: Annotated[int, Query(ge=2, le=2000, description="how many buckets")] = 300,
) -> dict[str, Any]:
    """Metrics over a time, with least, most and mean of every bucket, and what was predicted."""
    desk = desk_of(request, name)
    check_operator(desk, operator)
    named = list(dict.fromkeys(one.strip() for one in metrics.split(",") if one.strip()))
    if not 1 <= len(named) <= _MOST_METRICS:
        raise ConfigurationError(f"metrics: {len(named)} are named; give 1 to {_MOST_METRICS}", field="metrics")
    found = [metric_named(one) for one in named]
    end = desk.now() + desk.facts.interval_seconds if to_at is None else to_at
    start = end - _DEFAULT_SPAN_SECONDS if from_at is None else from_at
    if not 0.0 <= start < end <= 1e11:
        if start >= end:
            raise ConfigurationError(f"from: {start:.3f} is not before `to` ({end:.3f}); swap them", field="from")
        raise ConfigurationError("from, to: give seconds since the epoch, from 0 to 1e11", field="from")
    return series_view(desk, operator, found, Buckets(start, end, points))


@router.get("/policies")
def policies() -> dict[str, Any]:
    """What can decide here, with options."""
    from penstock.policies import policy_entries

    return {"policies": [finite(entry.to_json()) for entry in policy_entries().values()]}


@router.get("/metrics")
def metrics_catalogue() -> dict[str, Any]:
    """Every metric, with its unit and meaning."""
    return {"metrics": catalogue()}
