# SPDX-License-Identifier: Apache-2.0
"""Triggers by the clock: whether an instant lies inside a period of the day and week, in the period's own zone."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from penstock.errors import ConfigurationError
from penstock.rules.nodes import WEEKDAYS, TimeTrigger


@lru_cache(maxsize=64)
def zone_named(name: str) -> ZoneInfo:
    """The time zone; ConfigurationError where this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as fault:
        raise ConfigurationError(
            f"zone: the time zone {name!r} is not known on this machine; write an IANA name such as Europe/Rome, or "
            "install the package tzdata",
            field="zone",
        ) from fault


def holds_at(trigger: TimeTrigger, at: float) -> bool:
    """Whether the trigger holds at an instant (seconds since the epoch).

    Examples
    --------
    >>> office = TimeTrigger(start=8 * 60, end=18 * 60, days=("monday",))
    >>> holds_at(office, 4 * 86400.0 + 8 * 3600.0)  # Monday, 5 January 1970, 08:00
    True
    """
    local = datetime.fromtimestamp(at, zone_named(trigger.zone))
    minute, today = local.hour * 60 + local.minute, WEEKDAYS[local.weekday()]
    yesterday = WEEKDAYS[local.weekday() - 1]
    if trigger.start < trigger.end:
        is_inside = trigger.start <= minute < trigger.end and _is_one_of(today, trigger)
    else:  # it ends on the next day, at the latest when it began
        is_inside = (minute >= trigger.start and _is_one_of(today, trigger)) or (
            minute < trigger.end and _is_one_of(yesterday, trigger)
        )
    return is_inside is not trigger.is_outside


def _is_one_of(day: str, trigger: TimeTrigger) -> bool:
    return not trigger.days or day in trigger.days
