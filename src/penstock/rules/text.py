# SPDX-License-Identifier: Apache-2.0
"""Reads rules that are written as text. A mistake in one clause leaves the others readable, so all are reported.

::

    rule "queue too long":
      scale-out matcher by 2 never above 8
      when queue_length above 300 for 30 seconds
      unless scale-out within 5 minutes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from penstock.rules.clauses import READERS, ClauseReader, place_of
from penstock.rules.findings import Findings, Reading
from penstock.rules.rule_parts import RuleParts, finished_rules
from penstock.rules.syntax_errors import in_words

if TYPE_CHECKING:
    from lark import Lark, Token

_CLAUSES = ("header", "scale", "keep", "when_metric", "when_time", "unless_time", "guard")
_SCALES = ("SCALE_OUT", "SCALE_IN", "SCALE_UP", "SCALE_DOWN")


def parse_text(text: str, source: str = "") -> Reading:
    """The rules of a text and every mistake in it.

    Examples
    --------
    >>> parse_text('rule "calm":\\n  scale-in * by x2\\n  when queue_length below 1 for 60 seconds').rules[0].operator
    '*'
    """
    findings = Findings(source)
    parts: list[RuleParts] = []
    for clause in _clauses(parser().lex(text)):
        _take(clause, parts, findings)
    return findings.reading(finished_rules(parts, findings))


@cache
def parser() -> Lark:
    """The parser of single clauses. Lark is imported here, so that `import penstock` does not need it."""
    from lark import Lark

    grammar = files("penstock.rules").joinpath("grammar.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", lexer="basic", start=[*_CLAUSES, "nothing"])


def _clauses(tokens: Iterable[Token]) -> Iterator[list[Token]]:
    """Tokens cut before each word that begins a clause."""
    clause: list[Token] = []
    for token in tokens:
        begins = token.type in ("RULE", "KEEP", "WHEN", "UNLESS") or (
            token.type in _SCALES and [t.type for t in clause] != ["UNLESS"]
        )
        if begins and clause:
            yield clause
            clause = []
        clause.append(token)
    if clause:
        yield clause


def _kind(clause: list[Token]) -> str | None:
    """By which part of the grammar a clause is read."""
    first, second = clause[0].type, clause[1].type if len(clause) > 1 else ""
    if first in ("WHEN", "UNLESS") and second == "TIME":
        return "when_time" if first == "WHEN" else "unless_time"
    kinds = {
        "RULE": "header",
        "KEEP": "keep",
        "WHEN": "when_metric",
        "UNLESS": "guard",
        **dict.fromkeys(_SCALES, "scale"),
    }
    return kinds.get(first)


def _take(clause: list[Token], parts: list[RuleParts], findings: Findings) -> None:
    """Read one clause into the rule that it belongs to."""
    from lark import UnexpectedToken

    kind, place = _kind(clause), place_of(clause[0], findings)
    if kind is None:
        findings.add(f'`{clause[0]}` begins no rule; write `rule "name":` before it', place)
        return
    if kind == "header":
        parts.append(RuleParts(place))
    elif not parts:
        findings.add(f'`{clause[0]}` stands before the first rule; write `rule "name":` above it', place)
        parts.append(RuleParts(place, is_known_wrong=True))
    rule = parts[-1]
    rule.kinds.add(kind)
    reader = parser().parse_interactive(start=kind)
    try:
        for token in clause:
            reader.feed_token(token)
        tree = reader.feed_eof(clause[-1])  # type: ignore[no-untyped-call]
    except UnexpectedToken as fault:
        where, message = in_words(fault, clause)
        rule.mistake(message, findings.place(*where), findings)
        return
    READERS[kind](tree, rule, ClauseReader(rule, findings))
