# SPDX-License-Identifier: Apache-2.0
"""What the checker finds doubtful, and what it does not."""

from __future__ import annotations

import pytest

from penstock.records import Limits
from penstock.rules.doubts import MOST_RULES, doubts
from penstock.rules.examples import MOST_TRIES, History
from penstock.rules.nodes import MetricTrigger
from penstock.rules.text import parse_text

OUT = 'rule "out": scale-out m by 2 never above 8 when queue_length above 300 for 30 seconds\n'
IN = 'rule "in": scale-in m by 1 when queue_length below 1 for 1 minute\n'


def _doubts(text: str, **operators: Limits) -> list[str]:
    reading = parse_text(text)
    assert reading.mistakes == ()
    return [doubt.message for doubt in doubts(reading.rules, operators)]


def test_a_sound_policy_raises_no_doubt() -> None:
    """Rules that exclude each other, and rules of other operators, are left alone."""
    assert _doubts(OUT + IN) == []
    assert _doubts(OUT + 'rule "in": scale-in other by 1 when cpu_used below 1') == []
    assert _doubts(OUT + 'rule "faster": scale-out m by 4 never above 8 when queue_length above 900') == []


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("scale-in m by 1 when cpu_utilisation below 20%", "queue_length 301 records and cpu_utilisation 0%"),
        ("scale-in * by 1 when queue_length below 400", "queue_length 301 records"),
        ("scale-in m by 1 when queue_length min below 1 for 10 minutes",
         "queue_length 301 records in the last 30 seconds, 0 records from 10 minutes to 30 seconds ago"),
        ("scale-in m by 1 when queue_length in 2 minutes below 1",
         "queue_length 301 records and the forecast of queue_length in 2 minutes 0 records"),
        ("scale-down m by 10% when time between 22:00 and 06:00 on monday",
         "queue_length 301 records on Monday 22:00 (UTC)"),
        ("scale-in m by 1 when latency_p50 below 5 when latency_p99 above 1", "latency_p99"),
    ],
)  # fmt: skip
def test_rules_that_can_fire_together_in_opposite_directions(other: str, shown: str) -> None:
    """They are named with values of the metrics under which both fire, and which of them wins."""
    (doubt,) = _doubts(OUT + f'rule "in": {other}')
    assert '"out" (scale-out) and "in" (scale-' in doubt
    assert "can fire together, for example with " in doubt
    assert shown in doubt
    assert '"out" wins then' in doubt


@pytest.mark.parametrize(
    "other",
    [
        "scale-in m by 1 when queue_length below 300 for 1 second",
        "scale-in m by 1 when queue_length max below 300 for 30 seconds",
        "scale-in m by 1 when queue_length mean below 200 for 10 seconds",
        "scale-in m by 1 when executors above 8 when cpu_used below 1",
    ],
)
def test_rules_that_exclude_each_other(other: str) -> None:
    """Values, statistics over a time that the other covers, and sizes can exclude each other."""
    assert _doubts(OUT + f'rule "in": {other}') == []


def test_percentiles_of_latency_are_in_order() -> None:
    """A p50 above what the p99 is below cannot be, so such rules do not fire together."""
    low = 'rule "in": scale-in m by 1 when latency_p99 below 3'
    assert _doubts('rule "out": scale-out m by 1 never above 8 when latency_p50 above 5\n' + low) == []
    assert len(_doubts('rule "out": scale-out m by 1 never above 8 when latency_p50 above 2\n' + low)) == 1


@pytest.mark.parametrize(
    ("triggers", "why"),
    [
        ("when queue_length above 10 when queue_length below 5 for 1 minute", "no value of queue_length"),
        ("when queue_length above 10 for 1 minute when queue_length mean below 5 for 30 seconds", "no value"),
        ("when queue_length p50 above 10 for 1 minute when queue_length p90 below 5 for 1 minute", "no value"),
        ("when queue_length below 0", "no value of queue_length"),
        ("when cpu_utilisation above 100%", "no value of cpu_utilisation"),
        ("when executors above 3 when executors below 4", "no value of executors"),
        ("when latency_p50 above 5 when latency_p99 below 5", "no value of latency_p"),
        ("when executors above 7", "its limit leaves nothing to do"),
        ("when time between 08:00 and 10:00 when time between 10:00 and 11:00", "no moment in common"),
        ("when time on monday unless time between 00:00 and 24:00", "no moment in common"),
    ],
)
def test_rules_that_can_never_fire(triggers: str, why: str) -> None:
    """Triggers that contradict each other, what is possible, or the rule's own limit are named."""
    (doubt,) = _doubts(f'rule "a": scale-out m by 1 never above 8 {triggers}')
    assert doubt.startswith('"a" can never fire: ')
    assert why in doubt


@pytest.mark.parametrize(
    ("first", "second", "is_shadowed"),
    [
        ("scale-out m by 2 never above 8 when queue_length above 300",
         "scale-out m by 1 never above 8 when queue_length above 400 for 1 minute", True),
        ("scale-out * by 2 never above 8 when queue_length above 300",
         "scale-out m by 2 never above 8 when queue_length above 300", True),
        ("scale-out m by 1 never above 8 when queue_length above 300",
         "scale-out m by 2 never above 8 when queue_length above 400", False),
        ("scale-out m by 2 never above 6 when queue_length above 300",
         "scale-out m by 1 never above 8 when queue_length above 400", False),
        ("scale-out m by 2 never above 8 when queue_length above 300 unless scale-out within 9 minutes",
         "scale-out m by 1 never above 8 when queue_length above 400 unless scale-out within 5 minutes", False),
        ("scale-out m by 2 never above 8 when queue_length above 300 when cpu_used above 1",
         "scale-out m by 1 never above 8 when queue_length above 400", False),
        ("scale-in m by 1 when queue_length below 5", "scale-in m by 2 when queue_length below 1", True),
        ("scale-in m by 2 when queue_length below 5", "scale-in m by 1 when queue_length below 1", False),
        ("scale-out m by 1 never above 8 when queue_length below 5", "scale-in m by 1 when queue_length below 1", True),
        ("keep m at least 3", "keep m at least 2 when time on monday", True),
        ("keep m at least 3 when time on monday", "keep m at least 2 when time on tuesday", False),
        ("keep m at least 3 when time between 08:00 and 18:00",
         "keep m at least 2 when time between 09:00 and 10:00 on friday", True),
    ],
)  # fmt: skip
def test_rules_that_another_always_shadows(first: str, second: str, is_shadowed: bool) -> None:
    """A rule is shadowed if another holds whenever it does and wins: growing furthest, or shrinking least."""
    found = _doubts(f'rule "first": {first}\nrule "second": {second}')
    assert [doubt.startswith('"second" never changes anything: whenever it holds, "first"') for doubt in found] == (
        [True] if is_shadowed else []
    )


def test_of_two_rules_that_say_the_same_the_later_is_named() -> None:
    """A rule written twice is one doubt, not two."""
    same = "scale-out m by 2 never above 8 when queue_length above 300"
    (doubt,) = _doubts(f'rule "one": {same}\nrule "two": {same}')
    assert doubt.startswith('"two" never changes anything')


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        ("scale-out m by 1 never above 3 when cpu_used above 1", "scale-in m by 1 never below 5 when cpu_used below 1",
         "the limits contradict each other"),
        ("scale-out m by 1 never above 3 when cpu_used above 1", "keep m at least 4 when time on monday",
         'keeps at least 4, above the limit 3 of "one"'),
        ("scale-out m by 1 never above 8 when cpu_used above 1", "keep * at most 4", "never comes to its limit 8"),
        ("scale-in m by 1 never below 5 when cpu_used below 1", "keep m at most 4 when time on monday",
         'keeps at most 4, below the limit 5 of "one"'),
        ("keep m at least 5 when time on monday", "keep * at most 3 when queue_length below 1",
         "both can hold, for example with queue_length 0 records on Monday 00:00 (UTC); at least wins then"),
    ],
)  # fmt: skip
def test_limits_that_contradict_each_other(one: str, other: str, why: str) -> None:
    """Limits of growing and shrinking, and bounds against limits and bounds, are held against each other."""
    (doubt,) = _doubts(f'rule "one": {one}\nrule "other": {other}')
    assert why in doubt


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (
            "scale-out m by 1 never above 8",
            "never comes to its limit 8 executors: the operator has at most 6 executors",
        ),
        (
            "scale-out m by 1 never above 2",
            "can never fire: it never scales above 2 executors, and the operator has at",
        ),
        ("scale-in m by 1 never below 6", "can never fire: it never scales below 6 executors, and the operator has at"),
        ("scale-out * by 1 never above 8", "at most 6 executors"),
        ("scale-up m by 10%", "can never fire: the operator always has 100% CPU"),
        ("keep m at least 7", "keeps at least 7 executors, but the operator has at most 6"),
        ("keep m at most 1", "keeps at most 1 executor, but the operator has at least 2"),
    ],
)
def test_limits_that_contradict_the_operators_own(action: str, why: str) -> None:
    """With the pipeline at hand, what the operator may have is held against each rule."""
    (doubt,) = _doubts(f'rule "a": {action} when cpu_used above 1', m=Limits(2, 6))
    assert why in doubt
    assert "operator m" in doubt


def test_a_limit_of_one_contradicts_nobody() -> None:
    """`never below 1` is what holds anyway."""
    assert _doubts('rule "a": scale-in m by 1 never below 1 when cpu_used below 1', m=Limits(2, 6)) == []


def test_a_very_long_file_says_where_the_checker_stops() -> None:
    """Beyond so many rules they are no longer held against each other, which is said."""
    text = "".join(f'rule "{i}": keep m{i} at least 1\n' for i in range(MOST_RULES + 1))
    (doubt,) = _doubts(text)
    assert f"only the first {MOST_RULES} are held against each other" in doubt


def test_rules_with_hundreds_of_triggers_are_checked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more triggers two rules have, the fewer examples are tried: the work has a bound."""
    looked = 0
    satisfies = History.satisfies

    def counted(history: History, trigger: MetricTrigger) -> bool:
        nonlocal looked
        looked += len(history.stretches)
        return satisfies(history, trigger)

    monkeypatch.setattr(History, "satisfies", counted)
    low = "".join(f" when queue_length below {i} for {i} seconds" for i in range(1, 60))
    high = "".join(f" when queue_length p90 above {i} for {i} seconds" for i in range(60, 120))
    _doubts(f'rule "a": scale-in m by 1{low}\nrule "b": scale-out m by 1 never above 3{high}')
    assert 0 < looked <= 50 * MOST_TRIES
