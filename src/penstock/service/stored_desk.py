# SPDX-License-Identifier: Apache-2.0
"""A stored run, to look back at: nothing of it can be changed. It may still be going on in another process."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.clock import Clock
from penstock.errors import ConfigurationError, SteeringError
from penstock.knowledge.run_facts import SETTINGS, SUMMARY
from penstock.knowledge.run_notes import RunNote, kept_notes
from penstock.loop import Helm
from penstock.loop.kept_orders import first_state, kept_state
from penstock.money import Cost
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Observation
from penstock.service.bill import Bill
from penstock.service.columns import Columns
from penstock.service.desk import Progress
from penstock.service.events import EventFeed
from penstock.service.facts import PipelineFacts, facts_of_stored
from penstock.service.last_changes import FailedChange, LastChanges
from penstock.service.past import original_size
from penstock.service.picture import observation_view
from penstock.service.tally import Tally
from penstock.service.views import audit_view, decision_view, state_view
from penstock.steering import SteeringState

_STARTED_AT = "started_at"
_SILENT_SECONDS, _SILENT_LOOKS = 30.0, 20
"""After so long, and so many looks, without a record a run that has not ended counts as cut off."""
_MOST_AT_ONCE = 5000
_FEW_EACH = 3
_SLACK_SECONDS = 5.0
_COUNTING_SECONDS = 0.3
"""How long a request waits for the cost to be added up; the next one, or who follows the run, goes on."""


class StoredDesk:
    """A run in a store (a `PipelineDesk`), for reading. What another process adds is taken in by `refresh`.

    Parameters
    ----------
    store
        Opened for reading.
    clock
        The present, for a run that still goes on.
    name
        How it is called; default: by the pipeline's name.
    feed
        Where events go; None: nobody listens.

    Raises
    ------
    ConfigurationError
        The store holds no run.
    """

    def __init__(
        self, store: KnowledgeStore, clock: Clock, *, name: str | None = None, feed: EventFeed | None = None
    ) -> None:
        settings = _plain(store.fact(SETTINGS))
        if settings is None:
            raise ConfigurationError("the store has no settings of a run; give the folder of a run", field="store")
        facts = facts_of_stored(settings, name=name)
        if facts.started_at is None:
            facts = replace(facts, started_at=_number(store.fact(_STARTED_AT)))
        self._store, self._clock, self._facts, self._feed = store, clock, facts, feed
        self._since = facts.started_at or 0.0
        self._original: dict[str, Allocation] = {}
        self._bill, self._tally, self._columns = Bill(facts.bases), Tally(), Columns(store, self._since)
        self._lock = threading.Lock()
        self._seen: dict[str, Observation] = {}
        self._decided: dict[str, Decision] = {}
        self._last_changes = LastChanges()
        self._state = first_state(facts.names, facts.policy)
        self._audited: str | None = None
        self._progress = Progress(started_at=facts.started_at)
        self._notes: list[RunNote] = []
        self._read_newest()
        self.refresh()

    @property
    def facts(self) -> PipelineFacts:
        """What does not change."""
        return self._facts

    @property
    def is_live(self) -> bool:
        """Its loop does not run here."""
        return False

    @property
    def is_of_this_process(self) -> bool:
        """It is stored."""
        return False

    @property
    def is_followed(self) -> bool:
        """Whether it has not ended, and something was heard of it lately."""
        newest = self._newest()
        patience = max(_SILENT_SECONDS, _SILENT_LOOKS * self._facts.interval_seconds)
        return self._progress.ended_at is None and newest is not None and self._clock.now() - newest < patience

    @property
    def history(self) -> KnowledgeStore:
        """Its records, to read."""
        return self._store

    @property
    def columns(self) -> Columns:
        """Its past as columns."""
        return self._columns

    @property
    def can_steer(self) -> bool:
        """It takes no orders."""
        return False

    @property
    def helm(self) -> Helm:
        """There is none: raises SteeringError."""
        if self.is_followed:
            raise SteeringError(
                "a stored run cannot be steered; it goes on in another process: steer it through the service of that "
                "one (penstock run --page, or the master)"
            )
        raise SteeringError(
            "a stored run cannot be steered; it has ended: start it again with a page (penstock run --page), and steer "
            "that"
        )

    def now(self) -> float:
        """The present while the run goes on; else its newest instant: ages count from there."""
        newest = self._newest()
        return self._clock.now() if newest is None or self.is_followed else newest

    def seen(self, operator: str) -> Observation | None:
        """The newest observation of an operator."""
        return self._seen.get(operator)

    def decided(self, operator: str) -> Decision | None:
        """The newest decision on an operator."""
        return self._decided.get(operator)

    def trouble(self, operator: str) -> str | None:  # noqa: ARG002
        """Not known: records are of looks that succeeded."""
        return None

    def failed(self, operator: str) -> FailedChange | None:
        """The newest change of an operator, if it has failed."""
        return self._last_changes.failed(operator)

    def original(self, operator: str) -> Allocation | None:
        """The operator's size at the start of the run."""
        if operator not in self._original:
            first = original_size(self._store, operator, self._since)
            if first is None:  # nothing was changed yet
                seen = self.seen(operator)
                return None if seen is None else seen.cluster.observed
            self._original[operator] = first
        return self._original[operator]

    def state(self) -> SteeringState:
        """The orders that were in force last."""
        now = self.now()
        operators = {name: orders.in_force(now) for name, orders in self._state.operators.items()}
        return replace(self._state, operators=operators)

    def progress(self) -> Progress:
        """Whether it has come to its end."""
        return self._progress

    @property
    def tally(self) -> Tally:
        """What its loop did since the service began."""
        return self._tally

    def bill(self) -> Bill:
        """What it has cost, as far as records are remembered."""
        newest = self._newest()
        if not self._bill.is_settled and newest is not None:
            self._bill.read(self._store, self._since, newest, seconds=_COUNTING_SECONDS)
        return self._bill

    def notes(self) -> list[RunNote]:
        """What was said of it besides decisions."""
        return self._notes

    # --- what another process adds ----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Take in what the store has got since, and hand it on as events."""
        with self._lock:
            self._last_changes.read(self._store, self._facts.names, self._since)
            self._read_records()
            self._read_orders()
            self._notes = [note for note in kept_notes(self._store) if note.at >= self._since]
            self._read_end()

    def _read_newest(self) -> None:
        """The newest of every operator: most are among the newest of all, others are asked for one by one."""
        names = self._facts.names
        for seen in self._store.observations(limit=_FEW_EACH * len(names)):
            if seen.at >= self._since:
                self._seen[seen.operator] = seen
        for decision in self._store.decisions(limit=_FEW_EACH * len(names)):
            if decision.at >= self._since:
                self._decided[decision.operator] = decision
        for name in names:
            if name not in self._seen:
                for seen in self._store.observations(name, since=self._since, limit=1):
                    self._seen[name] = seen
            if name not in self._decided:
                for decision in self._store.decisions(name, since=self._since, limit=1):
                    self._decided[name] = decision

    def _read_records(self) -> None:
        # Operators are looked at one after the other: a record may be a little older than the newest of another.
        since = max([self._since, *(one.at - _SLACK_SECONDS for one in self._seen.values())])
        for seen in self._store.observations(since=since, limit=_MOST_AT_ONCE):
            before = self._seen.get(seen.operator)
            if before is None or seen.at > before.at:
                self._seen[seen.operator] = seen
                self._publish("observation", lambda seen=seen: observation_view(self, seen))  # type: ignore[misc]
        since = max([self._since, *(one.at - _SLACK_SECONDS for one in self._decided.values())])
        for decision in self._store.decisions(since=since, limit=_MOST_AT_ONCE):
            known = self._decided.get(decision.operator)
            if known is None or decision.at > known.at:
                self._decided[decision.operator] = decision
                self._publish(
                    "decision",
                    lambda decision=decision: {  # type: ignore[misc]
                        "pipeline": self._facts.name,
                        "decision": decision_view(decision),
                    },
                )

    def _read_orders(self) -> None:
        newest = next(iter(self._store.audit(since=self._since, limit=1)), None)
        if newest is None or newest.audit_id == self._audited:
            return
        is_news, self._audited = self._audited is not None, newest.audit_id
        self._state = kept_state(self._store, first_state(self._facts.names, self._facts.policy), self._since)
        if is_news:
            self._publish(
                "audit",
                lambda: {
                    "pipeline": self._facts.name,
                    "entry": audit_view(newest),
                    "steering": state_view(newest.state),
                },
            )

    def _read_end(self) -> None:
        summary = _plain(self._store.fact(SUMMARY)) or {}
        kept = summary.get("ended_at")
        ended = float(kept) if isinstance(kept, (int, float)) and kept >= self._since else None
        was_over, started = self._progress.ended_at is not None, self._facts.started_at
        is_over = ended is not None
        self._progress = Progress("ended" if is_over else None, 1.0 if is_over else None, started, ended)
        if is_over and not was_over:
            self._bill.settle(_kept_costs(summary, self._facts.names))
            self._publish(
                "phase", lambda: {"pipeline": self._facts.name, "at": ended, "phase": "ended", "progress": 1.0}
            )

    def _newest(self) -> float | None:
        return max((one.at for one in self._seen.values()), default=None)

    def _publish(self, kind: str, plain: Callable[[], dict[str, Any]]) -> None:
        if self._feed is not None:
            self._feed.publish(self._facts.name, kind, plain)


def _kept_costs(summary: Mapping[str, Any], operators: Sequence[str]) -> dict[str, Cost]:
    """What every operator has cost, as the end of a run says it; empty where it does not say it of all."""
    parts = summary.get("operators")
    found = {name: part.get("cost") for name, part in parts.items()} if isinstance(parts, Mapping) else {}
    if len(operators) == 1 and not found:
        found = {operators[0]: summary.get("cost")}
    try:
        costs = {name: Cost(one["amount"], one["static"], str(one["currency"])) for name, one in found.items() if one}
    except (KeyError, TypeError):
        return {}
    return costs if set(costs) == set(operators) else {}


def _plain(text: str | None) -> Mapping[str, Any] | None:
    try:
        found = json.loads(text or "null")
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _number(text: str | None) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return None
