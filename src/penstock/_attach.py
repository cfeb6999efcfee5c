# SPDX-License-Identifier: Apache-2.0
"""Three lines in somebody's own job: the loop inside the driver of a query that already runs."""

from __future__ import annotations

import logging
import threading
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from penstock._wiring import (
    LoopSettings,
    fitting_limits,
    hold_query,
    ignored_objective,
    make_cycle,
    objective_out_of_reach,
)
from penstock.clock import SystemClock
from penstock.errors import ConfigurationError
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.run_facts import begin_run
from penstock.knowledge.sqlite import SqliteStore
from penstock.loop import Cycle, CycleReport, Runner
from penstock.policies import default_policy, make_policy
from penstock.ports import ArrivalTimes, KnowledgeStore, OperatorSite, Policy, PolicyContext
from penstock.records import Decision, LatencySummary, Limits, Objective, Observation
from penstock.settings import GuardSettings, mode_of
from penstock.topology import Topology

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.adaptors.query_arrivals import FoundArrivals
    from penstock.adaptors.spark.query_facts import QueryFacts

_LOG = logging.getLogger(__name__)
_DECISIONS_SHOWN = 10_000
_POLICY_NOTES = 20
"""How many different notes of a policy are kept."""


def attach(
    query: StreamingQuery,
    *,
    objective: Objective | None = None,
    executors: tuple[int, int] = (1, 1),
    cpu_shares: tuple[float, ...] = (1.0,),
    mode: str = "recommend",
    policy: str | Policy | None = None,
    policy_options: dict[str, Any] | None = None,
    guards: dict[str, Any] | None = None,
    name: str | None = None,
    arrivals: ArrivalTimes | Literal["interpolated"] | None = None,
    interval_seconds: float = 1.0,
    window_seconds: float = 15.0,
    warm_up_seconds: float = 15.0,
    store: str | Path | None = None,
) -> Scaler:
    """Watch a running query, and (mode ``"act"``) keep it inside its objective with the least resources.

    The query is never stopped, and a fault of Penstock never reaches it. Use the result in a ``with`` statement,
    or call its `detach`: everything is then as it was.

    Parameters
    ----------
    query
        A streaming query started in this process by plain PySpark code, on any master.
    objective
        ``latency(p95="2s")`` or ``keep_up()``; default: keep up.
    executors
        Fewest and most executors. On a standalone cluster ``spark.cores.max`` bounds what the master gives.
    cpu_shares
        Allowed CPU shares per executor, rising; the default leaves the CPU alone. Needs the executors on this host
        and the rights for cgroups; without them executors alone are scaled.
    mode
        ``"recommend"`` (default) decides and reports; ``"act"`` carries it out.
    policy, policy_options, guards
        Which policy decides: a name with its options, or an object of your own (docs/how-to/write-a-policy.md). By
        default one that plans for the objective. And the guards' settings (docs/reference/settings.md).
    name
        The operator's name in decisions; default: the query's name.
    arrivals
        When the source's records arrived. By default Penstock finds out what the query reads: the replay source is
        known exactly, and Kafka's topics are tapped. Of other sources, and with ``"interpolated"`` of all, arrival
        times are interpolated between batches.
    interval_seconds, window_seconds, warm_up_seconds
        How often to look; what rates and latencies are taken over; how long to watch before deciding.
    store
        File to keep observations and decisions in (SQLite), one for each query; default: memory. In a file that was
        used before, a new run begins: what it remembers of earlier ones is not shown.

    Raises
    ------
    ConfigurationError
        An argument is wrong, or the query has no driver in this process; nothing was changed.
    """
    limits = _limits(executors, cpu_shares)
    _check_seconds("interval_seconds", interval_seconds, least=0.1)
    _check_seconds("window_seconds", window_seconds, least=0.1)
    _check_seconds("warm_up_seconds", warm_up_seconds, least=0.0)
    if objective is not None and not isinstance(objective, Objective):
        raise ConfigurationError(f'objective: {objective!r} is none; write latency(p95="2s")', field="objective")
    if not hasattr(query, "isActive"):
        raise ConfigurationError(
            f"query: {query!r} is not a streaming query; give what start() returned", field="query"
        )
    facts = _facts(query)
    notes = list(facts.notes)
    if facts.is_real_time:
        limits = Limits(limits.max_executors, limits.max_executors, limits.cpu_shares[-1:])
        notes.append(f"in real-time mode the latency of records is not measured here; it is left at {limits.top}")
    if isinstance(arrivals, str) and arrivals != "interpolated":
        raise ConfigurationError(
            f'arrivals: {arrivals!r} is none; give an object, "interpolated", or leave it out', field="arrivals"
        )
    settings = LoopSettings(
        limits=limits,
        objective=objective or Objective(),
        mode=mode_of(mode),
        guards=_guards(guards),
        window_seconds=window_seconds,
        warm_up_seconds=warm_up_seconds,
    )
    operator = name or query.name or "query"
    chosen = default_policy([settings.objective]) if policy is None else policy
    # Before the query is touched, so that a wrong policy changes nothing.
    make_policy(chosen, _context(operator, limits, settings.objective, facts, interval_seconds), policy_options)
    with ExitStack() as undo:
        hold = hold_query(query, operator, limits, settings.mode)
        undo.callback(hold.close)
        kept: KnowledgeStore = MemoryStore() if store is None else SqliteStore(Path(store))
        undo.callback(kept.close)
        settings = replace(
            settings,
            limits=fitting_limits(limits, hold.actuator.can_set_cpu_share),
            cores_per_executor=hold.cores_per_executor,
        )
        made = make_policy(
            chosen, _context(operator, settings.limits, settings.objective, facts, interval_seconds), policy_options
        )
        found = _arrivals(arrivals, facts)
        undo.callback(found.close)
        known = _run_settings(query, operator, settings, {"name": made.name, "options": _plain(policy_options or {})})
        since = begin_run(kept, known, SystemClock().now())
        cycle = make_cycle(
            operator,
            settings,
            policy=made,
            source=hold.probe,
            actuator=hold.actuator,
            arrival_times=found.times,
            store=kept,
            record_latencies=_NotMeasured() if facts.is_real_time else None,
            since=since,
        )
        let_go = undo.pop_all()
    for line in (
        ignored_objective(made, [settings.objective]),
        objective_out_of_reach(settings.objective, facts.trigger_seconds),
    ):
        if line is not None:
            notes.append(line)
    for note in notes:
        _LOG.warning("%s: %s", operator, note)
    if found.note is not None:
        _LOG.info("%s: %s", operator, found.note)
        notes.append(found.note)
    return Scaler(
        cycle, let_go, kept, interval_seconds=interval_seconds, notes=(*hold.notes, *notes), facts=facts, since=since
    )


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
    ) -> None:
        self._notes = notes
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
        self._lock = threading.Lock()
        self._runner = Runner([cycle], SystemClock(), interval_seconds=interval_seconds, on_report=self._take)
        self._runner.start()

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
        """Record latency since attaching."""
        return self._cycle.monitor.latency_of_run()

    @property
    def faults(self) -> int:
        """How many passes failed; the query did not notice."""
        return self._runner.faults

    def replace_policy(self, policy: str | Policy, policy_options: dict[str, Any] | None = None) -> None:
        """Let another policy decide from the next pass on.

        Raises
        ------
        ConfigurationError
            It cannot be built, or fails on what was last seen; the one before goes on.
        """
        cycle = self._cycle
        context = _context(cycle.operator, cycle.limits, cycle.objective, self._facts, self._interval_seconds)
        made = make_policy(policy, context, policy_options)
        self._runner.replace_policy(made)
        self._broken = None

    def detach(self) -> None:
        """Stop watching and put executors and CPU shares back; the query runs on. May be called twice."""
        with self._lock:
            if self._final_decisions is not None:
                return
            self._runner.stop()
            self._final_decisions = self._decisions()
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

    def _take(self, report: CycleReport) -> None:
        self._observation = report.observation
        for note in report.notes:
            if note not in self._policy_notes:
                _LOG.warning("%s: %s", self._cycle.operator, note)
                self._policy_notes = (*self._policy_notes, note)[-_POLICY_NOTES:]
        decision = report.decision
        if decision is None or decision.prediction is None:
            return
        before, self._broken = self._broken, None
        if not decision.prediction.is_met:
            change = "allow more executors or CPU, or set a larger bound"
            self._broken = f"{self._cycle.objective} is not kept by the plan: {decision.reason}; {change}"
            if before is None:
                _LOG.warning("%s: %s", self._cycle.operator, self._broken)


def _run_settings(
    query: StreamingQuery, operator: str, settings: LoopSettings, policy: dict[str, Any]
) -> dict[str, Any]:
    """The run as its store keeps it: the part of a run's settings that an attached query has."""
    limits, objective, guards = settings.limits, settings.objective, settings.guards
    return {
        "name": operator,
        "mode": str(settings.mode),
        "objective": {} if objective.statistic is None else {objective.statistic: objective.seconds},
        "operators": [
            {
                "name": operator,
                "executors": [limits.min_executors, limits.max_executors],
                "cpu_shares": list(limits.cpu_shares),
            }
        ],
        "policy": policy,
        "guards": None if guards is None else guards.model_dump(mode="json"),
        "query_run": str(query.runId),
    }


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Options as they are kept with the run; a list of rules by their text."""
    kinds = (bool, int, float, str)
    if not isinstance(options.get("rules"), (*kinds, Path, type(None))):
        from penstock.rules import rules
        from penstock.rules.to_text import to_text

        options = {**options, "rules": to_text(rules(options["rules"]))}
    return {name: value if value is None or isinstance(value, kinds) else str(value) for name, value in options.items()}


class _NotMeasured:
    """The latency of a query in real-time mode: its batches do not show it (`ports.RecordLatencies`)."""

    def window(self, now: float) -> LatencySummary | None:  # noqa: ARG002
        return None

    def whole(self) -> LatencySummary | None:
        return None


def _facts(query: StreamingQuery) -> QueryFacts:
    from penstock.adaptors.spark.query_facts import read_query_facts

    return read_query_facts(query)


def _arrivals(given: ArrivalTimes | Literal["interpolated"] | None, facts: QueryFacts) -> FoundArrivals:
    from penstock.adaptors.query_arrivals import FoundArrivals, find_arrivals

    if given == "interpolated" or facts.is_real_time:
        return FoundArrivals()
    return find_arrivals(facts.sources) if given is None else FoundArrivals(given)


def _context(
    operator: str, limits: Limits, objective: Objective, facts: QueryFacts, interval_seconds: float
) -> PolicyContext:
    site = OperatorSite(limits, facts.trigger_seconds, facts.cap, is_real_time=facts.is_real_time)
    return PolicyContext(
        Topology.of_one(operator), {operator: site}, {(operator,): objective}, interval_seconds=interval_seconds
    )


def _limits(executors: Any, cpu_shares: Any) -> Limits:
    try:
        lowest, highest = executors
        shares = tuple(float(share) for share in cpu_shares)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"executors, cpu_shares: {executors!r}, {cpu_shares!r}; write them like (1, 8) and (0.5, 1.0)",
            field="executors",
        ) from None
    if type(lowest) is not int or type(highest) is not int:
        raise ConfigurationError(f"executors: {executors!r} must be two whole numbers, (min, max)", field="executors")
    return Limits(lowest, highest, shares)


def _check_seconds(field: str, value: Any, *, least: float) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not least <= value < float("inf"):
        raise ConfigurationError(f"{field}: {value!r} must be a number of seconds, at least {least:g}", field=field)


def _guards(given: dict[str, Any] | None) -> GuardSettings:
    from pydantic import ValidationError

    try:
        return GuardSettings.model_validate(given or {})
    except ValidationError as fault:
        faults = [f"guards.{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in fault.errors()]
        raise ConfigurationError.of_all("guards", faults) from fault
