# SPDX-License-Identifier: Apache-2.0
"""Damping and limits as named parts: each guard may change a decision, and says what it changed and why.

A guard that holds puts the target back to the allowed allocation nearest to the current one. That is the
current one, unless that lies outside the limits (they were narrowed, or the operator came with something else): on
good data the way into the limits is always open, so no guard may hold an operator outside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError
from penstock.plan.ladder import direction, nearest
from penstock.ports import Guard
from penstock.records import Decision, Observation, PlanRequest, Quality
from penstock.settings import GuardSettings
from penstock.units import format_count, format_seconds


def apply_guards(decision: Decision, request: PlanRequest, guards: Sequence[Guard]) -> Decision:
    """Give the decision as it may stand after every guard, in the order listed, with the limits kept.

    On data that are late, partial or early nothing is changed, not even to get into the limits: executors that are
    still starting look like too few.

    The limits come before all guards, so that those judge what would truly be asked for: clamping may turn a
    wish to grow into a shrinking (9 x 30% wanted, 4 x 40% allowed). They come again after all guards, because
    nothing outside them is ever asked for whatever a guard says.
    """
    seen = request.observation
    if seen.quality is not Quality.GOOD:
        missing = f" (missing: {'; '.join(seen.missing)})" if seen.missing else ""
        why = f"the data are {seen.quality.value}{missing}"
        return decision.amended("only good data", request.current, why) if decision.is_change else decision
    limits = WithinLimits()
    for guard in (limits, *guards, limits):
        decision = guard.check(decision, request)
    return decision


def default_guards(
    *,
    up_seconds: float = 10.0,
    down_seconds: float = 30.0,
    opposite_seconds: float = 30.0,
    settle_seconds: float = 60.0,
    backlog_seconds: float = 10.0,
) -> tuple[Guard, ...]:
    """Give the guards every run should have, in their order: first the cluster, then time.

    Whether the data can be trusted is checked before any of them, by `apply_guards`.
    """
    return (
        HoldUntilSettled(settle_seconds),
        NoScaleDownWhileDraining(backlog_seconds),
        Cooldown(up_seconds, down_seconds),
        NoOppositeWithin(opposite_seconds),
        WithinLimits(),
    )


def guards_as_set(settings: GuardSettings | None) -> tuple[Guard, ...]:
    """Give the default guards with the times of the settings; where those say none, only the limits are kept."""
    if settings is None:
        return (WithinLimits(),)
    return default_guards(
        up_seconds=settings.cooldown_up,
        down_seconds=settings.cooldown_down,
        opposite_seconds=settings.opposite,
        settle_seconds=settings.settle,
        backlog_seconds=settings.drain,
    )


@dataclass(frozen=True, slots=True)
class WithinLimits:
    """Keeps the target inside the user's limits, whatever the policy and the other guards say."""

    name: str = "within limits"

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision with its target moved to the nearest allowed allocation."""
        limits = request.limits
        if limits.allows(decision.target):
            return decision
        shares = ", ".join(f"{share:.0%}" for share in limits.cpu_shares)
        reason = f"allowed are {limits.min_executors} to {limits.max_executors} executors with CPU {shares}"
        if decision.target.size is not None and decision.target.size not in limits.sizes:
            reason += f", of {' or '.join(['its own size', *map(str, limits.sizes)])}"
        if decision.target.nodes:
            reason += f", on {', '.join(limits.nodes) or 'nodes that the cluster chooses'}"
        return decision.amended(self.name, nearest(limits, decision.target), reason)


@dataclass(frozen=True, slots=True)
class HoldUntilSettled:
    """Holds while the executors last asked for are not there yet, for at most `timeout_seconds` after asking.

    They are there when their number, size and nodes are as requested; a CPU share takes effect at once.

    The bound is what lets the loop go on when an executor never comes, or has been lost since.
    """

    timeout_seconds: float = 60.0
    name: str = "hold until settled"

    def __post_init__(self) -> None:
        _check_seconds("timeout_seconds", self.timeout_seconds)

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held while the cluster is on its way."""
        cluster, age = request.observation.cluster, _seconds_since_last_change(request)
        if cluster.requested is None or age is None or age >= self.timeout_seconds:
            return decision
        wanted, there = cluster.requested, cluster.observed
        if there is not None and there.satisfies(replace(wanted, cpu_share=there.cpu_share)):
            return decision
        if there is None:
            seen = "an unknown number is there"
        elif there.size != wanted.size:
            seen = "the restart with another size is not over"
        elif there.executors != wanted.executors:
            seen = f"{there.executors} are there"
        else:
            seen = "they are on other nodes"
        return held(
            decision,
            request,
            self.name,
            f"{wanted.executors} executors were asked for {format_seconds(age)} ago and {seen}; "
            f"waiting at most {format_seconds(self.timeout_seconds)}",
        )


@dataclass(frozen=True, slots=True)
class NoScaleDownWhileDraining:
    """Holds a scale-down while records pile up or the objective is broken: spare CPU is then needed to catch up.

    Parameters
    ----------
    backlog_seconds
        How many seconds of arrivals may be waiting or in work. A calm micro-batch query has up to two batch
        times of arrivals there, so choose it above that.

    Notes
    -----
    Where the backlog is not known, latency stands for it: by Little's law the records in the system are the
    arrival rate times their mean latency, so more than N seconds of arrivals wait exactly when that mean is above
    N seconds. With neither known the scale-down waits: not known is not none.
    """

    backlog_seconds: float = 10.0
    name: str = "no scale-down while draining"

    def __post_init__(self) -> None:
        _check_seconds("backlog_seconds", self.backlog_seconds)

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held if it takes capacity away while the operator is catching up."""
        if direction(nearest(request.limits, request.current), decision.target) >= 0:
            return decision
        why = self._why_busy(request)
        return decision if why is None else held(decision, request, self.name, why)

    def _why_busy(self, request: PlanRequest) -> str | None:
        seen = request.observation
        if request.objective.is_met_by(seen.latency) is False:
            measured = format_seconds(request.objective.measured(seen.latency))
            return f"the objective ({request.objective}) is broken: {measured} measured"
        if seen.backlog_records is None:
            return self._why_slow(seen)
        rate = seen.arrival_rate_rows_per_second
        if seen.backlog_records > 0 and rate is None:
            return f"{format_count(seen.backlog_records)} records wait and the arrival rate is not known"
        if rate is not None and seen.backlog_records > rate * self.backlog_seconds:
            return (
                f"{format_count(seen.backlog_records)} records wait, more than the arrivals of "
                f"{format_seconds(self.backlog_seconds)} at {format_count(rate)} per second"
            )
        return None

    def _why_slow(self, seen: Observation) -> str | None:
        if seen.latency is None:
            return "neither backlog nor latency is known"
        if seen.latency.mean_seconds > self.backlog_seconds:
            return (
                f"records take {format_seconds(seen.latency.mean_seconds)} on average, more than "
                f"{format_seconds(self.backlog_seconds)}"
            )
        return None


@dataclass(frozen=True, slots=True)
class Cooldown:
    """Holds for some seconds after any change, longer before a scale-down than before a scale-up."""

    up_seconds: float = 10.0
    down_seconds: float = 30.0
    name: str = "cooldown"

    def __post_init__(self) -> None:
        _check_seconds("up_seconds", self.up_seconds)
        _check_seconds("down_seconds", self.down_seconds)

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held if the last change is too young."""
        age = _seconds_since_last_change(request)
        goes_up = direction(nearest(request.limits, request.current), decision.target) > 0
        needed, what = (self.up_seconds, "up") if goes_up else (self.down_seconds, "down")
        if age is None or age >= needed:
            return decision
        return held(
            decision,
            request,
            self.name,
            f"the last change was {format_seconds(age)} ago; "
            f"scaling {what} waits {format_seconds(needed)} after any change",
        )


@dataclass(frozen=True, slots=True)
class NoOppositeWithin:
    """Holds a change that would undo the direction of one made less than `guard_seconds` ago."""

    guard_seconds: float = 30.0
    name: str = "no opposite change"

    def __post_init__(self) -> None:
        _check_seconds("guard_seconds", self.guard_seconds)

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision, held if it is opposite to a recent one."""
        way = direction(nearest(request.limits, request.current), decision.target)
        for change in reversed(request.recent):
            age = _age(request, change)
            if age < self.guard_seconds and way * direction(change.current, change.target) < 0:
                return held(
                    decision,
                    request,
                    self.name,
                    f"a {change.verb} was decided {format_seconds(age)} ago; "
                    f"the opposite waits {format_seconds(self.guard_seconds)}",
                )
        return decision


def held(decision: Decision, request: PlanRequest, guard: str, why: str) -> Decision:
    """The decision held at the allowed allocation nearest to the current one."""
    here = nearest(request.limits, request.current)
    return decision if decision.target in (here, request.current) else decision.amended(guard, here, why)


def _seconds_since_last_change(request: PlanRequest) -> float | None:
    ages = [_age(request, change) for change in request.recent if change.is_change]
    return min(ages) if ages else None


def _age(request: PlanRequest, change: Decision) -> float:
    # A wall clock may be set back: a change from the far "future" must not hold the loop until that time comes.
    return abs(request.at - change.at)


def _check_seconds(field: str, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ConfigurationError(f'{field}: {seconds!r} must be zero or a positive time, such as "30s"', field=field)
