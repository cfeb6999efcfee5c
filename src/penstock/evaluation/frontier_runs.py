# SPDX-License-Identifier: Apache-2.0
"""The runs of a frontier: each trace and seed by itself, kept when it is done, and not done again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from penstock.evaluation.frontier_experiment import OPERATOR, FrontierDemand, FrontierExperiment, FrontierTrace
from penstock.evaluation.policy_text import PolicyChoice, parse_policy
from penstock.evaluation.reproduction import Call
from penstock.evaluation.simulation import simulate
from penstock.evaluation.simulation_result import SimulationResult
from penstock.ports import AnalysisMemo, FloatArray
from penstock.records import Objective
from penstock.simulator import Pipeline

CONSTANT = "constant"
KEPT = "cells"
"""The folder beside the config in which runs are kept."""
_MEAN_FOR_P95 = 3.0
"""A policy that can plan for means only plans for a third of the bound: an exponential time's p95 is ln 20 times its
mean."""


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """One run.

    Attributes
    ----------
    trace, demand, load, bound, seed
        On what: `bound` is of the 95th percentile, in seconds.
    row, policy, options
        Under what; `row` is its name in the file, or the allocation of a constant.
    p95, p99
        Over all records, in seconds.
    violation_time_share
        The part of the time in windows of 10 s whose p95 is above the bound.
    cpu
        What was paid for, as a part of what the top allocation costs.
    changes
        How often the allocation was changed.
    """

    trace: str
    demand: str
    load: float
    bound: float
    seed: int
    row: str
    policy: str
    options: Mapping[str, Any]
    p95: float | None
    p99: float | None
    violation_time_share: float
    cpu: float
    changes: int

    @property
    def cell(self) -> tuple[str, str, float, float]:
        """Trace, demand, load and bound; loads by rule are of a seed, and count as one."""
        return self.trace, self.demand, self.load, self.bound


def run_frontier(experiment: FrontierExperiment, call: Call) -> list[FrontierRow]:
    """Every policy, setting and constant on every trace and seed, in the order of the file."""
    # A seed after the other: what was done of an interrupted run is then of all traces.
    jobs = [(trace, seed) for seed in range(experiment.seeds) for trace in experiment.traces]
    found: dict[tuple[str, int], list[FrontierRow]] = {}
    waiting = []
    for trace, seed in jobs:
        kept = _kept(experiment, call.folder, trace, seed)
        if kept is None:
            waiting.append((trace, seed))
        else:
            found[trace.name, seed] = kept
    if call.say is not None and found:
        call.say(f"{len(found)} of {len(jobs)} traces and seeds were done before ({call.folder / KEPT})")

    def note(trace: FrontierTrace, seed: int, rows: list[FrontierRow]) -> None:
        found[trace.name, seed] = rows
        if call.progress is not None:
            call.progress(len(found) / len(jobs))

    if call.workers > 1 and waiting:
        with ProcessPoolExecutor(call.workers, mp_context=get_context("spawn")) as pool:
            begun = {pool.submit(_run_and_keep, experiment, call.folder, *job): job for job in waiting}
            try:
                for done in as_completed(begun):
                    note(*begun[done], done.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)  # what is under way is kept when it is done
                raise
    else:
        for job in waiting:
            note(*job, _run_and_keep(experiment, call.folder, *job))
    return [row for trace in experiment.traces for s in range(experiment.seeds) for row in found[trace.name, s]]


def _run_and_keep(experiment: FrontierExperiment, folder: Path, trace: FrontierTrace, seed: int) -> list[FrontierRow]:
    """Run one trace and seed, and keep it there and then: whatever becomes of the others."""
    rows = run_job(experiment, trace, seed)
    _keep(experiment, folder, trace, seed, rows)
    return rows


def run_job(experiment: FrontierExperiment, trace: FrontierTrace, seed: int) -> list[FrontierRow]:
    """All runs on the arrivals of one trace and seed; what analyses find in the arrivals is found once."""
    times = trace.arrivals.times(trace.seconds, seed)
    rate = len(times) / float(times[-1])
    memo = AnalysisMemo()
    rows: list[FrontierRow] = []
    for name in trace.demands:
        demand = experiment.demands[name]
        if demand.seeds is not None and seed >= demand.seeds:
            continue
        loads = trace.loads or (_highest_load(experiment, demand, times, rate, seed),)
        for load in loads:
            pipeline = experiment.pipeline(demand, load, rate)
            runs = _Runs(experiment, demand, times, pipeline, seed, AnalysisMemo(memo.of_arrivals))
            for bound, row, choice, result in runs.all():
                latency = result.latency
                rows.append(
                    FrontierRow(
                        trace.name, name, load, bound, seed, row,
                        CONSTANT if choice is None else choice.name,
                        _allocation(result) if choice is None else dict(choice.options),
                        None if latency is None else latency.p95_seconds,
                        None if latency is None else latency.p99_seconds,
                        result.violation_time_share, result.cost_against_static, len(result.changes),
                    )
                )  # fmt: skip
    return rows


@dataclass(frozen=True, eq=False, slots=True)
class _Runs:
    """What is run on one load of one demand."""

    experiment: FrontierExperiment
    demand: FrontierDemand
    times: FloatArray
    pipeline: Pipeline
    seed: int
    memo: AnalysisMemo

    def all(self) -> Iterator[tuple[float, str, PolicyChoice | None, SimulationResult]]:
        """Each run, under each bound."""
        experiment = self.experiment
        bounds = [(bound, Objective("p95", bound)) for bound in self.demand.bounds]
        for allocation in experiment.constants:
            start = {OPERATOR: allocation}
            result = simulate(self.times, self.pipeline, None, bounds[0][1], self.seed, start=start)
            for bound, objective in bounds:
                yield bound, str(allocation), None, result.judged_by(objective)
        for row, text in experiment.grid.items():
            choice = parse_policy(text)
            result = self._run(choice, bounds[0][1])
            for bound, objective in bounds:
                yield bound, row, choice, result.judged_by(objective)
        for bound, objective in bounds:
            for row, text in experiment.policies.items():
                if self.demand.policies is not None and row not in self.demand.policies:
                    continue
                choice = parse_policy(text)
                yield bound, row, choice, self._run(choice, _planned(choice, objective)).judged_by(objective)

    def _run(self, choice: PolicyChoice | None, objective: Objective) -> SimulationResult:
        return simulate(
            self.times, self.pipeline, choice, objective, self.seed,
            interval_seconds=self.experiment.interval, analysis_seconds=self.experiment.analysis, memo=self.memo,
        )  # fmt: skip


def _planned(choice: PolicyChoice | None, objective: Objective) -> Objective:
    """What a policy plans for: the bound, or a mean in its place where it knows means only."""
    assert objective.seconds is not None
    if choice is None or "gi/g/1" not in (choice.name, choice.options.get("queues")):
        return objective
    return Objective("mean", objective.seconds / _MEAN_FOR_P95)


def _highest_load(
    experiment: FrontierExperiment, demand: FrontierDemand, times: FloatArray, rate: float, seed: int
) -> float:
    """The first load of the list at which the top allocation keeps the tightest bound nearly all the time."""
    tightest = Objective("p95", min(demand.bounds))
    for load in experiment.highest_load:
        # Judged afterwards: a bound that a single record breaks is no mistake here, but a load that is too high.
        result = simulate(times, experiment.pipeline(demand, load, rate), None, Objective(), seed).judged_by(tightest)
        if result.violation_time_share <= 1.0 - experiment.kept_share:
            return load
    return experiment.highest_load[-1]


def _allocation(result: SimulationResult) -> dict[str, Any]:
    (_, has) = result.allocations[OPERATOR][0]
    return {"executors": has.executors, "cpu_share": has.cpu_share}


# --- what was done is kept -----------------------------------------------------------------------------------------


def _kept(experiment: FrontierExperiment, folder: Path, trace: FrontierTrace, seed: int) -> list[FrontierRow] | None:
    """What was kept of a trace and seed by the same code and file; None: nothing."""
    path = _path(folder, trace, seed)
    if not path.is_file():
        return None
    document = json.loads(path.read_text())
    if document["key"] != _key(experiment, trace, seed):
        return None
    return [FrontierRow(**row) for row in document["rows"]]


def _keep(
    experiment: FrontierExperiment, folder: Path, trace: FrontierTrace, seed: int, rows: list[FrontierRow]
) -> None:
    path = _path(folder, trace, seed)
    path.parent.mkdir(exist_ok=True)
    document = {"key": _key(experiment, trace, seed), "rows": [asdict(row) for row in rows]}
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(document))
    beside.replace(path)


def _path(folder: Path, trace: FrontierTrace, seed: int) -> Path:
    return folder / KEPT / f"{trace.name.replace(' ', '-').replace('/', '-')}-{seed}.json"


def _key(experiment: FrontierExperiment, trace: FrontierTrace, seed: int) -> str:
    said = experiment.model_copy(update={"traces": (trace,), "seeds": 1}).model_dump_json()
    return hashlib.blake2b(f"{_source()}{said}{seed}".encode(), digest_size=16).hexdigest()


@cache
def _source() -> str:
    """The package's code in a few letters: other code may give other figures."""
    known = hashlib.blake2b(digest_size=16)
    package = Path(__file__).resolve().parents[1]
    for path in sorted(package.rglob("*.py")):
        known.update(str(path.relative_to(package)).encode() + path.read_bytes())
    return known.hexdigest()
