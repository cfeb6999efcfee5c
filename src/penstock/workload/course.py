# SPDX-License-Identifier: Apache-2.0
"""The course of a window: the pieces of constant rate that tell its queue at every load.

Neighbouring pieces are joined, cheapest first (as in bottom-up segmentation, Keogh, Chu, Hart and Pazzani, "An online
algorithm for segmenting time series", 2001). What it costs to join two is what a queue would notice: the arrivals are
moved by up to h of them, which changes the wait of those arrivals by h times the load, relative to the replayed mean
at the load from which on the faster piece queues.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.replay_queue import ReplayedQueue

FloatArray = npt.NDArray[np.float64]

_ATOMS = 512
PIECES = 64


@dataclass(frozen=True, eq=False)
class Course:
    """Arrivals and length of each piece, in units of the window's mean gap; `cost` is how much of the queue is lost."""

    counts: FloatArray
    lengths: FloatArray
    cost: float

    @property
    def rates(self) -> FloatArray:
        """Arrivals per unit of time in each piece."""
        return np.asarray(self.counts / self.lengths)


def course_of(values: FloatArray, queue: ReplayedQueue, pieces: int = PIECES) -> Course:
    """Return the course of a window in at most so many pieces.

    Examples
    --------
    >>> from penstock.workload.replay_queue import replay
    >>> window = np.concatenate([np.full(6000, 0.1), np.full(3000, 2.0)])
    >>> course = course_of(window, replay(window, np.random.default_rng(1)), 2)
    >>> course.counts.round(-2).tolist(), course.cost < 0.05
    ([6000.0, 3000.0], True)
    """
    n = values.size
    atoms = min(_ATOMS, n // 4)
    edges = np.linspace(0, n, atoms + 1).astype(np.int64)
    until = np.concatenate([[0.0], np.cumsum(values / values.mean())])
    counts = np.diff(edges).astype(np.float64).tolist()
    lengths = np.maximum(np.diff(until[edges]), 1e-9).tolist()
    # Looked up often, so from a table: what a unit of h costs by the rate from which on a piece queues.
    grid = np.linspace(0.0, 1.0, 201)
    held = np.clip(grid, queue.utilisations[0], queue.utilisations[-1])
    price = (held / np.exp(np.interp(held, queue.utilisations, np.log(queue.responses))) / n).tolist()

    def cost(i: int, j: int) -> float:
        c1, d1, c2, d2 = counts[i], lengths[i], counts[j], lengths[j]
        h = abs(c1 * d2 - c2 * d1) / (d1 + d2)
        return float((c1 + c2) * h * price[min(int(200.0 * min(d1 / c1, d2 / c2)), 200)])

    after, before = [*range(1, atoms), -1], [-1, *range(atoms - 1)]
    age = [0] * atoms  # goes up when a piece grows, and to -1 when it is joined to another
    heap = [(cost(i, i + 1), i, i + 1, 0, 0) for i in range(atoms - 1)]
    heapq.heapify(heap)
    left, total = atoms, 0.0
    while left > pieces:
        price_now, i, j, age_i, age_j = heapq.heappop(heap)
        if age[i] != age_i or age[j] != age_j:
            continue
        total += price_now
        counts[i] += counts[j]
        lengths[i] += lengths[j]
        age[i], age[j] = age[i] + 1, -1
        after[i] = after[j]
        if after[i] >= 0:
            before[after[i]] = i
            heapq.heappush(heap, (cost(i, after[i]), i, after[i], age[i], age[after[i]]))
        if before[i] >= 0:
            heapq.heappush(heap, (cost(before[i], i), before[i], i, age[before[i]], age[i]))
        left -= 1
    alive = [i for i in range(atoms) if age[i] >= 0]
    return Course(np.array([counts[i] for i in alive]), np.array([lengths[i] for i in alive]), total)
