# SPDX-License-Identifier: Apache-2.0
"""The frozen records that travel between the stages, in the order of the data's way.

``Telemetry (BatchProgress, ...) -> Observation -> WorkloadEstimate -> Prediction -> Decision -> Action -> Outcome``

Instants (`at`, `started_at`, ...) are seconds since the epoch. A value that is not known is ``None``, never zero.
Every record is plain data: `encode` writes it as JSON, `decode` reads it back.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

from penstock.errors import ConfigurationError
from penstock.latency_map import LONGEST_ROUND_TRIP_SECONDS
from penstock.units import format_seconds

# --- what the engine reports -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceProgress:
    """What one batch took from one source; offsets are the JSON text the engine gave."""

    description: str
    start_offset: str | None
    end_offset: str | None
    latest_offset: str | None
    rows: int


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One finished micro-batch of one operator."""

    operator: str
    query_id: str
    run_id: str
    batch_id: int
    started_at: float
    ended_at: float
    rows: int
    phase_seconds: Mapping[str, float]
    sources: tuple[SourceProgress, ...]
    state_rows: int | None = None

    @property
    def duration_seconds(self) -> float:
        """From trigger to commit."""
        return self.ended_at - self.started_at


@dataclass(frozen=True, slots=True)
class ExecutorState:
    """One executor as the driver sees it."""

    executor_id: str
    host: str
    cores: int
    is_active: bool
    active_tasks: int
    task_seconds: float
    """Time spent in tasks since the executor started, summed over its cores."""
    added_at: float | None = None
    is_draining: bool = False
    """Chosen to go: takes no new tasks and ends when its blocks have moved."""


@dataclass(frozen=True, slots=True)
class CpuReading:
    """The kernel's CPU counters of an operator's executors, cumulative since the group was made."""

    at: float
    used_seconds: float | None
    """None: it cannot be seen from here."""
    throttled_seconds: float | None
    """None: it cannot be seen from here."""
    quota_cores: float | None
    """The cap Penstock has set; None: no cap."""
    processes: int
    parents_quota_cores: float | None = None
    """The tightest cap somebody else has set around it; None: none."""
    executors: int | None = None
    """How many executors the cap is for; None: for as many as were asked for."""


@dataclass(frozen=True, slots=True)
class ExecutorShare:
    """What each executor of an application may use, for whoever reaches hosts that its driver does not.

    Attributes
    ----------
    application_id
        Whose executors.
    cores_each
        What one of them may use; those of a host share what is theirs together. None: no cap.
    held_at
        The place whose executors the driver holds itself (`adaptors.process.identity.place`); empty: it holds none.
    held
        The executors that it holds there, by id.
    """

    application_id: str
    cores_each: float | None
    held_at: str = ""
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HeldOnHost:
    """An application's executors on one host: which are held there, their CPU, and what does not work.

    `cpu` is None where none are there, or where it cannot be read.
    """

    application_id: str
    executors: tuple[str, ...] = ()
    cpu: CpuReading | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A request that will not come about, though it was accepted: which one, and why."""

    request_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExecutorRoom:
    """How many executors an operator can have at most now, those that it has included, and what bounds them."""

    executors: int
    reason: str


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Everything one look at an operator brought. `faults` says what could not be read, and why."""

    operator: str
    at: float
    batches: tuple[BatchProgress, ...] = ()
    executors: tuple[ExecutorState, ...] | None = None
    cpu: CpuReading | None = None
    is_running: bool = True
    faults: tuple[str, ...] = ()
    batch_is_running: bool | None = None
    """Whether a batch is under way; None: not known. It is asked only until the first batch has ended."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Metrics beyond these that somebody has subscribed to, by name (docs/reference/metrics.md)."""
    refused: Refused | None = None
    """The last request, where the cluster has refused it since; None: nothing is known of that."""
    room: ExecutorRoom | None = None
    """What the cluster can give now; None: that is not known here."""
    share: ExecutorShare | None = None
    """What executors on other hosts are to be held to; None: nobody is asked to."""
    why_no_shares: str | None = None
    """Why executors cannot be held to a CPU share now; None: they can, or shares are not used."""


# --- sizes and aims --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExecutorSize:
    """What one executor is made of. A running application cannot change it: another size takes a restart."""

    cores: int
    memory: str
    shuffle_partitions: int | None = None
    """Asked for with this size; None: the same for all sizes."""
    worth: float = 1.0
    """Its cores over those of the operator's own size: how many of those executors it stands for."""

    def __str__(self) -> str:
        partitions = "" if self.shuffle_partitions is None else f", {self.shuffle_partitions} shuffle partitions"
        return f"{self.cores} {'core' if self.cores == 1 else 'cores'}, {self.memory}{partitions}"


@dataclass(frozen=True, slots=True)
class Allocation:
    """Everything that can be chosen for an operator.

    Attributes
    ----------
    executors
        How many.
    cpu_share
        The part of its cores that each executor may use; 1.0 is all of them.
    size
        What an executor is made of; None is the size that the operator is set up with.
    nodes
        How many executors each node has, as pairs of a node's name and a number; empty leaves the choice to the
        cluster.
    """

    executors: int
    cpu_share: float = 1.0
    size: ExecutorSize | None = None
    nodes: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.nodes and sum(count for _, count in self.nodes) != self.executors:
            raise ConfigurationError(
                f"nodes: {dict(self.nodes)} has {sum(count for _, count in self.nodes)} executors, and the allocation "
                f"{self.executors}; make them equal",
                field="nodes",
            )

    @property
    def worth(self) -> float:
        """How many executors of the operator's own size one of these stands for."""
        return 1.0 if self.size is None else self.size.worth

    @property
    def capacity(self) -> float:
        """Executors' worth of CPU, in executors of the operator's own size: the cost of the allocation."""
        return self.executors * self.cpu_share * self.worth

    def satisfies(self, wanted: Allocation) -> bool:
        """Whether this, as observed, is what was wanted; any nodes will do where none were named."""
        return (self.executors, self.cpu_share, self.size) == (wanted.executors, wanted.cpu_share, wanted.size) and (
            not wanted.nodes or sorted(self.nodes) == sorted(wanted.nodes)
        )

    def __str__(self) -> str:
        noun = "executor" if self.executors == 1 else "executors"
        size = "" if self.size is None else f" of {self.size}"
        nodes = "" if not self.nodes else f" on {', '.join(f'{node} ({count})' for node, count in self.nodes)}"
        return f"{self.executors} {noun}{size} x {self.cpu_share:.0%} CPU{nodes}"


@dataclass(frozen=True, slots=True)
class Limits:
    """What an operator may have.

    Attributes
    ----------
    min_executors, max_executors
        Fewest and most executors.
    cpu_shares
        The CPU shares that may be chosen, rising.
    sizes
        Further executor sizes that a restart may give it, by rising worth, beside its own.
    nodes
        The nodes that may be chosen; empty leaves the choice to the cluster.
    executors_per_node
        The most executors on one node, where nodes are chosen; None: as many as are wanted.
    """

    min_executors: int = 1
    max_executors: int = 1
    cpu_shares: tuple[float, ...] = (1.0,)
    sizes: tuple[ExecutorSize, ...] = ()
    nodes: tuple[str, ...] = ()
    executors_per_node: int | None = None

    def __post_init__(self) -> None:
        if self.min_executors < 1:
            raise ConfigurationError(
                f"executors: the minimum is {self.min_executors}; a running query needs at least 1",
                field="executors",
            )
        if self.min_executors > self.max_executors:
            raise ConfigurationError(
                f"executors: minimum {self.min_executors} is above maximum {self.max_executors}; "
                "write the minimum first",
                field="executors",
            )
        if not self.cpu_shares:
            raise ConfigurationError("cpu_shares: give at least one share, such as (1.0,)", field="cpu_shares")
        for share in self.cpu_shares:
            if not 0.0 < share <= 1.0:
                raise ConfigurationError(
                    f"cpu_shares: {share!r} is outside (0, 1]; a share is a fraction of the executor's cores",
                    field="cpu_shares",
                )
        if list(self.cpu_shares) != sorted(set(self.cpu_shares)):
            raise ConfigurationError(
                f"cpu_shares: {list(self.cpu_shares)} must rise without repeats; sort them",
                field="cpu_shares",
            )
        if self.executors_per_node is not None and self.executors_per_node < 1:
            raise ConfigurationError(
                f"executors_per_node: {self.executors_per_node} leaves no room on any node; give at least 1",
                field="executors_per_node",
            )

    def within(self, room: ExecutorRoom | None, has: int = 0, *, can_share: bool = True) -> Limits:
        """Return the limits without executors that the cluster does not give and, unless `can_share`, without shares.

        Executors that the operator has (`has`) and its minimum stay allowed: room bounds what it grows to, and takes
        nothing away.
        """
        shares = self.cpu_shares if can_share else (1.0,)
        most = self.max_executors
        if room is not None:
            most = min(most, max(self.min_executors, has, room.executors))
        if (most, shares) == (self.max_executors, self.cpu_shares):
            return self
        return replace(self, max_executors=most, cpu_shares=shares)

    @property
    def room(self) -> int:
        """How many executors the nodes that may be chosen hold, up to the maximum."""
        if not self.nodes or self.executors_per_node is None:
            return self.max_executors
        return min(self.max_executors, len(self.nodes) * self.executors_per_node)

    def may_hold(self, nodes: tuple[tuple[str, int], ...]) -> bool:
        """Whether executors may stand so."""
        most = self.executors_per_node
        return all(node in self.nodes and (most is None or count <= most) for node, count in nodes)

    def allows(self, allocation: Allocation) -> bool:
        """Whether the allocation may be asked for."""
        return (
            self.min_executors <= allocation.executors <= self.max_executors
            and allocation.cpu_share in self.cpu_shares
            and (allocation.size is None or allocation.size in self.sizes)
            and self.may_hold(allocation.nodes)
        )

    @property
    def top(self) -> Allocation:
        """The largest allocation that needs no restart."""
        return Allocation(self.max_executors, self.cpu_shares[-1])


STATISTICS = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True, slots=True)
class Objective:
    """What the user wants: a statistic of record latency at or below a bound, or (no statistic) to keep up.

    To keep up, no record may be older than `catch_up_seconds` when it is done: what waits is caught up with by then.
    """

    statistic: str | None = None
    seconds: float | None = None
    catch_up_seconds: float = field(default=60.0, repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.catch_up_seconds < float("inf"):
            raise ConfigurationError(
                f'objective: the time to catch up must be positive, not {self.catch_up_seconds!r}; write it like "60s"',
                field="objective",
            )
        if (self.statistic is None) != (self.seconds is None):
            raise ConfigurationError("objective: a statistic and its bound go together", field="objective")
        if self.statistic is not None and self.statistic not in STATISTICS:
            raise ConfigurationError(
                f"objective: unknown statistic {self.statistic!r}; known: {', '.join(STATISTICS)}",
                field="objective",
            )
        if self.seconds is not None and not 0 < self.seconds < float("inf"):
            raise ConfigurationError(
                f'objective: the bound must be a positive time, not {self.seconds!r}; write it like "2s"',
                field="objective",
            )

    def measured(self, latency: LatencySummary | None) -> float | None:
        """The value of this objective's statistic in a latency summary."""
        if latency is None or self.statistic is None:
            return None
        return latency.statistic(self.statistic)

    def is_met_by(self, latency: LatencySummary | None) -> bool | None:
        """Whether the latency meets the objective; None where that is not known."""
        value = self.measured(latency)
        return None if value is None or self.seconds is None else value <= self.seconds

    def __str__(self) -> str:
        return "keep up" if self.statistic is None else f"{self.statistic} <= {format_seconds(self.seconds)}"


# --- what the monitor makes of it ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LatencySummary:
    """Record latency over some records. Not exact: some arrival times were interpolated; `inexact_because` says why."""

    records: int
    mean_seconds: float
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    max_seconds: float
    is_exact: bool = True
    inexact_because: str = ""

    def statistic(self, name: str) -> float:
        """The statistic called ``mean``, ``p50``, ``p95`` or ``p99``."""
        if name not in STATISTICS:
            raise ConfigurationError(f"unknown statistic {name!r}; known: {', '.join(STATISTICS)}", field="objective")
        return float(getattr(self, f"{name}_seconds"))


@dataclass(frozen=True, slots=True)
class RunLatency:
    """Record latency since a run began, with its start-up apart.

    Start-up are the records that arrived before the operator had warmed up, however late they were done.
    """

    whole: LatencySummary | None = None
    start_up: LatencySummary | None = None
    steady: LatencySummary | None = None
    """Of all records but those of the start-up; None: there are none yet, or the start-up is not known."""
    steady_from: float | None = None
    """When the operator had warmed up."""

    @property
    def headline(self) -> LatencySummary | None:
        """That of the steady part, or of all records where there is none."""
        return self.steady or self.whole


class Quality(StrEnum):
    """How far an observation can be trusted; only GOOD ones are decided upon."""

    GOOD = "good"
    WARMING_UP = "warming up"
    STALE = "stale"
    INCOMPLETE = "incomplete"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Three words for size, kept apart because clusters are late: wanted, asked for, seen."""

    planned: Allocation | None = None
    requested: Allocation | None = None
    observed: Allocation | None = None


_CAUSES_NAMED = 2
"""Of what is missing, the first are named in a sentence: they come in the order of their weight."""


@dataclass(frozen=True, slots=True)
class Observation:
    """An operator over the last `window_seconds`. `missing` names what is not known, each with its cause."""

    operator: str
    at: float
    window_seconds: float
    quality: Quality
    cluster: ClusterState
    arrival_rate_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    backlog_records: int | None = None
    """Arrived and not yet done: waiting, or in the running batch."""
    utilisation: float | None = None
    """CPU used over CPU allowed (without cgroups: time in tasks over core time)."""
    cpu_used_cores: float | None = None
    cpu_throttled_fraction: float | None = None
    batch_seconds: float | None = None
    """Mean batch time over the window."""
    latency: LatencySummary | None = None
    """Of the records done in the window, from their arrival at this operator."""
    path_latency: LatencySummary | None = None
    """The same from their first arrival at the pipeline; None where that is not followed."""
    records_arrived: int | None = None
    records_done: int | None = None
    last_batch_id: int | None = None
    missing: tuple[str, ...] = ()
    query_run: str | None = None
    """The query's run (Spark's `runId`) that the newest batch belongs to: another one after each restart."""
    busy_fraction: float | None = None
    """Part of the time in which a batch ran, whatever the CPU did in it; in real-time mode, utilisation."""
    back_pressure: float | None = None
    """Pressure at the operator's input, from 0 to 1; above 0.5 more comes than it does
    (docs/background/back-pressure.md)."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """The newest of the metrics that its agent reports because somebody has subscribed to them, by name."""

    @property
    def quality_text(self) -> str:
        """How far the data of the operator can be trusted, with the cause: what is said of it, or what is missing."""
        name = self.quality.value
        causes = next((text for text in self.missing if text.startswith(f"{name}: ")), "")
        if not causes and self.missing:
            causes = f"{name}: {'; '.join(self.missing[:_CAUSES_NAMED])}"
        return f"the data of {self.operator} are {causes or name}"


# --- what the models say ---------------------------------------------------------------------------------------

# JSON has no number for infinity: it is written as the text "Infinity", and read back.
_INFINITY_AS_TEXT = {"ser_json_inf_nan": "strings"}


def _seconds_text(value: float) -> str:
    return "endless" if math.isinf(value) else f"{value:.4g} s"


@dataclass(frozen=True, slots=True)
class Bounded:
    """A predicted number: `value` for the worst of the arrival processes (number `worst_case` of them), and bounds."""

    __pydantic_config__ = _INFINITY_AS_TEXT
    value: float
    low: float
    high: float
    worst_case: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadEstimate:
    """What a policy expects to arrive: the ground of its predictions."""

    at: float
    arrivals_per_second: float
    """Over the busiest of its windows, `growth` included."""
    windows: tuple[int, ...] = ()
    """How many inter-arrival times each window has."""
    growth: float = 1.0
    """By what the windows' rate was raised because arrivals rise."""
    is_exact: bool = True
    """Whether arrival times were known; False: some were interpolated."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """What is predicted of one path under one allocation of its operators, in the worst case over all models.

    `seconds` is the statistic that the path's objective bounds; it is infinite where an operator cannot keep up.
    `operator_seconds` gives each operator's part of it and `utilisation` its load, under the model named in `worst`.
    `unsolved` says why that model has no answer, if it has none: `seconds` is then the most that is thought possible.

    `low_seconds` and `high_seconds` are the interval in which the statistic is expected, by how far earlier predictions
    were off: a part `confidence` of the measurements lies at or below the upper end. None: no interval was asked for.
    """

    __pydantic_config__ = _INFINITY_AS_TEXT
    path: tuple[str, ...]
    seconds: float
    bound_seconds: float
    operator_seconds: Mapping[str, float]
    utilisation: Mapping[str, float]
    worst: str
    unsolved: str | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    confidence: float | None = None

    @property
    def counted_seconds(self) -> float:
        """What has to keep the bound: the upper end of the interval, and no less than was predicted.

        `seconds` is for the worst window of arrivals. A burst in it may come back in fewer periods than an interval
        leaves out, so an upper end below it does not count.
        """
        return self.seconds if self.high_seconds is None else max(self.seconds, self.high_seconds)

    @property
    def is_met(self) -> bool:
        """Whether the bound is kept."""
        return self.counted_seconds <= self.bound_seconds

    def __str__(self) -> str:
        shown = _seconds_text(self.seconds)
        if self.low_seconds is not None and self.high_seconds is not None and math.isfinite(self.seconds):
            shown += f" ({_seconds_text(self.low_seconds)} to {_seconds_text(self.high_seconds)})"
        shown += f" of {_seconds_text(self.bound_seconds)} on {' > '.join(self.path)}"
        return shown if self.unsolved is None else f"{shown}, not solved ({self.unsolved})"


@dataclass(frozen=True, slots=True)
class CandidateLatency:
    """The latency of one operator under one candidate allocation, with bounds.

    Saturation is an answer: `is_stable` is False and all times are infinite. Where the model was not solved, `unsolved`
    says why, and its times are infinite as well.
    """

    __pydantic_config__ = _INFINITY_AS_TEXT
    allocation: Allocation
    model: str
    is_stable: bool
    utilisation: Bounded
    mean_seconds: Bounded
    percentile_seconds: Mapping[float, Bounded] | None = None
    """By probability (0.95); None where the model knows no percentiles."""
    unsolved: str | None = None

    def statistic(self, name: str) -> Bounded | None:
        """The latency called ``mean``, ``p50``, ``p95``, ...; None where it was not predicted."""
        if name == "mean":
            return self.mean_seconds
        known = {f"p{100 * p:.10g}": seconds for p, seconds in (self.percentile_seconds or {}).items()}
        return known.get(name)

    def meets(self, objective: Objective) -> bool | None:
        """Whether the predicted value is within the objective; None where its statistic was not predicted."""
        if objective.statistic is None or objective.seconds is None:
            return self.is_stable
        predicted = self.statistic(objective.statistic)
        return None if predicted is None else predicted.value <= objective.seconds


LEAST_THROUGHPUT, MOST_THROUGHPUT = 1e-12, 1e18
"""In records a second: what is outside cannot be true, and its square would not be a number any more."""


@dataclass(frozen=True, slots=True)
class ThroughputSample:
    """The throughput that an operator sustained under an allocation while it had more to do than it could.

    Attributes
    ----------
    allocation
        What it had.
    records_per_second
        What it took in.
    at
        When, in seconds since the epoch; None where all samples count as equally old.
    delay_seconds
        The longest round trip between its nodes at that time; None: as it is now.
    """

    allocation: Allocation
    records_per_second: float
    at: float | None = None
    delay_seconds: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.records_per_second) and self.records_per_second > 0.0):
            raise ConfigurationError(
                f"throughput: {self.records_per_second!r} must be a positive number of records a second; "
                "leave out samples in which nothing was processed",
                field="throughput",
            )
        if not LEAST_THROUGHPUT <= self.records_per_second <= MOST_THROUGHPUT:
            raise ConfigurationError(
                f"throughput: {self.records_per_second!r} records a second cannot be true; it must be from "
                f"{LEAST_THROUGHPUT:g} to {MOST_THROUGHPUT:g}",
                field="throughput",
            )
        if self.at is not None and not math.isfinite(self.at):
            raise ConfigurationError(
                f"at: {self.at!r} is no instant; give seconds since the epoch, or None", field="at"
            )
        if self.delay_seconds is not None and not 0.0 <= self.delay_seconds <= LONGEST_ROUND_TRIP_SECONDS:
            raise ConfigurationError(
                f"delay_seconds: {self.delay_seconds!r} is no time of a round trip; give seconds from 0 to "
                f"{LONGEST_ROUND_TRIP_SECONDS:,.0f}, or None",
                field="delay_seconds",
            )


@dataclass(frozen=True, slots=True)
class ThroughputPrediction:
    """The maximum sustainable throughput that a model expects of an allocation, in records a second.

    Attributes
    ----------
    records_per_second
        The expected throughput.
    low, high
        Between these a new measurement falls with probability `coverage`.
    coverage
        The probability that was asked for.
    """

    records_per_second: float
    low: float
    high: float
    coverage: float


# --- what is decided and done ----------------------------------------------------------------------------------


class Mode(StrEnum):
    """Whether decisions are carried out or only reported."""

    ACT = "act"
    RECOMMEND = "recommend"


@dataclass(frozen=True, slots=True)
class Rejected:
    """An allocation that was considered and not taken."""

    allocation: Allocation
    reason: str


@dataclass(frozen=True, slots=True)
class Amendment:
    """A guard's change to a decision."""

    guard: str
    before: Allocation
    after: Allocation
    reason: str


def new_id() -> str:
    """A short identifier, unique among the records of a run."""
    return uuid.uuid4().hex[:12]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a policy wants for an operator, with its reason and what it looked at."""

    operator: str
    at: float
    policy: str
    current: Allocation
    target: Allocation
    reason: str
    evidence: Mapping[str, float | int | str | None] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()
    amended_by: tuple[Amendment, ...] = ()
    mode: Mode = Mode.ACT
    decision_id: str = field(default_factory=new_id)
    workload: WorkloadEstimate | None = None
    """What the policy expects to arrive; None where it makes no estimate."""
    prediction: Prediction | None = None
    """Of the path nearest to its bound under the target; None where the policy predicts nothing."""

    @property
    def is_change(self) -> bool:
        """Whether anything is to be done."""
        return not self.current.satisfies(self.target)

    @property
    def is_restart(self) -> bool:
        """Whether the operator must be restarted, because its executors get another size."""
        return self.target.size != self.current.size

    @property
    def verb(self) -> str:
        """What is done, in two words at most.

        ``scale out`` and ``scale in`` where executors come or go, ``scale up`` and ``scale down`` where only the CPU
        share changes, ``restart larger`` and ``restart smaller``, ``move`` (other nodes), or ``hold``.
        """
        if not self.is_change:
            return "hold"
        if self.is_restart:
            return "restart larger" if self.is_growth else "restart smaller"
        before, after = self.current, self.target
        if after.capacity == before.capacity:
            return "move"
        if self.is_growth:
            return "scale out" if after.executors > before.executors else "scale up"
        return "scale in" if after.executors < before.executors else "scale down"

    @property
    def is_growth(self) -> bool:
        """Whether the operator gets more than it has; of a restart, whether its executors get larger."""
        if self.is_restart:
            return self.target.worth > self.current.worth
        return self.target.capacity > self.current.capacity

    @property
    def change_text(self) -> str:
        """From what to what."""
        return f"{self.current} -> {self.target}"

    @property
    def judged_text(self) -> str:
        """What was measured under earlier plans, beside what they predicted; empty where none was judged."""
        told = self.evidence
        judged, coverage = told.get("predictions_judged"), told.get("prediction_coverage")
        if not isinstance(judged, int) or not isinstance(coverage, float):
            return ""
        text = f"{round(judged * coverage)} of {judged} plans measured within their upper end ({coverage:.0%})"
        last = [told.get(f"last_{part}_seconds") for part in ("predicted", "low", "high", "measured")]
        if any(not isinstance(value, int | float) for value in last):
            return text
        predicted, low, high, measured = (format_seconds(float(value)) for value in last)  # type: ignore[arg-type]
        return f"{text}; the last predicted {predicted} ({low} to {high}), measured {measured}"

    def amended(self, guard: str, after: Allocation, reason: str) -> Decision:
        """This decision as a guard changed it; the old target and the first reason are kept."""
        return replace(self, target=after, amended_by=(*self.amended_by, Amendment(guard, self.target, after, reason)))

    def explain(self) -> str:
        """The decision in a few lines for people."""
        lines = [f"{self.operator}: {self.verb}: {self.change_text}" if self.is_change
                 else f"{self.operator}: hold at {self.current}",
                 f"  because {self.reason} ({self.policy})"]  # fmt: skip
        lines += [f"  {a.guard} changed {a.before} to {a.after}: {a.reason}" for a in self.amended_by]
        lines += [f"  not {r.allocation}: {r.reason}" for r in self.rejected]
        if self.judged_text:
            lines.append(f"  so far {self.judged_text}")
        shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in self.evidence.items() if v is not None}
        if shown:
            lines.append("  evidence: " + ", ".join(f"{k} = {v}" for k, v in shown.items()))
        if self.mode is Mode.RECOMMEND and self.is_change:
            lines.append("  recommended only: not carried out")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """All that a policy may know.

    `recent` holds the operator's latest changes and `history` its latest observations, both bounded, oldest first.
    """

    operator: str
    at: float
    observation: Observation
    current: Allocation
    limits: Limits
    objective: Objective
    recent: tuple[Decision, ...] = ()
    history: tuple[Observation, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A wanted allocation on its way to the outside; asking twice with one `request_id` changes nothing."""

    operator: str
    at: float
    target: Allocation
    decision_id: str | None
    request_id: str = field(default_factory=new_id)


class OutcomeStatus(StrEnum):
    """How far an action has come."""

    PENDING = "pending"
    DRAINING = "draining"
    """What was asked for takes the work, and executors that are to go are still there."""
    DONE = "done"
    FAILED = "failed"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action, `after_seconds` after it was asked for."""

    request_id: str
    operator: str
    at: float
    status: OutcomeStatus
    observed: Allocation | None
    after_seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageTime:
    """How long one stage of one cycle took: the loop measures itself."""

    at: float
    stage: str
    seconds: float


# --- plain data ------------------------------------------------------------------------------------------------

R = TypeVar("R")


_adapters: dict[type[Any], Any] = {}


def _adapter(kind: type[Any]) -> Any:
    if kind not in _adapters:
        from pydantic import TypeAdapter  # late: importing penstock stays light

        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


def encode(record: Any) -> str:
    """Write a record as one line of JSON."""
    return str(_adapter(type(record)).dump_json(record).decode())


def decode(kind: type[R], text: str | bytes) -> R:
    """Read a record back; a text that does not fit raises ConfigurationError with every mismatch."""
    from pydantic import ValidationError

    try:
        record: R = _adapter(kind).validate_json(text)
    except ValidationError as fault:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'record'}: {e['msg']}" for e in fault.errors()]
        raise ConfigurationError.of_all(f"not a {kind.__name__}", faults) from fault
    return record
