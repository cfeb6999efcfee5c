# SPDX-License-Identifier: Apache-2.0
"""A run as its knowledge store remembers it, also while it is still going."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from penstock.account import OperatorAccount, PathOutcome, RunSummary
from penstock.evaluation.run_events import Restart, exactness_changes, restarts
from penstock.evaluation.violations import broken_time_share
from penstock.knowledge.run_notes import RunNote
from penstock.loop.cycle import CycleReport
from penstock.money import total_cost
from penstock.monitor.exactness import ExactnessChange
from penstock.records import (
    Action,
    Decision,
    Limits,
    Objective,
    Observation,
    Outcome,
    OutcomeStatus,
    RunLatency,
    StageTime,
)
from penstock.settings import PathBound, kept_cost_bases, objectives_of, objectives_text, tightest
from penstock.settings.plain import plain_inputs
from penstock.settings.real_time import REALTIME
from penstock.topology import ARRIVALS, Topology
from penstock.topology import Path as OperatorPath
from penstock.units import moment, without_numbers

RoundTrip = tuple[str, str, float]
"""From a node to another, in seconds."""


@dataclass(frozen=True, slots=True)
class StageFigures:
    """How long one stage of the loop took, over all cycles."""

    stage: str
    cycles: int
    mean_seconds: float
    p95_seconds: float
    max_seconds: float


@dataclass(frozen=True, slots=True)
class MissingNote:
    """Something that could not be measured, and how often."""

    operator: str
    text: str
    cycles: int
    first_at: float
    last_at: float


@dataclass(frozen=True, slots=True)
class KeptLatency:
    """An operator's latency since the start, as it was kept last while the run went on."""

    operator: RunLatency
    path: RunLatency | None
    """From the first arrival at the pipeline; None where that is not followed."""


@dataclass(frozen=True)
class RunHistory:
    """Everything a store remembers of one run, oldest first."""

    observations: Mapping[str, Sequence[Observation]]
    decisions: Sequence[Decision]
    actions: Sequence[Action]
    outcomes: Sequence[Outcome]
    stage_times: Sequence[StageTime]
    settings: Mapping[str, Any] | None
    final_summary: Mapping[str, Any] | None
    latencies: Mapping[str, KeptLatency] = field(default_factory=dict)
    round_trips: Sequence[RoundTrip] = ()
    """Between nodes, as measured when the run began."""
    notes: Sequence[RunNote] = ()
    """What was said besides decisions: deaths, faults, objectives out of reach."""

    @property
    def is_ended(self) -> bool:
        """Whether the run came to its end and said how it went; False: still going, or cut off."""
        return self.final_summary is not None

    @property
    def name(self) -> str:
        """The pipeline's name."""
        for source in (self.final_summary, self.settings):
            if source is not None and source.get("name"):
                return str(source["name"])
        return "run"

    @cached_property
    def operator_settings(self) -> list[dict[str, Any]]:
        """Those that name an operator. A store may be damaged, and its decisions can be read all the same."""
        found = (self.settings or {}).get("operators")
        return [one for one in found if isinstance(one, dict) and "name" in one] if isinstance(found, list) else []

    @cached_property
    def operators(self) -> list[str]:
        """The operators' names, in the pipeline's order."""
        named = [str(operator["name"]) for operator in self.operator_settings]
        seen = [*self.observations, *(d.operator for d in self.decisions)]
        return list(dict.fromkeys([*(n for n in named if n in seen), *seen]))

    @cached_property
    def objectives(self) -> dict[OperatorPath, Objective]:
        """What was wanted of every path."""
        settings = self.settings or {}
        inputs: dict[str, Sequence[str]] = {
            str(o["name"]): [source for source, _ in plain_inputs(o) or ()] for o in self.operator_settings
        } or dict.fromkeys(self.operators, (ARRIVALS,))
        paths = Topology.from_inputs(inputs).paths if inputs else ()
        bounds = [PathBound.model_validate(bound) for bound in settings.get("objectives") or ()]
        known = objectives_of(paths, settings.get("objective") or {}, bounds)
        return {path: known.get(path, Objective()) for path in paths}

    def objective_of(self, operator: str) -> Objective:
        """What an operator alone is held against."""
        return tightest(self.objectives, operator)

    @property
    def objective_text(self) -> str:
        """What was wanted, for people."""
        return objectives_text(self.objectives)

    @cached_property
    def started_at(self) -> float | None:
        """When the first record of the run was made."""
        firsts = [o[0].at for o in self.observations.values() if o] + [d.at for d in self.decisions[:1]]
        return min(firsts, default=None)

    @cached_property
    def ended_at(self) -> float | None:
        """When the newest record of the run was made."""
        lasts = [o[-1].at for o in self.observations.values() if o] + [d.at for d in self.decisions[-1:]]
        return max(lasts, default=None)

    def since_start(self, at: float) -> float:
        """Seconds from the run's first record to `at`."""
        return at - (self.started_at if self.started_at is not None else at)

    def moment(self, at: float) -> str:
        """An instant as every page, command and log shows it: local time, and time since the run's first record."""
        return moment(at, self.started_at)

    @cached_property
    def exactness_changes(self) -> list[ExactnessChange]:
        """Where latency stopped being exact, and where it was exact again."""
        return exactness_changes(self.observations)

    @cached_property
    def restarts(self) -> list[Restart]:
        """Where an operator's query was started anew."""
        return restarts(self.observations, self.changes)

    def steady_from(self, operator: str) -> float | None:
        """When an operator's start-up was over; None: not yet, or that is not known."""
        kept = self.latencies.get(operator)
        return None if kept is None else kept.operator.steady_from

    @cached_property
    def changes(self) -> list[Decision]:
        """The decisions that wanted something changed."""
        return [d for d in self.decisions if d.is_change]

    def thresholds(self, operator: str) -> tuple[float | None, float | None]:
        """The utilisation band (lower, upper) the policy last used for an operator; None where it has none."""
        for decision in reversed(self.decisions):
            if decision.operator == operator:
                return plain_number(decision.evidence.get("lower")), plain_number(decision.evidence.get("upper"))
        return None, None

    def outcome_of(self, decision: Decision) -> Outcome | None:
        """The last word on the action that carried out a decision."""
        return self._outcome_by_decision.get(decision.decision_id)

    def draining_since(self, outcome: Outcome) -> float | None:
        """When the executors began to go for which a change waited, or waits; None: it waited for none."""
        return self._draining_since.get(outcome.request_id)

    @cached_property
    def _draining_since(self) -> dict[str, float]:
        return {o.request_id: o.at for o in self.outcomes if o.status is OutcomeStatus.DRAINING}

    @cached_property
    def _outcome_by_decision(self) -> dict[str, Outcome]:
        decided_by = {a.request_id: a.decision_id for a in self.actions if a.decision_id is not None}
        return {decided_by[o.request_id]: o for o in self.outcomes if o.request_id in decided_by}

    def time_above_objective(
        self, operator: str, *, since: float = 0.0, objective: Objective | None = None
    ) -> float | None:
        """The share of the time in which latency was above the objective, of that in which it is known; None: never.

        A query that has stalled is above it too: see `violations.are_broken`. `objective`: in place of the run's own.
        """
        is_real_time = any(o["name"] == operator and o.get("trigger") == REALTIME for o in self.operator_settings)
        return broken_time_share(
            self.observations.get(operator, ()),
            objective or self.objective_of(operator),
            since=since,
            counts_waiting=not is_real_time,
        )

    @cached_property
    def stages(self) -> list[StageFigures]:
        """The loop's own times per stage, in the order of the cycle."""
        by_stage: dict[str, list[float]] = {}
        for time in self.stage_times:
            by_stage.setdefault(time.stage, []).append(time.seconds)
        return [
            StageFigures(stage, len(t), math.fsum(t) / len(t), _nearest_rank(t, 0.95), max(t))
            for stage, t in by_stage.items()
        ]

    @cached_property
    def missing_notes(self) -> list[MissingNote]:
        """What could not be measured, most frequent first."""
        # Notes that differ in a number alone ("9 s left", "8 s left") are one note.
        spans: dict[tuple[str, str], list[tuple[float, str]]] = {}
        for operator, observations in self.observations.items():
            for seen in observations:
                for text in seen.missing:
                    spans.setdefault((operator, without_numbers(text)), []).append((seen.at, text))
        notes = [
            MissingNote(
                o, kind if len({t for _, t in found}) > 1 else found[0][1], len(found), found[0][0], found[-1][0]
            )
            for (o, kind), found in spans.items()
        ]
        return sorted(notes, key=lambda note: (-note.cycles, note.first_at))

    def hold_reasons(self, operator: str | None = None) -> list[tuple[str, int]]:
        """Why nothing was changed, and how often, most frequent first; of one operator or of all.

        Reasons that differ in a number alone are one, shown as it was given last.
        """
        counts: Counter[str] = Counter()
        last: dict[str, str] = {}
        for decision in self.decisions:
            if decision.is_change or operator not in (None, decision.operator):
                continue
            # Where a guard held a change back, its word counts and not the policy's.
            held = next((f"{a.guard}: {a.reason}" for a in reversed(decision.amended_by)), decision.reason)
            kind = without_numbers(held)
            counts[kind] += 1
            last[kind] = held
        return [(last[kind], count) for kind, count in counts.most_common()]

    def qualities(self, operator: str) -> dict[str, float]:
        """The share of the observations of each quality."""
        counts = Counter(str(o.quality) for o in self.observations.get(operator, ()))
        return {quality: count / counts.total() for quality, count in counts.most_common()}

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """The run's own summary, or (while it goes on) as much of one as the store gives."""
        if self.final_summary is not None:
            return self.final_summary
        return self._summary_so_far().to_json()

    def _summary_so_far(self) -> RunSummary:
        executor = share = top = 0.0
        bases, costs = kept_cost_bases(self.settings or {}), []
        for operator, observations in self.observations.items():
            account = OperatorAccount()
            for seen in observations:
                account.add(CycleReport(seen))
            executor += account.executor_seconds
            share += account.share_seconds
            top += account.observed_seconds * self._top_capacity(operator)
            costs.append(account.cost(bases.get(operator)))
        first = self.observations.get(self.operators[0], ()) if self.operators else ()
        newest = first[-1] if first else None
        return RunSummary(
            name=self.name, folder="", mode=str((self.settings or {}).get("mode", "act")),
            started_at=self.started_at or 0.0, ended_at=self.ended_at or 0.0,
            paths=tuple(PathOutcome.of(p, objective, self._latency_of(p)) for p, objective in self.objectives.items()),
            records_due=None if newest is None else newest.records_arrived, records_read=None,
            records_done=None if newest is None else newest.records_done,
            executor_seconds=executor, capacity_seconds=share, static_capacity_seconds=top,
            decisions=tuple(self.changes), cost=total_cost(costs),
        )  # fmt: skip

    def _latency_of(self, path: OperatorPath) -> RunLatency | None:
        """As it was kept last; not known where it was not kept. The mean of windows would be something else."""
        kept = self.latencies.get(path[-1])
        if kept is None:
            return None
        return kept.operator if kept.path is None and len(path) == 1 else kept.path

    def executors_of(self, operator: str) -> tuple[int, int]:
        """Fewest and most executors that an operator may have had; where that was not kept, any number."""
        for settings in self.operator_settings:
            bounds = settings.get("executors")
            if settings["name"] == operator and isinstance(bounds, (list, tuple)) and len(bounds) == 2:
                return int(bounds[0]), int(bounds[1])
        return 1, 1_000_000

    def _top_capacity(self, operator: str) -> float:
        for settings in self.operator_settings:
            if settings["name"] == operator:
                executors, shares = settings.get("executors", (1, 1)), settings.get("cpu_shares") or (1.0,)
                return Limits(executors[0], executors[1], tuple(shares)).top.capacity
        return 0.0


def _nearest_rank(values: Sequence[float], level: float) -> float:
    return sorted(values)[max(0, math.ceil(level * len(values)) - 1)]


def plain_number(value: object) -> float | None:
    """A kept value, if it is a number."""
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
