# SPDX-License-Identifier: Apache-2.0
"""A store that outlives its file: while a full or damaged disk refuses records, they are kept in memory."""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic as system_monotonic
from typing import Any

from penstock.errors import AdaptorError
from penstock.knowledge.memory import MemoryStore
from penstock.ports import KnowledgeStore
from penstock.records import Action, Decision, Observation, Outcome, StageTime
from penstock.steering import AuditEntry

_LOG = logging.getLogger(__name__)
_BROKEN = (AdaptorError, OSError)


class EnduringStore:
    """Passes records on to a store, and keeps them where it fails (a `ports.KnowledgeStore`).

    The first failures of an observation or a decision are raised: what cannot be kept with its reason is not done.
    After `patience` of them in a row the store counts as lost, records stay in memory, and the loop goes on. What has
    already been done is never refused: a record of it waits. When the store takes records again it gets all that wait.

    Parameters
    ----------
    store
        Where records belong.
    patience
        How many failures in a row are raised before the store counts as lost.
    say
        Takes the line for the user when the store is lost, and when it is back.
    on_lost
        Called when the store is lost.
    retry_seconds
        How often a lost store is tried again.
    most_waiting
        How many records wait in memory; beyond it the oldest go.
    """

    def __init__(
        self,
        store: KnowledgeStore,
        *,
        patience: int = 5,
        say: Callable[[str], None],
        on_lost: Callable[[], None],
        retry_seconds: float = 10.0,
        most_waiting: int = 50_000,
        monotonic: Callable[[], float] = system_monotonic,
    ) -> None:
        self._store, self._patience = store, patience
        self._say, self._on_lost = say, on_lost
        self._retry_seconds, self._monotonic = retry_seconds, monotonic
        self._lock = threading.RLock()
        self._waiting: deque[tuple[str, tuple[Any, ...]]] = deque(maxlen=most_waiting)
        self._memory = MemoryStore()
        self._failures = 0
        self._dropped = 0
        self._retry_at = 0.0
        self.is_lost = False
        """Whether records are kept in memory, for the store takes none."""

    def add_observation(self, observation: Observation) -> None:
        """Store an observation."""
        self._write("add_observation", observation, may_fail=True)

    def add_decision(self, decision: Decision) -> None:
        """Store a decision with its evidence and reason."""
        self._write("add_decision", decision, may_fail=True)

    def add_action(self, action: Action) -> None:
        """Store an action, which has been carried out: where the store fails it waits."""
        self._write("add_action", action)

    def add_outcome(self, outcome: Outcome) -> None:
        """Store the outcome of an action."""
        self._write("add_outcome", outcome)

    def add_stage_times(self, times: Sequence[StageTime]) -> None:
        """Store how long the loop's stages took."""
        self._write("add_stage_times", times)

    def set_fact(self, name: str, value: str) -> None:
        """Store a named text."""
        self._write("set_fact", name, value)

    def add_audit(self, entry: AuditEntry) -> None:
        """Store an order: one that cannot be kept is not carried out.

        Such failures do not count: who gives orders is another thread than the loop, which alone gives a store up.
        """
        self._write("add_audit", entry, may_fail=True, counts=False)

    def observations(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[Observation]:
        """Return the newest observations, oldest first."""
        return self._source.observations(operator, since=since, before=before, limit=limit)

    def decisions(
        self,
        operator: str | None = None,
        *,
        since: float = 0.0,
        before: float = math.inf,
        changes_only: bool = False,
        limit: int = 1000,
    ) -> list[Decision]:
        """Return the newest decisions, oldest first."""
        return self._source.decisions(operator, since=since, before=before, changes_only=changes_only, limit=limit)

    def actions(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Action]:
        """Return the newest actions, oldest first."""
        return self._source.actions(operator, since=since, limit=limit)

    def outcomes(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Outcome]:
        """Return the newest outcomes, oldest first."""
        return self._source.outcomes(operator, since=since, limit=limit)

    def stage_times(self, *, since: float = 0.0, limit: int = 1000) -> list[StageTime]:
        """Return the newest stage times, oldest first."""
        return self._source.stage_times(since=since, limit=limit)

    def audit(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[AuditEntry]:
        """Return the newest orders, oldest first."""
        return self._source.audit(operator, since=since, before=before, limit=limit)

    def fact(self, name: str) -> str | None:
        """Return a named text, or None if there is none."""
        found = self._memory.fact(name)
        return found if found is not None or self.is_lost else self._store.fact(name)

    def close(self) -> None:
        """Give the store what waits, if it takes it, and close it."""
        with self._lock:
            if self._waiting:
                try:
                    self._flush()
                except _BROKEN as fault:
                    _LOG.error("%d records of the run could not be kept: %s", len(self._waiting), fault)
            self._store.close()

    @property
    def _source(self) -> KnowledgeStore:
        return self._memory if self.is_lost else self._store

    def _write(self, method: str, *given: Any, may_fail: bool = False, counts: bool = True) -> None:
        with self._lock:
            if self.is_lost and self._monotonic() >= self._retry_at:
                self._try_again()
            if not self.is_lost:
                try:
                    self._flush()
                    getattr(self._store, method)(*given)
                    self._failures = 0
                    return
                except _BROKEN as fault:
                    if may_fail:
                        self._failures += counts
                        if not counts or self._failures < self._patience:
                            raise
                        self._lose(fault)
                    else:
                        _LOG.warning("a record waits to be kept: %s", fault)
            self._dropped += len(self._waiting) == self._waiting.maxlen
            self._waiting.append((method, given))
            getattr(self._memory, method)(*given)

    def _flush(self) -> None:
        if not self._waiting:
            return
        while self._waiting:
            method, given = self._waiting[0]
            getattr(self._store, method)(*given)
            self._waiting.popleft()
        self._memory = MemoryStore()

    def _lose(self, fault: Exception) -> None:
        self.is_lost = True
        self._retry_at = self._monotonic() + self._retry_seconds
        self._say(
            f"the run's knowledge cannot be kept ({fault}): CPU shares are opened, and the history stays in memory "
            "until it can"
        )
        self._on_lost()

    def _try_again(self) -> None:
        try:
            waited = len(self._waiting)
            self._flush()
        except _BROKEN:
            self._retry_at = self._monotonic() + self._retry_seconds
            return
        self.is_lost, self._failures = False, 0
        lost = f"; {self._dropped} older ones are lost" if self._dropped else ""
        self._dropped = 0
        self._say(f"the run's knowledge is kept again, with {waited} records from memory{lost}")
