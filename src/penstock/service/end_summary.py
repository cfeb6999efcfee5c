# SPDX-License-Identifier: Apache-2.0
"""What a pipeline of a master has come to, added up from its history: another master may have had it before."""

from __future__ import annotations

import math
from collections.abc import Mapping

from penstock.account import OperatorAccount, PathOutcome, RunSummary
from penstock.loop import CycleReport
from penstock.money import total_cost
from penstock.monitor import Monitor
from penstock.ports import KnowledgeStore
from penstock.records import Observation, RunLatency
from penstock.service.attached_pipeline import AttachedPipeline
from penstock.topology import Path

_DECISIONS_KEPT = 10_000
_PIECE_SECONDS = 1800.0
_MOST_AT_ONCE = 100_000


def end_summary(
    attached: AttachedPipeline,
    history: KnowledgeStore,
    monitors: Mapping[str, Monitor],
    *,
    since: float,
    why_ended: str,
    faults: int,
    missed_turns: int,
) -> RunSummary:
    """Add a run up to its newest look.

    Parameters
    ----------
    attached
        The pipeline.
    history
        Its records, to read.
    monitors
        Of each operator: they know the latency since the start.
    since
        When the run began.
    why_ended
        In words.
    faults, missed_turns
        Looks of this master that failed before the newest one, and those that fell out.
    """
    settings, limits, bases = attached.settings, attached.limits, attached.settings.cost_bases()
    newest = {name: _newest(history, name, since) for name in attached.operators}
    ended_at = max((seen.at for seen in newest.values() if seen is not None), default=since)
    accounts = {name: _account(history, name, since, ended_at) for name in attached.operators}
    costs = {name: account.cost(bases.get(name)) for name, account in accounts.items()}
    first = next(iter(newest.values()))
    return RunSummary(
        name=attached.name,
        folder="",
        mode=settings.mode,
        started_at=since,
        ended_at=ended_at,
        paths=tuple(
            PathOutcome.of(path, objective, _latency(path, monitors[path[-1]]))
            for path, objective in settings.path_objectives().items()
        ),
        records_due=None if first is None else first.records_arrived,
        records_read=None,
        records_done=None if first is None else first.records_done,
        executor_seconds=math.fsum(account.executor_seconds for account in accounts.values()),
        capacity_seconds=math.fsum(account.share_seconds for account in accounts.values()),
        static_capacity_seconds=math.fsum(
            account.observed_seconds * limits[name].top.capacity for name, account in accounts.items()
        ),
        decisions=tuple(history.decisions(since=since, limit=_DECISIONS_KEPT, changes_only=True)),
        faults=faults,
        missed_turns=missed_turns,
        operators={
            name: {
                "executor_seconds": account.executor_seconds,
                "cpu_share_mean": account.cpu_share_mean,
                "cost": None if (cost := costs[name]) is None else cost.to_json(),
                "records_done": None if (seen := newest[name]) is None else seen.records_done,
            }
            for name, account in accounts.items()
        },
        cost=total_cost(costs.values()),
        why_ended=why_ended,
    )


def _newest(history: KnowledgeStore, operator: str, since: float) -> Observation | None:
    return next(iter(history.observations(operator, since=since, limit=1)), None)


def _account(history: KnowledgeStore, operator: str, since: float, until: float) -> OperatorAccount:
    """What an operator had, read piece by piece: a run may last for weeks."""
    account, start = OperatorAccount(), since
    while start <= until:
        for seen in history.observations(operator, since=start, before=start + _PIECE_SECONDS, limit=_MOST_AT_ONCE):
            account.add(CycleReport(seen))
        start += _PIECE_SECONDS
    return account


def _latency(path: Path, monitor: Monitor) -> RunLatency | None:
    """Of a path from the first arrival to its last operator's end; one operator alone may not have it followed."""
    if monitor.path is not None:
        return monitor.path.run_latency()
    return monitor.run_latency() if len(path) == 1 else None
