# SPDX-License-Identifier: Apache-2.0
"""What people order of a running loop: the orders that are in force, and the audit that keeps them.

Every order becomes an `AuditEntry`, which holds the whole state after it. So the newest entry is all that a controller
needs to go on with the orders that are in force.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from penstock.records import Allocation, new_id


class SteeredMode(StrEnum):
    """How far the policy may go."""

    AUTOMATIC = "automatic"
    """As the settings say."""
    SCALE_IN_ONLY = "scale-in-only"
    SCALE_OUT_ONLY = "scale-out-only"
    RECOMMEND = "recommend"
    """Decide and write down, but do not act."""


@dataclass(frozen=True, slots=True)
class Order:
    """Who ordered something, when, and why."""

    by: str
    at: float
    reason: str = ""

    @property
    def why(self) -> str:
        """The reason as the end of a sentence."""
        return f": {self.reason}" if self.reason else ""

    def says_the_same(self, other: Order | None) -> bool:
        """Whether the same person gave the same reason before."""
        return other is not None and (self.by, self.reason) == (other.by, other.reason)

    def __str__(self) -> str:
        return f"by {self.by} since {time_of_day(self.at)}{self.why}"


@dataclass(frozen=True, slots=True)
class HeldSize:
    """A size that somebody set by hand, until when. Of what executors are made, and where they are, stays."""

    size: Allocation
    until: float
    order: Order

    def __str__(self) -> str:
        order = self.order
        return f"size held by {order.by} since {time_of_day(order.at)} until {time_of_day(self.until)}{order.why}"


@dataclass(frozen=True, slots=True)
class OperatorSteering:
    """The orders for one operator. A held size comes before a pause, and a pause before a mode."""

    paused: Order | None = None
    mode: SteeredMode = SteeredMode.AUTOMATIC
    mode_order: Order | None = None
    """Who chose the mode; None: nobody has."""
    held: HeldSize | None = None

    @property
    def is_steered(self) -> bool:
        """Whether anything is ordered that the settings do not say."""
        return self.paused is not None or self.held is not None or self.mode is not SteeredMode.AUTOMATIC

    def in_force(self, now: float) -> OperatorSteering:
        """The orders without a size whose time is over."""
        return self if self.held is None or now < self.held.until else replace(self, held=None)


NOTHING_ORDERED = OperatorSteering()


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """Which policy decides, as settings name it.

    Attributes
    ----------
    name, options, rules
        As in the settings of a policy.
    is_object
        It is somebody's own object, which cannot be built again by its name.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    rules: str | None = None
    is_object: bool = False

    @property
    def all_options(self) -> dict[str, Any]:
        """The options, with the rules among them."""
        return {**self.options, **({} if self.rules is None else {"rules": self.rules})}

    def __str__(self) -> str:
        rules = "" if self.rules is None or self.name == "rules" else " with rules around it"
        return f"{self.name}{rules}"


@dataclass(frozen=True, slots=True)
class SteeringState:
    """All orders that are in force in a pipeline.

    Attributes
    ----------
    operators
        The orders for each operator.
    policy
        Which policy decides.
    previous
        The one before it; None: there was none.
    """

    operators: Mapping[str, OperatorSteering]
    policy: PolicyChoice
    previous: PolicyChoice | None = None

    def of(self, operator: str) -> OperatorSteering:
        """The orders for one operator."""
        return self.operators.get(operator, NOTHING_ORDERED)


class AuditAction(StrEnum):
    """What was ordered."""

    PAUSE = "pause"
    RESUME = "resume"
    MODE = "mode"
    SIZE = "size"
    SIZE_ENDED = "size ended"
    """The time of a held size is over; nobody ordered this."""
    RESET = "reset"
    POLICY = "policy"
    POLICY_ROLLBACK = "policy rollback"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change of the orders: who, when, what, and the state before and after.

    Attributes
    ----------
    operator
        Whose orders; None: those of all operators, or the policy.
    before, after
        What was changed, by operator, or under ``policy``.
    state
        All orders after it.
    """

    at: float
    by: str
    action: AuditAction
    operator: str | None
    reason: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    state: SteeringState
    audit_id: str = field(default_factory=new_id)

    @property
    def text(self) -> str:
        """The entry in one sentence."""
        whom = self.operator or "all operators"
        orders = self.state.of(self.operator or next(iter(self.state.operators), ""))
        said = {
            AuditAction.PAUSE: f"paused {whom}",
            AuditAction.RESUME: f"resumed {whom}",
            AuditAction.MODE: f"set {whom} to {orders.mode}",
            AuditAction.SIZE: f"holds {whom} at {'a size' if orders.held is None else orders.held.size}"
            + ("" if orders.held is None else f" until {time_of_day(orders.held.until)}"),
            AuditAction.SIZE_ENDED: f"ended the held size of {whom}: its time is over",
            AuditAction.RESET: f"let the policy {self.state.policy} forget what it has learnt",
            AuditAction.POLICY: f"let {self.state.policy} decide",
            AuditAction.POLICY_ROLLBACK: f"let {self.state.policy} decide again",
        }[self.action]
        return f"{self.by} {said}{f': {self.reason}' if self.reason else ''}"


def time_of_day(at: float) -> str:
    """An instant as people say it, by the clock on the wall: ``10:02``."""
    return time.strftime("%H:%M", time.localtime(at))
