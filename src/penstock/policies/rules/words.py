# SPDX-License-Identifier: Apache-2.0
"""Triggers and actions as decisions name them."""

from __future__ import annotations

from penstock.rules.nodes import Keep, MetricTrigger, Quantity, Rule, Scale, TimeTrigger
from penstock.units import format_count, format_seconds


def trigger_text(trigger: MetricTrigger | TimeTrigger) -> str:
    """A trigger in a few words.

    Examples
    --------
    >>> from penstock.rules.nodes import Comparison
    >>> trigger_text(MetricTrigger("queue_length", Comparison.ABOVE, 300, for_seconds=30))
    'queue_length above 300 for 30.0 s'
    """
    if isinstance(trigger, TimeTrigger):
        where = "outside" if trigger.is_outside else "inside"
        days = f" {', '.join(trigger.days)}" if trigger.days else ""
        return f"{where} {_clock(trigger.start)} to {_clock(trigger.end)}{days} ({trigger.zone})"
    statistic = "" if trigger.statistic is None else f"{trigger.statistic} of "
    ahead = "" if trigger.ahead_seconds is None else f" forecast {format_seconds(trigger.ahead_seconds)} ahead"
    lasting = "" if trigger.for_seconds == 0.0 else f" for {format_seconds(trigger.for_seconds)}"
    return f"{statistic}{trigger.metric}{ahead} {trigger.comparison.value} {_number(trigger.value)}{lasting}"


def action_text(action: Scale | Keep) -> str:
    """An action in a few words.

    Examples
    --------
    >>> from penstock.rules.nodes import Side
    >>> action_text(Keep(Side.LEAST, executors=3))
    'at least 3 executors'
    """
    if isinstance(action, Keep):
        what = f"{action.executors} executors" if action.cpu_share is None else f"{action.cpu_share:.0%} CPU"
        return f"{action.side.value} {what}"
    return f"{action.direction.value} by {_quantity(action.amount, is_share=not action.direction.is_horizontal)}"


def rule_text(rule: Rule) -> str:
    """A rule by its name, as decisions and amendments call it."""
    return f"rule {rule.name!r}"


def _quantity(quantity: Quantity, *, is_share: bool) -> str:
    if quantity.is_relative:
        return f"{quantity.value:g} times"
    return f"{quantity.value:.0%}" if is_share else f"{quantity.value:g}"


def _number(value: float) -> str:
    return format_count(value) if value == int(value) else f"{value:g}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"
