# SPDX-License-Identifier: Apache-2.0
"""What the rules of an operator make of a proposed size: which hold, which win, and what each of them did.

Rules are level-triggered: a rule acts at every look at which all its triggers hold, and its guard times are the pause.
A guard time forbids going further, not keeping what was got before. So a rule that adds two executors to what a model
proposes goes on adding them while it waits, and a rule alone, which starts from what there is, does nothing.

Of several rules that hold at once the one that grows furthest wins, over any that shrinks; of those that shrink, the
one that takes least. A rule that wants to grow and waits, or is at its limit, still speaks against shrinking. Bounds
(`Keep`) come last; at least wins over at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.policies.rules.guard_times import why_waiting
from penstock.policies.rules.sizes import Sized, kept, scaled, with_executors
from penstock.policies.rules.words import rule_text
from penstock.records import Allocation, PlanRequest, Rejected
from penstock.rules.nodes import Direction, Keep, Rule, Scale, Side

Evidence = dict[str, float | int | str | None]
ORIGINAL_EXECUTORS, ORIGINAL_SHARE = "original_executors", "original_cpu_share"


@dataclass(frozen=True, slots=True)
class HeldRule:
    """A rule all of whose triggers hold, and by what; `does` and `triggers` are its words."""

    rule: Rule
    does: str
    triggers: str
    readings: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """What one rule did: from what to what, and why; `notes` say what was clamped."""

    held: HeldRule
    before: Allocation
    after: Allocation
    notes: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The rule, its action and its triggers."""
        notes = f" ({'; '.join(self.notes)})" if self.notes else ""
        return f"{rule_text(self.held.rule)}: {self.why}{notes}"

    @property
    def why(self) -> str:
        """The action and the triggers."""
        return f"{self.held.does} {self.held.triggers}"


@dataclass(slots=True)
class Verdict:
    """What the rules came to."""

    target: Allocation
    steps: list[Step] = field(default_factory=list)
    """What each rule did that won, also where it changed nothing."""
    rejected: list[Rejected] = field(default_factory=list)
    agreed: list[str] = field(default_factory=list)
    """Rules that wanted just what another did."""

    @property
    def evidence(self) -> Evidence:
        """Rule, trigger, readings and time of each that won."""
        found: Evidence = {}
        for number, step in enumerate(self.steps, start=1):
            mark = "" if number == 1 else f"_{number}"
            found[f"rule{mark}"] = step.held.rule.name
            found[f"trigger{mark}"] = step.held.triggers
            found[f"readings{mark}"] = step.held.readings
            found[f"held_seconds{mark}"] = step.held.seconds
            if step.notes:
                found[f"clamped{mark}"] = "; ".join(step.notes)
        if self.agreed:
            found["rules_that_agree"] = ", ".join(self.agreed)
        return found


@dataclass(frozen=True, slots=True)
class _Wish:
    """What a rule wants, and why it may not have all of it."""

    held: HeldRule
    scale: Scale
    sized: Sized
    waiting: str | None

    @property
    def amount(self) -> float:
        has = self.sized.allocation
        return has.executors if self.scale.direction.is_horizontal else has.cpu_share

    @property
    def step_notes(self) -> tuple[str, ...]:
        return self.sized.notes if self.waiting is None else (*self.sized.notes, f"waits: {self.waiting}")


def apply(held: Sequence[HeldRule], request: PlanRequest, base: Allocation) -> Verdict:
    """Let the rules that hold change a proposed size.

    Parameters
    ----------
    held
        The rules whose triggers hold, in the order in which they were written.
    request
        What is known of the operator.
    base
        The proposal: what a model wants, or what there is.
    """
    verdict = Verdict(base)
    wishes = [_wish(one, one.rule.action, request, base) for one in held if isinstance(one.rule.action, Scale)]
    is_growing = any(wish.scale.direction.is_growth for wish in wishes)
    winners: list[_Wish] = []
    for direction in (Direction.OUT, Direction.UP) if is_growing else (Direction.IN, Direction.DOWN):
        rivals = [wish for wish in wishes if wish.scale.direction is direction]
        if rivals:
            # Growing furthest and shrinking least are both the largest size; of equals the first that was written.
            winner = max(rivals, key=lambda wish: wish.amount)
            winners.append(winner)
            _take(verdict, winner)
            _refuse(verdict, [wish for wish in rivals if wish is not winner], winner)
    if is_growing:
        _refuse(verdict, [wish for wish in wishes if not wish.scale.direction.is_growth], winners[0])
    for side in (Side.MOST, Side.LEAST):  # at least comes last, so that it wins
        for one in held:
            action = one.rule.action
            if isinstance(action, Keep) and action.side is side:
                _bound(verdict, one, action, request)
    taken = verdict.target
    verdict.rejected = [one for one in verdict.rejected if one.allocation != taken]
    return verdict


def original_size(request: PlanRequest) -> Allocation:
    """The operator's size at the start of the run.

    It stands in the evidence of every decision of rules. So the oldest change that is remembered has it, also after the
    controller was restarted; without any evidence it is the size before that change.
    """
    if not request.recent:
        return request.current
    oldest = request.recent[0]
    executors, share = oldest.evidence.get(ORIGINAL_EXECUTORS), oldest.evidence.get(ORIGINAL_SHARE)
    if isinstance(executors, int) and isinstance(share, int | float):
        return Allocation(executors, float(share))
    return oldest.current


def original_evidence(request: PlanRequest) -> Evidence:
    """The original size, as evidence that later decisions find it by."""
    original = original_size(request)
    return {ORIGINAL_EXECUTORS: original.executors, ORIGINAL_SHARE: original.cpu_share}


def _wish(held: HeldRule, scale: Scale, request: PlanRequest, base: Allocation) -> _Wish:
    sized = scaled(scale, base, original_size(request), request.limits)
    waiting = why_waiting(held.rule, request)
    if waiting is None:
        return _Wish(held, scale, sized, None)
    # No further than what there is, or what is proposed anyway.
    held_back = _no_further(sized.allocation, base, request.current, is_growth=scale.direction.is_growth)
    if held_back == sized.allocation:
        return _Wish(held, scale, sized, None)
    return _Wish(held, scale, replace(sized, allocation=held_back), waiting)


def _no_further(wanted: Allocation, base: Allocation, current: Allocation, *, is_growth: bool) -> Allocation:
    nearest, furthest = (min, max) if is_growth else (max, min)
    executors = nearest(wanted.executors, furthest(base.executors, current.executors))
    share = nearest(wanted.cpu_share, furthest(base.cpu_share, current.cpu_share))
    return replace(with_executors(wanted, executors), cpu_share=share)


def _take(verdict: Verdict, winner: _Wish) -> None:
    before, has = verdict.target, winner.sized.allocation
    if winner.scale.direction.is_horizontal:
        verdict.target = with_executors(before, has.executors)
    else:
        verdict.target = replace(before, cpu_share=has.cpu_share)
    verdict.steps.append(Step(winner.held, before, verdict.target, winner.step_notes))


def _refuse(verdict: Verdict, losers: Sequence[_Wish], winner: _Wish) -> None:
    for loser in losers:
        is_same_way = loser.scale.direction is winner.scale.direction
        if is_same_way and loser.amount == winner.amount:
            verdict.agreed.append(loser.held.rule.name)
            continue
        if is_same_way:
            why = "goes further" if winner.scale.direction.is_growth else "takes less"
        else:
            why = f"is to {winner.scale.direction.value}, which wins"
        wanted = Step(loser.held, verdict.target, loser.sized.allocation, loser.step_notes)
        verdict.rejected.append(
            Rejected(loser.sized.allocation, f"{wanted.text}; but {rule_text(winner.held.rule)} {why}")
        )


def _bound(verdict: Verdict, held: HeldRule, keep: Keep, request: PlanRequest) -> None:
    before = verdict.target
    sized = kept(keep, before, request.limits)
    if sized.allocation == before:
        return
    notes, after = sized.notes, sized.allocation
    waiting = why_waiting(held.rule, request)
    if waiting is not None:
        after = _no_further(after, before, request.current, is_growth=keep.side is Side.LEAST)
        if after != sized.allocation:
            notes = (*notes, f"waits: {waiting}")
    verdict.target = after
    verdict.steps.append(Step(held, before, after, notes))
