# SPDX-License-Identifier: Apache-2.0
"""Rules around a model: another policy proposes, the rules bound or overrule it, and each says what it did.

The policy inside is asked as often as it wants; between its turns its last proposal stands. The rules see every look.
A rule that scales adds to the proposal or takes from it: a model that says 4 and a rule that says two more make 6, for
as long as both say so. What a rule changed stands in the decision as an amendment of that rule.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.policies.rules.evaluation import Evidence, apply, original_evidence
from penstock.policies.rules.rule_book import RuleBook
from penstock.policies.rules.words import rule_text
from penstock.ports import Look, LookingBackPolicy, Policy, SubscribingPolicy, WatchingPolicy
from penstock.records import Allocation, Decision, PlanRequest, Quality, new_id
from penstock.units import format_seconds


class RulesAround:
    """A policy inside rules: a `ports.WatchingPolicy`, and a `ports.LookingBackPolicy`.

    Parameters
    ----------
    inner
        What proposes.
    book
        The rules, routed to the operators.
    every_seconds
        How often the rules want to be asked.
    reads_objective
        Whether the objective plays a part in what is proposed.
    """

    def __init__(self, inner: Policy, book: RuleBook, every_seconds: float, *, reads_objective: bool) -> None:
        self.inner = inner
        self.book = book
        self.every_seconds = min(every_seconds, inner.every_seconds)
        self.reads_objective = reads_objective
        self._watching = inner if isinstance(inner, WatchingPolicy) else None
        self._looking_back = inner if isinstance(inner, LookingBackPolicy) else None
        self._proposed: dict[str, Decision] = {}

    @property
    def name(self) -> str:
        """That of the policy inside: settings and decisions know it by this name."""
        return self.inner.name

    @property
    def history_seconds(self) -> float:
        """As far back as the rules or the policy inside look."""
        own = self.book.history_seconds
        return own if self._looking_back is None else max(own, self._looking_back.history_seconds)

    @property
    def metrics(self) -> frozenset[str]:
        """Those that the rules or the policy inside read."""
        inner = self.inner.metrics if isinstance(self.inner, SubscribingPolicy) else frozenset()
        return self.book.metrics | inner

    @property
    def changes_seconds(self) -> float:
        """As far back as the rules or the policy inside want to know changes."""
        own = self.book.changes_seconds
        return own if self._looking_back is None else max(own, self._looking_back.changes_seconds)

    def watch(self, look: Look) -> tuple[str, ...]:
        """Let the policy inside learn, and the forecasts that rules ask for."""
        self.book.watch(look)
        return () if self._watching is None else self._watching.watch(look)

    def close(self) -> None:
        """End what the policy inside has started."""
        if self._watching is not None:
            self._watching.close()

    def plan(self, request: PlanRequest) -> Decision:
        """What the rules that hold make of the proposal."""
        proposal = self._proposal(request)
        wants = proposal.target
        verdict = apply(self.book.held(request), request, wants)
        decision = proposal
        for step in verdict.steps:
            if step.before != step.after:
                notes = f" ({'; '.join(step.notes)})" if step.notes else ""
                decision = decision.amended(rule_text(step.held.rule), step.after, step.why + notes)
        evidence: Evidence = {
            **proposal.evidence,
            **self.book.evidence(request),
            "proposal": str(wants),
            **verdict.evidence,
            **original_evidence(request),
        }
        rejected = tuple(
            one for one in (*proposal.rejected, *verdict.rejected) if one.allocation != decision.target
        )  # what a rule took in the end was not rejected
        is_changed = decision.target != wants
        return replace(
            decision,
            reason=f"{self.name} proposes {wants}: {proposal.reason}",
            evidence=evidence,
            rejected=rejected,
            prediction=None if is_changed else proposal.prediction,
        )

    def _proposal(self, request: PlanRequest) -> Decision:
        last = self._proposed.get(request.operator)
        age = 0.0 if last is None else request.at - last.at
        # At the same instant it is asked again, and says the same again; also where a clock was set back.
        if last is None or not 0.0 < age < self.inner.every_seconds:
            made = self.inner.plan(request)
            self._proposed[request.operator] = made
            return made
        is_good = request.observation.quality is Quality.GOOD
        return replace(
            last,
            at=request.at,
            current=request.current,
            target=_of_this_size(last.target, request.current) if is_good else request.current,
            reason=f"{last.reason} ({format_seconds(age)} ago)" if is_good else _not_good(request),
            decision_id=new_id(),
        )


def _not_good(request: PlanRequest) -> str:
    return f"holding: {request.observation.quality_text}"


def _of_this_size(target: Allocation, current: Allocation) -> Allocation:
    """An earlier proposal for executors of the size that there is now."""
    return target if target.size == current.size else replace(target, size=current.size)
