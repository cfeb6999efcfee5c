# SPDX-License-Identifier: Apache-2.0
"""The parts of a rule while a file is read, and the rule that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock.errors import RuleError
from penstock.rules.checks import checked_rule, limit_is_missing, missing_limit, missing_trigger
from penstock.rules.findings import Findings
from penstock.rules.nodes import Guard, Keep, Place, Rule, Scale, Trigger


@dataclass(slots=True)
class RuleParts:
    """What was read of one rule so far.

    Attributes
    ----------
    place
        Where the rule begins.
    is_known_wrong
        A mistake in it was reported.
    has_trigger
        A trigger was seen, right or wrong.
    """

    place: Place
    is_known_wrong: bool = False
    name: str | None = None
    operator: str = ""
    action: Scale | Keep | None = None
    action_place: Place | None = None
    triggers: list[Trigger] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    guard_places: list[Place] = field(default_factory=list)
    has_trigger: bool = False
    second_action: Place | None = None

    def mistake(self, fault: RuleError | str, place: Place, findings: Findings) -> None:
        """Report a mistake in this rule."""
        self.is_known_wrong = True
        findings.add(fault, place, *([] if self.name is None else [self.name]))

    def act(self, operator: str, action: Scale | Keep, place: Place) -> None:
        """Take in what the rule does."""
        if self.action is not None:
            self.second_action = place
            return
        self.operator, self.action, self.action_place = operator, action, place

    def guard(self, guard: Guard, place: Place) -> None:
        """Take in a guard time."""
        self.guards.append(guard)
        self.guard_places.append(place)


def finished_rules(parts: Sequence[RuleParts], findings: Findings) -> list[Rule]:
    """The rules that are right; what is wrong with the others as a whole is reported."""
    found: list[Rule] = []
    names: set[str] = set()
    for part in parts:
        if part.second_action is not None:
            part.mistake(
                "the rule says twice what it does; write one rule for each action", part.second_action, findings
            )
        if part.name is not None and part.name in names:
            part.mistake(f'a rule before is called "{part.name}" as well; give each its own name', part.place, findings)
        names |= {part.name} if part.name is not None else set()
        if part.is_known_wrong:
            _report_missing(part, findings)
        elif (rule := _finished(part, findings)) is not None:
            found.append(rule)
        if part.is_known_wrong and part.name is not None and part.action is not None:
            findings.keep_wrong(Rule(part.name, part.operator, part.action, (), (), part.place))
    return found


def _report_missing(part: RuleParts, findings: Findings) -> None:
    """Report what a rule lacks beside the mistakes that were found in its parts."""
    if part.name is not None and isinstance(part.action, Scale):
        place = part.action_place or part.place
        if limit_is_missing(part.action):
            part.mistake(missing_limit(), place, findings)
        if not part.has_trigger:
            part.mistake(missing_trigger(), place, findings)


def _finished(part: RuleParts, findings: Findings) -> Rule | None:
    if part.name is None:
        return None  # a header that cannot be read was reported
    if part.action is None:
        part.mistake(
            "the rule says nothing to do; add `scale-out matcher by 2 never above 8` or `keep matcher at least 3`",
            part.place,
            findings,
        )
        return None
    try:
        return checked_rule(part.name, part.operator, part.action, part.triggers, part.guards, place=part.place)
    except RuleError as fault:
        guards = [guard.after for guard in part.guards]
        twice = [i for i, after in enumerate(guards) if after in guards[:i]]
        place = part.guard_places[twice[0]] if "stands twice" in fault.message else part.action_place
        part.mistake(fault, place or part.place, findings)
        return None
