# SPDX-License-Identifier: Apache-2.0
"""Random numbers by record number: what a record draws depends on the seed, the stream and its number alone.

So a run gives the same answer however control instants cut it, and two policies see the same service times. Numbers
are drawn in blocks from Philox, which counts under a key (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
easy as 1, 2, 3", SC 2011): the key is seed and stream, the block's number is the counter's high word.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from penstock.errors import ConfigurationError
from penstock.ports import FloatArray

_BLOCK = 1 << 14
_LARGEST_SEED = (1 << 64) - 1


class IndexedDraws:
    """Random numbers by index.

    Parameters
    ----------
    draw
        Gives `size` numbers out of a generator.
    seed
        Of the run, a whole number from 0 to 2^64 - 1.
    stream
        A name for this sequence, unlike the run's others; the same name gives the same numbers.
    """

    def __init__(self, draw: Callable[[np.random.Generator, int], FloatArray], seed: int, stream: str) -> None:
        if not 0 <= seed <= _LARGEST_SEED:
            raise ConfigurationError(f"seed: {seed} is not a whole number from 0 to 2^64 - 1", field="seed")
        self._draw = draw
        number = int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8], "little")
        self._key = np.array([seed, number], dtype=np.uint64)
        self._cached: tuple[int, FloatArray] | None = None

    def between(self, start: int, stop: int) -> FloatArray:
        """Give the numbers `start` to `stop` (not included)."""
        first, last = start // _BLOCK, (stop - 1) // _BLOCK
        if first == last:
            return self._block(first)[start - first * _BLOCK : stop - first * _BLOCK]
        values = np.empty(max(0, stop - start))
        at = 0
        for block in range(first, last + 1) if len(values) else ():
            part = self._block(block)[max(0, start - block * _BLOCK) : stop - block * _BLOCK]
            values[at : at + len(part)] = part
            at += len(part)
        return values

    def _block(self, number: int) -> FloatArray:
        if self._cached is None or self._cached[0] != number:
            counter = np.array([0, 0, 0, number], dtype=np.uint64)
            rng = np.random.Generator(np.random.Philox(key=self._key, counter=counter))
            self._cached = (number, self._draw(rng, _BLOCK))
        return self._cached[1]


def uniforms(seed: int, stream: str) -> IndexedDraws:
    """Give uniform numbers from 0 to 1 by index."""
    return IndexedDraws(lambda rng, size: rng.random(size), seed, stream)
