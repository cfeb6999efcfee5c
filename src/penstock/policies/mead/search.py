# SPDX-License-Identifier: Apache-2.0
"""MEAD's search for levels: Fig. 5 as published, and what is done where it stops short.

Symbols, as in MEAD, Sec. V-B: x levels (here from 0), pi a path, R_pi its predicted latency, R_pi^max its bound,
delta the least improvement, as a part of the bound, for which an operator is scaled up.

Fig. 5 leaves open which operator is slowest when several cannot keep up (all their times are infinite: here the one
with the highest utilisation), and whether to go on when a path is as infinite after a step as before (here: yes if the
operator that was scaled was itself short of CPU, no if it was not).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from penstock.plan.levels import AllocationSpace, Vector
from penstock.records import Prediction


@dataclass(frozen=True, slots=True)
class Found:
    """What a search chose, and by what steps. `is_met`: every path keeps its bound, as predicted."""

    x: Vector
    is_met: bool
    steps: tuple[str, ...]


def figure_5(space: AllocationSpace, delta: float) -> Found:
    """Search as published: from the lowest levels up, path by path, the slowest operator first.

    A step that neither meets the bound nor gains `delta` of it is taken back, and the next path is looked at; so an
    answer may break a bound that other levels would keep.
    """
    x = space.bottom
    steps: list[str] = []
    for number, path in enumerate(space.latency.paths):
        x = _serve(space, x, number, delta, steps)
        predicted = space.predict(x)[number]
        steps.append(f"{' > '.join(path)}: {predicted.seconds:.4g} s of {predicted.bound_seconds:.4g} s")
    return Found(x, space.is_met(x), tuple(steps))


def refined(space: AllocationSpace, delta: float) -> Found:
    """Search as in Fig. 5, go on where it gave up though it could be met, and give back what is not needed.

    Where not even the highest levels keep a bound: the latency within `delta` of the bound of the least that can be
    had on those paths, at the lowest cost that single steps down from the top lead to.
    """
    found = figure_5(space, delta)
    steps = list(found.steps)
    if not space.is_met(space.top):
        return Found(_best_of_a_bad_job(space, delta, steps), False, tuple(steps))
    x = found.x
    if not found.is_met:
        for number in range(len(space.latency.paths)):
            x = _serve(space, x, number, 0.0, steps)
        steps.append("went on below delta: the bounds can be kept")
        if not space.is_met(x):  # a step that gains nothing by itself may be needed for a later one: begin at the top
            x = space.top
    return Found(_given_back(space, x, space.is_met, steps), True, tuple(steps))


def _serve(space: AllocationSpace, x: Vector, number: int, delta: float, steps: list[str]) -> Vector:
    """Scale a path's operators up until its bound is kept, or a step gains too little (Fig. 5, lines 3 to 13)."""
    before = space.predict(x)[number]
    while not before.is_met:
        i = _slowest(space, x, before)
        if i is None:
            break
        raised = (*x[:i], x[i] + 1, *x[i + 1 :])
        after = space.predict(raised)[number]
        if not after.is_met and _gain(before, after, space.operators[i]) < delta * before.bound_seconds:
            steps.append(f"{space.operators[i]} stays at level {x[i] + 1}: one more gains less than delta")
            break
        steps.append(f"{space.operators[i]} to level {raised[i] + 1}: {before.seconds:.4g} s -> {after.seconds:.4g} s")
        x, before = raised, after
    return x


def _slowest(space: AllocationSpace, x: Vector, predicted: Prediction) -> int | None:
    """The operator of the path with the highest response time, of those that have a level above."""
    candidates = [i for i, name in enumerate(space.operators) if name in predicted.path and x[i] < space.top[i]]

    def slowness(i: int) -> tuple[float, float]:
        name = space.operators[i]
        return predicted.operator_seconds[name], predicted.utilisation[name]

    return max(candidates, key=slowness, default=None)


def _gain(before: Prediction, after: Prediction, scaled: str) -> float:
    if math.isfinite(before.seconds):
        return before.seconds - after.seconds
    # Infinite before: any finite time is a gain, and so is a step towards it by an operator that needs it.
    if math.isfinite(after.seconds) or not math.isfinite(before.operator_seconds[scaled]):
        return math.inf
    return -math.inf


def _best_of_a_bad_job(space: AllocationSpace, delta: float, steps: list[str]) -> Vector:
    """From the top down, as long as no unmet path loses more than delta of its bound and no met one is broken.

    Operators that cannot keep up even at the top stay there; of their paths, the rest of the operators is looked at.
    """
    steps.append("not even the highest levels keep every bound: as fast as can be had, but for delta")
    at_top = space.predict(space.top)
    lost = {name for path in at_top for name, seconds in path.operator_seconds.items() if math.isinf(seconds)}
    limits = [
        path.bound_seconds if path.is_met else _without(path, lost) + delta * path.bound_seconds for path in at_top
    ]

    def is_no_worse(x: Vector) -> bool:
        if any(x[i] < space.top[i] for i, name in enumerate(space.operators) if name in lost):
            return False
        return all(_without(path, lost) <= limit for path, limit in zip(space.predict(x), limits, strict=True))

    return _given_back(space, space.top, is_no_worse, steps)


def _without(path: Prediction, lost: set[str]) -> float:
    if lost.isdisjoint(path.path):
        return path.seconds
    return sum(seconds for name, seconds in path.operator_seconds.items() if name not in lost)


def _given_back(space: AllocationSpace, x: Vector, is_good: Callable[[Vector], bool], steps: list[str]) -> Vector:
    """Lower single operators, the costliest step first, while it stays good."""
    while True:
        lowered = [(*x[:i], level - 1, *x[i + 1 :]) for i, level in enumerate(x) if level > 0]
        lowered = [y for y in sorted(lowered, key=space.cost) if is_good(y)]
        if not lowered:
            return x
        i = next(i for i, (one, two) in enumerate(zip(x, lowered[0], strict=True)) if one != two)
        steps.append(f"{space.operators[i]} back to level {lowered[0][i] + 1}: not needed")
        x = lowered[0]
