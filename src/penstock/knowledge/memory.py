# SPDX-License-Identifier: Apache-2.0
"""A knowledge store in memory. It ends with the process."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from penstock.errors import ConfigurationError
from penstock.records import Action, Decision, Observation, Outcome, StageTime
from penstock.steering import AuditEntry


class _Dated(Protocol):
    @property
    def at(self) -> float: ...


class _Owned(_Dated, Protocol):
    @property
    def operator(self) -> str: ...


_DatedRecord = TypeVar("_DatedRecord", bound=_Dated)
_OwnedRecord = TypeVar("_OwnedRecord", bound=_Owned)


class MemoryStore:
    """Keeps the newest records of each kind in memory (a `ports.KnowledgeStore`).

    Parameters
    ----------
    bound
        How many records of each kind are kept. Beyond it, the oldest are dropped.
    """

    def __init__(self, bound: int = 10_000) -> None:
        if bound < 1:
            raise ConfigurationError(f"bound: {bound} is too few; keep at least 1 record", field="bound")
        self._lock = threading.Lock()
        self._observations: deque[Observation] = deque(maxlen=bound)
        self._decisions: deque[Decision] = deque(maxlen=bound)
        self._actions: deque[Action] = deque(maxlen=bound)
        self._outcomes: deque[Outcome] = deque(maxlen=bound)
        self._stage_times: deque[StageTime] = deque(maxlen=bound)
        self._audit: deque[AuditEntry] = deque(maxlen=bound)
        self._facts: dict[str, str] = {}

    def add_observation(self, observation: Observation) -> None:
        """Store an observation."""
        with self._lock:
            self._observations.append(observation)

    def add_decision(self, decision: Decision) -> None:
        """Store a decision with its evidence and reason."""
        with self._lock:
            self._decisions.append(decision)

    def add_action(self, action: Action) -> None:
        """Store an action."""
        with self._lock:
            self._actions.append(action)

    def add_outcome(self, outcome: Outcome) -> None:
        """Store the outcome of an action."""
        with self._lock:
            self._outcomes.append(outcome)

    def add_stage_times(self, times: Sequence[StageTime]) -> None:
        """Store how long the loop's stages took."""
        with self._lock:
            self._stage_times.extend(times)

    def add_audit(self, entry: AuditEntry) -> None:
        """Store an order."""
        with self._lock:
            self._audit.append(entry)

    def observations(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[Observation]:
        """Return the newest observations, oldest first."""
        return self._of_operator(self._observations, operator, since, limit, before=before)

    def decisions(
        self,
        operator: str | None = None,
        *,
        since: float = 0.0,
        before: float = math.inf,
        limit: int = 1000,
        changes_only: bool = False,
    ) -> list[Decision]:
        """Return the newest decisions, oldest first. `changes_only` omits those that hold."""
        wanted = (lambda d: d.is_change) if changes_only else None
        return self._of_operator(self._decisions, operator, since, limit, wanted=wanted, before=before)

    def actions(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Action]:
        """Return the newest actions, oldest first."""
        return self._of_operator(self._actions, operator, since, limit)

    def outcomes(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Outcome]:
        """Return the newest outcomes, oldest first."""
        return self._of_operator(self._outcomes, operator, since, limit)

    def stage_times(self, *, since: float = 0.0, limit: int = 1000) -> list[StageTime]:
        """Return the newest stage times, oldest first."""
        with self._lock:
            return _newest(reversed(self._stage_times), since, limit)

    def audit(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[AuditEntry]:
        """Return the newest orders, oldest first; of an operator also those for all operators."""
        with self._lock:
            kept = (entry for entry in reversed(self._audit) if operator is None or entry.operator in (operator, None))
            return _newest(kept, since, limit, before)

    def set_fact(self, name: str, value: str) -> None:
        """Store a text under a name."""
        with self._lock:
            self._facts[name] = value

    def fact(self, name: str) -> str | None:
        """Return the text under a name."""
        with self._lock:
            return self._facts.get(name)

    def close(self) -> None:
        """Do nothing: there are no files. The records stay readable until the process ends."""

    def _of_operator(
        self,
        kept: deque[_OwnedRecord],
        operator: str | None,
        since: float,
        limit: int,
        *,
        wanted: Callable[[_OwnedRecord], bool] | None = None,
        before: float = math.inf,
    ) -> list[_OwnedRecord]:
        with self._lock:
            newest_first = (
                record
                for record in reversed(kept)
                if (operator is None or record.operator == operator) and (wanted is None or wanted(record))
            )
            return _newest(newest_first, since, limit, before)


def _newest(
    newest_first: Iterable[_DatedRecord], since: float, limit: int, before: float = math.inf
) -> list[_DatedRecord]:
    if limit < 0:
        raise ConfigurationError(f"limit: {limit} is below zero; give the number of records to return", field="limit")
    chosen: list[_DatedRecord] = []
    for record in newest_first:
        if len(chosen) == limit:
            break
        if since <= record.at < before:
            chosen.append(record)
    chosen.reverse()
    return chosen
