# SPDX-License-Identifier: Apache-2.0
"""The attractions, and what makes a ride one that counts."""

from __future__ import annotations

from typing import NamedTuple


class Attraction(NamedTuple):
    """A place by its longitude and latitude, in degrees."""

    name: str
    longitude: float
    latitude: float


ATTRACTIONS = (
    Attraction("Times Square", -73.985130, 40.758896),
    Attraction("Empire State Building", -73.985656, 40.748433),
    Attraction("Statue of Liberty", -74.044502, 40.689247),
)
"""Three, as in the paper, which does not name them. Of equally near ones the first counts."""

FIELDS = 11
"""Of a ride event."""
LONGITUDE_AT, LATITUDE_AT = 4, 5
"""The pickup's fields, from 0."""
DEGREES = r"^-?[0-9]{1,3}(\.[0-9]+)?$"
"""How a longitude or latitude is written."""
