# SPDX-License-Identifier: Apache-2.0
"""What a clause that does not follow the grammar lacks, in plain words."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from penstock.metrics import METRICS
from penstock.rules.numbers import SECONDS_PER

if TYPE_CHECKING:
    from lark import Token, UnexpectedToken

_WORDS = {
    "NUMBER": "a number", "PERCENT": "a percentage", "TIMES": "a factor such as x2", "WORD": "a name", "STAR": "`*`",
    "STRING": "a name in quotes", "CLOCK": "a time of day such as 08:00", "STATISTIC": "mean, max, min or p90",
    "COLON": "`:`", "COMMA": "`,`",
}  # fmt: skip
_ORDER = tuple(_WORDS)
_EXAMPLES = {
    "RULE": 'rule "queue too long":',
    "SCALE_OUT": "scale-out matcher by 2 never above 8",
    "SCALE_IN": "scale-in matcher by 1",
    "SCALE_UP": "scale-up matcher by 20% never above 100%",
    "SCALE_DOWN": "scale-down matcher by 20%",
    "KEEP": "keep matcher at least 3",
    "WHEN": "when queue_length above 300 for 30 seconds",
    "UNLESS": "unless scale-out within 5 minutes",
    "WHEN TIME": "when time between 08:00 and 18:00 on weekdays in Europe/Zurich",
    "UNLESS TIME": "unless time between 22:00 and 06:00",
}

_BEGIN = ("rule", "scale-out", "scale-in", "scale-up", "scale-down", "keep", "when", "unless")
_FIXES = {
    "and": "all triggers have to hold: begin a new line with `when`",
    "or": "a rule has no `or`: write one rule for each condition",
    ">": "write `above`",
    "<": "write `below`",
    ">=": "a trigger is above or below its value; write `above`",
    "<=": "a trigger is above or below its value; write `below`",
    "-": "nothing that is measured is below 0; write a number from 0 on",
}


def in_words(fault: UnexpectedToken, clause: list[Token]) -> tuple[tuple[int, int], str]:
    """Where a clause goes wrong, and what should stand there."""
    token = fault.token
    expected = fault.accepts if fault.accepts else set(fault.expected)
    if token.type == "$END":
        last = clause[-1]
        where = (last.end_line or 1, last.end_column or 1)
        return where, f"something is missing here: expected {_listed(expected)}; write it like `{_example(clause)}`"
    where = (token.line or 1, token.column or 1)
    begun = [t.line for t in clause[: clause.index(token)]]
    near = difflib.get_close_matches(str(token), _BEGIN, n=1) if token.line not in begun else []
    fix = f"did you mean `{near[0]}`?" if near else _fix(token, expected, clause)
    return where, f"`{_short(token)}` does not fit here; {fix}"


def _fix(token: Token, expected: set[str], clause: list[Token]) -> str:
    text = str(token)
    if token.type == "UNCLOSED":
        return "the quotes are not closed on this line"
    if (known := _FIXES.get(text) or _unit_fix(token, clause)) is not None:
        return known
    if clause[0].type == "RULE" and token.type == "WORD" and "STRING" in expected:
        return f'put the name of the rule into quotes: rule "{_short(token)}":'
    words = [_keyword(name) for name in expected if name not in _WORDS and name != "$END"]
    near = difflib.get_close_matches(text, words, n=1)
    if near and text != near[0]:
        return f"did you mean `{near[0]}`?"
    if expected - {"$END"}:
        return f"expected {_listed(expected)}, as in `{_example(clause)}`"
    return f"the clause is finished before it; write it like `{_example(clause)}`"


def _unit_fix(token: Token, clause: list[Token]) -> str | None:
    """What to write for a unit behind the value of a trigger; None where the token is none."""
    before = clause[clause.index(token) - 1]
    if clause[0].type != "WHEN" or token.type != "WORD" or before.type != "NUMBER":
        return None
    if difflib.get_close_matches(str(token), ("for",)):
        return None
    metric = METRICS.get(str(clause[1]))
    counted = "" if metric is None else f": {metric.name} is counted in {metric.unit}"
    return f"a value has no unit{counted}, so write {before} alone; only times have one: {', '.join(SECONDS_PER)}"


def _listed(expected: set[str]) -> str:
    known = [_WORDS[name] for name in _ORDER if name in expected]
    words = sorted(f"`{_keyword(name)}`" for name in expected if name not in _WORDS and name != "$END")
    return " or ".join([*words, *known]) or "the end of the line"


def _keyword(name: str) -> str:
    return name.lower().replace("_", "-")


def _example(clause: list[Token]) -> str:
    begin = clause[0].type
    second = clause[1].type if len(clause) > 1 else ""
    return _EXAMPLES.get(f"{begin} {second}", _EXAMPLES[begin])


def _short(token: Token) -> str:
    return str(token) if len(token) <= 40 else f"{token[:37]}..."
