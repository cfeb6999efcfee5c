# SPDX-License-Identifier: Apache-2.0
"""The part of the API that steers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from penstock.errors import ConfigurationError
from penstock.service.access import Role
from penstock.service.asking import check_operator, desk_of, may_read, may_steer, only_known_query
from penstock.service.bodies import ModeBody, OperatorBody, OrderBody, PolicyBody, SizeBody
from penstock.service.desk import PipelineDesk
from penstock.service.views import audit_view, decision_view, policy_view, state_view
from penstock.steering import AuditEntry

router = APIRouter(
    prefix="/api/v1/pipelines/{name}",
    tags=["steer"],
    dependencies=[Depends(may_read), Depends(only_known_query)],
)

Operates = Annotated[Role, Depends(may_steer)]


def _answer(desk: PipelineDesk, entry: AuditEntry | None, *, dry_run: bool = False) -> dict[str, Any]:
    """The orders in force after an order; of a dry run, as they would be, without an entry of the audit."""
    state = entry.state if dry_run and entry is not None else desk.state()
    return {
        "pipeline": desk.facts.name,
        "dry_run": dry_run,
        "audit": None if entry is None or dry_run else audit_view(entry),
        "steering": state_view(state),
        "policy": policy_view(state.policy),
        "previous_policy": policy_view(state.previous),
    }


def _said(body: OrderBody, role: Role) -> dict[str, Any]:
    """Who says so, why, and whether it is meant."""
    return {"by": body.by or str(role), "reason": body.reason, "dry_run": body.dry_run}


def _meant(request: Request, name: str, body: OperatorBody) -> PipelineDesk:
    desk = desk_of(request, name)
    check_operator(desk, body.operator)
    return desk


@router.post("/pause")
def pause(request: Request, name: str, body: OperatorBody, role: Operates) -> dict[str, Any]:
    """Watch, and decide nothing."""
    desk = _meant(request, name, body)
    return _answer(desk, desk.helm.pause(body.operator, **_said(body, role)), dry_run=body.dry_run)


@router.post("/resume")
def resume(request: Request, name: str, body: OperatorBody, role: Operates) -> dict[str, Any]:
    """Lift a pause and end a held size; the mode stays."""
    desk = _meant(request, name, body)
    return _answer(desk, desk.helm.resume(body.operator, **_said(body, role)), dry_run=body.dry_run)


@router.post("/mode")
def mode(request: Request, name: str, body: ModeBody, role: Operates) -> dict[str, Any]:
    """Let the policy do all, go one way only, or recommend only."""
    desk = _meant(request, name, body)
    return _answer(desk, desk.helm.set_mode(body.mode, body.operator, **_said(body, role)), dry_run=body.dry_run)


@router.post("/size")
def size(request: Request, name: str, body: SizeBody, role: Operates) -> dict[str, Any]:
    """Hold a size for a time, within the limits of the settings."""
    desk = _meant(request, name, body)
    entry = desk.helm.hold_size(
        body.executors,
        body.cpu_share,
        for_seconds=body.for_seconds,
        operator=body.operator,
        **_said(body, role),
    )
    return _answer(desk, entry, dry_run=body.dry_run)


@router.post("/reset")
def reset(request: Request, name: str, body: OperatorBody, role: Operates) -> dict[str, Any]:
    """Let the policy forget what it has learnt, of all operators."""
    desk = _meant(request, name, body)
    if body.operator is not None and len(desk.facts.names) > 1:
        raise ConfigurationError(
            "operator: one policy decides for all operators, and forgets all of them; leave operator out",
            field="operator",
        )
    return _answer(desk, desk.helm.reset(**_said(body, role)), dry_run=body.dry_run)


@router.put("/policy")
def policy(request: Request, name: str, body: PolicyBody, role: Operates) -> dict[str, Any]:
    """Let another policy decide, or only say what it would decide."""
    desk = desk_of(request, name)
    helm, choice, before = desk.helm, body.choice(), desk.state().policy
    if body.dry_run:
        change = helm.try_policy(choice)
    else:
        change = helm.replace_policy(choice, by=body.by or str(role), reason=body.reason)
    return {
        **_answer(desk, change.entry, dry_run=body.dry_run),
        "policy": policy_view(choice),
        "previous_policy": policy_view(before),
        "would_decide": [decision_view(decision) for decision in change.would_decide],
        "notes": _notes(desk, choice.name),
    }


@router.post("/policy/rollback")
def roll_back(request: Request, name: str, body: OrderBody, role: Operates) -> dict[str, Any]:
    """Let the policy before decide again."""
    desk = desk_of(request, name)
    before = desk.state().policy
    change = desk.helm.roll_back(**_said(body, role))
    return {
        **_answer(desk, change.entry, dry_run=body.dry_run),
        "policy": policy_view(change.choice),
        "previous_policy": policy_view(before),
        "would_decide": [decision_view(decision) for decision in change.would_decide],
    }


def _notes(desk: PipelineDesk, policy: str) -> list[str]:
    """What somebody should know who chooses a policy."""
    from penstock._wiring import objective_not_read
    from penstock.policies import policy_entries

    entry = policy_entries().get(policy)
    line = None if entry is None or entry.reads_objective else objective_not_read(policy, desk.facts.paths.values())
    return [] if line is None else [line]
