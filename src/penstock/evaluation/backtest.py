# SPDX-License-Identifier: Apache-2.0
"""Policies tried on a recorded run: what they would have done with its arrivals and its demand, beside what happened.

The arrivals and the demand are those that `recorded_load` finds in the store. The run's own allocations are simulated
too: where that row and the measured one differ, the simulator is wrong about this operator, and so are the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pydantic import ValidationError

from penstock.account import OperatorAccount
from penstock.errors import ConfigurationError
from penstock.evaluation.history import RunHistory
from penstock.evaluation.path_objectives import why_impossible
from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.recorded_load import RecordedLoad
from penstock.evaluation.simulation import simulate
from penstock.evaluation.simulation_result import SimulationResult
from penstock.loop.cycle import CycleReport
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.plan.guards import guards_as_set
from penstock.ports import AnalysisMemo, Guard, Policy
from penstock.records import (
    Allocation,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    OutcomeStatus,
    PlanRequest,
)
from penstock.settings import GuardSettings
from penstock.simulator import MicroBatch, Operator, PhaseType, Pipeline, Service

AS_RECORDED = "as recorded"
"""The row of the run's own allocations in the simulator."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What happened, as the store says it.

    Attributes
    ----------
    latency
        Over all records, or those after the start-up where that is known; None: it was not measured.
    violation_time_share
        The part of the time in which the objective of the test was broken (`violations.are_broken`), of that in which
        it is known, after the start-up where that is known; None without a bound.
    executor_seconds, capacity_seconds
        Executors, and executors times CPU share, over the observed time.
    static_capacity_seconds
        What the top of the limits would have cost over that time.
    changes
        How many changes were decided.
    """

    latency: LatencySummary | None
    violation_time_share: float | None
    executor_seconds: float
    capacity_seconds: float
    static_capacity_seconds: float
    changes: int

    @property
    def cost_against_static(self) -> float | None:
        """What it cost, as a part of the top allocation throughout."""
        return self.capacity_seconds / self.static_capacity_seconds if self.static_capacity_seconds > 0 else None


@dataclass(frozen=True, eq=False, slots=True)
class Backtest:
    """What happened, and what each policy would have done, in the order in which they were given."""

    load: RecordedLoad
    objective: Objective
    limits: Limits
    measured: Measured
    results: tuple[SimulationResult, ...]
    """The first is the run's own allocations, simulated."""
    start_up_seconds: float | None
    """How long a new executor took in the run, and takes here; None: none was started, and it takes no time."""
    why_impossible: str | None = None
    """Why no policy could keep the objective here; None: one may."""

    @property
    def simulator_error(self) -> float | None:
        """How far the simulated latency is from the measured one under the same allocations, relative to it.

        It is that of the objective's statistic (p95 without a bound); None where the latency was not measured.
        """
        statistic = self.objective.statistic or "p95"
        simulated, measured = self.results[0].paths[0].latency, self.measured.latency
        if simulated is None or measured is None or not (was := measured.statistic(statistic)):
            return None
        found = simulated.statistic(statistic)
        return None if found is None else found / was - 1.0


def backtest(
    history: RunHistory,
    load: RecordedLoad,
    policies: Sequence[tuple[str, PolicyChoice | None]],
    *,
    objective: Objective | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    analysis_seconds: float = 5.0,
    progress: Callable[[float], None] | None = None,
) -> Backtest:
    """Try policies on what a run recorded of one operator.

    Parameters
    ----------
    history, load
        The run, and what it recorded of the operator.
    policies
        Names for people, and the policies; None keeps the top of the limits throughout.
    objective, limits
        In place of the run's own.
    seed
        Of service times.
    analysis_seconds
        How long after its start an analysis is in force.
    progress
        Called with the part that is done.

    Raises
    ------
    ConfigurationError
        The demand is not known, or no limits are recorded and none are given.
    """
    if load.demand is None:
        raise ConfigurationError(
            f"RUN: what a record costs at {load.operator} is not known from {load.run}: {load.why_no_demand}; let it "
            "run until its policy has learnt it",
            field="RUN",
        )
    allowed = limits or load.limits
    if allowed is None:
        raise ConfigurationError(
            f"--executors: {load.run} has not recorded what {load.operator} might have; give it, such as 1-4",
            field="--executors",
        )
    wanted = objective or load.objective
    start_up = _start_up_seconds(history, load.operator)
    operator = Operator(load.operator, _server(load.demand), limits=allowed)
    pipeline = Pipeline.of_one(replace(operator, start_up_seconds=start_up or 0.0))
    seen = history.observations.get(load.operator, ())
    schedule = _RecordedSchedule(seen, allowed)
    memo = AnalysisMemo()
    results = []
    tried: list[tuple[str, Policy | PolicyChoice | None]] = [(AS_RECORDED, schedule), *policies]
    for number, (name, policy) in enumerate(tried):
        result = simulate(
            load.arrivals,
            # What was observed had started already.
            Pipeline.of_one(operator) if policy is schedule else pipeline,
            policy,
            wanted,
            seed,
            start=None if policy is None else {load.operator: schedule.first},
            guards=() if policy is schedule else _guards(history),
            memo=memo,
            analysis_seconds=analysis_seconds,
            progress=None if progress is None else _part(progress, number, len(tried)),
            allow_impossible=True,  # the run had it: how far it is from being kept is what is asked
        )
        results.append(replace(result, policy=name))
    return Backtest(
        load,
        wanted,
        allowed,
        _measured(history, load.operator, allowed, wanted),
        tuple(results),
        start_up,
        why_impossible(pipeline, (load.operator,), wanted),
    )


def _part(progress: Callable[[float], None], number: int, count: int) -> Callable[[float], None]:
    return lambda done: progress((number + done) / count)


class _RecordedSchedule:
    """Gives the operator what it had, by the time since the first arrival (a `ports.Policy`)."""

    name = AS_RECORDED
    every_seconds = 1.0

    def __init__(self, observations: Sequence[Observation], limits: Limits) -> None:
        began = next((o.at for o in observations if o.records_arrived), observations[0].at if observations else 0.0)
        known = [(o.at - began, o.cluster.observed) for o in observations if o.cluster.observed is not None]
        steps = [(at, _within(had, limits)) for at, had in known if had is not None and had.executors > 0]
        self._at = [at for at, _ in steps]
        self._had = [had for _, had in steps]
        self.first = self._before(0.0) or limits.top

    def plan(self, request: PlanRequest) -> Decision:
        """What the run had at this time."""
        target = self._before(request.at) or request.current
        return Decision(request.operator, request.at, self.name, request.current, target, "the run had this then")

    def _before(self, at: float) -> Allocation | None:
        place = bisect_right(self._at, at)
        return self._had[max(0, place - 1)] if self._had else None


def _within(had: Allocation, limits: Limits) -> Allocation:
    """What the run had, as far as the limits of the test allow it."""
    executors = min(max(had.executors, limits.min_executors), limits.max_executors)
    share = min(limits.cpu_shares, key=lambda level: abs(level - had.cpu_share))
    return Allocation(executors, share)


def _server(demand: Demand) -> Service | MicroBatch:
    """The work that asks for this demand: the reverse of `declared_demand`."""
    if isinstance(demand, RecordDemand):
        return PhaseType(demand.service)
    assert isinstance(demand, BatchDemand)
    on_cpu = demand.fixed_cpu_seconds
    return MicroBatch(
        on_cpu,
        demand.per_record_seconds,
        demand.cap,
        demand.trigger_seconds,
        # What varies is taken to be the part under the CPU share, as in `declared_demand`.
        fixed_scv=demand.fixed_scv * (demand.fixed_seconds / on_cpu) ** 2 if on_cpu > 0 else 0.0,
        per_record_scv=demand.per_record_scv,
        driver=demand.fixed_seconds - on_cpu,
    )


def _start_up_seconds(history: RunHistory, operator: str) -> float | None:
    took = []
    for change in history.changes:
        outcome = history.outcome_of(change)
        is_out = change.operator == operator and change.target.executors > change.current.executors
        if is_out and outcome is not None and outcome.status is OutcomeStatus.DONE:
            took.append(max(0.0, outcome.at - change.at))
    return median(took) if took else None


def _guards(history: RunHistory) -> tuple[Guard, ...]:
    """Those of the run; the default ones where its settings do not say."""
    settings = history.settings or {}
    if "guards" in settings and settings["guards"] is None:
        return ()
    try:
        return guards_as_set(GuardSettings.model_validate(settings.get("guards") or {}))
    except ValidationError as fault:
        raise ConfigurationError(f"RUN: the guards that it has kept cannot be read: {fault}", field="RUN") from fault


def _measured(history: RunHistory, operator: str, limits: Limits, objective: Objective) -> Measured:
    account = OperatorAccount()
    for seen in history.observations.get(operator, ()):
        account.add(CycleReport(seen))
    kept = history.latencies.get(operator)
    latency = None if kept is None else kept.operator.steady or kept.operator.whole
    return Measured(
        latency=latency,
        violation_time_share=history.time_above_objective(
            operator, since=history.steady_from(operator) or 0.0, objective=objective
        ),
        executor_seconds=account.executor_seconds,
        capacity_seconds=account.share_seconds,
        static_capacity_seconds=account.observed_seconds * limits.top.capacity,
        changes=sum(change.operator == operator for change in history.changes),
    )
