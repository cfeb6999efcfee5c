# SPDX-License-Identifier: Apache-2.0
"""The part of the API that tries policies on what was recorded. It changes nothing: who may look may ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from penstock.clock import SystemClock
from penstock.errors import SteeringError
from penstock.knowledge.sqlite import SqliteStore
from penstock.policies import policy_entry
from penstock.service.asking import check_operator, desk_of, may_read, only_known_query, service_of
from penstock.service.backtests import STATIC, Tried
from penstock.service.desk import PipelineDesk

router = APIRouter(
    prefix="/api/v1/pipelines/{name}",
    tags=["backtests"],
    dependencies=[Depends(may_read), Depends(only_known_query)],
)


class TriedBody(BaseModel):
    """A policy to try."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    policy: str = Field(
        min_length=1, max_length=200, description="its name, or `static`: the top allocation throughout"
    )
    options: dict[str, Any] = Field(default_factory=dict, max_length=50, description="its options, as in settings")
    rules: str | None = Field(default=None, max_length=50_000, description="the text of rules, not the name of a file")

    @model_validator(mode="after")
    def _rules_are_text(self) -> TriedBody:
        if "rules" in self.options:
            raise ValueError("options.rules: rules stand beside the options; give them as `rules`")
        return self


class BacktestBody(BaseModel):
    """What to try, and on which operator."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    operator: str | None = Field(default=None, max_length=200, description="left out: the only one")
    policies: list[TriedBody] = Field(min_length=1, max_length=6, description="what is tried, in this order")


@router.post("/backtests", status_code=202)
def begin(request: Request, name: str, body: BacktestBody) -> dict[str, Any]:
    """Try policies on the pipeline's recorded history, in another process; one at a time."""
    desk = desk_of(request, name)
    check_operator(desk, body.operator)
    file = _file(desk)
    for one in body.policies:
        if one.policy != STATIC:
            policy_entry(one.policy)  # a misspelt name is said at once
    tried = [Tried(one.policy, one.options, one.rules) for one in body.policies]
    made = service_of(request).backtests.start(name, file, tried, operator=body.operator, at=SystemClock().now())
    return made.plain()


@router.get("/backtests")
def backtests(request: Request, name: str) -> dict[str, Any]:
    """The newest backtests of a pipeline, newest first, with their state and result."""
    desk_of(request, name)
    return {"pipeline": name, "backtests": [one.plain() for one in service_of(request).backtests.of(name)]}


def _file(desk: PipelineDesk) -> Path:
    if not isinstance(desk.history, SqliteStore):
        raise SteeringError(
            f"the history of {desk.facts.name} is in no file; use the command: penstock backtest ADDRESS"
        )
    return desk.history.path.absolute()
