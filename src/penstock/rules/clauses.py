# SPDX-License-Identifier: Apache-2.0
"""Turns the syntax tree of one clause of text into parts of a rule. A wrong part is reported at its own place."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import RuleError
from penstock.rules.checks import (
    WEEKDAYS_ONLY,
    WEEKENDS,
    amount_of,
    checked_days,
    checked_guard,
    checked_metric,
    checked_name,
    checked_operator,
    checked_statistic,
    checked_trigger,
    checked_zone,
    keep_of,
    limit_of,
    value_of,
)
from penstock.rules.findings import Findings
from penstock.rules.nodes import Comparison, Direction, Guard, Keep, MetricTrigger, Place, Scale, Side, TimeTrigger
from penstock.rules.numbers import read_clock, read_number, seconds_in
from penstock.rules.rule_parts import RuleParts

if TYPE_CHECKING:
    from lark import Token

T = TypeVar("T")

_ESCAPE = re.compile(r"\\(.)")


class ClauseReader:
    """Reads parts of a clause. A wrong part is reported at its own place."""

    def __init__(self, rule: RuleParts, findings: Findings) -> None:
        self._rule, self._findings = rule, findings
        self.is_right = True

    def read(self, token: Token, take: Callable[[str], T], otherwise: T) -> T:
        """What `take` makes of a token's text; `otherwise` after a mistake."""
        try:
            return take(str(token))
        except RuleError as fault:
            self.wrong(fault, token)
            return otherwise

    def wrong(self, fault: RuleError, token: Token) -> None:
        """Report a mistake at a token."""
        self.is_right = False
        self._rule.mistake(fault, place_of(token, self._findings), self._findings)

    def place(self, token: Token) -> Place:
        """Where a token stands."""
        return place_of(token, self._findings)


def place_of(token: Token, findings: Findings) -> Place:
    """Where a token stands."""
    return findings.place(token.line or 1, token.column or 1)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    for match in _ESCAPE.finditer(text[1:-1]):
        if match[1] not in '"\\':
            raise RuleError(f'`{match[0]}` in quotes means nothing; only \\" and \\\\ are written with a backslash')
    return _ESCAPE.sub(r"\1", text[1:-1])


def _header(tree: Any, rule: RuleParts, reader: ClauseReader) -> None:
    (token,) = tree.children
    rule.name = reader.read(token, lambda text: checked_name(_unquoted(text)), None)


def _scale(tree: Any, rule: RuleParts, reader: ClauseReader) -> None:
    (way,), (name,) = tree.children[0].children, tree.children[1].children
    factor, end = tree.children[2:]
    direction = Direction(str(way))
    operator = reader.read(name, lambda text: checked_operator(_unquoted(text)), "?")
    amount = reader.read(factor, lambda text: amount_of(direction, read_number(text)), None)
    limit = None
    if end is not None:
        (side,), token = end.children[0].children, end.children[1]
        limit = reader.read(token, lambda text: limit_of(direction, str(side), read_number(text)), None)
    if reader.is_right and amount is not None:
        rule.act(operator, Scale(direction, amount, limit), reader.place(way))


def _keep(tree: Any, rule: RuleParts, reader: ClauseReader) -> None:
    (name,), (side,) = tree.children[0].children, tree.children[1].children
    number, cpu = tree.children[2:]
    operator = reader.read(name, lambda text: checked_operator(_unquoted(text)), "?")
    at = Side(f"at {side}")
    bound: Keep | None = reader.read(number, lambda t: keep_of(at, read_number(t), is_cpu=cpu is not None), None)
    if reader.is_right and bound is not None:
        rule.act(operator, bound, reader.place(name))


def _when_metric(tree: Any, rule: RuleParts, reader: ClauseReader) -> None:
    metric_tree, statistic, ahead, side_tree, number, lasts = tree.children
    (name,), (side,) = metric_tree.children, side_tree.children
    metric = reader.read(name, checked_metric, None)
    taken = None if statistic is None else reader.read(statistic, checked_statistic, None)
    ahead_seconds = None if ahead is None else _seconds(ahead, reader)
    for_seconds = 0.0 if lasts is None else _seconds(lasts, reader)
    value = None if metric is None else reader.read(number, lambda text: value_of(metric, read_number(text)), None)
    if reader.is_right and metric is not None and value is not None:
        trigger = MetricTrigger(metric, Comparison(str(side)), value, for_seconds, taken, ahead_seconds)
        _add(reader, name, lambda: rule.triggers.append(checked_trigger(trigger)))


def _time(tree: Any, rule: RuleParts, reader: ClauseReader, *, is_unless: bool) -> None:
    hours, days, zone = tree.children[0].children
    start = end = 0
    is_outside = is_unless
    if hours is not None:
        within_tree, first, last = hours.children
        (within,) = within_tree.children
        start, end = reader.read(first, read_clock, 0), reader.read(last, read_clock, 0)
        if str(within) == "outside":
            if is_unless:
                reader.wrong(RuleError("`unless` and `outside` cancel out; write `when time between`"), within)
            is_outside = True
    chosen = () if days is None else _days(days, reader)
    name = "UTC" if zone is None else reader.read(zone.children[0], lambda text: checked_zone(_unquoted(text)), "UTC")
    if reader.is_right:
        rule.triggers.append(TimeTrigger(start, end, chosen, name, is_outside))


def _days(tree: Any, reader: ClauseReader) -> tuple[str, ...]:
    groups: dict[str, tuple[str, ...]] = {"weekdays": WEEKDAYS_ONLY, "weekends": WEEKENDS}
    days: list[str] = []
    nothing: tuple[str, ...] = ()
    for token in tree.children:
        days += groups.get(str(token)) or reader.read(token, _day, nothing)
    return checked_days(days)


def _day(text: str) -> tuple[str, ...]:
    checked_days([text])
    return (text,)


def _guard(tree: Any, rule: RuleParts, reader: ClauseReader) -> None:
    (way,) = tree.children[0].children
    seconds = _seconds(tree, reader, first=1)
    if reader.is_right:
        guard = Guard(Direction(str(way)), seconds)
        _add(reader, way, lambda: rule.guard(checked_guard(guard), reader.place(way)))


def _seconds(tree: Any, reader: ClauseReader, first: int = 0) -> float:
    number, unit = tree.children[first : first + 2]
    try:
        return seconds_in(str(number), str(unit))
    except RuleError as fault:
        reader.wrong(fault, unit if "unit of time" in fault.message else number)
        return 0.0


def _add(reader: ClauseReader, token: Token, add: Callable[[], None]) -> None:
    try:
        add()
    except RuleError as fault:
        reader.wrong(fault, token)


READERS: dict[str, Callable[[Any, RuleParts, ClauseReader], None]] = {
    "header": _header,
    "scale": _scale,
    "keep": _keep,
    "when_metric": _when_metric,
    "when_time": lambda tree, rule, reader: _time(tree, rule, reader, is_unless=False),
    "unless_time": lambda tree, rule, reader: _time(tree, rule, reader, is_unless=True),
    "guard": _guard,
}
