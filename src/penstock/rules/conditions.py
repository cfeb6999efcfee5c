# SPDX-License-Identifier: Apache-2.0
"""Metrics compared with values, behind `when`. Building a condition runs nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from penstock.errors import RuleError
from penstock.rules.amounts import Duration, as_number, seconds_of
from penstock.rules.callers import at_the_callers_line, refusal, refuse
from penstock.rules.checks import checked_metric, checked_statistic, checked_trigger, value_of
from penstock.rules.nodes import Comparison, MetricTrigger, TimeTrigger, Trigger
from penstock.rules.numbers import Number, number_text

_COMBINE = "use .when(...) again, or & in brackets: all triggers have to hold"


class Condition:
    """One or more triggers that all have to hold, such as ``metric("queue_length") > 300``."""

    __slots__ = ("triggers",)

    def __init__(self, triggers: tuple[Trigger, ...]) -> None:
        self.triggers = triggers

    def for_at_least(self, time: Duration) -> Condition:
        """The same, for at least a time. Over this time a statistic is taken."""
        with at_the_callers_line():
            return Condition(lasting(self.triggers, seconds_of(time)))

    def __and__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            refuse(f"& joins two conditions, and {other!r} is none; put each comparison into brackets")
        return Condition(self.triggers + other.triggers)

    def __rand__(self, other: object) -> NoReturn:
        refuse(f"& joins two conditions, and {other!r} is none; put each comparison into brackets")

    def __or__(self, other: object) -> NoReturn:
        refuse("a rule has no `or`: write one rule for each condition")

    def __ror__(self, other: object) -> NoReturn:
        refuse("a rule has no `or`: write one rule for each condition")

    def __invert__(self) -> Condition:
        refuse("a comparison cannot be turned round with ~; write < in place of >")

    def __bool__(self) -> bool:
        raise refusal(
            "a condition is neither true nor false while a rule is written, so `and`, `or`, `not` and `if` do not "
            f"work; {_COMBINE}"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Condition) and self.triggers == other.triggers

    def __hash__(self) -> int:
        return hash(self.triggers)

    def __repr__(self) -> str:
        from penstock.rules.to_python import condition_in_python

        return " & ".join(f"({condition_in_python(trigger)})" for trigger in self.triggers)


def lasting(triggers: tuple[Trigger, ...], time_seconds: float) -> tuple[Trigger, ...]:
    """The same triggers, each for at least a time."""
    found: list[Trigger] = []
    for trigger in triggers:
        if isinstance(trigger, TimeTrigger):
            raise RuleError("a time of day lasts as long as it says; put .for_at_least(...) behind a metric")
        if trigger.for_seconds:
            raise RuleError("it says already for how long; write .for_at_least(...) once for each .when(...)")
        found.append(checked_trigger(replace(trigger, for_seconds=time_seconds)))
    return tuple(found)


class MetricReading:
    """A metric in a rule, made by `metric`; compare it with > or < to get a condition."""

    __slots__ = ("_ahead_seconds", "_metric", "_statistic")

    def __init__(self, name: str, statistic: str | None = None, ahead_seconds: float | None = None) -> None:
        self._metric, self._statistic, self._ahead_seconds = name, statistic, ahead_seconds

    def _with_statistic(self, name: str) -> MetricReading:
        with at_the_callers_line():
            if self._statistic is not None:
                raise RuleError(f"it has a statistic already ({self._statistic}); take one")
            return MetricReading(self._metric, checked_statistic(name), self._ahead_seconds)

    @property
    def mean(self) -> MetricReading:
        """The mean of the readings of the trigger's time."""
        return self._with_statistic("mean")

    @property
    def max(self) -> MetricReading:
        """The largest of the readings of the trigger's time."""
        return self._with_statistic("max")

    @property
    def min(self) -> MetricReading:
        """The smallest of the readings of the trigger's time."""
        return self._with_statistic("min")

    def percentile(self, rank: float) -> MetricReading:
        """A percentile of the readings of the trigger's time; ``.p90`` is short for ``.percentile(90)``."""
        with at_the_callers_line():
            return self._with_statistic(f"p{number_text(as_number(rank).value)}")

    def in_(self, time: Duration) -> MetricReading:
        """The forecast of the metric so far ahead."""
        with at_the_callers_line():
            ahead = seconds_of(time)
            if ahead <= 0.0:
                raise RuleError("a forecast looks ahead by more than 0 seconds; write .in_(minutes(2))")
            return MetricReading(self._metric, self._statistic, ahead)

    def __getattr__(self, name: str) -> MetricReading:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._with_statistic(name)

    def _compared(self, comparison: Comparison, value: object) -> Condition:
        with at_the_callers_line():
            wanted = value_of(self._metric, as_number(value))
            trigger = MetricTrigger(
                self._metric, comparison, wanted, statistic=self._statistic, ahead_seconds=self._ahead_seconds
            )
        return Condition((trigger,))

    def __gt__(self, value: float | Number) -> Condition:
        return self._compared(Comparison.ABOVE, value)

    def __lt__(self, value: float | Number) -> Condition:
        return self._compared(Comparison.BELOW, value)

    def __ge__(self, value: object) -> NoReturn:
        refuse("a trigger is above or below its value; write > in place of >=")

    def __le__(self, value: object) -> NoReturn:
        refuse("a trigger is above or below its value; write < in place of <=")

    def __eq__(self, value: object) -> NoReturn:
        refuse("a metric is compared with > or <, not with ==")

    def __ne__(self, value: object) -> NoReturn:
        refuse("a metric is compared with > or <, not with !=")

    __hash__ = object.__hash__

    def _not_joined(self, _: object) -> NoReturn:
        refuse("& and | bind before > and <; put each comparison into brackets: (metric(...) > 3) & (metric(...) < 5)")

    __and__ = __rand__ = __or__ = __ror__ = _not_joined

    def _not_computed(self, _: object) -> NoReturn:
        refuse("a rule compares one metric with a number and computes nothing; change the number instead")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _not_computed

    def __bool__(self) -> bool:
        raise refusal(f"a metric is no condition; compare it with > or <, and {_COMBINE}")

    def __repr__(self) -> str:
        from penstock.rules.to_python import reading_in_python

        return reading_in_python(self._metric, self._statistic, self._ahead_seconds)


def metric(name: str) -> MetricReading:
    """A metric of the operator that a rule scales; `penstock metrics` lists them.

    Examples
    --------
    >>> metric("queue_length").p90 > 300
    (metric("queue_length").p90 > 300)
    """
    with at_the_callers_line():
        if not isinstance(name, str):
            raise RuleError(f'{name!r} is no metric; write its name, such as metric("queue_length")')
        return MetricReading(checked_metric(name))
