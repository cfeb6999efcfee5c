# SPDX-License-Identifier: Apache-2.0
"""What a controller that takes a run over knows of the time before it: what the run's store has kept."""

from __future__ import annotations

from penstock.account import OperatorAccount
from penstock.loop import CycleReport
from penstock.ports import KnowledgeStore

STARTED_AT = "started_at"
"""The fact that says when the first controller of a run began."""
_ALL = 10_000_000


def recall(account: OperatorAccount, store: KnowledgeStore, operator: str) -> None:
    """Count into an operator's account what other controllers of the run saw and decided."""
    decided = {decision.at: decision for decision in store.decisions(operator, changes_only=True, limit=_ALL)}
    for seen in store.observations(operator, limit=_ALL):
        account.add(CycleReport(observation=seen, decision=decided.pop(seen.at, None)))
    account.decisions.extend(decided.values())


def started_at(store: KnowledgeStore, now: float) -> float:
    """When the run began: now, unless another controller has begun it."""
    known = store.fact(STARTED_AT)
    if known is None:
        store.set_fact(STARTED_AT, repr(now))
    return now if known is None else float(known)
