# SPDX-License-Identifier: Apache-2.0
"""Rules as text, the way `penstock.rules.text` reads them back exactly."""

from __future__ import annotations

import re
from collections.abc import Iterable

from penstock.metrics import METRICS
from penstock.rules.checks import WEEKDAYS_ONLY, WEEKENDS
from penstock.rules.nodes import (
    ALL_OPERATORS,
    Direction,
    Guard,
    Keep,
    MetricTrigger,
    Quantity,
    Rule,
    Scale,
    TimeTrigger,
)
from penstock.rules.numbers import clock_text, duration_text, number_text, percent_text

RESERVED = frozenset({
    "rule", "scale-out", "scale-in", "scale-up", "scale-down", "by", "never", "above", "below", "keep", "at", "least",
    "most", "cpu", "when", "in", "for", "time", "unless", "between", "outside", "and", "on", "within",
})  # fmt: skip
"""Words of the language: an operator that is called so stands in quotes."""

_BARE = re.compile(r"[^\W\d][\w./+-]*")
_TAKEN = re.compile(r"(?:x|p)[0-9].*|mean|max|min")


def to_text(rules: Iterable[Rule]) -> str:
    """All rules, with an empty line between them."""
    return "\n".join(_rule(rule) for rule in rules)


def _rule(rule: Rule) -> str:
    lines = [f"rule {quoted(rule.name)}:", f"  {action_text(rule.operator, rule.action)}"]
    lines += [f"  {trigger_text(trigger)}" for trigger in rule.triggers]
    lines += [f"  {guard_text(guard)}" for guard in rule.guards]
    return "\n".join(lines) + "\n"


def quoted(text: str) -> str:
    """Text in quotes, as a rule's name stands."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def name_text(name: str) -> str:
    """A name, in quotes where it needs them."""
    is_plain = _BARE.fullmatch(name) and name not in RESERVED and not _TAKEN.fullmatch(name)
    return name if is_plain or name == ALL_OPERATORS else quoted(name)


def action_text(operator: str, action: Scale | Keep) -> str:
    """What a rule does."""
    if isinstance(action, Keep):
        bound = str(action.executors) if action.cpu_share is None else f"{percent_text(action.cpu_share)} cpu"
        return f"keep {name_text(operator)} {action.side} {bound}"
    text = f"{action.direction} {name_text(operator)} by {quantity_text(action.direction, action.amount)}"
    if action.limit is None:
        return text
    side = "above" if action.direction.is_growth else "below"
    return f"{text} never {side} {quantity_text(action.direction, action.limit)}"


def quantity_text(direction: Direction, quantity: Quantity) -> str:
    """An amount or a limit."""
    if quantity.is_relative:
        return f"x{number_text(quantity.value)}"
    return number_text(quantity.value) if direction.is_horizontal else percent_text(quantity.value)


def value_text(metric: str, value: float) -> str:
    """What a metric is compared with."""
    return percent_text(value) if METRICS[metric].unit == "fraction" else number_text(value)


def trigger_text(trigger: MetricTrigger | TimeTrigger) -> str:
    """When a rule fires."""
    if isinstance(trigger, TimeTrigger):
        return f"{'unless' if trigger.is_outside else 'when'} time {period_text(trigger)}"
    parts = [
        f"when {trigger.metric}",
        trigger.statistic or "",
        f"in {duration_text(trigger.ahead_seconds)}" if trigger.ahead_seconds is not None else "",
        f"{trigger.comparison} {value_text(trigger.metric, trigger.value)}",
        f"for {duration_text(trigger.for_seconds)}" if trigger.for_seconds else "",
    ]
    return " ".join(part for part in parts if part)


def period_text(trigger: TimeTrigger) -> str:
    """A period of the day and the week."""
    days = {WEEKDAYS_ONLY: "weekdays", WEEKENDS: "weekends"}.get(trigger.days, ", ".join(trigger.days))
    is_whole_day = trigger.start == trigger.end == 0 and trigger.days
    parts = [
        "" if is_whole_day else f"between {clock_text(trigger.start)} and {clock_text(trigger.end)}",
        f"on {days}" if days else "",
        "" if trigger.zone == "UTC" else f"in {name_text(trigger.zone)}",
    ]
    return " ".join(part for part in parts if part)


def guard_text(guard: Guard) -> str:
    """When a rule does nothing."""
    return f"unless {guard.after} within {duration_text(guard.seconds)}"
