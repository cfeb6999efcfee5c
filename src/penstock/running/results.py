# SPDX-License-Identifier: Apache-2.0
"""What a run came to: latency of every path against its objective, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.account import PathOutcome, RunSummary
from penstock.running.member import Member
from penstock.running.streams import Load
from penstock.settings import RunSettings


def summarise(
    settings: RunSettings,
    folder: Path,
    members: Mapping[str, Member],
    load: Load,
    *,
    started_at: float,
    ended_at: float,
    faults: int,
) -> RunSummary:
    """Add a run up."""
    accounts = {name: member.account for name, member in members.items()}
    first = next(iter(members.values()))
    last_seen = None if first.last is None else first.last.observation
    static = sum(a.observed_seconds * _largest(members[n]) for n, a in accounts.items())
    return RunSummary(
        name=settings.name,
        folder=str(folder),
        mode=settings.mode,
        started_at=started_at,
        ended_at=ended_at,
        records_due=load.arrived_by(ended_at),
        records_read=load.read(Path(first.job.checkpoint_folder)),
        records_done=None if last_seen is None else last_seen.records_done,
        paths=path_outcomes(settings, members, load, ended_at),
        executor_seconds=sum(a.executor_seconds for a in accounts.values()),
        capacity_seconds=sum(a.share_seconds for a in accounts.values()),
        static_capacity_seconds=static,
        decisions=tuple(sorted((d for a in accounts.values() for d in a.decisions), key=lambda d: d.at)),
        faults=faults,
        operators={name: _of_operator(member) for name, member in members.items()},
    )


def path_outcomes(
    settings: RunSettings, members: Mapping[str, Member], load: Load, at: float
) -> tuple[PathOutcome, ...]:
    """The latency of every path, from first arrival to its last operator's end.

    Records that arrived and were not done count too, with their wait so far: left out, a run that fell behind would
    look fast.
    """
    outcomes = []
    for path, objective in settings.path_objectives().items():
        first, last = members[path[0]], members[path[-1]]
        done = 0 if first.last is None else first.last.observation.records_done or 0
        waiting, monitor = load.waiting(done, at), last.flow.path
        latency = monitor.latency_of_run() if waiting is None else monitor.latency_with_waiting(waiting, at)
        outcomes.append(PathOutcome(path, objective, latency))
    return tuple(outcomes)


def _largest(member: Member) -> float:
    """The most it may have, in executors of its first size."""
    sizes = member.settings.executor_sizes
    return member.settings.limits().top.capacity * sizes[-1].cores / sizes[0].cores


def _of_operator(member: Member) -> dict[str, float | int | list[float] | None]:
    latency, seen = member.flow.path.latency_of_run(), None if member.last is None else member.last.observation
    return {
        "executor_seconds": member.account.executor_seconds,
        "cpu_share_mean": member.account.cpu_share_mean,
        "path_latency_p95": None if latency is None else latency.p95_seconds,
        "records_done": None if seen is None else seen.records_done,
        "restarts": member.restarts,
        "resizes": len(member.pauses),
        "resize_pauses_seconds": list(member.pauses),
    }
