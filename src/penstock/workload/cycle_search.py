# SPDX-License-Identifier: Apache-2.0
"""Searches cycles (`cycle_chain`) whose queue follows the replayed one, for windows of a few long bursts.

The start is the window's own course in a few pieces (`course`). Least squares moves rates and lengths so that the queue
of the course that repeats exactly (`course_queue`) follows the replayed curves. A cycle of states goes through these
pieces with some chance in their lengths, which makes its queue longer. By how much is found by solving that, and the
course is moved again so that both together are right: after two or three rounds they are. How what chance adds changes
with rates and lengths is learnt from round to round (space mapping with Broyden's updates, Bandler, Biernacki, Chen,
Hemmers and Madsen, "Electromagnetic optimization exploiting aggressive space mapping", IEEE Transactions on Microwave
Theory and Techniques 43, 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from penstock.workload.added_chance import Added
from penstock.workload.burst_search import spread_loads
from penstock.workload.candidates import MEAN_BAR, PERCENTILE_BAR, Found, Recipe, valid
from penstock.workload.course import Course
from penstock.workload.course_queue import course_curves
from penstock.workload.cycle_chain import Cycle
from penstock.workload.cycle_curve import fluid_of, lacking
from penstock.workload.least_squares import IsLate
from penstock.workload.load_curve import load_curves
from penstock.workload.minimax import descend
from penstock.workload.replay_queue import MOST_LIFT, ReplayedQueue

FloatArray = npt.NDArray[np.float64]

PARTS = (4, 6, 9, 13)
"""Parts of a cycle: the fewer, the more stages each has."""

_PRICE_OF_A_PART, _SURE, _OUT_OF_REACH = 0.08, 0.6, 2.2
"""What each part must lower the error of the course, in units of the bars, to be worth its stages. No more parts are
looked at below the first sum of error and price, and a course above the second is not made a cycle unless chains are
further off."""

_STATES, _MORE_STATES = 64, 96
"""States of a cycle, and of one that is not right with as many. More take long to solve."""

_FEW_STATES, _SOME_STATES = 12, 32
"""States of the chain that tells what the fluid lacks: that is nearly the same for few stages as for many. It is not
where it is much."""

_LOADS = 15
_FIRST_STEPS, _MORE_STEPS, _ROUNDS, _LAST_ROUNDS, _AGAIN_ROUNDS = 12, 5, 3, 2, 3
_GOOD, _FAIR = 0.45, 0.75
"""In units of the bars: rounds end at the first worst error, and no more parts or states are tried below the second."""

_NEAR = 1.6
"""More states are tried if the worst error is below this."""

_ENOUGH = 0.9
"""A cycle gone on from is not improved below this part of the bars."""

_STILL = 1e-3
"""Rounds end if no rate or length moves by this part."""

_ROOM = 0.6
"""Up to this part of the bars a cycle may be lifted above the replayed curves, see `replay_queue`."""

_FASTEST = 1e4
"""Rates above this many times the mean rate make no difference to a queue."""


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
    added: Added

    @property
    def worst(self) -> float:
        """The largest error."""
        return float(np.abs(self.errors).max())


def search(
    course_in: Callable[[int], Course],
    queue: ReplayedQueue,
    states: int,
    is_late: IsLate,
    *,
    tries: int = 3,
    parts_tried: tuple[int, ...] = PARTS,
    chains: float = np.inf,
) -> Iterator[Found]:
    """Search cycles of up to so many states; `course_in` gives the course in so many pieces.

    Of the numbers of parts tried the `tries` best are made cycles, until one is right. `chains` is how far chains of
    bursts are off, in units of the bars; infinite: none was tried.
    """
    reach = _OUT_OF_REACH if np.isinf(chains) else max(_OUT_OF_REACH, chains)
    aim, best = CycleAim.of(queue), None
    few = min(states, _STATES)
    starts = []
    for parts in parts_tried:
        if 2 * parts <= few:
            course = course_in(parts)
            lengths = np.maximum(course.lengths, course.counts / _FASTEST)
            theta, errors = _moved(np.log(np.concatenate([course.counts / lengths, lengths])), aim, None, _FIRST_STEPS)
            starts.append((float(np.abs(errors).max()) + _PRICE_OF_A_PART * parts, theta))
            if starts[-1][0] <= _SURE:
                break
    for price, theta in sorted(starts, key=lambda one: one[0])[:tries]:
        if price > reach or (best is not None and (best.worst <= _FAIR or is_late())):
            break
        found = _rounds(theta, few, aim, _ROUNDS, _GOOD)
        if found is not None and (best is None or found.worst < best.worst):
            best = found
    if best is not None and few < states and _FAIR < best.worst <= _NEAR:
        more = min(states, _MORE_STATES)
        # What chance adds falls as stages grow in number.
        theta, _ = _moved(best.theta, aim, best.added.scaled(few / more), _MORE_STEPS)
        found = _rounds(theta, more, aim, _LAST_ROUNDS, _FAIR)
        best = found if found is not None and found.worst < best.worst else best
    if best is not None:
        yield from _found(_settled(best, aim), queue)


def continued(recipe: Recipe, queue: ReplayedQueue, is_late: IsLate) -> Iterator[Found]:
    """Search on from an earlier window's cycle."""
    if recipe.cycle is None or recipe.theta is None or is_late():
        return
    aim, theta = CycleAim.of(queue), recipe.theta
    if recipe.added is not None:  # what chance added to the last window's course it adds to this one's
        theta, _ = _moved(theta, aim, recipe.added.at(aim.loads), _MORE_STEPS)
    found = _rounds(theta, recipe.cycle.order, aim, _AGAIN_ROUNDS, _ENOUGH)
    if found is not None:
        yield from _found(_settled(found, aim), queue)


def _rounds(theta: FloatArray, states: int, aim: CycleAim, rounds: int, good: float) -> _Tried | None:
    """Solve the cycle, move the course by what chance adds, and over again; return the best of the cycles solved."""
    best: _Tried | None = None
    last: Added | None = None
    for turn in range(rounds):
        shape = _shared(theta, states)
        curves = np.log(fluid_of(theta[None], shape, aim.loads))[0] + _lacking(theta, shape, aim.loads)
        last = Added.of(aim.loads, theta, curves - course_curves(theta[None], aim.loads)[0], last)
        tried = _Tried(theta, shape, aim.errors(curves), last)
        if not np.isfinite(tried.worst):
            break
        if best is None or tried.worst < best.worst:
            best = tried
        if best.worst <= good or turn + 1 == rounds:
            break
        theta, _ = _moved(best.theta, aim, last.around(best.added), _MORE_STEPS)
        if np.abs(theta - last.theta).max() < _STILL:
            break
    return best


def _settled(tried: _Tried, aim: CycleAim) -> _Tried:
    """Make the cycle a little longer if there is room above its curves: a window's own replay is mostly too low.

    If there is none, its own queue is solved where it is highest above the replayed one, as that may be higher than
    told, and the cycle is made shorter until it is as far above the replayed curves as below.
    """
    room = _ROOM - float(tried.errors.max())
    if room > 0.0:
        change = min(room * MEAN_BAR, MOST_LIFT)
    else:
        errors, at = tried.errors.reshape(2, -1).copy(), int(tried.errors.argmax()) % aim.loads.size
        own = np.log(np.concatenate(load_curves(*tried.shape.matrices(tried.theta[None]), aim.loads[[at]])))[:, 0]
        errors[:, at] = (own - aim.target.reshape(2, -1)[:, at]) / aim.bars.reshape(2, -1)[:, at]
        change = -MEAN_BAR * max(0.5 * float(errors.max() + errors.min()), 0.0) if np.isfinite(own).all() else 0.0
    return replace(tried, theta=tried.theta + np.repeat([0.0, change], tried.shape.parts))


def _shared(theta: FloatArray, states: int) -> Cycle:
    parts = theta.size // 2
    rates, lengths = np.exp(theta[:parts]), np.exp(theta[parts:])
    return Cycle.sharing(rates * lengths.sum() / (rates * lengths).sum(), lengths, states)


def _found(tried: _Tried, queue: ReplayedQueue) -> Iterator[Found]:
    d0, d1 = tried.shape.matrices(tried.theta[None])
    name = f"cycle of {tried.shape.parts} parts"
    curves = tried.added.with_course(tried.theta, queue.utilisations)
    recipe = Recipe(name, cycle=tried.shape, theta=tried.theta, added=tried.added, curves=curves)
    yield from valid(d0[0], d1[0], recipe)


def _lacking(theta: FloatArray, shape: Cycle, loads: FloatArray) -> FloatArray:
    """Return what the fluid lacks, by a cycle of the same parts in few stages; in more of them where it lacks much."""
    few, some = (_shared(theta, min(max(states, shape.parts), shape.order)) for states in (_FEW_STATES, _SOME_STATES))
    return lacking(theta, (few, some), loads)


def _moved(theta: FloatArray, aim: CycleAim, added: Added | None, steps: int) -> tuple[FloatArray, FloatArray]:
    """Move rates and lengths so that the course's queue, with what is `added`, is right; return its errors too.

    The steps are the shortest that do it, so that the course stays as near to the window's as it can.
    """

    def errors_of(rows: FloatArray) -> FloatArray:
        curves = course_curves(rows, aim.loads)
        return aim.errors(curves if added is None else curves + added.to(rows))

    return descend(errors_of, theta, steps, _GOOD / 2.0)
