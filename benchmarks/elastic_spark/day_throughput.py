# SPDX-License-Identifier: Apache-2.0
"""What every size sustained in the day itself, by its batches.

The machine is not as fast at one time as at another, and executors that have just come are slower than old ones. What
was measured before the day is therefore not what the day had, and hindsight knows the day. Records always waited, so
batches followed each other without a pause, and one took from the end of the batch before it to its own:

    seconds = f + (a / n + b) rows

with n executors, by non-negative least squares of relative errors: the batch time that Model 1 of Imai, Patterson and
Varela is made of (Eq. 4), without the terms of communication. One batch alone says little, since batches of one size
differ by a third, and looks are a second apart; all together give three figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import nnls

from penstock.records import Allocation, Observation


@dataclass(frozen=True, slots=True)
class DayBatch:
    """A batch that ran under one allocation from its start to its end."""

    allocation: Allocation
    rows: int
    seconds: float


def day_batches(looks: Sequence[Observation]) -> list[DayBatch]:
    """The batches that followed on another, and during which nothing changed; exact to the time between two looks."""
    ends = [
        place
        for place, (before, after) in enumerate(pairwise(looks), start=1)
        if after.last_batch_id is not None and after.last_batch_id != before.last_batch_id
    ]
    found = []
    for first, last in pairwise(ends):
        had = {look.cluster.observed for look in looks[first : last + 1]}
        before, after = looks[first].records_done, looks[last].records_done
        allocation = next(iter(had))
        if len(had) == 1 and allocation is not None and before is not None and after is not None and after > before:
            found.append(DayBatch(allocation, after - before, looks[last].at - looks[first].at))
    return found


def day_throughput(batches: Sequence[DayBatch], cap: int, sizes: Iterable[Allocation]) -> dict[Allocation, float]:
    """Records a second of full batches in the day, for each of these sizes, which have the same CPU share."""
    table = [[1.0, batch.rows / batch.allocation.executors, batch.rows] for batch in batches]
    if len({batch.allocation for batch in batches}) < 2:
        raise SystemExit("fewer than two sizes had a batch from its start to its end: the day was too short")
    seconds = np.array([batch.seconds for batch in batches])
    fixed, parallel, serial = nnls(np.array(table) / seconds[:, None], np.ones(len(batches)))[0]
    return {size: cap / (fixed + cap * (parallel / size.executors + serial)) for size in sizes}
