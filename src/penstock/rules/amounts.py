# SPDX-License-Identifier: Apache-2.0
"""Times, percentages and factors in Python: ``minutes(5)``, ``percent(20)``, ``times(2)``."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

from penstock.errors import RuleError
from penstock.rules.callers import at_the_callers_line
from penstock.rules.numbers import Kind, Number, number_text, percent_of, seconds_in


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
    if isinstance(given, bool) or not isinstance(given, Real):
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
