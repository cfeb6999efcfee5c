# SPDX-License-Identifier: Apache-2.0
"""What a run cost and what it achieved, added up cycle by cycle in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.clock import PassedTime
from penstock.loop.cycle import CycleReport
from penstock.money import Cost, CostBasis
from penstock.records import Decision, ExecutorSize, LatencySummary, Objective, RunLatency
from penstock.topology import Path, path_text

_DECISIONS_KEPT = 10_000


@dataclass(slots=True)
class OperatorAccount:
    """Executor time and CPU share of one operator, integrated over what was observed.

    Executors of another size count by their cores, in executors of the operator's own size.
    """

    executor_seconds: float = 0.0
    share_seconds: float = 0.0
    """Integral of executors x CPU share."""
    observed_seconds: float = 0.0
    unobserved_seconds: float = 0.0
    decisions: deque[Decision] = field(default_factory=lambda: deque(maxlen=_DECISIONS_KEPT))
    """The newest changes."""
    _by_wall_clock: PassedTime = field(default_factory=PassedTime)
    _has_begun: bool = False

    def add(self, report: CycleReport) -> None:
        """Count one cycle: what is observed now is taken to have held since the last look."""
        passed = self._by_wall_clock.take(report.observation.at)
        if self._has_begun and report.passed_seconds is not None:
            passed = report.passed_seconds
        self._has_begun = True
        observed = report.observation.cluster.observed
        if observed is None:
            self.unobserved_seconds += passed
        else:
            self.executor_seconds += observed.executors * observed.worth * passed
            self.share_seconds += observed.capacity * passed
            self.observed_seconds += passed
        if report.decision is not None and report.decision.is_change:
            self.decisions.append(report.decision)

    @property
    def cpu_share_mean(self) -> float | None:
        """Mean CPU share of an executor while it was there."""
        return self.share_seconds / self.executor_seconds if self.executor_seconds > 0 else None

    def cost(self, basis: CostBasis | None) -> Cost | None:
        """What this came to; None: it has no price, or nothing was observed."""
        if basis is None:
            return None
        return basis.cost(self.executor_seconds, self.share_seconds, self.observed_seconds)


@dataclass(frozen=True, slots=True)
class PathOutcome:
    """What became of a path: its latency, from first arrival to its last operator's end, and what was wanted."""

    path: Path
    objective: Objective
    latency: LatencySummary | None
    """Of all records."""
    start_up: LatencySummary | None = None
    steady: LatencySummary | None = None
    """Of all records but those of the start-up; None: it is not known which those are."""
    steady_from: float | None = None

    @classmethod
    def of(cls, path: Path, objective: Objective, run: RunLatency | None) -> PathOutcome:
        """The outcome of a path whose latency was followed; None: it was not."""
        run = run or RunLatency()
        return cls(path, objective, run.whole, run.start_up, run.steady, run.steady_from)

    @property
    def is_met(self) -> bool | None:
        """Whether the objective was met over all records; None where that is not known."""
        return self.objective.is_met_by(self.latency)

    @property
    def is_met_steady(self) -> bool | None:
        """Whether the objective was met after the start-up; None where that is not known."""
        return self.objective.is_met_by(self.steady)

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
                          "met": self.is_met, "met_steady": self.is_met_steady},
            "latency": _latency_json(self.latency),
            "latency_steady": _latency_json(self.steady),
            "latency_start_up": _latency_json(self.start_up),
            "steady_from": self.steady_from,
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
    """Integral of executors x CPU share, in executors of the own size: what was paid for."""
    static_capacity_seconds: float
    """The same had every operator kept the top of its limits."""
    decisions: tuple[Decision, ...]
    faults: int = 0
    operators: Mapping[str, Any] = field(default_factory=dict)
    own_sizes: Mapping[str, ExecutorSize] = field(default_factory=dict)
    """What each operator's executors are made of before any restart."""
    missed_turns: int = 0
    """Passes that fell out because the one before took longer than the interval."""
    cost: Cost | None = None
    """In money; None: no prices were given."""
    is_left: bool = False
    """Whether the pipeline goes on without this controller, and can be resumed."""
    why_ended: str = ""
    """Why a master ended it, in words; empty: it ended by itself."""

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
        """Whether every path's objective was met; None where one is not known and none is broken."""
        return _all_met([path.is_met for path in self.paths if path.objective.seconds is not None])

    @property
    def is_met_steady(self) -> bool | None:
        """The same without the records of the start-up."""
        return _all_met([path.is_met_steady for path in self.paths if path.objective.seconds is not None])

    @property
    def cpu_share_mean(self) -> float | None:
        """Mean CPU share of an executor while it was there."""
        return self.capacity_seconds / self.executor_seconds if self.executor_seconds > 0 else None

    def to_json(self) -> dict[str, Any]:
        """The object a command prints with `--json`; `objective` and `latency` are those of the worst path."""
        worst = self.worst.objective
        parts = self.worst.to_json()
        return {
            "name": self.name,
            "folder": self.folder,
            "mode": self.mode,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "seconds": round(self.ended_at - self.started_at, 3),
            "records_due": self.records_due,
            "records_read": self.records_read,
            "records_done": self.records_done,
            "objective": {"statistic": worst.statistic, "seconds": worst.seconds, "met": self.is_met,
                          "met_steady": self.is_met_steady},
            "latency": parts["latency"],
            "latency_steady": parts["latency_steady"],
            "latency_start_up": parts["latency_start_up"],
            "steady_from": parts["steady_from"],
            "paths": {path_text(path.path): path.to_json() for path in self.paths},
            "cpu_share_mean": self.cpu_share_mean,
            "executor_seconds": self.executor_seconds,
            "capacity_seconds": self.capacity_seconds,
            "static_capacity_seconds": self.static_capacity_seconds,
            "cost": None if self.cost is None else self.cost.to_json(),
            "decisions": [
                {"operator": d.operator, "at": d.at, "verb": d.verb, "policy": d.policy, "reason": d.reason,
                 "from": {"executors": d.current.executors, "cpu_share": d.current.cpu_share},
                 "to": {"executors": d.target.executors, "cpu_share": d.target.cpu_share},
                 "amended_by": [f"{a.guard}: {a.reason}" for a in d.amended_by], "mode": str(d.mode),
                 "size": self._size_text(d) if d.is_restart else None}
                for d in self.decisions
            ],
            "faults": self.faults,
            "missed_turns": self.missed_turns,
            "operators": dict(self.operators),
            "is_left": self.is_left,
            "why_ended": self.why_ended,
        }  # fmt: skip

    def _size_text(self, decision: Decision) -> str:
        size = decision.target.size or self.own_sizes.get(decision.operator)
        return "its own size" if size is None else str(size)


def _all_met(met: list[bool | None]) -> bool | None:
    return False if False in met else None if None in met or not met else True


def _latency_json(latency: LatencySummary | None) -> dict[str, Any] | None:
    if latency is None:
        return None
    return {
        "mean": latency.mean_seconds, "p50": latency.p50_seconds, "p95": latency.p95_seconds,
        "p99": latency.p99_seconds, "max": latency.max_seconds, "records": latency.records,
        "is_exact": latency.is_exact, "inexact_because": latency.inexact_because,
    }  # fmt: skip
