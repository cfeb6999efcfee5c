# SPDX-License-Identifier: Apache-2.0
"""What a run cost and what it achieved, added up cycle by cycle in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.loop.cycle import CycleReport
from penstock.records import Decision, LatencySummary, Objective

_DECISIONS_KEPT = 10_000


@dataclass(slots=True)
class OperatorAccount:
    """Executor time and CPU share of one operator, integrated over what was observed."""

    executor_seconds: float = 0.0
    share_seconds: float = 0.0
    """Integral of executors x CPU share."""
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
            self.executor_seconds += observed.executors * passed
            self.share_seconds += observed.capacity * passed
            self.observed_seconds += passed
        if report.decision is not None and report.decision.is_change:
            self.decisions.append(report.decision)

    @property
    def cpu_share_mean(self) -> float | None:
        """Mean CPU share of an executor while it was there."""
        return self.share_seconds / self.executor_seconds if self.executor_seconds > 0 else None


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run went. `latency` is that of the slowest path, from first arrival to the last operator's end."""

    name: str
    folder: str
    mode: str
    started_at: float
    ended_at: float
    objective: Objective
    records_due: int | None
    records_read: int | None
    records_done: int | None
    latency: LatencySummary | None
    cpu_share_mean: float | None
    executor_seconds: float
    capacity_seconds: float
    """Integral of executors x CPU share: what was paid for."""
    static_capacity_seconds: float
    """The same had every operator kept the top of its limits."""
    decisions: tuple[Decision, ...]
    faults: int = 0
    operators: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The object a command prints with `--json`."""
        latency = self.latency
        return {
            "name": self.name,
            "folder": self.folder,
            "mode": self.mode,
            "seconds": round(self.ended_at - self.started_at, 3),
            "records_due": self.records_due,
            "records_read": self.records_read,
            "records_done": self.records_done,
            "objective": {"statistic": self.objective.statistic, "seconds": self.objective.seconds,
                          "met": self.objective.is_met_by(latency)},
            "latency": None if latency is None else {
                "mean": latency.mean_seconds, "p50": latency.p50_seconds, "p95": latency.p95_seconds,
                "p99": latency.p99_seconds, "max": latency.max_seconds, "records": latency.records,
                "is_exact": latency.is_exact,
            },
            "cpu_share_mean": self.cpu_share_mean,
            "executor_seconds": self.executor_seconds,
            "capacity_seconds": self.capacity_seconds,
            "static_capacity_seconds": self.static_capacity_seconds,
            "decisions": [
                {"operator": d.operator, "at": d.at, "verb": d.verb, "policy": d.policy, "reason": d.reason,
                 "from": {"executors": d.current.executors, "cpu_share": d.current.cpu_share},
                 "to": {"executors": d.target.executors, "cpu_share": d.target.cpu_share},
                 "amended_by": [f"{a.guard}: {a.reason}" for a in d.amended_by], "mode": str(d.mode)}
                for d in self.decisions
            ],
            "faults": self.faults,
            "operators": dict(self.operators),
        }  # fmt: skip
