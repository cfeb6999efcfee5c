# SPDX-License-Identifier: Apache-2.0
"""What MEAD knows about an operator: its demand, declared or learnt, and what was planned for it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from penstock.errors import ConfigurationError, NotReadyError
from penstock.monitor.steady import SteadyBatches
from penstock.performance.cpu_demand_learning import CpuDemandLearner, LearntCpuDemand
from penstock.performance.demand import BatchDemand, Demand, RecordDemand
from penstock.performance.demand_learning import BatchDemandLearner, LearntDemand
from penstock.plan.ladder import ladder
from penstock.policies.mead.kept_demand import as_text, cpu_as_text, cpu_from_text, cpu_note_name, from_text, note_name
from penstock.ports import Look, Notebook, OperatorSite
from penstock.records import Allocation, ExecutorRoom, Limits, Observation, Quality, Telemetry

_WARM_UP_BATCHES = 8
"""First batches that do not count: classes are loaded and code is compiled."""
_BATCHES_BETWEEN_PROBES = 5
"""Batches that are looked at on one level before the next one down is tried."""
_HALF_LIFE_WINDOWS = 8.0
"""Windows after which one counts half: at first a record was seen to cost four times what it cost later."""
_FALLS_BEHIND = 0.95
"""Utilisation from which arrivals may be more than what is served."""
_REMEMBERED_SECONDS = 300.0
"""How long a level is not gone back to at which records were late."""

Evidence = dict[str, float | int | str | None]


class OperatorKnowledge(ABC):
    """What is known about one operator, and what was planned for it.

    Parameters
    ----------
    name, site
        Which operator, and how it was introduced.
    limits
        What is planned within.
    """

    def __init__(self, name: str, site: OperatorSite, limits: Limits) -> None:
        self.name, self.site, self.limits = name, site, limits
        self.rows = 0
        self.backlog: int | None = None
        self.room: ExecutorRoom | None = None
        """What the cluster can give, as of the last look."""
        self.can_share = True
        """Whether its executors can be held to a CPU share, as of the last look."""
        self.why_not = "no batch was seen yet"
        """Why the demand is not known."""
        self.meant: Allocation | None = None
        """What it is meant to have, as of the last look or request."""
        self.planned: Allocation | None = None
        self.planned_because = ""
        self.is_raised = False
        """Whether it was given more than was planned, because records waited."""
        self.handed_at = -math.inf
        """When the analysis was started whose plan was last handed on."""

    def limits_for(self, has: Allocation) -> Limits:
        """What is planned within now, where it has so much."""
        return self.limits.within(self.room, has.executors, can_share=self.can_share)

    def watch(self, look: Look) -> None:
        """Learn from one look."""
        backlog = look.observation.backlog_records
        # That of a real-time query may be a minute old, its measured latency is of now.
        self.backlog = None if self.site.is_real_time and backlog else backlog
        self.room = look.telemetry.room
        self.can_share = look.telemetry.why_no_shares is None
        # At every look, not only when asked: a plan made from what it was meant to have a change ago changes nothing.
        self.meant = look.observation.cluster.planned or self.meant
        self.rows += sum(batch.rows for batch in look.telemetry.batches)
        try:
            self._learn(look.telemetry, look.observation)
        except NotReadyError as fault:
            # What was once known stays known, though what came since has all been alike.
            self.why_not = str(fault)

    @abstractmethod
    def _learn(self, telemetry: Telemetry, observation: Observation) -> None: ...

    @property
    def selectivity(self) -> float | None:
        """Records out for one in, where that is declared."""
        return self.site.selectivity

    @property
    @abstractmethod
    def demand(self) -> Demand | None:
        """What its records ask of it; None: not known yet."""

    @property
    def allowed_demand(self) -> Demand | None:
        """The most that its records may ask of it, where the demand itself does not show; None: not known either."""
        return None

    @property
    @abstractmethod
    def per_record_seconds(self) -> float | None:
        """A record's time on one executor at full share."""

    @property
    @abstractmethod
    def seen(self) -> Allocation | None:
        """What it is seen to have."""

    @property
    @abstractmethod
    def is_worth_probing(self) -> bool:
        """Whether another level would show what this one does not."""

    @abstractmethod
    def waiting_seconds(self, has: Allocation) -> float | None:
        """How long it would take for the records that wait; None: not known."""

    @abstractmethod
    def evidence(self) -> Evidence:
        """What was learnt, for a decision."""

    def begin_with(self, notebook: Notebook) -> None:  # noqa: B027
        """Start with what an earlier run has learnt, where that is of use."""

    def write_down(self, notebook: Notebook) -> None:  # noqa: B027
        """Keep what was learnt for a later run, where that is of use."""

    def lifted(self, target: Allocation, at: float) -> Allocation:  # noqa: ARG002
        """The level itself, or the next above those at which records were late not long ago."""
        return target


class BatchKnowledge(OperatorKnowledge):
    """An operator in micro-batches: f and c of their times f + c n."""

    def __init__(self, name: str, site: OperatorSite) -> None:
        super().__init__(name, site, site.limits)
        self._learner = BatchDemandLearner(
            skip_first=_WARM_UP_BATCHES,
            cap=site.cap,
            trigger_seconds=site.trigger_seconds,
        )
        self._steady = SteadyBatches()
        self._known: LearntDemand | None = None
        self._is_stale = False

    def _learn(self, telemetry: Telemetry, observation: Observation) -> None:
        for batch, had in self._steady.take(telemetry.at, observation.cluster.observed, telemetry.batches):
            self._learner.observe(batch.rows, batch.duration_seconds, had, batch.ended_at)
            self._is_stale = True

    @property
    def _learnt(self) -> LearntDemand | None:
        """What is known; worked out when it is asked for, which is less often than batches come."""
        if self._is_stale:
            self._is_stale = False
            try:
                self._known = self._learner.learnt()
            except NotReadyError as fault:
                # What was once known stays known, though what came since has all been alike.
                self.why_not = str(fault)
        return self._known

    def begin_with(self, notebook: Notebook) -> None:
        """Start with the batches of an earlier run of the same query."""
        self._learner.begin_with(from_text(self.site.query, notebook.read(note_name(self.name))))
        self._is_stale = self._learner.has_enough_batches

    def write_down(self, notebook: Notebook) -> None:
        """Keep the batches that are remembered."""
        if self._learner.has_enough_batches:
            notebook.write(note_name(self.name), as_text(self.site.query, self._learner.batches))

    @property
    def demand(self) -> Demand | None:
        """That of its batches."""
        return None if self._learnt is None else self._learnt.demand

    @property
    def allowed_demand(self) -> Demand | None:
        """What its batches allow, whatever part of their time is fixed."""
        bounded = self._learner.bounded()
        return None if bounded is None else bounded.demand

    @property
    def per_record_seconds(self) -> float | None:
        """c."""
        return None if self._learnt is None else self._learnt.demand.per_record_seconds

    @property
    def seen(self) -> Allocation | None:
        """What it is seen to have."""
        return self._steady.allocation

    @property
    def is_worth_probing(self) -> bool:
        """Whether there were batches enough, all alike."""
        is_unclear = self._learnt is None and self._learner.has_enough_batches
        return is_unclear and self._steady.batches_since >= _BATCHES_BETWEEN_PROBES

    def waiting_seconds(self, has: Allocation) -> float | None:
        """The backlog's time."""
        each = self.per_record_seconds
        return None if self.backlog is None or each is None else self.backlog * each / has.capacity

    def evidence(self) -> Evidence:
        """Backlog, f and c."""
        learnt = self._learnt
        return {
            "backlog_records": self.backlog,
            "fixed_seconds": None if learnt is None else learnt.demand.fixed_seconds,
            "fixed_cpu_seconds": None if learnt is None else learnt.demand.fixed_cpu_seconds,
            "per_record_seconds": self.per_record_seconds,
            "batch_time_error": None if learnt is None else learnt.error,
            "batch_time_coverage": None if learnt is None else learnt.coverage,
        }


class RecordKnowledge(OperatorKnowledge):
    """An operator in real-time mode: CPU seconds per record, learnt from windows of CPU use and arrivals.

    It runs as many tasks as its topic has partitions, on however many executors: more than its fewest, which have a
    core for each, would stand by. So its executors are planned to be its fewest, and only their CPU share is chosen.

    The queue of records for CPU is all that the model knows; not pauses between batches, garbage, or the broker. What
    it leaves out is measured: a level at which records were late is not gone back to for five minutes.
    """

    def __init__(self, name: str, site: OperatorSite) -> None:
        fewest = site.limits.min_executors
        super().__init__(name, site, Limits(fewest, fewest, site.limits.cpu_shares))
        self.why_not = "no window of CPU and arrivals was seen yet"
        self._learner = CpuDemandLearner(
            tasks_per_executor=(site.tasks or fewest) / fewest, half_life_windows=_HALF_LIFE_WINDOWS
        )
        self._learnt: LearntCpuDemand | None = None
        self._seen: Allocation | None = None
        self._sampled_at = -math.inf
        self._late_capacity, self._late_until = 0.0, -math.inf

    def _learn(self, telemetry: Telemetry, observation: Observation) -> None:
        at, before, self._seen = telemetry.at, self._seen, observation.cluster.observed
        is_same = before is not None and self._seen is not None and before.executors == self._seen.executors
        if not is_same or self._sampled_at == -math.inf:
            # What starting executors use does not belong to any record.
            # A share changes how fast the work is done, not how much it is.
            self._sampled_at = at
        used, rate, load = (
            observation.cpu_used_cores, observation.arrival_rate_rows_per_second, observation.utilisation
        )  # fmt: skip
        if observation.quality is not Quality.GOOD or 0.0 <= at - self._sampled_at < observation.window_seconds:
            return
        if used is None or load is None:
            if self._learnt is None:
                raise NotReadyError("how much CPU its executors use is not known: that needs control groups")
            return
        if rate is None or load >= _FALLS_BEHIND:
            return
        self._sampled_at = at
        self._learner.observe(used, rate)
        self._learnt = self._learner.learnt()

    def begin_with(self, notebook: Notebook) -> None:
        """Start with the windows of an earlier run of the same query."""
        memory = cpu_from_text(self.site.query, notebook.read(cpu_note_name(self.name)))
        if memory is not None:
            self._learner.begin_with(memory)
            self._learnt = self._learner.learnt()

    def write_down(self, notebook: Notebook) -> None:
        """Keep what the windows have taught."""
        memory = self._learner.memory
        if memory is not None:
            notebook.write(cpu_note_name(self.name), cpu_as_text(self.site.query, memory))

    @property
    def demand(self) -> Demand | None:
        """That of single records."""
        return None if self._learnt is None else self._learnt.demand

    @property
    def per_record_seconds(self) -> float | None:
        """The mean service time."""
        return None if self._learnt is None else self._learnt.demand.service.mean

    @property
    def seen(self) -> Allocation | None:
        """What it is seen to have."""
        return self._seen

    @property
    def is_worth_probing(self) -> bool:
        """Never: CPU per record shows at any level."""
        return False

    def waiting_seconds(self, has: Allocation) -> float | None:  # noqa: ARG002
        """None wait, as far as is known: being late is what is measured."""
        return 0.0

    def evidence(self) -> Evidence:
        """CPU of a record, and how sure that is."""
        learnt = self._learnt
        return {
            "cpu_seconds_per_record": None if learnt is None else learnt.cpu_seconds,
            "cpu_relative_error": None if learnt is None else learnt.demand.spread,
            "cpu_windows": None if learnt is None else learnt.windows,
        }

    def note_late(self, at: float, allocation: Allocation) -> None:
        """Remember a level at which records were late."""
        if self._remembers(at):
            self._late_capacity = max(self._late_capacity, allocation.capacity)
        else:
            self._late_capacity = allocation.capacity
        self._late_until = at + _REMEMBERED_SECONDS

    def _remembers(self, at: float) -> bool:
        # Later than that it cannot have been noted, unless a clock was set back.
        return at < self._late_until <= at + _REMEMBERED_SECONDS

    def lifted(self, target: Allocation, at: float) -> Allocation:
        """The next level above those at which records were late, or the highest."""
        if not self._remembers(at) or target.capacity > self._late_capacity:
            return target
        above = [level for level in ladder(self.limits) if level.capacity > self._late_capacity]
        return above[0] if above else self.limits.top


class DeclaredKnowledge(OperatorKnowledge):
    """An operator whose demand was declared: measured beforehand, as in the paper."""

    def __init__(self, name: str, site: OperatorSite, demand: Demand) -> None:
        super().__init__(name, site, site.limits)
        self._demand = demand
        self._seen: Allocation | None = None

    def _learn(self, telemetry: Telemetry, observation: Observation) -> None:  # noqa: ARG002
        self._seen = observation.cluster.observed

    @property
    def demand(self) -> Demand:
        """As declared."""
        return self._demand

    @property
    def per_record_seconds(self) -> float:
        """The mean work of a record."""
        return self._demand.per_record_seconds if isinstance(self._demand, BatchDemand) else self._demand.service.mean

    @property
    def seen(self) -> Allocation | None:
        """What it is seen to have."""
        return self._seen

    @property
    def is_worth_probing(self) -> bool:
        """Never: nothing is left to learn."""
        return False

    def waiting_seconds(self, has: Allocation) -> float | None:
        """The backlog's time."""
        return None if self.backlog is None else self.backlog * self.per_record_seconds / has.capacity

    def evidence(self) -> Evidence:
        """The backlog, and the work of a record."""
        return {"backlog_records": self.backlog, "per_record_seconds": self.per_record_seconds}


def knowledge_of(name: str, site: OperatorSite) -> OperatorKnowledge:
    """What is known about an operator at the start.

    Raises
    ------
    ConfigurationError
        The declared demand is not one that can be predicted with.
    """
    if site.demand is not None:
        if not isinstance(site.demand, (RecordDemand, BatchDemand)):
            raise ConfigurationError(
                f"demand of {name}: {site.demand!r} is neither a RecordDemand nor a BatchDemand", field="demand"
            )
        return DeclaredKnowledge(name, site, site.demand)
    return RecordKnowledge(name, site) if site.is_real_time else BatchKnowledge(name, site)
