# SPDX-License-Identifier: Apache-2.0
"""What generators of text lines share: random bits of a record's number, a pool of lines, stamps written into lines.

A generator prepares a pool once. For each record it then chooses from the pool by the record's number and the seed, so
a record always has the same line, and millions of lines a second cost little.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

ZERO_STAMP = b"0000-00-00T00:00:00.000"
"""Where a time goes (UTC, to the millisecond)."""
_US_PER_DAY = 86_400_000_000
# Column of each digit of the time of day in the stamp, and its value in milliseconds.
_DIGITS = (
    (11, 36_000_000, 10), (12, 3_600_000, 10), (14, 600_000, 6), (15, 60_000, 10), (17, 10_000, 6),
    (18, 1_000, 10), (20, 100, 10), (21, 10, 10), (22, 1, 10),
)  # fmt: skip


class GeneratedLines(Protocol):
    """Generates the line of every record. The same record always has the same line."""

    def encode(self, start: int, arrival_us: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the lines of the records from `start` on, one for each arrival time, as UTF-8 in one piece.

        Parameters
        ----------
        start
            Number of the first record.
        arrival_us
            Arrival times in microseconds since 1970.

        Returns
        -------
        offsets, text
            Line i is ``text[offsets[i]:offsets[i + 1]]``.
        """
        ...


def record_bits(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return random-looking bits of each number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    far_apart = np.uint64(seed * 0xD1342543DE82EF95 % 2**64)  # where another seed starts in the same sequence
    z = (numbers + far_apart) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def bits_of_records(start: int, count: int, seed: int) -> NDArray[np.uint64]:
    """Return 64 random-looking bits for each record from `start` on."""
    return record_bits(np.arange(start, start + count, dtype=np.uint64), seed)


def join_pool(
    pool: Sequence[bytes], lengths: NDArray[np.int64], chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """Return the chosen lines of a pool in one piece, and where each begins. The text may be written to."""
    offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
    np.cumsum(lengths[chosen], out=offsets[1:])
    text = np.frombuffer(bytearray().join(map(pool.__getitem__, chosen.tolist())), dtype=np.uint8)
    return offsets.astype(np.int32), text


def decode_lines(offsets: NDArray[np.int32], text: NDArray[np.uint8]) -> list[str]:
    """Return encoded lines as strings."""
    whole = text.tobytes()
    return [whole[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def write_stamps(text: NDArray[np.uint8], at: NDArray[np.int32], arrival_us: NDArray[np.int64]) -> None:
    """Overwrite the stamps that begin at the positions `at`."""
    days, us_of_day = np.divmod(arrival_us, _US_PER_DAY)
    ms = (us_of_day // 1000).astype(np.int32)
    stamps = np.empty((len(at), len(ZERO_STAMP)), dtype=np.uint8)
    stamps[:] = np.frombuffer(ZERO_STAMP, dtype=np.uint8)
    for day in np.unique(days):
        date = str(np.datetime64(int(day), "D")).encode()
        stamps[days == day, : len(date)] = np.frombuffer(date, dtype=np.uint8)
    for column, unit, base in _DIGITS:
        stamps[:, column] += (ms // unit % base).astype(np.uint8)
    text[at[:, None] + np.arange(len(ZERO_STAMP))] = stamps


def write_digits(
    text: NDArray[np.uint8], at: NDArray[np.int64] | NDArray[np.int32], numbers: NDArray[np.int64], width: int
) -> None:
    """Overwrite `width` digits from the positions `at` on with a number each."""
    for place in range(width):
        text[at + place] = (numbers // 10 ** (width - 1 - place) % 10 + ord("0")).astype(np.uint8)
