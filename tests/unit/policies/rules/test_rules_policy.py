# SPDX-License-Identifier: Apache-2.0
"""The policy `rules`: routing, decisions and their evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.policies.rules.rule_cases import (
    change,
    context,
    keeping,
    policy,
    queue_above,
    queue_below,
    queue_request,
    scaling,
)

from penstock.errors import ConfigurationError
from penstock.policies import make_policy
from penstock.policies.rules.rule_book import RuleBook
from penstock.ports import LookingBackPolicy, WatchingPolicy
from penstock.records import Allocation
from penstock.rules.nodes import ALL_OPERATORS, Comparison, Direction, Guard, MetricTrigger, Side, TimeTrigger
from penstock.testing import check_policy

OUT, IN = Direction.OUT, Direction.IN
LONG = scaling("long queue", OUT, 2, queue_above(300, 30.0), limit=3)
EMPTY = scaling("empty queue", IN, 2, queue_below(1, 5.0), limit=1)


def test_a_decision_names_rule_trigger_readings_and_time() -> None:
    """A scale-out says which rule did it, by which trigger, on which readings, and for how long they held."""
    decision = policy(LONG, EMPTY).plan(queue_request(list(range(300, 340))))
    assert decision.target == Allocation(3)
    evidence = decision.evidence
    assert (evidence["rule"], evidence["held_seconds"], evidence["queue_length"]) == ("long queue", 30.0, 339)
    assert "queue_length above 300 for 30" in str(evidence["trigger"])
    assert "31 of 31 readings" in str(evidence["readings"])
    assert "309 to 339" in str(evidence["readings"])
    assert "'long queue'" in decision.reason
    assert decision.explain().count("long queue") >= 2


def test_it_holds_where_no_rule_does() -> None:
    """Without a rule that holds nothing is changed."""
    decision = policy(LONG, EMPTY).plan(queue_request([200] * 60))
    assert not decision.is_change
    assert decision.reason == "none of its 2 rules holds"


def test_a_clamped_action_is_done_as_far_as_it_goes_and_says_so() -> None:
    """A scale-out by two, never above three, takes an operator of two to three."""
    decision = policy(LONG).plan(queue_request([400] * 40, current=Allocation(2)))
    assert decision.target == Allocation(3)
    assert "its limit is 3 executors" in decision.reason
    assert decision.evidence["clamped"] == "its limit is 3 executors"


def test_at_its_limit_a_rule_says_that_it_does_nothing_more() -> None:
    """A rule that holds at its limit holds the operator, and the reason says why."""
    decision = policy(LONG).plan(queue_request([400] * 40, current=Allocation(3)))
    assert not decision.is_change
    assert decision.reason.startswith("nothing more by rule 'long queue'")


def test_all_triggers_have_to_hold() -> None:
    """Triggers are joined by and: a busy CPU alone, or a long queue alone, does nothing."""
    busy = MetricTrigger("cpu_utilisation", Comparison.ABOVE, 0.8)
    both = scaling("both", OUT, 1, queue_above(300, 5.0), busy)
    calm = queue_request([400] * 10)
    hot = replace(calm, history=tuple(replace(seen, utilisation=0.9) for seen in calm.history))
    hot = replace(hot, observation=hot.history[-1])
    assert not policy(both).plan(calm).is_change
    assert policy(both).plan(hot).is_change


def test_a_rule_goes_to_its_operator_and_a_wildcard_to_all() -> None:
    """An operator has its own rules and those of all, in the order in which they were written."""
    first = scaling("first of a", OUT, 1, queue_above(1), operator="a")
    of_all = scaling("of all", OUT, 1, queue_above(1), operator=ALL_OPERATORS)
    second = scaling("second of a", OUT, 1, queue_above(1), operator="a")
    book = RuleBook([first, of_all, second], context("a", "b"))
    assert book.rules_of("a") == (first, of_all, second)
    assert book.rules_of("b") == (of_all,)


def test_a_rule_of_all_holds_for_each_operator_by_itself() -> None:
    """A long queue of one operator does not scale another."""
    made = policy(scaling("of all", OUT, 1, queue_above(300), operator=ALL_OPERATORS), operators=("a", "b"))
    assert made.plan(queue_request([400], operator="a")).is_change
    assert not made.plan(queue_request([100], operator="b")).is_change


def test_the_time_of_day_is_that_of_the_request() -> None:
    """At least three from eight to eighteen, by the request's clock."""
    made = policy(keeping("office", Side.LEAST, 3, TimeTrigger(start=8 * 60, end=18 * 60)))
    morning, night = 8 * 3600.0, 7 * 3600.0
    assert made.plan(queue_request([0], at=morning)).target == Allocation(3)
    assert made.plan(queue_request([0], at=night)).target == Allocation(1)


def test_the_same_request_gets_the_same_decision() -> None:
    """Nothing but the request decides: asked in any order, it says the same."""
    made = policy(LONG, EMPTY)
    requests = [queue_request([400] * 40), queue_request([0] * 40, current=Allocation(3)), queue_request([200] * 40)]
    first = [replace(made.plan(request), decision_id="") for request in requests]
    again = [replace(made.plan(request), decision_id="") for request in reversed(requests)]
    assert first == again[::-1]


def test_it_asks_for_the_history_and_changes_that_its_rules_need() -> None:
    """The longest time of a trigger and the longest guard time say how far back it looks."""
    made = policy(scaling("slow", OUT, 1, queue_above(1, 1200.0), guards=(Guard(IN, 7200.0),)), EMPTY)
    assert isinstance(made, LookingBackPolicy)
    assert isinstance(made, WatchingPolicy)
    assert made.history_seconds == pytest.approx(1.1 * 1200.0 + 2.0)
    assert made.changes_seconds == 7200.0


def test_rules_that_do_not_fit_are_refused_all_at_once() -> None:
    """An unknown operator, metric, statistic and zone are all named in one message."""
    rules = [
        scaling("a", OUT, 1, queue_above(1), operator="nobody"),
        scaling("b", OUT, 1, MetricTrigger("mood", Comparison.ABOVE, 1.0)),
        scaling("c", OUT, 1, queue_above(1, 5.0, statistic="median")),
        scaling("d", OUT, 1, TimeTrigger(zone="Mars/Olympus")),
    ]
    with pytest.raises(ConfigurationError) as fault:
        RuleBook(rules, context())
    for word in ("nobody", "mood", "median", "Mars/Olympus"):
        assert word in str(fault.value)


def test_it_keeps_the_contract_of_policies() -> None:
    """The policy with rules passes the checks that every policy has to pass."""
    rules = (
        scaling("out", OUT, 1, MetricTrigger("cpu_utilisation", Comparison.ABOVE, 0.5, 5.0)),
        scaling("in", IN, 1, MetricTrigger("cpu_utilisation", Comparison.BELOW, 0.4, 5.0), guards=(Guard(OUT, 10.0),)),
        scaling("up", Direction.UP, 0.1, queue_above(200)),
        scaling("down", Direction.DOWN, 0.1, queue_below(150, 3.0)),
        keeping("least", Side.LEAST, 2, queue_above(10**6)),
    )
    check_policy(lambda given: make_policy("rules", given, {"rules": rules}))


def test_an_empty_policy_changes_nothing() -> None:
    """Without rules everything stays as it is."""
    decision = policy().plan(queue_request([10**6] * 40))
    assert not decision.is_change
    assert decision.reason == "it has no rules"


def test_a_guarded_scale_in_waits_for_a_scale_out_to_age() -> None:
    """With a guard of five minutes an empty queue takes nothing away for five minutes after a scale-out."""
    rule = scaling("empty queue", IN, 2, queue_below(1, 5.0), limit=1, guards=(Guard(OUT, 300.0),))
    young = queue_request([0] * 10, current=Allocation(3), recent=(change(1, 3, 800.0),))
    old = replace(young, recent=(change(1, 3, 700.0),))
    assert not policy(rule).plan(young).is_change
    assert "waits: scaled out" in policy(rule).plan(young).reason
    assert policy(rule).plan(old).target == Allocation(1)
