# SPDX-License-Identifier: Apache-2.0
"""First sync with what is true, then step toward what is wanted.

Clusters are late: executors take seconds to come and go. So three sizes are kept apart: *planned* (the last
decision), *requested* (what the actuator was last asked for) and *observed* (what telemetry shows).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ActuationError
from penstock.execute.transitions import check_transition
from penstock.ports import Actuator
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    Limits,
    Outcome,
    OutcomeStatus,
    Telemetry,
)


@dataclass(slots=True)
class _Pending:
    action: Action
    deadline: float


class Reconciler:
    """Carries decisions out for one operator, and heals drift such as a lost executor.

    Parameters
    ----------
    operator, actuator, limits
        What is scaled, by whom, within what.
    deadline_seconds
        An action not observed by then has failed; planning goes on from what is observed.
    cores_per_executor
        To read a CPU share out of a quota in cores.
    """

    def __init__(
        self,
        operator: str,
        actuator: Actuator,
        limits: Limits,
        *,
        deadline_seconds: float = 90.0,
        cores_per_executor: int = 1,
    ) -> None:
        self._operator = operator
        self._actuator = actuator
        self._limits = limits
        self._deadline_seconds = deadline_seconds
        self._cores_per_executor = cores_per_executor
        self._planned: Allocation | None = None
        self._requested: Allocation | None = None
        self._observed: Allocation | None = None
        self._pending: _Pending | None = None

    @property
    def state(self) -> ClusterState:
        """Planned, requested and observed, as of the last sync."""
        return ClusterState(self._planned, self._requested, self._observed)

    @property
    def current(self) -> Allocation | None:
        """What planning starts from: the plan, until it has failed; without one, what is observed.

        An executor that is lost does not change what the operator is meant to have: `heal` asks for it again.
        """
        return self._observed if self._observed is None or self._planned is None else self._planned

    def sync(self, telemetry: Telemetry, now: float) -> list[Outcome]:
        """Take in what is true; gives the actions that ended thereby."""
        self._observed = self._read(telemetry)
        if self._pending is None:
            return []
        if self._observed == self._pending.action.target:
            return [self._end(OutcomeStatus.DONE, now)]
        if now >= self._pending.deadline:
            outcome = self._end(OutcomeStatus.FAILED, now, f"not observed within {self._deadline_seconds:.0f} s")
            self._planned = None  # go on from what is true, not from what was asked
            return [outcome]
        return []

    def start(self, decision: Decision, now: float) -> tuple[Action, list[Outcome]]:
        """Carry a decision out; an action under way is superseded."""
        outcomes = [self._end(OutcomeStatus.SUPERSEDED, now)] if self._pending else []
        self._planned = decision.target
        action = Action(self._operator, now, decision.target, decision.decision_id)
        return action, [*outcomes, *self._ask(action, now)]

    def heal(self, now: float) -> tuple[Action, list[Outcome]] | None:
        """Ask again for the plan when what is observed has drifted from it and nothing is under way."""
        if self._planned is None or self._pending is not None or self._observed in (None, self._planned):
            return None
        action = Action(self._operator, now, self._planned, None)
        return action, self._ask(action, now)

    def restarted(self, cores_per_executor: int, now: float) -> list[Outcome]:
        """The operator was started anew with such executors: nothing that was asked for holds any more."""
        outcomes = [self._end(OutcomeStatus.SUPERSEDED, now, "the operator was restarted")] if self._pending else []
        self._cores_per_executor = cores_per_executor
        self._planned = self._requested = self._observed = None
        return outcomes

    def release(self) -> None:
        """Put everything back as it was."""
        self._planned = self._requested = self._pending = None
        self._actuator.release()

    def _ask(self, action: Action, now: float) -> list[Outcome]:
        self._pending = _Pending(action, now + self._deadline_seconds)
        try:
            self._actuator.request(action)
        except ActuationError as fault:
            outcome = self._end(OutcomeStatus.FAILED, now, str(fault))
            self._planned = None
            return [outcome]
        self._requested = action.target
        return []

    def _end(self, status: OutcomeStatus, now: float, detail: str = "") -> Outcome:
        assert self._pending is not None
        action, self._pending = self._pending.action, None
        check_transition(OutcomeStatus.PENDING, status)
        return Outcome(action.request_id, self._operator, now, status, self._observed, now - action.at, detail)

    def _read(self, telemetry: Telemetry) -> Allocation | None:
        if telemetry.executors is None:
            return None
        count = sum(1 for e in telemetry.executors if e.is_active and not e.is_draining)
        cpu, asked = telemetry.cpu, self._requested
        if cpu is None or cpu.quota_cores is None:
            others = None if cpu is None else cpu.parents_quota_cores
            if others is not None and asked is not None and asked.capacity * self._cores_per_executor >= others:
                return Allocation(count, asked.cpu_share)  # somebody else's cap is tighter: ours is left to it
            return Allocation(count, 1.0)  # no cap: all of the CPU, whether the limits allow that or not
        # The quota is for the whole group; while executors come and go it belongs to the number asked for.
        divisor = self._requested.executors if self._requested is not None else max(1, count)
        share = cpu.quota_cores / (divisor * self._cores_per_executor)
        nearest = min((*self._limits.cpu_shares, 1.0), key=lambda level: abs(level - share))
        return Allocation(count, nearest)
