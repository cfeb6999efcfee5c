# SPDX-License-Identifier: Apache-2.0
"""Durations, rates and sizes as people write them, turned into plain numbers once, at the user's edge.

Inside Penstock a number's unit stands in its name (`_seconds`, `_rows_per_second`, `_bytes`, `_cores`).
"""

from __future__ import annotations

import math
import re
import reprlib

from penstock.errors import ConfigurationError

_SECONDS_PER = {
    "ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_BYTES_PER = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
_QUANTITY = re.compile(r"^\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([a-zA-Z]*)\s*$")


def parse_seconds(value: str | float, field: str = "duration") -> float:
    """Give the seconds in ``"2s"``, ``"500ms"``, ``"5m"``; a bare number is seconds already.

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
    """Give the bytes in ``"512m"`` or ``"2g"``; a bare number is bytes already.

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
    """Give the records per second in ``"2000/s"``, ``"60/min"`` or a bare number.

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


def format_seconds(seconds: float | None) -> str:
    """Write a duration for people, with three meaningful digits; ``None`` is shown as a dash, never as zero.

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


def format_count(value: float | None) -> str:
    """Write a number of records for people; ``None`` is shown as a dash.

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
        raise ConfigurationError(f"{field}: {value!r} is not {wanted}", field=field)
    if isinstance(value, (int, float)):
        return float(value)
    if not isinstance(value, str):
        raise ConfigurationError(f"{field}: {reprlib.repr(value)} is not {wanted}", field=field)
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
