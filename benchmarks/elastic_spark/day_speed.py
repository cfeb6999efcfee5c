# SPDX-License-Identifier: Apache-2.0
"""How fast the machine was over the day, beside what sizes did before it, by the day's batches.

A shared machine is not as fast at one time as at another: the same three executors did 4,000 records a second and, two
minutes later, 2,100. Hindsight knows the day, so it knows that. Sizes compare as they did before the day, when all were
measured within some minutes; how fast they are, the batches say. Records always waited, so batches followed each other
without a pause, and one took from the end of the batch before it to its own:

    seconds = (f + (1 / T_n - f / C) rows) / v

where T_n is what n executors do in full batches of C records, f the fixed time of a batch, and v the speed. f is that
with which the speeds of neighbouring batches differ least: batches of all sizes follow each other, the machine does
not follow their sizes. One batch says little, since looks are a second apart, so the speed is a median over five.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.records import Allocation, Observation

_SMOOTHED = 5
"""Batches that a speed is the median of: about a minute of them."""
_LEAST_BATCHES = 8
_TRIED = 200

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class DayBatch:
    """A batch that ran under one allocation from its start to its end.

    Attributes
    ----------
    at
        The middle of it.
    """

    allocation: Allocation
    rows: int
    seconds: float
    at: float


def day_batches(looks: Sequence[Observation]) -> list[DayBatch]:
    """The batches that followed on another, and during which nothing changed; exact to the time between two looks.

    The first one on new executors is left out: what these cost until they work is counted for itself.
    """
    ends = [
        place
        for place, (before, after) in enumerate(pairwise(looks), start=1)
        if after.last_batch_id is not None and after.last_batch_id != before.last_batch_id
    ]
    found: list[DayBatch] = []
    has_new = False
    for first, last in pairwise(ends):
        had = [look.cluster.observed for look in looks[first : last + 1]]
        before, after = looks[first].records_done, looks[last].records_done
        allocation, began, ended = had[-1], looks[first].at, looks[last].at
        if len(set(had)) > 1:
            has_new = any(b is not None and a is not None and a.executors > b.executors for b, a in pairwise(had))
        elif has_new:
            has_new = False
        elif allocation is not None and before is not None and after is not None and after > before:
            found.append(DayBatch(allocation, after - before, ended - began, 0.5 * (began + ended)))
    return found


@dataclass(frozen=True, slots=True)
class DaySpeed:
    """The speed of the machine over the day; 1: as before it.

    Attributes
    ----------
    at, speed
        What it was in the middle of each batch.
    fixed_seconds
        Fixed time of a batch.
    """

    at: Floats
    speed: Floats
    fixed_seconds: float

    def __call__(self, at: Floats) -> Floats:
        """The speed at these instants."""
        return np.interp(at, self.at, self.speed)


def day_speed(batches: Sequence[DayBatch], sustained: Mapping[Allocation, float], cap: int) -> DaySpeed:
    """How fast the machine was, beside what each of these sizes did in full batches before the day."""
    if len(batches) < _LEAST_BATCHES:
        raise SystemExit(f"{len(batches)} batches ran under one size: too few to say how fast the day was")
    rows, seconds, at = (np.array([getattr(batch, name) for batch in batches]) for name in ("rows", "seconds", "at"))
    each = 1.0 / np.array([sustained[batch.allocation] for batch in batches])

    def speeds(fixed: float) -> Floats:
        found: Floats = np.log((fixed + (each - fixed / cap) * rows) / seconds)
        return found

    # No fixed time is as long as a full batch of the largest size.
    tried = np.linspace(0.0, 0.9 * cap * float(each.min()), _TRIED)
    fixed = float(min(tried, key=lambda each_tried: float(np.sum(np.abs(np.diff(speeds(each_tried)))))))
    raw = speeds(fixed)
    half = _SMOOTHED // 2
    smooth = [float(np.median(raw[max(0, i - half) : i + half + 1])) for i in range(len(raw))]
    return DaySpeed(at.astype(np.float64), np.exp(smooth), fixed)
