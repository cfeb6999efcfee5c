# SPDX-License-Identifier: Apache-2.0
"""Generates taxi rides as the events of New York's taxis have them, each of them three times.

The fields are ride, START, time, a time that means nothing here, longitude and latitude of pickup and drop-off,
passengers, taxi and driver. The three identical records of a ride, and about a million rides in two days, are those of
the Gesscale paper (Sec. V-A).
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.generated_lines import (
    ZERO_STAMP,
    decode_lines,
    join_pool,
    record_bits,
    write_digits,
    write_stamps,
)

COPIES = 3
"""Identical records of one ride."""
FIRST_RIDE_US = 1_367_366_400_000_000
"""2013-05-01, in microseconds since 1970."""
_RIDE_EVERY_US = 172_800  # a million in two days
_RIDE_DIGITS = 9
_POOL_SIZE = 8192
_STAMP_AT = _RIDE_DIGITS + len(",START,")
_MIDTOWN = (-73.981, 40.754)
_AIRPORT = (-73.783, 40.644)


class TaxiRideLines:
    """Rides by record number.

    Parameters
    ----------
    seed
        Another seed, other places.
    copies
        Identical records of each ride.
    """

    def __init__(self, seed: int = 0, copies: int = COPIES) -> None:
        self.seed = seed
        self.copies = copies
        self._pool = _pool(seed)
        self._lengths = np.array([len(line) for line in self._pool], dtype=np.int64)

    def encode(self, start: int, arrival_us: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the lines of the records from `start` on. The time in a line is the ride's, the same in each copy."""
        rides = np.arange(start, start + len(arrival_us), dtype=np.int64) // self.copies
        bits = record_bits(rides.astype(np.uint64), self.seed)
        offsets, text = join_pool(self._pool, self._lengths, (bits & np.uint64(_POOL_SIZE - 1)).astype(np.int64))
        write_digits(text, offsets[:-1], rides, _RIDE_DIGITS)
        write_stamps(text, offsets[:-1] + np.int32(_STAMP_AT), FIRST_RIDE_US + rides * _RIDE_EVERY_US)
        return offsets, text

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        return decode_lines(*self.encode(start, arrival_us))


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    """Return lines whose ride and time are still zero: most rides are about Midtown, some from or to the airport."""
    rng = random.Random(f"taxi rides {seed}")

    def place() -> str:
        longitude, latitude = _AIRPORT if rng.random() < 0.06 else _MIDTOWN
        return f"{rng.gauss(longitude, 0.022):.6f},{rng.gauss(latitude, 0.028):.6f}"

    lines = []
    for number in range(_POOL_SIZE):
        (passengers,) = rng.choices(range(1, 7), (70, 14, 4, 2, 6, 4))
        taxi = 2_013_000_000 + rng.randrange(14_000)
        start = f"{0:0{_RIDE_DIGITS}},START,".encode() + ZERO_STAMP
        lines.append(
            start + f",1970-01-01 00:00:00,{place()},{place()},{passengers},{taxi},{taxi + number % 3}".encode()
        )
    return tuple(lines)
