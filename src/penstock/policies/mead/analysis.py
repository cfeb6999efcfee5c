# SPDX-License-Identifier: Apache-2.0
"""One analysis and plan of MEAD: windows of arrivals, replayed or fitted, latencies predicted, levels chosen.

`analyse` is a pure function from an `AnalysisTask` to an `AnalysisResult`, so it can run in a process of its own.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.errors import NotReadyError
from penstock.markov import MAP
from penstock.markov.phase_type_fit import fit_mean_scv
from penstock.monitor.arrival_memory import RememberedArrivals
from penstock.performance.adaptive_interval import Margin
from penstock.performance.demand import BatchDemand
from penstock.performance.margined_latency import MarginedLatency
from penstock.performance.narrowed_latency import NarrowedLatency
from penstock.performance.operator_latency import Model
from penstock.performance.pipeline_latency import PipelineLatency
from penstock.performance.pipeline_model import OperatorModel, PipelineModel
from penstock.performance.replayed_latency import ReplayedLatency, why_model_not_replayed
from penstock.performance.replayed_windows import ReplayedWindows
from penstock.performance.screening import likely_worst, worst_processes
from penstock.plan.levels import Levels
from penstock.policies.mead.options import MeadOptions, Queues, SolvedQueues
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
    remembered
        What arrived in the last minutes, as batches would notice it; None: that is not looked at.
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
    remembered: RememberedArrivals | None = None


@dataclass(frozen=True, eq=False, slots=True)
class AnalysisResult:
    """A plan, the workload it was made for, and the fits behind it (None: its queues need none).

    `queues` names what predicted it, and why where that was not the first choice.
    """

    plan: PipelinePlan
    workload: WorkloadEstimate
    fitted: FittedWorkload | None
    queues: str


def analyse(task: AnalysisTask, memo: AnalysisMemo | None = None) -> AnalysisResult:
    """Plan for a task; `memo` keeps fits and predictions for runs that will ask for the same.

    Raises
    ------
    NotReadyError
        There are too few arrivals.
    """
    options, windows = task.options, newest_windows(task)
    memo = AnalysisMemo() if memo is None else memo
    trace = (_digest(task.iats), task.windows)
    queues, queues_text = queues_of(PipelineModel(task.operators, task.objectives), options.queues)
    fitted: FittedWorkload | None = None
    # What a fit goes on from is a part of the question: another start may lead to another process.
    fit_key = ("fit", trace, options.best, options.max_states, _identity(task.warm))
    if queues == "map":
        if fit_key not in memo.of_arrivals:
            memo.of_arrivals[fit_key] = estimate_workload(
                task.iats, shares=task.windows, best=options.best, max_states=options.max_states, warm=task.warm
            )
        fitted = memo.of_arrivals[fit_key]
    question = pickle.dumps((task.operators, queues, options.errors))
    remembered = None if task.remembered is None else _digest(task.remembered.times)
    queues_key = ("queues", fit_key, remembered, task.growth, question)
    latency_key = ("latency", queues_key, pickle.dumps(dict(task.objectives)))
    if latency_key not in memo.of_pipeline:
        # Other bounds on the same workload need no queue solved again.
        solved = memo.of_pipeline.setdefault(queues_key, {})
        memo.of_pipeline[latency_key] = _RememberedLatency(_path_latency(task, queues, fitted, solved))
    levels = {name: Levels.within(limits, _costs_of(limits, options.costs)) for name, limits in task.limits.items()}
    latency: PathLatency = memo.of_pipeline[latency_key]
    if task.margins is not None and options.confidence is not None:
        latency = MarginedLatency(latency, task.margins, options.confidence)
    plan = options.planner.plan_pipeline(task.at, latency, task.current, levels)
    memo.of_pipeline[latency_key].rest()
    workload = WorkloadEstimate(
        at=task.at,
        arrivals_per_second=task.growth * max(window.size / float(window.sum()) for window in windows),
        windows=tuple(window.size for window in windows),
        growth=task.growth,
        is_exact=task.are_exact,
    )
    return AnalysisResult(plan, workload, fitted, queues_text)


def newest_windows(task: AnalysisTask) -> list[FloatArray]:
    """The inter-arrival times of each window; one whose arrivals all came at one instant has no rate and is left out.

    Raises
    ------
    NotReadyError
        None is left.
    """
    windows = [task.iats[-max(1, int(task.iats.size * part)) :] for part in task.windows]
    if not any(window.any() for window in windows):
        raise NotReadyError("all arrivals came at one instant")
    return [window for window in windows if window.any()]


def queues_of(pipeline: PipelineModel, wanted: Queues) -> tuple[SolvedQueues, str]:
    """What predicts a pipeline, and that in words: where it can be replayed, `auto` replays; else it fits MAPs."""
    if wanted != "auto":
        return wanted, wanted
    why_not = why_model_not_replayed(pipeline)
    return ("replay", "replay") if why_not is None else ("map", f"map, for no replay: {why_not}")


def _costs_of(limits: Limits, costs: Sequence[float] | None) -> Sequence[float] | None:
    """What the shares cost that may be chosen now: where shares cannot be set, the largest alone is left."""
    return None if costs is None else costs[-len(limits.cpu_shares) :]


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


def _path_latency(
    task: AnalysisTask, queues: SolvedQueues, fitted: FittedWorkload | None, solved: _Solved
) -> RestingPathLatency:
    pipeline, options = PipelineModel(task.operators, task.objectives), task.options
    if fitted is not None:
        return fitted_latency(pipeline, _processes(fitted, task.growth), errors=options.errors, solved=solved)
    if queues == "replay":
        replayed = {
            f"window {window.size}": ReplayedLatency(pipeline, _arrivals(window / task.growth), errors=options.errors)
            for window in newest_windows(task)
        }
        return ReplayedWindows({**replayed, **_of_the_last_minutes(pipeline, task)})
    assert queues != "map"  # it has fits
    renewals = renewal_processes(task.iats / task.growth, task.windows)
    if not renewals:
        raise NotReadyError("too few arrivals for a window", needed=2, available=int(task.iats.size))
    return _network("renewals", pipeline, renewals, queues, options.errors, solved)


def _of_the_last_minutes(pipeline: PipelineModel, task: AnalysisTask) -> dict[str, ReplayedLatency]:
    """What arrived in the last minutes, replayed; of records that are served one by one there is no such memory."""
    known = task.remembered
    if known is None or not all(isinstance(operator.demand, BatchDemand) for operator in pipeline.operators):
        return {}
    if known.times.size < 2 or not known.times[-1] > known.times[0]:
        return {}
    errors, seconds = task.options.errors, float(known.times[-1])
    label = f"the last {seconds:.0f} s"
    return {label: ReplayedLatency(pipeline, known.times, errors=errors, records_each=known.records_each)}


def _digest(array: FloatArray) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()


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


def _processes(fitted: FittedWorkload, growth: float) -> list[dict[str, MAP]]:
    """The best processes of each window, sped up by `growth`."""
    return [
        {
            f"window {window.n}, fit {rank}": fit.map if growth == 1.0 else fit.map.time_scaled(1.0 / growth)
            for rank, fit in enumerate(window.fit.maps, start=1)
        }
        for window in fitted.windows
    ]


def fitted_latency(
    pipeline: PipelineModel, windows: Sequence[Mapping[str, MAP]], *, errors: float, solved: _Solved
) -> RestingPathLatency:
    """Predict by the worst of the processes fitted to each window.

    Micro-batch queues take long to solve, so of each window only the process that is likely to be the worst is used for
    them (`screening`). A large pipeline is solved under those processes alone that decide.
    """
    in_batches = any(isinstance(operator.demand, BatchDemand) for operator in pipeline.operators)
    if in_batches:
        windows = [worst_processes(pipeline, processes, 1) for processes in windows]
    every = {label: process for processes in windows for label, process in processes.items()}
    if in_batches or len(pipeline.operators) <= MOST_STEPWISE:
        return _network("every window", pipeline, every, "map", errors, solved)
    each = {label: _network(label, pipeline, {label: one}, "map", errors, solved) for label, one in every.items()}
    return NarrowedLatency(each, likely_worst(pipeline, every))


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
