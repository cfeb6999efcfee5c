# SPDX-License-Identifier: Apache-2.0
"""Whatever is read and whatever the rules: limits and guard times are kept, and nothing fires on too little data."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.policies.rules.guard_times import is_change
from penstock.policies.rules.policy import RulesPolicy
from penstock.policies.rules.rule_book import RuleBook
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Allocation, Decision, Limits, Observation, PlanRequest, Quality
from penstock.rules.nodes import Comparison, Direction, Guard, Keep, MetricTrigger, Quantity, Rule, Scale, Side
from penstock.testing import a_request, an_observation
from penstock.topology import Topology

# No deadline: a busy machine is no fault of the code.
thorough = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

LIMITS = Limits(1, 8, (0.4, 0.7, 1.0))
triggers = st.builds(
    MetricTrigger,
    st.just("queue_length"),
    st.sampled_from(Comparison),
    st.integers(0, 3).map(float),
    st.sampled_from([0.0, 1.0, 3.0, 5.0, 10.0]),
)
guards = st.builds(Guard, st.sampled_from(Direction), st.sampled_from([1.0, 4.0, 9.0, 30.0]))


@st.composite
def actions(draw: st.DrawFn) -> Scale | Keep:
    """Anything that a rule may do to executors or CPU shares."""
    if draw(st.booleans()) and draw(st.booleans()):
        side = draw(st.sampled_from(Side))
        if draw(st.booleans()):
            return Keep(side, executors=draw(st.integers(1, 12)))
        return Keep(side, cpu_share=draw(st.sampled_from([0.1, 0.5, 0.7, 1.0])))
    direction = draw(st.sampled_from(Direction))
    is_relative = draw(st.booleans())
    if is_relative:
        amount = draw(st.sampled_from([1.5, 2.0, 3.0]))
    else:
        amount = draw(st.sampled_from([1.0, 2.0, 5.0] if direction.is_horizontal else [0.1, 0.3, 0.6]))
    limit = None
    if draw(st.booleans()):
        bound = draw(st.sampled_from([1.0, 2.0, 3.0, 20.0] if direction.is_horizontal else [0.4, 0.5, 0.9]))
        limit = Quantity(bound, draw(st.booleans()))
    return Scale(direction, Quantity(amount, is_relative), limit)


@st.composite
def rule_sets(draw: st.DrawFn) -> tuple[Rule, ...]:
    """Up to four rules, each with a name of its own."""
    return tuple(
        Rule(
            f"rule {number}",
            draw(st.sampled_from(["operator", "*"])),
            draw(actions()),
            tuple(draw(st.lists(triggers, min_size=1, max_size=2))),
            tuple(draw(st.lists(guards, max_size=2))),
        )
        for number in range(draw(st.integers(1, 4)))
    )


@st.composite
def readings(draw: st.DrawFn) -> list[int | None]:
    """Spells of one queue length, with some readings missing."""
    found: list[int | None] = []
    for value, length in draw(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 15)), min_size=1, max_size=8)):
        found += [value] * length
    for place in draw(st.lists(st.integers(0, len(found) - 1), max_size=6)):
        found[place] = None
    return found


@dataclass(frozen=True)
class Played:
    """A decision, and what was there when it was made."""

    decision: Decision
    history: tuple[Observation, ...]
    recent: tuple[Decision, ...]
    request: PlanRequest


def policy_of(rules: tuple[Rule, ...]) -> RulesPolicy:
    """A policy that was not asked yet."""
    context = PolicyContext(Topology.of_one("operator"), {"operator": OperatorSite(LIMITS)}, {})
    return RulesPolicy(RuleBook(rules, context), 0.5)


def play(rules: tuple[Rule, ...], values: list[int | None], start: Allocation) -> list[Played]:
    """A run under the policy, with as much of the past as it asks for; every third missing reading is a bad look."""
    policy = policy_of(rules)
    history: deque[Observation] = deque()
    has, recent, played = start, list[Decision](), list[Played]()
    everything: list[Observation] = []
    for second, value in enumerate(values):
        at = 1000.0 + second
        is_bad = value is None and second % 3 == 0
        quality = Quality.INCOMPLETE if is_bad else Quality.GOOD
        seen = an_observation(at=at, backlog_records=10**6 if is_bad else value, quality=quality)
        everything.append(seen)
        history.append(seen)
        while at - history[0].at > policy.history_seconds:
            history.popleft()
        request: PlanRequest = a_request(
            at=at, observation=seen, current=has, limits=LIMITS, history=tuple(history), recent=tuple(recent)
        )
        decision = policy.plan(request)
        played.append(Played(decision, tuple(everything), tuple(recent), request))
        if decision.is_change:
            recent.append(decision)
            has = decision.target
    return played


starts = st.builds(Allocation, st.integers(1, 8), st.sampled_from(LIMITS.cpu_shares))


@thorough
@given(rule_sets(), readings(), starts)
def test_never_outside_the_limits(rules: tuple[Rule, ...], values: list[int | None], start: Allocation) -> None:
    """Nothing that the operator may not have is ever asked for, and no rule scales beyond its own limit."""
    by_name = {rule.name: rule for rule in rules}
    for one in play(rules, values, start):
        before, after = one.decision.current, one.decision.target
        assert LIMITS.allows(after)
        outs = [rule.action for rule in by_name.values() if isinstance(rule.action, Scale)]
        has_no_bounds = not any(isinstance(rule.action, Keep) for rule in rules)
        limits = [a.limit for a in outs if a.direction is Direction.OUT]
        if has_no_bounds and after.executors > before.executors and all(limit is not None for limit in limits):
            most = [q.value * (start.executors if q.is_relative else 1) for q in limits if q is not None]
            assert after.executors <= max(most)


@thorough
@given(rule_sets(), readings(), starts)
def test_never_an_action_inside_a_guard_time(
    rules: tuple[Rule, ...], values: list[int | None], start: Allocation
) -> None:
    """No rule changes anything within its guard time: of the same direction again, nor of the opposite."""
    by_name = {rule.name: rule for rule in rules}
    for one in play(rules, values, start):
        if not one.decision.is_change:
            continue
        # With a single rule that did something, the change is that rule's.
        names = [value for key, value in one.decision.evidence.items() if key.split("_")[0] == "rule"]
        if len(names) != 1:
            continue
        for guard in by_name[str(names[0])].guards:
            for change in one.recent:
                if is_change(change, guard.after):
                    assert one.decision.at - change.at >= guard.seconds


@thorough
@given(rule_sets(), readings(), starts)
def test_never_fired_on_less_than_was_asked_for(
    rules: tuple[Rule, ...], values: list[int | None], start: Allocation
) -> None:
    """Each rule that did something had nine tenths of its readings, all beyond the value, over its whole time."""
    by_name = {rule.name: rule for rule in rules}
    for one in play(rules, values, start):
        for key, name in one.decision.evidence.items():
            if key.rstrip("_23456") != "rule":
                continue
            for trigger in by_name[str(name)].triggers:
                assert isinstance(trigger, MetricTrigger)
                _check_data(trigger, one.history)


@thorough
@given(rule_sets(), readings(), starts)
def test_a_decision_depends_on_its_request_alone(
    rules: tuple[Rule, ...], values: list[int | None], start: Allocation
) -> None:
    """A policy that has seen the whole run decides as one that is asked for the first time."""
    for one in play(rules, values, start):
        assert replace(policy_of(rules).plan(one.request), decision_id="") == replace(one.decision, decision_id="")


def _check_data(trigger: MetricTrigger, history: tuple[Observation, ...]) -> None:
    at = history[-1].at
    known = [s for s in history if s.quality is Quality.GOOD and s.backlog_records is not None]
    inside = [s for s in known if at - trigger.for_seconds <= s.at <= at]
    assert known[-1].at == at
    assert min(s.at for s in known) <= at - trigger.for_seconds
    assert len(inside) >= math.ceil(0.9 * (trigger.for_seconds + 1.0) - 1e-9)
    for seen in inside:
        assert seen.backlog_records is not None
        is_above = seen.backlog_records > trigger.value
        is_below = seen.backlog_records < trigger.value
        assert is_above if trigger.comparison is Comparison.ABOVE else is_below
