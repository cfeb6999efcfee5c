# SPDX-License-Identifier: Apache-2.0
"""Gives an operator executors of another size: decides with `plan.resize`, restarts it at a batch border, and measures.

Everything is kept like a live change: the decision with its reason and evidence, the action, and its outcome with the
pause that was measured, from the end of the last batch before to the start of the first one after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from penstock.errors import ActuationError
from penstock.loop import Cycle, CycleReport
from penstock.plan.resize import ResizePolicy, ResizeProposal, ResizeRequest
from penstock.plan.resize_spells import ResizeSpells
from penstock.ports import KnowledgeStore
from penstock.records import (
    Action,
    BatchProgress,
    Decision,
    ExecutorSize,
    Limits,
    Mode,
    Objective,
    Outcome,
    OutcomeStatus,
)
from penstock.running.member import Member, State
from penstock.running.operator import ENDED_AT_BORDER, ENDED_IN_BATCH, OperatorJob
from penstock.running.spark_configuration import size_configuration
from penstock.settings import OperatorSettings, ResizeSettings
from penstock.units import format_seconds

POLICY = "resize"
_WHERE: dict[int | None, str] = {
    ENDED_AT_BORDER: "at a batch border",
    ENDED_IN_BATCH: "in a batch, which was run again",
}
"""By exit code; that of a process taken over from another controller is not known."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    action: Action
    size: int
    job: OperatorJob


class Resizer:
    """Looks after the size of one operator's executors.

    Parameters
    ----------
    member, cycle
        The operator and its control.
    store
        Where decisions and what became of them are kept.
    settings
        When it is restarted.
    limits, objective, mode
        What live changes may give, what is wanted, and whether anything is done.
    size
        Which of its sizes it has.
    tell
        Takes what the user should know.
    """

    def __init__(
        self,
        member: Member,
        cycle: Cycle,
        store: KnowledgeStore,
        settings: ResizeSettings,
        *,
        limits: Limits,
        objective: Objective,
        mode: Mode,
        size: int,
        tell: Callable[[str], None],
    ) -> None:
        self.size = size
        self._member, self._cycle, self._store, self._settings = member, cycle, store, settings
        self._limits, self._objective, self._mode, self._tell = limits, objective, mode, tell
        self._sizes = member.settings.executor_sizes
        self._policy = ResizePolicy(settings.after, settings.horizon, settings.calm)
        self._spells = ResizeSpells(limits, objective, settings.after)
        self._jobs = [job_of_size(member.job, member.settings, size) for size in self._sizes]
        self._job = member.job
        self._under_way: _UnderWay | None = None
        self._last: BatchProgress | None = None
        self._next_look = float("-inf")
        self._has_warned = False

    def take(self, report: CycleReport) -> None:
        """Take one pass; where a restart is decided it takes the place of the pass's decision to hold."""
        for batch in report.batches:
            self._note_pause(batch)
        if self._under_way is not None or self._member.state is not State.RUNNING:
            return
        seen = report.observation
        self._spells.add(seen)
        is_changing = report.decision is not None and report.decision.is_change
        if seen.cluster.observed is None or is_changing or seen.at < self._next_look:
            return
        proposal = self._policy.propose(self._request(report))
        if proposal.size == self.size and not proposal.is_weighed:
            return
        self._next_look = seen.at + self._settings.after
        decision = self._decision(report, proposal)
        self._store.add_decision(decision)  # before acting: what cannot be kept with its reason is not done
        if proposal.size != self.size:
            report.decision = decision
            self._spells.forget()
            self._act(decision, proposal.size, seen.at)

    def follow(self, now: float) -> None:
        """Look whether the process has another size since the last call; the loop then begins anew with it."""
        job = self._member.job
        if job is not self._job:
            self._job = job
            self.size = self._jobs.index(job) if job in self._jobs else self.size
            cores = self._sizes[self.size].cores
            self._cycle.restarted(cores, now)
            self._member.account.weight = cores / self._sizes[0].cores
            self._spells.forget()
            self._store.set_fact(size_fact(self._member.name), str(self.size))
        under_way, state = self._under_way, self._member.state
        if under_way is None or state is State.STOPPING:
            return
        if state is State.RUNNING and job is not under_way.job:
            self._end(OutcomeStatus.FAILED, now, "it did not start with this size and has the one before again")

    def _request(self, report: CycleReport) -> ResizeRequest:
        spells, pauses = self._spells, self._member.pauses
        return ResizeRequest(
            observation=report.observation,
            limits=self._limits,
            objective=self._objective,
            cores=tuple(size.cores for size in self._sizes),
            size=self.size,
            top_seconds=spells.top_seconds,
            broken_seconds=spells.broken_seconds,
            calm_seconds=spells.calm_seconds,
            backlog_growth_rows_per_second=spells.backlog_growth_rows_per_second,
            pause_seconds=pauses[-1] if pauses else self._settings.pause,
        )

    def _decision(self, report: CycleReport, proposal: ResizeProposal) -> Decision:
        has = report.observation.cluster.observed
        assert has is not None  # looked at by the caller
        is_change = proposal.size != self.size
        return Decision(
            operator=self._member.name,
            at=report.observation.at,
            policy=POLICY,
            current=has,
            target=replace(has, size=self._size_of(proposal.size)) if is_change else has,
            reason=proposal.reason,
            evidence={
                **proposal.evidence,
                "pause_is": "measured in this run" if self._member.pauses else "as set: none was measured yet",
            },
            mode=self._mode,
        )

    def _size_of(self, number: int) -> ExecutorSize | None:
        return None if number == 0 else self._sizes[number]

    def _act(self, decision: Decision, size: int, now: float) -> None:
        if self._mode is not Mode.ACT:
            return
        action = Action(self._member.name, now, self._limits.top, decision.decision_id)
        self._store.add_action(action)
        self._under_way = _UnderWay(action, size, self._jobs[size])
        self._warn_of_partitions(self._sizes[size])
        try:
            self._member.resize(self._jobs[size], now, self._settings.patience)
        except ActuationError as fault:
            self._end(OutcomeStatus.FAILED, now, f"it could not be told to stop: {fault}")

    def _warn_of_partitions(self, size: ExecutorSize) -> None:
        keeps_state = self._last is not None and self._last.state_rows is not None
        if size.shuffle_partitions is None or not keeps_state or self._has_warned:
            return
        self._has_warned = True
        self._tell(
            "shuffle_partitions of its sizes have no effect: the query keeps state, and Spark goes on with the number "
            "it began with"
        )

    def _note_pause(self, batch: BatchProgress) -> None:
        last, self._last = self._last, batch
        under_way = self._under_way
        if under_way is None or self._member.job is not under_way.job or (last and last.run_id == batch.run_id):
            return
        if last is None:  # none was seen before, so there is nothing to measure from
            self._end(OutcomeStatus.DONE, batch.started_at, "its pause is not known")
            return
        pause = batch.started_at - last.ended_at
        self._member.pauses.append(pause)
        where = _WHERE.get(self._member.exit_code, "nobody knows where")
        detail = f"stopped {where}, paused for {format_seconds(pause)} (batch {last.batch_id} to {batch.batch_id})"
        self._tell(f"has executors of {self._sizes[under_way.size]}: {detail}")
        self._end(OutcomeStatus.DONE, batch.started_at, detail)

    def _end(self, status: OutcomeStatus, now: float, detail: str) -> None:
        assert self._under_way is not None
        action, self._under_way = self._under_way.action, None
        observed = self._cycle.observe_only(now).cluster.observed
        after = max(0.0, now - action.at)
        self._store.add_outcome(Outcome(action.request_id, action.operator, now, status, observed, after, detail))


def job_of_size(job: OperatorJob, operator: OperatorSettings, size: ExecutorSize) -> OperatorJob:
    """The same job with executors of another size."""
    return replace(job, spark={**job.spark, **size_configuration(operator, size)})


def size_fact(operator: str) -> str:
    """The name of the fact that tells which of its sizes an operator has."""
    return f"size of {operator}"
