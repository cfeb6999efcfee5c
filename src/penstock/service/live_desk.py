# SPDX-License-Identifier: Apache-2.0
"""A pipeline whose loop runs in this process: what it says is kept for those who look, and orders go to its helm."""

from __future__ import annotations

from collections.abc import Callable

from penstock.clock import Clock
from penstock.errors import SteeringError
from penstock.knowledge.run_notes import RunNote, kept_notes
from penstock.loop import CycleReport, Helm
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Observation
from penstock.service.bill import Bill
from penstock.service.columns import Columns
from penstock.service.desk import Progress
from penstock.service.events import EventFeed
from penstock.service.facts import PipelineFacts
from penstock.service.last_changes import FailedChange, LastChanges
from penstock.service.past import original_size
from penstock.service.picture import observation_view
from penstock.service.tally import Tally
from penstock.service.views import audit_view, decision_view, outcome_view, state_view
from penstock.steering import AuditEntry, SteeringState


class LiveDesk:
    """A running pipeline (a `PipelineDesk`); the loop gives it its reports (a `RunListener`).

    Parameters
    ----------
    facts
        What does not change.
    helm
        Where the pipeline is steered.
    history
        Its records, through a connection of its own: a long read must not hold up what the loop writes.
    clock, feed
        The present, and where events go.
    """

    def __init__(
        self, facts: PipelineFacts, helm: Helm, history: KnowledgeStore, *, clock: Clock, feed: EventFeed
    ) -> None:
        self._facts, self._helm, self._history = facts, helm, history
        self._clock, self._feed = clock, feed
        self._seen: dict[str, Observation] = {}
        self._decided: dict[str, Decision] = {}
        self._trouble: dict[str, str] = {}
        self._decision_of: dict[str, str | None] = {}
        self._original: dict[str, Allocation] = {}
        self._progress = Progress(started_at=facts.started_at)
        self._tally = Tally()
        self._columns = Columns(history, facts.started_at or 0.0)
        self._bill = Bill(facts.bases)
        self._last_changes = LastChanges()
        # A run that was taken over has a past.
        self._bill.read(history, facts.started_at or 0.0, clock.now())
        self._last_changes.read(history, facts.names, facts.started_at or 0.0)
        helm.on_audit = self._take_audit

    @property
    def facts(self) -> PipelineFacts:
        """What does not change."""
        return self._facts

    @property
    def is_live(self) -> bool:
        """Its loop runs here, until it has ended."""
        return self._progress.ended_at is None

    @property
    def is_of_this_process(self) -> bool:
        """Its loop runs, or ran, here."""
        return True

    @property
    def history(self) -> KnowledgeStore:
        """Its records, to read."""
        return self._history

    @property
    def columns(self) -> Columns:
        """Its past as columns."""
        return self._columns

    @property
    def is_followed(self) -> bool:
        """It runs here."""
        return False

    def refresh(self) -> None:
        """There is nothing to do: the loop reports."""

    @property
    def can_steer(self) -> bool:
        """Orders are taken until the loop has ended."""
        return self.is_live

    @property
    def helm(self) -> Helm:
        """Where it is steered."""
        if not self.is_live:
            raise SteeringError("the run has ended, and obeys no orders any more; start it again")
        return self._helm

    def now(self) -> float:
        """The present."""
        return self._clock.now()

    def seen(self, operator: str) -> Observation | None:
        """The newest observation of an operator."""
        return self._seen.get(operator)

    def decided(self, operator: str) -> Decision | None:
        """The newest decision on an operator."""
        return self._decided.get(operator)

    def trouble(self, operator: str) -> str | None:
        """Why the last look at an operator failed."""
        return self._trouble.get(operator)

    def failed(self, operator: str) -> FailedChange | None:
        """The newest change of an operator, if it has failed."""
        return self._last_changes.failed(operator)

    def original(self, operator: str) -> Allocation | None:
        """The operator's size at the start of the run."""
        if operator not in self._original:
            seen = self.seen(operator)
            first = original_size(self._history, operator, self._facts.started_at or 0.0)
            if first is None:
                return None if seen is None else seen.cluster.observed
            self._original[operator] = first
        return self._original[operator]

    def state(self) -> SteeringState:
        """The orders in force."""
        return self._helm.state

    def progress(self) -> Progress:
        """How far it is."""
        return self._progress

    @property
    def tally(self) -> Tally:
        """What its loop has done."""
        return self._tally

    def bill(self) -> Bill:
        """What it has cost so far."""
        return self._bill

    def notes(self) -> list[RunNote]:
        """What was said of it besides decisions."""
        return kept_notes(self._history)

    # --- what the loop says ----------------------------------------------------------------------------------

    def phase(self, text: str, fraction: float | None = None) -> None:
        """Take what is being done now."""
        before, at = self._progress, self.now()
        self._progress = Progress(text, fraction, before.started_at, before.ended_at)
        if (before.phase, _percent(before.fraction)) != (text, _percent(fraction)):  # not at every pass
            self._publish(
                "phase", lambda: {"pipeline": self._facts.name, "at": at, "phase": text, "progress": fraction}
            )

    def report(self, report: CycleReport) -> None:
        """Take one pass."""
        seen, decision = report.observation, report.decision
        self._seen[seen.operator] = seen
        self._trouble.pop(seen.operator, None)
        self._bill.take(report)
        self._tally.take(report)
        if report.action is not None:
            self._last_changes.begun(report.action)
        for outcome in report.outcomes:
            self._last_changes.told(outcome)
        self._publish("observation", lambda: observation_view(self, seen))
        if decision is not None:
            self._decided[seen.operator] = decision
            self._publish("decision", lambda: {"pipeline": self._facts.name, "decision": decision_view(decision)})
        if report.action is not None:
            self._decision_of[report.action.request_id] = report.action.decision_id
        for outcome in report.outcomes:
            decision_id = self._decision_of.get(outcome.request_id)
            self._publish(
                "outcome",
                lambda outcome=outcome, decision_id=decision_id: {  # type: ignore[misc]
                    "pipeline": self._facts.name,
                    "operator": outcome.operator,
                    "decision_id": decision_id,
                    **(outcome_view(outcome) or {}),
                },
            )
        while len(self._decision_of) > 1000:
            del self._decision_of[next(iter(self._decision_of))]

    def missed(self, operator: str, why: str) -> None:
        """Take that a look at an operator failed."""
        self._trouble[operator] = why
        self.fault(operator, why)

    def fault(self, operator: str, text: str) -> None:
        """Take something the user should know."""
        at = self.now()
        self._tally.fault(operator)
        self._publish("fault", lambda: {"pipeline": self._facts.name, "operator": operator, "at": at, "text": text})

    def end(self) -> None:
        """Take that the run is over."""
        before = self._progress
        self.phase("ended", before.fraction)
        self._progress = Progress("ended", before.fraction, before.started_at, self.now())

    def _take_audit(self, entry: AuditEntry) -> None:
        self._publish(
            "audit",
            lambda: {"pipeline": self._facts.name, "entry": audit_view(entry), "steering": state_view(entry.state)},
        )

    def _publish(self, kind: str, plain: Callable[[], dict[str, object]]) -> None:
        self._feed.publish(self._facts.name, kind, plain)


def _percent(fraction: float | None) -> int | None:
    return None if fraction is None else round(100 * fraction)
