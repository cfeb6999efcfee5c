# SPDX-License-Identifier: Apache-2.0
"""What the loop asks of the outside. Each protocol lists what the far side promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from penstock.records import (
    Action,
    Allocation,
    Decision,
    LatencySummary,
    Observation,
    Outcome,
    PlanRequest,
    SourceProgress,
    StageTime,
    Telemetry,
)

FloatArray: TypeAlias = NDArray[np.float64]


class MetricSource(Protocol):
    """Where measurements of one operator come from.

    Promises: `collect` returns what is new since the last call and never blocks for long; each batch is given
    once, in order; what cannot be read is named in `Telemetry.faults` and left None; it never raises for a single
    missing measurement, only (MetricSourceError) when the operator itself cannot be reached.
    """

    def collect(self) -> Telemetry:
        """What is new since the last call."""
        ...


class Actuator(Protocol):
    """Where an operator's allocation is changed.

    Promises: `request` returns at once, the far side gets there later (eventually consistent); the same
    `request_id` twice is one request; a new request replaces the last; errors are ActuationError. `release` puts
    everything back as it was before the first request and may be called twice.
    """

    @property
    def can_set_cpu_share(self) -> bool:
        """Whether CPU shares can be set here; without it only executors are scaled."""
        ...

    def request(self, action: Action) -> None:
        """Ask for the allocation in `action`."""
        ...

    def release(self) -> None:
        """Put everything back as it was."""
        ...


class ArrivalTimes(Protocol):
    """When a source's records arrived.

    Promises: times are seconds since the epoch and never fall; answers do not change afterwards.
    """

    def of(self, source: SourceProgress) -> FloatArray | None:
        """Arrival times of the records in a batch's offset range; None where this source is not known here."""
        ...

    def arrived_by(self, at: float) -> int | None:
        """How many records have arrived up to `at`."""
        ...

    def done_index(self, source: SourceProgress) -> int | None:
        """How many records, counted from the very first, are done when this batch is."""
        ...


@runtime_checkable
class SampledArrivalTimes(ArrivalTimes, Protocol):
    """Arrival times of which some may have been interpolated between a sample of them."""

    @property
    def is_exact(self) -> bool:
        """Whether every time given so far was that of its record."""
        ...


@runtime_checkable
class TimedArrivalTimes(ArrivalTimes, Protocol):
    """Arrival times that are known as records come, before any batch has told of them."""

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`, in order; None where some of them cannot be told."""
        ...


class RecordLatencies(Protocol):
    """The latency of an operator's records, measured where they come out, not by its batches.

    Promises: an answer comes at once; None means that no record came out, never that its latency was zero.
    """

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records that came out lately."""
        ...

    def whole(self) -> LatencySummary | None:
        """Latency of all records that came out."""
        ...


class BatchLineage(Protocol):
    """Which batches of the operator above a batch took its records from."""

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Ids of the batches above, rising; None where that cannot be told."""
        ...


class Policy(Protocol):
    """A pure function from a request to a decision: same request, same decision, no side effect."""

    @property
    def name(self) -> str:
        """How the policy is called in settings and decisions."""
        ...

    @property
    def every_seconds(self) -> float:
        """How often it wants to be asked."""
        ...

    def plan(self, request: PlanRequest) -> Decision:
        """What the operator should have."""
        ...


@runtime_checkable
class WatchingPolicy(Policy, Protocol):
    """A policy that learns from everything the loop sees, not only from what it is asked about.

    Promises: `watch` returns at once, its thinking is done elsewhere; given the same things seen, `plan` is as pure as
    any policy's; `close` ends what `watch` has started and may be called twice.
    """

    def watch(self, telemetry: Telemetry, observation: Observation, arrivals: ArrivalTimes | None) -> tuple[str, ...]:
        """Take in one look, with what is known of the source; gives what the user should know of the policy itself."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


class Guard(Protocol):
    """A named part that may change a decision, and says what it changed."""

    @property
    def name(self) -> str:
        """How the guard is called in a decision's amendments."""
        ...

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision as it may stand."""
        ...


@dataclass(frozen=True, slots=True)
class PathPrediction:
    """What is predicted of one source-to-sink path under one allocation, in the worst of all workload models.

    `seconds` is the statistic that the path's objective bounds; infinite where an operator cannot keep up.
    `operator_seconds` gives each operator's part of it and `utilisation` its load, under the model in `worst`.
    """

    path: tuple[str, ...]
    seconds: float
    bound_seconds: float
    operator_seconds: Mapping[str, float]
    utilisation: Mapping[str, float]
    worst: str

    @property
    def is_met(self) -> bool:
        """Whether the bound is kept."""
        return self.seconds <= self.bound_seconds


class PathLatency(Protocol):
    """Predicts the latency along every path of a pipeline for any allocation of its operators.

    Promises: the same allocations give the same answer; a larger share never makes a path slower, nor do more
    executors; every path has a bound; an operator that cannot keep up gives an infinite time, never an error.
    """

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators, each after those it reads from."""
        ...

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The source-to-sink paths, as names of operators."""
        ...

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[PathPrediction, ...]:
        """The predictions in the order of `paths`."""
        ...


class KnowledgeStore(Protocol):
    """What is remembered.

    Promises: what was added before a crash is there after it (stores on disk); reads give the newest `limit`
    records, oldest first; histories are bounded, the oldest go first; safe to use from several threads.
    """

    def add_observation(self, observation: Observation) -> None:
        """Remember an observation."""
        ...

    def add_decision(self, decision: Decision) -> None:
        """Remember a decision with its evidence and reason."""
        ...

    def add_action(self, action: Action) -> None:
        """Remember what was asked for."""
        ...

    def add_outcome(self, outcome: Outcome) -> None:
        """Remember what became of an action."""
        ...

    def add_stage_times(self, times: Sequence[StageTime]) -> None:
        """Remember how long the loop's stages took."""
        ...

    def observations(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Observation]:
        """The newest observations, oldest first."""
        ...

    def decisions(
        self,
        operator: str | None = None,
        *,
        since: float = 0.0,
        limit: int = 1000,
        changes_only: bool = False,
    ) -> list[Decision]:
        """The newest decisions, oldest first."""
        ...

    def actions(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Action]:
        """The newest actions, oldest first."""
        ...

    def outcomes(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Outcome]:
        """The newest outcomes, oldest first."""
        ...

    def stage_times(self, *, since: float = 0.0, limit: int = 1000) -> list[StageTime]:
        """The newest stage times, oldest first."""
        ...

    def set_fact(self, name: str, value: str) -> None:
        """Remember one text under a name (settings of the run, summaries)."""
        ...

    def fact(self, name: str) -> str | None:
        """The text under a name."""
        ...

    def close(self) -> None:
        """Write what is left and let go of files."""
        ...


__all__ = [
    "Actuator",
    "Allocation",
    "ArrivalTimes",
    "BatchLineage",
    "FloatArray",
    "Guard",
    "KnowledgeStore",
    "MetricSource",
    "PathLatency",
    "PathPrediction",
    "Policy",
    "RecordLatencies",
    "SampledArrivalTimes",
    "TimedArrivalTimes",
    "WatchingPolicy",
]
