# SPDX-License-Identifier: Apache-2.0
"""First sync with what is true, then step toward what is wanted.

Clusters are late: executors take seconds to come and go, and a restart with another size takes longer. So three
allocations are kept apart: *planned* (the last decision), *requested* (what the actuator was last asked for) and
*observed* (what telemetry shows).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from penstock.crash_points import crash_point
from penstock.errors import ActuationError
from penstock.execute.pause import PauseMeter, RestartPause
from penstock.ports import Actuator, AnsweringActuator, ProcessState, RestartingActuator
from penstock.records import (
    Action,
    Allocation,
    ClusterState,
    Decision,
    ExecutorSize,
    ExecutorState,
    Limits,
    Outcome,
    OutcomeStatus,
    Telemetry,
)
from penstock.units import format_seconds


@dataclass(slots=True)
class _Pending:
    action: Action
    began: float
    """By a clock that nobody sets, as every instant of this module that is compared."""
    deadline_seconds: float
    is_restart: bool
    run_id: str | None
    """The query's run when the action began: a restart is over when there is another one."""
    pause: RestartPause | None = None
    fault: str | None = None
    """What the actuator answered, where that came too late for the pass that asked."""


@dataclass(frozen=True, slots=True)
class _Drain:
    """An action that has what it asked for, but for executors that are still on their way out."""

    action: Action
    began: float
    executors: frozenset[str]
    since: float
    run_id: str | None


class Reconciler:
    """Carries decisions out for one operator, and heals drift such as a lost executor.

    Parameters
    ----------
    operator, actuator, limits
        What is scaled, by whom, within what.
    deadline_seconds
        An action that is not observed by then has failed; planning goes on from what is observed.
    restart_deadline_seconds
        The same for a restart with another size.
    cores_per_executor
        Cores of an executor of the operator's own size, to read a CPU share out of a quota in cores.
    planned
        What it is to begin with; None: whatever it has.
    """

    def __init__(
        self,
        operator: str,
        actuator: Actuator,
        limits: Limits,
        *,
        deadline_seconds: float = 90.0,
        restart_deadline_seconds: float = 420.0,
        cores_per_executor: int = 1,
        planned: Allocation | None = None,
    ) -> None:
        self._operator = operator
        self._actuator = actuator
        self._restarting = actuator if isinstance(actuator, RestartingActuator) else None
        self._answering = actuator if isinstance(actuator, AnsweringActuator) else None
        self._limits = limits
        self._deadline_seconds = deadline_seconds
        self._restart_deadline_seconds = restart_deadline_seconds
        self._cores_per_executor = cores_per_executor
        self._planned = planned
        self._requested: Allocation | None = None
        self._unanswered: Allocation | None = None
        """What the actuator was asked for, and has not answered yet."""
        self._observed: Allocation | None = None
        self._pending: _Pending | None = None
        self._drains: list[_Drain] = []
        self._pauses = PauseMeter()
        self._steady = 0.0

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

    def hear(self) -> str | None:
        """Take a late answer. Returns why a pass has to wait for one, in one line; None: it can go on."""
        if self._answering is None:
            return None
        if (why := self._answering.outstanding) is not None:
            return why
        asked, self._unanswered = self._unanswered, None
        if asked is not None:
            try:
                self._answering.take_answer()
                self._requested = asked
            except ActuationError as fault:
                if self._pending is not None:
                    self._pending.fault = str(fault)
        return None

    def sync(self, telemetry: Telemetry, now: float, monotonic: float | None = None) -> list[Outcome]:
        """Take in what is true; returns the actions that have ended, or now only wait for executors to go.

        `now` is for the records. Deadlines follow `monotonic`, which nobody sets; without it they follow `now`.
        """
        self._steady = now if monotonic is None else monotonic
        for batch in telemetry.batches:
            pause = self._pauses.add(batch)
            if pause is not None and self._pending is not None:
                self._pending.pause = pause
        process = self._process
        self._observed = self._read(telemetry, process.size)
        outcomes = self._drained(telemetry, now)
        pending = self._pending
        if pending is None:
            return outcomes
        if pending.is_restart and process.fault is not None:
            return [*outcomes, self._fail(now, process.fault)]
        if self._is_reached(pending):
            return [*outcomes, self._reach(pending, telemetry, now)]
        refused, why = telemetry.refused, pending.fault
        if refused is not None and refused.request_id == pending.action.request_id:
            why = why or refused.reason
        if why is not None:
            return [*outcomes, self._fail(now, why)]
        if self._steady >= pending.began + pending.deadline_seconds:
            return [*outcomes, self._fail(now, f"not observed within {pending.deadline_seconds:.0f} s")]
        return outcomes

    def start(self, decision: Decision, now: float, monotonic: float | None = None) -> tuple[Action, list[Outcome]]:
        """Carry a decision out; an action under way is superseded."""
        self._steady = now if monotonic is None else monotonic
        outcomes = [self._end(OutcomeStatus.SUPERSEDED, now)] if self._pending else []
        crash_point("superseded")
        self._planned = decision.target
        action = Action(self._operator, now, decision.target, decision.decision_id)
        return action, [*outcomes, *self._ask(action, now)]

    def heal(self, now: float, monotonic: float | None = None) -> tuple[Action, list[Outcome]] | None:
        """Ask again for the plan when what is observed has drifted from it and nothing is under way."""
        self._steady = now if monotonic is None else monotonic
        if self._planned is None or self._pending is not None:
            return None
        if self._observed is None or self._observed.satisfies(self._planned):
            return None
        action = Action(self._operator, now, self._planned, None)
        return action, self._ask(action, now)

    def let_go(self) -> None:
        """Drop the plan, and what is under way: nothing is healed, and planning goes on from what is observed."""
        self._planned = self._requested = self._unanswered = self._pending = None
        self._drains = []

    def release(self) -> None:
        """Put everything back as it was."""
        self.let_go()
        self._actuator.release()

    @property
    def _process(self) -> ProcessState:
        return ProcessState() if self._restarting is None else self._restarting.process

    def _is_reached(self, pending: _Pending) -> bool:
        if self._observed is None or not self._observed.satisfies(pending.action.target):
            return False
        # Executors alone are not enough: a restarted query runs when its first batch is done.
        return not pending.is_restart or self._pauses.run_id != pending.run_id

    def _reach(self, pending: _Pending, telemetry: Telemetry, now: float) -> Outcome:
        """What was asked for is there: done, unless executors that are to go still are, too."""
        earlier = frozenset[str]().union(*(drain.executors for drain in self._drains))
        going = frozenset(e.executor_id for e in telemetry.executors or () if e.is_active and e.is_draining) - earlier
        if pending.is_restart or not going:
            return self._end(OutcomeStatus.DONE, now, _restart_text(pending, self._process))
        # The next change does not wait for them: they take no work any more, and cannot be called back.
        self._drains.append(_Drain(pending.action, pending.began, going, self._steady, self._pauses.run_id))
        return self._end(OutcomeStatus.DRAINING, now, _executors_text(going))

    def _drained(self, telemetry: Telemetry, now: float) -> list[Outcome]:
        """The actions whose executors have gone by now, or have not in time."""
        if telemetry.executors is None:
            return []
        there = {executor.executor_id for executor in telemetry.executors if executor.is_active}
        outcomes, left = [], []
        for drain in self._drains:
            is_other_application = drain.run_id != self._pauses.run_id  # its executors have the same numbers again
            if is_other_application or not drain.executors & there:
                outcomes.append(self._outcome(drain.action, drain.began, OutcomeStatus.DONE, now))
            elif self._steady >= drain.since + self._deadline_seconds:
                why = f"{_executors_text(drain.executors)} did not go within {self._deadline_seconds:.0f} s"
                outcomes.append(self._outcome(drain.action, drain.began, OutcomeStatus.FAILED, now, why))
            else:
                left.append(drain)
        self._drains = left
        return outcomes

    def _ask(self, action: Action, now: float) -> list[Outcome]:
        is_restart = action.target.size != self._process.size
        deadline = self._restart_deadline_seconds if is_restart else self._deadline_seconds
        self._pending = _Pending(action, self._steady, deadline, is_restart, self._pauses.run_id)
        crash_point("request-made")
        try:
            self._actuator.request(action)
            is_answered = self._answering is None or self._answering.take_answer()
        except ActuationError as fault:
            return [self._fail(now, str(fault))]
        crash_point("requested")
        if is_answered:
            self._requested = action.target
        else:
            self._unanswered = action.target
        return []

    def _fail(self, now: float, why: str) -> Outcome:
        outcome = self._end(OutcomeStatus.FAILED, now, why)
        self._planned = None  # go on from what is true, not from what was asked for
        return outcome

    def _end(self, status: OutcomeStatus, now: float, detail: str = "") -> Outcome:
        assert self._pending is not None
        pending, self._pending = self._pending, None
        return self._outcome(pending.action, pending.began, status, now, detail)

    def _outcome(self, action: Action, began: float, status: OutcomeStatus, now: float, detail: str = "") -> Outcome:
        after = self._steady - began
        return Outcome(action.request_id, self._operator, now, status, self._observed, after, detail)

    def _read(self, telemetry: Telemetry, size: ExecutorSize | None) -> Allocation | None:
        """What is there; None where a part of it could not be read."""
        if telemetry.executors is None:
            return None
        there = [executor for executor in telemetry.executors if executor.is_active and not executor.is_draining]
        count, asked = len(there), self._requested
        cores = self._cores_per_executor * (1.0 if size is None else size.worth)
        share = self._read_share(telemetry, count, asked, cores)
        return None if share is None else Allocation(count, share, size, self._read_nodes(there))

    def _read_share(self, telemetry: Telemetry, count: int, asked: Allocation | None, cores: float) -> float | None:
        cpu = telemetry.cpu
        if cpu is None:
            # Where shares are set, counters that cannot be read leave the cap unknown; elsewhere there is none.
            is_uncapped = self._limits.cpu_shares == (1.0,) or telemetry.why_no_shares is not None
            return 1.0 if is_uncapped else None
        if cpu.quota_cores is None:
            others = cpu.parents_quota_cores
            if others is not None and asked is not None and asked.executors * asked.cpu_share * cores >= others:
                return asked.cpu_share  # somebody else's cap is tighter: ours is left to it
            return 1.0  # no cap: all of the CPU, whether the limits allow that or not
        # The quota is for the whole group; while executors come and go it belongs to the number asked for, unless it
        # follows their number by itself.
        divisor = asked.executors if asked is not None else max(1, count)
        if cpu.executors is not None:
            divisor = max(1, cpu.executors)
        share = cpu.quota_cores / (divisor * cores)
        return min((*self._limits.cpu_shares, 1.0), key=lambda level: abs(level - share))

    def _read_nodes(self, there: list[ExecutorState]) -> tuple[tuple[str, int], ...]:
        """Where the executors are; not looked at where the choice is the cluster's."""
        return tuple(sorted(Counter(executor.host for executor in there).items())) if self._limits.nodes else ()


def _executors_text(ids: frozenset[str]) -> str:
    names = ", ".join(sorted(ids, key=lambda name: (len(name), name)))
    return f"executor {names}" if len(ids) == 1 else f"executors {names}"


def _restart_text(pending: _Pending, process: ProcessState) -> str:
    if not pending.is_restart:
        return ""
    stopped = f"stopped {process.stopped}" if process.stopped else "restarted"
    if pending.pause is None:  # no batch was seen before it, so there is nothing to measure from
        return f"{stopped}; its pause is not known"
    pause = pending.pause
    return f"{stopped}, paused for {format_seconds(pause.seconds)} (batch {pause.last_batch} to {pause.first_batch})"
