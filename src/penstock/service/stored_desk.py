# SPDX-License-Identifier: Apache-2.0
"""A stored run, to look back at: nothing of it can be changed. It may still be going on in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from penstock.clock import Clock
from penstock.errors import ConfigurationError, SteeringError
from penstock.knowledge.run_facts import SETTINGS, SUMMARY
from penstock.knowledge.run_notes import RunNote, kept_notes
from penstock.loop import Helm
from penstock.loop.kept_orders import first_state, kept_state
from penstock.ports import KnowledgeStore
from penstock.records import Allocation, Decision, Observation
from penstock.service.bill import Bill
from penstock.service.desk import Progress
from penstock.service.facts import PipelineFacts, facts_of_stored
from penstock.service.past import original_size
from penstock.service.tally import Tally
from penstock.steering import SteeringState

_STARTED_AT = "started_at"


class StoredDesk:
    """A run in a store (a `PipelineDesk`), for reading.

    Parameters
    ----------
    store
        Opened for reading.
    name
        How it is called; default: by the pipeline's name.
    clock
        The present, for a run that still goes on.

    Raises
    ------
    ConfigurationError
        The store holds no run.
    """

    def __init__(self, store: KnowledgeStore, clock: Clock, *, name: str | None = None) -> None:
        settings = _plain(store.fact(SETTINGS))
        if settings is None:
            raise ConfigurationError("the store has no settings of a run; give the folder of a run", field="store")
        facts = facts_of_stored(settings, name=name)
        if facts.started_at is None:
            facts = replace(facts, started_at=_number(store.fact(_STARTED_AT)))
        self._store, self._clock, self._facts = store, clock, facts
        self._since = facts.started_at or 0.0
        self._original: dict[str, Allocation] = {}
        self._bill, self._tally = Bill(facts.bases), Tally()

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
    def history(self) -> KnowledgeStore:
        """Its records, to read."""
        return self._store

    @property
    def can_steer(self) -> bool:
        """It takes no orders."""
        return False

    @property
    def helm(self) -> Helm:
        """There is none: raises SteeringError."""
        raise SteeringError("a stored run cannot be steered; use the service of the process that runs it")

    def now(self) -> float:
        """The newest instant of the run, from which ages count."""
        newest = [seen.at for name in self._facts.names if (seen := self.seen(name)) is not None]
        return max(newest, default=self._clock.now())

    def seen(self, operator: str) -> Observation | None:
        """The newest observation of an operator."""
        return next(iter(self._store.observations(operator, since=self._since, limit=1)), None)

    def decided(self, operator: str) -> Decision | None:
        """The newest decision on an operator."""
        return next(iter(self._store.decisions(operator, since=self._since, limit=1)), None)

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
        state = kept_state(self._store, first_state(self._facts.names, self._facts.policy), self._since)
        now = self.now()
        return replace(state, operators={name: orders.in_force(now) for name, orders in state.operators.items()})

    def progress(self) -> Progress:
        """Whether it has come to its end."""
        summary = _plain(self._store.fact(SUMMARY)) or {}
        ended = summary.get("ended_at")
        if not isinstance(ended, (int, float)) or ended < self._since:
            return Progress(None, None, self._facts.started_at, None)
        return Progress("ended", 1.0, self._facts.started_at, float(ended))

    @property
    def tally(self) -> Tally:
        """What its loop did since the service began."""
        return self._tally

    def bill(self) -> Bill:
        """What it has cost, as far as records are remembered."""
        self._bill.read(self._store, self._since)
        return self._bill

    def notes(self) -> list[RunNote]:
        """What was said of it besides decisions."""
        return [note for note in kept_notes(self._store) if note.at >= self._since]


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
