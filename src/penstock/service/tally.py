# SPDX-License-Identifier: Apache-2.0
"""Counts what a loop does, for those who watch rates of it."""

from __future__ import annotations

import threading
from collections import Counter

from penstock.loop import CycleReport
from penstock.records import OutcomeStatus

VERBS = ("hold", "scale out", "scale in", "scale up", "scale down", "restart larger", "restart smaller", "move")
"""Everything that a decision may say."""
ENDS = tuple(str(status) for status in (OutcomeStatus.DONE, OutcomeStatus.FAILED, OutcomeStatus.SUPERSEDED))
"""Everything that may become of a change in the end."""


class Tally:
    """Decisions, ends of changes, looks and faults of a run since its service began. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._decisions: Counter[tuple[str, str]] = Counter()
        self._ends: Counter[tuple[str, str]] = Counter()
        self._looks: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()

    def take(self, report: CycleReport) -> None:
        """Count one pass."""
        operator = report.observation.operator
        with self._lock:
            self._looks[operator] += 1
            if report.decision is not None:
                self._decisions[operator, report.decision.verb] += 1
            for outcome in report.outcomes:
                self._ends[operator, str(outcome.status)] += 1

    def fault(self, operator: str) -> None:
        """Count something that went wrong."""
        with self._lock:
            self._faults[operator] += 1

    def decisions(self, operator: str) -> dict[str, int]:
        """How many decisions of each kind, with those that there were none of."""
        return {verb: self._decisions[operator, verb] for verb in VERBS}

    def ends(self, operator: str) -> dict[str, int]:
        """What became of changes."""
        return {end: self._ends[operator, end] for end in ENDS}

    def looks(self, operator: str) -> int:
        """How often it was looked at."""
        return self._looks[operator]

    def faults(self, operator: str) -> int:
        """How often something went wrong with it."""
        return self._faults[operator]
