# SPDX-License-Identifier: Apache-2.0
"""One analysis and plan of MEAD: windows of arrivals, processes fitted to them, latencies predicted, levels chosen.

A pure function from a `Question` to a `Foreseen`, so that it can run beside the loop, in a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.errors import NotReadyError
from penstock.markov import MAP
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.demand import BatchDemand
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import CheckedLatency, CheckedWindow, ReplayedLatency, can_be_replayed
from penstock.performance.screening import worst_processes
from penstock.plan.levels import Levels
from penstock.plan.mead import PipelinePlan
from penstock.plan.mead_options import MeadOptions
from penstock.ports import FloatArray, PathLatency
from penstock.records import Allocation, Limits, Objective
from penstock.topology import Path
from penstock.workload import WorkloadEstimate, describe_iats, estimate_workload

_MOST_PHASES = 16
"""Of an inter-arrival time; constant ones are modelled as Erlang of so many phases."""


@dataclass(frozen=True, eq=False, slots=True)
class Question:
    """All that a plan rests on.

    Attributes
    ----------
    at
        The present instant.
    iats
        The newest inter-arrival times at the source, oldest first.
    parts
        The windows as parts of them.
    operators
        With their demands, as learnt.
    objectives
        Of each path.
    current, limits
        What each operator is planned to have, and may have.
    options
        The settings of the policy.
    warm
        The estimate before, to go on from.
    """

    at: float
    iats: FloatArray
    parts: tuple[float, ...]
    operators: tuple[OperatorModel, ...]
    objectives: Mapping[Path, Objective]
    current: Mapping[str, Allocation]
    limits: Mapping[str, Limits]
    options: MeadOptions
    warm: WorkloadEstimate | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Foreseen:
    """A plan, and the estimate it rests on (None: its queues need no processes)."""

    plan: PipelinePlan
    rate: float
    """Arrivals per second over the busiest window."""
    estimate: WorkloadEstimate | None


@dataclass(frozen=True, eq=False, slots=True)
class Window:
    """The newest arrivals, so many of them, and the processes that describe them."""

    label: str
    processes: Mapping[str, MAP]
    arrivals: FloatArray


def foresee(question: Question) -> Foreseen:
    """Answer a question; NotReadyError where there are too few arrivals."""
    pipeline, options = PipelineModel(question.operators, question.objectives), question.options
    estimate: WorkloadEstimate | None = None
    latency: PathLatency
    if options.queues == "map":
        estimate = estimate_workload(
            question.iats, shares=question.parts, best=options.best, max_states=options.max_states, warm=question.warm
        )
        arrivals = np.concatenate([[0.0], np.cumsum(question.iats)])
        latency = checked_latency(
            pipeline, windows_of(estimate, arrivals), believed=options.believed, errors=options.errors
        )
    else:
        renewals = renewal_processes(question.iats, question.parts)
        if not renewals:
            raise NotReadyError("too few arrivals for a window", needed=2, available=int(question.iats.size))
        latency = PipelineLatency(pipeline, renewals, model=options.queues, errors=options.errors)
    levels = {name: Levels.within(limits, options.costs) for name, limits in question.limits.items()}
    plan = options.planner.plan_pipeline(question.at, latency, question.current, levels)
    windows = [question.iats[-max(1, int(question.iats.size * part)) :] for part in question.parts]
    return Foreseen(plan, max(window.size / float(window.sum()) for window in windows), estimate)


def windows_of(estimate: WorkloadEstimate, arrivals: FloatArray) -> list[Window]:
    """Each window of an estimate with its best processes and the arrivals it is made of."""
    return [
        Window(
            f"window {window.n}",
            {f"window {window.n}, fit {rank}": fitted.map for rank, fitted in enumerate(window.fit.maps, start=1)},
            arrivals[-window.n - 1 :],
        )
        for window in estimate.windows
    ]


def checked_latency(
    pipeline: PipelineModel, windows: Sequence[Window], *, believed: float | None, errors: float = 0.0
) -> PathLatency:
    """Predict by the fitted processes, held against a replay of their windows; `believed` None: as they are.

    Micro-batch queues take long to solve: of each window only the processes likely to be the worst are (`screening`).
    """
    if any(isinstance(operator.demand, BatchDemand) for operator in pipeline.operators):
        windows = [replace(window, processes=worst_processes(pipeline, window.processes, 1)) for window in windows]
    if believed is None:
        every = {label: process for window in windows for label, process in window.processes.items()}
        return PipelineLatency(pipeline, every, errors=errors)
    return CheckedLatency(
        [
            CheckedWindow(
                window.label,
                PipelineLatency(pipeline, window.processes, errors=errors),
                ReplayedLatency(pipeline, window.arrivals) if can_be_replayed(pipeline) else None,
            )
            for window in windows
        ],
        believed,
    )


def renewal_processes(iats: FloatArray, parts: Sequence[float]) -> dict[str, MAP]:
    """A process of every window with its rate and variability, and no correlation."""
    found: dict[str, MAP] = {}
    for part in parts:
        window = iats[-max(1, round(iats.size * part)) :]
        if window.size >= 2 and window.sum() > 0:
            told = describe_iats(window, max_lag=1)
            intervals = fit_mean_scv(told.mean, told.scv, max_phases=_MOST_PHASES).distribution
            found[f"window {window.size}"] = MAP.renewal(intervals)
    return found
