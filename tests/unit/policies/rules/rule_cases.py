# SPDX-License-Identifier: Apache-2.0
"""Rules, histories and requests for the tests of rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.policies.rules.evaluation import HeldRule
from penstock.policies.rules.policy import RulesPolicy
from penstock.policies.rules.rule_book import RuleBook
from penstock.ports import OperatorSite, PolicyContext
from penstock.records import Allocation, Decision, Limits, Observation, PlanRequest, Quality
from penstock.rules.nodes import (
    Comparison,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Quantity,
    Rule,
    Scale,
    Side,
    TimeTrigger,
)
from penstock.testing import a_decision, a_request, an_observation
from penstock.topology import Topology

LIMITS = Limits(1, 10, (0.4, 0.55, 0.7, 0.85, 1.0))


def queue_above(value: float, seconds: float = 0.0, **more: Any) -> MetricTrigger:
    """A trigger on a long queue."""
    return MetricTrigger("queue_length", Comparison.ABOVE, value, seconds, **more)


def queue_below(value: float, seconds: float = 0.0, **more: Any) -> MetricTrigger:
    """A trigger on a short queue."""
    return MetricTrigger("queue_length", Comparison.BELOW, value, seconds, **more)


def scaling(
    name: str,
    direction: Direction,
    amount: float,
    *triggers: MetricTrigger | TimeTrigger,
    limit: float | Quantity | None = None,
    guards: tuple[Guard, ...] = (),
    operator: str = "operator",
    is_relative: bool = False,
) -> Rule:
    """A rule that scales."""
    bound = Quantity(limit) if isinstance(limit, int | float) else limit
    return Rule(name, operator, Scale(direction, Quantity(amount, is_relative), bound), triggers, guards)


def keeping(name: str, side: Side, executors: int | None, *triggers: MetricTrigger | TimeTrigger, **more: Any) -> Rule:
    """A rule that bounds."""
    share, guards = more.pop("cpu_share", None), more.pop("guards", ())
    return Rule(name, more.pop("operator", "operator"), Keep(side, executors, share), triggers, guards)


def held(rule: Rule) -> HeldRule:
    """The rule as one whose triggers hold."""
    return HeldRule(rule, "does something", "because a test says so", "none", 0.0)


def queue_history(values: Sequence[int | None], *, until: float = 1000.0, every: float = 1.0) -> list[Observation]:
    """Good looks at equal distances, the last at `until`; None: the queue is not known."""
    start = until - every * (len(values) - 1)
    return [an_observation(at=start + every * i, backlog_records=value) for i, value in enumerate(values)]


def queue_request(values: Sequence[int | None], *, every: float = 1.0, **more: Any) -> PlanRequest:
    """A request after looks that saw these queue lengths."""
    history = queue_history(values, until=more.pop("at", 1000.0), every=every)
    more.setdefault("limits", LIMITS)
    more.setdefault("current", Allocation(1))
    return a_request(at=history[-1].at, observation=history[-1], history=tuple(history), **more)


def bad_look(at: float) -> Observation:
    """A look whose data are not good, though they say something."""
    return an_observation(at=at, backlog_records=10**6, quality=Quality.INCOMPLETE)


def change(before: int, after: int, at: float, **more: Any) -> Decision:
    """A change of executors that was carried out."""
    return a_decision(Allocation(before), Allocation(after), at=at, **more)


def context(*operators: str, interval_seconds: float = 1.0, limits: Limits = LIMITS) -> PolicyContext:
    """A pipeline of operators that all read from the arrivals' first."""
    names = operators or ("operator",)
    return PolicyContext(
        Topology.of_one(names[0]),
        {name: OperatorSite(limits) for name in names},
        {},
        interval_seconds=interval_seconds,
    )


def policy(*rules: Rule, interval_seconds: float = 1.0, operators: tuple[str, ...] = ()) -> RulesPolicy:
    """The policy with these rules."""
    return RulesPolicy(RuleBook(rules, context(*operators, interval_seconds=interval_seconds)), 1.0)
