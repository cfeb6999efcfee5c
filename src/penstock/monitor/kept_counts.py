# SPDX-License-Identifier: Apache-2.0
"""Counts of a histogram as a short text: which bins are filled, and by how many, packed."""

from __future__ import annotations

import base64
import binascii
import zlib

import numpy as np
from numpy.typing import NDArray

_WORD = np.dtype("<i8")


def packed_counts(bins: NDArray[np.int64], counts: NDArray[np.int64]) -> str:
    """Which bins are filled (rising), and by how many, as text. They are neighbours mostly: distances are small."""
    words = np.concatenate([np.diff(bins, prepend=0), counts]).astype(_WORD)
    return base64.b64encode(zlib.compress(words.tobytes(), 1)).decode()


def unpacked_counts(text: str, size: int) -> NDArray[np.int64]:
    """The counts of so many bins; raises ValueError where the text does not hold that."""
    most = 2 * size * _WORD.itemsize
    try:
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(base64.b64decode(text, validate=True), most)
    except (binascii.Error, zlib.error) as fault:
        raise ValueError(f"counts are not packed as they should be: {fault}") from fault
    if unpacker.unconsumed_tail or not unpacker.eof or len(raw) % (2 * _WORD.itemsize):
        raise ValueError("counts are not packed as they should be: their number is wrong")
    words = np.frombuffer(raw, dtype=_WORD)
    distances, filled = np.split(words, 2)
    bins = np.cumsum(distances)
    if len(bins) and (np.any(distances[1:] <= 0) or bins[0] < 0 or bins[-1] >= size or np.any(filled <= 0)):
        raise ValueError("counts are not packed as they should be: bins or counts are out of range")
    counts = np.zeros(size, dtype=np.int64)
    counts[bins] = filled
    return counts
