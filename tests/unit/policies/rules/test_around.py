# SPDX-License-Identifier: Apache-2.0
"""Rules around a model."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from tests.unit.policies.contexts import P95, a_context
from tests.unit.policies.rules.rule_cases import LIMITS, change, context, keeping, queue_above, queue_request, scaling

from penstock.errors import ConfigurationError
from penstock.policies import make_policy, reads_objective
from penstock.policies.rules.around import RulesAround
from penstock.policies.rules.rule_book import RuleBook
from penstock.records import Allocation, Decision, PlanRequest, Prediction, Quality, Rejected
from penstock.rules.nodes import Comparison, Direction, Guard, MetricTrigger, Rule, Side, TimeTrigger
from penstock.testing import a_request, check_policy

OUT, IN = Direction.OUT, Direction.IN
TWO_MORE = scaling("two more", OUT, 2, queue_above(300), limit=8)
OFFICE = keeping("office hours", Side.LEAST, 3, TimeTrigger(start=8 * 60, end=18 * 60))


@dataclass
class Model:
    """Proposes what it is told to, every ten seconds."""

    wants: Allocation
    name: str = "model"
    every_seconds: float = 10.0
    asked_at: list[float] = field(default_factory=list)

    def plan(self, request: PlanRequest) -> Decision:
        """What it wants, with a prediction and something that it rejected."""
        self.asked_at.append(request.at)
        path = (request.operator,)
        return Decision(
            request.operator, request.at, self.name, request.current, self.wants, "it fits",
            {"load": 0.5}, rejected=(Rejected(Allocation(6), "too much"),),
            prediction=Prediction(path, 1.0, 2.0, {}, {}, "a model"),
        )  # fmt: skip


def around(model: Model, *rules: Rule) -> RulesAround:
    """Rules around a model."""
    return RulesAround(model, RuleBook(rules, context()), 0.5, reads_objective=True)


def test_a_rule_adds_to_what_the_model_proposes() -> None:
    """The model says 4, the rule says two more, and the decision says who did what."""
    decision = around(Model(Allocation(4)), TWO_MORE).plan(queue_request([400], current=Allocation(4)))
    assert decision.target == Allocation(6)
    assert decision.reason == "model proposes 4 executors x 100% CPU: it fits"
    (amendment,) = decision.amended_by
    assert (amendment.guard, amendment.before, amendment.after) == ("rule 'two more'", Allocation(4), Allocation(6))
    assert "queue_length above 300" in amendment.reason
    assert decision.evidence["load"] == 0.5
    assert (decision.evidence["proposal"], decision.evidence["rule"]) == ("4 executors x 100% CPU", "two more")
    assert decision.rejected == ()  # what the model rejected is what the rule took
    assert decision.prediction is None  # it was made for another size


def test_a_rule_adds_no_further_while_it_goes_on_holding() -> None:
    """Two more than the model's 4 are 6, at this look and at the next."""
    wrapped = around(Model(Allocation(4)), TWO_MORE)
    assert wrapped.plan(queue_request([400], current=Allocation(4), at=1000.0)).target == Allocation(6)
    again = wrapped.plan(queue_request([400, 400], current=Allocation(6), at=1001.0))
    assert not again.is_change
    assert "(1" in again.reason  # the proposal of a second ago stands


def test_when_the_rule_ends_the_models_proposal_is_back() -> None:
    """As soon as the queue is short again, the operator gets what the model proposed."""
    wrapped = around(Model(Allocation(4)), TWO_MORE)
    wrapped.plan(queue_request([400], current=Allocation(4), at=1000.0))
    assert wrapped.plan(queue_request([100], current=Allocation(6), at=1002.0)).target == Allocation(4)


def test_the_model_is_asked_as_often_as_it_wants() -> None:
    """Rules see every look, and the model is asked every ten seconds."""
    model = Model(Allocation(4))
    wrapped = around(model, TWO_MORE)
    for second in range(25):
        wrapped.plan(queue_request([0], current=Allocation(4), at=1000.0 + second))
    assert model.asked_at == [1000.0, 1010.0, 1020.0]
    assert wrapped.every_seconds == 0.5


def test_a_bound_holds_the_model() -> None:
    """Never below three at office hours, whatever the model says; outside them it has its way."""
    wrapped = around(Model(Allocation(1)), OFFICE)
    assert wrapped.plan(queue_request([0], at=9 * 3600.0, current=Allocation(3))).target == Allocation(3)
    at_night = wrapped.plan(queue_request([0], at=20 * 3600.0, current=Allocation(3)))
    assert at_night.target == Allocation(1)
    assert at_night.amended_by == ()
    assert at_night.prediction is not None


def test_a_guard_time_runs_after_the_model_has_scaled() -> None:
    """A rule that waits after scale-outs waits after the model's too."""
    rule = scaling("two more", OUT, 2, queue_above(300), limit=8, guards=(Guard(OUT, 60.0),))
    recent = (change(2, 4, 990.0, policy="model"),)
    decision = around(Model(Allocation(4)), rule).plan(queue_request([400], current=Allocation(4), recent=recent))
    assert decision.target == Allocation(4)
    assert "waits: scaled out" in str(decision.evidence["clamped"])


def test_between_its_turns_nothing_is_moved_on_bad_data() -> None:
    """A proposal from before does not move the operator while data are not good."""
    wrapped = around(Model(Allocation(4)), TWO_MORE)
    wrapped.plan(queue_request([0], current=Allocation(2), at=1000.0))
    bad = a_request(at=1001.0, current=Allocation(2), limits=LIMITS, quality=Quality.STALE, backlog_records=10**6)
    decision = wrapped.plan(bad)
    assert not decision.is_change
    assert "stale" in decision.reason


def test_each_decision_has_an_identifier_of_its_own() -> None:
    """A proposal that stands is not the same decision once more."""
    wrapped = around(Model(Allocation(4)), TWO_MORE)
    made = [wrapped.plan(queue_request([0], current=Allocation(4), at=1000.0 + i)).decision_id for i in range(3)]
    assert len(set(made)) == 3


@pytest.mark.parametrize("name", ["threshold", "mead", "fixed"])
def test_every_policy_takes_rules(name: str) -> None:
    """The option `rules` puts rules around a policy, which keeps its name and its reading of the objective."""
    given = a_context(P95)
    operator = given.topology.order[0]
    made = make_policy(name, given, {"rules": [replace(TWO_MORE, operator=operator)]})
    assert isinstance(made, RulesAround)
    assert made.name == name
    assert reads_objective(made) == reads_objective(make_policy(name, given))
    made.close()


def test_a_wrong_option_is_refused_and_rules_are_named_among_the_known() -> None:
    """An option that a policy does not have is refused with those that it has, rules among them."""
    with pytest.raises(ConfigurationError, match="upper, lower, every_seconds, nodes, seed, rules"):
        make_policy("threshold", a_context(P95), {"rulez": []})


def test_rules_around_a_policy_keep_the_contract() -> None:
    """A threshold policy inside rules passes the checks that every policy has to pass."""
    rules = (
        scaling(
            "out", OUT, 1, MetricTrigger("cpu_utilisation", Comparison.ABOVE, 0.5, 5.0), guards=(Guard(OUT, 10.0),)
        ),
        keeping("least", Side.LEAST, 2, queue_above(10**6)),
    )
    check_policy(lambda given: make_policy("threshold", given, {"rules": rules}))
