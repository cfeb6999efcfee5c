# SPDX-License-Identifier: Apache-2.0
"""One pass of the data's way for one operator: collect, sync, observe, plan, guard, act."""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.clock import ClockSteps, stopwatch
from penstock.crash_points import crash_point
from penstock.errors import ActuationError, ConfigurationError, PolicyError
from penstock.execute import Reconciler
from penstock.loop.orders import Orders, ordered_decision
from penstock.loop.patient_source import PatientSource
from penstock.loop.policy_calls import decision_of, notes_of
from penstock.metrics import reported_of
from penstock.monitor import Monitor
from penstock.monitor.exactness import ExactnessChange, ExactnessWatch
from penstock.plan.guards import apply_guards
from penstock.plan.one_way import one_way
from penstock.ports import (
    Guard,
    KnowledgeStore,
    Look,
    LookingBackPolicy,
    MetricSource,
    Policy,
    SubscribableSource,
    SubscribingPolicy,
    WatchingPolicy,
)
from penstock.records import (
    Action,
    Allocation,
    BatchProgress,
    ClusterState,
    Decision,
    ExecutorRoom,
    Limits,
    Mode,
    Objective,
    Observation,
    Outcome,
    OutcomeStatus,
    PlanRequest,
    RunLatency,
    StageTime,
    encode,
)
from penstock.steering import NOTHING_ORDERED, OperatorSteering, SteeredMode

_LOG = logging.getLogger(__name__)

_RECENT_CHANGES = 50
_OBSERVATIONS_KEPT = 600
"""Ten minutes at the usual interval: what a policy may look back at that does not ask for more."""
_MOST_CHANGES = 1000
"""How many changes of an earlier controller are looked through for a policy that asks for more."""
_LEAST_REPORT_SECONDS = 0.5
"""How often at most a policy has metrics reported."""
_LATENCY_EVERY_SECONDS = 5.0
"""How often the latency since the start is added up and kept: a run that is cut off has it up to there."""


@dataclass(slots=True)
class CycleReport:
    """What one pass saw and did."""

    observation: Observation
    decision: Decision | None = None
    action: Action | None = None
    outcomes: list[Outcome] = field(default_factory=list)
    stage_times: list[StageTime] = field(default_factory=list)
    batches: tuple[BatchProgress, ...] = ()
    notes: tuple[str, ...] = ()
    """What the policy wants the user to know, and where the cluster gives less than the limits allow."""
    fault: PolicyError | None = None
    """What went wrong in the policy; the operator keeps what it has. None: nothing."""
    run_latency: RunLatency | None = None
    """Of all records since the start, with those of the start-up apart; some seconds old."""
    exactness: ExactnessChange | None = None
    """Where latency stops being exact, or is exact again with this pass."""
    passed_seconds: float | None = None
    """Since the operator's last report, by a clock that nobody sets; None: this controller's first, or one from the
    store, of which only the wall clock is known."""


class Cycle:
    """All parts of one operator's control, wired once; `run_once` is the sentence they form.

    Changes that `store` remembers from before `since` are those of another run. `orders` are what people want of the
    loop; none where nobody can steer it. `may_be_continued`: whether another controller may go on from the store, as
    none does in a simulation.
    """

    def __init__(
        self,
        *,
        source: MetricSource,
        monitor: Monitor,
        policy: Policy,
        guards: Sequence[Guard],
        reconciler: Reconciler,
        store: KnowledgeStore,
        limits: Limits,
        objective: Objective,
        mode: Mode,
        since: float = 0.0,
        orders: Orders | None = None,
        may_be_continued: bool = True,
    ) -> None:
        self._may_be_continued = may_be_continued
        self._source = source
        self.monitor = monitor
        self._policy = policy
        self._watching = policy if isinstance(policy, WatchingPolicy) else None
        self._looking_back = policy if isinstance(policy, LookingBackPolicy) else None
        self._guards = tuple(guards)
        self._reconciler = reconciler
        self._store = store
        self.limits = limits
        self.objective = objective
        self._mode = mode
        self._orders = orders
        self._steering = NOTHING_ORDERED
        self._room: ExecutorRoom | None = None
        self._why_no_shares: str | None = None
        self._next_plan = float("-inf")
        # A restarted controller remembers what the one before did, so that guard times hold across restarts.
        changes = store.decisions(monitor.operator, since=since, changes_only=True, limit=_MOST_CHANGES)
        self._recent: deque[Decision] = deque(d for d in changes if d.mode is Mode.ACT)
        self._history: deque[Observation] = deque()
        self._times_of_last_pass: list[StageTime] = []
        self._exactness = ExactnessWatch()
        self._has_looked = False
        self._run_latency = RunLatency()
        self._next_latency = float("-inf")
        self._clock_steps = ClockSteps()
        self._reported_at: float | None = None
        """By the clock that nobody sets."""
        self._restore_latency(since)
        self._subscribe()

    @property
    def operator(self) -> str:
        """Whose control this is."""
        return self.monitor.operator

    def run_once(self, now: float, monotonic: float | None = None) -> CycleReport:
        """One pass. Raises PenstockError when the operator cannot be reached; then nothing was changed.

        Parameters
        ----------
        now
            The present instant by the wall clock: all records of the pass have it.
        monotonic
            The same by a clock that nobody sets: what is due follows it. None: the wall clock is never set (a
            simulation).
        """
        steady = now if monotonic is None else monotonic
        times: list[StageTime] = []
        self._follow_clock(now, steady)
        crash_point("pass-begun")
        if (why := self._reconciler.hear()) is not None:
            # What is true is not known before the answer. And nothing is waited for: the others are to have their turn.
            raise ActuationError(why, target=self.operator, retryable=True)
        with _timed("collect", now, times):
            telemetry = self._source.collect()
        crash_point("collected")
        narrower = (self._take_room(telemetry.room), self._take_shares(telemetry.why_no_shares))
        with _timed("observe", now, times):
            outcomes = self._reconciler.sync(telemetry, now, steady)
            crash_point("synced")
            look = self.monitor.look(telemetry, now, self._reconciler.state)
        crash_point("looked")
        observation = look.observation
        self._history.append(observation)
        self._forget(now)
        report = CycleReport(
            observation,
            outcomes=outcomes,
            stage_times=times,
            batches=telemetry.batches,
            run_latency=self._run_latency,
            exactness=self._exactness.take(observation),
            notes=tuple(note for note in narrower if note is not None),
            passed_seconds=None if self._reported_at is None else steady - self._reported_at,
        )
        with _timed("plan", now, times):
            self._consult(report, look, now, steady)
        crash_point("planned")
        with _timed("remember", now, times):
            # Before acting: what cannot be kept with its reason is not done.
            self._remember_decision(report)
        crash_point("decision-kept")
        with _timed("act", now, times):
            self._act(report, now, steady)
            if report.action is not None:
                crash_point("acted")
            self._remember_action(report, steady)
        crash_point("pass-ended")
        self._log(report)
        self._reported_at = steady
        return report

    def begin(self) -> None:
        """Let the source measure already, where it can: the next pass then finds its answer."""
        if isinstance(self._source, PatientSource):
            self._source.begin()

    def let_go(self) -> None:
        """Drop the plan: somebody else has changed what the operator has, and planning goes on from that."""
        self._reconciler.let_go()

    @property
    def policy(self) -> Policy:
        """Which policy decides."""
        return self._policy

    @property
    def mode(self) -> Mode:
        """Whether decisions are carried out, as the settings say."""
        return self._mode

    @property
    def current(self) -> Allocation | None:
        """What planning starts from; None: that is not known."""
        return self._reconciler.current

    @property
    def state(self) -> ClusterState:
        """What is planned, was asked for, and is there."""
        return self._reconciler.state

    def try_policy(self, policy: Policy) -> Decision | None:
        """Ask a policy about what was last seen, without consequences; None: nothing was seen yet.

        Raises
        ------
        ConfigurationError
            It fails, or does not give a decision for this operator.
        """
        current = self._reconciler.current
        if not self._history or current is None:
            return None
        request = self._request(self._history[-1], current, self._history[-1].at)
        try:
            return self._guarded(decision_of(policy, request), request, self._steering)
        except PolicyError as fault:
            raise ConfigurationError(str(fault), field="policy") from fault

    def replace_policy(self, policy: Policy, now: float, *, forget: bool = False) -> None:
        """Let another policy decide from now on, and keep that with the decisions; the caller closes the old one.

        With `forget`, it is shown nothing of what was seen before.
        """
        before, self._policy = self._policy, policy
        self._watching = policy if isinstance(policy, WatchingPolicy) else None
        self._looking_back = policy if isinstance(policy, LookingBackPolicy) else None
        self._next_plan = float("-inf")
        self._subscribe()
        if forget:
            self._history.clear()
        current = self._reconciler.current
        if current is not None:
            reason = f"the policy is {policy.name} from now on, instead of {before.name}"
            if forget:
                reason = f"the policy {policy.name} begins anew, without what it had learnt"
            self._store.add_decision(
                Decision(self.operator, now, policy.name, current, current, reason, mode=self._mode)
            )

    def release(self) -> None:
        """Put everything back as it was."""
        try:
            if self._watching is not None:
                self._watching.close()
        finally:
            self._reconciler.release()

    def _consult(self, report: CycleReport, look: Look, now: float, steady: float) -> None:
        """Show the policy what was seen, and ask it if it is time. A fault in it costs its decision, not the pass."""
        if self._watching is not None:
            try:
                report.notes += notes_of(self._watching, look)
            except PolicyError as fault:
                report.fault = fault
        self._follow_orders(steady)
        current = self._reconciler.current
        if steady < self._next_plan or current is None:
            return
        self._next_plan = steady + self._policy.every_seconds
        request = self._request(report.observation, current, now)
        ordered = ordered_decision(self._steering, request, self._mode)
        if ordered is not None:
            report.decision = ordered
            return
        if report.fault is None:
            try:
                report.decision = self._guarded(decision_of(self._policy, request), request, self._steering)
                return
            except PolicyError as fault:
                report.fault = fault
        # Also where it missed a look: what it would say now rests on something else than what was seen.
        reason = f"holding: {report.fault}"
        report.decision = Decision(self.operator, now, self._policy.name, current, current, reason, mode=self._mode)

    def _subscribe(self) -> None:
        """Have those metrics measured that the policy reads and that nobody measures unasked."""
        if isinstance(self._source, SubscribableSource):
            wanted = self._policy.metrics if isinstance(self._policy, SubscribingPolicy) else ()
            self._source.subscribe(reported_of(wanted), max(_LEAST_REPORT_SECONDS, self._policy.every_seconds))

    def _follow_orders(self, steady: float) -> None:
        """Where orders have changed, or the time of one is over, decide at once."""
        steering = NOTHING_ORDERED if self._orders is None else self._orders.in_force(self.operator, steady)
        if steering != self._steering:
            self._steering = steering
            self._next_plan = float("-inf")

    def _guarded(self, decision: Decision, request: PlanRequest, steering: OperatorSteering) -> Decision:
        """The policy's decision as guards and orders let it stand."""
        is_act = self._mode is Mode.ACT and steering.mode is not SteeredMode.RECOMMEND
        decision = replace(decision, mode=Mode.ACT if is_act else Mode.RECOMMEND)
        return apply_guards(decision, request, (*self._guards, *one_way(steering)))

    def _follow_clock(self, now: float, steady: float) -> None:
        """Where the wall clock was set, move what is remembered with it: how long ago it was has not changed.

        The store keeps every record with the instant that the clock showed then.
        """
        step = self._clock_steps.take(now, steady)
        if step == 0.0:
            return
        _LOG.warning("%s: the clock was set by %+.0f s; what is due stays due", self.operator, step)
        self._history = deque(replace(seen, at=seen.at + step) for seen in self._history)
        self._recent = deque(replace(change, at=change.at + step) for change in self._recent)
        self.monitor.clock_was_set(step)

    def _forget(self, now: float) -> None:
        """Let go of what is beyond the usual number, and older than the policy asks for."""
        asking = self._looking_back
        kept: tuple[tuple[deque[Any], int, float], ...] = (
            (self._history, _OBSERVATIONS_KEPT, 0.0 if asking is None else asking.history_seconds),
            (self._recent, _RECENT_CHANGES, 0.0 if asking is None else asking.changes_seconds),
        )
        for past, number, seconds in kept:
            # Also what a clock that was set back has left in the future goes.
            while len(past) > number and abs(now - past[0].at) > seconds:
                past.popleft()

    def _request(self, observation: Observation, current: Allocation, now: float) -> PlanRequest:
        recent, history = tuple(self._recent), tuple(self._history)
        return PlanRequest(
            self.operator,
            now,
            observation,
            current,
            self.limits.within(self._room, current.executors, can_share=self._why_no_shares is None),
            self.objective,
            recent=recent,
            history=history,
        )

    def _take_room(self, room: ExecutorRoom | None) -> str | None:
        """Plan for what the cluster can give, and say so once where that is less than is allowed."""
        before, self._room = self._room, room
        most = self.limits.within(room).max_executors
        if room is None or most == self.limits.max_executors:
            return None
        is_known = before is not None and (before.reason, self.limits.within(before).max_executors) == (
            room.reason,
            most,
        )
        return None if is_known else less_room(room, self.limits.max_executors)

    def _take_shares(self, why_none: str | None) -> str | None:
        """Plan without CPU shares while executors cannot be held to one, and say so once."""
        before, self._why_no_shares = self._why_no_shares, why_none
        if self.limits.cpu_shares == (1.0,) or (before is None) == (why_none is None):
            return None
        if why_none is None:
            return "all executors can be held to a CPU share again: they are planned with CPU shares"
        return f"executors are planned without CPU shares: {why_none}"

    def _act(self, report: CycleReport, now: float, steady: float) -> None:
        if self._mode is not Mode.ACT:
            return
        decision = report.decision
        if decision is not None and decision.is_change and decision.mode is Mode.ACT:
            self._recent.append(decision)
            report.action, ended = self._reconciler.start(decision, now, steady)
            report.outcomes += ended
        elif (healed := self._reconciler.heal(now, steady)) is not None:
            report.action, ended = healed
            report.outcomes += ended

    def _remember_decision(self, report: CycleReport) -> None:
        self._store.add_observation(report.observation)
        crash_point("observation-kept")
        if report.decision is not None:
            self._store.add_decision(report.decision)

    def _remember_action(self, report: CycleReport, steady: float) -> None:
        if report.action is not None:
            self._store.add_action(report.action)
            crash_point("action-kept")
        for outcome in report.outcomes:
            self._store.add_outcome(outcome)
            crash_point("outcome-kept")
        self._remember_latency(report, steady)
        # One pass late, so that the time of this step is among them.
        self._store.add_stage_times(self._times_of_last_pass)
        self._times_of_last_pass = report.stage_times

    def _remember_latency(self, report: CycleReport, steady: float) -> None:
        now, path = report.observation.at, self.monitor.path
        if steady < self._next_latency:
            return
        self._next_latency = steady + _LATENCY_EVERY_SECONDS
        self._run_latency = report.run_latency = self.monitor.run_latency()
        followed = None if path is None else path.run_latency()
        kept = {name: None if run is None else json.loads(encode(run))
                for name, run in (("operator", self._run_latency), ("path", followed))}  # fmt: skip
        counts = self.monitor.plain() if self._may_be_continued else None
        self._store.set_fact(latency_fact(self.operator), json.dumps({"at": now, **kept, "counts": counts}))

    def _restore_latency(self, since: float) -> None:
        """Go on counting latency from where the controller before was when it last kept it."""
        text = self._store.fact(latency_fact(self.operator))
        if text is None:
            return
        try:
            kept = json.loads(text)
            if kept["at"] >= since and kept.get("counts") is not None:  # else of a run before, or of an older version
                self.monitor.restore(kept["counts"])
                self._run_latency = self.monitor.run_latency()
        except (ValueError, KeyError, TypeError) as fault:
            _LOG.warning("%s: the latency before is not known, and is counted anew: %s", self.operator, fault)

    def _log(self, report: CycleReport) -> None:
        """One line for each event, with the instant that the store keeps for it."""
        decision, lost = report.decision, report.exactness
        if not self._has_looked:
            self._has_looked = True
            _say(logging.INFO, report.observation.at, f"{self.operator}: first look")
        if decision is not None and decision.is_change:
            verb = decision.verb if decision.mode is Mode.ACT else f"recommended: {decision.verb}"
            _say(logging.INFO, decision.at, f"{self.operator}: {verb}: {decision.change_text}: {decision.reason}")
        for outcome in report.outcomes:
            is_bad, detail = outcome.status is OutcomeStatus.FAILED, f": {outcome.detail}" if outcome.detail else ""
            text = f"{self.operator}: {outcome.status} after {outcome.after_seconds:.1f} s{detail}"
            _say(logging.WARNING if is_bad else logging.INFO, outcome.at, text)
        if lost is not None:
            # A source that never says when its records arrive is no surprise; losing what was there is one.
            is_bad = lost.was_known and not lost.is_exact
            _say(logging.WARNING if is_bad else logging.INFO, lost.at, str(lost))


def less_room(room: ExecutorRoom, allowed: int) -> str:
    """Return the line for the user where the cluster gives less than is allowed."""
    most = f"{room.executors} {'executor' if room.executors == 1 else 'executors'}"
    return f"the cluster gives at most {most} now, and {allowed} are allowed: {room.reason}"


def latency_fact(operator: str) -> str:
    """The name under which a store keeps an operator's latency since the start."""
    return f"latency of {operator}"


def _say(level: int, at: float, text: str) -> None:
    # `at` is when it happened: a log that knows it shows that, and not the instant of writing.
    _LOG.log(level, "%s", text, extra={"at": at})


@contextmanager
def _timed(stage: str, now: float, into: list[StageTime]) -> Iterator[None]:
    elapsed = stopwatch()
    yield
    into.append(StageTime(now, stage, elapsed()))
