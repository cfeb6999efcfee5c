# SPDX-License-Identifier: Apache-2.0
"""The part of the API about the master and its agents."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field

from penstock.metrics import metric_named
from penstock.service.asking import may_operate, may_read, only_known_query, service_of
from penstock.service.master import Master
from penstock.service.problems import ProblemError

router = APIRouter(prefix="/api/v1", tags=["agents"], dependencies=[Depends(may_read), Depends(only_known_query)])


class WatchBody(BaseModel):
    """Metrics to have reported for those who look."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    metrics: list[Annotated[str, Field(max_length=200)]] = Field(max_length=50, description="names; none: no metrics")
    every_seconds: float = Field(default=5.0, ge=0.5, le=3600.0, strict=True, description="how often")


@router.get("/agents")
def agents(request: Request) -> dict[str, Any]:
    """Who leads, and the agents with what they offer, what is subscribed to, and the newest values with their age."""
    return _master(request).view()


@router.put("/agents/watch", dependencies=[Depends(may_operate)])
def watch(request: Request, body: WatchBody) -> dict[str, Any]:
    """Subscribe to other metrics for those who look; what policies subscribe to stays."""
    master, names = _master(request), sorted({metric_named(name).name for name in body.metrics})
    master.watch(names, body.every_seconds)
    return {"watched": names, "every_seconds": body.every_seconds}


def _master(request: Request) -> Master:
    master = service_of(request).master
    if master is None:
        raise ProblemError(404, "no agents come here", "start a master: penstock serve --store sqlite:FOLDER")
    return master
