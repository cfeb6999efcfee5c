# SPDX-License-Identifier: Apache-2.0
"""Arrivals drawn from a Markovian arrival process, with random access in little memory.

The records are split into blocks. The first use makes one pass over all blocks and keeps only the time and the phase at
which each block starts. A block is then drawn again, identically, from its own random stream. The pass takes about a
second for each million records.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from penstock.arrivals.contract import check_range
from penstock.errors import ConfigurationError, InvalidProcessError
from penstock.markov import MAP
from penstock.ports import FloatArray

_RECORDS_PER_BLOCK = 1 << 15
_MOST_RECORDS = 10_000_000_000


@dataclass(frozen=True)
class MapArrivals:
    """Arrivals of a stationary process (:class:`penstock.arrivals.contract.Arrivals`), the same for the same seed.

    Parameters
    ----------
    process
        Its times are seconds.
    seconds
        The duration. Give this or `count`.
    count
        The number of records. Give this or `seconds`.
    seed
        A whole number from 0. Different releases of numpy may draw different numbers.

    Examples
    --------
    >>> MapArrivals(MAP.poisson(10.0), count=3, seed=1).total
    3
    """

    process: MAP
    seconds: float | None = None
    count: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 1 << 64:
            raise ConfigurationError(f"seed: {self.seed} is not a whole number from 0 to 2^64 - 1", field="seed")
        if (self.seconds is None) == (self.count is None):
            raise ConfigurationError("duration: give either how long (duration) or how many (count)", field="duration")
        if self.count is not None and not 1 <= self.count <= _MOST_RECORDS:
            raise ConfigurationError(f"count: {self.count} is not a number from 1 to {_MOST_RECORDS}", field="count")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise ConfigurationError(f"duration: {self.seconds} is not a duration above 0", field="duration")
        if self.seconds is not None and self.seconds * self.process.rate > _MOST_RECORDS:
            raise ConfigurationError(
                f"duration: {self.seconds:g} s at {self.process.rate:g} records per second are more than "
                f"{_MOST_RECORDS}; "
                "give a shorter duration or a lower rate",
                field="duration",
            )
        if not self.total:
            raise ConfigurationError(
                f"seed: no record arrives within {self.seconds:g} s with seed {self.seed}; give another seed, a higher "
                "rate or a longer duration",
                field="seed",
            )

    @property
    def duration_seconds(self) -> float:
        """The given duration, or the time of the last record."""
        return self.seconds if self.seconds is not None else self._blocks[-1][0]

    @cached_property
    def total(self) -> int:
        """The number of records."""
        if self.count is not None:
            return self.count
        last = len(self._blocks) - 2
        return last * _RECORDS_PER_BLOCK + int(
            np.searchsorted(_block_times(self, last), self.duration_seconds, side="right")
        )

    def times(self, start: int, stop: int) -> FloatArray:
        """Return when the records `start` to `stop` (not included) arrive."""
        check_range(start, stop, self.total)
        if start == stop:
            return np.empty(0)
        blocks = range(start // _RECORDS_PER_BLOCK, (stop - 1) // _RECORDS_PER_BLOCK + 1)
        return np.concatenate(
            [
                _block_times(self, b)[max(0, start - b * _RECORDS_PER_BLOCK) : stop - b * _RECORDS_PER_BLOCK]
                for b in blocks
            ]
        )

    def count_until(self, t: float) -> int:
        """Return how many records have arrived at `t`."""
        starts = np.array([start for start, _ in self._blocks[:-1]])
        block = int(np.searchsorted(starts, t, side="right")) - 1
        if block < 0:
            return 0
        inside = int(np.searchsorted(_block_times(self, block), t, side="right"))
        return min(self.total, block * _RECORDS_PER_BLOCK + inside)

    @cached_property
    def _blocks(self) -> list[tuple[float, int]]:
        """The time and phase at which each block starts. The last entry is the end."""
        first = self.process.sampler(_generator(self.seed, (1 << 64) - 1)).phase
        blocks, seen = [(0.0, first)], 0
        while self.count is None or seen < self.count:
            if self.seconds is not None and blocks[-1][0] > self.seconds:
                break
            size = _RECORDS_PER_BLOCK if self.count is None else min(_RECORDS_PER_BLOCK, self.count - seen)
            times, phase = _draw(self, len(blocks) - 1, blocks[-1], size)
            blocks.append((float(times[-1]), phase))
            seen += size
        return blocks


def _generator(seed: int, stream: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, stream], dtype=np.uint64)))


def _draw(arrivals: MapArrivals, block: int, at: tuple[float, int], size: int) -> tuple[FloatArray, int]:
    start, phase = at
    draws = _generator(arrivals.seed, block)
    sampler = arrivals.process.sampler(draws, start=phase)
    times: FloatArray = start + np.cumsum(sampler.draw(size, draws))
    return times, sampler.phase


@lru_cache(maxsize=16)
def _block_times(arrivals: MapArrivals, block: int) -> FloatArray:
    size = (
        _RECORDS_PER_BLOCK
        if arrivals.count is None
        else min(_RECORDS_PER_BLOCK, arrivals.count - block * _RECORDS_PER_BLOCK)
    )
    times, _ = _draw(arrivals, block, arrivals._blocks[block], size)
    times.setflags(write=False)
    return times


def load_map(path: str | Path) -> MAP:
    """Return the process in a JSON file: an object with D0 and D1, or the best of what ``penstock fit --json`` prints.

    Raises
    ------
    ConfigurationError
        The file cannot be read or is not such an object, or the matrices are not a process (with the broken condition).
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as fault:
        raise ConfigurationError(f"map: {path} cannot be read: {fault.strerror}", field="map") from fault
    except (ValueError, RecursionError) as fault:
        raise ConfigurationError(
            f'map: {path} is not JSON: {fault}; write an object such as {{"D0": [[-1]], "D1": [[1]]}}', field="map"
        ) from fault
    if isinstance(document, dict) and isinstance(document.get("maps"), list) and document["maps"]:
        document = document["maps"][0]
    if not isinstance(document, dict) or not {"D0", "D1"} <= set(document):
        raise ConfigurationError(
            f'map: {path} has no D0 and D1; write an object such as {{"D0": [[-1]], "D1": [[1]]}}', field="map"
        )
    try:
        return MAP.from_json(document)
    except InvalidProcessError as fault:
        raise ConfigurationError(f"map: {path} is not an arrival process: {fault}", field="map") from fault
