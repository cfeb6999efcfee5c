# SPDX-License-Identifier: Apache-2.0
"""What a reader or the checker found in a file of rules, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.errors import RuleError
from penstock.rules.nodes import Place, Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake or a doubt.

    Attributes
    ----------
    place
        The line and column to look at.
    message
        What is wrong there and how to fix it.
    rules
        The names of the rules that it is about.
    """

    place: Place
    message: str
    rules: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain data: line, column, message and rules."""
        return {
            "line": self.place.line,
            "column": self.place.column,
            "message": self.message,
            "rules": list(self.rules),
        }

    def __str__(self) -> str:
        return f"line {self.place.line}, column {self.place.column}: {self.message}"


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: the rules without a mistake, and every mistake in the order of the file.

    `wrong` are the rules with a mistake of which it is known all the same what they do, and to which operator. They
    have no triggers and no guard times.
    """

    rules: tuple[Rule, ...]
    mistakes: tuple[Finding, ...]
    wrong: tuple[Rule, ...] = ()

    def without_mistakes(self, source: str) -> tuple[Rule, ...]:
        """The rules; `RuleError` with every mistake where there is one."""
        if len(self.mistakes) == 1:
            place = self.mistakes[0].place
            raise RuleError(self.mistakes[0].message, line=place.line, column=place.column, source=source)
        if self.mistakes:
            raise RuleError.of_all(source, [str(mistake) for mistake in self.mistakes])
        return self.rules


class Findings:
    """Collects mistakes while a file is read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._found: list[Finding] = []
        self._wrong: list[Rule] = []

    def place(self, line: int, column: int) -> Place:
        """A place in this file."""
        return Place(line, column, self.source)

    def add(self, fault: RuleError | str, place: Place, *rules: str) -> None:
        """Take in a mistake."""
        self._found.append(Finding(place, fault if isinstance(fault, str) else fault.message, rules))

    def keep_wrong(self, rule: Rule) -> None:
        """Take in what is known of a rule with a mistake."""
        self._wrong.append(rule)

    def reading(self, rules: Sequence[Rule]) -> Reading:
        """Everything that was read and found."""
        mistakes = sorted(self._found, key=lambda f: (f.place.line, f.place.column))
        return Reading(tuple(rules), tuple(mistakes), tuple(self._wrong))
