# SPDX-License-Identifier: Apache-2.0
"""Which batches are remembered: the newest, and of every size and allocation some, so that a lull unlearns nothing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from penstock.records import Allocation

_NEWEST = 40
"""Batches that stay whatever they are like: they say how fast the machine is now."""
_OF_A_KIND = 10
"""Batches of one size and allocation that stay beyond the newest."""
_MOST = 120
"""Batches that are remembered in all."""


@dataclass(frozen=True, slots=True)
class RememberedBatch:
    """A batch, and under which circumstances it ran.

    Attributes
    ----------
    at
        Its end, in seconds.
    rows, seconds, allocation
        Its records, its time, and what the operator had.
    youth
        Seconds since the query's process was started.
    life, speed_spell, cost_spell
        Numbers of the process, of the spell between two jumps of the machine's speed, and of that between two changes
        of what the query costs.
    """

    at: float
    rows: int
    seconds: float
    allocation: Allocation
    youth: float
    life: int = 0
    speed_spell: int = 0
    cost_spell: int = 0

    @property
    def kind(self) -> tuple[int, Allocation, int]:
        """Batches of one kind teach the same: about as many records, under the same allocation and cost."""
        return round(2.0 * math.log2(max(self.rows, 1))), self.allocation, self.cost_spell


class BatchMemory:
    """A bounded number of batches, in the order of their ends.

    Beyond the newest, the oldest batch of the kind with most batches goes first, so sizes and allocations that came
    long ago stay until their place is needed for others that came more often.
    """

    def __init__(self) -> None:
        self._batches: list[RememberedBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[RememberedBatch]:
        return iter(self._batches)

    def add(self, batch: RememberedBatch) -> None:
        """Remember a batch, and forget another where there are too many."""
        self._batches.append(batch)
        old = self._batches[:-_NEWEST]
        if not old:
            return
        kind, count = Counter(each.kind for each in old).most_common(1)[0]
        if count > _OF_A_KIND or len(self._batches) > _MOST:
            self._batches.remove(next(each for each in old if each.kind == kind))

    def move(self, batches: Iterable[RememberedBatch], speed_spell: int, cost_spell: int) -> None:
        """Let batches belong to other spells; those that were not remembered are from now on."""
        moved = set(batches)
        kept = [batch for batch in self._batches if batch not in moved]
        new = [replace(batch, speed_spell=speed_spell, cost_spell=cost_spell) for batch in moved]
        self._batches = sorted((*kept, *new), key=lambda batch: batch.at)

    def copy(self) -> BatchMemory:
        """The same batches, to be changed apart."""
        other = BatchMemory()
        other._batches = list(self._batches)
        return other
