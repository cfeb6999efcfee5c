# SPDX-License-Identifier: Apache-2.0
"""The same rows without Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from penstock.apps.taxi_attractions.attractions import ATTRACTIONS, DEGREES, FIELDS, LATITUDE_AT, LONGITUDE_AT

_DEGREES = re.compile(DEGREES)


def pickup_of(line: str) -> tuple[float, float] | None:
    """Return longitude and latitude of a ride's pickup. None: the line is no ride, or has no position."""
    fields = line.split(",")
    if len(fields) != FIELDS or not all(_DEGREES.match(fields[at]) for at in (LONGITUDE_AT, LATITUDE_AT)):
        return None
    pickup = float(fields[LONGITUDE_AT]), float(fields[LATITUDE_AT])
    return None if pickup == (0.0, 0.0) else pickup


def nearest(longitude: float, latitude: float) -> tuple[str, float]:
    """Return the nearest attraction and the distance to it, in degrees."""
    distances = [
        math.sqrt((longitude - there.longitude) * (longitude - there.longitude)
                  + (latitude - there.latitude) * (latitude - there.latitude))
        for there in ATTRACTIONS
    ]  # fmt: skip
    least = min(distances)
    return ATTRACTIONS[distances.index(least)].name, least


def expected_rows(lines: Iterable[str]) -> list[tuple[int, str, str, float]]:
    """Return (index, value, attraction, distance) of the rides whose pickup is known, in the order of index."""
    pickups = ((index, line, pickup_of(line)) for index, line in enumerate(lines))
    return [(index, line, *nearest(*pickup)) for index, line, pickup in pickups if pickup is not None]
