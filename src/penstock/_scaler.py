# SPDX-License-Identifier: Apache-2.0
"""A query under watch, as `attach` returns it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from penstock._attach_arguments import check_options
from penstock._pass_watch import PassWatch
from penstock._wiring import LoopSettings
from penstock.account import OperatorAccount, PathOutcome, RunSummary
from penstock.clock import SystemClock
from penstock.errors import PenstockError
from penstock.knowledge.notebook import StoreNotebook
from penstock.knowledge.run_facts import SUMMARY, change_settings
from penstock.knowledge.run_notes import RunNotes
from penstock.loop import Cycle, CycleReport, Helm, Orders, Runner
from penstock.money import Cost, CostBasis
from penstock.policies import make_policy
from penstock.ports import KnowledgeStore, OperatorSite, Policy, PolicyContext
from penstock.records import Decision, LatencySummary, Limits, Mode, Objective, Observation, RunLatency
from penstock.steering import AuditEntry, OperatorSteering, PolicyChoice, SteeredMode
from penstock.stores import StorePlace, shown_place
from penstock.topology import Topology

if TYPE_CHECKING:
    from penstock.adaptors.spark.query_facts import QueryFacts

_LOG = logging.getLogger(__name__)
_DECISIONS_SHOWN = 10_000
_THE_JOB = "the job"
"""Who steers a query where its own code does."""
_POLICY_NOTES = 20
"""How many different notes of a policy are kept."""


class Scaler:
    """A query under watch. `decisions`, `observation` and `latency` say how it goes; `detach` ends it."""

    def __init__(
        self,
        cycle: Cycle,
        let_go: ExitStack,
        store: KnowledgeStore,
        *,
        interval_seconds: float,
        notes: tuple[str, ...],
        facts: QueryFacts,
        since: float,
        settings: LoopSettings,
        store_place: StorePlace | None,
        orders: Orders,
        open_shares: Callable[[], None],
        basis: CostBasis | None = None,
    ) -> None:
        self._watch = PassWatch(cycle.operator, interval_seconds, open_shares)
        self._notes = notes
        self._kept_notes = RunNotes(store, SystemClock().now, since=since)
        for note in notes:
            self._kept_notes.add(cycle.operator, note)
        self._settings = settings
        self._store_place = store_place
        self._account = OperatorAccount()
        self._basis = basis
        self._policy_notes: tuple[str, ...] = ()
        self._broken: str | None = None
        """Why the newest plan does not keep the objective; None: it does, or there is none."""
        self._cycle = cycle
        self._let_go = let_go
        self._store = store
        self._facts = facts
        self._interval_seconds = interval_seconds
        self._since = since
        self._observation: Observation | None = None
        self._final_decisions: list[Decision] | None = None
        self._final_audit: list[AuditEntry] | None = None
        self._lock = threading.Lock()
        self._runner = Runner([cycle], SystemClock(), interval_seconds=interval_seconds, on_report=self._take)
        self._helm = Helm({cycle.operator: cycle}, self._runner, orders, store, SystemClock(), build=self._build)
        self._runner.start()
        if settings.mode is Mode.ACT:
            self._watch.start()

    @property
    def notes(self) -> tuple[str, ...]:
        """What you should know, a line each. Notes of the policy and its plans come as the query runs."""
        return (*self._notes, *self._policy_notes, *([] if self._broken is None else [self._broken]))

    @property
    def decisions(self) -> list[Decision]:
        """The newest 10,000 decisions, holds included, oldest first; each explains itself by `explain()`."""
        return self._decisions() if self._final_decisions is None else self._final_decisions

    @property
    def observation(self) -> Observation | None:
        """The newest picture of the query; None before the first look."""
        return self._observation

    @property
    def latency(self) -> LatencySummary | None:
        """Record latency since attaching, or since the run began that the store goes on with."""
        return self._cycle.monitor.latency_of_run()

    @property
    def run_latency(self) -> RunLatency:
        """The same with the records of the start-up apart."""
        return self._cycle.monitor.run_latency()

    @property
    def cost(self) -> Cost | None:
        """What the query has cost since attaching, and what the top allocation would have; None: no price is known."""
        return self._account.cost(self._basis)

    @property
    def faults(self) -> int:
        """How many passes failed; the query did not notice."""
        return self._runner.faults

    @property
    def missed_turns(self) -> int:
        """How many passes fell out because the one before took longer than the interval."""
        return self._runner.missed_turns

    def replace_policy(
        self,
        policy: str | Policy,
        policy_options: dict[str, Any] | None = None,
        *,
        by: str = _THE_JOB,
        reason: str = "",
    ) -> None:
        """Let another policy decide from the next pass on; the one before is kept for `roll_back_policy`.

        Raises
        ------
        ConfigurationError
            It cannot be built, or fails on what was last seen; the one before goes on.
        SteeringError
            The query was detached.
        """
        check_options(policy_options)
        made = make_policy(policy, self._context, policy_options)
        choice = PolicyChoice(**policy_fact(made, policy_options), is_object=not isinstance(policy, str))
        self._helm.replace_policy(choice, by=by, reason=reason, policy=made)
        self._keep(choice)

    def roll_back_policy(self, *, by: str = _THE_JOB, reason: str = "") -> None:
        """Let the policy before decide again, with nothing learnt.

        Raises
        ------
        SteeringError
            There was none, or it was an object of your own.
        """
        self._keep(self._helm.roll_back(by=by, reason=reason).choice)

    def reset_policy(self, *, by: str = _THE_JOB, reason: str = "") -> None:
        """Let the policy forget what it has learnt.

        Raises
        ------
        SteeringError
            It is an object of your own, which cannot be built again.
        """
        self._helm.reset(by=by, reason=reason)

    def pause(self, *, by: str = _THE_JOB, reason: str = "") -> None:
        """Watch, and decide nothing until `resume`."""
        self._helm.pause(by=by, reason=reason)

    def resume(self, *, by: str = _THE_JOB, reason: str = "") -> None:
        """Lift a pause, and end a held size."""
        self._helm.resume(by=by, reason=reason)

    def set_mode(self, mode: SteeredMode | str, *, by: str = _THE_JOB, reason: str = "") -> None:
        """Let the policy do all (``"automatic"``), ``"scale-in-only"``, ``"scale-out-only"`` or ``"recommend"``.

        Raises
        ------
        ConfigurationError
            There is no such mode.
        """
        self._helm.set_mode(mode, by=by, reason=reason)

    def hold_size(
        self,
        executors: int,
        cpu_share: float | None = None,
        *,
        for_seconds: float,
        by: str = _THE_JOB,
        reason: str = "",
    ) -> None:
        """Hold a size for a time; then the policy goes on. Without a share, it is the largest that is allowed.

        Raises
        ------
        ConfigurationError
            The size is outside the limits, or the time is wrong.
        SteeringError
            The mode is ``"recommend"``.
        """
        self._helm.hold_size(executors, cpu_share, for_seconds=for_seconds, by=by, reason=reason)

    @property
    def steering(self) -> OperatorSteering:
        """The orders that are in force: pause, mode and held size."""
        return self._helm.state.of(self._cycle.operator)

    @property
    def audit(self) -> list[AuditEntry]:
        """The newest 1,000 orders of this run, oldest first: who, when, what, before and after."""
        return self._final_audit if self._final_audit is not None else self._store.audit(since=self._since)

    @property
    def _context(self) -> PolicyContext:
        cycle = self._cycle
        return policy_context_of(
            cycle.operator, cycle.limits, cycle.objective, self._facts, self._interval_seconds, store=self._store
        )

    def _build(self, choice: PolicyChoice) -> Policy:
        return make_policy(choice.name, self._context, choice.all_options)

    def _keep(self, choice: PolicyChoice) -> None:
        """Keep the policy that decides with the settings of the run."""
        self._broken = None
        try:
            change_settings(self._store, {"policy": {"name": choice.name, "options": dict(choice.options)}})
        except PenstockError:  # it decides from now on, though that could not be kept
            _LOG.exception("%s: the change of policy was not kept in the settings of the run", self._cycle.operator)

    def detach(self) -> None:
        """Stop watching and put executors and CPU shares back; the query runs on. May be called twice."""
        with self._lock:
            if self._final_decisions is not None:
                return
            self._watch.stop()
            self._runner.stop()
            self._final_decisions = self._decisions()
            self._final_audit = self.audit
            try:
                self._store.set_fact(SUMMARY, json.dumps(self._summary().to_json()))
            except PenstockError:
                _LOG.exception("what the run came to could not be kept")
            try:
                self._let_go.close()  # one part that cannot let go does not keep the others from it
            except Exception:
                _LOG.exception("detaching failed in part")

    def __enter__(self) -> Scaler:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()

    def _decisions(self) -> list[Decision]:
        return self._store.decisions(self._cycle.operator, since=self._since, limit=_DECISIONS_SHOWN)

    def _summary(self) -> RunSummary:
        """What the run came to, as `penstock run` keeps it."""
        cycle, account, seen = self._cycle, self._account, self._observation
        return RunSummary(
            name=cycle.operator,
            folder="" if self._store_place is None else shown_place(self._store_place),
            mode=str(self._settings.mode),
            started_at=self._since,
            ended_at=SystemClock().now(),
            paths=(PathOutcome.of((cycle.operator,), cycle.objective, self.run_latency),),
            records_due=None if seen is None else seen.records_arrived,
            records_read=None,
            records_done=None if seen is None else seen.records_done,
            executor_seconds=account.executor_seconds,
            capacity_seconds=account.share_seconds,
            static_capacity_seconds=account.observed_seconds * self._settings.limits.top.capacity,
            decisions=tuple(account.decisions),
            faults=self.faults,
            missed_turns=self.missed_turns,
            cost=self.cost,
        )

    def _take(self, report: CycleReport) -> None:
        self._watch.passed()
        self._observation = report.observation
        self._account.add(report)
        self._helm.end_sizes()
        for note in report.notes:
            if note not in self._policy_notes:
                self._say(note)
                self._policy_notes = (*self._policy_notes, note)[-_POLICY_NOTES:]
        decision = report.decision
        if decision is None or decision.prediction is None:
            return
        before, self._broken = self._broken, None
        if not decision.prediction.is_met:
            change = "allow more executors or CPU, or set a larger bound"
            self._broken = f"{self._cycle.objective} is not kept by the plan: {decision.reason}; {change}"
            if before is None:
                self._say(self._broken)

    def _say(self, note: str) -> None:
        _LOG.warning("%s: %s", self._cycle.operator, note)
        self._kept_notes.add(self._cycle.operator, note)


def policy_fact(policy: Policy, options: dict[str, Any] | None) -> dict[str, Any]:
    """The policy as the settings of a run name it."""
    return {"name": policy.name, "options": _plain(options or {})}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as they are kept with the run; a list of rules by their text."""
    kinds = (bool, int, float, str)
    if not isinstance(options.get("rules"), (*kinds, Path, type(None))):
        from penstock.rules import rules
        from penstock.rules.to_text import to_text

        options = {**options, "rules": to_text(rules(options["rules"]))}
    return {name: value if value is None or isinstance(value, kinds) else str(value) for name, value in options.items()}


def policy_context_of(
    operator: str,
    limits: Limits,
    objective: Objective,
    facts: QueryFacts,
    interval_seconds: float,
    *,
    store: KnowledgeStore | None = None,
) -> PolicyContext:
    """The one query as a policy is introduced to it, with what those before it have learnt."""
    site = OperatorSite(limits, facts.trigger_seconds, facts.cap, is_real_time=facts.is_real_time, query=facts.plan)
    return PolicyContext(
        Topology.of_one(operator),
        {operator: site},
        {(operator,): objective},
        interval_seconds=interval_seconds,
        # Without a plan to know it by, it might be another query.
        notebook=StoreNotebook(store) if store is not None and facts.plan else None,
    )
