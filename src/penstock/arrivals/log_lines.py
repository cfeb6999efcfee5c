# SPDX-License-Identifier: Apache-2.0
"""Generates system log lines by the million: ``2026-01-31T12:34:56.789 INFO storage.BlockManager: message text``.

The record's number and the seed choose a message from a prepared pool of some thousands. The timestamp (UTC) is the
record's arrival time. Some lines are malformed: they lack the level and the component, and some also the timestamp.
Components occur as in real logs, a few often and most seldom (Zipf).
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.log_templates import COMPONENTS, MALFORMED, fill
from penstock.errors import ConfigurationError

_POOL_SIZE = 8192
_MALFORMED_POOL = 256
_ZERO_STAMP = b"0000-00-00T00:00:00.000"
_LEVEL_WEIGHTS = {"DEBUG": 8, "INFO": 16, "WARN": 2, "ERROR": 1}  # where one component writes several
_US_PER_DAY = 86_400_000_000
# Column of each digit of the time of day in the stamp, and its value in milliseconds.
_DIGITS = (
    (11, 36_000_000, 10), (12, 3_600_000, 10), (14, 600_000, 6), (15, 60_000, 10), (17, 10_000, 6),
    (18, 1_000, 10), (20, 100, 10), (21, 10, 10), (22, 1, 10),
)  # fmt: skip


class LogLines:
    """Log lines by record number.

    Parameters
    ----------
    seed
        Another seed, other lines.
    malformed
        The fraction of malformed lines, from 0 to 1.
    """

    def __init__(self, seed: int = 0, malformed: float = 0.01) -> None:
        if not 0 <= malformed <= 1:
            raise ConfigurationError(
                f"malformed: {malformed!r} is not a fraction from 0 to 1, such as 0.01", field="malformed"
            )
        self.seed = seed
        self.malformed = malformed
        self._pool = _pool(seed)
        self._lengths = np.array([len(line) for line in self._pool], dtype=np.int64)
        self._is_stamped = np.array([line.startswith(_ZERO_STAMP) for line in self._pool])

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
        chosen = self._choose(start, len(arrival_us))
        offsets = np.zeros(len(chosen) + 1, dtype=np.int64)
        np.cumsum(self._lengths[chosen], out=offsets[1:])
        text = np.frombuffer(bytearray().join(map(self._pool.__getitem__, chosen.tolist())), dtype=np.uint8)
        stamped = self._is_stamped[chosen]
        _write_stamps(text, offsets[:-1][stamped], arrival_us[stamped])
        return offsets.astype(np.int32), text

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        offsets, text = self.encode(start, arrival_us)
        whole = text.tobytes()
        return [whole[a:b].decode() for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]

    def _choose(self, start: int, count: int) -> NDArray[np.int64]:
        bits = _mix(np.arange(start, start + count, dtype=np.uint64), self.seed)
        well_formed = bits & np.uint64(_POOL_SIZE - 1)
        wrong = _POOL_SIZE + (bits & np.uint64(_MALFORMED_POOL - 1))
        fraction = (bits >> np.uint64(32)).astype(np.float64) / 2.0**32
        return np.where(fraction < self.malformed, wrong, well_formed).astype(np.int64)


def _mix(numbers: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Return random-looking bits of each number: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    far_apart = np.uint64(seed * 0xD1342543DE82EF95 % 2**64)  # where another seed starts in the same sequence
    z = (numbers + far_apart) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    """Return the well-formed lines, then the malformed ones. Their stamps are still zero."""
    rng = random.Random(f"log lines {seed}")
    weights = [1 / rank for rank in range(1, len(COMPONENTS) + 1)]
    lines = []
    for component, templates in rng.choices(list(COMPONENTS.items()), weights, k=_POOL_SIZE):
        ((level, message),) = rng.choices(templates, [_LEVEL_WEIGHTS[level] for level, _ in templates])
        lines.append(_ZERO_STAMP + f" {level} {component}: {fill(message, rng)}".encode())
    for number in range(_MALFORMED_POOL):
        line = fill(MALFORMED[number % len(MALFORMED)], rng).encode()
        lines.append(_ZERO_STAMP + b" " + line if number % 2 else line)
    return tuple(lines)


def _write_stamps(text: NDArray[np.uint8], at: NDArray[np.int64], arrival_us: NDArray[np.int64]) -> None:
    """Overwrite the stamps that begin at the positions `at`."""
    days, us_of_day = np.divmod(arrival_us, _US_PER_DAY)
    ms = (us_of_day // 1000).astype(np.int32)
    stamps = np.empty((len(at), len(_ZERO_STAMP)), dtype=np.uint8)
    stamps[:] = np.frombuffer(_ZERO_STAMP, dtype=np.uint8)
    for day in np.unique(days):
        date = str(np.datetime64(int(day), "D")).encode()
        stamps[days == day, : len(date)] = np.frombuffer(date, dtype=np.uint8)
    for column, unit, base in _DIGITS:
        stamps[:, column] += (ms // unit % base).astype(np.uint8)
    text[at[:, None] + np.arange(len(_ZERO_STAMP))] = stamps
