# SPDX-License-Identifier: Apache-2.0
"""Lets an operator grow only, or shrink only, where somebody has ordered that."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.plan.guards import held
from penstock.plan.ladder import direction, nearest
from penstock.ports import Guard
from penstock.records import Decision, PlanRequest
from penstock.steering import OperatorSteering, Order, SteeredMode

_ALLOWED = {SteeredMode.SCALE_IN_ONLY: -1, SteeredMode.SCALE_OUT_ONLY: 1}


@dataclass(frozen=True, slots=True)
class OneWay:
    """Holds a change of capacity in the other direction than the one that was ordered.

    Parameters
    ----------
    mode, order
        Which direction is left, and who has ordered it.
    """

    mode: SteeredMode
    order: Order | None = None
    name: str = "steering"

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held if it goes the other way."""
        way = direction(nearest(request.limits, request.current), decision.target)
        if way * _ALLOWED[self.mode] >= 0:
            return decision
        return held(decision, request, self.name, f"{self.mode} {self.order}" if self.order else str(self.mode))


def one_way(steering: OperatorSteering) -> tuple[Guard, ...]:
    """The guard that an operator's mode asks for; none where both directions are open."""
    return (OneWay(steering.mode, steering.mode_order),) if steering.mode in _ALLOWED else ()
