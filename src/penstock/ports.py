# SPDX-License-Identifier: Apache-2.0
"""What the loop asks of the outside. Each protocol lists what the far side promises."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from penstock.latency_map import NodeDistances
from penstock.records import (
    Action,
    Allocation,
    Decision,
    ExecutorRoom,
    ExecutorSize,
    LatencySummary,
    Limits,
    Objective,
    Observation,
    Outcome,
    PlanRequest,
    Prediction,
    SourceProgress,
    StageTime,
    Telemetry,
    ThroughputPrediction,
    ThroughputSample,
)
from penstock.steering import AuditEntry
from penstock.topology import Path, Topology

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


@runtime_checkable
class SubscribableSource(MetricSource, Protocol):
    """A source that measures more where somebody wants it.

    Promises: `subscribe` returns at once; what was wanted before no longer counts; metrics that cannot be had
    here are left out. They come in `Telemetry.metrics`.
    """

    def subscribe(self, metrics: Collection[str], every_seconds: float) -> None:
        """Measure these metrics so often from now on."""
        ...


class Actuator(Protocol):
    """Where an operator's allocation is changed.

    Promises: `request` returns at once, the far side gets there later (eventually consistent); the same
    `request_id` twice is one request; a new request replaces the last; errors are ActuationError. What cannot be done
    here (another executor size, a choice of nodes) is refused with an ActuationError that names it. `release` puts
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


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The process that an operator runs in, as an actuator that restarts it knows it.

    Attributes
    ----------
    size
        What its executors are made of; None is the operator's own size.
    stopped
        How the process before it was stopped, such as ``at a batch border``; empty: there was none.
    fault
        Why the restart that was last asked for did not come about; None: it did, or is still under way.
    """

    size: ExecutorSize | None = None
    stopped: str = ""
    fault: str | None = None


@runtime_checkable
class RestartingActuator(Actuator, Protocol):
    """An actuator that can give an operator executors of another size, by a restart from its checkpoint.

    Promises: a request with another size returns at once; the operator ends after the running batch, and is started
    with that size and asked for the rest of the allocation. Where that fails it gets the size before again, and
    `process` says why.
    """

    @property
    def process(self) -> ProcessState:
        """The process that runs now."""
        ...


@runtime_checkable
class AnsweringActuator(Actuator, Protocol):
    """An actuator that waits for the far side only so long.

    Promises: `request` returns within a second or so, also without an answer. Until that is there, `outstanding` says
    so, and another request is refused.
    """

    @property
    def outstanding(self) -> str | None:
        """Why nothing can be asked for now, in one line; None: there is an answer to everything."""
        ...

    def take_answer(self) -> bool:
        """Whether the last request was answered. Raises, once, the ActuationError that it was answered with."""
        ...


@dataclass(frozen=True, slots=True)
class Census:
    """The registered executors: those that take tasks, and those on their way out."""

    active: tuple[str, ...]
    leaving: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """On which nodes executors can be had.

    Attributes
    ----------
    names
        Those that may be chosen; empty: any that the cluster has.
    why_none
        Why none can be chosen, in one line; None: they can.
    """

    names: tuple[str, ...] = ()
    why_none: str | None = None


class Cluster(Protocol):
    """Where one running application has its executors from: what can be had, on which nodes, and for what.

    Promises: what can be had (`refusal`, `room`, `nodes`, `why_no_shares`) is known before anybody plans with it, and
    is answered from what was last heard. What these say no to is refused with an ActuationRejectedError and that
    reason, and nothing changes. What is asked for comes later, or not at all. The number asked for is a limit, not an
    order to stop: raising it starts executors, lowering it ends none, and one that is lost while fewer run is
    replaced. `drain` and `kill` leave it as it is. Failures are ActuationErrors; of CPU shares also OSErrors.
    """

    # --- what can be had

    def refusal(self) -> str | None:
        """Return why executors cannot be scaled here. None: they can."""
        ...

    def room(self) -> ExecutorRoom | None:
        """Return how many executors can be had now, and why not more. None: that is not known."""
        ...

    @property
    def nodes(self) -> NodeChoice:
        """On which nodes executors can be had, or why none can be chosen."""
        ...

    @property
    def why_no_shares(self) -> str | None:
        """Why executors cannot be held to a CPU share, in one line. None: they can."""
        ...

    @property
    def can_drain(self) -> bool:
        """Whether executors can be drained. Otherwise they are killed."""
        ...

    # --- what there is

    def census(self) -> Census:
        """Return the registered executors."""
        ...

    def asked(self) -> int | None:
        """Return how many executors were asked for, by whomever. None: that is not known."""
        ...

    # --- what is wanted

    def ask(self, executors: int) -> None:
        """Ask for so many executors in all, those that drain included."""
        ...

    def choose(self, nodes: Sequence[str]) -> None:
        """Have executors that are started from now on come to these nodes, as far as the cluster can be told."""
        ...

    def drain(self, executor_id: str, reason: str) -> None:
        """Take an executor out of scheduling, and end it when its blocks have moved."""
        ...

    def kill(self, executor_ids: Sequence[str]) -> None:
        """End executors now."""
        ...

    def resize(self, allocation: Allocation | None, *, is_starting: bool = False) -> None:
        """Hold the executors to the allocation's CPU share; None: lift the cap, and stay ready.

        While executors of the allocation start (`is_starting`) there is room for them: a JVM compiles at first.
        """
        ...

    def share_refusal(self) -> str | None:
        """Return why the share that was last asked for will not come about. None: it has, or still may."""
        ...

    def release(self) -> None:
        """Lift the cap, and leave nothing behind. May be called twice."""
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
        """Whether every time in the newest answer was that of its record."""
        ...


@runtime_checkable
class TimedArrivalTimes(ArrivalTimes, Protocol):
    """Arrival times that are known as records come, before any batch has carried them."""

    def between(self, start: float, end: float) -> FloatArray | None:
        """Those after `start` and up to `end`, in order; None where some of them are not known."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class DoneRecords:
    """Records that were done: when each had arrived, and its latency in seconds."""

    arrived: FloatArray
    seconds: FloatArray

    @classmethod
    def joined(cls, parts: Sequence[DoneRecords]) -> DoneRecords | None:
        """All of several; None: there are none."""
        if not parts:
            return None
        return cls(np.concatenate([part.arrived for part in parts]), np.concatenate([part.seconds for part in parts]))


class RecordLatencies(Protocol):
    """The latency of an operator's records, measured where they come out, not by its batches.

    Promises: an answer comes at once; None means that no record came out, never that its latency was zero.
    """

    def since_last(self) -> DoneRecords | None:
        """The records that came out since this was last asked; of very many, the newest."""
        ...

    def window(self, now: float) -> LatencySummary | None:
        """Latency of the records that came out lately."""
        ...

    def whole(self) -> LatencySummary | None:
        """Latency of all records that came out."""
        ...


@runtime_checkable
class LastingLatencies(RecordLatencies, Protocol):
    """Latencies whose count another controller of the same run can go on from."""

    def plain(self) -> dict[str, Any]:
        """What was counted, as plain data."""
        ...

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `plain` gave; raises ValueError, KeyError or TypeError where it did not."""
        ...


class BatchLineage(Protocol):
    """Which batches of the operator above a batch took its records from."""

    def upstream_batches(self, source: SourceProgress) -> list[int] | None:
        """Ids of the batches above, rising; None where that is not known."""
        ...


@runtime_checkable
class PartialLineage(BatchLineage, Protocol):
    """One whose batches may take part of a batch above: what it sends can be read while it runs."""

    def part_read(self, source: SourceProgress, since: float, until: float) -> float | None:
        """How much a batch took of all that was sent after `since` and up to `until`, 0 to 1; None: not known."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class Look:
    """One look at one operator, as a policy that learns gets it.

    Attributes
    ----------
    telemetry, observation
        What came in, and the monitor's picture of it.
    arrivals
        When records arrived at the operator, as far as this look has made it known: runs of rising times that follow
        each other. None stands for a gap, after which times do not join those before.
    is_exact
        Whether these times were known; False: some were interpolated between batches.
    done
        The records that this look found done, from their arrival at the operator; None: there were none, or when they
        arrived is not known.
    path_done
        The same from their first arrival at the pipeline; None also where that is not followed.
    """

    telemetry: Telemetry
    observation: Observation
    arrivals: tuple[FloatArray | None, ...] = ()
    is_exact: bool = True
    done: DoneRecords | None = None
    path_done: DoneRecords | None = None

    @property
    def operator(self) -> str:
        """Whose look it is."""
        return self.telemetry.operator


class Policy(Protocol):
    """Decides what the operators of a pipeline should have; it is asked about each of them in turn.

    Promises: the same request gives the same decision and has no side effect; `request.at` is the only clock; a
    decision stays within `request.limits`; where data are missing it holds.
    """

    @property
    def name(self) -> str:
        """The policy's name in settings and decisions."""
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
    """A policy that learns from everything the loop sees.

    Promises: `watch` returns at once and does long work elsewhere; given the same looks, `plan` is as pure as any
    policy's; `close` ends what `watch` has started and may be called twice.
    """

    def watch(self, look: Look) -> tuple[str, ...]:
        """Take in one look at one operator; returns what the user should know about the policy itself."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


@runtime_checkable
class LookingBackPolicy(Policy, Protocol):
    """A policy that needs more of the past than the loop keeps for everybody.

    Promises: both times stay as they are while the policy decides.
    """

    @property
    def history_seconds(self) -> float:
        """How far back `PlanRequest.history` has to reach."""
        ...

    @property
    def changes_seconds(self) -> float:
        """How far back `PlanRequest.recent` has to reach."""
        ...


@runtime_checkable
class SubscribingPolicy(Policy, Protocol):
    """A policy that reads metrics which are only measured where somebody wants them.

    Promises: the names stay as they are while the policy decides. They come in `Observation.metrics`.
    """

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics that it reads, by name."""
        ...


Worker = Literal["process", "thread", "here"]
"""Where long analyses run: in a process or thread of their own, or at once (under a virtual clock)."""


@dataclass(frozen=True, eq=False, slots=True)
class AnalysisMemo:
    """What analyses have found, kept for other runs on the same arrivals.

    Attributes
    ----------
    of_arrivals
        Answers that depend on the arrivals alone: good for every run on the same trace.
    of_pipeline
        Answers that depend on demands and objectives too: good for runs that have the same ones.
    """

    of_arrivals: MutableMapping[Any, Any] = field(default_factory=dict)
    of_pipeline: MutableMapping[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class AnalysisPlace:
    """Where a policy's long analyses run.

    Attributes
    ----------
    worker
        Who does them.
    delay_seconds
        With ``here``: how long after its start an answer is in force, as an analysis really takes.
    memo
        Keeps answers for other runs that will ask the same; None: nothing is kept.
    """

    worker: Worker = "process"
    delay_seconds: float = 0.0
    memo: AnalysisMemo | None = None


@dataclass(frozen=True, eq=False, slots=True)
class OperatorSite:
    """One operator as a policy is introduced to it.

    Attributes
    ----------
    limits
        What it may have.
    trigger_seconds, cap
        Its trigger interval and the most records of a batch; None: there is no such bound.
    is_real_time
        Whether its records go through one by one, in Spark's real-time mode.
    tasks
        How many tasks read its records: one for each partition of its topic; in real-time mode all run at once. None:
        that is not known.
    slots
        Tasks that an executor of its own size runs side by side.
    demand
        What its records ask of it (see `penstock.performance.demand`), where that is declared; None: it is learnt.
    selectivity
        Records out for one in, where that is declared; None: it is learnt.
    query
        Stands for the query that it runs: what was learnt about another one says nothing about it. Empty: not known.
    """

    limits: Limits
    trigger_seconds: float | None = None
    cap: int | None = None
    is_real_time: bool = False
    tasks: int | None = None
    slots: int = 1
    demand: object | None = None
    selectivity: float | None = None
    query: str = ""

    def fills_cap(self, rows: int) -> bool:
        """Whether a batch of so many records took all that its cap lets it take: more waited.

        Kafka's source shares a cap out over partitions by what waits in each, and rounds down, so that a full batch may
        lack up to a record for each of them.

        Examples
        --------
        >>> site = OperatorSite(Limits(1, 2), cap=1000, tasks=4)
        >>> site.fills_cap(997), site.fills_cap(996), OperatorSite(Limits(1, 2)).fills_cap(1000)
        (True, False, False)
        """
        if self.cap is None:
            return False
        return rows > max(self.cap - (self.tasks or 1), self.cap // 2)


class Notebook(Protocol):
    """Texts that a policy keeps for those that come after it, in this run or in later ones.

    Promises: what was written is read again, by its name, until it is written anew or everything is forgotten; nothing
    is raised where a disk fails.
    """

    def read(self, name: str) -> str | None:
        """The text under a name; None: there is none."""
        ...

    def write(self, name: str, text: str) -> None:
        """Keep a text under a name."""
        ...


@dataclass(frozen=True, eq=False, slots=True)
class PolicyContext:
    """The pipeline that a policy is built for.

    Attributes
    ----------
    topology
        Who reads from whom.
    operators
        Each operator's site.
    objectives
        What is wanted of each path; an objective without a statistic is to keep up.
    analysis
        Where long analyses run.
    interval_seconds
        How often the loop looks at each operator.
    round_trips
        How far the nodes are apart that executors may be placed on; None: nobody knows.
    notebook
        What policies before have written down, and where to write; None: nothing is kept.
    """

    topology: Topology
    operators: Mapping[str, OperatorSite]
    objectives: Mapping[Path, Objective]
    analysis: AnalysisPlace = AnalysisPlace()
    interval_seconds: float = 1.0
    round_trips: NodeDistances | None = None
    notebook: Notebook | None = None


class Guard(Protocol):
    """A named part that may change a decision, and says what it changed."""

    @property
    def name(self) -> str:
        """The guard's name in a decision's amendments."""
        ...

    def check(self, decision: Decision, request: PlanRequest) -> Decision:
        """The decision as it may stand."""
        ...


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

    def predict(self, allocations: Mapping[str, Allocation]) -> tuple[Prediction, ...]:
        """The predictions in the order of `paths`."""
        ...


@runtime_checkable
class NarrowedPathLatency(PathLatency, Protocol):
    """A `PathLatency` that leaves out models of the workload which have not been the worst so far.

    Promises: predictions only rise when it is widened; where widening changes nothing, they are those of all models.
    """

    def widen(self, allocations: Mapping[str, Allocation]) -> bool:
        """Look at all models under these allocations; True where predictions may be higher from now on."""
        ...


class RestingPathLatency(PathLatency, Protocol):
    """A `PathLatency` that keeps much in memory, and can do without."""

    def rest(self) -> None:
        """Let go of what takes much memory until something is asked again; predictions stay the same."""
        ...


class ThroughputModel(Protocol):
    """Predicts the maximum sustainable throughput of an operator for any allocation.

    Promises: a model is never changed, `fit` and `update` give a new one; the same samples in the same order give the
    same model; a prediction is finite and not negative, `low <= records_per_second <= high`, and an interval of a
    larger coverage is never narrower; more executors or a larger share never make a prediction smaller, since a
    planner would not take what costs more and does less (flat after the peak). `fit` raises NotReadyError
    where there are fewer samples or sizes than the model needs, and names how many.
    """

    @property
    def name(self) -> str:
        """The model's name in reports and settings."""
        ...

    @property
    def parameters(self) -> Mapping[str, float]:
        """What was fitted, by name; empty before the first fit."""
        ...

    def fit(self, samples: Sequence[ThroughputSample]) -> ThroughputModel:
        """A model of this kind, trained on these samples alone."""
        ...

    def update(self, sample: ThroughputSample) -> ThroughputModel:
        """The model with one more sample."""
        ...

    def predict(self, allocation: Allocation, coverage: float = 0.9) -> ThroughputPrediction:
        """What the allocation sustains, with an interval for a new measurement."""
        ...


@dataclass(frozen=True, slots=True)
class Lease:
    """Who has something for a time.

    Attributes
    ----------
    holder
        Who.
    fence
        Rises with each new tenure, also of the same holder: what carries a smaller number comes from a tenure before.
    seconds_left
        How long it still holds when it was read.
    """

    holder: str
    fence: int
    seconds_left: float


class LeaseStore(Protocol):
    """Where several processes agree on who leads.

    Promises: at every instant a lease has at most one holder; time is measured by one clock for all who share the
    store, which nobody sets; fencing numbers only rise, also when a lease was released; a new store begins above the
    numbers of one that was deleted.
    """

    def take_lease(self, name: str, holder: str, seconds: float) -> Lease | None:
        """Take a lease that is free or one's own, and hold it for so long from now; None: somebody else has it."""
        ...

    def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back; nothing happens where somebody else has it."""
        ...

    def lease(self, name: str) -> Lease | None:
        """Who has a lease now; None: nobody."""
        ...


class KnowledgeStore(Protocol):
    """What is remembered.

    Promises: what was added before a crash is there after it (stores on disk); reads give the newest `limit`
    records at or after `since` and, where it is given, before `before`, oldest first; histories are bounded, the oldest
    go first; safe to use from several threads.
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

    def add_audit(self, entry: AuditEntry) -> None:
        """Remember an order, and the state that it led to."""
        ...

    def observations(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[Observation]:
        """The newest observations, oldest first."""
        ...

    def decisions(
        self,
        operator: str | None = None,
        *,
        since: float = 0.0,
        before: float = math.inf,
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

    def audit(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[AuditEntry]:
        """The newest orders, oldest first; of an operator also those for all operators."""
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
