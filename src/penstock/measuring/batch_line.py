# SPDX-License-Identifier: Apache-2.0
"""How the time of a batch depends on its records, seen from batches of several sizes.

A batch takes a fixed time and some time for each record. Where most of it is fixed, a batch that is as long as it
should be within a few percent may have a fraction of the records, or several times as many: with 1.8 of 2 s fixed, 5 %
of the time are half of the records. So the records that take a given time are found by the line through batches of
several sizes, not by their time alone.
"""

from __future__ import annotations

from itertools import combinations

_LONGER = 1.25
"""So many times the time of the shortest batch the longest has to take, or chance says what a record takes."""
_LARGER = 8.0
"""Or so many times its records: then records are seen to take hardly any time."""
_LEAST_PART = 0.01
"""Of a batch, that records take: less cannot be seen beside the rest."""


class BatchLine:
    """Takes batches of one turn, one by one."""

    def __init__(self) -> None:
        self._batches: list[tuple[int, float]] = []

    def add(self, rows: int, seconds: float) -> None:
        """Take in one batch."""
        self._batches.append((rows, seconds))

    @property
    def is_known(self) -> bool:
        """Whether batches were of sizes that differ enough."""
        rows, seconds = [one for one, _ in self._batches], [took for _, took in self._batches]
        is_seen = max(seconds) >= _LONGER * min(seconds) or max(rows) >= _LARGER * min(rows)
        return max(rows) > min(rows) and is_seen

    @property
    def seconds_per_record(self) -> float:
        """What a record more takes, at most what it takes if nothing is fixed.

        It is the median over pairs of batches (Theil and Sen), in which pairs count by how far apart they are: one
        batch that was held up moves it little.
        """
        slopes = sorted(
            ((b[1] - a[1]) / (b[0] - a[0]), abs(b[0] - a[0])) for a, b in combinations(self._batches, 2) if a[0] != b[0]
        )
        half, sofar, middle = 0.5 * sum(apart for _, apart in slopes), 0.0, 0.0
        for slope, apart in slopes:
            sofar, middle = sofar + apart, slope
            if sofar >= half:
                break
        most = sum(took for _, took in self._batches) / sum(rows for rows, _ in self._batches)
        return min(max(middle, _LEAST_PART * most), most)

    def rows_for(self, wanted_seconds: float, rows: float, seconds: float) -> float:
        """The records that take a time, from where batches of so many take so long."""
        return max(1.0, rows + (wanted_seconds - seconds) / self.seconds_per_record)
