# SPDX-License-Identifier: Apache-2.0
"""Numbers, percentages, multiples, times and clocks as rules write them; what is written reads back exactly.

Percentages and minutes are converted in decimal arithmetic: 60% is the float 0.6 and no neighbour of it.
"""

from __future__ import annotations

import decimal
import math
import re
import reprlib
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from penstock.errors import RuleError

_NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_READ = re.compile(rf"(?P<times>x)?(?P<number>{_NUMBER})(?P<percent>%)?")
_DURATION = re.compile(rf"\s*({_NUMBER})\s*([A-Za-z]+)\s*")
_CLOCK = re.compile(r"([0-9]{1,2}):([0-9]{2})")

SECONDS_PER = {"second": 1, "seconds": 1, "minute": 60, "minutes": 60, "hour": 3600, "hours": 3600}
"""The units of time that rules know."""

_MINUTES_PER_DAY = 24 * 60
_EXACT = 2.0**53
"""Below this, whole seconds divided into minutes and multiplied again give the same float."""


class Kind(StrEnum):
    """How a number was written."""

    PLAIN = "plain"
    PERCENT = "percent"
    TIMES = "times"


@dataclass(frozen=True, slots=True)
class Number:
    """A number and how it was written. A percentage has its fraction as value."""

    value: float
    kind: Kind = Kind.PLAIN


def read_number(text: str) -> Number:
    """The number in ``300``, ``60%`` or ``x2``.

    Examples
    --------
    >>> read_number("60%").value, read_number("x2").value
    (0.6, 2.0)
    """
    match = _READ.fullmatch(text)
    if match is None or (match["times"] and match["percent"]):
        raise RuleError(f"{reprlib.repr(text)} is not a number; write it like 300, 60% or x2")
    if match["percent"]:
        return percent_of(match["number"])
    return Number(_finite(float(match["number"]), text), Kind.TIMES if match["times"] else Kind.PLAIN)


def percent_of(number: str) -> Number:
    """A percentage, given by its digits."""
    try:
        return Number(_finite(float(Decimal(number).scaleb(-2)), number), Kind.PERCENT)
    except decimal.DecimalException:
        raise _too_large(number) from None


def seconds_in(number: str, unit: str) -> float:
    """The seconds in a number of seconds, minutes or hours.

    Examples
    --------
    >>> seconds_in("0.1", "minutes")
    6.0
    """
    if unit not in SECONDS_PER:
        raise RuleError(f"unknown unit of time {reprlib.repr(unit)}; write seconds, minutes or hours")
    try:
        return _finite(float(Decimal(number) * SECONDS_PER[unit]), number)
    except decimal.DecimalException:
        raise _too_large(number) from None


def read_duration(text: str) -> float:
    """The seconds in ``30 seconds`` or ``1 minute``."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise RuleError(f"{reprlib.repr(text)} is not a time; write it like 30 seconds or 5 minutes")
    return seconds_in(match[1], match[2])


def read_clock(text: str) -> int:
    """Minutes since midnight; 24:00 is the midnight that ends the day, which is 0 of the next.

    Examples
    --------
    >>> read_clock("08:30"), read_clock("24:00")
    (510, 0)
    """
    match = _CLOCK.fullmatch(text)
    minutes = int(match[1]) * 60 + int(match[2]) if match and int(match[2]) < 60 else _MINUTES_PER_DAY + 1
    if minutes > _MINUTES_PER_DAY:
        raise RuleError(f"{reprlib.repr(text)} is not a time of day; write it like 08:00 or 18:30, up to 24:00")
    return minutes % _MINUTES_PER_DAY


def number_text(value: float) -> str:
    """A number so that it reads back exactly.

    Examples
    --------
    >>> number_text(300.0), number_text(0.1)
    ('300', '0.1')
    """
    return repr(float(value)).removesuffix(".0")


def percent_text(fraction: float) -> str:
    """A fraction as a percentage that reads back exactly.

    Examples
    --------
    >>> percent_text(0.6), percent_text(0.125)
    ('60%', '12.5%')
    """
    return f"{percent_digits(fraction)}%"


def percent_digits(fraction: float) -> str:
    """The digits of a fraction's percentage."""
    percent = Decimal(repr(float(fraction))).scaleb(2).normalize()
    return f"{percent:f}" if abs(percent.adjusted()) < 20 else str(percent)


def duration_parts(seconds: float) -> tuple[str, str]:
    """A time as number and plural unit, in the largest unit that makes the number whole."""
    if 0 < seconds < _EXACT:
        for unit in ("hours", "minutes"):
            if seconds % SECONDS_PER[unit] == 0:
                return number_text(seconds / SECONDS_PER[unit]), unit
    return number_text(seconds), "seconds"


def duration_text(seconds: float) -> str:
    """A time so that it reads back exactly.

    Examples
    --------
    >>> duration_text(60), duration_text(90), duration_text(7200)
    ('1 minute', '90 seconds', '2 hours')
    """
    number, unit = duration_parts(seconds)
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


def clock_text(minutes: int) -> str:
    """Minutes since midnight as a time of day.

    Examples
    --------
    >>> clock_text(510)
    '08:30'
    """
    return f"{minutes // 60:02}:{minutes % 60:02}"


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise _too_large(text)
    return value


def _too_large(text: str) -> RuleError:
    return RuleError(f"{reprlib.repr(text)} is too large a number; write a smaller one")
