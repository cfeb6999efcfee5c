# SPDX-License-Identifier: Apache-2.0
"""When the query has which allocation, and what arrives then."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, product
from random import Random

import numpy as np
from benchmarks.spark_latency.cells import EXECUTORS, LEARNT_LOADS, LEARNT_SHARES, POISSON, Cell

from penstock.ports import FloatArray
from penstock.records import Allocation

LEARNING_SECONDS = 12.0
PAST_SECONDS, MEASURED_SECONDS = 38.0, 38.0
"""Of each cell. In the first the executors settle, and what arrives is what the prediction is made from. Each holds two
bursts and two calms."""
BURST_SECONDS, CALM_SECONDS = 10.0, 8.0
"""Batches take up to 2 or 3 s, so that a burst lasts for several of them."""
BURST_FACTOR = 1.6
"""Times the mean rate within a burst; the calm between bursts has what is left."""
SPREAD = 0.2
"""Bursts and calms are drawn within this part of their length. Were they drawn freely, the bursts of half a minute
would say little about those of the next, and the comparison would be one of luck."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A stretch of time with one allocation and one load; `cell` None: batches are learnt from."""

    begin: float
    end: float
    allocation: Allocation
    kind: str
    load: float
    cell: Cell | None = None

    @property
    def predicted_at(self) -> float:
        """When what came before is all that is known."""
        return self.begin + PAST_SECONDS


def turns_for(cells: Sequence[Cell], begin: float, lot: Random) -> list[Turn]:
    """A turn at every allocation to learn from, then each cell after another such turn."""
    turns: list[Turn] = []

    def learn(executors: int, share: float, load: float) -> None:
        at = turns[-1].end if turns else begin
        turns.append(Turn(at, at + LEARNING_SECONDS, Allocation(executors, share), POISSON, load))

    loads = cycle(lot.sample(LEARNT_LOADS, len(LEARNT_LOADS)))
    # The first cell's executors come last, so that none has to come or go before it.
    first = cells[0].executors if cells else EXECUTORS[0]
    for executors, share in product(sorted(EXECUTORS, key=lambda n: n == first), LEARNT_SHARES):
        learn(executors, share, next(loads))
    for cell in cells:
        learn(cell.executors, lot.choice(LEARNT_SHARES), lot.choice(LEARNT_LOADS))
        at = turns[-1].end
        turns.append(Turn(at, at + PAST_SECONDS + MEASURED_SECONDS, cell.allocation, cell.kind, cell.load, cell))
    return turns


def turn_at(turns: Sequence[Turn], instant: float) -> Turn | None:
    """The turn of an instant; None: before the first, or after the last."""
    place = bisect_right([turn.begin for turn in turns], instant) - 1
    return turns[place] if place >= 0 and instant < turns[place].end else None


def rate_of(turn: Turn, record_seconds: float) -> float:
    """Records a second that need the turn's part of what its allocation can do."""
    return turn.load * turn.allocation.capacity / record_seconds


def arrivals(turns: Sequence[Turn], record_seconds: float, rng: np.random.Generator) -> FloatArray:
    """When records arrive, in the turns' own time."""
    times = []
    for turn in turns:
        rate = rate_of(turn, record_seconds)
        for begin, end, factor in _stretches(turn, rng):
            times.append(np.sort(rng.uniform(begin, end, rng.poisson(factor * rate * (end - begin)))))
    return np.concatenate(times)


def _stretches(turn: Turn, rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """Begin, end and factor of the rate: one for Poisson arrivals, bursts and calms by turns otherwise."""
    if turn.kind == POISSON:
        return [(turn.begin, turn.end, 1.0)]
    both = BURST_SECONDS + CALM_SECONDS
    calm_factor = (both - BURST_FACTOR * BURST_SECONDS) / CALM_SECONDS
    found: list[tuple[float, float, float]] = []
    at, is_burst = turn.begin - float(rng.uniform(0.0, both)), False
    while at < turn.end:
        lasts = (BURST_SECONDS if is_burst else CALM_SECONDS) * float(rng.uniform(1.0 - SPREAD, 1.0 + SPREAD))
        if at + lasts > turn.begin:
            found.append((max(at, turn.begin), min(at + lasts, turn.end), BURST_FACTOR if is_burst else calm_factor))
        at, is_burst = at + lasts, not is_burst
    return found
