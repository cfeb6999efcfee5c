# SPDX-License-Identifier: Apache-2.0
"""The orders that a loop obeys: what people want of it, beside what its policy decides."""

from __future__ import annotations

from dataclasses import replace

from penstock.clock import Clock, SystemClock
from penstock.plan.guards import WithinLimits
from penstock.records import Decision, Mode, PlanRequest
from penstock.steering import HeldSize, OperatorSteering, SteeringState

BY_ORDER = "steering"
"""Stands in place of the policy in decisions that people have made."""


class Orders:
    """Holds the orders in force. One thread may put new ones while the loop reads them.

    A size is held for so long by a clock that nobody sets, like everything that is due in the loop.

    Parameters
    ----------
    state
        The orders to begin with.
    clock
        When the time of a held size is over; default: the machine's.
    """

    def __init__(self, state: SteeringState, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._kept: tuple[SteeringState, dict[str, tuple[HeldSize, float]]] = (state, {})
        self.put(state)

    @property
    def state(self) -> SteeringState:
        """All orders, also those whose time is over."""
        return self._kept[0]

    def put(self, state: SteeringState) -> None:
        """Let other orders be in force from the next pass on."""
        now, steady, known = self._clock.now(), self._clock.monotonic(), self._kept[1]
        deadlines = {}
        for name, orders in state.operators.items():
            if (held := orders.held) is not None:
                before = known.get(name)
                is_new = before is None or before[0] != held
                deadlines[name] = (held, steady + held.until - now) if before is None or is_new else before
        self._kept = (state, deadlines)  # both at once: the loop may be reading

    def in_force(self, operator: str, steady: float) -> OperatorSteering:
        """The orders for one operator at an instant of the monotonic clock, without a size whose time is over."""
        state, deadlines = self._kept
        orders = state.of(operator)
        if orders.held is None or steady < deadlines[operator][1]:
            return orders
        return replace(orders, held=None)


def ordered_decision(steering: OperatorSteering, request: PlanRequest, mode: Mode) -> Decision | None:
    """What people have decided; None: the policy is to be asked.

    A size that was set by hand is asked for whatever the data are like, and without a cooldown: who sets it has seen
    the operator. It stays within the limits, and never takes a restart: executors stay what they are made of.
    """
    here = request.current
    if steering.held is not None:
        wanted = replace(steering.held.size, size=here.size)
        # Where the number is right already, any nodes are: moving executors was not ordered.
        target = here if here.satisfies(wanted) else wanted
        decision = Decision(request.operator, request.at, BY_ORDER, here, target, str(steering.held), mode=mode)
        return WithinLimits().check(decision, request)
    if steering.paused is not None:
        reason = f"paused {steering.paused}"
        return Decision(request.operator, request.at, BY_ORDER, here, here, reason, mode=mode)
    return None
