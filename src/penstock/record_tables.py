# SPDX-License-Identifier: Apache-2.0
"""What stores in a database share: one table for each kind of record, with its JSON and what is searched by."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

from penstock.errors import ConfigurationError
from penstock.records import Action, Decision, Observation, Outcome, StageTime, decode, encode
from penstock.steering import AuditEntry

SCHEMA_VERSION = 1
AUDIT = "audit"
KINDS = ("observations", "decisions", "actions", "outcomes", "stage_times", AUDIT)
NO_BOUND = 1 << 62
_MANY = 1000
OF_ALL = ""
"""Stands for all operators, in the table of orders."""

Row = tuple[float, str, bool, str]
"""Instant, operator, whether it changes something, and the record as JSON."""
R = TypeVar("R")


class RecordTables(ABC):
    """The records of a `ports.KnowledgeStore` as rows; a database says how rows are written and found."""

    def add_observation(self, observation: Observation) -> None:
        """Store an observation."""
        self._add("observations", observation, observation.operator)

    def add_decision(self, decision: Decision) -> None:
        """Store a decision with its evidence and reason."""
        self._add("decisions", decision, decision.operator, is_change=decision.is_change)

    def add_action(self, action: Action) -> None:
        """Store an action."""
        self._add("actions", action, action.operator)

    def add_outcome(self, outcome: Outcome) -> None:
        """Store the outcome of an action."""
        self._add("outcomes", outcome, outcome.operator)

    def add_stage_times(self, times: Sequence[StageTime]) -> None:
        """Store how long the loop's stages took: all of them, or after a failure none."""
        self._insert("stage_times", [(time.at, "", False, _payload(time)) for time in times])

    def add_audit(self, entry: AuditEntry) -> None:
        """Store an order."""
        self._add(AUDIT, entry, OF_ALL if entry.operator is None else entry.operator)

    def observations(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[Observation]:
        """Return the newest observations, oldest first."""
        return self._read("observations", Observation, operator, since, limit, before=before)

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
        return self._read("decisions", Decision, operator, since, limit, before=before, changes_only=changes_only)

    def actions(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Action]:
        """Return the newest actions, oldest first."""
        return self._read("actions", Action, operator, since, limit)

    def outcomes(self, operator: str | None = None, *, since: float = 0.0, limit: int = 1000) -> list[Outcome]:
        """Return the newest outcomes, oldest first."""
        return self._read("outcomes", Outcome, operator, since, limit)

    def stage_times(self, *, since: float = 0.0, limit: int = 1000) -> list[StageTime]:
        """Return the newest stage times, oldest first."""
        return self._read("stage_times", StageTime, None, since, limit)

    def audit(
        self, operator: str | None = None, *, since: float = 0.0, before: float = math.inf, limit: int = 1000
    ) -> list[AuditEntry]:
        """Return the newest orders, oldest first; of an operator also those for all operators."""
        return self._read(AUDIT, AuditEntry, operator, since, limit, before=before)

    @abstractmethod
    def _insert(self, kind: str, rows: Sequence[Row]) -> None:
        """Write rows of one kind: all of them, or after a failure none."""

    @abstractmethod
    def _select(self, kind: str, conditions: Sequence[str], values: Sequence[Any], limit: int) -> list[str]:
        """The JSON of the newest rows within the bound that meet all conditions, newest first.

        In conditions, a question mark stands for a value.
        """

    def _add(self, kind: str, record: Any, operator: str, *, is_change: bool = False) -> None:
        self._insert(kind, [(record.at, operator, is_change, _payload(record))])

    def _read(
        self,
        kind: str,
        record: type[R],
        operator: str | None,
        since: float,
        limit: int,
        *,
        before: float = math.inf,
        changes_only: bool = False,
    ) -> list[R]:
        if limit < 0:
            raise ConfigurationError(
                f"limit: {limit} is below zero; give the number of records to return", field="limit"
            )
        conditions = ["at >= ?"]
        values: list[Any] = [since]
        if operator is None and since > 0 and limit >= _MANY:
            # Rows are given by their number: without the least one a short time would be looked for in all of them. The
            # plus keeps databases from looking for it in all of them too, instead of in the index of times.
            conditions.append(f"seq >= (SELECT MIN(+seq) FROM {kind} WHERE at >= ?)")
            values.append(since)
        if before < math.inf:
            conditions.append("at < ?")
            values.append(before)
        if operator is not None:
            conditions.append("operator IN (?, ?)" if kind == AUDIT else "operator = ?")
            values += [operator, OF_ALL] if kind == AUDIT else [operator]
        if changes_only:
            conditions.append("is_change = 1")
        found = self._select(kind, conditions, values, min(limit, NO_BOUND))
        return [decode(record, payload) for payload in reversed(found)]


def _payload(record: Any) -> str:
    """Return the record as JSON that can be read back. JSON has no infinity or NaN, so those are refused here."""
    text = encode(record)
    decode(type(record), text)
    return text
