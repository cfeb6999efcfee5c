# SPDX-License-Identifier: Apache-2.0
"""Orders as the audit keeps them: the state to begin with, that of a controller before, and what an order changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.ports import KnowledgeStore
from penstock.records import encode
from penstock.steering import NOTHING_ORDERED, OperatorSteering, PolicyChoice, SteeringState


def first_state(operators: Sequence[str], policy: PolicyChoice) -> SteeringState:
    """The state before anything was ordered."""
    return SteeringState(dict.fromkeys(operators, NOTHING_ORDERED), policy)


def kept_state(store: KnowledgeStore, first: SteeringState, since: float = 0.0) -> SteeringState:
    """The orders that were in force when the controller before ended; `first` where nothing was ordered."""
    entries = store.audit(since=since, limit=1)
    if not entries:
        return first
    kept = entries[-1].state
    return replace(kept, operators={name: kept.of(name) for name in first.operators})


def difference(before: OperatorSteering, after: OperatorSteering) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields that differ, as plain data: before, and after."""
    old, new = json.loads(encode(before)), json.loads(encode(after))
    changed = [field for field in old if old[field] != new[field]]
    return {field: old[field] for field in changed}, {field: new[field] for field in changed}


def plain_choice(choice: PolicyChoice) -> dict[str, Any]:
    """A policy as plain data."""
    plain: dict[str, Any] = json.loads(encode(choice))
    return plain
