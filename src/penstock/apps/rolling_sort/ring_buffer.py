# SPDX-License-Identifier: Apache-2.0
"""A ring buffer of records that is sorted at regular times. Pure Python: Spark hands it records and keeps its bytes.

Time is that of the records' arrivals: a sort is due at every multiple of the period, and done when the first record
after that time comes. So the results do not depend on where batches begin and end.
"""

from __future__ import annotations

import pickle
import zlib
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Sorted(NamedTuple):
    """What a sort of the buffer gave."""

    at_us: int
    """When the sort was due, in microseconds since 1970."""
    records: int
    first: str
    last: str
    checksum: int
    """CRC-32 of all records in order, each with a line end: two orders have two checksums."""


class RingBuffer:
    """The newest records of a group.

    Parameters
    ----------
    size
        How many records it holds; a new one replaces the oldest.
    every_us
        Time from one sort to the next.
    kept
        What `to_bytes` returned. None: no record yet.
    """

    def __init__(self, size: int, every_us: int, kept: bytes | None = None) -> None:
        self._every_us = every_us
        self._records: deque[str] = deque(maxlen=size)
        self._due_us: int | None = None
        if kept is not None:
            records, self._due_us = pickle.loads(kept)
            self._records.extend(records)

    def to_bytes(self) -> bytes:
        """Everything, for the next batch."""
        return pickle.dumps((list(self._records), self._due_us), protocol=5)

    def take(self, records: Iterable[tuple[int, str]]) -> list[Sorted]:
        """Take in (arrival in microseconds, text) in order; return the sorts that came due before one of them."""
        results = []
        for arrival_us, text in records:
            if self._due_us is None or arrival_us >= self._due_us:
                if self._due_us is not None:
                    results.append(self._sort(self._due_us))
                self._due_us = (arrival_us // self._every_us + 1) * self._every_us
            self._records.append(text)
        return results

    def _sort(self, at_us: int) -> Sorted:
        in_order = sorted(self._records)
        checksum = zlib.crc32("".join(f"{text}\n" for text in in_order).encode())
        return Sorted(at_us, len(in_order), in_order[0], in_order[-1], checksum)
