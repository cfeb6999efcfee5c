# SPDX-License-Identifier: Apache-2.0
"""Gesscale with its limits removed: sizes are planned in one step, from arrivals, backlog and the model's interval.

The published policy does not know how much more is needed, so it adds one executor after the other. Here the arrival
rate is known from offsets. Where what there is does not keep up, or soon will not, the smallest set of nodes is taken
whose throughput covers what arrives after the change and works the backlog off, the standstill of the change
included. Executors are given up only where fewer cover the busiest rate of late by the lower end of the interval, so
a change is not undone.
"""

from __future__ import annotations

from penstock.errors import NotReadyError
from penstock.plan.placement import Placement
from penstock.policies.gesscale.change_time import ChangeTime
from penstock.policies.gesscale.expected_load import ExpectedLoad, expected_load
from penstock.policies.gesscale.known_operator import KnownOperator, model_for
from penstock.policies.gesscale.options import PlusOptions
from penstock.policies.gesscale.policy import decided, why_not_usable
from penstock.ports import Look, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest, Rejected, ThroughputPrediction, WorkloadEstimate

_CHANGES_TO_CATCH_UP = 10.0
_LEAST_CATCH_UP_SECONDS = 60.0
_LONGEST_TREND_SECONDS = 600.0
_DWELL_SECONDS = 900.0
"""How long a size is taken to last, or as long as the last one did: what is given up must save more in that time than
the change loses."""
_GAIN = 1.02
"""An executor more must bring so many times the throughput."""
_LOSS = 2.0
"""A standstill costs the time of all executors, and once more to catch up."""
_CHANGES_AHEAD = 4.0
"""A rise is followed for at least so many changes: each of them costs its standstill."""
_PATIENCE = 2.0
"""So many times the catch-up time a backlog may take before more is asked for: sizes are planned for one of them, and a
little less than was planned is no reason for the next change."""


class GesscalePlusPolicy:
    """Sizes every operator in one step.

    Parameters
    ----------
    context
        The pipeline.
    options
        What it is set to.
    """

    name = "gesscale+"

    def __init__(self, context: PolicyContext, options: PlusOptions | None = None) -> None:
        self.options = options or PlusOptions()
        self.every_seconds = self.options.every_seconds
        self.history_seconds = max(self.options.calm_seconds, _LONGEST_TREND_SECONDS)
        self.changes_seconds = 0.0
        placement = Placement(context.round_trips, self.options.nodes, self.options.seed)
        self._known = {
            name: KnownOperator(
                model_for(self.options.model, context, site), site, placement, self.options.high_pressure
            )
            for name, site in context.operators.items()
        }
        self._changes = {name: ChangeTime() for name in context.operators}

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look."""
        known = self._known.get(look.operator)
        if known is None:
            return ()
        self._changes[look.operator].watch(look.observation.at, look.observation.cluster)
        return known.watch(look)

    def close(self) -> None:
        """Nothing was started."""

    def plan(self, request: PlanRequest) -> Decision:
        """The smallest set that keeps up, or a hold with its cause."""
        known, why_not = self._known.get(request.operator), why_not_usable(request)
        if known is None or why_not is not None:
            return decided(self.name, request, request.current, f"holding: {why_not or 'it was not introduced'}")
        try:
            return _Plan(request, known, self._changes[request.operator], self.options).decision()
        except NotReadyError as fault:
            return decided(self.name, request, request.current, f"holding: {fault}", known)


class _Plan:
    """One plan for one operator."""

    def __init__(self, request: PlanRequest, known: KnownOperator, change: ChangeTime, options: PlusOptions) -> None:
        self._request, self._known, self._options = request, known, options
        self._load: ExpectedLoad = expected_load(request, options.calm_seconds)
        self._change_seconds = change.seconds
        within = options.catch_up_seconds
        self._catch_up = (
            max(_LEAST_CATCH_UP_SECONDS, _CHANGES_TO_CATCH_UP * change.seconds) if within is None else within
        )
        self._here = known.predicted(request.current, options.confidence)

    def decision(self) -> Decision:
        """More, fewer, or as it is."""
        need = self._why_more()
        return self._more(need) if need is not None else self._fewer()

    def _why_more(self) -> str | None:
        """Why what is there will not do; None: it does."""
        sustained, load = self._here.records_per_second, self._load
        soon = load.rate_in(self._change_seconds + self._options.every_seconds)
        if soon > sustained:
            return f"{soon:,.0f} records/s will arrive before long, and it sustains {sustained:,.0f}"
        pressure = self._request.observation.back_pressure
        spare = sustained - load.rate
        allowed = _PATIENCE * self._catch_up
        if pressure is not None and pressure > self._options.high_pressure and load.backlog > spare * allowed:
            return (
                f"back pressure is {pressure:.2f}, and {load.backlog:,.0f} records will not be gone within "
                f"{allowed:.0f} s"
            )
        return None

    def _more(self, why: str) -> Decision:
        load, request = self._load, self._request
        needed = max(self._rate_ahead(), self._with_catch_up(load.rate))
        rejected: tuple[Rejected, ...] = ()
        target = request.current
        # No further than twice what was there: beyond, the model has been seen nowhere near.
        most = min(request.limits.max_executors, 2 * request.current.executors)
        for executors in range(request.current.executors + 1, most + 1):
            candidate = self._known.placed(request, executors)
            if candidate.executors <= target.executors:
                break  # nodes hold no more
            does = self._predicted(candidate).records_per_second
            if target is not request.current and does < _GAIN * self._predicted(target).records_per_second:
                break  # more bring nothing, or the model has not seen enough to say what they bring
            target = candidate
            if does >= needed:
                break
            rejected = (*rejected, self._rejected(candidate))
        rejected = tuple(one for one in rejected if one.allocation != target)
        if target.executors <= request.current.executors:
            return self._decided(request.current, f"{why}; there is no room for more", needed)
        return self._decided(target, f"{why}: {self._sustains(target)} for {needed:,.0f}", needed, rejected)

    def _fewer(self) -> Decision:
        load, request = self._load, self._request
        needed = max(self._with_catch_up(load.busiest), self._rate_ahead())
        found, rejected = request.current, tuple[Rejected, ...]()
        for executors in range(request.current.executors - 1, request.limits.min_executors - 1, -1):
            fewer = self._known.placed(request, executors)
            if self._predicted(fewer).low < needed:
                rejected = (self._rejected(fewer),)
                break
            found = fewer
        last = max((change.at for change in request.recent if change.is_change), default=request.at)
        dwell = max(_DWELL_SECONDS, request.at - last)
        saved = (request.current.executors - found.executors) * dwell
        lost = _LOSS * request.current.executors * self._change_seconds
        if found.executors < request.current.executors and saved < lost:
            reason = f"{self._sustains(found)}, but the change would lose more than they save"
            return self._decided(request.current, reason, needed, rejected)
        if found.executors >= request.current.executors:
            reason = f"it sustains {self._here.records_per_second:,.0f} records/s, and fewer might not do {needed:,.0f}"
            return self._decided(request.current, reason, needed, rejected)
        reason = f"{self._sustains(found)}, and at most {needed:,.0f} arrived of late"
        return self._decided(found, reason, needed, rejected)

    def _rate_ahead(self) -> float:
        """The rate when a change will have been in force for a while."""
        after = max(self._options.ahead_seconds, _CHANGES_AHEAD * self._change_seconds)
        return self._load.rate_in(self._change_seconds + after)

    def _with_catch_up(self, rate: float) -> float:
        """A rate, and what waits now and will have come during the change, gone within the catch-up time."""
        return rate + (self._load.backlog + rate * self._change_seconds) / self._catch_up

    def _predicted(self, allocation: Allocation) -> ThroughputPrediction:
        return self._known.predicted(allocation, self._options.confidence)

    def _sustains(self, allocation: Allocation) -> str:
        found = self._predicted(allocation)
        around = f"{found.records_per_second:,.0f} ({found.low:,.0f} to {found.high:,.0f})"
        return f"{allocation.executors} executors sustain {around}"

    def _rejected(self, allocation: Allocation) -> Rejected:
        return Rejected(allocation, f"{self._sustains(allocation)} records/s")

    def _decided(self, target: Allocation, reason: str, needed: float, rejected: tuple[Rejected, ...] = ()) -> Decision:
        decision = decided("gesscale+", self._request, target, reason, self._known, rejected=rejected)
        evidence = {
            **decision.evidence,
            "needed_records_per_second": needed,
            "sustained_records_per_second": self._here.records_per_second,
            "change_seconds": self._change_seconds,
            "catch_up_seconds": self._catch_up,
        }
        rate = self._load.rate
        growth = 1.0 if rate <= 0.0 else self._load.rate_in(self._change_seconds) / rate
        workload = WorkloadEstimate(self._request.at, rate * growth, growth=growth)
        return Decision(
            decision.operator, decision.at, decision.policy, decision.current, target, reason, evidence,
            rejected=rejected, workload=workload,
        )  # fmt: skip
