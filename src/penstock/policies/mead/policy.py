# SPDX-License-Identifier: Apache-2.0
"""MEAD as a policy: it learns arrivals and demands from what the loop sees, and plans for the whole pipeline.

Every T_A the newest inter-arrival times and the demands known so far go to `analysis.analyse`, beside the loop. The
plan that comes back some seconds later is handed to each operator when the loop asks about it.

The published policy (Russo Russo et al. 2021) ends there. What Penstock adds can be switched off, part by part
(`options`):

* While arrivals rise, a plan is made for what they will be once it is in force, and nothing is taken away.
* A plan to scale down is dropped once more arrives than it was made for.
* Between plans the backlog is watched (`rescue`).
* As long as batches are too much alike to learn from, an operator is probed downwards, safely (`probing`).
* Predictions have an interval that is learnt from what was measured under earlier plans (`plan_judge`), and its upper
  end has to keep the bound.

In real-time mode records queue for CPU one by one. The demand of such an operator is learnt from CPU and arrivals
(`operator_knowledge.RecordKnowledge`), and measured latency stands in for the backlog.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from functools import partial

from penstock.errors import ConfigurationError, NotReadyError
from penstock.monitor.arrival_memory import ArrivalMemory
from penstock.monitor.iat_windows import IatSnapshot, IatWindows
from penstock.performance.demand import RecordDemand
from penstock.performance.pipeline_model import OperatorModel
from penstock.performance.replayed_latency import why_not_replayed
from penstock.plan.levels import Levels
from penstock.policies.background import AnalysisEnd, AnalysisReport, BackgroundAnalysis
from penstock.policies.mead.analysis import AnalysisResult, AnalysisTask, analyse
from penstock.policies.mead.operator_knowledge import OperatorKnowledge, RecordKnowledge, knowledge_of
from penstock.policies.mead.options import MeadOptions
from penstock.policies.mead.plan_judge import PlanInForce, PlanJudge
from penstock.policies.mead.probing import safe_step_down
from penstock.ports import FloatArray, Look, PolicyContext
from penstock.records import Allocation, Decision, Limits, PlanRequest, Quality

_WRITE_SECONDS = 30.0
"""How often what was learnt is written down."""
_LEAST_ARRIVALS = 512
"""Inter-arrival times before the first analysis."""
_RISE_FACTOR, _RISE_SECONDS = 1.25, 20.0
"""Arrivals rise when they are this many times the least within so many seconds: a plan for then is too small now."""
_IN_FORCE_SECONDS = 5.0
"""From the start of an analysis to its plan in force: the analysis itself, and an executor that starts."""
_MOST_GROWTH = 3.0
"""No rise is planned for beyond this many times what came: a straight line through a burst leads anywhere."""
_UTILISATION_TO_CATCH_UP = 0.8
"""Utilisation up to which executors with all their CPU work a backlog off."""
_UTILISATION_WHEN_STUCK = 0.95
"""Utilisation at which a query that puts nothing out lacks CPU."""
_HAND_ON_SECONDS = 10.0
"""How often it wants to be asked where no backlog is looked at: a plan is handed on when the loop asks."""
_OVERTAKEN_FACTOR = 1.1
"""Times the planned rate of arrivals from which a plan to scale down is overtaken by events."""


class MeadPolicy:
    """The policy of all operators of a pipeline; a `ports.WatchingPolicy`.

    Parameters
    ----------
    context
        The pipeline, its operators and the latency bound of every path.
    options
        The settings of the policy.
    """

    def __init__(self, context: PolicyContext, options: MeadOptions) -> None:
        self.options = options
        self._topology = context.topology
        self._objectives = dict(context.objectives)
        self._bounds = {path: wanted.seconds for path, wanted in self._objectives.items() if wanted.seconds is not None}
        if any(path not in self._bounds for path in context.topology.paths):
            raise ConfigurationError(f"objective: {options.name} plans for a latency bound", field="objective")
        if options.queues == "gi/g/1" and any(wanted.statistic != "mean" for wanted in self._objectives.values()):
            raise ConfigurationError(
                "objective: gi/g/1 queues give means only; bound the mean, or use another policy", field="objective"
            )
        if options.queues == "replay":
            _require_replayable(context)
        self._known = {name: knowledge_of(name, context.operators[name]) for name in context.topology.order}
        self._notebook, self._written_at = context.notebook, -math.inf
        self._judge: PlanJudge | None = None
        if options.confidence is not None:
            queries = {name: site.query for name, site in context.operators.items()}
            of_paths = {path: self._objectives[path] for path in context.topology.paths}
            self._judge = PlanJudge(of_paths, options.confidence, options.planner.every_seconds, queries)
            if self._notebook is not None and options.remember:
                self._judge.begin_with(self._notebook)
        for known in self._known.values():
            if self._notebook is not None and options.remember:
                known.begin_with(self._notebook)
            Levels.within(known.limits, options.costs)  # costs that do not fit are refused before anything runs
        self._source = context.topology.entries[0]
        """The operator whose arrivals are the pipeline's."""
        self._windows = IatWindows(options.window, options.windows)
        self._memory = None if options.look_back is None else ArrivalMemory(options.look_back)
        self._are_exact = True
        self._background: BackgroundAnalysis[AnalysisTask, AnalysisResult] = BackgroundAnalysis(
            analyse if context.analysis.memo is None else partial(analyse, memo=context.analysis.memo),
            period_seconds=options.planner.every_seconds,
            place=context.analysis,
        )
        self._why_no_plan = "the first plan is under way"
        self._arriving: float | None = None
        """Arrivals per second at the source over the monitor's window, as last seen."""
        self._window_seconds = 0.0
        self._rates: deque[tuple[float, float]] = deque()
        self._rising: str | None = None
        """How arrivals rise; None: they do not."""
        self._answered: dict[str, tuple[PlanRequest, Decision]] = {}
        self._left_alone: dict[float, frozenset[str]] = {}
        """The operators that an analysis was to leave as they were, by its start: their demand did not show then."""

    @property
    def name(self) -> str:
        """The policy's name in settings and decisions."""
        return self.options.name

    @property
    def every_seconds(self) -> float:
        """How often it wants to be asked: as often as the backlog is looked at, and so that no plan waits for long."""
        every = self.options.every_seconds
        return every if self.options.rescue is not None else min(every, _HAND_ON_SECONDS)

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look at an operator; start an analysis when one is due."""
        self._known[look.operator].watch(look)
        if self._judge is not None:
            self._judge.watch(look)
        at = look.telemetry.at
        if look.operator == self._source:
            self._take_arrivals(look.arrivals)
            self._are_exact = look.is_exact
            self._watch_rate(at, look.observation.arrival_rate_rows_per_second, look.observation.window_seconds)
        if look.operator != next(reversed(self._known)):
            return ()  # once for each look at the pipeline, when all operators have been seen
        self._write_down(at)
        reports = self._background.tick(at, lambda: self._task(at))
        if self._judge is not None:
            self._judge.look(at, self._in_force())
        return tuple(note for report in reports if (note := self._note(report)) is not None)

    def plan(self, request: PlanRequest) -> Decision:
        """What the operator should have; asked the same again, it says the same again."""
        answered = self._answered.get(request.operator)
        if answered is not None and answered[0] == request:
            return answered[1]
        if request.observation.quality is Quality.GOOD:
            decision = self._chosen(request)
        else:
            known = self._known[request.operator]
            why = f"holding: {request.observation.quality_text}"
            decision = self._decision(request, known, request.current, why)
        is_less = decision.target.capacity < request.current.capacity
        if self.options.hold_while_rising and is_less and self._rising is not None:
            decision = replace(decision, target=request.current, reason=f"no less now: {self._rising}", rejected=())
        self._answered[request.operator] = (request, decision)
        return decision

    def _chosen(self, request: PlanRequest) -> Decision:
        known, latest = self._known[request.operator], self._background.latest
        known.meant = request.current
        if known.planned is not None and request.current.capacity <= known.planned.capacity:
            known.is_raised = False
        if latest is None or known.demand is None or request.operator in self._left_alone.get(latest.at, ()):
            return self._without_plan(request, known)
        decision: Decision | None = None
        if latest.at > known.handed_at:
            known.handed_at = latest.at
            made = next(d for d in latest.answer.plan.decisions if d.operator == request.operator)
            evidence = {**made.evidence, **self._evidence(known, latest.age_seconds(request.at))}
            decision = replace(
                made, at=request.at, current=request.current, evidence=evidence, workload=latest.answer.workload
            )
            overtaken = self._overtaken(decision, latest.answer)
            if overtaken is None:
                known.planned, known.planned_because = made.target, made.reason
            else:
                decision = replace(decision, target=request.current, reason=overtaken, rejected=())
        why = self._late(request, known) if known.site.is_real_time else self._rescued(request)
        if why is not None:
            known.is_raised = True
            return self._lifting(request, known, self._raised(request, known), why)
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
        self._background.close()

    def _write_down(self, at: float) -> None:
        """Keep what was learnt for later runs, now and then: a controller that is killed has no last moment."""
        if self._notebook is None or not self.options.remember or abs(at - self._written_at) < _WRITE_SECONDS:
            return
        self._written_at = at
        for known in self._known.values():
            known.write_down(self._notebook)
        if self._judge is not None:
            self._judge.write_down(self._notebook)

    # --- what goes into a plan -------------------------------------------------------------------------------

    def _take_arrivals(self, arrivals: tuple[FloatArray | None, ...]) -> None:
        for times in arrivals:
            for kept in (self._windows, self._memory):
                if kept is None:
                    continue
                if times is None:
                    kept.interrupt()
                else:
                    kept.add_times(times)

    def _watch_rate(self, at: float, rate: float | None, window_seconds: float) -> None:
        self._arriving, self._rising, self._window_seconds = rate, None, window_seconds
        if self._rates and self._rates[-1][0] > at:  # a clock was set back
            self._rates.clear()
        while self._rates and self._rates[0][0] < at - _RISE_SECONDS:
            self._rates.popleft()
        if rate is None:
            return
        least = min((before for _, before in self._rates), default=rate)
        if rate > _RISE_FACTOR * least:
            self._rising = f"arrivals rise, from {least:.4g} to {rate:.4g} a second within {_RISE_SECONDS:g} s"
        self._rates.append((at, rate))

    def _growth(self, at: float, snapshot: IatSnapshot) -> float:
        """By what the window's arrivals will have grown when the plan is in force, if they rise as they do now.

        The rates now and up to 20 s ago, each a mean over the monitor's window and so half a window old, give a
        straight line. It is followed to the middle of the time for which the plan will hold.
        """
        if not self.options.extrapolate_rises or self._rising is None or self._arriving is None or len(self._rates) < 2:
            return 1.0
        before_at, before = self._rates[0]
        slope = (self._arriving - before) / max(at - before_at, 1e-9)
        newest = snapshot.iats[-max(1, int(snapshot.iats.size * min(snapshot.shares))) :]
        ahead = 0.5 * self._window_seconds + 0.5 * self.options.planner.every_seconds + _IN_FORCE_SECONDS
        expected = (self._arriving + slope * ahead) * float(newest.mean())
        return min(max(expected, 1.0), _MOST_GROWTH)

    def _task(self, at: float) -> AnalysisTask:
        snapshot = self._windows.snapshot()
        if snapshot.iats.size < _LEAST_ARRIVALS:
            raise NotReadyError(
                f"{snapshot.iats.size} inter-arrival times so far; {_LEAST_ARRIVALS} are needed",
                needed=_LEAST_ARRIVALS,
                available=int(snapshot.iats.size),
            )
        latest = self._background.latest
        unknown = frozenset(name for name, known in self._known.items() if known.demand is None)
        # Of those before, only the latest may still be handed on.
        self._left_alone = {begun: names for begun, names in self._left_alone.items() if latest and begun == latest.at}
        self._left_alone[at] = unknown
        return AnalysisTask(
            at=at,
            iats=snapshot.iats,
            windows=snapshot.shares,
            remembered=None if self._memory is None else self._memory.recall(),
            growth=self._growth(at, snapshot),
            are_exact=self._are_exact,
            operators=tuple(self._operator(known) for known in self._known.values()),
            objectives=self._objectives,
            current={name: self._base(known) for name, known in self._known.items()},
            limits={name: self._limits(known) for name, known in self._known.items()},
            options=self.options,
            margins=None if self._judge is None else self._judge.margins(at),
            warm=None if latest is None else latest.answer.fitted,
        )

    def _limits(self, known: OperatorKnowledge) -> Limits:
        """What is planned within: where its demand does not show yet, what the operator has."""
        base = self._base(known)
        if known.demand is not None:
            return known.limits_for(base)
        return Limits(base.executors, base.executors, (base.cpu_share,))

    def _operator(self, known: OperatorKnowledge) -> OperatorModel:
        demand = known.demand
        if demand is None and self.options.probe and any(other.demand is not None for other in self._known.values()):
            demand = known.allowed_demand  # the others do not wait for it; what it has is not touched by the plan
        if demand is None:
            raise NotReadyError(f"the demand of {known.name} is not known yet: {known.why_not}")
        selectivity = known.selectivity
        if selectivity is None:
            readers = [self._known[stream.target].rows for stream in self._topology.outputs(known.name)]
            passed_on = max(readers, default=known.rows)
            selectivity = passed_on / known.rows if passed_on > 0 and known.rows > 0 else 1.0
        return OperatorModel(known.name, demand, self._topology.inputs(known.name), selectivity)

    def _base(self, known: OperatorKnowledge) -> Allocation:
        """What a plan starts from: what the operator is meant to have or, while a backlog has raised it, the last plan.

        It is not always the last plan: with one that a guard held back, two levels would be lost at once.
        """
        # Before any plan was handed on, as where the first came too late, there is only what it has been raised to.
        base = (known.planned if known.is_raised else None) or known.meant or known.seen
        if base is None:
            raise NotReadyError(f"what {known.name} has is not known yet")
        return base

    def _in_force(self) -> PlanInForce | None:
        """The newest plan, as it is judged; None: there is none."""
        latest = self._background.latest
        if latest is None:
            return None
        plan = latest.answer.plan
        targets = {decision.operator: decision.target for decision in plan.decisions}
        return PlanInForce(latest.at, targets, plan.predictions, self._left_alone.get(latest.at, frozenset()))

    # --- what comes out --------------------------------------------------------------------------------------

    def _rescued(self, request: PlanRequest) -> str | None:
        """Why the operator needs its highest level now; None: it does not."""
        if self.options.rescue is None:
            return None
        waiting: dict[str, float] = {}
        for name, known in self._known.items():
            has = known.planned or known.meant
            seconds = None if has is None else known.waiting_seconds(has)
            if seconds is None:
                # How much waits there is not known: what was measured has to do.
                return self._late(request, self._known[request.operator])
            waiting[name] = seconds
        return self.options.rescue.operators(self._bounds, waiting).get(request.operator)

    def _late(self, request: PlanRequest, known: OperatorKnowledge) -> str | None:
        """Why the operator needs all its CPU now, by the latency measured; None: it does not."""
        seen, rescue = request.observation, self.options.rescue
        if rescue is None or seen.quality is not Quality.GOOD:
            return None
        measured = request.objective.measured(seen.latency)
        if measured is None:
            is_busy = seen.utilisation is not None and seen.utilisation >= _UTILISATION_WHEN_STUCK
            return "no record comes out, and all CPU is used" if is_busy else None
        bound = self._tightest(request.operator)
        if measured <= rescue.bound_part * bound:
            return None
        if isinstance(known, RecordKnowledge) and not known.is_raised:  # else the window is that of the level before
            known.note_late(request.at, request.current)
        late = f"{request.objective.statistic} is {measured:.3g} s"
        return f"{late}, beyond {rescue.bound_part:.0%} of its bound of {bound:g} s"

    def _raised(self, request: PlanRequest, known: OperatorKnowledge) -> Allocation:
        """All the CPU of the executors there are; more executors, which take long to come, only where that is short.

        A larger share is in force at the next batch, and a new executor was seen to hold the query up while it starts.
        But where the bound is broken already, what is believed to be enough is not.
        """
        if known.site.is_real_time:
            return known.limits.top
        full = Allocation(request.current.executors, request.limits.cpu_shares[-1])
        arriving = request.observation.arrival_rate_rows_per_second
        is_broken = request.objective.is_met_by(request.observation.latency) is False
        each = known.per_record_seconds
        if each is None or arriving is None or is_broken:
            return request.limits.top
        is_enough = arriving * each / full.capacity < _UTILISATION_TO_CATCH_UP
        return full if is_enough else request.limits.top

    def _overtaken(self, decision: Decision, result: AnalysisResult) -> str | None:
        """Why a plan that takes something away comes too late; None: it does not."""
        now, planned_for = self._arriving, result.workload.arrivals_per_second
        is_less = decision.target.capacity < decision.current.capacity
        if not self.options.drop_overtaken or not is_less or now is None or now <= _OVERTAKEN_FACTOR * planned_for:
            return None
        return f"no less now: planned for {planned_for:.4g} arrivals a second, and {now:.4g} come"

    def _without_plan(self, request: PlanRequest, known: OperatorKnowledge) -> Decision:
        """What can be decided before the first plan: everything for late records, one level less for equal batches.

        Batches of one size do not show what a record costs; on another level they do.
        """
        seen, measured = request.observation, request.objective.measured(request.observation.latency)
        no_plan = self._why_no_plan
        if self._background.latest is not None:  # there is one, for the others
            is_known = known.demand is not None
            no_plan = "what its records cost is known since the last one" if is_known else known.why_not
        if self.options.rescue is not None and measured is not None:
            part = self.options.rescue.bound_part
            if measured > part * self._tightest(request.operator):
                late = f"{request.objective.statistic} is {measured:.3g} s"
                why = f"{late}, beyond {part:.0%} of its bound, and no plan yet: {no_plan}"
                return self._lifting(request, known, known.limits_for(request.current).top, why)
        if (
            self.options.probe
            and known.is_worth_probing
            and seen.batch_seconds is not None
            and seen.utilisation is not None
        ):
            bound = self._tightest(request.operator)
            below = safe_step_down(request.limits, request.current, seen.batch_seconds, seen.utilisation, bound)
            if below is not None:
                why = f"one level down, which cannot break the bound, to learn more: {known.why_not}"
                return self._decision(request, known, below, why)
        return self._decision(request, known, request.current, f"holding: {no_plan}")

    def _tightest(self, operator: str) -> float:
        """The least bound of the paths through an operator."""
        return min(bound for path, bound in self._bounds.items() if operator in path)

    def _lifting(self, request: PlanRequest, known: OperatorKnowledge, target: Allocation, why: str) -> Decision:
        """The decision to give an operator more at once; where there is no more to give, it says so."""
        is_top = request.current.capacity >= request.limits.top.capacity
        return self._decision(
            request, known, target, f"{why}; it is at the top of its limits already" if is_top else why
        )

    def _decision(self, request: PlanRequest, known: OperatorKnowledge, target: Allocation, reason: str) -> Decision:
        latest = self._background.latest
        evidence = {} if latest is None else self._evidence(known, latest.age_seconds(request.at))
        workload = None if latest is None else latest.answer.workload
        return Decision(
            request.operator, request.at, self.name, request.current, target, reason, evidence, workload=workload
        )

    def _evidence(self, known: OperatorKnowledge, age: float) -> dict[str, float | int | str | None]:
        assert self._background.latest is not None
        answer = self._background.latest.answer
        judged: dict[str, float | int | str | None] = {}
        if self._judge is not None:
            through = [path for path in answer.plan.predictions if known.name in path.path]
            nearest = max(through, key=lambda path: path.counted_seconds / path.bound_seconds)
            judged = self._judge.evidence(nearest.path)
        return {
            "plan_age_seconds": age,
            "arrivals_per_second": answer.workload.arrivals_per_second,
            "queues": answer.queues,
            **known.evidence(),
            **judged,
        }

    def _note(self, report: AnalysisReport) -> str | None:
        if report.end is AnalysisEnd.NOT_READY:
            self._why_no_plan = report.detail  # it stands in each decision to hold
            return None
        if report.end is AnalysisEnd.DONE:
            return None
        self._why_no_plan = f"a plan was {report.end}: {report.detail}"
        return f"a plan was {report.end}: {report.detail}"


def _require_replayable(context: PolicyContext) -> None:
    """Refuse what cannot be replayed before anything runs."""
    why_not = why_not_replayed(
        {name: len(context.topology.inputs(name)) for name in context.topology.order},
        {
            name: not (site.is_real_time or isinstance(site.demand, RecordDemand))
            for name, site in context.operators.items()
        },
    )
    if why_not is not None:
        raise ConfigurationError(f"queues: {why_not}, and that cannot be replayed; use queues: auto", field="queues")
