# SPDX-License-Identifier: Apache-2.0
"""Generates labelled instances for a learning classifier: ``7 03 99 45 ...``, a class, then its attributes.

Attributes are whole numbers, low (0 to 39) or high (60 to 99) with equal probability, and independent. A random tree of
tests gives the class: each of its tests asks whether another attribute is high, and divides the classes that are left
in two, so that the tests near the root tell most, as in data that a tree can learn. A fraction of the classes is noise.
"""

from __future__ import annotations

import random
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penstock.arrivals.generated_lines import bits_of_records, decode_lines, record_bits

ATTRIBUTES = 200
CLASSES = 10
_LOW = 40
_GAP = 20
_DEPTH = 4
_NOISE_SEED = 0x5EED


class FeatureLines:
    """Labelled instances by record number.

    Parameters
    ----------
    seed
        Another seed, another concept and other instances.
    attributes
        How many; a multiple of 8 from 16 on.
    classes
        How many, from 2 to 10.
    noise
        The fraction of instances whose class is random.
    """

    def __init__(
        self, seed: int = 0, attributes: int = ATTRIBUTES, classes: int = CLASSES, noise: float = 0.05
    ) -> None:
        self.seed, self.attributes, self.classes, self.noise = seed, attributes, classes, noise
        self._tests, self._labels = _concept(seed, attributes, classes)

    def instances(self, start: int, count: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return the attributes (a row for each record from `start` on) and the classes."""
        words = self.attributes // 8
        numbers = np.arange(start * words, (start + count) * words, dtype=np.uint64)
        some = record_bits(numbers, self.seed).astype("<u8").view(np.uint8).reshape(count, self.attributes)
        even = (some.astype(np.uint16) * (2 * _LOW) >> 8).astype(np.uint8)
        values = even + _GAP * (even >= _LOW).astype(np.uint8)
        return values, self._classes_of(values, bits_of_records(start, count, self.seed ^ _NOISE_SEED))

    def encode(self, start: int, arrival_us: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Return the lines of the records from `start` on, as `GeneratedLines` says. Their times do not matter."""
        values, classes = self.instances(start, len(arrival_us))
        rows = np.full((len(values), 1 + 3 * self.attributes), ord(" "), dtype=np.uint8)
        rows[:, 0] = classes + ord("0")
        rows[:, 2::3] = values // 10 + ord("0")
        rows[:, 3::3] = values % 10 + ord("0")
        return np.arange(len(values) + 1, dtype=np.int32) * rows.shape[1], rows.reshape(-1)

    def lines(self, start: int, arrival_us: NDArray[np.int64]) -> list[str]:
        """Return the same lines as strings."""
        return decode_lines(*self.encode(start, arrival_us))

    def _classes_of(self, values: NDArray[np.uint8], bits: NDArray[np.uint64]) -> NDArray[np.uint8]:
        rows, node = np.arange(len(values)), np.zeros(len(values), dtype=np.int64)
        for _ in range(_DEPTH):
            is_high = values[rows, self._tests[node]] >= _LOW
            node = 2 * node + 1 + is_high
        classes = self._labels[node - len(self._tests)]
        is_noise = (bits >> np.uint64(32)).astype(np.float64) / 2.0**32 < self.noise
        return np.where(is_noise, (bits % np.uint64(self.classes)).astype(np.uint8), classes)


@lru_cache(maxsize=4)
def _concept(seed: int, attributes: int, classes: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return the attribute of each inner node of a complete tree, and the class of each leaf."""
    rng = random.Random(f"features {seed}")
    inner, leaves = 2**_DEPTH - 1, 2**_DEPTH
    tests = np.array(rng.sample(range(attributes), inner), dtype=np.int64)
    names = rng.sample(range(classes), classes)
    return tests, np.array(_halve(names, leaves), dtype=np.uint8)


def _halve(names: list[int], leaves: int) -> list[int]:
    """Return the class of each leaf of a complete tree that divides classes in two as long as there are several."""
    if len(names) == 1 or leaves == 1:
        return names[:1] * leaves
    middle = (len(names) + 1) // 2
    return _halve(names[:middle], leaves // 2) + _halve(names[middle:], leaves // 2)
