# SPDX-License-Identifier: Apache-2.0
"""Candidate processes: scores them as composed, ranks them by descriptors and queue together, and drops look-alikes.

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
from penstock.workload.moments import TraceDescription
from penstock.workload.product_form import Shape
from penstock.workload.replay_queue import ReplayedQueue, predicted_responses
from penstock.workload.staged import Chain

FloatArray = npt.NDArray[np.float64]

MOMENT_BAR = 0.01
SCV_BAR = 0.02
ACF_BAR = 0.02
QUEUE_BAR = 0.15
PRICE_OF_A_STATE = 0.02
"""How much an additional phase must reduce the loss to be worth it."""

ABSURD = 2.0
"""Factor in a predicted response time above which a candidate is dropped."""

_FAR_LAG = 100
_LARGEST_LOOKALIKE_DIFFERENCE = 0.01


@dataclass(frozen=True, eq=False)
class Recipe:
    """Where a search can start again: parameters of a composition, or a chain of stages."""

    family: str
    shape: Shape | None = None
    theta: FloatArray | None = None
    chain: Chain | None = None


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
    largest log ratio for idi; ``None`` if the window has no such value. `queue_errors` has the relative error of the
    predicted mean response time for each replayed utilisation. `loss` is the sum of the squared errors, each in units
    of its tolerance, plus a price for each state.
    """

    map: MAP
    loss: float
    errors: Mapping[str, float | None]
    queue_errors: Mapping[float, float]
    family: str
    recipe: Recipe

    @property
    def states(self) -> int:
        """Number of phases."""
        return self.map.order

    @property
    def worst_queue_factor(self) -> float:
        """Largest factor, up or down, between predicted and replayed response times."""
        return max(max(1.0 + e, 1.0 / max(1.0 + e, 1e-12)) for e in self.queue_errors.values())

    @cached_property
    def fingerprint(self) -> FloatArray:
        """Interval distribution, autocorrelation and queue at a few points, to distinguish processes."""
        points = self.map.mean * np.array([0.003, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
        tail = self.map.intervals.sf(points)
        links = self.map.autocorrelation(np.array([1, 3, 10, 30, 100, 300]))
        queue = np.log1p(np.array(list(self.queue_errors.values())))
        return np.concatenate([tail, links, queue])

    @property
    def meets_bars(self) -> bool:
        """Whether moments, autocorrelation and the queue are all within their tolerances."""
        limits = {"m2": MOMENT_BAR, "m3": MOMENT_BAR, "scv": SCV_BAR, "acf_rmse": ACF_BAR}
        for name, limit in limits.items():
            error = self.errors[name]
            if error is not None and not abs(error) <= limit:
                return False
        return all(abs(error) <= QUEUE_BAR for error in self.queue_errors.values())


def score(unit: MAP, trace: TraceDescription, queue: ReplayedQueue, recipe: Recipe) -> FittedMap:
    """Score a process of mean 1 against a window. The result is in the window's unit of time."""
    moments = unit.moments(3)
    wanted = np.array([1.0, trace.m2 / trace.mean**2, trace.m3 / trace.mean**3])
    relative = moments / wanted - 1.0
    errors: dict[str, float | None] = {
        "mean": float(relative[0]), "m2": float(relative[1]), "m3": float(relative[2]),
        "scv": float(unit.scv / trace.scv - 1.0) if trace.scv > 0 else None,
        "skewness": None, "acf_rmse": None, "idi": None,
    }  # fmt: skip
    misfit = (relative[1] / MOMENT_BAR) ** 2 + (relative[2] / MOMENT_BAR) ** 2
    if trace.skewness is not None and trace.acf.size:
        errors["skewness"] = float(unit.skewness / trace.skewness - 1.0) if abs(trace.skewness) > 1e-9 else None
        far = min(_FAR_LAG, trace.acf.size)
        difference = unit.autocorrelation(np.arange(1, far + 1)) - trace.acf[:far]
        rmse = float(np.sqrt(np.mean(difference**2)))
        errors["acf_rmse"] = rmse
        misfit += (rmse / ACF_BAR) ** 2
        chosen = (trace.idi_counts <= 1000) & (trace.idi > 0)
        ratio = unit.idi(trace.idi_counts[chosen]) / trace.idi[chosen]
        errors["idi"] = float(np.max(np.abs(np.log(np.maximum(ratio, 1e-12))))) if chosen.any() else None
    responses = predicted_responses(unit, queue.utilisations)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(responses / queue.responses)
    logs = np.where(np.isfinite(logs), logs, 50.0)
    misfit += float(np.sum((logs / QUEUE_BAR) ** 2)) * 2.0 / logs.size
    return FittedMap(
        map=unit.time_scaled(trace.mean),
        loss=float(misfit + PRICE_OF_A_STATE * unit.order),
        errors=errors,
        queue_errors={float(u): float(np.expm1(e)) for u, e in zip(queue.utilisations, logs, strict=True)},
        family=recipe.family,
        recipe=recipe,
    )


def best_distinct(
    candidates: Sequence[FittedMap], best: int, first: FittedMap | None = None
) -> tuple[list[FittedMap], int]:
    """Return the `best` distinct candidates of lowest loss, and how many absurd ones were dropped.

    `first`, if given, comes first whatever its loss.

    A candidate is absurd if a response time it predicts is wrong by more than the factor `ABSURD`. Unless all are, it
    is dropped whatever its loss. Two are the same if neither interval distribution, autocorrelation nor response
    times differ by more than a hundredth.
    """
    ranked = sorted(candidates, key=lambda c: (c is not first, c.loss, c.states))
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
