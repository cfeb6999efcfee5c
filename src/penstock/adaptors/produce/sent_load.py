# SPDX-License-Identifier: Apache-2.0
"""How much of a load a broker has, by the numbers that its records carry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentRecord:
    """The number of a record, and when it was due, in microseconds since 1970."""

    number: int
    due_us: int


@dataclass(frozen=True, slots=True)
class SentRecords:
    """The records of a load that are at the broker."""

    newest: SentRecord
    all_before: int
    """Every record with a lower number is there."""
    beyond: frozenset[int]
    """Those at or above `all_before` that are there."""

    def missing(self, total: int) -> list[range]:
        """The numbers, below `total`, of the records that are not there.

        Examples
        --------
        >>> SentRecords(SentRecord(6, 0), 3, frozenset({4, 6})).missing(9)
        [range(3, 4), range(5, 6), range(7, 9)]
        """
        gaps, start = [], self.all_before
        for number in [*sorted(self.beyond), total]:
            if start < min(number, total):
                gaps.append(range(start, min(number, total)))
            start = number + 1
        return gaps
