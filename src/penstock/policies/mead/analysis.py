# SPDX-License-Identifier: Apache-2.0
"""One analysis and plan of MEAD: windows of arrivals, processes fitted to them, latencies predicted, levels chosen.

`analyse` is a pure function from an `AnalysisTask` to an `AnalysisResult`, so it can run in a process of its own.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from penstock.errors import NotReadyError
from penstock.markov import MAP
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.performance.adaptive_interval import Margin
from penstock.performance.checked_latency import CheckedLatency, CheckedWindow
from penstock.performance.demand import BatchDemand
from penstock.performance.margined_latency import MarginedLatency
from penstock.performance.narrowed_latency import NarrowedLatency
from penstock.performance.operator_latency import Model
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency, can_be_replayed
from penstock.performance.replayed_windows import ReplayedWindows
from penstock.performance.screening import likely_worst, worst_processes
from penstock.plan.levels import Levels
from penstock.policies.mead.options import MeadOptions
from penstock.policies.mead.planner import PipelinePlan
from penstock.policies.mead.search import MOST_STEPWISE
from penstock.ports import AnalysisMemo, FloatArray, NarrowedPathLatency, PathLatency, RestingPathLatency
from penstock.records import Allocation, Limits, Objective, Prediction, WorkloadEstimate
from penstock.topology import Path
from penstock.workload import FittedWorkload, describe_iats, estimate_workload

_MOST_PHASES = 16
"""Phases of an inter-arrival time; constant ones are modelled as Erlang with this many."""


@dataclass(frozen=True, eq=False, slots=True)
class AnalysisTask:
    """Everything that a plan rests on.

    Attributes
    ----------
    at
        The present instant.
    iats
        The newest inter-arrival times at the source, oldest first.
    windows
        The windows as parts of them.
    growth
        By what arrivals will have grown when the plan is in force.
    are_exact
        Whether the arrival times were known, not interpolated.
    operators
        With their demands.
    objectives
        Of each path.
    current, limits
        What each operator is meant to have, and may have.
    options
        The settings of the policy.
    margins
        By what the predictions for each path may be off; None: predictions are taken as they are.
    warm
        The fits before, to go on from.
    """

    at: float
    iats: FloatArray
    windows: tuple[float, ...]
    growth: float
    are_exact: bool
    operators: tuple[OperatorModel, ...]
    objectives: Mapping[Path, Objective]
    current: Mapping[str, Allocation]
    limits: Mapping[str, Limits]
    options: MeadOptions
    margins: Mapping[Path, Margin] | None = None
    warm: FittedWorkload | None = None


@dataclass(frozen=True, eq=False, slots=True)
class AnalysisResult:
    """A plan, the workload it was made for, and the fits behind it (None: its queues need none)."""

    plan: PipelinePlan
    workload: WorkloadEstimate
    fitted: FittedWorkload | None


@dataclass(frozen=True, eq=False, slots=True)
class _FittedWindow:
    """The newest arrivals, so many of them, and the processes that describe them."""

    label: str
    processes: Mapping[str, MAP]
    arrivals: FloatArray


def analyse(task: AnalysisTask, memo: AnalysisMemo | None = None) -> AnalysisResult:
    """Plan for a task; `memo` keeps fits and predictions for runs that will ask for the same.

    Raises
    ------
    NotReadyError
        There are too few arrivals.
    """
    options = task.options
    memo = AnalysisMemo() if memo is None else memo
    trace = (hashlib.blake2b(task.iats.tobytes(), digest_size=16).digest(), task.windows)
    fitted: FittedWorkload | None = None
    # What a fit goes on from is a part of the question: another start may lead to another process.
    fit_key = ("fit", trace, options.best, options.max_states, _identity(task.warm))
    if options.queues == "map":
        if fit_key not in memo.of_arrivals:
            memo.of_arrivals[fit_key] = estimate_workload(
                task.iats, shares=task.windows, best=options.best, max_states=options.max_states, warm=task.warm
            )
        fitted = memo.of_arrivals[fit_key]
    question = pickle.dumps((task.operators, options.queues, options.believed, options.errors))
    queues_key = ("queues", fit_key, task.growth, question)
    latency_key = ("latency", queues_key, pickle.dumps(dict(task.objectives)))
    if latency_key not in memo.of_pipeline:
        # Other bounds on the same workload need no queue solved again.
        solved = memo.of_pipeline.setdefault(queues_key, {})
        memo.of_pipeline[latency_key] = _RememberedLatency(_path_latency(task, fitted, solved))
    levels = {name: Levels.within(limits, options.costs) for name, limits in task.limits.items()}
    latency: PathLatency = memo.of_pipeline[latency_key]
    if task.margins is not None and options.confidence is not None:
        latency = MarginedLatency(latency, task.margins, options.confidence)
    plan = options.planner.plan_pipeline(task.at, latency, task.current, levels)
    memo.of_pipeline[latency_key].rest()
    windows = [task.iats[-max(1, int(task.iats.size * part)) :] for part in task.windows]
    workload = WorkloadEstimate(
        at=task.at,
        arrivals_per_second=task.growth * max(window.size / float(window.sum()) for window in windows),
        windows=tuple(window.size for window in windows),
        growth=task.growth,
        is_exact=task.are_exact,
    )
    return AnalysisResult(plan, workload, fitted)


def _identity(fitted: FittedWorkload | None) -> bytes | None:
    """What fits are, in a few bytes: the same for a copy from another process, whatever time they took."""
    if fitted is None:
        return None
    known = hashlib.blake2b(digest_size=16)
    for window in fitted.windows:
        known.update(repr((window.n, window.fit.max_states)).encode())
        for fit in window.fit.maps:
            known.update(repr((fit.family, fit.states, fit.loss)).encode())
            known.update(fit.map.D0.tobytes() + fit.map.D1.tobytes())
    return known.digest()


_Solved = MutableMapping[str, PipelineLatency]
"""Networks that were solved under other objectives, by the label of their windows."""


def _path_latency(task: AnalysisTask, fitted: FittedWorkload | None, solved: _Solved) -> RestingPathLatency:
    pipeline, options = PipelineModel(task.operators, task.objectives), task.options
    if fitted is not None:
        windows = _windows(fitted, _arrivals(task.iats) / task.growth, task.growth)
        return checked_latency(pipeline, windows, believed=options.believed, errors=options.errors, solved=solved)
    iats = task.iats / task.growth
    if options.queues == "replay":
        return ReplayedWindows(
            {
                f"window {size}": ReplayedLatency(pipeline, _arrivals(iats[-size:]), errors=options.errors)
                for size in (max(1, int(iats.size * part)) for part in task.windows)
            }
        )
    renewals = renewal_processes(iats, task.windows)
    if not renewals:
        raise NotReadyError("too few arrivals for a window", needed=2, available=int(task.iats.size))
    return _network("renewals", pipeline, renewals, options.queues, options.errors, solved)


def _arrivals(iats: FloatArray) -> FloatArray:
    """When records arrived, counted from the first."""
    return np.concatenate([[0.0], np.cumsum(iats)])


def _network(  # noqa: PLR0917 - all are what a network is solved for
    label: str, pipeline: PipelineModel, workload: Mapping[str, MAP], model: Model, errors: float, solved: _Solved
) -> PipelineLatency:
    """Predict a pipeline under a workload, going on from what was solved of it."""
    if label not in solved:
        solved[label] = PipelineLatency(pipeline, workload, model=model, errors=errors, rough=True)
        return solved[label]
    return solved[label].under(pipeline.objectives)


def _fits(
    window: _FittedWindow, pipeline: PipelineModel, errors: float, solved: _Solved, *, apart: bool
) -> list[PipelineLatency | NarrowedLatency]:
    """Predict a pipeline under a window's fits; a large one under those alone that decide."""
    networks: dict[str, PipelineLatency] = {
        label: _network(label, pipeline, processes, "map", errors, solved)
        for label, processes in _together(window, apart=apart or len(pipeline.operators) > MOST_STEPWISE).items()
    }
    if apart or len(networks) == 1:
        return list(networks.values())
    return [NarrowedLatency(networks, likely_worst(pipeline, window.processes))]


def _windows(fitted: FittedWorkload, arrivals: FloatArray, growth: float) -> list[_FittedWindow]:
    """Each window with its best processes, sped up by `growth`, and the arrivals that it is made of."""
    return [
        _FittedWindow(
            f"window {window.n}",
            {
                f"window {window.n}, fit {rank}": fit.map if growth == 1.0 else fit.map.time_scaled(1.0 / growth)
                for rank, fit in enumerate(window.fit.maps, start=1)
            },
            arrivals[-window.n - 1 :],
        )
        for window in fitted.windows
    ]


def checked_latency(
    pipeline: PipelineModel,
    windows: Sequence[_FittedWindow],
    *,
    believed: float | None,
    errors: float,
    solved: _Solved,
) -> RestingPathLatency:
    """Predict by the fitted processes, held against a replay of their windows; `believed` None: as they are.

    Micro-batch queues take long to solve, so of each window only the processes that are likely to be the worst are
    used for them (`screening`), and one after the other, as far as is needed.
    """
    in_batches = any(isinstance(operator.demand, BatchDemand) for operator in pipeline.operators)
    if in_batches:
        windows = [replace(window, processes=worst_processes(pipeline, window.processes, 1)) for window in windows]
    if believed is None:
        every = {label: process for window in windows for label, process in window.processes.items()}
        return _network("every window", pipeline, every, "map", errors, solved)
    checked = {
        window.label: CheckedWindow(
            window.label,
            _fits(window, pipeline, errors, solved, apart=in_batches),
            ReplayedLatency(pipeline, window.arrivals) if can_be_replayed(pipeline) else None,
        )
        for window in windows
    }
    if in_batches or len(pipeline.operators) <= MOST_STEPWISE:
        return CheckedLatency(list(checked.values()), believed)
    worst = {window.label: window.processes[likely_worst(pipeline, window.processes)] for window in windows}
    return NarrowedLatency(
        {label: CheckedLatency([window], believed) for label, window in checked.items()}, likely_worst(pipeline, worst)
    )


def _together(window: _FittedWindow, *, apart: bool) -> dict[str, Mapping[str, MAP]]:
    """The processes of a window as networks that are solved together: each by itself, or all at once."""
    if not apart:
        return {window.label: window.processes}
    return {label: {label: process} for label, process in window.processes.items()}


def renewal_processes(iats: FloatArray, windows: Sequence[float]) -> dict[str, MAP]:
    """A process for every window with its rate and variability, and no correlation."""
    found: dict[str, MAP] = {}
    for part in windows:
        window = iats[-max(1, round(iats.size * part)) :]
        if window.size >= 2 and window.sum() > 0:
            described = describe_iats(window, max_lag=1)
            intervals = fit_mean_scv(described.mean, described.scv, max_phases=_MOST_PHASES).distribution
            found[f"window {window.size}"] = MAP.renewal(intervals)
    return found


@dataclass(eq=False)
class _RememberedLatency:
    """Predictions of one workload, each computed once; a `ports.PathLatency`."""

    latency: RestingPathLatency
    _known: dict[tuple[Allocation, ...], tuple[Prediction, ...]] = field(default_factory=dict, repr=False)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        return self.latency.operators

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return self.latency.paths

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Predict every path."""
        key = tuple(allocations[name] for name in self.operators)
        if key not in self._known:
            self._known[key] = self.latency.predict(allocations)
        return self._known[key]

    def rest(self) -> None:
        """Keep what was predicted, and let go of what takes much memory: a memo holds many analyses."""
        self.latency.rest()

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all processes here; True: predictions may be higher from now on."""
        if not isinstance(self.latency, NarrowedPathLatency) or not self.latency.widen(allocations):
            return False
        self._known.clear()
        return True
