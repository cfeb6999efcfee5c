# SPDX-License-Identifier: Apache-2.0
"""The plans of a run that were judged, out of its decisions: what was predicted, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.evaluation.history import plain_number
from penstock.records import Decision


@dataclass(frozen=True, slots=True)
class ToldPlan:
    """A prediction with its interval, and what was then measured, in seconds; with the coverage up to then.

    `at` is the first decision that tells of it.
    """

    at: float
    path: str
    predicted: float
    low: float
    high: float
    measured: float
    judged: int
    coverage: float
    confidence: float | None


def judged_plans(decisions: Iterable[Decision]) -> list[ToldPlan]:
    """Every plan once, however many decisions tell of it, oldest first."""
    found: list[ToldPlan] = []
    counted: dict[str, int] = {}
    confidence: float | None = None
    for decision in decisions:
        told = decision.evidence
        path, judged = told.get("judged_path"), told.get("predictions_judged")
        if decision.prediction is not None:
            confidence = decision.prediction.confidence
        values = [
            plain_number(told.get(name))
            for name in (
                "last_predicted_seconds", "last_low_seconds", "last_high_seconds", "last_measured_seconds",
                "prediction_coverage",
            )
        ]  # fmt: skip
        if not isinstance(path, str) or not isinstance(judged, int) or judged <= counted.get(path, 0):
            continue
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            counted[path] = judged
            predicted, low, high, measured, coverage = known
            found.append(ToldPlan(decision.at, path, predicted, low, high, measured, judged, coverage, confidence))
    return found
