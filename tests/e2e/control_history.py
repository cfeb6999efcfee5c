# SPDX-License-Identifier: Apache-2.0
"""Judges what the controllers of a run decided, did and saw, by what they kept: was it carried out, and did it stay?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.knowledge.sqlite import SqliteStore
from penstock.records import Action, Decision, Observation, Outcome, OutcomeStatus

HEAL = "heal"
"""The change that no decision asked for: what was lost is asked for again."""
CARRIED_OUT, UNKNOWN = "carried out", "not known"
_REACHED = (OutcomeStatus.DRAINING, OutcomeStatus.DONE)
_NOT_REACHED = (OutcomeStatus.FAILED, OutcomeStatus.SUPERSEDED)
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class ControlHistory:
    """Everything that was decided, done and seen, in the order in which it was kept.

    A wall clock that was set does not disturb that order; only `wrong_allocations` compares instants.
    """

    decisions: Sequence[Decision] = ()
    actions: Sequence[Action] = ()
    outcomes: Sequence[Outcome] = ()
    observations: Sequence[Observation] = ()

    @classmethod
    def read(cls, run_folder: Path) -> Self:
        """Read what the controllers of a run have kept."""
        store = SqliteStore.open_readonly(run_folder / "knowledge.sqlite")
        try:
            return cls(
                store.decisions(limit=_MOST),
                store.actions(limit=_MOST),
                store.outcomes(limit=_MOST),
                store.observations(limit=_MOST),
            )
        finally:
            store.close()

    def carried_out(self) -> Iterator[tuple[Action, Outcome]]:
        """Each action that was said to be carried out, with the outcome that said so first."""
        reached: dict[str, Outcome] = {}
        for outcome in self.outcomes:
            if outcome.status in _REACHED:
                reached.setdefault(outcome.request_id, outcome)
        return ((action, reached[action.request_id]) for action in self.actions if action.request_id in reached)

    def changes(self) -> dict[str, dict[str, int]]:
        """How often it was scaled in which way (`Decision.verb`), by what became of it.

        What a controller asked for that died before it knew is `not known`.
        """
        verbs = {decision.decision_id: decision.verb for decision in self.decisions}
        last = {outcome.request_id: outcome.status.value for outcome in self.outcomes}
        last |= {action.request_id: CARRIED_OUT for action, _ in self.carried_out()}
        counts: dict[str, dict[str, int]] = {}
        for action in self.actions:
            verb = HEAL if action.decision_id is None else verbs.get(action.decision_id, UNKNOWN)
            by_end, end = counts.setdefault(verb, {}), last.get(action.request_id, UNKNOWN)
            by_end[end] = by_end.get(end, 0) + 1
        return counts

    def why_not_scaled(self, policy: str, operators: Sequence[str], *, must_change: bool) -> list[str]:
        """What speaks against it that a policy has scaled these operators; nothing, if it has.

        With `must_change`, a change that it decided on was carried out: one that always holds does not do.
        """
        wrong = [
            f"{policy} has decided nothing about {operator}"
            for operator in operators
            if not any(decision.operator == operator for decision in self.decisions)
        ]
        wrong += [f"{name} has decided" for name in sorted({d.policy for d in self.decisions} - {policy})]
        wrong += self._not_as_said()
        changes = [action for action, _ in self.carried_out() if action.decision_id is not None]
        if must_change and not changes:
            wrong.append(f"no change that {policy} decided on was carried out: {self.changes()}")
        return wrong

    def wrong_allocations(self, since: float) -> list[str]:
        """What is wrong with what operators had, under the controller that took over at an instant.

        What was carried out is there when it is said to be, with executors, CPU share and size, and until the next
        change is asked for. It is known what became of all but the last; the last has not failed, and nothing has taken
        its place.
        """
        wrong = self._not_as_said()
        ended = {outcome.request_id for outcome in self.outcomes}
        done = {action.request_id for action, _ in self.carried_out()}
        for operator in dict.fromkeys(action.operator for action in self.actions):
            actions = [action for action in self.actions if action.operator == operator and action.at >= since]
            wrong += [
                f"{operator}: nobody has said what became of {action.target}"
                for action in actions[:-1]
                if action.request_id not in ended
            ]
            wrong += [
                f"{operator}: the last action, {action.target}, {outcome.status}: {outcome.detail}"
                for action in actions[-1:]
                for outcome in self.outcomes
                if outcome.request_id == action.request_id
                and outcome.status in _NOT_REACHED
                # One that was reached and whose executors then drain for too long has what it asked for.
                and action.request_id not in done
            ]
            wrong += self._not_kept(actions)
        return wrong

    def _not_as_said(self) -> list[str]:
        """Where what was seen in the pass that called an action carried out is something else."""
        seen = {(o.operator, o.at): o.cluster.observed for o in self.observations}
        wrong = []
        for action, outcome in self.carried_out():
            there = [outcome.observed, seen.get((outcome.operator, outcome.at), outcome.observed)]
            wrong += [
                f"{action.operator}: {action.target} was said to be {outcome.status}, and there was {found}"
                for found in there
                if found is None or not found.satisfies(action.target)
            ]
        return wrong

    def _not_kept(self, actions: Sequence[Action]) -> list[str]:
        """Where an operator had something else between an action that was carried out and the next one."""
        reached = {action.request_id: outcome for action, outcome in self.carried_out()}
        wrong = []
        for action, following in zip(actions, (*actions, None)[1:], strict=True):
            outcome = reached.get(action.request_id)
            if outcome is None:
                continue
            until = float("inf") if following is None else following.at
            for seen in self.observations:
                found = seen.cluster.observed
                is_its_time = seen.operator == action.operator and outcome.at <= seen.at < until
                if is_its_time and found is not None and not found.satisfies(action.target):
                    wrong.append(
                        f"{action.operator}: {found} was there {seen.at - outcome.at:.0f} s after {action.target} had "
                        "come, and nothing was done"
                    )
                    break
        return wrong
