# SPDX-License-Identifier: Apache-2.0
"""Rules of every kind: the three forms mean the same, and no text, however broken, gives anything but our errors."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.rule_strategies import policies

from penstock.errors import RuleError
from penstock.rules import rules as finished
from penstock.rules.doubts import doubts
from penstock.rules.explain import explain
from penstock.rules.findings import Reading
from penstock.rules.nodes import Rule
from penstock.rules.plain_data import from_plain, to_plain
from penstock.rules.text import parse_text
from penstock.rules.to_python import to_python
from penstock.rules.to_text import to_text
from penstock.rules.yaml_form import parse_yaml, to_yaml

_LANGUAGE = (
    'rule "a" "b": : scale-out scale-in keep matcher * by 2 x2 20% never above below 8 when queue_length mean p90 in 2',
    'minutes for 30 seconds unless within time between 08:00 and 18:00 on monday , weekends UTC at least most cpu # "',
)
_WORDS = st.sampled_from([*" ".join(_LANGUAGE).split(), "\n"])


def _from_python(policy: list[Rule]) -> tuple[Rule, ...]:
    names: dict[str, Any] = {}
    exec(to_python(policy), names)
    return finished(names["policy"])


@given(policies())
def test_the_three_forms_mean_the_same(policy: list[Rule]) -> None:
    """A policy written as text, YAML, Python or plain data is exactly the same policy when it is read."""
    wanted = tuple(policy)
    assert parse_text(to_text(policy)) == Reading(wanted, ())
    assert parse_yaml(to_yaml(policy)) == Reading(wanted, ())
    assert _from_python(policy) == wanted
    assert from_plain(json.loads(json.dumps(to_plain(policy)))) == wanted


@given(policies())
def test_every_policy_can_be_explained_and_checked(policy: list[Rule]) -> None:
    """Each rule's name stands in the explanation, and looking for doubts ends."""
    words = explain(policy)
    assert all(rule.name in words for rule in policy)
    names = {rule.name for rule in policy}
    assert all(set(doubt.rules) <= names for doubt in doubts(policy))


def _is_ours(reading: Reading, text: str) -> None:
    lines = text.count("\n") + 1
    for mistake in reading.mistakes:
        assert 1 <= mistake.place.line <= lines
        assert mistake.place.column >= 1
        assert mistake.message
    assert parse_text(to_text(reading.rules)).rules == reading.rules


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    """Text of any characters gives rules and mistakes, never another failure."""
    _is_ours(parse_text(text), text)


@given(st.lists(_WORDS, max_size=40).map(" ".join))
def test_any_words_of_the_language_are_read_or_refused(text: str) -> None:
    """Words of the language in any order give rules and mistakes, never another failure."""
    _is_ours(parse_text(text), text)


@st.composite
def _damaged(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        until = min(len(text), at + draw(st.integers(0, 6)))
        text = text[:at] + draw(st.text(max_size=3) | _WORDS) + text[until:]
    return text


@given(policies().flatmap(lambda policy: _damaged(to_text(policy))))
def test_damaged_text_is_read_or_refused(text: str) -> None:
    """A policy's text with some characters changed gives rules and mistakes, never another failure."""
    _is_ours(parse_text(text), text)


@settings(max_examples=200)
@given(st.one_of(st.text(max_size=200), policies().flatmap(lambda policy: _damaged(to_yaml(policy)))))
def test_damaged_yaml_is_read_or_refused(text: str) -> None:
    """Any text as YAML, and a policy's YAML with some characters changed, give rules and mistakes, no other failure."""
    reading = parse_yaml(text)
    for mistake in reading.mistakes:
        assert mistake.place.line >= 1
        assert mistake.place.column >= 1
    assert parse_yaml(to_yaml(reading.rules)).rules == reading.rules


_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["rules", "name", "scale_out", "keep", "by", "never_above", "at_least", "when", "unless", "metric",
                 "above", "for", "in", "time", "between", "days", "zone", "scale_out_within", "statistic", "other"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@given(_DATA)
def test_any_data_are_read_or_refused(data: object) -> None:
    """Plain data of any shape are rules, or a RuleError says what is wrong."""
    with suppress(RuleError):
        found = from_plain(data)
        assert from_plain(to_plain(found)) == found


def test_brackets_without_end_are_refused() -> None:
    """Deep nesting, which YAML readers fail on, is a mistake like any other."""
    assert len(parse_yaml("[" * 3000).mistakes) == 1
    assert len(parse_yaml("rules: " + "[" * 2000 + "]" * 2000).mistakes) == 1


def test_aliases_cannot_blow_a_file_up() -> None:
    """An alias, by which a few lines can stand for billions, is refused at its place."""
    text = "rules:\n- &a [x, x]\n- [*a, *a]\n"
    (mistake,) = parse_yaml(text).mistakes
    assert (mistake.place.line, mistake.place.column) == (3, 4)
    assert "alias" in mistake.message
    assert yaml.safe_load(text) is not None


def test_quotes_without_end_are_one_mistake_for_each_line() -> None:
    """A line of escaped quotes that never close is read once, not once from each of them."""
    line = '"' + '\\"' * 50_000
    assert [mistake.place.line for mistake in parse_text(f"{line}\nrule {line}\n").mistakes] == [1, 2]
