# SPDX-License-Identifier: Apache-2.0
"""Three lines in somebody's own job: the loop inside the driver of a query that already runs."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from penstock._attach_arguments import read_arguments
from penstock._master_scaler import MasterScaler, settings_for_master
from penstock._scaler import Scaler, policy_context_of, policy_fact
from penstock._wiring import (
    LoopSettings,
    QueryHold,
    fitting_limits,
    hold_query,
    ignored_objective,
    make_cycle,
    metered,
    objective_out_of_reach,
    sendable_options,
)
from penstock.adaptors.agent.master_address import MasterAddress, master_address
from penstock.clock import SystemClock
from penstock.errors import ConfigurationError, known_arguments
from penstock.knowledge.enduring import EnduringStore
from penstock.knowledge.memory import MemoryStore
from penstock.knowledge.run_facts import SUMMARY, begin_run
from penstock.loop import Cycle, Orders
from penstock.loop.kept_orders import first_state, kept_state
from penstock.money import CostBasis, Prices
from penstock.policies import default_policy, make_policy
from penstock.ports import ArrivalTimes, DoneRecords, KnowledgeStore, Policy
from penstock.records import LatencySummary, Limits, Objective
from penstock.settings import parse_settings
from penstock.settings.objectives import objective_settings
from penstock.settings.real_time import REALTIME
from penstock.steering import PolicyChoice
from penstock.stores import open_store

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.adaptors.query_arrivals import FoundArrivals
    from penstock.adaptors.spark.query_facts import QueryFacts

_LOG = logging.getLogger(__name__)


@overload
def attach(query: StreamingQuery, *, master: str | MasterAddress, **options: Any) -> MasterScaler: ...


@overload
def attach(
    query: StreamingQuery,
    *,
    objective: Objective | None = None,
    executors: tuple[int, int] = (1, 1),
    cpu_shares: tuple[float, ...] = (1.0,),
    mode: str = "recommend",
    policy: str | Policy | None = None,
    policy_options: dict[str, Any] | None = None,
    guards: dict[str, Any] | Literal["none"] | None = None,
    name: str | None = None,
    arrivals: ArrivalTimes | Literal["interpolated"] | None = None,
    interval_seconds: float = 1.0,
    window_seconds: float = 15.0,
    warm_up_seconds: float = 15.0,
    store: str | Path | None = None,
    prices: dict[str, Any] | None = None,
    master: None = None,
) -> Scaler: ...


@known_arguments  # type: ignore[misc]  # the first form takes the arguments of the second, which mypy does not see
def attach(
    query: StreamingQuery,
    *,
    objective: Objective | None = None,
    executors: tuple[int, int] = (1, 1),
    cpu_shares: tuple[float, ...] = (1.0,),
    mode: str = "recommend",
    policy: str | Policy | None = None,
    policy_options: dict[str, Any] | None = None,
    guards: dict[str, Any] | Literal["none"] | None = None,
    name: str | None = None,
    arrivals: ArrivalTimes | Literal["interpolated"] | None = None,
    interval_seconds: float = 1.0,
    window_seconds: float = 15.0,
    warm_up_seconds: float = 15.0,
    store: str | Path | None = None,
    prices: dict[str, Any] | None = None,
    master: str | MasterAddress | None = None,
) -> Scaler | MasterScaler:
    """Watch a running query, and (mode ``"act"``) keep it inside its objective with the least resources.

    The query is never stopped, and an error in Penstock never reaches it. Use the result in a ``with`` statement,
    or call its `detach`: this puts executors and CPU shares back as they were.

    Parameters
    ----------
    query
        A streaming query started in this process by plain PySpark code, on any master.
    objective
        ``latency(p95="2s")`` or ``keep_up()``; default: keep up.
    executors
        Fewest and most executors. No more are planned than a standalone master (``spark.cores.max``, free workers), the
        queue of a YARN cluster or the quotas of a Kubernetes namespace give.
    cpu_shares
        Allowed CPU shares per executor, rising; the default leaves the CPU alone. Needs the executors on this host
        and the rights for cgroups or, with `master`, a `penstock agent` on the hosts of executors; without them
        executors alone are scaled.
    mode
        ``"recommend"`` (default) decides and reports; ``"act"`` carries it out.
    policy, policy_options, guards
        Which policy decides: a name with its options, or an object of your own (docs/how-to/write-a-policy.md). By
        default one that plans for the objective. And the guards' settings (docs/reference/settings.md), or ``"none"``.
    name
        The operator's name in decisions; default: the query's name.
    arrivals
        When the source's records arrived. By default Penstock finds out what the query reads: the replay source is
        known exactly, and Kafka's topics are tapped. Of other sources, and with ``"interpolated"`` of all, arrival
        times are interpolated between batches.
    interval_seconds, window_seconds, warm_up_seconds
        How often to look; what rates and latencies are taken over; how long to watch before deciding.
    store
        File to keep observations and decisions in (SQLite), or an address such as
        ``postgresql://user@host/database?schema=counts``; one for each query. Default: memory. In a store that was used
        before, a new run begins: what it remembers of earlier ones is not shown.
    prices
        What an hour costs, such as ``{"executor_hour": 0.1, "core_hour": 0.04, "currency": "EUR"}``; one price is
        enough. `Scaler.cost` and the report then have cost and savings. Default: no cost is shown.
    master
        ``"host:port"`` of a master (`penstock serve`), or several joined by commas: it decides in place of this process
        and keeps the history, and `attach` returns a `MasterScaler`. The token is taken from the environment
        (docs/how-to/run-a-master.md). A policy has to be named then, not given as an object.

    Raises
    ------
    ConfigurationError
        Arguments are wrong (all of them are named), or the query has no driver in this process; nothing was changed.
    """
    given = read_arguments(
        query,
        objective=objective,
        executors=executors,
        cpu_shares=cpu_shares,
        mode=mode,
        policy=policy,
        policy_options=policy_options,
        guards=guards,
        name=name,
        arrivals=arrivals,
        seconds={
            "interval_seconds": (interval_seconds, 0.1),
            "window_seconds": (window_seconds, 0.1),
            "warm_up_seconds": (warm_up_seconds, 0.0),
        },
        store=store,
        prices=prices,
    )
    address = None if master is None else _master_address(master, policy=policy, store=store)
    limits = given.limits
    facts = _facts(query)
    if address is not None:
        _check_for_master(facts, name or query.name or "query")
    notes = list(facts.notes)
    if facts.is_real_time:
        limits = Limits(limits.max_executors, limits.max_executors, limits.cpu_shares[-1:])
        notes.append(f"in real-time mode the latency of records is not measured here; it is left at {limits.top}")
    settings = LoopSettings(
        limits=limits,
        objective=given.objective,
        mode=given.mode,
        guards=given.guards,
        window_seconds=window_seconds,
        warm_up_seconds=warm_up_seconds,
    )
    operator = name or query.name or "query"
    chosen = default_policy([settings.objective]) if policy is None else policy
    # Before the query is touched, so that a wrong policy changes nothing.
    tried = make_policy(
        chosen, policy_context_of(operator, limits, settings.objective, facts, interval_seconds), policy_options
    )
    with ExitStack() as undo:
        hold = hold_query(query, operator, limits, settings.mode, has_master=address is not None)
        undo.callback(hold.close)
        notes += _notes(tried, settings.objective, facts, given.prices, hold)
        for note in notes:
            _LOG.warning("%s: %s", operator, note)
        if address is not None:
            known = settings_for_master(
                query,
                operator,
                _as_held(settings, hold),
                facts,
                policy={"name": str(chosen), "options": sendable_options(policy_options)},
                interval_seconds=interval_seconds,
                prices=prices,
            )
            undo.pop_all()
            return MasterScaler(hold, address, known, (*hold.notes, *notes), _arrivals(arrivals, facts))
        cycles: list[Cycle] = []

        def open_shares() -> None:
            for controlled in cycles:
                controlled.let_go()
            hold.actuator.open_shares()

        kept: KnowledgeStore = MemoryStore()
        if given.store is not None:
            kept = EnduringStore(
                open_store(given.store),
                say=lambda text: _LOG.warning("%s: %s", operator, text),
                on_lost=open_shares,
            )
        undo.callback(kept.close)
        settings = _as_held(settings, hold)
        made = make_policy(
            chosen,
            policy_context_of(operator, settings.limits, settings.objective, facts, interval_seconds, store=kept),
            policy_options,
        )
        found = _arrivals(arrivals, facts)
        undo.callback(found.close)
        known = _run_settings(
            query,
            operator,
            settings,
            policy_fact(made, policy_options),
            facts,
            cores=hold.cores_per_executor,
            prices=given.prices,
        )
        since = begin_run(kept, known, SystemClock().now())
        kept.set_fact(SUMMARY, "null")  # where the run goes on, what it came to so far no longer holds
        choice = PolicyChoice(**policy_fact(made, policy_options), is_object=not isinstance(chosen, str))
        first = first_state([operator], choice)
        orders = Orders(replace(kept_state(kept, first, since), policy=choice, previous=None))
        cycle = make_cycle(
            operator,
            settings,
            policy=made,
            source=metered(hold),
            actuator=hold.actuator,
            arrival_times=found.times,
            store=kept,
            record_latencies=_NotMeasured() if facts.is_real_time else None,
            since=since,
            orders=orders,
        )
        cycles.append(cycle)
        let_go = undo.pop_all()
    if found.note is not None:
        _LOG.info("%s: %s", operator, found.note)
        notes.append(found.note)
    return Scaler(
        cycle,
        let_go,
        kept,
        interval_seconds=interval_seconds,
        notes=(*hold.notes, *notes),
        facts=facts,
        since=since,
        settings=settings,
        store_place=given.store,
        orders=orders,
        open_shares=open_shares,
        basis=_cost_basis(given.prices, hold.cores_per_executor, settings.limits),
    )


def _notes(
    policy: Policy, objective: Objective, facts: QueryFacts, prices: Prices | None, hold: QueryHold
) -> list[str]:
    """What the user should know, whoever decides."""
    found = [ignored_objective(policy, [objective]), objective_out_of_reach(objective, facts.trigger_seconds)]
    if prices is not None and prices.core_hour is not None and hold.cores_per_executor is None:
        found.append(
            "no cost is shown: a core has a price, and how many cores an executor has is not known; set "
            "spark.executor.cores"
        )
    return [line for line in found if line is not None]


def _cost_basis(prices: Prices | None, cores: int | None, limits: Limits) -> CostBasis | None:
    return None if prices is None else CostBasis(prices, cores, limits.top.executors, limits.top.capacity)


def _master_address(master: str | MasterAddress, *, policy: object, store: object) -> MasterAddress:
    """Where the masters are; refuses what cannot be handed to another process."""
    given = {
        "policy": policy is not None and not isinstance(policy, str),
        "store": store is not None,
    }
    why = {
        "policy": "an object cannot be sent to a master; name a policy",
        "store": "the master keeps the history",
    }
    for field, is_given in given.items():
        if is_given:
            raise ConfigurationError(f"{field}: {why[field]}; leave it out", field=field)
    return master_address(master) if isinstance(master, str) else master


def _check_for_master(facts: QueryFacts, operator: str) -> None:
    """Refuse a query that a master would not take."""
    parse_settings({"name": operator, "operators": [{"name": operator}]}, "attach: a master needs a plain name")
    if facts.is_real_time:
        raise ConfigurationError(
            "master: a query in real-time mode is not scaled, so no master is needed; leave it out", field="master"
        )


def _as_held(settings: LoopSettings, hold: QueryHold) -> LoopSettings:
    """The settings with what is known of the query once it is held."""
    limits = fitting_limits(settings.limits, hold.actuator.can_set_cpu_share)
    return replace(settings, limits=limits, cores_per_executor=hold.cores_per_executor or 1)


def _run_settings(
    query: StreamingQuery,
    operator: str,
    settings: LoopSettings,
    policy: dict[str, Any],
    facts: QueryFacts,
    *,
    cores: int | None,
    prices: Prices | None,
) -> dict[str, Any]:
    """The run as its store keeps it: the part of a run's settings that an attached query has."""
    limits, objective, guards = settings.limits, settings.objective, settings.guards
    return {
        "name": operator,
        "mode": str(settings.mode),
        "objective": objective_settings(objective),
        "operators": [
            {
                "name": operator,
                "executors": [limits.min_executors, limits.max_executors],
                "cpu_shares": list(limits.cpu_shares),
                **({} if cores is None else {"executor_cores": cores}),
                **_batch_settings(facts),
            }
        ],
        "policy": policy,
        "guards": None if guards is None else guards.model_dump(mode="json"),
        "query_run": str(query.runId),
        **({} if prices is None else {"prices": asdict(prices)}),
    }


def _batch_settings(facts: QueryFacts) -> dict[str, Any]:
    """Trigger and cap as settings have them, where they are known: `penstock what-if --from` predicts with them."""
    trigger = REALTIME if facts.is_real_time else facts.trigger_seconds
    return {
        **({} if trigger is None else {"trigger": trigger}),
        **({} if facts.cap is None else {"input_options": {"maxOffsetsPerTrigger": str(facts.cap)}}),
    }


class _NotMeasured:
    """The latency of a query in real-time mode: its batches do not show it (`ports.RecordLatencies`)."""

    def since_last(self) -> DoneRecords | None:
        return None

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
