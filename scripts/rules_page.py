# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E501 (the prose of a page, which is as wide as the other pages)
"""Writes docs/reference/rules.md: every form side by side, each made from the text by the code that users run."""

from __future__ import annotations

import re
import textwrap
from importlib.resources import files

INTRODUCTION = """\
A rule says what to do to an operator, and when. It is written in Python, as text or as YAML. The three forms mean the same,
and each can be turned into the others: `penstock rules show FILE --as text`, `--as yaml` or `--as python`.
[Write rules](../how-to/write-rules.md) explains how to use them, [rules](../background/rules.md) where they come from.

A rule has

- a name, which no other rule of the policy has;
- one action on an operator, or on all (`*`): scale, or keep within a bound;
- triggers, all of which have to hold. A rule that scales has at least one. A bound without triggers holds always;
- guard times, at most one after each kind of scaling. A bound has none.
"""

SECTIONS: list[tuple[str, str, list[str]]] = [
    (
        "Scale",
        "`by 2` adds or takes two executors, `by x2` doubles or halves. A factor is above 1. A limit is a number of executors, "
        "or a multiple of the original size. A rule that scales out needs one. Without one, scale-in ends at 1 executor and "
        "scale-up at 100% of CPU.",
        [
            'rule "more": scale-out matcher by 2 never above 8 when queue_length above 300',
            'rule "double": scale-out * by x2 never above x4 when queue_length above 300',
            'rule "less": scale-in matcher by 1 when queue_length below 1',
            'rule "half": scale-in matcher by x2 never below 2 when queue_length below 1',
            'rule "faster": scale-up matcher by 20% never above 100% when queue_length above 300',
            'rule "slower": scale-down matcher by x2 never below 40% when queue_length below 1',
        ],
    ),
    (
        "Keep",
        "A bound limits what other rules or a model propose, while its triggers hold: a number of executors, or a CPU share.",
        [
            'rule "floor": keep matcher at least 3',
            'rule "saving": keep * at most 50% cpu when time on weekends',
        ],
    ),
    (
        "Triggers on metrics",
        "A metric is above or below a value, both strictly, for at least a time. Every reading of that time has to be beyond the "
        "value, or the statistic over that time: `mean`, `max`, `min` or a percentile. With `in`, the forecast so far ahead is "
        "compared. Without a time the newest reading decides. A percentage fits where the unit is a fraction. "
        "[Metrics](metrics.md) lists all names.",
        [
            'rule "a": scale-in matcher by 1 when queue_length below 1 for 30 seconds',
            'rule "a": scale-in matcher by 1 when cpu_utilisation mean below 30% for 1 minute',
            'rule "a": scale-in matcher by 1 when queue_length p90 below 10 for 2 minutes',
            'rule "a": scale-in matcher by 1 when arrival_rate mean in 2 minutes below 500 for 30 seconds',
            'rule "a": scale-in matcher by 1 when latency_p95 below 0.5',
        ],
    ),
    (
        "Triggers on the time",
        "A period begins at its first time and ends before its second; an end that is not after the start lies on the next day. "
        "Days are those on which the period begins. The zone is an IANA name, and UTC where none is said.",
        [
            'rule "a": keep matcher at least 3 when time between 08:00 and 18:00 on weekdays in Europe/Zurich',
            'rule "a": keep matcher at least 3 when time on monday, friday',
            'rule "a": keep matcher at least 3 unless time between 22:00 and 06:00',
        ],
    ),
    (
        "Guard times",
        "The rule does nothing for a time after the operator was scaled in that direction.",
        [
            'rule "a": scale-in matcher by 1 when queue_length below 1 unless scale-out within 5 minutes '
            "unless scale-in within 90 seconds",
        ],
    ),
]

GRAMMAR = """\

## Grammar of the text

```text
policy = { rule }
rule   = header, (scale | keep), { when_metric | when_time | unless_time | guard }
```

The clauses, as the parser reads them. Spaces and line ends separate words; `#` begins a comment. An operator that is called
like a word of the language stands in quotes.

```text
"""

CHECKS = """\

## What the checker reports

`penstock rules check FILE` reports every mistake with line and column, and ends with exit code 2 if there is one. What is
doubtful is reported as well. Each of these is certain, with values of metrics as an example where they help:

| Doubt | Said of |
|---|---|
| can fire together in opposite directions | rules on one operator, one of which grows and one of which shrinks |
| can never fire | a rule whose triggers contradict each other, what is possible, or its own limit |
| never changes anything | a rule that holds only when another holds too, which wins: the one that grows furthest, or takes least |
| limits or bounds contradict each other | scale-out that ends below where scale-in ends, a bound beyond a limit, two bounds |
| the operator's own limits | with `--pipeline FILE`: limits and bounds beyond `executors` and `cpu_shares` there |
"""


def rules_page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, words, texts in SECTIONS:
        parts.append(f"\n## {title}\n\n{textwrap.fill(words, 125, break_on_hyphens=False)}\n")
        parts += [_forms(text) for text in texts]
    parts += [GRAMMAR, _clauses(), "```\n", CHECKS]
    return "".join(parts)


def _forms(text: str) -> str:
    """One rule in text, Python, YAML and words."""
    from penstock.rules.explain import in_words
    from penstock.rules.text import parse_text
    from penstock.rules.to_python import rule_in_python
    from penstock.rules.to_text import to_text
    from penstock.rules.yaml_form import to_yaml

    rules = parse_text(text).without_mistakes("scripts/rules_page.py")
    python = rule_in_python(rules[0], "\n    ")
    yaml = to_yaml(rules).removeprefix("rules:\n")
    return (
        f"\n> {in_words(rules[0])}\n\n```rules\n{to_text(rules)}```\n```python\n({python})\n```\n```yaml\n{yaml}```\n"
    )


def _clauses() -> str:
    """The grammar without its comments."""
    grammar = files("penstock.rules").joinpath("grammar.lark").read_text(encoding="utf-8")
    kept = [line for line in grammar.splitlines() if not re.match(r"//|nothing:|UNKNOWN|UNCLOSED|%ignore", line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept).strip()) + "\n"
