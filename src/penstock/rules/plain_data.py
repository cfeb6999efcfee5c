# SPDX-License-Identifier: Apache-2.0
"""Rules as plain data: mappings, lists, text and numbers, as JSON and YAML carry them.

A rule as data::

    {"name": "queue too long", "scale_out": "matcher", "by": 2, "never_above": 8,
     "when": [{"metric": "queue_length", "above": 300, "for": "30 seconds"}],
     "unless": [{"scale_out_within": "5 minutes"}]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from penstock.metrics import METRICS
from penstock.rules.checks import WEEKDAYS_ONLY, WEEKENDS
from penstock.rules.findings import Findings, Reading
from penstock.rules.nodes import Direction, Guard, Keep, MetricTrigger, Quantity, Rule, Scale, TimeTrigger
from penstock.rules.numbers import clock_text, duration_text, number_text, percent_text
from penstock.rules.plain_reader import Item, read_policy

_EXACT = 2.0**53


def to_plain(rules: Iterable[Rule]) -> dict[str, Any]:
    """All rules as plain data, the way `from_plain` reads them back exactly."""
    return {"rules": [_rule(rule) for rule in rules]}


def from_plain(data: object, source: str = "rules") -> tuple[Rule, ...]:
    """The rules in plain data: a mapping with `rules`, or the list of them.

    Raises
    ------
    RuleError
        With every mistake. Lines count rules: data have no others.
    """
    findings = Findings(source)
    place = findings.place(1, 1)
    return _read(_item(data, place, findings, is_top=True), findings).without_mistakes(source)


def _read(item: Item, findings: Findings) -> Reading:
    return findings.reading(read_policy(item, findings))


def _item(data: object, place: Any, findings: Findings, *, is_top: bool = False) -> Item:
    """Data with places: the n-th rule stands in line n."""
    if isinstance(data, Mapping):
        inner = {str(key): _item(value, place, findings, is_top=is_top) for key, value in data.items()}
        return Item(inner, place, dict.fromkeys(inner, place))
    if isinstance(data, (list, tuple)):
        places = [findings.place(i + 1, 1) if is_top else place for i in range(len(data))]
        return Item([_item(value, at, findings) for value, at in zip(data, places, strict=True)], place)
    if data is None:
        return Item("", place)
    if isinstance(data, float):
        return Item(number_text(data), place)
    return Item(str(data), place)


def _rule(rule: Rule) -> dict[str, Any]:
    found: dict[str, Any] = {"name": rule.name, **_action(rule.operator, rule.action)}
    if rule.triggers:
        found["when"] = [_trigger(trigger) for trigger in rule.triggers]
    if rule.guards:
        found["unless"] = [_guard(guard) for guard in rule.guards]
    return found


def _action(operator: str, action: Scale | Keep) -> dict[str, Any]:
    if isinstance(action, Keep):
        bound = action.executors if action.cpu_share is None else f"{percent_text(action.cpu_share)} cpu"
        return {"keep": operator, str(action.side).replace(" ", "_"): bound}
    found = {_key(action.direction): operator, "by": _quantity(action.direction, action.amount)}
    if action.limit is not None:
        side = "above" if action.direction.is_growth else "below"
        found[f"never_{side}"] = _quantity(action.direction, action.limit)
    return found


def _trigger(trigger: MetricTrigger | TimeTrigger) -> dict[str, Any]:
    if isinstance(trigger, TimeTrigger):
        return {"time": _period(trigger)}
    found: dict[str, Any] = {"metric": trigger.metric}
    if trigger.statistic is not None:
        found["statistic"] = trigger.statistic
    if trigger.ahead_seconds is not None:
        found["in"] = duration_text(trigger.ahead_seconds)
    is_fraction = METRICS[trigger.metric].unit == "fraction"
    found[str(trigger.comparison)] = percent_text(trigger.value) if is_fraction else _number(trigger.value)
    if trigger.for_seconds:
        found["for"] = duration_text(trigger.for_seconds)
    return found


def _period(trigger: TimeTrigger) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if trigger.start or trigger.end or not trigger.days or trigger.is_outside:
        within = "outside" if trigger.is_outside else "between"
        found[within] = [clock_text(trigger.start), clock_text(trigger.end)]
    if trigger.days:
        groups: dict[tuple[str, ...], str] = {WEEKDAYS_ONLY: "weekdays", WEEKENDS: "weekends"}
        found["days"] = groups.get(trigger.days, list(trigger.days))
    if trigger.zone != "UTC":
        found["zone"] = trigger.zone
    return found


def _guard(guard: Guard) -> dict[str, Any]:
    return {f"{_key(guard.after)}_within": duration_text(guard.seconds)}


def _quantity(direction: Direction, quantity: Quantity) -> Any:
    if quantity.is_relative:
        return f"x{number_text(quantity.value)}"
    return _number(quantity.value) if direction.is_horizontal else percent_text(quantity.value)


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


def _key(direction: Direction) -> str:
    return str(direction).replace("-", "_")
