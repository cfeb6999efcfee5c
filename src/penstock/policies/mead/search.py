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
from dataclasses import dataclass

from penstock.plan.levels import AllocationSpace, Vector
from penstock.policies.mead.estimated import Goal, MayReach, estimated
from penstock.records import Prediction

MOST_STEPWISE = 8
"""Most operators for which the refined search begins with Fig. 5."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search chose, and by what steps. `is_met`: every path keeps its bound, as predicted."""

    x: Vector
    is_met: bool
    steps: tuple[str, ...]
    search: str = "refined"


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
    return Found(x, space.is_met(x), tuple(steps), "published")


def refined(space: AllocationSpace, delta: float, near: Vector | None = None) -> Found:
    """Search as in Fig. 5, go on where it gave up though it could be met, and give back what is not needed.

    More than `MOST_STEPWISE` operators begin with an estimate instead of Fig. 5, which predicts at every step
    (`estimated`), from levels that are thought to be `near` if some are given. Where not even the highest levels keep a
    bound: the latency within `delta` of the bound of the least that can be had on those paths, at the lowest cost that
    single steps down lead to.
    """
    is_large = len(space.operators) > MOST_STEPWISE
    steps: list[str] = []
    x = space.top
    if not is_large:
        found = figure_5(space, delta)
        x = found.x
        steps += found.steps
    if not space.is_met(space.top):
        steps.append("not even the highest levels keep every bound: as fast as can be had, but for delta")
        goal = _best_of_a_bad_job(space, delta)
        x = space.top
    else:
        goal = Goal(tuple(path.bound_seconds for path in space.predict(space.top)))
        if not is_large and not space.is_met(x):
            for number in range(len(space.latency.paths)):
                x = _serve(space, x, number, 0.0, steps)
            steps.append("went on below delta: the bounds can be kept")
            if not space.is_met(x):  # a step that gains nothing by itself may be needed for a later one: from the top
                x = space.top
    may_reach: MayReach = lambda *_: True  # noqa: E731 - few operators: every step is worth a prediction
    if is_large:
        x, may_reach = estimated(space, goal, steps, near)
    x = _given_back(space, x, goal, may_reach, steps)
    return Found(x, space.is_met(x), tuple(steps))


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
    if math.isfinite(before.counted_seconds):
        return before.counted_seconds - after.counted_seconds
    # Infinite before: any finite time is a gain, and so is a step towards it by an operator that needs it.
    if math.isfinite(after.counted_seconds) or not math.isfinite(before.operator_seconds[scaled]):
        return math.inf
    return -math.inf


def _best_of_a_bad_job(space: AllocationSpace, delta: float) -> Goal:
    """No unmet path may lose more than delta of its bound, and no met one be broken.

    Operators that cannot keep up even at the top stay there; of their paths, the rest of the operators is looked at.
    """
    at_top = space.predict(space.top)
    lost = frozenset(name for path in at_top for name, seconds in path.operator_seconds.items() if math.isinf(seconds))
    free = Goal((), lost)
    return Goal(
        tuple(
            path.bound_seconds if path.is_met else free.seconds(path) + delta * path.bound_seconds for path in at_top
        ),
        lost,
    )


def _given_back(space: AllocationSpace, x: Vector, goal: Goal, may_reach: MayReach, steps: list[str]) -> Vector:
    """Lower single operators, the costliest step first, while the goal is reached.

    More CPU never makes a path slower, so a step that misses the goal once misses it with less CPU elsewhere too: it is
    not tried again.
    """
    open_steps = {i for i, level in enumerate(x) if level > 0}
    while open_steps:
        i = max(open_steps, key=lambda i: (space.costs(i)[x[i]] - space.costs(i)[x[i] - 1], -i))
        lowered = (*x[:i], x[i] - 1, *x[i + 1 :])
        if not may_reach(x, lowered) or not goal.is_reached(space, lowered):
            open_steps.remove(i)
            continue
        steps.append(f"{space.operators[i]} back to level {lowered[i] + 1}: not needed")
        x = lowered
        if x[i] == 0:
            open_steps.remove(i)
    return x
