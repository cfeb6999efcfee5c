# SPDX-License-Identifier: Apache-2.0
"""Tables done again: every policy on every trace under every bound, over many seeds of the service times.

The arrivals are the trace's and stay the same; a seed draws the work of every record, which is then the same under all
policies. The oracle is the cheapest constant allocation that keeps the bound in hindsight, for each seed by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

import numpy as np

from penstock.errors import ConfigurationError
from penstock.evaluation.experiment_file import TableExperiment, TraceCells
from penstock.evaluation.policy_text import parse_policy
from penstock.evaluation.simulation import simulate
from penstock.evaluation.simulation_result import SimulationResult
from penstock.plan.exact_search import exact_search
from penstock.plan.levels import AllocationSpace, Levels
from penstock.ports import AnalysisMemo, FloatArray
from penstock.records import Allocation, LatencySummary, Objective, Prediction
from penstock.simulator import Pipeline
from penstock.topology import Path

ORACLE = "oracle"
Progress = Callable[[float], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunFigures:
    """One run: the statistic of the slowest path, the mean CPU share, and whether every path kept its bound."""

    seed: int
    seconds: float
    cpu: float
    is_met: bool
    violation_time_share: float | None
    """None for the oracle, which is judged over the whole run alone."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One row under one bound: what every seed came to."""

    trace: str
    bound: float
    row: str
    policy: str
    runs: tuple[RunFigures, ...]

    @property
    def seconds(self) -> float:
        """The statistic, averaged over seeds."""
        return float(np.mean([run.seconds for run in self.runs]))

    @property
    def cpu(self) -> float:
        """The CPU share, averaged over seeds."""
        return float(np.mean([run.cpu for run in self.runs]))

    @property
    def met(self) -> int:
        """How many seeds kept the bound."""
        return sum(run.is_met for run in self.runs)

    def to_json(self) -> dict[str, Any]:
        """Plain data, with every seed's figures."""
        return {
            "trace": self.trace, "bound_seconds": self.bound, "row": self.row, "policy": self.policy,
            "seconds_mean": self.seconds, "seconds_worst": max(run.seconds for run in self.runs),
            "cpu_share_mean": self.cpu, "seeds_met": self.met, "seeds": len(self.runs),
            "seconds": [run.seconds for run in self.runs],
            "cpu_share": [run.cpu for run in self.runs],
        }  # fmt: skip


@dataclass(frozen=True, eq=False)
class TableRun:
    """Runs an experiment of the table kind.

    Parameters
    ----------
    experiment
        What to run.
    arrivals
        Of every trace, by name.
    seeds
        How many; 0, 1, 2, ...
    workers
        Processes at once; 1: none but this one.
    """

    experiment: TableExperiment
    arrivals: Mapping[str, FloatArray]
    seeds: int
    workers: int = 1

    def __post_init__(self) -> None:
        for name, value in (("seeds", self.seeds), ("workers", self.workers)):
            if value < 1:
                raise ConfigurationError(f"{name}: {value} must be at least 1", field=name)
        for row, text in self.experiment.rows.items():
            if text != ORACLE:
                try:
                    parse_policy(text)
                except ConfigurationError as fault:
                    raise ConfigurationError(f"rows.{row}: {fault}", field="rows") from fault

    def results(self, progress: Progress | None = None) -> tuple[CellResult, ...]:
        """All rows of all cells, in the order of the file."""
        report = progress or (lambda _: None)
        with ExitStack() as stack:
            pool = None
            if self.workers > 1:
                # Spawned: numpy's own threads do not survive a fork.
                pool = stack.enter_context(ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")))
            memos = self._memos(pool, lambda part: report(0.2 * part))
            found = {
                (cell.trace, cell.bound, cell.row): cell
                for cells in _done(pool, self._tasks(memos), lambda part: report(0.2 + 0.8 * part))
                for cell in cells
            }
        report(1.0)
        return tuple(
            found[trace.name, cell.bound, row]
            for trace in self.experiment.traces
            for cell in trace.cells
            for row in self.experiment.rows
        )

    def _work(self, trace: TraceCells) -> _Work:
        return _Work(self.experiment, trace, self.arrivals[trace.name], self.seeds)

    def _memos(self, pool: Executor | None, report: Progress) -> dict[str, AnalysisMemo]:
        """What analyses find in each trace's arrivals: the same for every row, bound and seed, so it is found once."""
        planning = [text for text in self.experiment.rows.values() if _plans(text)]
        tasks = [partial(_explore, self._work(trace), planning) for trace in self.experiment.traces if planning]
        return dict(_done(pool, tasks, report))

    def _tasks(self, memos: Mapping[str, AnalysisMemo]) -> list[Callable[[], list[CellResult]]]:
        tasks: list[Callable[[], list[CellResult]]] = []
        for trace in self.experiment.traces:
            work, every = self._work(trace), tuple(range(len(trace.cells)))
            for row, text in self.experiment.rows.items():
                if text == ORACLE:
                    tasks.append(partial(_oracle, work, row))
                elif not _plans(text):
                    # The bound means nothing to it: one run serves all bounds of a trace.
                    tasks.append(partial(_policy, work, row, text, every, None))
                else:
                    tasks.append(partial(_policy_under_each, work, row, text, memos[trace.name]))
        return tasks


def _done(pool: Executor | None, tasks: Sequence[Callable[[], T]], report: Progress) -> Iterator[T]:
    """What each task gives, as they end; here where there is no pool."""
    if pool is None:
        for number, task in enumerate(tasks, start=1):
            yield task()
            report(number / len(tasks))
        return
    futures = [pool.submit(task) for task in tasks]
    for number, future in enumerate(as_completed(futures), start=1):
        yield future.result()
        report(number / len(tasks))


@dataclass(frozen=True, eq=False, slots=True)
class _Work:
    """What every task of a trace needs."""

    experiment: TableExperiment
    trace: TraceCells
    times: FloatArray
    seeds: int

    @property
    def pipeline(self) -> Pipeline:
        return self.experiment.pipeline_of(self.trace).pipeline

    def run(self, policy: str, number: int, seed: int, memo: AnalysisMemo) -> SimulationResult:
        """A policy under the bound of a cell."""
        return simulate(
            self.times,
            self.pipeline,
            parse_policy(policy),
            self.objective(number),
            seed,
            guards=self.experiment.pipeline_of(self.trace).guards,
            interval_seconds=self.experiment.interval,
            analysis_seconds=self.experiment.analysis,
            memo=memo,
        )

    def objective(self, number: int) -> Objective:
        return self.experiment.objective(self.trace.cells[number])


def _plans(text: str) -> bool:
    """Whether a row is a policy to which the bound means something."""
    choice = None if text == ORACLE else parse_policy(text)
    return choice is not None and choice.reads_objective


def _explore(work: _Work, policies: Sequence[str]) -> tuple[str, AnalysisMemo]:
    """Run each policy once, and keep what its analyses found in the arrivals alone."""
    memo = AnalysisMemo()
    for text in policies:
        work.run(text, 0, 0, memo)
    return work.trace.name, AnalysisMemo(memo.of_arrivals)


def _policy_under_each(work: _Work, row: str, text: str, memo: AnalysisMemo) -> list[CellResult]:
    """One policy under every bound: what was predicted of the arrivals under one serves the others."""
    shared = AnalysisMemo(memo.of_arrivals)
    cells = range(len(work.trace.cells))
    return [result for i in cells for result in _policy(work, row, text, (i,), shared)]


def _policy(work: _Work, row: str, text: str, cells: tuple[int, ...], memo: AnalysisMemo | None) -> list[CellResult]:
    """One policy under one bound; or under many that it takes no heed of, of which the first is run."""
    known = AnalysisMemo() if memo is None else memo
    runs: dict[int, list[RunFigures]] = {i: [] for i in cells}
    for seed in range(work.seeds):
        result = work.run(text, cells[0], seed, known)
        for i in cells:
            objective = work.objective(i)
            slowest = max(_measured(objective, path.latency) for path in result.paths)
            is_met = all(objective.is_met_by(path.latency) is not False for path in result.paths)
            share = result.violation_time_share if len(cells) == 1 else None
            runs[i].append(RunFigures(seed, slowest, result.cpu_share_mean, is_met, share))
    trace = work.trace
    return [CellResult(trace.name, trace.cells[i].bound, row, text, tuple(runs[i])) for i in cells]


@dataclass(eq=False)
class Hindsight:
    """The latency of every path under constant shares, known because it was tried; a `ports.PathLatency`."""

    times: FloatArray
    pipeline: Pipeline
    seed: int
    objective: Objective
    known: dict[tuple[Allocation, ...], dict[Path, LatencySummary | None]] = field(default_factory=dict)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators."""
        return tuple(o.name for o in self.pipeline.order)

    @property
    def paths(self) -> tuple[Path, ...]:
        """The source-to-sink paths."""
        return tuple(self.pipeline.paths)

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """Simulate the whole trace under these allocations."""
        key = tuple(allocations[name] for name in self.operators)
        if key not in self.known:
            result = simulate(self.times, self.pipeline, None, self.objective, self.seed, start=dict(allocations))
            self.known[key] = {path.path: path.latency for path in result.paths}
        bound = self.objective.seconds
        assert bound is not None
        return tuple(
            Prediction(path, _measured(self.objective, latency), bound, {}, {}, "in hindsight")
            for path, latency in self.known[key].items()
        )


def _oracle(work: _Work, row: str) -> list[CellResult]:
    """For every seed and bound the cheapest constant allocation; what one bound has tried, the next need not."""
    pipeline = work.pipeline
    levels = {o.name: Levels(o.limits.cpu_shares) for o in pipeline.operators}
    runs: dict[int, list[RunFigures]] = {i: [] for i in range(len(work.trace.cells))}
    for seed in range(work.seeds):
        known: dict[tuple[Allocation, ...], dict[Path, LatencySummary | None]] = {}
        for i, figures in runs.items():
            space = AllocationSpace(Hindsight(work.times, pipeline, seed, work.objective(i), known), levels)
            answer = exact_search(space)
            x = space.top if answer.x is None else answer.x
            slowest = max(path.seconds for path in space.predict(x))
            cpu = float(np.mean([level.cpu_share for level in space.allocations(x).values()]))
            figures.append(RunFigures(seed, slowest, cpu, answer.x is not None, None))
    trace = work.trace
    return [CellResult(trace.name, trace.cells[i].bound, row, ORACLE, tuple(runs[i])) for i in runs]


def _measured(objective: Objective, latency: LatencySummary | None) -> float:
    value = objective.measured(latency)
    return 0.0 if value is None else value  # no record came to the path's end: none was late
