# SPDX-License-Identifier: Apache-2.0
"""Searches short cycles at a rate that changes slowly (`modulated_cycle`), for windows that have turns and levels.

The course of a turn and the levels of the window's turns (`turns`) are the start. A chain of few states is moved until
its queue is near the replayed curves. From there the large one goes on, with the slopes of the small one and what each
step teaches about them (Broyden, "A class of methods for solving nonlinear simultaneous equations", Mathematics of
Computation 19, 1965), so that a step solves the fluid of the large chain but once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from penstock.workload.candidates import Found, Recipe, valid
from penstock.workload.cycle_curve import fluid_of, lacking
from penstock.workload.cycle_search import CycleAim
from penstock.workload.least_squares import IsLate
from penstock.workload.minimax import descend, shortest_step, size, slopes_of
from penstock.workload.modulated_cycle import ModulatedCycle
from penstock.workload.replay_queue import ReplayedQueue
from penstock.workload.turns import Turns

FloatArray = npt.NDArray[np.float64]

_PARTS, _LEVELS = 2, 3
_STATES, _FEW_STATES = 80, 24
"""States of the chain, and of the small one. With 96 a step takes half as long again."""

_FASTEST = 60.0
"""Rates to start from, in units of the mean: three times what queues at the lowest load."""

_FIRST_STEPS, _STEPS, _AGAIN_STEPS = 4, 20, 6
_FEWEST_STEPS, _HOPELESS = 10, 2.0
"""After so many steps the search ends if the worst error is above this, in units of its bar."""

_GOOD, _ENOUGH, _OUT_OF_REACH = 0.75, 0.9, 2.2
"""In units of the bars: the search ends at the first worst error, that from an earlier window's parameters at the
second. If the small chain is further off than the third, the large one is not tried."""

_NOT_NEAR = 1.2
"""Above this a process is given up, as its errors are known to some tenths of a bar."""

_DAMPING, _MORE, _LESS = 3.0, 4.0, 1.0 / 3.0

_ANEW, _LOOK = 3, 5
"""After so many steps in vain the slopes are those of the small chain again. What the fluid lacks changes slowly, and
is found again after so many steps."""

_LACKING = 6, 12
"""Most stages of a part in the chains that tell what the fluid lacks, see `cycle_curve`."""


def search(turns: Turns, queue: ReplayedQueue, states: int, is_late: IsLate) -> Iterator[Found]:
    """Search from a window's own turns and levels."""
    start, aim = _told(turns, queue), CycleAim.of(queue)
    small = _shape(start, queue, _FEW_STATES)
    theta, errors = descend(lambda rows: _errors(rows, small, aim), start, _FIRST_STEPS, 0.0)
    if np.abs(errors).max() <= _OUT_OF_REACH:
        most = min(states, _STATES)
        yield from _moved(start, theta, aim, queue, states=most, steps=_STEPS, good=_GOOD, is_late=is_late)


def continued(recipe: Recipe, turns: Turns | None, queue: ReplayedQueue, is_late: IsLate) -> Iterator[Found]:
    """Search on from an earlier window's process: what it took beyond its turns and levels, this one's take too."""
    if recipe.modulated is not None and recipe.theta is not None and recipe.told is not None and turns is not None:
        start, aim, states = _told(turns, queue), CycleAim.of(queue), recipe.modulated.order
        theta = start + recipe.theta - recipe.told
        yield from _moved(start, theta, aim, queue, states=states, steps=_AGAIN_STEPS, good=_ENOUGH, is_late=is_late)


def _told(turns: Turns, queue: ReplayedQueue) -> FloatArray:
    """Return the parameters that a window's turns and levels tell."""
    course, (levels, lasting) = turns.course(queue, _PARTS), turns.levels()
    lengths = np.maximum(course.lengths, course.counts / _FASTEST)
    return np.asarray(np.log(np.concatenate([course.counts / lengths, lengths, levels, lasting])))


def _moved(
    told: FloatArray,
    theta: FloatArray,
    aim: CycleAim,
    queue: ReplayedQueue,
    *,
    states: int,
    steps: int,
    good: float,
    is_late: IsLate,
) -> Iterator[Found]:
    """Move the parameters until the queue of a chain of so many states is right."""
    shape, small = _shape(theta, queue, states), _shape(theta, queue, _FEW_STATES)
    few, some = (shape.with_at_most(stages) for stages in _LACKING)
    lacks = lacking(theta, (few, some), aim.loads)
    errors, damping, in_vain = _errors(theta[None], shape, aim)[0] + lacks / aim.bars, _DAMPING, 0
    slopes: FloatArray | None = None
    for turn in range(steps):
        worst = float(np.abs(errors).max())
        if worst <= good or (turn >= _FEWEST_STEPS and worst > _HOPELESS) or is_late():
            break
        if slopes is None or in_vain == _ANEW:
            near = _errors(theta[None], small, aim)[0]
            slopes, in_vain = slopes_of(lambda rows: _errors(rows, small, aim), theta, near), 0
        step = shortest_step(errors, slopes, damping)
        found = _errors((theta + step)[None], shape, aim)[0] + lacks / aim.bars
        slopes = slopes + np.outer(found - errors - slopes @ step, step) / float(step @ step)
        if size(found) < size(errors):
            theta, errors, damping, in_vain = theta + step, found, damping * _LESS, 0
        else:
            damping, in_vain = damping * _MORE, in_vain + 1
        if turn % _LOOK == _LOOK - 1:
            before, lacks = lacks, lacking(theta, (few, some), aim.loads)
            errors = errors + (lacks - before) / aim.bars
    if np.abs(errors).max() > _NOT_NEAR:
        return
    between = np.array([np.interp(queue.utilisations, aim.loads, part) for part in lacks.reshape(2, -1)])
    curves = np.log(fluid_of(theta[None], shape, queue.utilisations)).reshape(2, -1) + between
    name = f"cycle of {shape.parts} parts at {_LEVELS} levels"
    d0, d1 = shape.matrices(theta[None])
    yield from valid(d0[0], d1[0], Recipe(name, modulated=shape, theta=theta, told=told, curves=curves))


def _errors(rows: FloatArray, shape: ModulatedCycle, aim: CycleAim) -> FloatArray:
    """Return how far the fluid of rows of parameters is off, in units of the bars."""
    return np.nan_to_num(aim.errors(np.log(fluid_of(rows, shape, aim.loads))), posinf=1e3)


def _shape(theta: FloatArray, queue: ReplayedQueue, states: int) -> ModulatedCycle:
    return ModulatedCycle.sharing(theta, _LEVELS, states, queue.utilisations, queue.responses)
