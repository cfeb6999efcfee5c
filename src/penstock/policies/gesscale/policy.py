# SPDX-License-Identifier: Apache-2.0
"""Gesscale as published: one executor more under overload, as many fewer as the model allows.

References ---------- Arkian, Pierre, Tordsson and Elmroth, "Model-based Stream Processing Auto-scaling in
Geo-Distributed Environments", ICCCN 2021, Algorithms 1 to 4. Algorithm 4 as printed goes on removing while MST <= IR;
its text says the opposite, and that is what is done here (docs/decisions/0012-gesscale-as-its-text-says.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite

from penstock.errors import NotReadyError
from penstock.plan.placement import Placement
from penstock.policies.gesscale.operator_throughput import OperatorThroughput, model_for
from penstock.policies.gesscale.options import GesscaleOptions
from penstock.policies.gesscale.saturated import pooled_seconds
from penstock.ports import Look, PolicyContext
from penstock.records import Allocation, Decision, PlanRequest, Quality, Rejected


@dataclass(frozen=True, slots=True)
class Overload:
    """What Algorithm 1 finds: whether the operator is the root of an overload, and why or why not.

    One under pressure that is not the root gives nothing up either, whatever the model says.
    """

    is_root: bool
    reason: str
    is_pressed: bool = True


class GesscalePolicy:
    """Scales every operator by its own throughput and the pressure at its input.

    Parameters
    ----------
    context
        The pipeline.
    options
        What it is set to.
    """

    name = "gesscale"

    def __init__(self, context: PolicyContext, options: GesscaleOptions | None = None) -> None:
        self.options = options or GesscaleOptions()
        self.every_seconds = self.options.every_seconds
        self._topology = context.topology
        pooled = pooled_seconds(self.every_seconds, GesscaleOptions().every_seconds)
        placement = Placement(context.round_trips, self.options.nodes, self.options.seed)
        self._known = {
            name: OperatorThroughput(
                model_for(self.options.model, context, site), site, placement, self.options.high_pressure, pooled
            )
            for name, site in context.operators.items()
        }

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn from one look."""
        known = self._known.get(look.operator)
        return () if known is None else known.watch(look)

    def close(self) -> None:
        """Nothing was started."""

    def plan(self, request: PlanRequest) -> Decision:
        """One executor more, some fewer, or a hold with its cause."""
        known = self._known.get(request.operator)
        why_not = why_not_usable(request, known) or why_no_pressure(request)
        if known is None or why_not is not None:
            return decided(self.name, request, request.current, f"holding: {why_not or 'it was not introduced'}")
        overload = self.overload(request)
        if overload.is_root:
            return self._scale_up(request, known, overload)
        if overload.is_pressed:
            return decided(self.name, request, request.current, overload.reason, known)
        return self._scale_down(request, known, overload)

    def overload(self, request: PlanRequest) -> Overload:
        """Algorithm 1: under pressure at the input, and no operator behind it is."""
        pressure, high = request.observation.back_pressure, self.options.high_pressure
        assert pressure is not None  # why_no_pressure has refused it
        if pressure <= high:
            return Overload(False, f"back pressure {pressure:.2f} is not above {high:g}", is_pressed=False)
        behind = [stream.target for stream in self._topology.outputs(request.operator)]
        pressed = [name for name in behind if self._pressure_of(name, request.at) > high]
        if pressed:
            return Overload(
                False, f"back pressure {pressure:.2f}, but {' and '.join(pressed)} behind it is under pressure"
            )
        return Overload(
            True, f"back pressure {pressure:.2f} is above {high:g}, and nothing behind it is under pressure"
        )

    def _pressure_of(self, operator: str, now: float) -> float:
        known = self._known.get(operator)
        seen = None if known is None else known.newest
        # Not known is not high: nothing is blocked by an operator whose input nobody sees to grow.
        if seen is None or seen.back_pressure is None or seen.quality in (Quality.STALE, Quality.STOPPED):
            return 0.0
        # One that was not heard of for a period is dead or cut off, and says nothing about now.
        return seen.back_pressure if now - seen.at <= max(self.every_seconds, seen.window_seconds) else 0.0

    def _scale_up(self, request: PlanRequest, known: OperatorThroughput, overload: Overload) -> Decision:
        """Algorithm 3: one more, where the limits allow it."""
        target = known.placed(request, request.current.executors + 1)
        if request.current.executors >= request.limits.max_executors or target.executors <= request.current.executors:
            reason = f"{overload.reason}, but there is no room for one more"
            return decided(self.name, request, request.current, reason, known)
        return decided(self.name, request, target, f"{overload.reason}: one executor more", known)

    def _scale_down(self, request: PlanRequest, known: OperatorThroughput, overload: Overload) -> Decision:
        """Algorithms 2 and 4: where enough is free, as many fewer as still sustain throughput and input rate."""
        seen, current = request.observation, request.current
        throughput, arrivals = seen.processed_rows_per_second, seen.arrival_rate_rows_per_second
        if throughput is None or not 0.0 <= throughput < inf:
            return decided(self.name, request, current, "holding: its throughput is not known", known)
        try:
            slack = self._slack(known.predicted(current).records_per_second, throughput)
            if slack < self.options.slack:
                reason = f"{overload.reason}; it does {100.0 - slack:.0f} % of what it sustains"
                return decided(self.name, request, current, reason, known)
            needed = max(throughput, arrivals or 0.0)
            target, rejected = self._fewest(request, known, needed)
        except NotReadyError as fault:
            return decided(self.name, request, current, f"{overload.reason}; holding: {fault}", known)
        if current.executors <= request.limits.min_executors:
            reason = f"{overload.reason}; it has as few executors as it may have"
            return decided(self.name, request, current, reason, known)
        if target.executors >= current.executors:
            reason = f"{overload.reason}; one executor fewer would not sustain {needed:,.0f} records/s"
            return decided(self.name, request, current, reason, known, rejected=rejected)
        reason = f"{target.executors} executors sustain {needed:,.0f} records/s"
        return decided(self.name, request, target, reason, known, rejected=rejected)

    def _fewest(
        self, request: PlanRequest, known: OperatorThroughput, needed: float
    ) -> tuple[Allocation, tuple[Rejected, ...]]:
        """Algorithm 4, as its text says: as many as possible without reducing the MST below what is needed."""
        found = request.current
        for executors in range(request.current.executors - 1, request.limits.min_executors - 1, -1):
            fewer = known.placed(request, executors)
            sustained = known.predicted(fewer).records_per_second
            if sustained < needed:
                return found, (Rejected(fewer, f"it sustains {sustained:,.0f} records/s"),)
            found = fewer
        return found, ()

    @staticmethod
    def _slack(sustained: float, throughput: float) -> float:
        """DT of Algorithm 2, in percent; nothing where nothing is sustained."""
        return 0.0 if sustained <= 0.0 else 100.0 * (sustained - throughput) / sustained


def why_not_usable(request: PlanRequest, known: OperatorThroughput | None) -> str | None:
    """Why nothing can be decided now; None: it can."""
    seen, cluster = request.observation, request.observation.cluster
    missing = f" (missing: {'; '.join(seen.missing)})" if seen.missing else ""
    if seen.quality is not Quality.GOOD:
        return f"the data are {seen.quality.value}{missing}"
    asked, there = cluster.requested, cluster.observed
    is_given_up = known is not None and known.lost.gave_up(request.at)
    if asked is not None and there is not None and not there.satisfies(asked) and not is_given_up:
        return "the last change is not over"
    since = request.at - seen.window_seconds
    if any(o.at > since and o.cluster.observed is not None and o.cluster.observed != there for o in request.history):
        return "what was measured is partly of before the last change"
    shows_nothing = known is not None and known.is_real_time and seen.processed_rows_per_second is None
    if shows_nothing and any(o.cluster.observed not in (None, there) for o in request.history):
        # New executors get their tasks with the next batch, and its checkpoint shows what they did.
        return "no checkpoint shows yet what the last change did"
    return None


def why_no_pressure(request: PlanRequest) -> str | None:
    """Why nothing can be decided by pressure now; None: it can."""
    seen = request.observation
    if seen.back_pressure is not None and isfinite(seen.back_pressure):
        return None
    missing = f" (missing: {'; '.join(seen.missing)})" if seen.missing else ""
    return f"the pressure at its input is not known{missing}"


def decided(
    policy: str,
    request: PlanRequest,
    target: Allocation,
    reason: str,
    known: OperatorThroughput | None = None,
    *,
    rejected: tuple[Rejected, ...] = (),
) -> Decision:
    """The decision, with what was known."""
    evidence = {"quality": request.observation.quality.value} if known is None else known.evidence(request)
    return Decision(request.operator, request.at, policy, request.current, target, reason, evidence, rejected=rejected)
