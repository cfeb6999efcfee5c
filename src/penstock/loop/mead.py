# SPDX-License-Identifier: Apache-2.0
"""MEAD on a running pipeline: it learns arrivals and demands from what the loop sees, and plans beside it.

Every T_A the newest inter-arrival times and the demands learnt so far go to `foresight.foresee`, in a process of its
own; the plan that comes back some seconds later is handed to the operators' cycles. While arrivals rise it is made for
what they will be by then, along a straight line, and nothing is taken away. In between the backlog is watched
(`plan.rescue`). As long as batches are too much alike to learn from, an operator is probed downwards, safely
(`plan.probing`).

For an operator in real-time mode records are a queue for CPU, one by one: its demand is learnt from CPU and arrivals
(`known_operator.OneByOne`), arrivals are taken as they come, and measured latency stands where the backlog would.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError, NotReadyError
from penstock.loop.beside import AnalysisEnd, AnalysisReport, Beside, Worker
from penstock.loop.foresight import Foreseen, Question, foresee
from penstock.loop.known_operator import KnownOperator, OneByOne, Place, known_operator
from penstock.monitor.iat_windows import IatSnapshot, IatWindows
from penstock.performance.pipeline_model import OperatorModel
from penstock.plan.levels import Levels
from penstock.plan.mead_options import MeadOptions
from penstock.plan.probing import safe_step_down
from penstock.ports import ArrivalTimes, TimedArrivalTimes
from penstock.records import Allocation, Decision, Objective, Observation, PlanRequest, Quality, Telemetry
from penstock.topology import ARRIVALS, Path, Topology, path_text

_LEAST_ARRIVALS = 512
"""Inter-arrival times before the first analysis."""
_RISE, _RISE_SECONDS = 1.25, 20.0
"""Arrivals rise when they are so many times the least within so many seconds: a plan for what was is too small then."""
_IN_FORCE_SECONDS = 5.0
"""From a question to the plan in force: the analysis, and an executor that starts."""
_MOST_GROWTH = 3.0
"""No rise is planned for beyond so many times what came: a straight line through a burst leads anywhere."""
_ENOUGH = 0.8
"""Utilisation up to which executors with all their CPU work a backlog off."""
_STUCK = 0.95
"""Utilisation at which a query from which nothing comes out lacks CPU."""
_MORE = 1.1
"""Times the planned rate of arrivals from which a plan to scale down is overtaken by events."""
_TAP_SECONDS = 1.0
"""How long ago arrivals must be to be taken as they come: who watches them is a little behind."""


def bounds_of(objectives: Mapping[Path, Objective], policy: str) -> dict[Path, float]:
    """The bound of every path; ConfigurationError with each path that has none, which `policy` could not plan for."""
    bounds = {path: objective.seconds for path, objective in objectives.items() if objective.seconds is not None}
    faults = [
        f"objective: {policy} plans for a latency bound, and the path {path_text(path)} has none; give one, such as "
        'p95: "2s", or use threshold, which needs none'
        for path in objectives
        if path not in bounds
    ]
    if faults:
        raise ConfigurationError.of_all("objective", faults)
    return bounds


class PipelineMead:
    """The policy of all operators of a pipeline; `policy` gives each its part.

    Parameters
    ----------
    places
        The operators, each after those it reads from.
    objectives
        One for every path, or one for each; latency bounds.
    options
        The settings of the policy.
    worker
        Where plans are made: see `Beside`.
    """

    def __init__(
        self,
        places: Sequence[Place],
        objectives: Objective | Mapping[Path, Objective],
        options: MeadOptions,
        *,
        worker: Worker = "process",
    ) -> None:
        paths = Topology.from_inputs({place.name: place.inputs or (ARRIVALS,) for place in places}).paths
        if isinstance(objectives, Objective):
            objectives = dict.fromkeys(paths, objectives)
        self._objectives = {path: objectives.get(path, Objective()) for path in paths}
        self._bounds = bounds_of(self._objectives, options.name)
        self.options = options
        self._known = {place.name: known_operator(place) for place in places}
        for known in self._known.values():
            Levels.within(known.limits, options.costs)  # costs that do not fit are told before anything runs
        self._source = next(place.name for place in places if not place.inputs)
        """The operator whose arrivals are the pipeline's."""
        self._taken_to: float | None = None
        """Up to when arrivals were taken as they came."""
        self._windows = IatWindows(options.window, options.parts)
        self._beside: Beside[Question, Foreseen] = Beside(
            foresee, period_seconds=options.planner.every_seconds, worker=worker
        )
        self._why_none = "the first plan is under way"
        self._arriving: float | None = None
        """Arrivals per second at the source, as last seen, over so many seconds."""
        self._window_seconds = 0.0
        self._rates: deque[tuple[float, float]] = deque()
        self._rising: str | None = None
        """How arrivals rise; None: they do not."""

    def policy(self, operator: str) -> MeadOfOperator:
        """One operator's part of the policy, for its cycle."""
        return MeadOfOperator(self, operator)

    def watch(
        self, operator: str, telemetry: Telemetry, observation: Observation, arrivals: ArrivalTimes | None
    ) -> tuple[str, ...]:
        """Learn from one look at an operator; start an analysis when one is due."""
        known = self._known[operator]
        known.watch(telemetry, observation)
        if operator == self._source:
            if known.place.is_real_time and isinstance(arrivals, TimedArrivalTimes):
                self._take_arrivals_as_they_come(telemetry.at - _TAP_SECONDS, arrivals)
            else:
                self._take_arrivals(telemetry, arrivals)
            self._watch_rate(telemetry.at, observation.arrival_rate_rows_per_second, observation.window_seconds)
        if operator != next(reversed(self._known)):
            return ()  # once for each look at the pipeline, when all have been seen
        reports = self._beside.tick(telemetry.at, lambda: self._question(telemetry.at))
        return tuple(note for report in reports if (note := self._note(report)) is not None)

    def plan(self, request: PlanRequest) -> Decision:
        """What the operator should have; nothing is taken away while arrivals rise."""
        decision = self._chosen(request)
        if decision.target.capacity < request.current.capacity and self._rising is not None:
            return replace(decision, target=request.current, reason=f"no less now: {self._rising}")
        return decision

    def _chosen(self, request: PlanRequest) -> Decision:
        known, analysis = self._known[request.operator], self._beside.latest
        known.meant = request.current
        if known.planned is not None and request.current.capacity <= known.planned.capacity:
            known.is_raised = False
        if analysis is None:
            return self._probe(request, known)
        decision: Decision | None = None
        if analysis.at > known.handed_at:
            known.handed_at = analysis.at
            made = next(d for d in analysis.answer.plan.decisions if d.operator == request.operator)
            evidence = {**made.evidence, **self._evidence(known, analysis.answer, analysis.age_seconds(request.at))}
            decision = replace(made, at=request.at, current=request.current, evidence=evidence)
            overtaken = self._overtaken(decision, analysis.answer)
            if overtaken is None:
                known.planned, known.planned_because = made.target, made.reason
            else:
                decision = replace(decision, target=request.current, reason=overtaken)
        why = self._late(request, known) if known.place.is_real_time else self._rescued(request.operator)
        if why is not None:
            known.is_raised = True
            return self._decision(request, known, self._raised(request, known), why)
        planned = known.planned or request.current
        lifted = known.lifted(planned, request.at)
        if lifted != planned:
            known.planned, known.planned_because = lifted, f"records were late at {planned} not long ago"
            return self._decision(request, known, lifted, known.planned_because)
        if decision is not None:
            return decision
        if planned != request.current:
            # After a rescue, or where a guard did not allow it before.
            return self._decision(request, known, planned, f"as planned: {known.planned_because}")
        return self._decision(request, known, request.current, "as planned; the next plan is not due yet")

    def close(self) -> None:
        """End the process that plans."""
        self._beside.close()

    # --- what goes into a plan -------------------------------------------------------------------------------

    def _take_arrivals(self, telemetry: Telemetry, arrivals: ArrivalTimes | None) -> None:
        for batch in telemetry.batches:
            for source in batch.sources:
                times = None if arrivals is None else arrivals.of(source)
                if times is None:
                    self._windows.interrupt()
                else:
                    self._windows.add_times(times)

    def _take_arrivals_as_they_come(self, to: float, arrivals: TimedArrivalTimes) -> None:
        if self._taken_to is not None and to > self._taken_to:
            times = arrivals.between(self._taken_to, to)
            if times is None:
                self._windows.interrupt()
            else:
                self._windows.add_times(times)
        self._taken_to = to if self._taken_to is None else max(to, self._taken_to)

    def _watch_rate(self, at: float, rate: float | None, window_seconds: float) -> None:
        self._arriving, self._rising, self._window_seconds = rate, None, window_seconds
        while self._rates and self._rates[0][0] < at - _RISE_SECONDS:
            self._rates.popleft()
        if rate is None:
            return
        least = min((before for _, before in self._rates), default=rate)
        if rate > _RISE * least:
            self._rising = f"arrivals rise, from {least:.4g} to {rate:.4g} a second within {_RISE_SECONDS:g} s"
        self._rates.append((at, rate))

    def _growth(self, at: float, snapshot: IatSnapshot) -> float:
        """By what the window's arrivals will have grown when the plan is in force, if they rise as they do now.

        Along a straight line through the rates now and up to 20 s ago, each the mean over the monitor's window and so
        half a window old, to the middle of the plan's time.
        """
        if self._rising is None or self._arriving is None or len(self._rates) < 2:
            return 1.0
        before_at, before = self._rates[0]
        slope = (self._arriving - before) / max(at - before_at, 1e-9)
        newest = snapshot.iats[-max(1, int(snapshot.iats.size * min(snapshot.shares))) :]
        ahead = 0.5 * self._window_seconds + 0.5 * self.options.planner.every_seconds + _IN_FORCE_SECONDS
        expected = (self._arriving + slope * ahead) * float(newest.mean())
        return min(max(expected, 1.0), _MOST_GROWTH)

    def _question(self, at: float) -> Question:
        snapshot = self._windows.snapshot()
        if snapshot.iats.size < _LEAST_ARRIVALS:
            raise NotReadyError(
                f"{snapshot.iats.size} inter-arrival times so far; {_LEAST_ARRIVALS} are needed",
                needed=_LEAST_ARRIVALS,
                available=int(snapshot.iats.size),
            )
        latest = self._beside.latest
        return Question(
            at=at,
            iats=snapshot.iats / self._growth(at, snapshot),
            parts=snapshot.shares,
            operators=tuple(self._operator(known) for known in self._known.values()),
            objectives=self._objectives,
            current={name: self._base(known) for name, known in self._known.items()},
            limits={name: known.limits for name, known in self._known.items()},
            options=self.options,
            warm=None if latest is None else latest.answer.estimate,
        )

    def _operator(self, known: KnownOperator) -> OperatorModel:
        place = known.place
        if known.demand is None:
            raise NotReadyError(f"the demand of {place.name} is not known yet: {known.why_not}")
        readers = [other.rows for other in self._known.values() if place.name in other.place.inputs]
        passed_on = max(readers, default=known.rows)
        selectivity = passed_on / known.rows if passed_on > 0 and known.rows > 0 else 1.0
        return OperatorModel(place.name, known.demand, place.inputs, selectivity)

    def _base(self, known: KnownOperator) -> Allocation:
        """What a plan starts from: what the operator is meant to have or, while a backlog has raised it, the last plan.

        Not always the last plan: one that a guard held back would be gone on from, and two levels be lost at once.
        """
        base = known.planned if known.is_raised else known.meant or known.seen
        if base is None:
            raise NotReadyError(f"what {known.place.name} has is not known yet")
        return base

    # --- what comes out --------------------------------------------------------------------------------------

    def _rescued(self, operator: str) -> str | None:
        """Why the operator needs its highest level now; None: it does not."""
        if self.options.rescue is None:
            return None
        waiting: dict[str, float] = {}
        for name, known in self._known.items():
            has = known.planned or known.meant
            seconds = None if has is None else known.waiting_seconds(has)
            if seconds is None:
                return None
            waiting[name] = seconds
        return self.options.rescue.operators(self._bounds, waiting).get(operator)

    def _late(self, request: PlanRequest, known: KnownOperator) -> str | None:
        """Why an operator in real-time mode needs all its CPU now, by the latency measured; None: it does not."""
        seen, rescue = request.observation, self.options.rescue
        if rescue is None or seen.quality is not Quality.GOOD:
            return None
        measured = request.objective.measured(seen.latency)
        if measured is None:
            is_busy = seen.utilisation is not None and seen.utilisation >= _STUCK
            return "no record comes out, and all CPU is used" if is_busy else None
        bound = self._tightest(request.operator)
        if measured <= rescue.bound_part * bound:
            return None
        if isinstance(known, OneByOne) and not known.is_raised:  # else the window tells of the level before
            known.note_late(request.at, request.current)
        late = f"{request.objective.statistic} is {measured:.3g} s"
        return f"{late}, beyond {rescue.bound_part:.0%} of its bound of {bound:g} s"

    def _raised(self, request: PlanRequest, known: KnownOperator) -> Allocation:
        """All the CPU of the executors there are; more executors, which take long to come, only where that is short.

        A larger share is in force at the next batch; a new executor was seen to hold the query up while it starts. But
        if the bound is broken already, what is believed to be enough is not.
        """
        if known.place.is_real_time:
            return known.limits.top
        full = Allocation(request.current.executors, request.limits.cpu_shares[-1])
        arriving = request.observation.arrival_rate_rows_per_second
        is_broken = request.objective.is_met_by(request.observation.latency) is False
        each = known.per_record_seconds
        if each is None or arriving is None or is_broken:
            return request.limits.top
        is_enough = arriving * each / full.capacity < _ENOUGH
        return full if is_enough else request.limits.top

    def _overtaken(self, decision: Decision, foreseen: Foreseen) -> str | None:
        """Why a plan that takes something away comes too late; None: it does not."""
        now = self._arriving
        if decision.target.capacity >= decision.current.capacity or now is None or now <= _MORE * foreseen.rate:
            return None
        return f"no less now: planned for {foreseen.rate:.4g} arrivals a second, and {now:.4g} come"

    def _probe(self, request: PlanRequest, known: KnownOperator) -> Decision:
        """What can be decided without a plan: all there is for records that are late, one level less for batches alike.

        Batches of one size do not tell what a record costs; on another level they do.
        """
        seen, measured = request.observation, request.objective.measured(request.observation.latency)
        if self.options.rescue is not None and measured is not None:
            part = self.options.rescue.bound_part
            if measured > part * self._tightest(request.operator):
                late = f"{request.objective.statistic} is {measured:.3g} s"
                why = f"{late}, beyond {part:.0%} of its bound, and no plan yet"
                return self._decision(request, known, known.limits.top, why)
        if known.is_worth_probing and seen.batch_seconds is not None and seen.utilisation is not None:
            bound = self._tightest(request.operator)
            below = safe_step_down(request.limits, request.current, seen.batch_seconds, seen.utilisation, bound)
            if below is not None:
                why = f"one level down, which cannot break the bound, to learn more: {known.why_not}"
                return self._decision(request, known, below, why)
        return self._decision(request, known, request.current, f"holding: {self._why_none}")

    def _tightest(self, operator: str) -> float:
        """The least bound of the paths through an operator."""
        return min(bound for path, bound in self._bounds.items() if operator in path)

    def _decision(self, request: PlanRequest, known: KnownOperator, target: Allocation, reason: str) -> Decision:
        analysis = self._beside.latest
        evidence = {} if analysis is None else self._evidence(known, analysis.answer, analysis.age_seconds(request.at))
        return Decision(request.operator, request.at, self.options.name, request.current, target, reason, evidence)

    def _evidence(self, known: KnownOperator, foreseen: Foreseen, age: float) -> dict[str, float | int | str | None]:
        return {"plan_age_seconds": age, "arrivals_per_second": foreseen.rate, **known.evidence()}

    def _note(self, report: AnalysisReport) -> str | None:
        if report.end is AnalysisEnd.NOT_READY:
            self._why_none = report.detail  # told with each decision to hold
            return None
        if report.end is AnalysisEnd.DONE:
            return None
        self._why_none = f"a plan was {report.end}: {report.detail}"
        return f"a plan was {report.end}: {report.detail}"


@dataclass(frozen=True, slots=True)
class MeadOfOperator:
    """One operator's part of a pipeline's MEAD; a `ports.WatchingPolicy`."""

    pipeline: PipelineMead
    operator: str

    @property
    def name(self) -> str:
        """The pipeline policy's."""
        return self.pipeline.options.name

    @property
    def every_seconds(self) -> float:
        """The pipeline policy's."""
        return self.pipeline.options.every_seconds

    def watch(self, telemetry: Telemetry, observation: Observation, arrivals: ArrivalTimes | None) -> tuple[str, ...]:
        """Learn from one look."""
        return self.pipeline.watch(self.operator, telemetry, observation, arrivals)

    def plan(self, request: PlanRequest) -> Decision:
        """What the operator should have."""
        return self.pipeline.plan(request)

    def close(self) -> None:
        """End the process that plans."""
        self.pipeline.close()
