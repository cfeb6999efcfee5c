# SPDX-License-Identifier: Apache-2.0
"""MEAD inside rules, in the simulator."""

from __future__ import annotations

import numpy as np

from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.simulation import simulate
from penstock.records import Decision, Limits, Objective
from penstock.simulator import Operator, Pipeline
from penstock.simulator.service import exponential

QUICK = {"every_seconds": 30, "window": 5000, "best": 2, "max_states": 2, "sub_windows": 0}
"""Few and small fits: what matters here is who has the last word."""
ENVELOPE = """
rule "early hours":
  keep matcher at least 3
  when time between 00:01 and 00:03
"""


def changes(**more: str) -> tuple[Decision, ...]:
    """What happens in four minutes of a calm load, which MEAD would serve with one executor."""
    times = np.cumsum(np.random.default_rng(3).exponential(1 / 60, size=60 * 240))
    pipeline = Pipeline.of_one(Operator("matcher", exponential(0.01), limits=Limits(1, 4, (0.4, 0.7, 1.0))))
    return simulate(times, pipeline, PolicyChoice("mead", {**QUICK, **more}), Objective("p95", 0.2)).changes


def executors_at(found: tuple[Decision, ...], at: float) -> int:
    """How many executors are wanted at an instant."""
    return next((change.target.executors for change in reversed(found) if change.at <= at), 4)


def test_mead_is_held_at_the_bound_while_the_rule_holds() -> None:
    """Alone it goes down to one executor; inside rules it keeps three until the early hours are over."""
    alone, bounded = changes(), changes(rules=ENVELOPE)
    assert executors_at(alone, 179.0) == 1
    assert min(executors_at(bounded, float(second)) for second in range(60, 180)) >= 3
    assert executors_at(bounded, 239.0) < 3


def test_the_decision_says_which_did_what() -> None:
    """Where the bound overrules the plan, the plan stands as the reason and the rule as an amendment."""
    overruled = next(change for change in changes(rules=ENVELOPE) if change.amended_by)
    assert overruled.policy == "mead"
    assert overruled.reason.startswith("mead proposes ")
    (amendment,) = overruled.amended_by
    assert amendment.guard == "rule 'early hours'"
    assert amendment.before.executors < 3
    assert amendment.after.executors == overruled.target.executors == 3
    assert "keep matcher at least 3 when time between 00:01 and 00:03" in amendment.reason
    assert overruled.evidence["rule"] == "early hours"
    assert "arrivals_per_second" in overruled.evidence  # what the model looked at is there too
    assert "rule 'early hours' changed" in overruled.explain()
