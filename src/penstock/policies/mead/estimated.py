# SPDX-License-Identifier: Apache-2.0
"""Levels for large pipelines from few predictions.

A prediction for fifty operators may solve fifty queues, so a search that takes one step with each prediction is too
slow. Here the steps are taken on an estimate, which costs next to nothing, and only where they lead is predicted.

The estimate: an operator's time is inverse to the capacity it has to spare, t(c) = t(c0) (c0 - r) / (c - r), with c its
capacity and r what it uses of it (its utilisation times its capacity). This is exact for M/M/1, and queues under heavy
load behave like it. A path's time is the sum of its operators' times, scaled so that it is exact where it was last
predicted. The levels found on the estimate are predicted, the estimate is set anew from that (between two levels that
were predicted it is interpolated), and so on until the prediction reaches the goal and the estimate knows nothing
cheaper: a few rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.plan.levels import AllocationSpace, Vector
from penstock.ports import FloatArray
from penstock.records import Prediction

ROUNDS, FREE_ROUNDS, MOST_MARGIN = 20, 2, 1.2
"""Most predictions that the estimate is set from; after how many a path that is still too slow gets a margin, so that
it ends, as where another operator becomes the bottleneck each time; and the most by which a margin grows at once."""
ERROR = 2.0
"""By which factor an estimated change may be above the predicted one, one level away from the last prediction."""


MayReach = Callable[[Vector, Vector], bool]
"""Whether the second levels, one step below the first, are worth a prediction."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a search has to reach: a limit in seconds for every path, of all its operators but those left out.

    Operators that are left out stay at their highest level.
    """

    limits: tuple[float, ...]
    left_out: frozenset[str] = frozenset()

    def seconds(self, path: Prediction) -> float:
        """What counts of a path."""
        if self.left_out.isdisjoint(path.path):
            return path.counted_seconds
        return sum(seconds for name, seconds in path.operator_seconds.items() if name not in self.left_out)

    def is_reached(self, space: AllocationSpace, x: Vector) -> bool:
        """Whether a vector of levels keeps every limit, as predicted."""
        if any(x[i] < space.top[i] for i, name in enumerate(space.operators) if name in self.left_out):
            return False
        return all(self.seconds(path) <= limit for path, limit in zip(space.predict(x), self.limits, strict=True))


def estimated(
    space: AllocationSpace, goal: Goal, steps: list[str], near: Vector | None = None
) -> tuple[Vector, MayReach]:
    """The cheapest levels found on estimates whose prediction reaches the goal; the highest levels do.

    Levels that come `near` it, if given, are raised as far as is needed: what changes little is soon predicted.

    The second answer says of levels whether they are worth a prediction: whether the estimate, exact at the first ones,
    says that the second ones may reach the goal.
    """
    estimate = _Estimate(space, goal)
    best, seen = space.top, {space.top}
    estimate.set_from(space.top)
    if near is not None:
        estimate.set_from(near)
    for rounds in range(1, ROUNDS + 1):
        x = estimate.cheapest(near or space.bottom)
        if x in seen or space.cost(x) >= space.cost(best):
            break
        seen.add(x)
        is_reached = goal.is_reached(space, x)
        if is_reached:
            best = x
        elif best != space.top:
            break
        estimate.set_from(x, be_careful=not is_reached and rounds >= FREE_ROUNDS)
    steps.append(f"estimated from {rounds} prediction(s): costs {space.cost(best):.4g}")
    return best, estimate.may_reach


class _Estimate:
    """Times of all operators at all levels, and of all paths, from the last prediction."""

    def __init__(self, space: AllocationSpace, goal: Goal) -> None:
        self.space, self.goal = space, goal
        names = space.operators
        self.on_path = np.array([[name in path for name in names] for path in space.latency.paths], dtype=float)
        levels = max(space.top) + 1
        self.capacity, self.cost = (np.full((len(names), levels), np.nan) for _ in range(2))
        for i, name in enumerate(names):
            self.capacity[i, : space.top[i] + 1] = [level.capacity for level in space.levels[name].allocations]
            self.cost[i, : space.top[i] + 1] = space.costs(i)
        self.left_out = np.array([name in goal.left_out for name in names])
        self.times = np.full((len(names), levels), np.inf)
        self._known: list[dict[int, tuple[float, float]]] = [{} for _ in names]
        self._set_from: Vector | None = None
        self.scale, self.margin = np.ones(len(space.latency.paths)), np.ones(len(space.latency.paths))

    def set_from(self, x: Vector, *, be_careful: bool = False) -> None:
        """Set every time so that the estimate is exact at `x`; what is endless there stays as it was."""
        predicted = self.space.predict(x)
        self._set_from = x
        seconds: dict[str, float] = {}
        used: dict[str, float] = {}
        for path in predicted:
            for name in path.path:
                if path.operator_seconds[name] >= seconds.get(name, 0.0):
                    seconds[name], used[name] = path.operator_seconds[name], path.utilisation[name]
        for i, name in enumerate(self.space.operators):
            self._known[i][x[i]] = (seconds.get(name, 0.0), used.get(name, 0.0))
            self.times[i] = self._curve(i)
        sums = self._sums(x)
        for number, path in enumerate(predicted):
            given = self.goal.seconds(path)
            if math.isfinite(given) and 0.0 < sums[number] < math.inf:
                self.scale[number] = given / sums[number]
            if be_careful and given > self.goal.limits[number]:
                self.margin[number] *= min(given / self.goal.limits[number], MOST_MARGIN)

    def _curve(self, i: int) -> FloatArray:
        """An operator's time at all levels: as predicted, geometrically between, by the formula beyond."""
        known = self._known[i]
        finite = sorted(level for level, (seconds, used) in known.items() if seconds < math.inf and used < 1.0)
        if not finite:
            return np.full(self.times.shape[1], math.inf)
        levels = np.arange(self.times.shape[1])
        logs = np.log([max(known[level][0], 1e-300) for level in finite])
        curve = np.exp(np.interp(levels, finite, logs))
        for end, beyond in ((finite[0], levels < finite[0]), (finite[-1], levels > finite[-1])):
            seconds, used = known[end]
            c0 = self.capacity[i, end]
            spare = self.capacity[i] - used * c0
            with np.errstate(divide="ignore", invalid="ignore"):
                formula = np.where(spare > 0.0, seconds * (1.0 - used) * c0 / spare, math.inf)
            curve = np.where(beyond, formula, curve)
        endless = [level for level, (seconds, used) in known.items() if level not in finite]
        return np.where(levels <= max(endless, default=-1), math.inf, curve)

    def cheapest(self, low: Vector) -> Vector:
        """From low levels up, the most time for the money first; then back down, the costliest step first."""
        x = np.where(self.left_out, self.space.top, low)
        while (step := self._step_up(x)) is not None:
            x[step] += 1
        for i in self._by_saving(x):
            while x[i] > 0 and not self.left_out[i] and self._is_reached(_changed(x, i, -1)):
                x[i] -= 1
        return tuple(int(level) for level in x)

    def may_reach(self, x: Vector, lowered: Vector) -> bool:
        """Whether the goal is reached at `lowered` as estimated from `x`, or missed by no more than that may err."""
        if x != self._set_from:
            self.set_from(x)
        now = self._sums(x) * self.scale
        with np.errstate(invalid="ignore"):  # endless before and after
            after = now + (self._sums(lowered) * self.scale - now) / ERROR
        return bool(np.all(after <= np.array(self.goal.limits)))

    def _by_saving(self, x: Sequence[int] | np.ndarray) -> list[int]:
        return sorted((i for i in range(len(x)) if x[i] > 0), key=lambda i: self.cost[i, x[i] - 1] - self.cost[i, x[i]])

    def _step_up(self, x: np.ndarray) -> int | None:
        """The operator whose next level takes most time off the paths that are too slow, for what it costs."""
        excess = self._sums(x) * self.scale * self.margin - np.array(self.goal.limits)
        slow = excess > 0.0
        can = x < np.array(self.space.top)
        if not slow.any() or not can.any():
            return None
        rows = np.arange(len(x))
        now, after = self.times[rows, x], self.times[rows, np.minimum(x + 1, self.times.shape[1] - 1)]
        with np.errstate(invalid="ignore"):
            gain = np.where(np.isinf(now), np.inf, now - after)
        per_path = self.on_path * (self.scale * self.margin)[:, None]
        # More than a path is too slow by does not help it.
        helped = np.minimum(
            np.where(self.on_path > 0, per_path * np.where(np.isinf(gain), 1e300, gain), 0.0),
            np.where(slow, excess, 0.0)[:, None],
        )
        money = self.cost[rows, np.minimum(x + 1, np.array(self.space.top))] - self.cost[rows, x]
        worth = np.where(can, helped.sum(axis=0) / np.maximum(money, 1e-300), -1.0)
        best = int(np.argmax(worth))
        return best if worth[best] > 0.0 else None

    def _is_reached(self, x: np.ndarray) -> bool:
        return bool(np.all(self._sums(x) * self.scale * self.margin <= np.array(self.goal.limits)))

    def _sums(self, x: Sequence[int] | np.ndarray) -> FloatArray:
        """The sum of every path's times, without those left out."""
        times = np.where(self.left_out, 0.0, self.times[np.arange(len(x)), np.asarray(x)])
        endless = np.isinf(times)
        sums = self.on_path @ np.where(endless, 0.0, times)
        return np.where((self.on_path @ endless) > 0, np.inf, sums)


def _changed(x: np.ndarray, i: int, by: int) -> np.ndarray:
    y = x.copy()
    y[i] += by
    return y
