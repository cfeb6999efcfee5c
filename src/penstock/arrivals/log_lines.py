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

from penstock.arrivals.generated_lines import ZERO_STAMP, decode_lines, join_pool, record_bits, write_stamps
from penstock.arrivals.log_templates import COMPONENTS, MALFORMED, fill
from penstock.errors import ConfigurationError

_POOL_SIZE = 8192
_MALFORMED_POOL = 256
_LEVEL_WEIGHTS = {"DEBUG": 8, "INFO": 16, "WARN": 2, "ERROR": 1}  # where one component writes several


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
        self._is_stamped = np.array([line.startswith(ZERO_STAMP) for line in self._pool])

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
        offsets, text = join_pool(self._pool, self._lengths, chosen)
        stamped = self._is_stamped[chosen]
        write_stamps(text, offsets[:-1][stamped], arrival_us[stamped])
        return offsets, text

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        return decode_lines(*self.encode(start, arrival_us))

    def _choose(self, start: int, count: int) -> NDArray[np.int64]:
        bits = record_bits(np.arange(start, start + count, dtype=np.uint64), self.seed)
        well_formed = bits & np.uint64(_POOL_SIZE - 1)
        wrong = _POOL_SIZE + (bits & np.uint64(_MALFORMED_POOL - 1))
        fraction = (bits >> np.uint64(32)).astype(np.float64) / 2.0**32
        return np.where(fraction < self.malformed, wrong, well_formed).astype(np.int64)


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    """Return the well-formed lines, then the malformed ones. Their stamps are still zero."""
    rng = random.Random(f"log lines {seed}")
    weights = [1 / rank for rank in range(1, len(COMPONENTS) + 1)]
    lines = []
    for component, templates in rng.choices(list(COMPONENTS.items()), weights, k=_POOL_SIZE):
        ((level, message),) = rng.choices(templates, [_LEVEL_WEIGHTS[level] for level, _ in templates])
        lines.append(ZERO_STAMP + f" {level} {component}: {fill(message, rng)}".encode())
    for number in range(_MALFORMED_POOL):
        line = fill(MALFORMED[number % len(MALFORMED)], rng).encode()
        lines.append(ZERO_STAMP + b" " + line if number % 2 else line)
    return tuple(lines)
