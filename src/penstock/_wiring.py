# SPDX-License-Identifier: Apache-2.0
"""The parts that every wiring shares: a cycle out of settings, and the near side of a running query."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError, MetricSourceError
from penstock.execute import Reconciler
from penstock.loop import Cycle, Orders
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.plan.guards import guards_as_set
from penstock.policies import reads_objective
from penstock.ports import Actuator, ArrivalTimes, Guard, KnowledgeStore, MetricSource, Policy, RecordLatencies
from penstock.records import Allocation, ExecutorState, Limits, Mode, Objective
from penstock.settings import GuardSettings
from penstock.topology import Path, path_text
from penstock.units import format_seconds

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.adaptors.agent.meters import Meters
    from penstock.adaptors.spark.actuator import SparkActuator
    from penstock.adaptors.spark.query_probe import QueryProbe

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """What the loop of one operator needs to know."""

    limits: Limits
    objective: Objective
    mode: Mode
    guards: GuardSettings | None
    window_seconds: float = 15.0
    warm_up_seconds: float = 15.0
    cores_per_executor: int = 1
    """Of the operator's own size."""
    restart_seconds: float = 420.0
    """How long a restart with another size may take."""
    change_seconds: float = 90.0
    """How long any other change may take."""
    begin: Allocation | None = None
    """What the operator begins with; None: what it has."""


def ignored_objective(policy: Policy, objectives: Iterable[Objective]) -> str | None:
    """One line for the user where a bound is given and the policy does not look at it; None: all is well."""
    return None if reads_objective(policy) else objective_not_read(policy.name, objectives)


def objective_not_read(policy: str, objectives: Iterable[Objective]) -> str | None:
    """The line about a policy that reads no objective; None where there is no bound that it could read."""
    wanted = next((objective for objective in objectives if objective.seconds is not None), None)
    if wanted is None:
        return None
    return f"the policy {policy} does not look at the objective ({wanted}); name no policy to get one that plans for it"


_WAITED = {"mean": 0.5, "p50": 0.5, "p95": 0.95, "p99": 0.99}
"""By statistic: the part of a trigger interval that records wait for it, when they arrive evenly."""
_HARDLY = 0.1
"""The part of a trigger interval below which what is left for a batch is worth a word."""


def objective_out_of_reach(objective: Objective, trigger_seconds: float | None) -> str | None:
    """One line for the user where the wait for the trigger leaves no time for a batch; None: all is well."""
    statistic, bound = objective.statistic, objective.seconds
    if statistic is None or bound is None or trigger_seconds is None:
        return None
    least = _WAITED[statistic] * trigger_seconds
    left = bound - least
    if left >= _HARDLY * trigger_seconds:
        return None
    trigger, best = format_seconds(trigger_seconds), format_seconds(least)
    change = f"set a trigger well below {format_seconds(bound / _WAITED[statistic])}, or a bound well above {best}"
    if left <= 0:
        met = f"{objective} cannot be met with a trigger of {trigger}"
        return (
            f"{met}: records wait for it, so that {statistic} comes to {best} and the time of a batch at best; {change}"
        )
    met = f"{objective} can hardly be met with a trigger of {trigger}"
    return f"{met}: records wait for it, which leaves {format_seconds(left)} for a batch; {change}"


def objectives_out_of_reach(
    objectives: Mapping[Path, Objective], trigger_seconds: Mapping[str, float | None]
) -> dict[str, str]:
    """Such lines for a pipeline, by the operator whose trigger is to blame: of a path the one with the longest."""
    found: dict[str, str] = {}
    for path, objective in objectives.items():
        slowest = max(path, key=lambda name: trigger_seconds.get(name) or 0.0)
        line = objective_out_of_reach(objective, trigger_seconds.get(slowest))
        if line is not None:
            found.setdefault(slowest, line if len(path) == 1 else f"{path_text(path)}: {line}")
    return found


def make_cycle(
    operator: str,
    settings: LoopSettings,
    *,
    policy: Policy,
    source: MetricSource,
    actuator: Actuator,
    arrival_times: ArrivalTimes | None,
    store: KnowledgeStore,
    record_latencies: RecordLatencies | None = None,
    path: PathMonitor | None = None,
    since: float = 0.0,
    orders: Orders | None = None,
    first_guards: Sequence[Guard] = (),
) -> Cycle:
    """Wire one operator's cycle; what the store remembers from before `since` is another run's.

    `first_guards` come before those of the settings, and are there also where the settings have none.
    """
    return Cycle(
        source=source,
        monitor=Monitor(
            operator,
            arrival_times,
            window_seconds=settings.window_seconds,
            warm_up_seconds=settings.warm_up_seconds,
            record_latencies=record_latencies,
            path=path,
        ),
        policy=policy,
        guards=(*first_guards, *guards_as_set(settings.guards)),
        reconciler=Reconciler(
            operator,
            actuator,
            settings.limits,
            deadline_seconds=settings.change_seconds,
            restart_deadline_seconds=settings.restart_seconds,
            cores_per_executor=settings.cores_per_executor,
            planned=settings.begin,
        ),
        store=store,
        limits=settings.limits,
        objective=settings.objective,
        mode=settings.mode,
        since=since,
        orders=orders,
    )


def sendable_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """A policy's options for another host: rules by their text, also where they were the name of a file."""
    if not options or options.get("rules") is None:
        return dict(options or {})
    from penstock.rules.given import rules_given
    from penstock.rules.to_text import to_text

    return {**options, "rules": f"{to_text(rules_given(options['rules'])).rstrip()}\n"}


def fitting_limits(limits: Limits, can_set_cpu_share: bool) -> Limits:
    """The limits that can be acted on: without CPU shares only executors are scaled."""
    if can_set_cpu_share or limits.cpu_shares == (1.0,):
        return limits
    return replace(limits, cpu_shares=(1.0,))


@dataclass(slots=True)
class QueryHold:
    """The near side of a query in this process: its measurements, and the means to size it.

    `meters` are what can be measured besides, by subscription; `notes` are for the user, one line each; `close` puts
    everything back and leaves the query running.
    """

    probe: QueryProbe
    actuator: SparkActuator
    cores_per_executor: int | None
    """None: that is not known."""
    meters: Meters
    notes: tuple[str, ...]
    _let_go: Callable[[], None]

    def close(self) -> None:
        """Let go of the query: nothing listens, nothing is capped."""
        self.probe.close()
        self._let_go()


def hold_query(
    query: StreamingQuery, operator: str, limits: Limits, mode: Mode, *, has_master: bool = False
) -> QueryHold:
    """Take hold of a query that runs in this process; it is not touched until the first request.

    With `has_master` its executors are held on all hosts, by the agents that the master asks.
    """
    from penstock.adaptors.clusters import RunningApplication, cluster_of
    from penstock.adaptors.spark.actuator import SparkActuator
    from penstock.adaptors.spark.executors import ExecutorsByRest
    from penstock.adaptors.spark.meters import query_meters
    from penstock.adaptors.spark.query_probe import QueryProbe, executors_of_this_driver
    from penstock.adaptors.spark.scaling import ExecutorScaler

    context = query_context(query)
    of_driver = executors_of_this_driver()
    cores = _cores_per_executor(context, of_driver)
    cluster = cluster_of(RunningApplication(context, of_driver, cores))
    with ExitStack() as undo:  # where a later part fails, groups, guards and threads of the earlier ones do not stay
        undo.callback(cluster.close)
        if mode is Mode.ACT:
            cluster.hold(operator, limits, has_master=has_master)
        cluster.watch_room()
        scaler = ExecutorScaler(cluster, cluster.executors)
        unseen = unseen_executors(context) if isinstance(of_driver, ExecutorsByRest) else []
        notes = (*unseen, *cluster.notes)
        for note in notes:
            _LOG.warning("%s: %s", operator, note)
        actuator = SparkActuator(scaler)
        held = cluster.held

        seen: tuple[ExecutorState, ...] = ()

        def read_executors() -> tuple[ExecutorState, ...]:
            nonlocal seen
            seen = cluster.executors()
            return seen

        def unheld() -> str | None:
            return None if held.shares is None else held.shares.unheld(seen, time.time())

        def faults() -> tuple[str, ...]:
            others = unheld()
            return (*actuator.take_faults(), *cluster.faults, *(() if others is None else (others,)))

        meters = query_meters(query, context, of_driver.entries)
        probe = QueryProbe(
            query,
            operator,
            held.shares.read if held.shares is not None else None,
            read_executors=read_executors,
            draining=lambda: scaler.draining,
            other_faults=faults,
            refused=actuator.refused,
            room=cluster.room,
            share=lambda: held.share,
            why_no_shares=unheld,
        )
        release = undo.pop_all().close
    return QueryHold(probe, actuator, cores, meters, notes, release)


def metered(hold: QueryHold) -> MetricSource:
    """The query's measurements, with those that somebody subscribes to."""
    from penstock.adaptors.agent.metered_source import MeteredSource

    return MeteredSource(hold.probe, hold.meters)


def unseen_executors(context: SparkContext) -> list[str]:
    """Say in one line that nothing will be scaled, where Spark's web page is off: executors are seen through it."""
    if context.uiWebUrl is not None:
        return []
    return ["executors cannot be seen, so nothing is scaled: Spark's web page is off; set spark.ui.enabled=true"]


def _cores_per_executor(context: SparkContext, executors: Callable[[], tuple[ExecutorState, ...]]) -> int | None:
    """As configured, else as the executors that are there say: without a setting one takes all cores of its worker."""
    configured = context.getConf().get("spark.executor.cores")
    if configured is not None:
        return int(configured)
    try:
        return max((e.cores for e in executors()), default=0) or None
    except MetricSourceError:
        return None


def query_context(query: StreamingQuery) -> SparkContext:
    """The SparkContext a query of this process runs on."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or not hasattr(query, "_jsq"):
        raise ConfigurationError(
            "query: it has no driver in this process; attach inside the driver, "
            "with a session that was not made by remote()",
            field="query",
        )
    return context


def why_no_cpu_shares(master: str) -> str:
    """Why CPU shares of an operator on this master cannot be set, in one line, as far as can be seen from here."""
    from penstock.adaptors.cgroups import CgroupsUnavailableError, find_hierarchy
    from penstock.adaptors.cpu_shares import without_cpu_shares
    from penstock.adaptors.spark.master_address import KUBERNETES_PREFIX

    if master.startswith(KUBERNETES_PREFIX):
        return without_cpu_shares("the operator's log says what Kubernetes refuses, or what is missing")
    try:
        find_hierarchy()
    except CgroupsUnavailableError as fault:
        return without_cpu_shares(fault.reason)
    return without_cpu_shares("the operator could not make its control group; see its log")
