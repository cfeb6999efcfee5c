# SPDX-License-Identifier: Apache-2.0
"""Rules in plain words, one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.metrics import METRICS
from penstock.rules.checks import WEEKDAYS_ONLY, WEEKENDS
from penstock.rules.nodes import (
    ALL_OPERATORS,
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
from penstock.rules.numbers import clock_text, duration_text, number_text, percent_text

_SCALED = {
    Direction.OUT: "scaled out",
    Direction.IN: "scaled in",
    Direction.UP: "scaled up",
    Direction.DOWN: "scaled down",
}


def explain(rules: Sequence[Rule]) -> str:
    """A policy in plain words: one paragraph for each rule."""
    if not rules:
        return "There is no rule: every operator keeps what it has.\n"
    return "\n\n".join(f"{rule.name}\n  {in_words(rule)}" for rule in rules) + "\n"


def in_words(rule: Rule) -> str:
    """One rule as a sentence, without its name.

    Examples
    --------
    >>> from penstock.rules.text import parse_text
    >>> (low,) = parse_text('rule "low": keep matcher at least 3 when time between 08:00 and 18:00').rules
    >>> in_words(low)
    'Keeps at least 3 executors for matcher while the time is between 08:00 and 18:00 (UTC).'
    """
    whom = "every operator" if rule.operator == ALL_OPERATORS else rule.operator
    text = _keep(rule.action, whom) if isinstance(rule.action, Keep) else _scale(rule.action, whom)
    if rule.triggers:
        word = "while" if isinstance(rule.action, Keep) else "when"
        text += f" {word} {' and '.join(_trigger(trigger) for trigger in rule.triggers)}"
    elif isinstance(rule.action, Keep):
        text += " at all times"
    if rule.guards:
        text += f", unless it was {' or '.join(_guard(guard) for guard in rule.guards)}"
    return f"{text}."


def _scale(action: Scale, whom: str) -> str:
    amount, direction = action.amount, action.direction
    if direction.is_horizontal:
        if amount.is_relative:
            does = _multiplies(direction, amount.value, f"the executors of {whom}")
        else:
            count = _executors(amount.value)
            does = f"Adds {count} to {whom}" if direction.is_growth else f"Takes {count} from {whom}"
    elif amount.is_relative:
        does = _multiplies(direction, amount.value, f"the CPU share of {whom}")
    else:
        does = (
            f"{'Raises' if direction.is_growth else 'Lowers'} the CPU share of {whom} by {percent_text(amount.value)}"
        )
    return f"{does}{_limit(direction, action.limit)},"


def _multiplies(direction: Direction, factor: float, what: str) -> str:
    if factor == 2.0:
        return f"{'Doubles' if direction.is_growth else 'Halves'} {what}"
    return f"{'Multiplies' if direction.is_growth else 'Divides'} {what} by {number_text(factor)}"


def _limit(direction: Direction, limit: Quantity | None) -> str:
    if limit is None:
        default = {Direction.IN: ", down to 1", Direction.UP: ", up to 100%"}
        return default.get(direction, "")
    way = "up to" if direction.is_growth else "down to"
    if limit.is_relative:
        return f", {way} {number_text(limit.value)} times its original size"
    return f", {way} {number_text(limit.value) if direction.is_horizontal else percent_text(limit.value)}"


def _keep(action: Keep, whom: str) -> str:
    side = "at least" if action.side is Side.LEAST else "at most"
    if action.cpu_share is not None:
        return f"Keeps the CPU share of {whom} {side} {percent_text(action.cpu_share)}"
    return f"Keeps {side} {_executors(float(action.executors or 0))} for {whom}"


def _executors(count: float) -> str:
    return "1 executor" if count == 1.0 else f"{number_text(count)} executors"


def _trigger(trigger: MetricTrigger | TimeTrigger) -> str:
    if isinstance(trigger, TimeTrigger):
        return f"the time is {'not ' if trigger.is_outside else ''}{_period(trigger)}"
    unit = METRICS[trigger.metric].unit
    unit = unit.removesuffix("s") if trigger.value == 1.0 and len(unit) > 1 and "/" not in unit else unit
    value = percent_text(trigger.value) if unit == "fraction" else f"{number_text(trigger.value)} {unit}"
    side = "above" if trigger.comparison is Comparison.ABOVE else "below"
    subject = trigger.metric
    if trigger.ahead_seconds is not None:
        subject = f"the forecast of {subject} in {duration_text(trigger.ahead_seconds)}"
    if trigger.statistic is not None:
        return f"the {trigger.statistic} of {subject} over {duration_text(trigger.for_seconds)} is {side} {value}"
    if trigger.for_seconds:
        return f"{subject} has been {side} {value} for {duration_text(trigger.for_seconds)}"
    return f"{subject} is {side} {value}"


def _period(trigger: TimeTrigger) -> str:
    groups: dict[tuple[str, ...], str] = {WEEKDAYS_ONLY: "Monday to Friday", WEEKENDS: "Saturday or Sunday", (): ""}
    days = groups.get(trigger.days, " or ".join(day.capitalize() for day in trigger.days))
    hours = f"between {clock_text(trigger.start)} and {clock_text(trigger.end)}"
    if trigger.start == trigger.end == 0 and trigger.days:
        hours = ""
    elif trigger.end <= trigger.start:
        hours += " of the next day"
    on = f"on {days}" if days else ""
    return f"{' '.join(part for part in (hours, on) if part)} ({trigger.zone})"


def _guard(guard: Guard) -> str:
    return f"{_SCALED[guard.after]} within the last {duration_text(guard.seconds)}"
