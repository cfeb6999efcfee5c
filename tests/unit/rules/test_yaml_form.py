# SPDX-License-Identifier: Apache-2.0
"""Rules as YAML and as plain data: what is read, and every mistake with its line and column."""

from __future__ import annotations

import pytest

from penstock.errors import RuleError
from penstock.rules.plain_data import from_plain, to_plain
from penstock.rules.text import parse_text
from penstock.rules.yaml_form import parse_yaml, to_yaml

TEXT = """
rule "queue too long":
  scale-out matcher by 2 never above 8
  when queue_length above 300 for 30 seconds
  when cpu_utilisation p90 in 2 minutes above 60% for 1 minute
  when time between 08:00 and 18:00 on monday, tuesday in Europe/Zurich
  unless time between 22:00 and 06:00 on weekends
  unless scale-out within 5 minutes
rule "low":
  keep "*" at most 50% cpu
"""
YAML = """\
rules:
- name: queue too long
  scale_out: matcher
  by: 2
  never_above: 8
  when:
  - {metric: queue_length, above: 300, for: 30 seconds}
  - {metric: cpu_utilisation, statistic: p90, in: 2 minutes, above: 60%, for: 1 minute}
  - time:
      between: ['08:00', '18:00']
      days: [monday, tuesday]
      zone: Europe/Zurich
  - time:
      outside: ['22:00', '06:00']
      days: weekends
  unless:
  - {scale_out_within: 5 minutes}
- {name: low, keep: '*', at_most: 50% cpu}
"""


def test_text_and_yaml_mean_the_same() -> None:
    """The same rules in both forms are equal, and each is written as the other is read."""
    reading = parse_yaml(YAML)
    assert reading.mistakes == ()
    assert reading.rules == parse_text(TEXT).rules
    assert to_yaml(reading.rules) == YAML
    assert from_plain(to_plain(reading.rules)) == reading.rules
    assert [rule.place.line for rule in reading.rules if rule.place] == [2, 18]


def test_yaml_may_be_written_in_other_ways() -> None:
    """Hyphens, times without quotes, one trigger without a list, a list of rules alone, and `unless` with a time."""
    other = """
- {name: a, scale-in: m, by: x2, never-below: 1, when: {metric: utilisation, below: 0.3}, unless: [{time: {between: [18:00, 20:30]}}]}
"""  # noqa: E501
    text = 'rule "a": scale-in m by x2 never below 1 when cpu_utilisation below 30% unless time between 18:00 and 20:30'
    assert parse_yaml(other).rules == parse_text(text).rules != ()


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("calm", 1, 1, "write a list of rules"),
        ("rule: []", 1, 1, "`rule` is not known here"),
        ("rules:\n- calm", 2, 3, "a rule is written as a mapping"),
        ("rules:\n- {keep: m, at_least: 3}", 2, 3, "`name:` is missing"),
        ("rules:\n- {name: a}", 2, 3, "does not say what it does; add `scale_out: matcher`"),
        ("rules:\n- {name: a, keep: m, at_lest: 3, at_least: 3}", 2, 22, "did you mean `at_least`"),
        ("rules:\n- {name: a, keep: m}", 2, 3, "give `keep` one of"),
        ("rules:\n- {name: a, keep: m, at_least: 3, by: 2}", 2, 35, "`by` does not fit to `keep`"),
        ("rules:\n- {name: a, keep: m, at_least: 3 gpu}", 2, 32, "'gpu' is not known here"),
        ("rules:\n- {name: a, scale_in: m}", 2, 3, "`by:` is missing"),
        ("rules:\n- {name: a, scale_in: [m], by: 1}", 2, 23, "write text or a number"),
        ("rules:\n- {name: a, scale_out: m, by: 1, when: {metric: cpu_used, above: 1}}", 2, 3, "needs a limit"),
        ("rules:\n- {name: a, scale_in: m, scale_up: m, by: 1}", 2, 26, "says twice what it does"),
        ("rules:\n- {name: a, scale_in: m, by: 1, when: {metric: cpu_usd, above: 1}}", 2, 48, "did you mean cpu_used"),
        ("rules:\n- {name: a, scale_in: m, by: 1, when: {above: 1}}", 2, 39, "`metric:` or `time:` is missing"),
        ("rules:\n- {name: a, scale_in: m, by: 1, when: {metric: cpu_used}}", 2, 39, "one of `above: 300`"),
        ("rules:\n- {name: a, scale_in: m, by: 1, when: {metric: cpu_used, above: 1, for: 3}}", 2, 73, "30 seconds"),
        ("rules:\n- {name: a, keep: m, at_least: 1, when: {time: {between: '08:00'}}}", 2, 58, "two times of day"),
        ("rules:\n- {name: a, keep: m, at_least: 1, when: {time: {days: []}}}", 2, 55, "say which days"),
        ("rules:\n- {name: a, keep: m, at_least: 1, when: {time: {days: mon}}}", 2, 55, "did you mean monday"),
        ("rules:\n- {name: a, keep: m, keep: n, at_least: 1}", 2, 22, "`keep` stands twice"),
        ("rules:\n- {name: a, keep: *, at_least: 1}", 2, 20, "is not YAML"),
        ("rules:\n- {name: a, keep: *m, at_least: 1}", 2, 19, "put * into quotes"),
        ("rules: [\x00]", 1, 9, "this character is not allowed"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_its_fix(text: str, line: int, column: int, message: str) -> None:
    """Each mistake is the only one reported, at the value that is wrong, with what to write."""
    reading = parse_yaml(text)
    (mistake,) = reading.mistakes
    assert message in mistake.message
    assert (mistake.place.line, mistake.place.column) == (line, column)


def test_every_mistake_is_reported_at_once() -> None:
    """Mistakes in several rules and fields stand in the order of the file."""
    wrong = YAML.replace("by: 2", "by: x1").replace("300", "'-3'").replace("5 minutes", "soon").replace("50%", "500%")
    assert [mistake.place.line for mistake in parse_yaml(wrong).mistakes] == [4, 7, 17, 18]


def test_plain_data_name_the_rule_by_its_number() -> None:
    """Data have no lines; the n-th rule counts as line n."""
    rules = [{"name": "a", "keep": "m", "at_least": 1}, {"name": "b", "keep": "m", "at_least": 0}]
    with pytest.raises(RuleError, match="line 2"):
        from_plain({"rules": rules})
    assert len(from_plain(rules[:1])) == 1
