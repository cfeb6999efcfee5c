# SPDX-License-Identifier: Apache-2.0
"""Rules as text: what is read, and every mistake with its line and column."""

from __future__ import annotations

import pytest

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
from penstock.rules.text import parse_text
from penstock.rules.to_text import RESERVED, to_text

EXAMPLE = """\
rule "queue too long":
  scale-out matcher by 2 never above 8
  when queue_length above 300 for 30 seconds
  when cpu_utilisation mean above 60% for 1 minute
  unless scale-out within 5 minutes

rule "calm":
  scale-in * by x2 never below 1   # halves it
  when queue_length below 1 for 60 seconds
  unless scale-out within 5 minutes
"""


def test_the_example_is_read() -> None:
    """Names, operators, factors, limits, triggers and guard times are what the text says."""
    reading = parse_text(EXAMPLE)
    assert reading.mistakes == ()
    assert reading.rules == (
        Rule(
            "queue too long",
            "matcher",
            Scale(Direction.OUT, Quantity(2), Quantity(8)),
            (
                MetricTrigger("queue_length", Comparison.ABOVE, 300, 30),
                MetricTrigger("cpu_utilisation", Comparison.ABOVE, 0.6, 60, "mean"),
            ),
            (Guard(Direction.OUT, 300),),
        ),
        Rule(
            "calm",
            "*",
            Scale(Direction.IN, Quantity(2, is_relative=True), Quantity(1)),
            (MetricTrigger("queue_length", Comparison.BELOW, 1, 60),),
            (Guard(Direction.OUT, 300),),
        ),
    )
    assert [(r.place.line, r.place.column) for r in reading.rules if r.place] == [(1, 1), (7, 1)]


@pytest.mark.parametrize(
    ("clause", "trigger"),
    [
        ("when queue_length p90 above 300 for 30 seconds",
         MetricTrigger("queue_length", Comparison.ABOVE, 300, 30, "p90")),
        ("when arrival_rate mean in 2 minutes above 500 for 1 hour",
         MetricTrigger("arrival_rate", Comparison.ABOVE, 500, 3600, "mean", 120)),
        ("when utilisation below 0.3", MetricTrigger("cpu_utilisation", Comparison.BELOW, 0.3)),
        ("when time between 08:00 and 18:00 on tuesday, monday in Europe/Zurich",
         TimeTrigger(480, 1080, ("monday", "tuesday"), "Europe/Zurich")),
        ("when time on weekends", TimeTrigger(days=("saturday", "sunday"))),
        ("when time on weekdays, weekends", TimeTrigger()),
        ("when time outside 22:00 and 6:00", TimeTrigger(1320, 360, is_outside=True)),
        ("unless time between 22:00 and 24:00", TimeTrigger(1320, 0, is_outside=True)),
    ],
)  # fmt: skip
def test_triggers_are_read(clause: str, trigger: MetricTrigger | TimeTrigger) -> None:
    """Statistics, forecasts, fractions, times of day, weekdays and zones are read."""
    reading = parse_text(f'rule "a": scale-in m by 1 {clause}')
    assert reading.mistakes == ()
    assert reading.rules[0].triggers == (trigger,)


@pytest.mark.parametrize(
    ("clause", "operator", "action"),
    [
        ("keep matcher at least 3", "matcher", Keep(Side.LEAST, executors=3)),
        ("keep * at most 50% cpu", "*", Keep(Side.MOST, cpu_share=0.5)),
        ("keep * at most 0.5 cpu", "*", Keep(Side.MOST, cpu_share=0.5)),
        ("scale-up matcher by 20% never above 100%", "matcher", Scale(Direction.UP, Quantity(0.2), Quantity(1.0))),
        ("scale-up matcher by x2", "matcher", Scale(Direction.UP, Quantity(2, is_relative=True))),
        ("scale-down matcher by 0.2", "matcher", Scale(Direction.DOWN, Quantity(0.2))),
        ('scale-out "when it rains" by x1.5 never above x4', "when it rains",
         Scale(Direction.OUT, Quantity(1.5, is_relative=True), Quantity(4, is_relative=True))),
    ],
)  # fmt: skip
def test_actions_are_read(clause: str, operator: str, action: Scale | Keep) -> None:
    """Bounds, CPU shares, factors and names in quotes are read."""
    (rule,) = parse_text(f'rule "a": {clause} when queue_length above 1').rules
    assert (rule.operator, rule.action) == (operator, action)


def _one(clause: str) -> str:
    return f'rule "a":\n  scale-in m by 1\n  {clause}\n'


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("scale-in m by 1", 1, 1, "stands before the first rule"),
        ("hello", 1, 1, 'begins no rule; write `rule "name":`'),
        ("rule calm:\n", 1, 6, 'put the name of the rule into quotes: rule "calm":'),
        ('rule "calm:\n', 1, 6, "the quotes are not closed on this line"),
        ('rule "calm"\n', 1, 12, "expected `:`"),
        ('rule "":\n', 1, 6, "no name for a rule"),
        (r'rule "a\n":', 1, 6, r'only \" and \\ are written with a backslash'),
        ('rule "a":', 1, 1, "the rule says nothing to do; add `scale-out"),
        ('rule "a":\n  scale-in m by 1', 2, 3, "the rule has no trigger; add `when"),
        ('rule "a":\n  scale-out m by 1\n when queue_length above 1', 2, 3, "needs a limit; add `never above 8`"),
        ('rule "a":\n  scale-out m by x0.5 never above 8\n when queue_length above 1', 2, 18, "not above 1"),
        ('rule "a":\n  scale-out m by 1 never below 8\n when queue_length above 1', 2, 32, "with `never above`"),
        ('rule "a":\n  scale-in m bye 1\n', 2, 14, "did you mean `by`"),
        ('rule "a":\n  scale-in m by 1.5\n when queue_length above 1', 2, 17, "whole number from 1 on"),
        ('rule "a":\n  keep m at least 50%', 2, 19, "write `50% cpu`"),
        ('rule "a":\n  keep m at least 1\n  unless scale-in within 1 minute', 2, 8, "knows no guard times"),
        (_one("when queue_lenght above 3"), 3, 8, "did you mean queue_length"),
        (_one("when queue_length above 3 and cpu_used below 1"), 3, 29, "begin a new line with `when`"),
        (_one("when queue_length above 3 or cpu_used below 1"), 3, 29, "one rule for each condition"),
        (_one("when queue_length > 3"), 3, 21, "write `above`"),
        (_one("when queue_length <= 3"), 3, 21, "write `below`"),
        (_one("when queue_length above -3"), 3, 27, "write a number from 0 on"),
        (_one("when queue_length $$$ 3"), 3, 21, "`$$$` does not fit here; expected `above` or `below`"),
        (_one("when queue_length above 3%"), 3, 27, "counted in records"),
        (_one("when cpu_utilisation above 60"), 3, 30, "write 60%"),
        (_one("when queue_length above x3"), 3, 27, "x3 is a factor"),
        (_one("when queue_length above 1e999"), 3, 27, "too large a number"),
        (_one("when cpu_used mean above 3"), 3, 8, "needs the time over which it is taken"),
        (_one("when cpu_used p0 above 3 for 1 minute"), 3, 17, "unknown statistic 'p0'"),
        (_one("when cpu_used above 3 for 1 minuet"), 3, 31, "write seconds, minutes or hours"),
        (_one("when cpu_used in 0 minutes above 3"), 3, 8, "more than 0 seconds"),
        (_one("when cpu_used"), 3, 16, "something is missing here: expected `above`"),
        (_one("wen cpu_used above 3"), 3, 3, "did you mean `when`"),
        (_one("when time between 25:00 and 18:00"), 3, 21, "not a time of day"),
        (_one("when time on mon"), 3, 16, "did you mean monday"),
        (_one("when time on monday in Europe/Zurch"), 3, 26, "did you mean Europe/Zurich"),
        (_one("unless time outside 08:00 and 09:00"), 3, 15, "`unless` and `outside` cancel out"),
        (_one("unless scale-in within 0 seconds"), 3, 10, "lasts more than 0 seconds"),
        (_one("when cpu_used above 1 when cpu_used above 2 scale-out m by 1 never above 2"), 3, 47, "says twice"),
    ],
)  # fmt: skip
def test_a_mistake_has_its_place_and_its_fix(text: str, line: int, column: int, message: str) -> None:
    """Each mistake is the only one reported, at the word that is wrong, with what to write."""
    reading = parse_text(text)
    (mistake,) = reading.mistakes
    assert message in mistake.message
    assert (mistake.place.line, mistake.place.column) == (line, column)
    assert reading.rules == ()


def test_every_mistake_is_reported_and_right_rules_are_kept() -> None:
    """Mistakes in one clause hide no others, and leave other rules alone; each names its rule."""
    text = EXAMPLE.replace("by 2", "by two").replace("300", "-3").replace("5 minutes", "5 minuets")
    reading = parse_text(text + 'rule "low": keep matcher at least 3\nrule "low": keep matcher at least 4\n')
    assert [(m.place.line, m.rules) for m in reading.mistakes] == [
        (2, ("queue too long",)),
        (3, ("queue too long",)),
        (5, ("queue too long",)),
        (10, ("calm",)),
        (12, ("low",)),
    ]
    assert [rule.name for rule in reading.rules] == ["low"]


def test_words_of_the_language_are_operators_in_quotes() -> None:
    """An operator may be called like any word of the language, like a factor or like a statistic."""
    for name in (*RESERVED, "x2", "p90", "mean"):
        rule = Rule("a", name, Keep(Side.LEAST, executors=1), ())
        assert f'keep "{name}"' in to_text([rule])
        assert parse_text(to_text([rule])).rules == (rule,)


def test_an_empty_policy_is_no_mistake() -> None:
    """No rules are a policy that changes nothing."""
    reading = parse_text("# nothing yet\n")
    assert (reading.rules, reading.mistakes) == ((), ())
