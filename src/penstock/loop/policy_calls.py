# SPDX-License-Identifier: Apache-2.0
"""Calls into a policy, which may be anybody's: whatever goes wrong there is one PolicyError that says where."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import index

from penstock.errors import PolicyError
from penstock.ports import Look, Policy, WatchingPolicy
from penstock.records import Allocation, Decision, PlanRequest


def notes_of(policy: WatchingPolicy, look: Look) -> tuple[str, ...]:
    """Show a policy one look; give what it wants the user to know, as lines."""
    try:
        notes: object = policy.watch(look)
        if notes is None:
            return ()
        return (notes,) if isinstance(notes, str) else tuple(str(note) for note in notes)  # type: ignore[attr-defined]
    except Exception as fault:
        raise _failed(policy, "watch", look.operator, fault) from fault


def decision_of(policy: Policy, request: PlanRequest) -> Decision:
    """Ask a policy; give its decision, in plain numbers. Whether the limits allow it is for the guards to see."""
    try:
        decision: object = policy.plan(request)
    except Exception as fault:
        raise _failed(policy, "plan", request.operator, fault) from fault
    if not isinstance(decision, Decision):
        raise PolicyError(f"policy: {policy.name} gave {decision!r} instead of a Decision for {request.operator}")
    if decision.operator != request.operator:
        raise PolicyError(
            f"policy: {policy.name} gave a decision for {decision.operator!r} instead of {request.operator}"
        )
    return replace(decision, target=_in_plain_numbers(policy, decision.target))


def _in_plain_numbers(policy: Policy, target: object) -> Allocation:
    if not isinstance(target, Allocation):
        raise PolicyError(f"policy: {policy.name} gave the target {target!r}; it must be an Allocation")
    try:
        executors = index(target.executors)
    except TypeError as fault:
        raise PolicyError(
            f"policy: {policy.name} gave {target.executors!r} executors; it must be a whole number"
        ) from fault
    try:
        share = float(target.cpu_share)
    except (TypeError, ValueError):
        share = math.nan
    if not math.isfinite(share):
        raise PolicyError(
            f"policy: {policy.name} gave the CPU share {target.cpu_share!r}; it must be a number such as 0.7"
        )
    return replace(target, executors=executors, cpu_share=share)


def _failed(policy: Policy, part: str, operator: str, fault: Exception) -> PolicyError:
    return PolicyError(f"policy: {policy.name} failed in {part} for {operator}: {type(fault).__name__}: {fault}")
