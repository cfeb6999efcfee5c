# SPDX-License-Identifier: Apache-2.0
"""The rules of a pipeline, routed to its operators, and which of them hold now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.errors import ConfigurationError, RuleError
from penstock.metrics import metric_named
from penstock.policies.rules.evaluation import Evidence, HeldRule
from penstock.policies.rules.past import Past
from penstock.policies.rules.readings import Series, Window, reach, statistic_of, window_held
from penstock.policies.rules.words import does_text, rule_text, triggers_text
from penstock.ports import Look, PolicyContext
from penstock.records import PlanRequest
from penstock.rules import check_operators
from penstock.rules.checks import checked_zone
from penstock.rules.nodes import ALL_OPERATORS, MetricTrigger, Rule, TimeTrigger
from penstock.rules.periods import holds

_METRICS_SHOWN = 8


if TYPE_CHECKING:
    from penstock.policies.rules.forecasts import Forecasts


class RuleBook:
    """Rules by operator, and for each request those that hold.

    A rule for all operators holds for each of them by itself.

    Parameters
    ----------
    rules
        In the order in which they were written.
    context
        The pipeline.

    Raises
    ------
    ConfigurationError
        With every fault: an operator, a metric or a time zone that is not known.
    """

    def __init__(self, rules: Sequence[Rule], context: PolicyContext) -> None:
        faults = [fault for rule in rules for fault in _faults(rule)]
        try:
            check_operators(rules, context.operators)
        except RuleError as fault:
            faults += fault.faults
        if faults:
            raise ConfigurationError.of_all("rules", faults)
        self.rules = tuple(_with_names_of_today(rule) for rule in rules)
        self._interval = context.interval_seconds
        wildcard = ALL_OPERATORS
        self._of_all = tuple(rule for rule in self.rules if rule.operator == wildcard)
        named: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            if rule.operator != wildcard:
                named.setdefault(rule.operator, []).append(number)
        everywhere = [number for number, rule in enumerate(self.rules) if rule.operator == wildcard]
        self._routes = {
            operator: tuple(self.rules[number] for number in sorted([*numbers, *everywhere]))
            for operator, numbers in named.items()
        }
        self._texts = {rule.name: (does_text(rule), triggers_text(rule)) for rule in self.rules}
        self._pasts: dict[str, Past] = {}
        self._shown: dict[str, tuple[str, ...]] = {}
        self._forecasts: dict[str, Forecasts | None] = {}

    @property
    def history_seconds(self) -> float:
        """How far back readings are needed: the longest time of all triggers."""
        times = [t.for_seconds for rule in self.rules for t in rule.triggers if isinstance(t, MetricTrigger)]
        return reach(max(times), self._interval) if times else 0.0

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that its triggers name."""
        return frozenset(t.metric for rule in self.rules for t in rule.triggers if isinstance(t, MetricTrigger))

    @property
    def changes_seconds(self) -> float:
        """How far back changes are needed: the longest guard time."""
        return max((guard.seconds for rule in self.rules for guard in rule.guards), default=0.0)

    def rules_of(self, operator: str) -> tuple[Rule, ...]:
        """The rules that an operator has, its own and those of all, as they were written."""
        return self._routes.get(operator, self._of_all)

    def watch(self, look: Look) -> None:
        """Learn from a look, where a rule asks for a forecast."""
        forecasts = self._forecasts_of(look.operator)
        if forecasts is not None:
            forecasts.add(look.observation)

    def held(self, request: PlanRequest) -> list[HeldRule]:
        """The operator's rules all of whose triggers hold now."""
        rules = self.rules_of(request.operator)
        if not rules:
            return []
        past = self._pasts.get(request.operator)
        if past is None:
            past = self._pasts[request.operator] = Past(self._metrics_of(request.operator))
        past.follow(request)
        found = [self._held(rule, request, past) for rule in rules]
        return [one for one in found if one is not None]

    def evidence(self, request: PlanRequest) -> Evidence:
        """The newest readings of the metrics that the operator's rules name."""
        metrics = self._shown.get(request.operator)
        if metrics is None:
            named = dict.fromkeys(
                t.metric
                for rule in self.rules_of(request.operator)
                for t in rule.triggers
                if isinstance(t, MetricTrigger)
            )
            metrics = self._shown[request.operator] = tuple(named)[:_METRICS_SHOWN]
        return {metric: metric_named(metric).read(request.observation) for metric in metrics}

    def _metrics_of(self, operator: str) -> dict[str, float]:
        """By metric, how far back the operator's rules need its readings."""
        back: dict[str, float] = {}
        for rule in self.rules_of(operator):
            for trigger in rule.triggers:
                if isinstance(trigger, MetricTrigger) and trigger.ahead_seconds is None:
                    needed = reach(trigger.for_seconds, self._interval)
                    back[trigger.metric] = max(back.get(trigger.metric, 0.0), needed)
        return back

    def _held(self, rule: Rule, request: PlanRequest, past: Past) -> HeldRule | None:
        windows: list[tuple[str, Window]] = []
        for trigger in rule.triggers:
            if isinstance(trigger, TimeTrigger):
                if not holds(trigger, datetime.fromtimestamp(request.at, UTC)):
                    return None
                continue
            series = self._series(trigger, request.operator, past)
            window = window_held(trigger, series, request.observation.at, self._interval)
            if window is None:
                return None
            windows.append((trigger.metric, window))
        return HeldRule(
            rule,
            *self._texts[rule.name],
            "; ".join(f"{metric}: {window}" for metric, window in windows) or "none needed",
            max((window.seconds for _, window in windows), default=0.0),
        )

    def _series(self, trigger: MetricTrigger, operator: str, past: Past) -> Series:
        if trigger.ahead_seconds is None:
            return past.series[trigger.metric]
        forecasts = self._forecasts_of(operator)
        assert forecasts is not None  # this trigger is one of those that it is made for
        return forecasts.series(trigger)

    def _forecasts_of(self, operator: str) -> Forecasts | None:
        if operator not in self._forecasts:
            ahead = [
                trigger
                for rule in self.rules_of(operator)
                for trigger in rule.triggers
                if isinstance(trigger, MetricTrigger) and trigger.ahead_seconds is not None
            ]
            self._forecasts[operator] = self._new_forecasts(ahead) if ahead else None
        return self._forecasts[operator]

    def _new_forecasts(self, ahead: Sequence[MetricTrigger]) -> Forecasts:
        from penstock.policies.rules.forecasts import Forecasts  # late: most rules look at what is, not at what comes

        return Forecasts(ahead, self._interval, turn=len(self._forecasts))


def _with_names_of_today(rule: Rule) -> Rule:
    """The rule with each metric by the name that it has now."""
    triggers = tuple(
        replace(t, metric=metric_named(t.metric).name) if isinstance(t, MetricTrigger) else t for t in rule.triggers
    )
    return rule if triggers == rule.triggers else replace(rule, triggers=triggers)


def _faults(rule: Rule) -> list[str]:
    """What cannot be evaluated; the language refuses it already, but rules may also be built by hand."""
    faults: list[str] = []
    for trigger in rule.triggers:
        try:
            if isinstance(trigger, TimeTrigger):
                checked_zone(trigger.zone)
                continue
            metric_named(trigger.metric)
            if trigger.statistic is not None:
                statistic_of([0.0], trigger.statistic)
        except ConfigurationError as fault:
            faults.append(f"{rule_text(rule)}: {fault}")
    return faults
