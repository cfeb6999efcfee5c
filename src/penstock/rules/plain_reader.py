# SPDX-License-Identifier: Apache-2.0
"""Reads rules out of plain data whose every value knows its place, so that every mistake has a line and a column."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

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
from penstock.rules.nodes import (
    Comparison,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Place,
    Quantity,
    Rule,
    Scale,
    Side,
    TimeTrigger,
)
from penstock.rules.numbers import read_clock, read_duration, read_number
from penstock.rules.rule_parts import RuleParts, finished_rules

T = TypeVar("T")

_DIRECTIONS = {str(direction).replace("-", "_"): direction for direction in Direction}
_ACTIONS = (*_DIRECTIONS, "keep")
_OF_SCALE, _OF_KEEP = ("by", "never_above", "never_below"), ("at_least", "at_most")
_RULE = ("name", *_ACTIONS, *_OF_SCALE, *_OF_KEEP, "when", "unless")
_METRIC = ("metric", "statistic", "in", "above", "below", "for")
_TIME = ("between", "outside", "days", "zone")
_GUARDS = {f"{name}_within": direction for name, direction in _DIRECTIONS.items()}


@dataclass(frozen=True, slots=True)
class Item:
    """A value and where it stands: text (a number as it is written), a list, or a mapping with its keys' places."""

    value: str | list[Item] | dict[str, Item]
    place: Place
    keys: dict[str, Place] = field(default_factory=dict)


def read_policy(item: Item, findings: Findings) -> list[Rule]:
    """The rules of a mapping with `rules`, or of a list; mistakes go to `findings`."""
    if isinstance(item.value, dict):
        for key in item.value:
            if key != "rules":
                findings.add(f"`{key}` is not known here; a file of rules has `rules:` alone", item.keys[key])
        if not item.value:
            findings.add("`rules:` is missing; write it with a list of rules below it", item.place)
        item = item.value.get("rules", Item([], item.place))
    if item.value == "":
        return []
    if not isinstance(item.value, list):
        findings.add("write a list of rules, each beginning with `- name:`", item.place)
        return []
    parts = [_RuleReader(entry, findings).read() for entry in item.value]
    return finished_rules(parts, findings)


class _RuleReader:
    """Reads one rule. A wrong part is reported at its own place."""

    def __init__(self, item: Item, findings: Findings) -> None:
        self._item, self._findings = item, findings
        self._parts = RuleParts(item.place)

    def read(self) -> RuleParts:
        """The parts that are right."""
        fields = self._fields(self._item, _RULE, "a rule", "a mapping with `name:`, such as {name: calm, ...}")
        if fields is None:
            return self._parts
        if "name" in fields:
            self._parts.name = self._take(fields["name"], checked_name)
        else:
            self._wrong("`name:` is missing; give the rule a name", self._item.place)
        self._read_action(fields)
        for entry in self._entries(fields.get("when")):
            self._read_trigger(entry)
        for entry in self._entries(fields.get("unless")):
            self._read_unless(entry)
        return self._parts

    def _read_action(self, fields: dict[str, Item]) -> None:
        actions = [name for name in _ACTIONS if name in fields]
        for name in actions[1:]:
            self._wrong("the rule says twice what it does; write one rule for each action", self._item.keys[name])
        if not actions:
            self._wrong(
                "the rule does not say what it does; add `scale_out: matcher`, `scale_in:`, `scale_up:`, "
                "`scale_down:` or `keep:`",
                self._item.place,
            )
            return
        foreign = _OF_SCALE if actions[0] == "keep" else _OF_KEEP
        for name in foreign:
            if name in fields:
                fits = ", ".join(_OF_KEEP if actions[0] == "keep" else _OF_SCALE)
                self._wrong(f"`{name}` does not fit to `{actions[0]}`; it takes {fits}", self._item.keys[name])
        operator = self._take(fields[actions[0]], checked_operator)
        if actions[0] == "keep":
            self._read_keep(fields, operator)
        else:
            self._read_scale(_DIRECTIONS[actions[0]], fields, operator)

    def _read_scale(self, direction: Direction, fields: dict[str, Item], operator: str | None) -> None:
        if "by" not in fields:
            self._wrong("`by:` is missing; add `by: 2` or `by: x2`", self._item.place)
            return
        amount = self._take(fields["by"], lambda text: amount_of(direction, read_number(text)))
        limit, is_limited = None, [side for side in ("above", "below") if f"never_{side}" in fields]
        for side in is_limited:
            limit = self._take(fields[f"never_{side}"], _limit_on(direction, side))
        if operator is not None and amount is not None and (limit is not None or not is_limited):
            self._parts.act(operator, Scale(direction, amount, limit), self._item.place)

    def _read_keep(self, fields: dict[str, Item], operator: str | None) -> None:
        sides = [side for side in Side if str(side).replace(" ", "_") in fields]
        if len(sides) != 1:
            self._wrong("give `keep` one of `at_least: 3` and `at_most: 50% cpu`", self._item.place)
            return
        item = fields[str(sides[0]).replace(" ", "_")]

        def bound(text: str) -> Keep:
            number, _, cpu = text.partition(" ")
            if cpu.strip() not in ("", "cpu"):
                raise RuleError(f"{cpu!r} is not known here; write `3`, or `50% cpu`")
            return keep_of(sides[0], read_number(number), is_cpu=bool(cpu))

        action = self._take(item, bound)
        if operator is not None and action is not None:
            self._parts.act(operator, action, item.place)

    def _read_trigger(self, entry: Item) -> None:
        if isinstance(entry.value, dict) and "time" in entry.value:
            self._read_time(entry, is_unless=False)
            return
        fields = self._fields(entry, _METRIC, "a trigger", "{metric: queue_length, above: 300, for: 30 seconds}")
        if fields is None:
            return
        if "metric" not in fields:
            self._wrong("`metric:` or `time:` is missing; write {metric: queue_length, above: 300}", entry.place)
            return
        sides = [side for side in Comparison if str(side) in fields]
        if len(sides) != 1:
            self._wrong("give a metric one of `above: 300` and `below: 1`", entry.place)
            return
        metric = self._take(fields["metric"], checked_metric)
        statistic = self._take(fields["statistic"], checked_statistic) if "statistic" in fields else None
        ahead = self._take(fields["in"], read_duration) if "in" in fields else None
        lasts = self._take(fields["for"], read_duration) if "for" in fields else 0.0
        value = None
        if metric is not None:
            value = self._take(fields[str(sides[0])], lambda text: value_of(metric, read_number(text)))
        if metric is None or value is None or lasts is None:
            return
        if (statistic is None and "statistic" in fields) or (ahead is None and "in" in fields):
            return
        trigger = MetricTrigger(metric, sides[0], value, lasts, statistic, ahead)
        try:
            self._parts.triggers.append(checked_trigger(trigger))
        except RuleError as fault:
            self._wrong(fault, entry.place)

    def _read_unless(self, entry: Item) -> None:
        if isinstance(entry.value, dict) and "time" in entry.value:
            self._read_time(entry, is_unless=True)
            return
        fields = self._fields(entry, tuple(_GUARDS), "`unless`", "{scale_out_within: 5 minutes}")
        for key, item in (fields or {}).items():
            seconds = self._take(item, read_duration)
            if seconds is not None:
                try:
                    self._parts.guard(checked_guard(Guard(_GUARDS[key], seconds)), entry.keys[key])
                except RuleError as fault:
                    self._wrong(fault, item.place)

    def _read_time(self, entry: Item, *, is_unless: bool) -> None:
        outer = self._fields(entry, ("time",), "a time", "{time: {between: ['08:00', '18:00']}}")
        fields = None if outer is None else self._fields(
            outer["time"], _TIME, "`time`", '{between: ["08:00", "18:00"], days: weekdays, zone: Europe/Zurich}'
        )  # fmt: skip
        if fields is None:
            return
        withins = [name for name in ("between", "outside") if name in fields]
        if len(withins) == 2 or (is_unless and "outside" in withins):
            self._wrong("`outside` turns `between` round; write one of them, and no `outside` in `unless`", entry.place)
            return
        start = end = 0
        for name in withins:
            clocks = fields[name].value
            if not isinstance(clocks, list) or len(clocks) != 2:
                self._wrong(f'write two times of day: {name}: ["08:00", "18:00"]', fields[name].place)
                return
            first, last = (self._take(clock, read_clock) for clock in clocks)
            if first is None or last is None:
                return
            start, end = first, last
        days = self._days(fields["days"]) if "days" in fields else ()
        zone = self._take(fields["zone"], checked_zone) if "zone" in fields else "UTC"
        if days is not None and zone is not None:
            self._parts.triggers.append(TimeTrigger(start, end, days, zone, is_unless or "outside" in withins))

    def _days(self, item: Item) -> tuple[str, ...] | None:
        groups: dict[str, tuple[str, ...]] = {"weekdays": WEEKDAYS_ONLY, "weekends": WEEKENDS}
        days: list[str] = []
        is_right = True
        for entry in item.value if isinstance(item.value, list) else [item]:
            found = self._take(entry, lambda text: groups.get(text) or _day(text))
            is_right &= found is not None
            days += found or ()
        if is_right and not days:
            self._wrong("say which days, such as [monday, friday] or weekdays", item.place)
            return None
        return checked_days(days) if is_right else None

    def _fields(self, item: Item, known: Sequence[str], what: str, example: str) -> dict[str, Item] | None:
        """The fields of a mapping; unknown ones are reported."""
        if not isinstance(item.value, dict) or not item.value:
            self._wrong(f"{what} is written as {example}", item.place)
            return None
        for key in item.value:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                meant = f"did you mean `{near[0]}`?" if near else f"known here: {', '.join(known)}"
                self._wrong(f"`{key[:40]}` is not known in {what}; {meant}", item.keys[key])
        return {key: value for key, value in item.value.items() if key in known}

    def _entries(self, item: Item | None) -> list[Item]:
        if item is None or item.value == "":
            return []
        return item.value if isinstance(item.value, list) else [item]

    def _take(self, item: Item, take: Callable[[str], T]) -> T | None:
        """What `take` makes of a text; None after a mistake."""
        try:
            if not isinstance(item.value, str):
                raise RuleError("write text or a number here, not a list or a mapping")
            return take(item.value)
        except RuleError as fault:
            self._wrong(fault, item.place)
            return None

    def _wrong(self, fault: RuleError | str, place: Place) -> None:
        self._parts.mistake(fault, place, self._findings)


def _day(text: str) -> tuple[str, ...]:
    checked_days([text])
    return (text,)


def _limit_on(direction: Direction, side: str) -> Callable[[str], Quantity]:
    return lambda text: limit_of(direction, side, read_number(text))
