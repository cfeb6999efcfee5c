# SPDX-License-Identifier: Apache-2.0
"""Tests of scaling rules done again: the shipped policy in the simulator, held against what was worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.evaluation.policy_text import PolicyChoice
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.rules_experiment import DueChange, RulesExperiment, RulesTest
from penstock.evaluation.simulation import simulate
from penstock.loop import CycleReport
from penstock.records import Allocation, Decision, Objective

_RATES_OVER_SECONDS = 5.0
"""What rates are taken over: the paper samples every five seconds."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one look saw of an operator."""

    at: float
    queue: int | None
    executors: int | None
    arrivals_per_second: float | None
    done_per_second: float | None


@dataclass(frozen=True, slots=True)
class RulesTestResult:
    """A test that was run."""

    test: RulesTest
    samples: dict[str, tuple[Sample, ...]]
    """By operator."""
    changes: tuple[Decision, ...]
    interval_seconds: float

    @property
    def is_as_due(self) -> bool:
        """Whether the changes are those that were due, each within the interval of a reading."""
        return len(self.changes) == len(self.test.due) and all(
            self._is_due(change, due) for change, due in zip(self.changes, self.test.due, strict=True)
        )

    def _is_due(self, change: Decision, due: DueChange) -> bool:
        return (
            change.operator == due.operator
            and change.target.executors == due.executors
            and abs(change.at - due.at) <= self.interval_seconds
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data, with every reading."""
        return {
            "section": self.test.section, "title": self.test.title, "is_as_due": self.is_as_due,
            "due": [due.model_dump() for due in self.test.due],
            "changes": [
                {
                    "at": change.at, "operator": change.operator, "from": change.current.executors,
                    "to": change.target.executors, "rule": change.evidence.get("rule"),
                    "readings": change.evidence.get("readings"),
                }
                for change in self.changes
            ],
            "queue_length": {name: [s.queue for s in samples] for name, samples in self.samples.items()},
            "executors": {name: [s.executors for s in samples] for name, samples in self.samples.items()},
            "by_hand": self.test.by_hand, "published": self.test.published,
        }  # fmt: skip


def run_rules_test(test: RulesTest, folder: Path, interval_seconds: float = 1.0) -> RulesTestResult:
    """Run one test, with the rules in `folder`; what happens after the stream's end is left out."""
    pipeline = test.pipeline()
    samples: dict[str, list[Sample]] = {operator.name: [] for operator in pipeline.operators}

    def take(report: CycleReport) -> None:
        seen = report.observation
        if seen.at <= test.seconds:
            there = seen.cluster.observed
            samples[seen.operator].append(
                Sample(
                    seen.at,
                    seen.backlog_records,
                    None if there is None else there.executors,
                    seen.arrival_rate_rows_per_second,
                    seen.processed_rows_per_second,
                )
            )

    result = simulate(
        test.times(),
        pipeline,
        PolicyChoice("rules", {"rules": str(folder / test.rules)}),
        Objective(),
        start={operator.name: Allocation(1) for operator in pipeline.operators},
        interval_seconds=interval_seconds,
        monitor_seconds=_RATES_OVER_SECONDS,
        on_report=take,
    )
    return RulesTestResult(
        test,
        {name: tuple(found) for name, found in samples.items()},
        tuple(change for change in result.changes if change.at <= test.seconds),
        interval_seconds,
    )


def reproduce_rules(experiment: RulesExperiment, call: Call) -> Reproduction:
    """Do every test; what the paper reports stands beside what was due and what happened."""
    from penstock.evaluation.rules_pictures import rules_picture

    results: list[RulesTestResult] = []
    for number, test in enumerate(experiment.tests, start=1):
        results.append(run_rules_test(test, call.folder, experiment.interval))
        if call.progress is not None:
            call.progress(number / len(experiment.tests))
    document = {
        "experiment": call.name, "paper": experiment.paper, "interval_seconds": experiment.interval,
        "tests": [result.to_json() for result in results],
    }  # fmt: skip
    words = (f"{experiment.paper}: {experiment.title}",)
    as_due = sum(result.is_as_due for result in results)
    remarks = (f"{as_due} of {len(results)} tests went as worked out by hand, to the interval of a reading.",)
    return Reproduction(document, words, (rules_grid(results),), lambda: rules_picture(results), remarks)


def rules_grid(results: list[RulesTestResult]) -> Grid:
    """A line for each change: when it was due, when it came, and what the paper reports."""
    rows: list[tuple[str, ...] | None] = []
    for result in results:
        test = result.test
        due = [f"{d.operator} {d.executors} at {d.at:g} s" for d in test.due] or ["none"]
        came = [f"{c.operator} {c.target.executors} at {c.at:g} s" for c in result.changes] or ["none"]
        lines = max(len(due), len(came))
        for i in range(lines):
            head = (test.section, test.title) if i == 0 else ("", "")
            published = test.published if i == 0 else ""
            rows.append((*head, *(x[i] if i < len(x) else "" for x in (due, came)), published))
        rows.append(None)
    columns = (
        Column("test", is_number=False), Column("", is_number=False, may_fold=True), Column("by hand", is_number=False),
        Column("ours", is_number=False), Column("paper", is_number=False, may_fold=True),
    )  # fmt: skip
    return Grid(columns, tuple(rows[:-1]))
