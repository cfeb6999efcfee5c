# SPDX-License-Identifier: Apache-2.0
"""Candidate processes: scores them by their queue along the load, ranks them, and drops look-alikes.

The score of a candidate depends only on its matrices, not on the search that found it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.errors import InvalidProcessError
from penstock.markov import MAP
from penstock.workload.added_chance import Added
from penstock.workload.burst_chain import Bursts
from penstock.workload.cycle_chain import Cycle
from penstock.workload.load_curve import predicted_curve
from penstock.workload.modulated_cycle import ModulatedCycle
from penstock.workload.moments import TraceDescription
from penstock.workload.replay_queue import BARRED, ReplayedQueue

FloatArray = npt.NDArray[np.float64]

MEAN_BAR = 0.15
PERCENTILE_BAR = 0.25
"""How far mean and 95th percentile may be off the replayed ones, at any utilisation up to `BARRED`."""

GOOD_ENOUGH = 0.35
"""A worst error below this part of its bar counts as this part: closer than that, it is the window's chance."""

PRICE_OF_A_STATE, PRICE_OF_A_STAGE, SMALL = 0.02, 0.001, 16
"""How much an additional state must reduce the loss to be worth it: up to `SMALL` of them, and beyond."""

LARGE = 40
"""Queues of cycles with more states than this are told by their course or fluid, and what was found to be added to it
at a few loads, as they take too long to solve at every load."""

SAFE, PRICE_OF_A_MISSED_BAR = 0.95, 1.0
"""A worst error above `SAFE` of its bar costs this much more: what is good enough comes first, however large."""

PRICE_OF_DISPERSION = 0.1
"""What each further doubling of the dispersion's error costs, beyond the first factor of 2."""

_CRITICAL, _FEWEST_CRITICAL = 0.5, 4
"""Loads at which a large cycle is told to be off by more than this part of its bar, at least so many, and `BARRED` are
solved before bars are claimed. What is told was off by up to a third of a bar, most of all at the highest load."""

ABSURD = 2.0
"""Factor in a predicted mean response time above which a candidate is dropped."""

_FAR_LAG = 100
_LARGEST_LOOKALIKE_DIFFERENCE = 0.01


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a process was found, and where a search can start again: the shape of a chain or a cycle, its parameters.

    `added` is what the queue of a cycle has beyond that of its course. `told` are the parameters that the turns of a
    window told, where the search for a modulated cycle began. `curves` has the logarithms of means and percentiles at
    the replayed utilisations, shape (2, utilisations): the queue of a cycle of many states takes too long to solve.
    """

    family: str
    bursts: Bursts | None = None
    cycle: Cycle | None = None
    theta: FloatArray | None = None
    modulated: ModulatedCycle | None = None
    told: FloatArray | None = None
    added: Added | None = None
    curves: FloatArray | None = None


Found = tuple[MAP, Recipe]
"""A process of mean 1, and its origin."""


def valid(d0: FloatArray, d1: FloatArray, recipe: Recipe) -> Iterator[Found]:
    """Return the process of mean 1, or None if its rates are too far apart for exact sums."""
    try:
        process = MAP(d0, d1).with_rate(1.0)
    except InvalidProcessError:
        return
    yield process, recipe


@dataclass(frozen=True, eq=False)
class FittedMap:
    """A process fitted to a window, and its errors.

    `errors` are relative for mean, m2, m3, scv and skewness, absolute for acf_rmse (over lags 1 to 100) and the
    largest log ratios for idi and idc; ``None`` if the window has no such value. `queue_errors` and
    `percentile_errors` have the relative errors of the mean and of the 95th percentile of the response time for each
    replayed utilisation; those of a cycle of more than `LARGE` states are told by its curves. `queue` is the replayed
    window. `loss` is the worst of them in units of its bar, plus a price for each state, for a bar that
    is missed and for a dispersion of counts that is off by more than a factor of 2.
    """

    map: MAP
    loss: float
    errors: Mapping[str, float | None]
    queue_errors: Mapping[float, float]
    percentile_errors: Mapping[float, float]
    family: str
    recipe: Recipe
    queue: ReplayedQueue

    @property
    def states(self) -> int:
        """Number of phases."""
        return self.map.order

    @property
    def worst_error(self) -> float:
        """Largest error of mean and percentile up to the utilisation `BARRED`, in units of its bar."""
        return worst_error(self.queue_errors, self.percentile_errors)

    @property
    def worst_queue_factor(self) -> float:
        """Largest factor, up or down, between predicted and replayed mean response times up to `BARRED`."""
        errors = [error for load, error in self.queue_errors.items() if load <= BARRED]
        return max(max(1.0 + e, 1.0 / max(1.0 + e, 1e-12)) for e in errors)

    @cached_property
    def fingerprint(self) -> FloatArray:
        """Interval distribution, autocorrelation and queue at a few points, to distinguish processes."""
        points = self.map.mean * np.array([0.003, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
        tail = self.map.intervals.sf(points)
        links = self.map.autocorrelation(np.array([1, 3, 10, 30, 100, 300]))
        queue = np.log1p(np.maximum(list(self.queue_errors.values()), -0.999999))
        return np.concatenate([tail, links, queue])

    @cached_property
    def meets_bars(self) -> bool:
        """Whether mean and percentile are within their bars at every replayed utilisation up to `BARRED`.

        The queue of a cycle of many states is solved for this where its curves say it is nearest to the bars.
        """
        return self.worst_error <= 1.0 and (not _is_told(self.map, self.recipe) or self._own_error() <= 1.0)

    def _own_error(self) -> float:
        """Return the largest error of the process's own queue at the critical utilisations, in units of its bar."""
        told = {
            u: max(abs(self.queue_errors[u]) / MEAN_BAR, abs(self.percentile_errors[u]) / PERCENTILE_BAR)
            for u in self.queue_errors
            if u <= BARRED
        }
        nearest = sorted(told, key=lambda u: -told[u])
        critical = [
            u for place, u in enumerate(nearest) if place < _FEWEST_CRITICAL or told[u] > _CRITICAL or u == BARRED
        ]
        return worst_error(*_errors(self.queue.at(critical), *predicted_curve(self.map, critical)))


def worst_error(means: Mapping[float, float], percentiles: Mapping[float, float]) -> float:
    """Return the largest error up to the utilisation `BARRED`, in units of its bar."""
    pairs = ((means, MEAN_BAR), (percentiles, PERCENTILE_BAR))
    return max(_size(error) / bar for errors, bar in pairs for load, error in errors.items() if load <= BARRED)


def _size(error: float) -> float:
    """Return the size of a relative error. Below -50 % it counts by its factor: -90 % is worse than +90 %."""
    return abs(error) if error >= -0.5 else 0.5 * (1.0 / max(1.0 + error, 1e-12) - 1.0)


def score(unit: MAP, trace: TraceDescription, queue: ReplayedQueue, recipe: Recipe) -> FittedMap:
    """Score a process of mean 1 against a window. The result is in the window's unit of time."""
    moments = unit.moments(3)
    wanted = np.array([1.0, trace.m2 / trace.mean**2, trace.m3 / trace.mean**3])
    relative = moments / wanted - 1.0
    errors: dict[str, float | None] = {
        "mean": float(relative[0]), "m2": float(relative[1]), "m3": float(relative[2]),
        "scv": float(unit.scv / trace.scv - 1.0) if trace.scv > 0 else None,
        "skewness": None, "acf_rmse": None, "idi": None, "idc": None,
    }  # fmt: skip
    if trace.skewness is not None and trace.acf.size:
        errors["skewness"] = float(unit.skewness / trace.skewness - 1.0) if abs(trace.skewness) > 1e-9 else None
        far = min(_FAR_LAG, trace.acf.size)
        difference = unit.autocorrelation(np.arange(1, far + 1)) - trace.acf[:far]
        rmse = float(np.sqrt(np.mean(difference**2)))
        errors["acf_rmse"] = rmse
        chosen = (trace.idi_counts <= 1000) & (trace.idi > 0)
        ratio = unit.idi(trace.idi_counts[chosen]) / trace.idi[chosen]
        errors["idi"] = float(np.max(np.abs(np.log(np.maximum(ratio, 1e-12))))) if chosen.any() else None
    seen = trace.idc > 0
    if seen.any():
        ratio = unit.idc(trace.idc_widths[seen] / trace.mean) / trace.idc[seen]
        errors["idc"] = float(np.max(np.abs(np.log(np.maximum(ratio, 1e-12)))))
    if recipe.curves is not None and _is_told(unit, recipe):
        mean, percentile = np.exp(recipe.curves)
    else:
        mean, percentile = predicted_curve(unit, queue.utilisations)
    means, percentiles = _errors(queue, mean, percentile)
    dispersion = max((errors["idc"] or 0.0) / float(np.log(2.0)) - 1.0, 0.0)
    worst = worst_error(means, percentiles)
    return FittedMap(
        map=unit.time_scaled(trace.mean),
        loss=max(worst, GOOD_ENOUGH)
        + PRICE_OF_A_STATE * min(unit.order, SMALL)
        + PRICE_OF_A_STAGE * max(unit.order - SMALL, 0)
        + PRICE_OF_A_MISSED_BAR * (worst > SAFE)
        + PRICE_OF_DISPERSION * dispersion,
        errors=errors,
        queue_errors=means,
        percentile_errors=percentiles,
        family=recipe.family,
        recipe=recipe,
        queue=queue,
    )


def _is_told(process: MAP, recipe: Recipe) -> bool:
    """Return whether the errors of a process are those of the curves it was found with, not of its own queue."""
    return recipe.curves is not None and process.order > LARGE


def _errors(
    queue: ReplayedQueue, mean: FloatArray, percentile: FloatArray
) -> tuple[dict[float, float], dict[float, float]]:
    """Return the relative errors of means and of percentiles by utilisation."""
    return _relative(queue, mean / queue.responses), _relative(queue, percentile / queue.percentiles)


def _relative(queue: ReplayedQueue, ratios: FloatArray) -> dict[float, float]:
    """Return relative errors by utilisation. What could not be solved is as wrong as a number can say."""
    errors = np.where(np.isfinite(ratios), ratios, 1e20) - 1.0
    return {float(u): float(e) for u, e in zip(queue.utilisations, errors, strict=True)}


def best_distinct(
    candidates: Sequence[FittedMap], best: int, first: FittedMap | None = None
) -> tuple[list[FittedMap], int]:
    """Return the `best` distinct candidates of lowest loss, and how many absurd ones were dropped.

    `first`, if given, comes first whatever its loss.

    A candidate is absurd if a response time it predicts is wrong by more than the factor `ABSURD`. Unless all are, it
    is dropped whatever its loss. Two are the same if neither interval distribution, autocorrelation nor response
    times differ by more than a hundredth.
    """
    ranked = sorted(candidates, key=lambda c: (c is not first, c.loss, c.worst_error))
    sane = [c for c in ranked if c.worst_queue_factor <= ABSURD]
    dropped = len(ranked) - len(sane) if sane else 0
    chosen: list[FittedMap] = []
    prints: list[FloatArray] = []
    for candidate in sane or ranked[:1]:
        mark = candidate.fingerprint
        if all(float(np.max(np.abs(mark - other))) > _LARGEST_LOOKALIKE_DIFFERENCE for other in prints):
            chosen.append(candidate)
            prints.append(mark)
        if len(chosen) == best:
            break
    return chosen, dropped
