# SPDX-License-Identifier: Apache-2.0
"""The time of day and the day of the week behind `when`. Building a condition runs nothing."""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import RuleError
from penstock.rules.callers import at_the_callers_line
from penstock.rules.checks import WEEKDAYS_ONLY, WEEKENDS, checked_days, checked_zone
from penstock.rules.conditions import Condition
from penstock.rules.nodes import TimeTrigger
from penstock.rules.numbers import read_clock


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
