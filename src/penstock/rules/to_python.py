# SPDX-License-Identifier: Apache-2.0
"""Rules as the Python code that builds them."""

from __future__ import annotations

import json
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
from penstock.rules.numbers import clock_text, duration_parts, number_text, percent_digits, percent_of


def to_python(rules: Iterable[Rule], name: str = "policy") -> str:
    """A module that gives the rules as a list called `name`."""
    chains = "".join(f"    {rule_in_python(rule, chr(10) + ' ' * 8)},\n" for rule in rules)
    names = "every_operator, hours, metric, minutes, percent, rule, seconds, time, times"
    return f"from penstock.rules import {names}\n\n{name} = [\n{chains}]\n"


def rule_in_python(rule: Rule, between: str = "") -> str:
    """The chain that builds one rule; `between` stands before each of its parts."""
    steps = [f"rule({_text(rule.name)})", *_action(rule.operator, rule.action)]
    for trigger in rule.triggers:
        if isinstance(trigger, TimeTrigger):
            steps.append(f".when({_period(trigger)})")
            continue
        lasts = f".for_at_least({duration_in_python(trigger.for_seconds)})" if trigger.for_seconds else ""
        steps.append(f".when({_comparison(trigger)}){lasts}")
    steps += [_guard(guard) for guard in rule.guards]
    return between.join(steps)


def condition_in_python(trigger: MetricTrigger | TimeTrigger) -> str:
    """The condition of one trigger, with its time."""
    if isinstance(trigger, TimeTrigger):
        return _period(trigger)
    if not trigger.for_seconds:
        return _comparison(trigger)
    return f"({_comparison(trigger)}).for_at_least({duration_in_python(trigger.for_seconds)})"


def reading_in_python(metric: str, statistic: str | None, ahead_seconds: float | None) -> str:
    """A metric with its statistic and how far ahead it is forecast."""
    taken = ""
    if statistic is not None:
        rank = statistic.removeprefix("p")
        taken = f".percentile({rank})" if not statistic.isalnum() else f".{statistic}"
    ahead = "" if ahead_seconds is None else f".in_({duration_in_python(ahead_seconds)})"
    return f"metric({_text(metric)}){taken}{ahead}"


def duration_in_python(time_seconds: float) -> str:
    """A length of time."""
    number, unit = duration_parts(time_seconds)
    return f"{unit}({number})"


def _action(operator: str, action: Scale | Keep) -> list[str]:
    name = "every_operator" if operator == ALL_OPERATORS else _text(operator)
    if isinstance(action, Keep):
        bound = str(action.executors) if action.cpu_share is None else _percent(action.cpu_share)
        return [f".keep({name}).{str(action.side).replace(' ', '_')}({bound})"]
    steps = f".{_method(action.direction)}({name}).by({_quantity(action.direction, action.amount)})"
    if action.limit is not None:
        side = "above" if action.direction.is_growth else "below"
        steps += f".but_never_{side}({_quantity(action.direction, action.limit)})"
    return [steps]


def _comparison(trigger: MetricTrigger) -> str:
    reading = reading_in_python(trigger.metric, trigger.statistic, trigger.ahead_seconds)
    is_fraction = METRICS[trigger.metric].unit == "fraction"
    value = _percent(trigger.value) if is_fraction else number_text(trigger.value)
    return f"{reading} {'>' if trigger.comparison == 'above' else '<'} {value}"


def _period(trigger: TimeTrigger) -> str:
    is_whole_day = trigger.start == trigger.end == 0 and trigger.days
    text = "time" if is_whole_day else f'time.between("{clock_text(trigger.start)}", "{clock_text(trigger.end)}")'
    named = {WEEKDAYS_ONLY: ".on_weekdays()", WEEKENDS: ".on_weekends()", (): ""}
    text += named.get(trigger.days, f".on({', '.join(_text(day) for day in trigger.days)})")
    text += "" if trigger.zone == "UTC" else f".in_zone({_text(trigger.zone)})"
    return f"~{text}" if trigger.is_outside else text


def _guard(guard: Guard) -> str:
    return f".with_no_{_method(guard.after)}_since({duration_in_python(guard.seconds)})"


def _method(direction: Direction) -> str:
    return str(direction).replace("-", "_")


def _quantity(direction: Direction, quantity: Quantity) -> str:
    if quantity.is_relative:
        return f"times({number_text(quantity.value)})"
    return number_text(quantity.value) if direction.is_horizontal else _percent(quantity.value)


def _percent(fraction: float) -> str:
    digits = percent_digits(fraction)
    # A percentage of 17 digits may be no float of its own; the fraction is one always.
    is_exact = percent_of(number_text(float(digits))).value == fraction
    return f"percent({digits})" if is_exact else number_text(fraction)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # names are printable, so this is a Python literal as well
