# SPDX-License-Identifier: Apache-2.0
"""Generates lines of text: made-up words whose frequencies follow Zipf's law, as those of a book do.

The lines come from a pool of some thousands, about as many as a novel has: benchmarks that read a book again and
again see such an input. Lines hold lower-case words and single spaces, nothing else.
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.generated_lines import bits_of_records, decode_lines, join_pool

WORDS = 5000
"""Different words."""
_POOL_SIZE = 8192
_WORDS_PER_LINE = (6, 14)
_FIRST = ("", "b", "br", "c", "ch", "d", "f", "g", "h", "l", "m", "n", "p", "r", "s", "st", "t", "th", "v", "w")
_VOWELS = ("a", "e", "i", "o", "u", "ea", "ou")
_LAST = ("", "", "l", "m", "n", "nd", "r", "s", "st", "t")
_ENDINGS = ("", "", "", "", "s", "ed", "er", "ing", "ly")


class TextLines:
    """Lines of text by record number.

    Parameters
    ----------
    seed
        Another seed, other words and lines.
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self._pool = _pool(seed)
        self._lengths = np.array([len(line) for line in self._pool], dtype=np.int64)

    def encode(self, start: int, arrival_us: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the lines of the records from `start` on, as `GeneratedLines` says. Their times do not matter."""
        bits = bits_of_records(start, len(arrival_us), self.seed)
        return join_pool(self._pool, self._lengths, (bits & np.uint64(_POOL_SIZE - 1)).astype(np.int64))

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        return decode_lines(*self.encode(start, arrival_us))


@lru_cache(maxsize=4)
def _pool(seed: int) -> tuple[bytes, ...]:
    rng = random.Random(f"text lines {seed}")
    words = made_up_words(rng, WORDS)
    weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
    counts = [rng.randint(*_WORDS_PER_LINE) for _ in range(_POOL_SIZE)]
    return tuple(" ".join(rng.choices(words, cum_weights=weights, k=count)).encode() for count in counts)


def made_up_words(rng: random.Random, count: int) -> list[str]:
    """Return so many different words, roughly the short ones first, as in a language."""
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = 1 + (len(words) > 150) + (rng.random() < 0.3)
        stem = "".join(rng.choice(_FIRST) + rng.choice(_VOWELS) + rng.choice(_LAST) for _ in range(syllables))
        words[stem + rng.choice(_ENDINGS)] = None
    return list(words)
