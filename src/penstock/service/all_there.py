# SPDX-License-Identifier: Apache-2.0
"""Holds a pipeline while one of its operators cannot be seen: what is planned for the others depends on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.plan.ladder import nearest
from penstock.records import Decision, PlanRequest


class AllThere:
    """Knows which operators of a pipeline their last passes saw, and holds the others meanwhile (a `ports.Guard`).

    Parameters
    ----------
    operators
        Their names. None was seen yet.
    """

    name = "waits for all operators"

    def __init__(self, operators: Iterable[str]) -> None:
        self._missing = dict.fromkeys(operators, "nothing was seen of it yet")

    def seen(self, operator: str) -> None:
        """Take that an operator was seen."""
        self._missing.pop(operator, None)

    def missed(self, operator: str, why: str) -> None:
        """Take that it was not."""
        self._missing[operator] = why

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held while another operator is missing; also one that changes nothing says why then."""
        missing = [f"{name} is missing: {why}" for name, why in dict(self._missing).items() if name != request.operator]
        if not missing:
            return decision
        here = nearest(request.limits, request.current)
        if decision.target in (here, request.current):
            return replace(decision, reason=f"holding: {missing[0]}", rejected=())
        return decision.amended(self.name, here, missing[0])
