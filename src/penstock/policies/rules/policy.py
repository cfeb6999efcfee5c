# SPDX-License-Identifier: Apache-2.0
"""The policy `rules`: scaling rules decide alone, starting from what there is."""

from __future__ import annotations

from penstock.policies.rules.evaluation import Evidence, Step, Verdict, apply, original_evidence
from penstock.policies.rules.rule_book import RuleBook
from penstock.ports import Look
from penstock.records import Decision, PlanRequest

EVERY_LOOK = 0.5
"""Asked so often, in intervals of the loop, a policy is asked at every look, also at one that comes a little early."""


class RulesPolicy:
    """Scales by rules: a `ports.WatchingPolicy`, `ports.LookingBackPolicy` and `ports.SubscribingPolicy`.

    A decision depends on the request alone: its history, its recent changes, and `at`, which is the clock of time
    triggers. Only forecasts rest on looks.

    Parameters
    ----------
    book
        The rules, routed to the operators.
    every_seconds
        How often it wants to be asked.
    """

    name = "rules"
    reads_objective = False

    def __init__(self, book: RuleBook, every_seconds: float) -> None:
        self.book = book
        self.every_seconds = every_seconds

    @property
    def history_seconds(self) -> float:
        """The longest time of a trigger, and what may be missing around its start."""
        return self.book.history_seconds

    @property
    def metrics(self) -> frozenset[str]:
        """The metrics in its triggers."""
        return self.book.metrics

    @property
    def changes_seconds(self) -> float:
        """The longest guard time."""
        return self.book.changes_seconds

    def watch(self, look: Look) -> tuple[str, ...]:
        """Learn, where a rule asks for a forecast."""
        self.book.watch(look)
        return ()

    def close(self) -> None:
        """Nothing was started."""

    def plan(self, request: PlanRequest) -> Decision:
        """What the rules that hold make of what there is."""
        verdict = apply(self.book.held(request), request, request.current)
        evidence: Evidence = {**self.book.evidence(request), **verdict.evidence, **original_evidence(request)}
        return Decision(
            request.operator,
            request.at,
            self.name,
            request.current,
            verdict.target,
            self._reason(request, verdict),
            evidence,
            rejected=tuple(verdict.rejected),
        )

    def _reason(self, request: PlanRequest, verdict: Verdict) -> str:
        if not verdict.steps:
            number = len(self.book.rules_of(request.operator))
            return "it has no rules" if number == 0 else f"none of its {number} rules holds"
        return "; ".join(_text(step) for step in verdict.steps)


def _text(step: Step) -> str:
    return step.text if step.before != step.after else f"nothing more by {step.text}"
