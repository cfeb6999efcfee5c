# SPDX-License-Identifier: Apache-2.0
"""Whatever is measured, wanted and remembered: limits, guard times and missing data are respected."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from penstock.plan.guards import (
    Cooldown,
    HoldUntilSettled,
    NoOppositeWithin,
    NoScaleDownWhileDraining,
    OnlyGoodData,
    WithinLimits,
    apply_guards,
    default_guards,
)
from penstock.plan.ladder import ladder, step
from penstock.policies.fixed import FixedPolicy
from penstock.policies.threshold import ThresholdPolicy
from penstock.ports import Guard, Policy
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    LatencySummary,
    Limits,
    Objective,
    PlanRequest,
    Quality,
)
from penstock.testing import a_decision, a_request, an_observation

SHARES = (0.05, 0.1, 0.2, 0.3, 1 / 3, 0.4, 0.5, 0.55, 0.6, 2 / 3, 0.7, 0.85, 0.9, 1.0)

# Not NaN (JSON and the monitor have none), else anything: nothing, negative, huge, endless.
numbers = st.none() | st.floats(allow_nan=False) | st.floats(0.0, 2.0)
counts = st.none() | st.integers(-(2**63), 2**63)
# Six digits: two capacities are then clearly apart or equal but for rounding, and never in the grey between.
any_share = st.floats(-0.5, 2.0).map(lambda share: round(share, 6))
sizes = st.builds(Allocation, st.integers(-2, 40), any_share | st.sampled_from(SHARES))
instants = st.floats(0.0, 1e4)
any_quality = st.sampled_from(Quality)

# No deadline: a busy machine is no fault of the code.
thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def limits_of(draw: st.DrawFn) -> Limits:
    """Any limits."""
    low = draw(st.integers(1, 8))
    shares = draw(st.sets(st.sampled_from(SHARES), min_size=1))
    return Limits(low, low + draw(st.integers(0, 8)), tuple(sorted(shares)))


@st.composite
def allowed(draw: st.DrawFn, limits: Limits) -> Allocation:
    """Any allocation of the limits."""
    executors = draw(st.integers(limits.min_executors, limits.max_executors))
    return Allocation(executors, draw(st.sampled_from(limits.cpu_shares)))


objectives = st.just(Objective()) | st.builds(
    Objective, st.sampled_from(["mean", "p50", "p95", "p99"]), st.floats(1e-3, 1e3)
)
seconds = st.floats(0.0, 1e6)
latencies = st.none() | st.builds(LatencySummary, st.integers(0, 10**9), *[seconds] * 5)
decisions = st.builds(lambda before, after, at: a_decision(before, after, at=at), sizes, sizes, instants)
clusters = st.builds(ClusterState, *[st.none() | sizes] * 3)
metrics: dict[str, st.SearchStrategy[Any]] = {
    "utilisation": numbers,
    "arrival_rate_rows_per_second": numbers,
    "backlog_records": counts,
    "batch_seconds": numbers,
    "latency": latencies,
    "cluster": clusters,
}


@st.composite
def requests(draw: st.DrawFn, qualities: st.SearchStrategy[Quality] = any_quality) -> PlanRequest:
    """Any request: any metrics, limits, current size (allowed or not) and history."""
    limits = draw(limits_of())
    observation = an_observation(
        quality=draw(qualities),
        **{name: draw(strategy) for name, strategy in metrics.items()},
    )
    return a_request(
        observation=observation,
        at=draw(instants),
        limits=limits,
        current=draw(allowed(limits) | sizes),
        objective=draw(objectives),
        recent=tuple(draw(st.lists(decisions, max_size=4))),
    )


@dataclass(frozen=True)
class Wish:
    """A policy that wants one allocation, sensible or not."""

    target: Allocation
    name: str = "wish"
    every_seconds: float = 10.0

    def plan(self, request: PlanRequest) -> Decision:
        """The wish."""
        return a_decision(request.current, self.target, operator=request.operator, at=request.at)


@st.composite
def thresholds(draw: st.DrawFn) -> ThresholdPolicy:
    """Any valid threshold policy."""
    upper = draw(st.floats(0.02, 1.0))
    return ThresholdPolicy(upper, draw(st.floats(0.01, upper, exclude_max=True)))


fixed = st.builds(FixedPolicy, st.builds(Allocation, st.integers(1, 40), st.floats(0.01, 1.0)))
policies: st.SearchStrategy[Policy] = thresholds() | fixed | st.builds(Wish, sizes)
times = st.floats(0.0, 120.0)
guard_lists: st.SearchStrategy[list[Guard]] = st.lists(
    st.just(OnlyGoodData())
    | st.just(WithinLimits())
    | st.builds(HoldUntilSettled, times)
    | st.builds(NoScaleDownWhileDraining, times)
    | st.builds(Cooldown, times, times)
    | st.builds(NoOppositeWithin, times),
    max_size=6,
)


@thorough
@given(requests(), policies, guard_lists)
def test_nothing_outside_the_limits_is_ever_asked_for(
    request: PlanRequest, policy: Policy, guards: list[Guard]
) -> None:
    """After any policy and any guards in any order the target is inside the limits, and every change is told."""
    wanted = policy.plan(request)
    decision = apply_guards(wanted, request, guards)
    assert request.limits.allows(decision.target)
    # The amendments are the whole way from the policy's wish to the target, each with its reason.
    stations = [wanted.target, *(amendment.after for amendment in decision.amended_by)]
    assert [amendment.before for amendment in decision.amended_by] == stations[:-1]
    assert stations[-1] == decision.target
    assert all(amendment.reason and amendment.before != amendment.after for amendment in decision.amended_by)
    assert decision.explain()


def way(before: Allocation, after: Allocation) -> int:
    """Up, down or level, reckoned here apart from the code under test."""
    difference = after.executors * after.cpu_share - before.executors * before.cpu_share
    return 0 if abs(difference) <= 1e-8 else int(math.copysign(1, difference))


@thorough
@given(st.data(), limits_of(), st.floats(0.0, 60.0), guard_lists)
def test_never_two_opposite_changes_inside_the_guard_time(
    data: st.DataObject, limits: Limits, guard_seconds: float, others: list[Guard]
) -> None:
    """Over any sequence of wishes opposite changes are at least the guard time apart."""
    place = data.draw(st.integers(0, len(others)))
    guards = [*others[:place], NoOppositeWithin(guard_seconds), *others[place:]]
    now, current, changes = 0.0, data.draw(allowed(limits)), list[Decision]()
    for _ in range(data.draw(st.integers(1, 12))):
        now += data.draw(st.floats(0.0, 40.0))
        policy = data.draw(policies)
        request = a_request(
            at=now,
            limits=limits,
            current=current,
            utilisation=data.draw(numbers),
            backlog_records=data.draw(counts),
            recent=tuple(changes),
        )
        decision = apply_guards(policy.plan(request), request, guards)
        if decision.is_change:
            changes.append(decision)
            current = decision.target
    for index, later in enumerate(changes):
        for earlier in changes[:index]:
            if way(earlier.current, earlier.target) * way(later.current, later.target) < 0:
                assert later.at - earlier.at >= guard_seconds


@thorough
@given(st.data(), limits_of())
def test_with_the_default_guards_a_change_waits_for_its_cooldown(data: st.DataObject, limits: Limits) -> None:
    """Over any sequence any two changes are apart by the cooldown of the later one."""
    guards = default_guards(up_seconds=10.0, down_seconds=30.0)
    now, current, changes = 0.0, data.draw(allowed(limits)), list[Decision]()
    for _ in range(12):
        now += data.draw(st.sampled_from([1.0, 5.0, 10.0, 30.0]))
        request = a_request(at=now, limits=limits, current=current, recent=tuple(changes))
        decision = apply_guards(Wish(data.draw(allowed(limits))).plan(request), request, guards)
        if decision.is_change:
            changes.append(decision)
            current = decision.target
    for earlier, later in pairwise(changes):
        assert later.at - earlier.at >= (10.0 if way(later.current, later.target) > 0 else 30.0)


@thorough
@given(requests(), thresholds())
def test_missing_data_always_hold(request: PlanRequest, policy: ThresholdPolicy) -> None:
    """Without utilisation, or on data that are not good, the threshold policy holds whatever else is known."""
    seen = request.observation
    assume(seen.utilisation is None or seen.quality is not Quality.GOOD)
    decision = policy.plan(request)
    assert decision.verb == "hold"
    assert "not known" in decision.reason or "the data are" in decision.reason
    if request.limits.allows(request.current):
        assert apply_guards(decision, request, default_guards()).verb == "hold"


@thorough
@given(requests(st.sampled_from([q for q in Quality if q is not Quality.GOOD])), policies)
def test_no_policy_moves_an_operator_on_data_that_are_not_good(request: PlanRequest, policy: Policy) -> None:
    """With the default guards no policy at all changes anything on bad data, unless to get into the limits."""
    decision = apply_guards(policy.plan(request), request, default_guards())
    if request.limits.allows(request.current):
        assert decision.verb == "hold"
    else:
        # into the limits, to the same place whatever the policy wanted
        other = apply_guards(Wish(request.limits.top).plan(request), request, default_guards())
        assert request.limits.allows(decision.target)
        assert decision.target == other.target


@thorough
@given(requests(), thresholds())
def test_the_threshold_policy_is_pure(request: PlanRequest, policy: ThresholdPolicy) -> None:
    """The same request gives the same decision, but for its identifier."""
    first, second = policy.plan(request), policy.plan(request)
    assert replace(first, decision_id="") == replace(second, decision_id="")


@thorough
@given(limits_of())
def test_the_ladder_rises_inside_the_limits_to_the_top(limits: Limits) -> None:
    """Rungs are allowed, rise strictly, never lose an executor on the way up, and end at the top."""
    rungs = ladder(limits)
    assert all(limits.allows(rung) for rung in rungs)
    assert all(low.capacity < high.capacity for low, high in pairwise(rungs))
    assert all(low.executors <= high.executors for low, high in pairwise(rungs))
    assert rungs[-1] == limits.top
    assert rungs[0] == Allocation(limits.min_executors, limits.cpu_shares[0])


@thorough
@given(limits_of())
def test_what_is_left_off_the_ladder_is_dominated(limits: Limits) -> None:
    """For every allocation there is a rung with at least its capacity and no more executors."""
    rungs = ladder(limits)
    for executors in range(limits.min_executors, limits.max_executors + 1):
        for share in limits.cpu_shares:
            assert any(
                rung.executors <= executors and rung.capacity >= executors * share * (1 - 1e-8) for rung in rungs
            )


@thorough
@given(limits_of(), sizes, st.integers(1, 5))
def test_a_step_leads_the_right_way_onto_the_ladder(limits: Limits, current: Allocation, levels: int) -> None:
    """A step ends on a rung; up is higher and down is lower, unless the ladder ends there."""
    rungs = ladder(limits)
    up, down = step(limits, current, levels), step(limits, current, -levels)
    assert up in rungs
    assert down in rungs
    assert way(current, up) > 0 or up == rungs[-1]
    assert way(current, down) < 0 or down == rungs[0]
