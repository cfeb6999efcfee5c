# SPDX-License-Identifier: Apache-2.0
"""Ranges of a metric's values, and whether triggers on one metric certainly contradict each other.

A series is a metric as it is read, or as it is forecast so far ahead. Triggers on different series never contradict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.metrics import METRICS
from penstock.rules.nodes import Comparison, MetricTrigger

Series = tuple[str, float | None]
"""A metric, and how many seconds ahead it is forecast; None: as it is read."""

_RISING = tuple(
    tuple(f"{prefix}_{percentile}" for percentile in ("p50", "p95", "p99")) for prefix in ("latency", "path_latency")
)
"""Metrics of which each is at least as large as the one before it."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Values between `low` and `high`, which belong to it if they are closed."""

    low: float
    high: float
    is_low_closed: bool = False
    is_high_closed: bool = False
    is_whole: bool = False
    """Whether only whole numbers count."""

    def __and__(self, other: Interval) -> Interval:
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Interval(
            low,
            high,
            all(i.is_low_closed for i in (self, other) if i.low == low),
            all(i.is_high_closed for i in (self, other) if i.high == high),
            self.is_whole or other.is_whole,
        )

    def pick(self) -> float | None:
        """A plain value inside; None where there is none."""
        middle = (self.low + self.high) / 2 if math.isfinite(self.high) else self.low + 1
        tries = [self.low, math.floor(self.low) + 1.0, float(f"{middle:.2g}"), middle, self.low * 2.0, self.high]
        return next((value for value in tries if value in self and (not self.is_whole or value.is_integer())), None)

    def __contains__(self, value: float) -> bool:
        above = value > self.low or (self.is_low_closed and value == self.low)
        below = value < self.high or (self.is_high_closed and value == self.high)
        return above and below and math.isfinite(value)


def domain(metric: str) -> Interval:
    """The values that a metric can have."""
    if METRICS[metric].unit == "fraction":
        return Interval(0.0, 1.0, is_low_closed=True, is_high_closed=True)
    if metric == "executors":
        return Interval(1.0, math.inf, is_low_closed=True, is_whole=True)
    return Interval(0.0, math.inf, is_low_closed=True)


def beyond(trigger: MetricTrigger) -> Interval:
    """The values for which a trigger holds."""
    if trigger.comparison is Comparison.ABOVE:
        return Interval(trigger.value, math.inf)
    return Interval(-math.inf, trigger.value)


def is_of_all(trigger: MetricTrigger) -> bool:
    """Whether every reading of the trigger's time has to be beyond its value."""
    return trigger.statistic is None or (trigger.statistic, trigger.comparison) in (
        ("max", Comparison.BELOW),
        ("min", Comparison.ABOVE),
    )


def is_of_one(trigger: MetricTrigger) -> bool:
    """Whether one reading of the trigger's time beyond its value is enough."""
    return (trigger.statistic, trigger.comparison) in (("max", Comparison.ABOVE), ("min", Comparison.BELOW))


def rank(trigger: MetricTrigger) -> float | None:
    """The percentile that a trigger takes, with min as 0 and max as 100; None for others."""
    if trigger.statistic in (None, "mean"):
        return None
    ends = {"min": 0.0, "max": 100.0}
    return ends[trigger.statistic] if trigger.statistic in ends else float(str(trigger.statistic)[1:])


def by_series(triggers: Iterable[MetricTrigger]) -> Mapping[Series, list[MetricTrigger]]:
    """Triggers by what they read."""
    found: dict[Series, list[MetricTrigger]] = {}
    for trigger in triggers:
        found.setdefault((trigger.metric, trigger.ahead_seconds), []).append(trigger)
    return found


def with_order(triggers: Sequence[MetricTrigger]) -> list[MetricTrigger]:
    """Triggers, and what follows from them for other percentiles: the p99 of latency is never below its p50."""
    found = list(triggers)
    for trigger in triggers:
        for family in _RISING:
            if trigger.metric in family:
                at = family.index(trigger.metric)
                others = family[at + 1 :] if trigger.comparison is Comparison.ABOVE else family[:at]
                found += [replace(trigger, metric=other) for other in others]
    return found


def contradict(triggers: Sequence[MetricTrigger]) -> bool:
    """Whether triggers on one series certainly never hold together."""
    everything = domain(triggers[0].metric)
    alls = [trigger for trigger in triggers if is_of_all(trigger)]
    newest = everything
    for trigger in alls:  # every such window ends with the newest reading
        newest &= beyond(trigger)
    if newest.pick() is None:
        return True
    return any(_of_statistic(trigger, triggers, alls).pick() is None for trigger in triggers if not is_of_all(trigger))


def _of_statistic(trigger: MetricTrigger, triggers: Sequence[MetricTrigger], alls: Sequence[MetricTrigger]) -> Interval:
    """The values that are left for a trigger's statistic."""
    bounds = domain(trigger.metric)
    found = Interval(bounds.low, bounds.high, bounds.is_low_closed, bounds.is_high_closed) & beyond(trigger)
    for other in alls:
        if other.for_seconds >= trigger.for_seconds:
            found &= beyond(other)
    for other in triggers:
        if other.for_seconds == trigger.for_seconds and _bounds_it(other, trigger):
            found &= beyond(other)
    return found


def _bounds_it(other: MetricTrigger, trigger: MetricTrigger) -> bool:
    """Whether what is said of one statistic holds for the other: a higher percentile is never the smaller one."""
    if other.statistic == trigger.statistic:
        return True
    mine, its = rank(trigger), rank(other)
    if mine is None or its is None:
        return False
    return mine >= its if other.comparison is Comparison.ABOVE else mine <= its


def implies(given: MetricTrigger, wanted: MetricTrigger) -> bool:
    """Whether `wanted` certainly holds whenever `given` holds."""
    if (given.metric, given.ahead_seconds, given.comparison) != (
        wanted.metric, wanted.ahead_seconds, wanted.comparison,
    ):  # fmt: skip
        return False
    is_above = given.comparison is Comparison.ABOVE
    is_as_far = given.value >= wanted.value if is_above else given.value <= wanted.value
    return is_as_far and _is_as_strict(given, wanted)


def _is_as_strict(given: MetricTrigger, wanted: MetricTrigger) -> bool:
    """Whether it follows from the times and statistics of two triggers, which have one value."""
    if is_of_one(wanted) and (is_of_all(given) or wanted.for_seconds >= given.for_seconds):
        return True
    if is_of_all(given):
        return wanted.for_seconds <= given.for_seconds
    return not is_of_one(given) and wanted.for_seconds == given.for_seconds and _bounds_it(given, wanted)
