# SPDX-License-Identifier: Apache-2.0
"""The cheapest allocation that keeps every bound, found without trying them all.

More CPU never makes a path slower. So of all allocations in a box [low, high]

* none keeps the bounds if `high` does not;
* if `low` does, it is the cheapest of the box;
* an operator's level cannot lie below the lowest that keeps the bounds while all others are at `high` (its floor);
* nor above what a cheaper allocation than the best one known can pay for, all others being at `low` (its ceiling).

Floors and ceilings narrow each other until nothing moves; what is left is split in two. Branch and bound with the
bounds made consistent at every node (Land and Doig 1960; Mackworth 1977). What the answer rests on, that predictions
fall as shares rise, is looked at wherever two allocations one level apart were predicted; a breach is reported.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

from penstock.errors import ConfigurationError
from penstock.plan.levels import ROUNDING, AllocationSpace, Vector


@dataclass(frozen=True, slots=True)
class ExactAnswer:
    """The cheapest allocation that keeps all bounds.

    Attributes
    ----------
    x
        Levels, or None: not even the highest levels keep the bounds.
    cost
        Of `x`; infinite where there is none.
    lower_bound
        No allocation that keeps the bounds costs less.
    evaluations
        Predictions asked for by this search.
    breach
        By how much, relatively, a path was at worst seen to grow slower with more CPU; the proof holds where it is 0.
    """

    x: Vector | None
    cost: float
    lower_bound: float
    evaluations: int
    breach: float

    @property
    def is_proven(self) -> bool:
        """Whether nothing cheaper can keep the bounds."""
        return self.breach == 0.0 and self.lower_bound >= self.cost * (1.0 - ROUNDING)


def exact_search(
    space: AllocationSpace, *, known: Vector | None = None, most_evaluations: int | None = None
) -> ExactAnswer:
    """Find the cheapest allocation that keeps every bound.

    Parameters
    ----------
    space
        The pipeline's allocations.
    known
        An allocation to beat, such as a heuristic's; ignored where it does not keep the bounds.
    most_evaluations
        After so many predictions the best found so far is given, with the bound proven so far.

    Examples
    --------
    >>> from penstock.plan.levels import Levels
    >>> from penstock.testing.path_latencies import FakePathLatency
    >>> pipeline = FakePathLatency({("a", "b"): 3.0}, {"a": 0.4, "b": 0.8})
    >>> space = AllocationSpace(pipeline, {"a": Levels(), "b": Levels()})
    >>> answer = exact_search(space)
    >>> [str(has) for has in space.allocations(answer.x).values()], answer.is_proven
    (['1 executor x 40% CPU', '1 executor x 40% CPU'], True)
    """
    if most_evaluations is not None and most_evaluations < 1:
        raise ConfigurationError(f"most_evaluations: {most_evaluations} must be at least 1", field="most_evaluations")
    return _Search(space, most_evaluations).run(known)


class _Search:
    def __init__(self, space: AllocationSpace, most: int | None) -> None:
        self.space = space
        self.began = space.evaluations
        self.most = math.inf if most is None else most
        self.costs = [
            [space.levels[name].cost(i) for i in range(space.levels[name].top + 1)] for name in space.operators
        ]
        self.best: Vector | None = None
        self.best_cost = math.inf

    @property
    def evaluations(self) -> int:
        return self.space.evaluations - self.began

    def run(self, known: Vector | None) -> ExactAnswer:
        low, high = self.space.bottom, self.space.top
        if not self.space.is_met(high):
            return ExactAnswer(None, math.inf, math.inf, self.evaluations, self.space.breach())
        self._offer(high)
        if known is not None and self.space.is_met(known):
            self._offer(known)
        # Cheapest bound first: the first bound that is not below the best known ends the search. The count breaks ties.
        count = 0
        boxes: list[tuple[float, int, Vector, Vector]] = [(self._cost(low), count, low, high)]
        lower = self.best_cost
        while boxes:
            bound, _, low, high = heapq.heappop(boxes)
            if not self._is_cheaper(bound):
                break
            if self.evaluations >= self.most:
                lower = bound
                break
            narrowed = self._narrow(low, high)
            if narrowed is None:
                continue
            low, high = narrowed
            if low == high or self._is_met(low):
                self._offer(low)
                continue
            for part in self._split(low, high):
                count += 1
                heapq.heappush(boxes, (max(bound, self._cost(part[0])), count, *part))
        return ExactAnswer(self.best, self.best_cost, min(lower, self.best_cost), self.evaluations, self.space.breach())

    def _narrow(self, low: Vector, high: Vector) -> tuple[Vector, Vector] | None:
        """Raise floors and lower ceilings until nothing moves; None where the box has nothing cheaper."""
        lows, highs = list(low), list(high)
        if not self._is_met(tuple(highs)):
            return None
        while True:
            room = self.best_cost - self._cost(tuple(lows))
            if not self._is_cheaper(self._cost(tuple(lows))):
                return None
            fell = False
            for i, costs in enumerate(self.costs):
                ceiling = highs[i]
                while ceiling > lows[i] and costs[ceiling] - costs[lows[i]] >= room * (1.0 - ROUNDING):
                    ceiling -= 1
                fell = fell or ceiling < highs[i]
                highs[i] = ceiling
            if fell and not self._is_met(tuple(highs)):
                return None
            rose = False
            for i in range(len(lows)):
                floor = self._floor(lows, highs, i)
                rose = rose or floor > lows[i]
                lows[i] = floor
            if not rose:
                return tuple(lows), tuple(highs)

    def _floor(self, lows: list[int], highs: list[int], i: int) -> int:
        """The lowest level of operator `i` that keeps the bounds while all others are at their ceilings."""
        low, high, corner = lows[i], highs[i], tuple(highs)
        while low < high:
            middle = (low + high) // 2
            if self._is_met((*corner[:i], middle, *corner[i + 1 :])):
                high = middle
            else:
                low = middle + 1
        return low

    def _split(self, low: Vector, high: Vector) -> list[tuple[Vector, Vector]]:
        """Cut the box across the operator with the most to pay or save, at the middle of its levels."""
        widest = max(
            (i for i in range(len(low)) if low[i] < high[i]),
            key=lambda i: self.costs[i][high[i]] - self.costs[i][low[i]],
        )
        middle = (low[widest] + high[widest]) // 2
        return [
            (low, (*high[:widest], middle, *high[widest + 1 :])),
            ((*low[:widest], middle + 1, *low[widest + 1 :]), high),
        ]

    def _is_met(self, x: Vector) -> bool:
        is_met = self.space.is_met(x)
        if is_met:
            self._offer(x)
        return is_met

    def _offer(self, x: Vector) -> None:
        cost = self._cost(x)
        if self.best is None or self._is_cheaper(cost):
            self.best, self.best_cost = x, cost

    def _is_cheaper(self, cost: float) -> bool:
        return cost < self.best_cost * (1.0 - ROUNDING)

    def _cost(self, x: Vector) -> float:
        return self.space.cost(x)
