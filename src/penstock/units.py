# SPDX-License-Identifier: Apache-2.0
"""Reads durations, rates, sizes and numbers as users write them, and formats numbers for people.

User input is converted once, where it enters. Inside Penstock a variable's name carries the unit (`_seconds`,
`_rows_per_second`, `_bytes`, `_cores`).
"""

from __future__ import annotations

import math
import re
import reprlib
import time
from dataclasses import dataclass

from penstock.errors import ConfigurationError

_SECONDS_PER = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_BYTES_PER = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_ANY_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z]*)\s*$")


def parse_seconds(value: str | float, field: str = "duration") -> float:
    """Return the seconds in ``"2s"``, ``"500ms"`` or ``"5m"``. A bare number counts seconds.

    Examples
    --------
    >>> parse_seconds("500ms"), parse_seconds("2m"), parse_seconds(3)
    (0.5, 120.0, 3.0)
    """
    seconds = _quantity(value, _SECONDS_PER, "s", field, 'a duration such as "500ms", "2s" or "5m"')
    if not math.isfinite(seconds) or seconds < 0:
        raise ConfigurationError(f'{field}: {value!r} is not a duration; write it like "2s" or "500ms"', field=field)
    return seconds


def parse_bytes(value: str | float, field: str = "size") -> int:
    """Return the bytes in ``"512m"`` or ``"2g"``. A bare number counts bytes.

    Examples
    --------
    >>> parse_bytes("1k"), parse_bytes("2g")
    (1024, 2147483648)
    """
    size = _quantity(value, _BYTES_PER, "b", field, 'a size such as "512m" or "2g"')
    if not math.isfinite(size) or size < 0:
        raise ConfigurationError(f'{field}: {value!r} is not a size; write it like "512m"', field=field)
    return int(size)


def parse_rate(value: str | float, field: str = "rate") -> float:
    """Return the records per second in ``"2000/s"`` or ``"60/min"``. A bare number counts records per second.

    Examples
    --------
    >>> parse_rate("120/min"), parse_rate(5)
    (2.0, 5.0)
    """
    if isinstance(value, str) and "/" in value:
        count, _, per = value.partition("/")
        unit = per.strip() or "s"
        if unit not in _SECONDS_PER:
            raise ConfigurationError(f'{field}: unknown time unit {unit!r} in {value!r}; write "2000/s"', field=field)
        rate = _quantity(count, {}, "", field, 'a rate such as "2000/s"') / _SECONDS_PER[unit]
    else:
        rate = _quantity(value, {}, "", field, 'a rate such as "2000/s"')
    if not math.isfinite(rate) or rate < 0:
        raise ConfigurationError(f'{field}: {value!r} is not a rate; write it like "2000/s"', field=field)
    return rate


def positive_seconds(field: str, value: str | float) -> float:
    """Return the seconds in a duration that must be longer than 0.

    Examples
    --------
    >>> positive_seconds("service", "10ms")
    0.01
    """
    seconds = parse_seconds(value, field)
    if seconds <= 0.0:
        raise ConfigurationError(f'{field}: {value!r} must be above 0; write it like "10ms"', field=field)
    return seconds


def without_numbers(text: str) -> str:
    """Return a text by which those are alike that differ in a number alone.

    Examples
    --------
    >>> without_numbers("no answer for 5 s") == without_numbers("no answer for 6.5 s")
    True
    """
    return _ANY_NUMBER.sub("\u2026", text)


def number(
    field: str, value: object, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> float:
    """Return `value` if it is a finite number in the range. Text and booleans are refused.

    Parameters
    ----------
    field
        Where the value stands, for the error message.
    value
        The value to check.
    above, least, most
        The range: more than `above`, at least `least`, at most `most`.

    Raises
    ------
    ConfigurationError
        The value is not such a number.

    Examples
    --------
    >>> number("speed", 2, above=0)
    2.0
    """
    allowed = _Range(above, least, most)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not allowed.holds(value):
        raise _refusal(field, value, f"a number{allowed}")
    return float(value)


def whole_number(field: str, value: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return `value` if it is a whole number in the range. Text, booleans and ``2.0`` are refused.

    Examples
    --------
    >>> whole_number("partitions", 4, least=1)
    4
    """
    allowed = _Range(None, least, most)
    if isinstance(value, bool) or not isinstance(value, int) or not allowed.holds(value):
        raise _refusal(field, value, f"a whole number{allowed}")
    return int(value)


def parse_number(
    field: str,
    text: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    example: str | None = None,
) -> float:
    """Return the finite number in a text, such as the value of a Spark option.

    `example` completes the error message: "write ...".

    Examples
    --------
    >>> parse_number("malformed", "0.25", least=0, most=1)
    0.25
    """
    allowed = _Range(above, least, most)
    try:
        found = float(str(text))
    except ValueError:
        found = math.nan
    if not allowed.holds(found):
        raise _refusal(field, text, f"a number{allowed}" + (f"; write {example}" if example else ""))
    return found


def parse_whole_number(field: str, text: object, *, least: int | None = None, most: int | None = None) -> int:
    """Return the whole number in a text, such as the value of a Spark option.

    Examples
    --------
    >>> parse_whole_number("partitions", "4", least=1)
    4
    """
    allowed = _Range(None, least, most)
    try:
        found = int(str(text))
    except ValueError:
        raise _refusal(field, text, f"a whole number{allowed}") from None
    if not allowed.holds(found):
        raise _refusal(field, text, f"a whole number{allowed}")
    return found


def format_seconds(seconds: float | None) -> str:
    """Format a duration for people, with three significant digits. ``None`` becomes a dash, never zero.

    Examples
    --------
    >>> format_seconds(0.0123), format_seconds(1.5), format_seconds(200), format_seconds(None)
    ('12.3 ms', '1.50 s', '3 min 20 s', '-')
    """
    if seconds is None:
        return "-"
    if seconds < 0.9995:
        return f"{seconds * 1e3:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s" if seconds >= 10 else f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def clock(seconds: float) -> str:
    """Format the seconds since a start as ``m:ss`` or ``h:mm:ss``.

    Examples
    --------
    >>> clock(75), clock(3725)
    ('1:15', '1:02:05')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def moment(at: float, started_at: float | None) -> str:
    """Format an instant as logs, pages and commands show it: the local time, and how long after the run's start.

    Both are whole seconds, rounded down.

    Examples
    --------
    >>> moment(1_700_000_130.0, 1_700_000_000.0).split(maxsplit=1)[1]
    '(+2:10)'
    """
    wall = time.strftime("%H:%M:%S", time.localtime(at))
    if started_at is None:
        return wall
    since = at - started_at
    return f"{wall} ({'+' if since >= 0 else '-'}{clock(abs(since))})"


def format_count(value: float | None) -> str:
    """Format a number of records for people. ``None`` becomes a dash.

    Examples
    --------
    >>> format_count(12345), format_count(2.5e6), format_count(None)
    ('12.3k', '2.5M', '-')
    """
    if value is None:
        return "-"
    for limit, divisor, suffix in ((1e4, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (math.inf, 1e9, "G")):
        if abs(value) < limit:
            return f"{value / divisor:.0f}" if divisor == 1.0 else f"{value / divisor:.3g}{suffix}"
    raise AssertionError("unreachable: the last limit is infinite")


def _quantity(
    value: str | float, units: dict[str, float] | dict[str, int], default: str, field: str, wanted: str
) -> float:
    if isinstance(value, bool):
        raise _refusal(field, value, wanted)
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        raise _refusal(field, value, wanted)
    match = _QUANTITY.match(value)
    if match is None:
        raise ConfigurationError(f"{field}: cannot read {value!r}; write {wanted}", field=field)
    number, unit = float(match[1]), (match[2] or default).lower()
    if not units and not unit:
        return number
    if unit not in units:
        known = ", ".join(units) or "none"
        raise ConfigurationError(f"{field}: unknown unit {match[2]!r} in {value!r}; known units: {known}", field=field)
    return number * units[unit]


@dataclass(frozen=True, slots=True)
class _Range:
    above: float | None
    least: float | None
    most: float | None

    def holds(self, value: float) -> bool:
        return (
            math.isfinite(value)
            and (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
        )

    def __str__(self) -> str:
        has_start = self.above is not None or self.least is not None
        words = {" above": self.above, " from": self.least, " to" if has_start else " up to": self.most}
        return "".join(f"{word} {bound}" for word, bound in words.items() if bound is not None)


def _refusal(field: str, value: object, wanted: str) -> ConfigurationError:
    return ConfigurationError(f"{field}: {reprlib.repr(value)} is not {wanted}", field=field)
