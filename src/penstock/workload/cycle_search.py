# SPDX-License-Identifier: Apache-2.0
"""Searches cycles (`cycle_chain`) whose queue follows the replayed one, for windows of long bursts.

The start is the window's own course (`course`): its bursts in a few classes of rate, then its lulls, as often repeated
as the replayed level asks for. Steps follow the fluid queue (`fluid_curve`), with slopes from a chain of the same parts
in fewer stages. What the fluid lacks of the whole queue is then found by solving that at a few loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.workload.burst_search import spread_loads
from penstock.workload.candidates import MEAN_BAR, PERCENTILE_BAR, Found, Recipe, valid
from penstock.workload.course import Course
from penstock.workload.cycle_chain import Cycle
from penstock.workload.cycle_curve import Missing, fluid_of
from penstock.workload.least_squares import IsLate
from penstock.workload.replay_queue import MOST_LIFT, ReplayedQueue

FloatArray = npt.NDArray[np.float64]

_DEEP_LOADS = (0.05, 0.065, 0.08, 0.14, 0.26, 0.44, 0.65, 0.8, 0.9)
_DEEP = 5.0
"""Loads that the search follows if even at the lowest a response takes this many services: all is fluid there."""

_SHALLOW_LOADS, _SHALLOW_STATES, _SHALLOW_ROUNDS = 13, 32, 2
"""Else so many, spread along the curves, and at most so many states: near the load from which on a part queues the
fluid is too low, so that the queue itself has to be solved more often, and again after the search went on."""

_SLOPE_STATES = (20, 32)
"""States of the chain that slopes are taken from: at first, and after a step that was refused."""

_FIRST_STEPS, _MORE_STEPS, _LAST_STEPS = (4, 7), 1, 2
"""Steps from each start with half the stages, where they are cheap; then with all; then towards the queue itself."""

_SLOW = 0.98
"""A step that leaves more than this part of the worst error counts as refused."""

_DIFFERENCE, _LONGEST_STEP = 1e-3, 0.5
_DAMPINGS = np.array([0.2, 1.0, 8.0])
_REWEIGHTINGS, _POWER = 8, 6
_GOOD, _FAIR = 0.6, 0.85
"""A search ends at the first of these worst errors, in units of the bars; above the second, other starts are tried."""

_FASTEST = 1e4
"""Rates above this many times the mean rate make no difference to a queue."""

_ROOM = 0.6
"""Up to this part of the bars a cycle may be lifted above the replayed curves, see `replay_queue`."""


def is_deep(queue: ReplayedQueue) -> bool:
    """Whether bursts queue at every load."""
    return bool(queue.responses[0] > _DEEP * queue.utilisations[0])


@dataclass(frozen=True, eq=False)
class CycleAim:
    """What the search follows: logarithms of the means and of the percentiles at `loads`, and their bars."""

    loads: FloatArray
    target: FloatArray
    bars: FloatArray

    @classmethod
    def of(cls, queue: ReplayedQueue) -> CycleAim:
        """Return the aim of a replayed window."""
        at = np.unique(spread_loads(queue, _SHALLOW_LOADS)).tolist()
        if is_deep(queue):
            at = [int(np.argmin(np.abs(queue.utilisations - load))) for load in _DEEP_LOADS]
        curves = (queue.responses[at], queue.percentiles[at])
        bars = np.repeat([MEAN_BAR, PERCENTILE_BAR], len(at))
        return cls(queue.utilisations[at], np.log(np.concatenate(curves)), bars)

    def errors(self, theta: FloatArray, shape: Cycle) -> FloatArray:
        """Return how far the fluid of each row of parameters is off, in units of the bars."""
        with np.errstate(invalid="ignore"):
            return np.asarray((np.log(fluid_of(theta, shape, self.loads)) - self.target) / self.bars)

    def corrected(self, missing: Missing) -> CycleAim:
        """Return the aim for a fluid that lacks this."""
        return CycleAim(self.loads, self.target - missing.at(self.loads), self.bars)


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the search: the parameters, the stages shared out for them, and the errors there."""

    theta: FloatArray
    shape: Cycle
    errors: FloatArray

    @property
    def loss(self) -> float:
        """The errors as one number, close to the largest."""
        total = float((self.errors**_POWER).sum())
        return total if np.isfinite(total) else np.inf

    @property
    def worst(self) -> float:
        """The largest error, in units of its bar."""
        worst = float(np.abs(self.errors).max())
        return worst if np.isfinite(worst) else np.inf


def starts(course: Course, states: int) -> list[FloatArray]:
    """Return starts from the course of a window, as many parts each as the states allow: one burst, or two."""
    classes = 1 if states < 8 else 2 if states < 24 else 3
    rates, lengths, bursts = _folded(course, classes)
    if rates.size < 2 or rates.size > states:
        return []
    one = np.concatenate([rates, lengths])
    if states < 24:
        return [np.log(one)]
    again = slice(0, max(bursts - 1, 1))
    two = np.concatenate([rates[: bursts + 2], rates[again], rates[-2:]])
    long = np.concatenate([0.7 * lengths[:bursts], 0.75 * lengths[bursts : bursts + 2]])
    short = np.concatenate([0.3 * lengths[again], 0.75 * lengths[-2:]])
    return [np.log(one), np.log(np.concatenate([two, long, short]))]


def _folded(course: Course, classes: int) -> tuple[FloatArray, FloatArray, int]:
    """Return rates and lengths of one cycle: bursts in classes of as many arrivals, fastest first, then lulls.

    The third value is the number of classes of bursts.
    """
    rates = course.rates
    burst = rates > 1.0
    order = np.argsort(-rates[burst], kind="stable")
    counts, lengths = course.counts[burst][order], course.lengths[burst][order]
    along = (np.cumsum(counts) - 0.5 * counts) / max(float(counts.sum()), 1e-300)
    parts: list[tuple[float, float]] = []
    for k in range(classes):
        inside = (along >= k / classes) & (along < (k + 1) / classes)
        if inside.any():
            parts.append((float(counts[inside].sum()), float(lengths[inside].sum())))
    bursts = len(parts)
    quiet, rest = float(course.counts[~burst].sum()), float(course.lengths[~burst].sum())
    if bursts and rest > 0.0:
        parts += [(quiet / classes, rest / classes)] * classes
    arrivals, times = np.array(parts).reshape(-1, 2).T
    times = np.maximum(times, arrivals / _FASTEST)
    return arrivals / times, times, bursts


def search(course: Course, queue: ReplayedQueue, states: int, is_late: IsLate) -> Iterator[Found]:
    """Search cycles of so many states from each start, until one is good."""
    aim = CycleAim.of(queue)
    states = states if is_deep(queue) else min(states, _SHALLOW_STATES)
    best: _State | None = None
    for start, steps in zip(starts(course, states), _FIRST_STEPS, strict=False):
        if best is not None and (best.worst <= _FAIR or is_late()):
            break
        half = max(states // 2, start.size // 2)
        rough = _descend(_levelled(_state(start, half, aim), half, aim), half, aim, steps, is_late)
        found = _state(rough.theta, states, aim)
        found = _descend(_levelled(found, states, aim), states, aim, _MORE_STEPS, is_late)
        if best is None or found.loss < best.loss:
            best = found
    for _ in range(1 if is_deep(queue) else _SHALLOW_ROUNDS):
        if best is None or not np.isfinite(best.loss):
            return
        missing = Missing.of(best.theta, best.shape, aim.loads)
        if not missing.is_known:
            return
        nearer = aim.corrected(missing)
        solved = _state(best.theta, states, nearer)
        best = _descend(solved, states, nearer, _LAST_STEPS, is_late)
        yield from _found(_lifted(best), missing)
        if solved.worst <= _GOOD or is_late():
            return


def continued(recipe: Recipe, queue: ReplayedQueue, is_late: IsLate) -> Iterator[Found]:
    """Search on from an earlier window's cycle. What its fluid lacked is taken to be the same."""
    if recipe.cycle is None or recipe.theta is None or recipe.missing is None:
        return
    states, aim = recipe.cycle.order, CycleAim.of(queue).corrected(recipe.missing)
    found = _levelled(_state(recipe.theta, states, aim), states, aim)
    if found.worst > _FAIR:
        found = _descend(found, states, aim, 1, is_late)
    if np.isfinite(found.loss):
        yield from _found(_lifted(found), recipe.missing)


def _lifted(state: _State) -> _State:
    """Make the cycle a little longer if there is room above its curves: a window's own replay is mostly too low."""
    room = min(max(_ROOM - float(state.errors.max()), 0.0) * MEAN_BAR, MOST_LIFT)
    parts = state.theta.size // 2
    return _State(state.theta + np.repeat([0.0, room], parts), state.shape, state.errors)


def _found(state: _State, missing: Missing) -> Iterator[Found]:
    d0, d1 = state.shape.matrices(state.theta[None])
    name = f"cycle of {state.shape.parts} parts"
    yield from valid(d0[0], d1[0], Recipe(name, cycle=state.shape, theta=state.theta, missing=missing))


def _shared(theta: FloatArray, states: int) -> Cycle:
    parts = theta.size // 2
    rates, lengths = np.exp(theta[:parts]), np.exp(theta[parts:])
    return Cycle.sharing(rates * lengths.sum() / (rates * lengths).sum(), lengths, states)


def _state(theta: FloatArray, states: int, aim: CycleAim) -> _State:
    shape = _shared(theta, states)
    return _State(theta, shape, aim.errors(theta[None], shape)[0])


def _levelled(state: _State, states: int, aim: CycleAim) -> _State:
    """Repeat the cycle so much more often that the level of its curves is right: a fluid is as high as it is long."""
    off = state.errors * aim.bars
    finite = off[np.isfinite(off)]
    if not finite.size:
        return state
    parts = state.theta.size // 2
    shift = np.repeat([0.0, float(np.median(finite))], parts)
    moved = _state(state.theta - shift, states, aim)
    return moved if moved.loss < state.loss else state


def _descend(state: _State, states: int, aim: CycleAim, steps: int, is_late: IsLate) -> _State:
    """Take steps that lower the largest errors."""
    damping, refused = 0.03, 0
    for _ in range(steps):
        if is_late() or state.worst <= _GOOD or refused > 2 or not np.isfinite(state.loss):
            break
        slopes = _slopes(state, min(_SLOPE_STATES[min(refused, 1)], states), aim)
        trials = [_step(state.errors, slopes, damping * factor) for factor in _DAMPINGS]
        found = aim.errors(state.theta + np.array(trials), state.shape)
        tried = [_State(state.theta + step, state.shape, e) for step, e in zip(trials, found, strict=True)]
        place = int(np.argmin([one.loss for one in tried]))
        taken = tried[place]
        if taken.loss < state.loss:
            refused = refused + 1 if taken.worst > _SLOW * state.worst else 0
            state = taken
            if _differ(_shared(taken.theta, states), taken.shape):
                again = _state(taken.theta, states, aim)
                state = again if again.loss < taken.loss else taken
            damping *= float(_DAMPINGS[place])
        else:
            refused += 1
            damping *= 20.0 if refused > 1 else 1.0
    return state


def _differ(one: Cycle, other: Cycle) -> bool:
    return max(abs(a - b) for a, b in zip(one.stages, other.stages, strict=True)) > 2


def _slopes(state: _State, states: int, aim: CycleAim) -> FloatArray:
    """Return the derivatives of the errors, shape (errors, parameters)."""
    size = state.theta.size
    shape = _shared(state.theta, max(states, size // 2))
    rows = state.theta + _DIFFERENCE * np.concatenate([np.zeros((1, size)), np.eye(size)])
    errors = aim.errors(rows, shape)
    with np.errstate(invalid="ignore"):
        slopes = (errors[1:] - errors[0]).T / _DIFFERENCE
    return np.where(np.isfinite(slopes), slopes, 0.0)


def _step(errors: FloatArray, slopes: FloatArray, damping: float) -> FloatArray:
    """Return a damped step that lowers the largest errors: least squares, weighted anew by what each step leaves."""
    weights = np.ones(errors.size)
    step = np.zeros(slopes.shape[1])
    for _ in range(_REWEIGHTINGS):
        weighted = slopes * weights[:, None]
        system = weighted.T @ weighted
        system += damping * np.diag(np.diag(system) + 0.1)
        step = np.clip(-np.linalg.solve(system, weighted.T @ (weights * errors)), -_LONGEST_STEP, _LONGEST_STEP)
        left = np.abs(errors + slopes @ step)
        weights = weights * np.sqrt(left / max(float(left.max()), 1e-12) + 0.2)
        weights = weights / weights.mean()
    return step
