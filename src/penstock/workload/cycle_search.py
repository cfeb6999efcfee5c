# SPDX-License-Identifier: Apache-2.0
"""Searches cycles (`cycle_chain`) whose queue follows the replayed one, for windows of a few long bursts.

The start is the window's own course in a few pieces (`course`). Least squares moves rates and lengths so that the queue
of the course that repeats exactly (`course_queue`) follows the replayed curves. A cycle of states goes through these
pieces with some chance in their lengths, which makes its queue longer. By how much is found by solving that, and the
course is moved again so that both together are right: after two or three rounds they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.burst_search import spread_loads
from penstock.workload.candidates import MEAN_BAR, PERCENTILE_BAR, Found, Recipe, valid
from penstock.workload.course import Course
from penstock.workload.course_queue import course_curves
from penstock.workload.cycle_chain import Cycle
from penstock.workload.cycle_curve import Missing, fluid_of
from penstock.workload.least_squares import IsLate
from penstock.workload.replay_queue import MOST_LIFT, ReplayedQueue

FloatArray = npt.NDArray[np.float64]

_PARTS = {4: 0.7, 6: 1.5, 9: 1.5, 13: 1.5}
"""Parts of a cycle in the order in which they are tried: the fewer, the more stages each has. A course of so many
pieces whose own queue is off by more than this, in units of the bars, is not made a cycle."""

_STATES, _MORE_STATES = 64, 96
"""States of a cycle, and of one that is not right with as many. More take long to solve."""

_FEW_STATES = 12
"""States of the chain that tells what the fluid lacks: that is nearly the same for few stages as for many."""

_LOADS = 15
_FIRST_STEPS, _MORE_STEPS, _ROUNDS, _LAST_ROUNDS = 10, 5, 3, 2
_GOOD, _FAIR = 0.45, 0.75
"""In units of the bars: rounds end at the first worst error, and no more parts or states are tried below the second."""

_NEAR = 1.3
"""More states are tried if the worst error is below this, and no more parts after two."""

_SLOW = 0.97
"""A round that leaves more than this part of the worst error is the last."""

_ROOM = 0.6
"""Up to this part of the bars a cycle may be lifted above the replayed curves, see `replay_queue`."""

_FASTEST = 1e4
"""Rates above this many times the mean rate make no difference to a queue."""

_DIFFERENCE, _LONGEST_STEP = 1e-4, 0.5
_DAMPINGS, _DAMPING, _NO_WAY = np.array([0.1, 1.0, 10.0]), 0.3, 1e4
_REWEIGHTINGS, _POWER = 6, 6


@dataclass(frozen=True, eq=False)
class CycleAim:
    """What the search follows: logarithms of the means and of the percentiles at `loads`, and their bars."""

    loads: FloatArray
    target: FloatArray
    bars: FloatArray

    @classmethod
    def of(cls, queue: ReplayedQueue) -> CycleAim:
        """Return the aim of a replayed window."""
        at = np.unique(spread_loads(queue, _LOADS))
        bars = np.repeat(np.log1p([MEAN_BAR, PERCENTILE_BAR]), at.size)
        return cls(queue.utilisations[at], np.log(np.concatenate([queue.responses[at], queue.percentiles[at]])), bars)

    def errors(self, curves: FloatArray) -> FloatArray:
        """Return how far logarithms of means and percentiles are off, in units of the bars."""
        return np.asarray((curves - self.target) / self.bars)


@dataclass(frozen=True, eq=False)
class _Tried:
    """A cycle, how far it is off in units of the bars, and what its queue has beyond that of the course."""

    theta: FloatArray
    shape: Cycle
    errors: FloatArray
    added: FloatArray

    @property
    def worst(self) -> float:
        """The largest error."""
        return float(np.abs(self.errors).max())


def search(course_in: Callable[[int], Course], queue: ReplayedQueue, states: int, is_late: IsLate) -> Iterator[Found]:
    """Search cycles of up to so many states, of few parts first; `course_in` gives the course in so many pieces."""
    aim, best, tries = CycleAim.of(queue), None, 0
    few = min(states, _STATES)
    for parts, out_of_reach in _PARTS.items():
        if 2 * parts > few:
            continue
        course = course_in(parts)
        lengths = np.maximum(course.lengths, course.counts / _FASTEST)
        start = np.log(np.concatenate([course.counts / lengths, lengths]))
        theta, errors = _moved(start, aim, 0.0, _FIRST_STEPS)
        if np.abs(errors).max() > out_of_reach:
            continue
        found, tries = _rounds(theta, few, aim, _ROUNDS, _GOOD), tries + 1
        if found is not None and (best is None or found.worst < best.worst):
            best = found
        # If two are near the bar alike, it is chance that keeps them off, and more stages help, not more parts.
        enough = _NEAR if tries > 1 else _FAIR
        if is_late() or (best is not None and best.worst <= enough):
            break
    if best is not None and few < states and _FAIR < best.worst <= _NEAR:
        more = min(states, _MORE_STATES)
        # What chance adds falls as stages grow in number.
        theta, _ = _moved(best.theta, aim, best.added * (few / more), _MORE_STEPS)
        found = _rounds(theta, more, aim, _LAST_ROUNDS, _FAIR)
        best = found if found is not None and found.worst < best.worst else best
    if best is not None:
        yield from _found(_lifted(best), queue)


def continued(recipe: Recipe, queue: ReplayedQueue, is_late: IsLate) -> Iterator[Found]:
    """Search on from an earlier window's cycle."""
    if recipe.cycle is None or recipe.theta is None or is_late():
        return
    found = _rounds(recipe.theta, recipe.cycle.order, CycleAim.of(queue), _LAST_ROUNDS, _FAIR)
    if found is not None:
        yield from _found(_lifted(found), queue)


def _rounds(theta: FloatArray, states: int, aim: CycleAim, rounds: int, good: float) -> _Tried | None:
    """Solve the cycle, move the course by what chance adds, and over again; return the best of the cycles solved."""
    best: _Tried | None = None
    for turn in range(rounds):
        shape = _shared(theta, states)
        lacking = _missing(theta, states, aim.loads).at(aim.loads)
        curves = np.log(fluid_of(theta[None], shape, aim.loads))[0] + lacking
        added = curves - course_curves(theta[None], aim.loads)[0]
        tried = _Tried(theta, shape, aim.errors(curves), added)
        if not np.isfinite(tried.worst):
            break
        is_slow = best is not None and tried.worst > _SLOW * best.worst
        if best is None or tried.worst < best.worst:
            best = tried
        if best.worst <= good or is_slow or turn + 1 == rounds:
            break
        theta, _ = _moved(theta, aim, added, _MORE_STEPS)
    return best


def _lifted(tried: _Tried) -> _Tried:
    """Make the cycle a little longer if there is room above its curves: a window's own replay is mostly too low."""
    room = min(max(_ROOM - float(tried.errors.max()), 0.0) * MEAN_BAR, MOST_LIFT)
    longer = tried.theta + np.repeat([0.0, room], tried.shape.parts)
    return _Tried(longer, tried.shape, tried.errors, tried.added)


def _shared(theta: FloatArray, states: int) -> Cycle:
    parts = theta.size // 2
    rates, lengths = np.exp(theta[:parts]), np.exp(theta[parts:])
    return Cycle.sharing(rates * lengths.sum() / (rates * lengths).sum(), lengths, states)


def _found(tried: _Tried, queue: ReplayedQueue) -> Iterator[Found]:
    d0, d1 = tried.shape.matrices(tried.theta[None])
    # Near the load from which on a part queues, what the fluid lacks changes from one load to the next.
    missing = _missing(tried.theta, tried.shape.order, queue.utilisations)
    recipe = Recipe(f"cycle of {tried.shape.parts} parts", cycle=tried.shape, theta=tried.theta, missing=missing)
    yield from valid(d0[0], d1[0], recipe)


def _missing(theta: FloatArray, states: int, loads: FloatArray) -> Missing:
    """Return what the fluid lacks, by a cycle of the same parts in fewer stages."""
    return Missing.of(theta, _shared(theta, min(max(_FEW_STATES, theta.size // 2), states)), loads)


def _moved(theta: FloatArray, aim: CycleAim, added: FloatArray | float, steps: int) -> tuple[FloatArray, FloatArray]:
    """Move rates and lengths so that the course's queue, with what is `added`, is right; return its errors too.

    The steps are the shortest that do it, so that the course stays as near to the window's as it can.
    """
    errors, damping = aim.errors(course_curves(theta[None], aim.loads)[0] + added), _DAMPING
    for _ in range(steps):
        if np.abs(errors).max() <= _GOOD / 2.0 or damping > _NO_WAY:
            break
        near = aim.errors(course_curves(theta + _DIFFERENCE * np.eye(theta.size), aim.loads) + added)
        slopes = (near - errors).T / _DIFFERENCE
        trials = theta + np.array([_step(errors, slopes, damping * factor) for factor in _DAMPINGS])
        found = aim.errors(course_curves(trials, aim.loads) + added)
        place = int(np.argmin((found**_POWER).sum(axis=1)))
        if (found[place] ** _POWER).sum() < (errors**_POWER).sum():
            theta, errors, damping = trials[place], found[place], damping * float(_DAMPINGS[place])
        else:
            damping *= 20.0
    return theta, errors


def _step(errors: FloatArray, slopes: FloatArray, damping: float) -> FloatArray:
    """Return a damped step that lowers the largest errors: least squares, weighted anew by what each step leaves."""
    weights, step = np.ones(errors.size), np.zeros(slopes.shape[1])
    for _ in range(_REWEIGHTINGS):
        weighted = slopes * weights[:, None]
        system = weighted.T @ weighted + damping * np.eye(step.size)
        step = np.clip(-np.linalg.solve(system, weighted.T @ (weights * errors)), -_LONGEST_STEP, _LONGEST_STEP)
        left = np.abs(errors + slopes @ step)
        weights = weights * np.sqrt(left / max(float(left.max()), 1e-12) + 0.2)
        weights = weights / weights.mean()
    return step
