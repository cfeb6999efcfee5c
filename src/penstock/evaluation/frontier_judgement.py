# SPDX-License-Identifier: Apache-2.0
"""What the runs of a frontier say: means over all traces, who is better in both, and the distance to hindsight."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.evaluation.frontier_experiment import FrontierExperiment
from penstock.evaluation.frontier_runs import CONSTANT, FrontierRow


@dataclass(frozen=True, slots=True)
class Point:
    """A row of the frontier: the means over seeds, cells and traces.

    `late` is the mean of p95 over bound, on a logarithmic scale: how far above (or below) their bounds the runs were.
    """

    row: str
    violation: float
    cpu: float
    late: float

    def beats(self, other: Point) -> bool:
        """Whether it is better in both violation time and CPU."""
        return self.violation < other.violation and self.cpu < other.cpu


@dataclass(frozen=True, slots=True)
class Distance:
    """How far the judged row is from the best in hindsight on one trace.

    Attributes
    ----------
    main
        The judged row.
    best
        The cheapest constant or setting of the grid, chosen for this trace in hindsight, with at most its violation
        time; None: there is none.
    constant
        The cheapest such constant; None: there is none.
    """

    trace: str
    main: Point
    best: Point | None
    constant: Point | None


def mean_of(row: str, runs: Iterable[FrontierRow]) -> Point | None:
    """The means over the runs of one row, every trace with the same weight; None: there are no runs."""
    of_traces: dict[str, list[FrontierRow]] = {}
    for run in runs:
        if run.row == row:
            of_traces.setdefault(run.trace, []).append(run)
    if not of_traces:
        return None
    means = [
        (
            np.mean([run.violation_time_share for run in found]),
            np.mean([run.cpu for run in found]),
            np.mean([np.log((run.p95 or 1e-9) / run.bound) for run in found]),
        )
        for found in of_traces.values()
    ]
    violation, cpu, late = (float(value) for value in np.mean(means, axis=0))
    return Point(row, violation, cpu, float(np.exp(late)))


def compared(experiment: FrontierExperiment, runs: Sequence[FrontierRow]) -> list[FrontierRow]:
    """The runs on demands that every policy was run on."""
    return [run for run in runs if experiment.demands[run.demand].policies is None]


def points(experiment: FrontierExperiment, runs: Sequence[FrontierRow]) -> dict[str, Point]:
    """Every row over the same cells, in the order of the file, constants last."""
    names = [*experiment.policies, *experiment.grid, *_constants(runs)]
    found = {name: mean_of(name, runs) for name in names}
    return {name: point for name, point in found.items() if point is not None}


def rivals(experiment: FrontierExperiment, runs: Sequence[FrontierRow]) -> list[Point]:
    """The settings of the grid and the constants."""
    names = (*experiment.grid, *_constants(runs))
    return [point for name in names if (point := mean_of(name, runs)) is not None]


def better_in_both(experiment: FrontierExperiment, runs: Sequence[FrontierRow], row: str) -> list[Point]:
    """The settings of the grid and constants that, chosen once for all traces, beat a row in both."""
    judged = mean_of(row, runs)
    return [] if judged is None else [point for point in rivals(experiment, runs) if point.beats(judged)]


def distances(experiment: FrontierExperiment, runs: Sequence[FrontierRow], row: str) -> list[Distance]:
    """On each trace: what the best setting or constant would have done, known afterwards."""
    found = []
    for trace in dict.fromkeys(run.trace for run in runs):
        here = [run for run in runs if run.trace == trace]
        main = mean_of(row, here)
        if main is None:
            continue
        able = [point for point in rivals(experiment, here) if point.violation <= main.violation]
        constants = [point for point in able if point.row in set(_constants(runs))]
        found.append(Distance(trace, main, _cheapest(able), _cheapest(constants)))
    return found


def _cheapest(able: Sequence[Point]) -> Point | None:
    return min(able, key=lambda point: point.cpu, default=None)


def _constants(runs: Iterable[FrontierRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.row for run in runs if run.policy == CONSTANT))
