# SPDX-License-Identifier: Apache-2.0
"""Knows the newest change of every operator, and whether it failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.ports import KnowledgeStore
from penstock.records import Action, Outcome, OutcomeStatus
from penstock.steering import time_of_day
from penstock.units import format_seconds

_MOST_WORDS_KEPT = 100
"""How many outcomes are looked through for that of the newest change."""
_MOST_AT_ONCE = 5000
_SLACK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class FailedChange:
    """A change that was asked for, and did not come about."""

    action: Action
    outcome: Outcome

    def __str__(self) -> str:
        when = f"at {time_of_day(self.outcome.at)}, after {format_seconds(self.outcome.after_seconds)}"
        why = self.outcome.detail or "nobody has said why"
        return f"the last change, to {self.action.target}, failed {when}: {why}"


class LastChanges:
    """The newest change of every operator. One thread may add to it while others ask."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[Action, Outcome | None]] = {}
        self._since: float | None = None

    def begun(self, action: Action) -> None:
        """Take a change that was asked for."""
        self._newest[action.operator] = (action, None)

    def told(self, outcome: Outcome) -> None:
        """Take what became of a change; of an older one than the newest it does not matter any more."""
        known = self._newest.get(outcome.operator)
        if known is not None and known[0].request_id == outcome.request_id:
            self._newest[outcome.operator] = (known[0], outcome)

    def failed(self, operator: str) -> FailedChange | None:
        """The newest change of an operator, if it has failed."""
        action, outcome = self._newest.get(operator, (None, None))
        if action is None or outcome is None or outcome.status is not OutcomeStatus.FAILED:
            return None
        return FailedChange(action, outcome)

    def read(self, store: KnowledgeStore, operators: Sequence[str], since: float) -> None:
        """Take in what a store remembers of a run that began at `since`: the newest at first, later what is new."""
        if self._since is None:
            self._since = since
            for name in operators:
                for action in store.actions(name, since=since, limit=1):
                    self._take([action], store.outcomes(name, since=action.at, limit=_MOST_WORDS_KEPT))
            return
        # Operators are looked at one after the other: a record may be a little older than the newest of another.
        start = max(since, self._since - _SLACK_SECONDS)
        self._take(store.actions(since=start, limit=_MOST_AT_ONCE), store.outcomes(since=start, limit=_MOST_AT_ONCE))

    def _take(self, actions: Sequence[Action], outcomes: Sequence[Outcome]) -> None:
        for action in actions:
            known = self._newest.get(action.operator)
            if known is None or (action.at >= known[0].at and action.request_id != known[0].request_id):
                self.begun(action)
        for outcome in outcomes:
            self.told(outcome)
        self._since = max([self._since or 0.0, *(action.at for action in actions), *(told.at for told in outcomes)])
