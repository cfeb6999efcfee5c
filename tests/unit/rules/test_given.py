# SPDX-License-Identifier: Apache-2.0
"""How rules come to a policy: files, text, lists, and settings files that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock._scaler import _plain
from penstock.errors import ConfigurationError
from penstock.evaluation.pipeline_file import load_pipeline
from penstock.evaluation.policy_text import parse_policy, policy_in
from penstock.evaluation.simulation import simulate
from penstock.records import Allocation, Objective
from penstock.rules import Rule, metric, rule, seconds
from penstock.rules.given import rules_given
from penstock.settings import parse_settings

TEXT = """
# Out when the queue is long.
rule "long queue":
  scale-out matcher by 1 never above 3
  when queue_length above 20 for 5 seconds
"""
SETTINGS = """
name: bounded
arrivals: {{shape: "constant:rate=20,duration=60s"}}
operators:
  - {{name: matcher, executors: [1, 3], cpu_shares: [1.0], micro_batch: {{fixed: 0ms, per_record: 100ms, cap: 1}}}}
guards: none
policy: {policy}
"""


def fluent() -> Any:
    """The rule of the text, in Python."""
    begun = rule("long queue").scale_out("matcher").by(1).but_never_above(3)
    return begun.when(metric("queue_length") > 20).for_at_least(seconds(5))


def test_a_file_text_and_python_give_the_same_rules(tmp_path: Path) -> None:
    """Whatever form rules are given in, they are the same rules."""
    path = tmp_path / "calm.rules"
    path.write_text(TEXT, encoding="utf-8")
    found = [
        rules_given(path),
        rules_given(str(path)),
        rules_given(TEXT),
        rules_given([fluent()]),
        rules_given(fluent()),
    ]
    assert all(rules == found[0] for rules in found)
    assert isinstance(found[0][0], Rule)


@pytest.mark.parametrize("given", ["", "scale-out everything\nwhen it rains", 5, [5], "nowhere.rules"])
def test_what_is_no_rule_is_refused(given: Any) -> None:
    """Something else than rules raises an error of ours."""
    with pytest.raises(ConfigurationError):
        rules_given(given)


@pytest.mark.parametrize("given", [5, [5], {"a": 1}, [[fluent()]], 10**400])
def test_what_is_no_rule_is_said_of_the_option(given: Any) -> None:
    """The error names the option `rules`, and no line of Penstock."""
    with pytest.raises(ConfigurationError, match=r"^rules: .* is no rule"):
        rules_given(given)


@pytest.mark.parametrize("policy", ["{name: rules, rules: calm.rules}", "{name: rules, options: {rules: calm.rules}}"])
def test_a_settings_file_names_a_file_beside_it(policy: str, tmp_path: Path) -> None:
    """A relative name of a file of rules is one beside the settings file, wherever the command is run."""
    (tmp_path / "calm.rules").write_text(TEXT, encoding="utf-8")
    (tmp_path / "pipeline.yaml").write_text(SETTINGS.format(policy=policy), encoding="utf-8")
    spec = load_pipeline(tmp_path / "pipeline.yaml")
    choice = policy_in(spec.settings, spec.objectives.values())
    assert choice.options["rules"] == str(tmp_path / "calm.rules")
    _, times = spec.arrival_times()
    pipeline = spec.pipeline_with((1.0,))
    result = simulate(times, pipeline, choice, Objective(), start={"matcher": Allocation(1)}, guards=spec.guards)
    first = result.changes[0]
    assert (first.policy, first.target, first.evidence["rule"]) == ("rules", Allocation(2), "long queue")


def test_rules_around_a_policy_in_a_settings_file(tmp_path: Path) -> None:
    """`policy: {name: threshold, rules: ...}` lets rules overrule the policy, and the decision says which did what."""
    text = 'rule "two at least": keep matcher at least 2'
    (tmp_path / "envelope.rules").write_text(text, encoding="utf-8")
    policy = "{name: threshold, rules: envelope.rules}"
    (tmp_path / "pipeline.yaml").write_text(SETTINGS.format(policy=policy), encoding="utf-8")
    spec = load_pipeline(tmp_path / "pipeline.yaml")
    choice = policy_in(spec.settings, spec.objectives.values())
    _, times = spec.arrival_times()
    result = simulate(times[:200], spec.pipeline_with((1.0,)), choice, Objective(), start={"matcher": Allocation(1)})
    first = result.changes[0]
    assert (first.policy, first.target) == ("threshold", Allocation(2))
    assert first.amended_by[0].guard == "rule 'two at least'"
    assert first.reason.startswith("threshold proposes 1 executor")


def test_text_in_a_settings_file_stays_text() -> None:
    """Rules written into the settings file are not taken for a file's name."""
    data = {"operators": [{"name": "matcher"}], "policy": {"name": "rules", "rules": TEXT}}
    settings = parse_settings(data, folder=Path("/somewhere"))
    assert settings.policy.all_options["rules"] == TEXT


def test_rules_may_not_stand_twice() -> None:
    """Rules under the policy and under its options are one too many."""
    policy = {"name": "mead", "rules": "a.rules", "options": {"rules": "b.rules"}}
    with pytest.raises(ConfigurationError, match="leave one out"):
        parse_settings({"operators": [{"name": "matcher"}], "policy": policy})


def test_a_command_names_rules_as_an_option() -> None:
    """`--policy threshold:rules=calm.rules` is known for every policy."""
    choice = parse_policy("threshold:upper=0.8,rules=calm.rules")
    assert choice is not None
    assert choice.options["rules"] == "calm.rules"


def test_a_run_keeps_the_text_of_rules_given_as_a_list() -> None:
    """What is kept with a run shows rules as they would be written."""
    assert str(_plain({"rules": [fluent()], "every_seconds": 1.0})["rules"]).startswith('rule "long queue":')
    assert _plain({"rules": "calm.rules"}) == {"rules": "calm.rules"}
