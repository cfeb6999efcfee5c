# SPDX-License-Identifier: Apache-2.0
"""Throughput from the ends of batches: what was done between two ends, over the time between them.

The time from end to end holds everything a batch costs, also what passes between two batches, which the batch's own
duration leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """A batch has ended: when, and how many records were done by then in all."""

    at: float
    records_done: int


@dataclass(frozen=True, slots=True)
class Throughput:
    """Records per second, over batches."""

    batches: int
    mean: float
    """All records over all the time."""
    median: float
    p75: float
    p90: float
    p95: float

    def to_json(self) -> dict[str, float]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def batch_rates(ends: Sequence[BatchEnd]) -> list[float]:
    """Records per second of each batch but the first, whose beginning is not among the ends.

    Examples
    --------
    >>> batch_rates([BatchEnd(10.0, 100), BatchEnd(12.0, 300), BatchEnd(14.0, 500)])
    [100.0, 100.0]
    """
    return [
        (later.records_done - before.records_done) / max(later.at - before.at, 1e-9) for before, later in pairwise(ends)
    ]


def throughput_of(ends: Sequence[BatchEnd]) -> Throughput | None:
    """The throughput over these batches; None: fewer than two ends give none."""
    rates = batch_rates(ends)
    if not rates:
        return None
    first, last = ends[0], ends[-1]
    mean = (last.records_done - first.records_done) / max(last.at - first.at, 1e-9)
    return Throughput(len(rates), mean, *np.percentile(rates, [50, 75, 90, 95]).tolist())


def speed_up(throughput: float, executors: int, base: float, base_executors: int) -> tuple[float, float]:
    """Speed-up against the smallest size, and efficiency: the speed-up over how many times larger the size is.

    Examples
    --------
    >>> speed_up(180.0, 2, 100.0, 1)
    (1.8, 0.9)
    """
    gained = throughput / base
    return gained, gained / (executors / base_executors)
