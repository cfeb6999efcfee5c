# SPDX-License-Identifier: Apache-2.0
"""When periods of the day and the week hold, and whether several can hold at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from penstock.rules.nodes import WEEKDAYS, TimeTrigger

_WEEKS = (datetime(2026, 1, 12, tzinfo=UTC), datetime(2026, 7, 13, tzinfo=UTC))
"""Mondays in winter and in summer. Periods repeat each week; zones differ between the two in summer time alone."""


def holds(trigger: TimeTrigger, moment: datetime) -> bool:
    """Whether a moment lies in the period, or outside it if the trigger says so."""
    local = moment.astimezone(ZoneInfo(trigger.zone))
    minute, today = local.hour * 60 + local.minute, local.weekday()
    is_over_midnight = trigger.end <= trigger.start
    begun_today = minute >= trigger.start and (is_over_midnight or minute < trigger.end)
    begun_yesterday = is_over_midnight and minute < trigger.end
    is_inside = (begun_today and _is_on(trigger, today)) or (begun_yesterday and _is_on(trigger, today - 1))
    return is_inside is not trigger.is_outside


def common_moment(triggers: Sequence[TimeTrigger]) -> datetime | None:
    """A moment at which all hold; None where none is found.

    If periods overlap, then their overlap begins where one of them begins or, for those that are meant outside, ends.
    So only these moments are tried.
    """
    for moment in _borders(triggers):
        if all(holds(trigger, moment) for trigger in triggers):
            return moment
    return None


def never_hold(triggers: Sequence[TimeTrigger]) -> bool:
    """Whether the triggers certainly never hold together; of several time zones this is not claimed."""
    return len({trigger.zone for trigger in triggers}) == 1 and common_moment(triggers) is None


def imply(given: Sequence[TimeTrigger], wanted: TimeTrigger) -> bool:
    """Whether `wanted` certainly holds whenever all of `given` hold."""
    return never_hold([*given, replace(wanted, is_outside=not wanted.is_outside)])


def moment_text(moment: datetime, zone: str) -> str:
    """A moment as an example names it."""
    local = moment.astimezone(ZoneInfo(zone))
    return f"{WEEKDAYS[local.weekday()].capitalize()} {local:%H:%M} ({zone})"


def _borders(triggers: Iterable[TimeTrigger]) -> Iterator[datetime]:
    for trigger in triggers:
        zone = ZoneInfo(trigger.zone)
        for monday in _WEEKS:
            for day in range(-1, 8):
                date = (monday + timedelta(days=day)).replace(tzinfo=zone)
                for minute in (trigger.start, trigger.end, 0):  # 0: where a day of a whole-day period begins
                    yield date.replace(hour=minute // 60, minute=minute % 60).astimezone(UTC)


def _is_on(trigger: TimeTrigger, weekday: int) -> bool:
    return not trigger.days or WEEKDAYS[weekday % 7] in trigger.days
