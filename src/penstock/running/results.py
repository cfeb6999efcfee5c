# SPDX-License-Identifier: Apache-2.0
"""What a run came to: latency of every path against its objective, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.account import PathOutcome, RunSummary
from penstock.money import CostBasis, total_cost
from penstock.monitor import Monitor
from penstock.monitor.path import PathMonitor
from penstock.running.arrival_load import ArrivalLoad
from penstock.running.running_operator import RunningOperator
from penstock.settings import RunSettings


def summarise(
    settings: RunSettings,
    folder: Path,
    operators: Mapping[str, RunningOperator],
    monitors: Mapping[str, Monitor],
    load: ArrivalLoad,
    *,
    started_at: float,
    ended_at: float,
    faults: int,
    missed_turns: int = 0,
    is_left: bool = False,
) -> RunSummary:
    """Add a run up; an operator without a monitor was never looked at."""
    accounts = {name: operator.account for name, operator in operators.items()}
    first = next(iter(operators.values()))
    static = sum(a.observed_seconds * operators[n].settings.top_in_own_executors[1] for n, a in accounts.items())
    bases = settings.cost_bases()
    return RunSummary(
        name=settings.name,
        folder=str(folder),
        mode=settings.mode,
        started_at=started_at,
        ended_at=ended_at,
        records_due=load.arrived_by(ended_at),
        records_read=load.read(Path(first.job.checkpoint_folder)),
        records_done=_done(first, load),
        paths=path_outcomes(settings, operators, monitors, load, ended_at),
        executor_seconds=sum(a.executor_seconds for a in accounts.values()),
        capacity_seconds=sum(a.share_seconds for a in accounts.values()),
        static_capacity_seconds=static,
        decisions=tuple(sorted((d for a in accounts.values() for d in a.decisions), key=lambda d: d.at)),
        faults=faults,
        missed_turns=missed_turns,
        is_left=is_left,
        operators={
            name: _of_operator(operator, _path_of(name, monitors), bases.get(name))
            for name, operator in operators.items()
        },
        cost=total_cost(account.cost(bases.get(name)) for name, account in accounts.items()),
        own_sizes={name: operator.settings.executor_sizes[0] for name, operator in operators.items()},
    )


def path_outcomes(
    settings: RunSettings,
    operators: Mapping[str, RunningOperator],
    monitors: Mapping[str, Monitor],
    load: ArrivalLoad,
    at: float,
) -> tuple[PathOutcome, ...]:
    """The latency of every path, from first arrival to its last operator's end.

    Records that arrived and were not done count too, with their wait so far: left out, a run that fell behind would
    look fast.
    """
    outcomes = []
    for path, objective in settings.path_objectives().items():
        first, followed = operators[path[0]], _path_of(path[-1], monitors)
        done = _done(first, load) or 0
        waiting = load.waiting(done, at)
        if followed is not None and waiting is not None:
            followed.latency_with_waiting(waiting, at)
        outcomes.append(PathOutcome.of(path, objective, None if followed is None else followed.run_latency()))
    return tuple(outcomes)


def _done(operator: RunningOperator, load: ArrivalLoad) -> int | None:
    """As it was seen; one that was taken over, or started again, and had nothing more to do was not, but its checkpoint
    says it."""
    seen = None if operator.last is None else operator.last.observation.records_done
    return load.done(Path(operator.job.checkpoint_folder)) if seen is None else seen


def _path_of(name: str, monitors: Mapping[str, Monitor]) -> PathMonitor | None:
    return monitors[name].path if name in monitors else None


def _of_operator(operator: RunningOperator, followed: PathMonitor | None, basis: CostBasis | None) -> dict[str, Any]:
    latency = None if followed is None else followed.latency_of_run()
    seen = None if operator.last is None else operator.last.observation
    return {
        "executor_seconds": operator.account.executor_seconds,
        "cpu_share_mean": operator.account.cpu_share_mean,
        "cost": None if (cost := operator.account.cost(basis)) is None else cost.to_json(),
        "path_latency_p95": None if latency is None else latency.p95_seconds,
        "records_done": None if seen is None else seen.records_done,
        "restarts": operator.restarts,
        "resizes": len(operator.pauses),
        "resize_pauses_seconds": list(operator.pauses),
    }
