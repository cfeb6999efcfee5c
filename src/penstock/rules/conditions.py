# SPDX-License-Identifier: Apache-2.0
"""What stands behind `when`: metrics compared with values, and the time of day. Building one runs nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from types import FrameType
from typing import NoReturn

from penstock.errors import RuleError
from penstock.rules.checks import (
    WEEKDAYS_ONLY,
    WEEKENDS,
    checked_days,
    checked_metric,
    checked_statistic,
    checked_trigger,
    checked_zone,
    placed,
    value_of,
)
from penstock.rules.nodes import Comparison, MetricTrigger, Place, TimeTrigger, Trigger
from penstock.rules.numbers import Kind, Number, number_text, percent_of, read_clock, seconds_in

_COMBINE = "use .when(...) again, or & in brackets: all triggers have to hold"
_OURS = ("penstock.rules.", "contextlib")
"""Modules whose frames lie between the user's line and the place of an error."""


@dataclass(frozen=True, slots=True)
class Duration:
    """A length of time, made by `seconds`, `minutes` or `hours`."""

    seconds: float


def seconds(count: float) -> Duration:
    """So many seconds."""
    return _duration(count, "seconds")


def minutes(count: float) -> Duration:
    """So many minutes."""
    return _duration(count, "minutes")


def hours(count: float) -> Duration:
    """So many hours."""
    return _duration(count, "hours")


def percent(count: float) -> Number:
    """So many per cent: a CPU share, or the value of a metric that is a fraction."""
    with at_the_callers_line():
        return percent_of(number_text(as_number(count).value))


def times(factor: float) -> Number:
    """So many times: the current size in ``by(times(2))``, the original size in ``but_never_above(times(4))``."""
    with at_the_callers_line():
        return Number(as_number(factor).value, Kind.TIMES)


def _duration(count: float, unit: str) -> Duration:
    with at_the_callers_line():
        return Duration(seconds_in(number_text(as_number(count).value), unit))


def as_number(given: object) -> Number:
    """A number as it was given: plain, `percent` or `times`."""
    if isinstance(given, Number):
        return given
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        raise RuleError(f"{given!r} is not a number; write one such as 2, times(2) or percent(20)")
    try:
        value = float(given)
    except OverflowError:
        value = float("inf")
    if not 0.0 <= value < float("inf"):
        raise RuleError(f"{given!r} cannot be used here; write a finite number from 0 on")
    return Number(value)


def seconds_of(given: object) -> float:
    """The seconds of a duration; a bare number is refused, for it does not say what it counts."""
    if not isinstance(given, Duration):
        raise RuleError(f"{given!r} is not a time; write seconds(30) or minutes(5)")
    return given.seconds


def callers_place() -> Place | None:
    """Where the nearest code outside this package stands."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_OURS):
        frame = frame.f_back
    if frame is None:
        return None
    line, _, column, _ = next(islice(frame.f_code.co_positions(), frame.f_lasti // 2, None), (None,) * 4)
    return Place(line or frame.f_lineno, (column or 0) + 1, frame.f_code.co_filename)


@contextmanager
def at_the_callers_line() -> Iterator[None]:
    """Give a `RuleError` the place of the user's code."""
    try:
        yield
    except RuleError as fault:
        place = callers_place() if fault.line is None else None
        if place is None:
            raise
        raise fault.at(place.line, place.column, place.source) from None


def refusal(message: str) -> RuleError:
    """A `RuleError` at the user's line."""
    return placed(RuleError(message), callers_place())


def refuse(message: str) -> NoReturn:
    """Raise a `RuleError` at the user's line."""
    raise refusal(message)


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


class TimeCondition(Condition):
    """The time lies in a period of the day; add days and a time zone (UTC where none is said)."""

    __slots__ = ()

    def __init__(self, trigger: TimeTrigger) -> None:
        super().__init__((trigger,))

    @property
    def trigger(self) -> TimeTrigger:
        """What it says."""
        (trigger,) = self.triggers
        assert isinstance(trigger, TimeTrigger)
        return trigger

    def on(self, *days: str) -> TimeCondition:
        """Only periods that begin on these days: ``monday`` to ``sunday``."""
        with at_the_callers_line():
            if not days:
                raise RuleError('say which days, such as .on("monday", "friday")')
            return TimeCondition(replace(self.trigger, days=checked_days(str(day) for day in days)))

    def on_weekdays(self) -> TimeCondition:
        """Only periods that begin on Monday to Friday."""
        return TimeCondition(replace(self.trigger, days=WEEKDAYS_ONLY))

    def on_weekends(self) -> TimeCondition:
        """Only periods that begin on Saturday or Sunday."""
        return TimeCondition(replace(self.trigger, days=WEEKENDS))

    def in_zone(self, name: str) -> TimeCondition:
        """By the clock of an IANA time zone, such as ``Europe/Zurich``."""
        with at_the_callers_line():
            return TimeCondition(replace(self.trigger, zone=checked_zone(str(name))))

    def __invert__(self) -> TimeCondition:
        return TimeCondition(replace(self.trigger, is_outside=not self.trigger.is_outside))


class TimeOfDay:
    """The time of day and the day of the week in a rule: ``time.between("08:00", "18:00").on_weekdays()``."""

    __slots__ = ()

    def between(self, start: str, end: str) -> TimeCondition:
        """From `start` until before `end`; an `end` that is not after the `start` lies on the next day."""
        with at_the_callers_line():
            return TimeCondition(TimeTrigger(read_clock(str(start)), read_clock(str(end))))

    def outside(self, start: str, end: str) -> TimeCondition:
        """At any time but then."""
        return ~self.between(start, end)

    def on(self, *days: str) -> TimeCondition:
        """On these days, the whole day."""
        return TimeCondition(TimeTrigger()).on(*days)

    def on_weekdays(self) -> TimeCondition:
        """From Monday to Friday, the whole day."""
        return TimeCondition(TimeTrigger()).on_weekdays()

    def on_weekends(self) -> TimeCondition:
        """On Saturday and Sunday, the whole day."""
        return TimeCondition(TimeTrigger()).on_weekends()


time = TimeOfDay()
"""The time of day and the day of the week."""
