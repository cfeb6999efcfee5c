# SPDX-License-Identifier: Apache-2.0
"""ISO 8601 timestamps as whole nanoseconds since 1970; those without an offset are read as UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?\s?(?:([Zz])|([+-])(\d\d):?(\d\d)?)?"
)


def is_timestamp(text: str) -> bool:
    """Whether a text is a timestamp.

    Examples
    --------
    >>> is_timestamp("2026-01-31T12:00:00.123Z"), is_timestamp("1769860800.123")
    (True, False)
    """
    return nanoseconds_of(text) is not None


def nanoseconds_of(text: str) -> int | None:
    """Return a timestamp's nanoseconds since 1970, or None if it is none.

    Examples
    --------
    >>> nanoseconds_of("1970-01-01T00:00:01.5Z"), nanoseconds_of("1970-01-01T01:00:00+01:00"), nanoseconds_of("noon")
    (1500000000, 0, None)
    """
    found = _TIMESTAMP.fullmatch(text.strip())
    if found is None:
        return None
    day, clock, fraction, _, sign, hours, minutes = found.groups()
    try:
        seconds = _second_of(day, clock)
    except ValueError:  # a 13th month
        return None
    if sign is not None:
        offset = 3600 * int(hours) + 60 * int(minutes or 0)
        seconds -= offset if sign == "+" else -offset
    return seconds * 1_000_000_000 + int((fraction or "0").ljust(9, "0"))


@lru_cache(maxsize=4096)
def _second_of(day: str, clock: str) -> int:
    return int(datetime.fromisoformat(f"{day}T{clock}").replace(tzinfo=UTC).timestamp())
