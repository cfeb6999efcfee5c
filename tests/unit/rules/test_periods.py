# SPDX-License-Identifier: Apache-2.0
"""Periods of the day and the week, as rules are checked and evaluated by them."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from penstock.errors import RuleError
from penstock.rules.checks import checked_zone
from penstock.rules.nodes import WEEKDAYS, TimeTrigger
from penstock.rules.periods import holds

OFFICE = TimeTrigger(start=8 * 60, end=18 * 60, days=WEEKDAYS[:5], zone="Europe/Rome")
NIGHT = TimeTrigger(start=22 * 60, end=6 * 60, days=("friday",))


def instant(text: str, zone: str = "UTC") -> float:
    """Seconds since the epoch of a local time."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def holds_at(trigger: TimeTrigger, at: float) -> bool:
    """Whether a trigger holds at an instant."""
    return holds(trigger, datetime.fromtimestamp(at, UTC))


@pytest.mark.parametrize(
    ("at", "is_inside"),
    [
        ("2026-11-16 07:59:59", False),
        ("2026-11-16 08:00:00", True),
        ("2026-11-16 17:59:59", True),
        ("2026-11-16 18:00:00", False),  # the end is not part of it
        ("2026-11-14 12:00:00", False),  # a Saturday
    ],
)
def test_a_period_holds_from_its_start_to_before_its_end_on_its_days(at: str, is_inside: bool) -> None:
    """Office hours hold on weekdays from eight to before eighteen, in their zone."""
    assert holds_at(OFFICE, instant(at, "Europe/Rome")) is is_inside


def test_a_period_follows_its_zone_through_summer_time() -> None:
    """Eight o'clock in Rome is seven UTC in winter and six UTC in summer."""
    assert holds_at(OFFICE, instant("2026-01-12 07:00:00"))
    assert not holds_at(OFFICE, instant("2026-01-12 06:00:00"))
    assert holds_at(OFFICE, instant("2026-07-13 06:00:00"))


@pytest.mark.parametrize(
    ("at", "is_inside"),
    [
        ("2026-11-13 21:59:00", False),
        ("2026-11-13 22:00:00", True),  # Friday evening
        ("2026-11-14 05:59:00", True),  # Saturday morning belongs to Friday's period
        ("2026-11-14 06:00:00", False),
        ("2026-11-14 23:00:00", False),
        ("2026-11-13 05:00:00", False),  # Friday morning belongs to Thursday's
    ],
)
def test_a_period_over_midnight_belongs_to_the_day_on_which_it_begins(at: str, is_inside: bool) -> None:
    """The night from Friday to Saturday is Friday's."""
    assert holds_at(NIGHT, instant(at)) is is_inside


def test_equal_ends_are_the_whole_day() -> None:
    """A period without hours holds all day on its days."""
    sunday = TimeTrigger(days=("sunday",))
    assert holds_at(sunday, instant("2026-11-15 00:00:00"))
    assert holds_at(sunday, instant("2026-11-15 23:59:59"))
    assert not holds_at(sunday, instant("2026-11-16 00:00:00"))


def test_outside_is_the_opposite() -> None:
    """An excluded period holds exactly when the period does not."""
    excluded = TimeTrigger(OFFICE.start, OFFICE.end, OFFICE.days, OFFICE.zone, is_outside=True)
    for hour in range(0, 24 * 7):
        at = instant("2026-11-16 00:30:00") + 3600.0 * hour
        assert holds_at(excluded, at) is not holds_at(OFFICE, at)


def test_an_unknown_zone_is_refused() -> None:
    """A zone that the machine does not know raises with the fix."""
    with pytest.raises(RuleError, match="write one such as Europe/Zurich"):
        checked_zone("Mars/Olympus")
