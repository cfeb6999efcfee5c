# SPDX-License-Identifier: Apache-2.0
"""Adds executor sizes to what a policy may choose: the policy decides live, and where that is not enough a restart is.

Most policies choose executors and CPU shares. This one asks such a policy first. Only where it holds, and the operator
has long been short of capacity at the top of its live limits, or calm at their bottom, a restart with the next size is
weighed against the pause that it costs (`restart_weighing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock.errors import ConfigurationError
from penstock.execute.pause import PauseMeter
from penstock.policies.capacity_spells import CapacitySpells
from penstock.policies.restart_weighing import RestartCase, RestartVerdict, RestartWeighing
from penstock.ports import Look, LookingBackPolicy, Policy, WatchingPolicy
from penstock.records import (
    Allocation,
    ClusterState,
    Decision,
    ExecutorSize,
    Limits,
    Objective,
    Observation,
    PlanRequest,
    Quality,
)


@dataclass(frozen=True, slots=True)
class SizedOperator:
    """An operator that may have several executor sizes: its limits, and what is wanted of it."""

    limits: Limits
    objective: Objective


class ResizingPolicy:
    """Lets a policy decide while its operators run, and proposes another executor size where that is not enough.

    The policy inside sees each operator as if the size that it has were the only one.

    Parameters
    ----------
    inner
        Decides about executors and CPU shares.
    operators
        Those that have more than one size, by their names; for all others `inner` decides alone.
    weighing
        When a restart is called for, and whether it repays.
    pause_seconds
        The pause expected of a restart until one was measured.
    """

    def __init__(
        self,
        inner: Policy,
        operators: Mapping[str, SizedOperator],
        weighing: RestartWeighing | None = None,
        *,
        pause_seconds: float = 30.0,
    ) -> None:
        if not 0.0 < pause_seconds < float("inf"):
            raise ConfigurationError(
                f'pause_seconds: {pause_seconds!r} must be a positive time, such as "30s"', field="pause_seconds"
            )
        self._inner = inner
        self._watching = inner if isinstance(inner, WatchingPolicy) else None
        self._weighing = weighing or RestartWeighing()
        self._pause_seconds = pause_seconds
        self._seen = {name: _Seen(operator, self._weighing.after_seconds) for name, operator in operators.items()}

    @property
    def name(self) -> str:
        """That of the policy inside: settings and decisions know it by this name."""
        return self._inner.name

    @property
    def every_seconds(self) -> float:
        """How often the policy inside wants to be asked."""
        return self._inner.every_seconds

    @property
    def history_seconds(self) -> float:
        """How far back the policy inside looks."""
        return self._inner.history_seconds if isinstance(self._inner, LookingBackPolicy) else 0.0

    @property
    def changes_seconds(self) -> float:
        """How far back the policy inside wants to know changes."""
        return self._inner.changes_seconds if isinstance(self._inner, LookingBackPolicy) else 0.0

    @property
    def reads_objective(self) -> bool:
        """Whether the objective plays a part in the decisions of the policy inside."""
        return bool(getattr(self._inner, "reads_objective", True))

    def watch(self, look: Look) -> tuple[str, ...]:
        """Note how long the operator has been where, and what a restart cost; the policy inside learns too."""
        if look.operator in self._seen:
            self._seen[look.operator].add(look)
            look = replace(look, observation=_as_one_size(look.observation))
        return () if self._watching is None else self._watching.watch(look)

    def plan(self, request: PlanRequest) -> Decision:
        """What the policy inside decides; where it holds, another size if that repays."""
        seen = self._seen.get(request.operator)
        if seen is None:
            return self._inner.plan(request)
        live = _with_size(self._inner.plan(_request_as_one_size(request)), request.current)
        if live.is_change or not _is_settled(request):
            return live
        verdict = self._weighing.verdict(self._case(request, seen))
        if not verdict.is_weighed:
            return live
        return self._decision(request, seen, live, verdict)

    def close(self) -> None:
        """End what the policy inside has started."""
        if self._watching is not None:
            self._watching.close()

    def _case(self, request: PlanRequest, seen: _Seen) -> RestartCase:
        spells, since = seen.spells, _seconds_since_restart(request)
        return RestartCase(
            observation=request.observation,
            limits=request.limits,
            objective=request.objective,
            worths=tuple(1.0 if size is None else size.worth for size in seen.sizes),
            size=seen.sizes.index(request.current.size) if request.current.size in seen.sizes else 0,
            # After a restart, also one that failed, everything has to show again.
            top_seconds=min(spells.top_seconds, since),
            broken_seconds=min(spells.broken_seconds, since),
            calm_seconds=min(spells.calm_seconds, since),
            backlog_growth_rows_per_second=spells.backlog_growth_rows_per_second,
            pause_seconds=self._pause_seconds if seen.pause_seconds is None else seen.pause_seconds,
        )

    @staticmethod
    def _decision(request: PlanRequest, seen: _Seen, live: Decision, verdict: RestartVerdict) -> Decision:
        is_measured = seen.pause_seconds is not None
        evidence = {
            **live.evidence,
            **verdict.evidence,
            "pause_is": "measured in this run" if is_measured else "as set: none was measured yet",
        }
        size = seen.sizes[verdict.size]
        if size == request.current.size:
            return replace(live, reason=f"{live.reason}; {verdict.reason}", evidence=evidence)
        # It starts with all that it may have, to catch up, as the weighing assumes.
        target = replace(request.limits.top, size=size)
        return replace(live, target=target, reason=verdict.reason, evidence=evidence, rejected=(), prediction=None)


class _Seen:
    """What was seen of one operator with several sizes."""

    def __init__(self, operator: SizedOperator, trend_seconds: float) -> None:
        self.sizes: tuple[ExecutorSize | None, ...] = (None, *operator.limits.sizes)
        self.spells = CapacitySpells(operator.limits, operator.objective, trend_seconds)
        self.pause_seconds: float | None = None
        """The last one measured."""
        self._pauses = PauseMeter()

    def add(self, look: Look) -> None:
        for batch in look.telemetry.batches:
            pause = self._pauses.add(batch)
            if pause is not None:
                self.pause_seconds = pause.seconds
        self.spells.add(look.observation)


def _is_settled(request: PlanRequest) -> bool:
    """Whether the data can be trusted, and the operator has the size that it is meant to have."""
    seen = request.observation
    observed = seen.cluster.observed
    return seen.quality is Quality.GOOD and observed is not None and observed.size == request.current.size


def _seconds_since_restart(request: PlanRequest) -> float:
    return min((abs(request.at - d.at) for d in request.recent if d.is_restart), default=float("inf"))


def _request_as_one_size(request: PlanRequest) -> PlanRequest:
    return replace(
        request,
        observation=_as_one_size(request.observation),
        current=replace(request.current, size=None),
        limits=replace(request.limits, sizes=()),
        recent=tuple(d for d in request.recent if not d.is_restart),
    )


def _as_one_size(observation: Observation) -> Observation:
    has = observation.cluster
    cluster = ClusterState(
        *(None if a is None else replace(a, size=None) for a in (has.planned, has.requested, has.observed))
    )
    return replace(observation, cluster=cluster)


def _with_size(decision: Decision, current: Allocation) -> Decision:
    """A decision of the policy inside, in terms of the size that the operator has."""
    return replace(
        decision,
        current=current,
        target=replace(decision.target, size=current.size),
        rejected=tuple(replace(r, allocation=replace(r.allocation, size=current.size)) for r in decision.rejected),
    )
