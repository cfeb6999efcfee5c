# SPDX-License-Identifier: Apache-2.0
"""Searches chains of bursts (`burst_chain`) whose queue follows the replayed one along the whole load.

A burst of rate r queues from the load 1 / r on, and then the longer the higher the load: the replayed mean is about a
sum of hinges, whose places give the rates and whose slopes the lengths to start from. From there least squares matches
mean and percentile at loads spread along both curves, and with less weight the distribution of gaps and the dispersion
of counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from penstock.workload.burst_chain import Bursts
from penstock.workload.candidates import MEAN_BAR, PERCENTILE_BAR, Found, Recipe, valid
from penstock.workload.least_squares import DAMPING, DAMPINGS, IsLate, difference_least_squares
from penstock.workload.load_curve import load_curves
from penstock.workload.replay_queue import BARRED, ReplayedQueue, finite_lift
from penstock.workload.window_features import WindowFeatures

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Residuals = Callable[[FloatArray], FloatArray]
"""Returns (rows, terms) for rows of parameters."""

_MEAN_TOLERANCE, _PERCENTILE_TOLERANCE = 0.05, 0.08
_WEIGHT_BEYOND = 0.2
"""Weight of loads above `BARRED`, where a replay ends before its queue has settled."""

_LOADS = 12
_FIRST_STEPS, _LAST_STEPS = 4, 4
_BARRED_STEPS, _BARRED_POWER = 12, 4.0
"""The sum of the squares of this power of the errors is close to the largest of them."""

_LARGE, _FEWER_LOADS, _FEW_DAMPINGS = 8, 8, np.array([0.3, 10.0])
"""Chains of more states than this are searched at fewer loads, with fewer steps tried."""

_RARE, _FREQUENT = (0.4, 10.0, -6.0), (1.2, 3.0, -2.5)
"""Log rate, length and weight of a kind of burst that is added to others."""

_HINGES = np.concatenate([[0.004, 0.015], np.geomspace(0.03, 0.93, 22)])
SHARES = (0.05, 0.2, 0.5, 0.85)
"""Shares of the arrivals in bursts to start from. The means alone do not tell many short bursts from few long ones."""


def spread_loads(queue: ReplayedQueue, count: int) -> list[int]:
    """Return places of loads up to `BARRED`, evenly along both curves: more where they rise steeply."""
    within = np.flatnonzero(queue.utilisations <= BARRED)
    u = queue.utilisations[within]
    way = np.diff(u) / np.ptp(u)
    for curve in (queue.responses, queue.percentiles):
        level = np.log(curve[within] / u)
        way = way + 0.7 * np.abs(np.diff(level)) / max(float(np.ptp(level)), 0.5)
    along = np.concatenate([[0.0], np.cumsum(way)])
    return [int(within[np.argmin(np.abs(along - at))]) for at in np.linspace(0.0, along[-1], count)]


@dataclass(frozen=True, eq=False)
class Aim:
    """What the search follows: the replayed curves at chosen loads, and the features of the window."""

    queue: ReplayedQueue
    features: WindowFeatures
    chosen: IntArray

    @classmethod
    def of(cls, queue: ReplayedQueue, features: WindowFeatures, loads: int = _LOADS) -> Aim:
        """Choose loads spread along both curves, and the highest."""
        return cls(queue, features, np.unique([*spread_loads(queue, loads - 1), queue.utilisations.size - 1]))

    def with_fewer_loads(self) -> Aim:
        """Return the same aim at fewer loads."""
        return Aim.of(self.queue, self.features, _FEWER_LOADS)

    def residuals(self, shape: Bursts, power: float = 1.0) -> Residuals:
        """Return the function that gives the residuals of rows of parameters, each in units of its tolerance.

        With a `power` above 1, the sum of their squares is closer to the largest of them, which the bars look at.
        """
        loads = self.queue.utilisations[self.chosen]
        lift = np.exp(finite_lift(self.queue)[self.chosen])
        mean, percentile = self.queue.responses[self.chosen] * lift, self.queue.percentiles[self.chosen] * lift
        weight = np.where(loads > BARRED, _WEIGHT_BEYOND, 1.0)

        def residuals(theta: FloatArray) -> FloatArray:
            d0, d1 = shape.matrices(theta)
            means, percentiles = load_curves(d0, d1, loads)
            terms = np.concatenate(
                [
                    np.log(means / mean) * (weight / _MEAN_TOLERANCE),
                    np.log(percentiles / percentile) * (weight / _PERCENTILE_TOLERANCE),
                    self.features.residuals(d0, d1),
                ],
                axis=1,
            )
            return terms if power == 1.0 else np.asarray(np.sign(terms) * np.abs(terms) ** power)

        return residuals

    def barred(self, shape: Bursts) -> Residuals:
        """Return the function that gives powers of the errors of mean and percentile, in units of their bars.

        Above the curve that is aimed at, a unit is what is left up to the bar, and below it what is left down to it.
        """
        at = self.chosen[self.queue.utilisations[self.chosen] <= BARRED]
        loads, lift = self.queue.utilisations[at], np.tile(finite_lift(self.queue)[at], 2)
        target = np.log(np.concatenate([self.queue.responses[at], self.queue.percentiles[at]])) + lift
        bars = np.repeat(np.log1p([MEAN_BAR, PERCENTILE_BAR]), at.size)

        def residuals(theta: FloatArray) -> FloatArray:
            off = np.log(np.concatenate(load_curves(*shape.matrices(theta), loads), axis=1)) - target
            return np.asarray(np.sign(off) * np.abs(off / (bars - np.sign(off) * lift)) ** _BARRED_POWER)

        return residuals


def cold_starts(shape: Bursts, queue: ReplayedQueue, shares: Sequence[float] = SHARES) -> FloatArray:
    """Return starts of the search for a shape, one for each share of arrivals in bursts."""
    places, slopes = _hinges(queue, shape.kinds)
    stages = np.array(shape.stages)
    rows = []
    for total in shares:
        rate, share = 1.1 / places, np.full(shape.kinds, total / shape.kinds)
        share *= min(1.0, 0.9 / float((share / rate).sum()))  # some of the time is left for the base
        rest = 1.0 - float(share.sum())
        base = max(rest / (1.0 - float((share / rate).sum())), 1e-3)
        # Within a burst of N arrivals the mean wait grows by N / 2 for each unit of load, more if N varies.
        length = np.maximum(2.0 * slopes * stages / (stages + 1) / share, 2.0)
        rows.append(np.concatenate([np.log(rate / base), np.log(length), np.log(share / rest)]))
    return np.array(rows)


def _hinges(queue: ReplayedQueue, kinds: int) -> tuple[FloatArray, FloatArray]:
    """Return places and slopes of the hinges whose sum is closest to the replayed mean, relative to it.

    One is added after the other, and after each the others are chosen anew.
    """
    u, mean = queue.utilisations, queue.responses
    columns = np.maximum(0.0, u[:, None] - _HINGES) / mean[:, None]
    right = np.maximum(mean - u, 1e-9) / mean
    chosen: list[int] = []

    def best_with(others: list[int]) -> int:
        rest = [j for j in range(_HINGES.size) if j not in others]
        # Rounded, as hinges without weight tie: the last digit, and with it the unit of time, must not decide.
        return min(rest, key=lambda j: round(float(nnls(columns[:, [*others, j]], right)[1]), 9))

    for _ in range(kinds):
        chosen.append(best_with(chosen))
        for _ in range(len(chosen) - 1):
            chosen.append(best_with(chosen[1:]))
            del chosen[0]
    chosen.sort()
    slopes, _ = nnls(columns[:, chosen], right)
    return _HINGES[chosen], np.maximum(slopes, 1e-3)


def extended(theta: FloatArray) -> FloatArray:
    """Return starts for one more kind of burst than `theta` has: long and rare ones, or short and frequent ones."""
    parts = theta.reshape(3, -1)
    return np.array([np.concatenate([parts, np.array(kind)[:, None]], axis=1).ravel() for kind in (_RARE, _FREQUENT)])


def search(
    shape: Bursts,
    starts: FloatArray,
    aim: Aim,
    is_late: IsLate,
    *,
    iterations: int = 8,
    damping: float = DAMPING,
    last: int | None = None,
) -> Iterator[Found]:
    """Search from starts. After a few steps from each the best two go on, then the best with large errors enlarged.

    `last` is the number of steps with errors enlarged, if not as many as usual.
    """
    low, high = shape.bounds()
    is_large = shape.order > _LARGE
    aim, dampings = (aim.with_fewer_loads(), _FEW_DAMPINGS) if is_large else (aim, DAMPINGS)

    def further(rows: FloatArray, steps: int, power: float, weight: float) -> tuple[FloatArray, FloatArray]:
        return difference_least_squares(
            aim.residuals(shape, power), rows, low, high, iterations=steps, is_late=is_late, damping=weight,
            dampings=dampings,
        )  # fmt: skip

    theta = starts
    if is_large and len(starts) > 1:  # too dear to be followed from more than one
        theta = theta[[int(np.argmin(further(theta, 0, 1.0, damping)[1]))]]
    elif len(starts) > 2:
        theta, loss = further(theta, _FIRST_STEPS, 1.0, damping)
        theta = theta[np.argsort(loss)[:2]]
    theta, loss = further(theta, iterations, 1.0, damping)
    order = np.argsort(loss)
    theta, loss = theta[order], loss[order]
    if last is None:
        last = 6 // shape.kinds if is_large else _LAST_STEPS
    kept = 1 if is_large else len(theta)
    rows, values = theta[:kept], loss[:kept]
    if last:
        refined, final = further(theta[:1], last, 2.0, DAMPING)
        rows, values = np.concatenate([refined, rows]), np.concatenate([final, values])
    yield from _found(shape, rows, values)


def within_bars(shape: Bursts, rows: FloatArray, aim: Aim, is_late: IsLate) -> Iterator[Found]:
    """Search on from rows of parameters by the largest errors of mean and percentile alone."""
    aim = aim.with_fewer_loads() if shape.order > _LARGE else aim
    theta, loss = difference_least_squares(
        aim.barred(shape), rows, *shape.bounds(), iterations=_BARRED_STEPS, is_late=is_late
    )
    yield from _found(shape, theta, loss)


def _found(shape: Bursts, theta: FloatArray, loss: FloatArray) -> Iterator[Found]:
    for row, value in zip(theta, loss, strict=True):
        if np.isfinite(value):
            d0, d1 = shape.matrices(row[None])
            yield from valid(d0[0], d1[0], Recipe(_name(shape), bursts=shape, theta=row))


def _name(shape: Bursts) -> str:
    kinds = f"bursts of {shape.kinds} kind" + ("s" if shape.kinds > 1 else "")
    staged = ", in stages" if shape.base > 1 or max(shape.stages) > 1 else ""
    return kinds + staged + (f", gaps of {shape.gap}" if shape.gap > 1 else "")
