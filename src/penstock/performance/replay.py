# SPDX-License-Identifier: Apache-2.0
"""Arrival times sent through one operator: when each record is done, by Lindley's recursion or batch by batch.

Batches take their mean times, and start as the engine starts them: at a trigger, or at once where the batch before has
outlasted it. The simulator does the same record by record, with variable times, and shares no code with this.
"""

from __future__ import annotations

import math

import numpy as np

from penstock.performance.queueing.micro_batch.server import MicroBatch
from penstock.ports import FloatArray


def record_ends(came: FloatArray, work: FloatArray, executors: int, *, in_order: bool = True) -> FloatArray:
    """When records are done that came then, each executor taking every so many in turn (Lindley 1952).

    `in_order`: records are handed on in the order in which they came.
    """
    if executors > 1:
        ended = np.empty_like(came)
        for first in range(executors):
            ended[first::executors] = record_ends(came[first::executors], work[first::executors], 1)
        return np.maximum.accumulate(ended) if in_order else ended
    served = np.cumsum(work)
    # D_n = max over k <= n of (A_k + S_k + ... + S_n). In place: a new array for each step costs as much as the step.
    ended = work - served
    ended += came
    np.maximum.accumulate(ended, out=ended)
    ended += served
    return ended


def batch_ends(came: FloatArray, server: MicroBatch, running: float) -> FloatArray:
    """When records are done that came then, all that wait riding together; one batch is `running` so long already."""
    ended = np.empty_like(came)
    first, free, cap = 0, running, server.cap or len(came)
    while first < len(came):
        start = max(free, float(came[first]))
        if server.trigger is not None and start > free:  # nobody waits: the next trigger takes what has come
            start = _multiple_from(server.trigger, start)
        last = min(int(np.searchsorted(came, start, side="right")), first + cap)
        end = start + server.fixed + server.per_record * (last - first)
        ended[first:last] = end
        # A batch that outlasts the next trigger is followed at once.
        free = end
        if server.trigger is not None:
            free = max(end, _multiple_from(server.trigger, math.nextafter(start, math.inf)))
        first = last
    return ended


def _multiple_from(interval: float, at: float) -> float:
    """The first multiple of the interval at or after an instant, as the product is rounded."""
    count = math.ceil(at / interval)
    while (count - 1) * interval >= at:
        count -= 1
    while count * interval < at:
        count += 1
    return count * interval


def selected(selectivity: float, ended: FloatArray, origin: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The records that remain, evenly spread."""
    if selectivity == 1.0:
        return ended, origin
    copies = np.diff(np.floor(selectivity * np.arange(len(ended) + 1))).astype(np.int64)
    return np.repeat(ended, copies), np.repeat(origin, copies)


def statistic(times: FloatArray, p: float | None) -> float:
    """The mean (`p` None) or a percentile by rank, as latencies are accounted for everywhere; 0 without records."""
    if not len(times):
        return 0.0
    if p is None:
        return float(times.mean())
    rank = max(1, math.ceil(p * len(times))) - 1
    return float(np.partition(times, rank)[rank])
