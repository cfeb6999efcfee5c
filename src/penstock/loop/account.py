# SPDX-License-Identifier: Apache-2.0
"""What a run cost and what it achieved, added up cycle by cycle in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.loop.cycle import CycleReport
from penstock.records import Decision, LatencySummary, Objective
from penstock.topology import Path, path_text

_DECISIONS_KEPT = 10_000


@dataclass(slots=True)
class OperatorAccount:
    """Executor time and CPU share of one operator, integrated over what was observed.

    Executors of another size count by their cores, in executors of the first size.
    """

    executor_seconds: float = 0.0
    share_seconds: float = 0.0
    """Integral of executors x CPU share."""
    weight: float = 1.0
    """What an executor counts now: its cores over those of the first size."""
    observed_seconds: float = 0.0
    unobserved_seconds: float = 0.0
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=_DECISIONS_KEPT))
    """The newest changes."""
    _last_at: float | None = None

    def add(self, report: CycleReport) -> None:
        """Count one cycle: what is observed now is taken to have held since the last look."""
        now = report.observation.at
        passed = 0.0 if self._last_at is None else max(0.0, now - self._last_at)
        self._last_at = now
        observed = report.observation.cluster.observed
        if observed is None:
            self.unobserved_seconds += passed
        else:
            self.executor_seconds += observed.executors * self.weight * passed
            self.share_seconds += observed.capacity * self.weight * passed
            self.observed_seconds += passed
        if report.decision is not None and report.decision.is_change:
            self.decisions.append(report.decision)

    @property
    def cpu_share_mean(self) -> float | None:
        """Mean CPU share of an executor while it was there."""
        return self.share_seconds / self.executor_seconds if self.executor_seconds > 0 else None


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """What became of a path: its latency, from first arrival to its last operator's end, and what was wanted."""

    path: Path
    objective: Objective
    latency: LatencySummary | None

    @property
    def is_met(self) -> bool | None:
        """Whether the objective was met; None where that cannot be told."""
        return self.objective.is_met_by(self.latency)

    @property
    def strain(self) -> float:
        """How near the latency is to its bound, or, without one, how long: to find the worst of several paths."""
        if self.latency is None:
            return -1.0
        measured, bound = self.objective.measured(self.latency), self.objective.seconds
        return self.latency.p95_seconds if measured is None or bound is None else measured / bound

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "objective": {"statistic": self.objective.statistic, "seconds": self.objective.seconds,
                          "met": self.is_met},
            "latency": _latency_json(self.latency),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run went."""

    name: str
    folder: str
    mode: str
    started_at: float
    ended_at: float
    paths: tuple[PathOutcome, ...]
    records_due: int | None
    records_read: int | None
    records_done: int | None
    executor_seconds: float
    capacity_seconds: float
    """Integral of executors x CPU share, in executors of the first size: what was paid for."""
    static_capacity_seconds: float
    """The same had every operator kept the top of its limits."""
    decisions: tuple[Decision, ...]
    faults: int = 0
    operators: Mapping[str, Any] = field(default_factory=dict)

    @property
    def worst(self) -> PathOutcome:
        """The path that is nearest to its bound, or furthest beyond."""
        # A store that nothing was written to has no operators, and so no paths.
        return max(self.paths, key=lambda path: path.strain, default=PathOutcome((), Objective(), None))

    @property
    def latency(self) -> LatencySummary | None:
        """That of the worst path."""
        return self.worst.latency

    @property
    def is_met(self) -> bool | None:
        """Whether every path's objective was met; None where one cannot be told and none is broken."""
        met = [path.is_met for path in self.paths if path.objective.seconds is not None]
        return False if False in met else None if None in met or not met else True

    @property
    def cpu_share_mean(self) -> float | None:
        """Mean CPU share of an executor while it was there."""
        return self.capacity_seconds / self.executor_seconds if self.executor_seconds > 0 else None

    def to_json(self) -> dict[str, Any]:
        """The object a command prints with `--json`; `objective` and `latency` are those of the worst path."""
        worst = self.worst.objective
        return {
            "name": self.name,
            "folder": self.folder,
            "mode": self.mode,
            "seconds": round(self.ended_at - self.started_at, 3),
            "records_due": self.records_due,
            "records_read": self.records_read,
            "records_done": self.records_done,
            "objective": {"statistic": worst.statistic, "seconds": worst.seconds, "met": self.is_met},
            "latency": _latency_json(self.latency),
            "paths": {path_text(path.path): path.to_json() for path in self.paths},
            "cpu_share_mean": self.cpu_share_mean,
            "executor_seconds": self.executor_seconds,
            "capacity_seconds": self.capacity_seconds,
            "static_capacity_seconds": self.static_capacity_seconds,
            "decisions": [
                {"operator": d.operator, "at": d.at, "verb": d.verb, "policy": d.policy, "reason": d.reason,
                 "from": {"executors": d.current.executors, "cpu_share": d.current.cpu_share},
                 "to": {"executors": d.target.executors, "cpu_share": d.target.cpu_share},
                 "amended_by": [f"{a.guard}: {a.reason}" for a in d.amended_by], "mode": str(d.mode),
                 "size": None if d.resize is None else str(d.resize.after)}
                for d in self.decisions
            ],
            "faults": self.faults,
            "operators": dict(self.operators),
        }  # fmt: skip


def _latency_json(latency: LatencySummary | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return {
        "mean": latency.mean_seconds, "p50": latency.p50_seconds, "p95": latency.p95_seconds,
        "p99": latency.p99_seconds, "max": latency.max_seconds, "records": latency.records,
        "is_exact": latency.is_exact,
    }  # fmt: skip
