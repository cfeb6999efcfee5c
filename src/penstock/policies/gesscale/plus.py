# SPDX-License-Identifier: Apache-2.0
"""Gesscale with its limits removed: sizes are planned in one step, from arrivals, backlog and the model's interval.

The published policy does not know how much more is needed, so it adds one executor after the other, each with its
standstill. Here the arrival rate is known from offsets. Three rules, all in terms of what a change takes (c seconds,
measured), so that they hold for an engine that stands still for two minutes and for one that goes on:

- **More** where records would before long wait for longer than a change takes and the objective allows: a shorter wait
  is less than what the change itself costs. Before long is the time to catch up, and at least ten times that wait, so
  that a tenth more than is sustained is acted on when it is seen, not when it has filled the wait. A rise to a new
  height counts with the rate that it will have come to when a change is in force. The smallest set of nodes is taken
  that covers the rise for some changes to come and works the backlog off, the standstill included.
- **Fewer** where the lower end of the interval covers the busiest rate of so long a time that what is given up
  outweighs the change. n executors stand still for c, the same again is caught up with, and half of that once more for
  the change that takes some back one day: k fewer of n must last for 3 n c / k.
- **Fewer at once** in a strong fall, where enough are given up to outweigh the change before the next one.
"""

from __future__ import annotations

from math import inf

from penstock.errors import NotReadyError
from penstock.plan.placement import Placement
from penstock.policies.gesscale.change_time import ChangeTime
from penstock.policies.gesscale.expected_load import LATE_TRENDS, BusiestRate, ExpectedLoad, expected_load
from penstock.policies.gesscale.operator_throughput import OperatorThroughput, best_measured, model_for
from penstock.policies.gesscale.options import PlusOptions
from penstock.policies.gesscale.policy import decided, why_not_usable
from penstock.policies.gesscale.saturated import pooled_seconds
from penstock.ports import Look, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest, Rejected, ThroughputPrediction, WorkloadEstimate

_CHANGES_TO_CATCH_UP = 10.0
_WAITS_AHEAD = 10.0
"""An overload is followed for so many times the wait that is borne: one that lasts breaks the objective for certain."""
_LEAST_CATCH_UP_SECONDS = 60.0
_LONGEST_HOLD_SECONDS = 3600.0
_GAIN = 1.02
"""An executor more must bring so many times the throughput."""
_LOSS = 3.0
"""A standstill costs the time of all executors, once more to catch up, and some more when the change is taken back."""
_LOSS_IN_A_FALL = 2.0
"""Nobody expects that change to be taken back soon."""
_CHANGES_AHEAD = 4.0
"""A rise is followed for at least so many changes: each of them costs its standstill."""
_CHANGES_A_FALL_LASTS = 8.0
"""In a strong fall a size is to last for so many changes: at least a quarter of the executors must go, and not earlier
than so long after the last change."""

_NEAR_THE_TOP = 0.8
"""A load whose busiest of late is above this part of the busiest of the day may be as busy again any moment."""


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
        late = LATE_TRENDS * self.options.trend_seconds
        self.history_seconds = max(self.options.calm_seconds, _LONGEST_HOLD_SECONDS, late)
        self.changes_seconds = 0.0
        pooled = pooled_seconds(self.every_seconds, PlusOptions().every_seconds)
        placement = Placement(context.round_trips, self.options.nodes, self.options.seed)
        self._known = {
            name: OperatorThroughput(
                model_for(self.options.model or best_measured(site), context, site),
                site,
                placement,
                self.options.high_pressure,
                pooled,
            )
            for name, site in context.operators.items()
        }
        self._changes = {name: ChangeTime() for name in context.operators}
        self._busiest = {name: BusiestRate() for name in context.operators}

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look."""
        known = self._known.get(look.operator)
        if known is None:
            return ()
        seen = look.observation
        self._changes[look.operator].watch(seen.at, seen.cluster)
        self._busiest[look.operator].watch(seen.at, seen.arrival_rate_rows_per_second)
        return known.watch(look)

    def close(self) -> None:
        """Nothing was started."""

    def plan(self, request: PlanRequest) -> Decision:
        """The smallest set that keeps up, or a hold with its cause."""
        known = self._known.get(request.operator)
        why_not = why_not_usable(request, known)
        if known is None or why_not is not None:
            return decided(self.name, request, request.current, f"holding: {why_not or 'it was not introduced'}")
        try:
            trend = self.options.trend_seconds
            highest = self._busiest[request.operator].before(request.at - LATE_TRENDS * trend)
            load = expected_load(request, highest, trend)
            return _Plan(request, known, load, self._changes[request.operator].seconds, self.options).decision()
        except NotReadyError as fault:
            return decided(self.name, request, request.current, f"holding: {fault}", known)


class _Plan:
    """One plan for one operator."""

    def __init__(
        self,
        request: PlanRequest,
        known: OperatorThroughput,
        load: ExpectedLoad,
        change_seconds: float,
        options: PlusOptions,
    ) -> None:
        self._request, self._known, self._options = request, known, options
        self._load, self._change_seconds = load, change_seconds
        within = options.catch_up_seconds
        self._catch_up = (
            max(_LEAST_CATCH_UP_SECONDS, _CHANGES_TO_CATCH_UP * change_seconds) if within is None else within
        )
        self._here = known.predicted(request.current, options.confidence)

    def decision(self) -> Decision:
        """More, fewer, or as it is."""
        need = self._why_more()
        return self._more(need) if need is not None else self._fewer()

    def _why_more(self) -> str | None:
        """Why what is there will not do; None: it does."""
        sustained, load = self._here.records_per_second, self._load
        soon = load.rate_in(self._change_seconds + self._options.every_seconds) if load.is_rising else 0.0
        expected = max(load.mean, soon)
        objective = self._request.objective
        bearable = max(self._change_seconds, objective.seconds or objective.catch_up_seconds)
        ahead = max(self._catch_up, _WAITS_AHEAD * bearable)
        if load.backlog + (expected - sustained) * ahead <= bearable * sustained:
            return None
        what = "will arrive before long" if soon > load.mean else "arrive"
        return (
            f"{expected:,.0f} records/s {what}, {load.backlog:,.0f} records wait, and it sustains {sustained:,.0f}: in "
            f"{ahead:.0f} s they would wait for longer than {bearable:.0f} s"
        )

    def _more(self, why: str) -> Decision:
        load, request = self._load, self._request
        needed = self._with_catch_up(max(load.mean, self._rate_ahead()) if load.is_rising else load.mean)
        rejected: tuple[Rejected, ...] = ()
        target = request.current
        # No further than twice what was seen at its maximum, or is there: beyond, the model is a guess.
        most = min(request.limits.max_executors, 2 * max(request.current.executors, self._known.samples.most_executors))
        most = min(most, self._known.most_with_tasks or most)
        for executors in range(request.current.executors + 1, most + 1):
            candidate = self._known.placed(request, executors)
            if candidate.executors <= target.executors:
                break  # nodes hold no more
            does = self._predicted(candidate).records_per_second
            is_tried = target is request.current and not self._known.is_sure_of(candidate)
            if not is_tried and does < _GAIN * self._predicted(target).records_per_second:
                rejected = (*rejected, self._rejected(candidate))
                break  # more bring nothing, or the model has not seen enough to say what they bring
            target = candidate
            if does >= needed:
                break
            rejected = (*rejected, self._rejected(candidate))
        rejected = tuple(one for one in rejected if one.allocation != target)
        if target.executors <= request.current.executors:
            why_none = "more would not do more" if rejected else "there is no room for more"
            return self._decided(request.current, f"{why}; {why_none}", needed, rejected)
        return self._decided(target, f"{why}: {self._sustains(target)} for {needed:,.0f}", needed, rejected)

    def _fewer(self) -> Decision:
        """The fewest that cover what came for as long as giving up the others has to last."""
        request, has = self._request, self._request.current.executors
        found, needed, rejected = request.current, self._load.rate, tuple[Rejected, ...]()
        for executors in range(has - 1, request.limits.min_executors - 1, -1):
            fewer = self._known.placed(request, executors)
            low = self._predicted(fewer).low
            if fewer.executors >= has or low < self._least_covered():
                rejected = (self._rejected(fewer),)
                break  # fewer still do no more
            pays_after = _LOSS * has * self._change_seconds / (has - fewer.executors)
            covered = self._covered(pays_after)
            if covered is None:
                rejected = (Rejected(fewer, f"the change pays after {pays_after:.0f} s only"),)
            elif low < covered:
                rejected = (self._rejected(fewer),)
            else:
                found, needed, rejected = fewer, covered, ()
        if found.executors < has:
            reason = f"{self._sustains(found)}, and at most {needed:,.0f} has to be done"
            return self._decided(found, reason, needed, rejected)
        is_least = has <= request.limits.min_executors
        why = "it has as few executors as it may have" if is_least else "fewer might not do, or not for long"
        reason = f"it sustains {self._here.records_per_second:,.0f} records/s, and {why}"
        return self._decided(request.current, reason, needed, rejected)

    def _least_covered(self) -> float:
        """What any fewer executors must cover, however soon giving others up pays."""
        load = self._load
        return self._with_catch_up(load.rate) if load.is_falling else load.busiest(self._options.calm_seconds)

    def _covered(self, pays_after: float) -> float | None:
        """The rate that fewer executors must cover where giving others up pays after so long; None: not yet."""
        load, lasts = self._load, _CHANGES_A_FALL_LASTS * self._change_seconds
        if load.is_falling:
            pays_in_a_fall = pays_after * _LOSS_IN_A_FALL / _LOSS
            return self._with_catch_up(load.rate) if pays_in_a_fall <= lasts <= self._since_change() else None
        if load.slope > 0.0 or load.rate > load.mean:
            return None  # what was too much a moment ago may not be in the next
        seen_for = max((ago for ago, _ in load.past), default=0.0)
        calm = self._options.calm_seconds
        if seen_for < calm or min(seen_for, self._since_change()) < min(pays_after, _LONGEST_HOLD_SECONDS):
            return None
        busiest = load.busiest(max(calm, pays_after))
        top = load.highest if busiest > _NEAR_THE_TOP * load.highest else 0.0
        return max(busiest, top, self._with_catch_up(load.mean))

    def _since_change(self) -> float:
        """How long things have been as they are; endless where nothing was ever changed."""
        return min((self._request.at - change.at for change in self._request.recent if change.is_change), default=inf)

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
