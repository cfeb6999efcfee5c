# SPDX-License-Identifier: Apache-2.0
"""Checks rules before they run: every mistake, and what is doubtful."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.errors import RuleError
from penstock.records import Limits
from penstock.rules.checks import near_operators, unknown_operator
from penstock.rules.doubts import doubts
from penstock.rules.findings import Finding, Reading
from penstock.rules.limit_doubts import own_limit_doubts
from penstock.rules.nodes import ALL_OPERATORS, Place, Rule
from penstock.rules.reading import is_reference, parse_file, read_rules


@dataclass(frozen=True, slots=True)
class CheckedRules:
    """How many rules were read without a mistake, every mistake, and what is doubtful."""

    rules: int
    mistakes: tuple[Finding, ...]
    doubts: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "rules": self.rules,
            "mistakes": [mistake.to_json() for mistake in self.mistakes],
            "doubts": [doubt.to_json() for doubt in self.doubts],
        }


def check_rules(path: str | Path, operators: Mapping[str, Limits] | None = None) -> CheckedRules:
    """Check the rules of a file, or of a list in Python (``module:name``).

    Parameters
    ----------
    path
        As `read_rules` takes it.
    operators
        The operators of the pipeline with their limits; None: they are not known, and names are not checked. A rule
        with a mistake is held against them as well, as far as it can be read.

    What cannot be read at all is a mistake like any other, at its beginning.
    """
    reading = _reading(path)
    mistakes = list(reading.mistakes)
    meant: list[Rule] = []
    known = list(operators or ())
    for rule in (*reading.rules, *reading.wrong) if operators is not None else ():
        if rule.operator != ALL_OPERATORS and rule.operator not in known:
            message = unknown_operator(rule.operator, known).message
            mistakes.append(Finding(rule.place or Place(1, 1), message, (rule.name,)))
            # Its limits are held against those of the operator that was meant, if there is one.
            meant += [replace(rule, operator=name) for name in near_operators(rule.operator, known)[:1]]
        elif rule in reading.wrong:
            meant.append(rule)
    mistakes.sort(key=lambda finding: (finding.place.line, finding.place.column))
    found = [*doubts(reading.rules, operators), *own_limit_doubts(meant, operators or {})]
    found.sort(key=lambda finding: (finding.place.line, finding.place.column))
    return CheckedRules(len(reading.rules), tuple(mistakes), tuple(found))


def _reading(path: str | Path) -> Reading:
    """What is there, with every mistake. Python stops at the first mistake, so of a list there is one at most."""
    try:
        return Reading(read_rules(path), ()) if is_reference(path) else parse_file(Path(path))
    except RuleError as fault:
        place = Place(fault.line or 1, fault.column or 1, fault.source or str(path))
        return Reading((), (Finding(place, fault.message.removeprefix(f"{path}: ")),))
