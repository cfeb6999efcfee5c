# SPDX-License-Identifier: Apache-2.0
"""Throughput through a change of size: the seconds in which no record is done, beside those of another engine.

Records of a micro-batch are done when it ends. So between two ends nothing is ever done, change or no change: the
longest time between two ends while the size changes stands beside the longest before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock.errors import ClusterError
from penstock.evaluation.history import RunHistory
from penstock.evaluation.live_run import run_live, working_folder
from penstock.evaluation.reconfiguration_experiment import ReconfigurationExperiment
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.measuring.throughput import BatchEnd
from penstock.records import Decision, Observation, OutcomeStatus


@dataclass(frozen=True, slots=True)
class Standstill:
    """One change of one run. Times are in seconds from the first look.

    Attributes
    ----------
    run, change
        Which run, and from what to what.
    decided, in_force
        When; None: it was not in force before the run ended.
    longest, longest_before
        The longest time between two ends of batches during the change and some time after, and before it; None: too
        few batches ended.
    ends
        The ends of all batches of the run, with the records done by then.
    executors
        How many there were at each look.
    """

    run: str
    change: str
    decided: float
    in_force: float | None
    longest: float | None
    longest_before: float | None
    ends: tuple[BatchEnd, ...]
    executors: tuple[tuple[float, int], ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "run": self.run, "change": self.change, "decided_at_seconds": self.decided,
            "in_force_at_seconds": self.in_force, "standstill_seconds": self.longest,
            "standstill_before_seconds": self.longest_before,
            "batches": [[end.at, end.records_done] for end in self.ends],
        }  # fmt: skip


def reproduce_reconfiguration(experiment: ReconfigurationExperiment, call: Call) -> Reproduction:
    """Run each pipeline, and look at its first growth."""
    from penstock.evaluation.reconfiguration_pictures import reconfiguration_picture

    folder, found = working_folder(call.name), list[Standstill]()
    for number, (name, one) in enumerate(experiment.runs.items(), start=1):
        if call.say is not None:
            call.say(f"run {number} of {len(experiment.runs)}: {one.title}")
        run = run_live(one.pipeline, folder / name)
        found.append(standstill(experiment, name, run.history))
        if call.progress is not None:
            call.progress(number / len(experiment.runs))
    document = {
        "experiment": call.name, "paper": experiment.paper, "published": experiment.published,
        "rows": [one.to_json() for one in found],
    }  # fmt: skip
    return Reproduction(
        document,
        (
            f"{experiment.paper}: {experiment.title}",
            *(f"published: {name}: {seconds:g} s" for name, seconds in experiment.published.items()),
        ),
        (_grid(experiment, found),),
        lambda: reconfiguration_picture(experiment, found),
        (
            "stood still: the longest time between two ends of batches, from the decision until some time after the "
            "change was in force; before: the same over the time before it. Ends are seen at the looks of the loop",
        ),
    )


def standstill(experiment: ReconfigurationExperiment, name: str, history: RunHistory) -> Standstill:
    """The first growth of a run.

    Raises
    ------
    ClusterError
        The run never grew.
    """
    seen = history.observations.get(experiment.operator, ())
    growth = next((d for d in history.changes if d.operator == experiment.operator and d.is_growth), None)
    if growth is None or not seen:
        raise ClusterError(
            f"runs.{name}: the policy never asked for more; raise the load, or let it arrive for longer", target=name
        )
    start = seen[0].at
    ends = batch_ends(seen)
    in_force = _in_force(history, growth)
    until = (growth.at if in_force is None else in_force) + experiment.after
    return Standstill(
        name,
        f"{growth.current} to {growth.target}",
        growth.at - start,
        None if in_force is None else in_force - start,
        longest_gap(ends, growth.at, until),
        longest_gap(ends, growth.at - experiment.before, growth.at),
        tuple(BatchEnd(end.at - start, end.records_done) for end in ends),
        tuple((one.at - start, one.cluster.observed.executors) for one in seen if one.cluster.observed is not None),
    )


def batch_ends(observations: Sequence[Observation]) -> list[BatchEnd]:
    """When each batch with records was first seen to have ended, and the records that were done by then.

    A query that is started again counts its own records: what was done before it is added.
    """
    ends: list[BatchEnd] = []
    before = newest = 0
    for seen in observations:
        done = seen.records_done
        if done is None:
            continue
        if done < newest:
            before += newest
        if done > newest or (done < newest and done > 0):
            ends.append(BatchEnd(seen.at, before + done))
        newest = done
    return ends


def longest_gap(ends: Sequence[BatchEnd], since: float, until: float) -> float | None:
    """The longest time between two ends that a span has a part in; None: no two ends have."""
    gaps = [later.at - one.at for one, later in pairwise(ends) if later.at > since and one.at < until]
    return max(gaps, default=None)


def _in_force(history: RunHistory, change: Decision) -> float | None:
    outcome = history.outcome_of(change)
    if outcome is None or outcome.status not in (OutcomeStatus.DONE, OutcomeStatus.DRAINING):
        return None
    return outcome.at


def _grid(experiment: ReconfigurationExperiment, found: Sequence[Standstill]) -> Grid:
    columns = (
        Column("run", is_number=False), Column("change", is_number=False, may_fold=True), Column("in force after"),
        Column("stood still"), Column("before"),
    )  # fmt: skip

    def text(seconds: float | None) -> str:
        return "-" if seconds is None else f"{seconds:.1f} s"

    rows: list[tuple[str, ...] | None] = [
        (
            experiment.runs[one.run].title, one.change,
            text(None if one.in_force is None else one.in_force - one.decided), text(one.longest),
            text(one.longest_before),
        )
        for one in found
    ]  # fmt: skip
    rows += [None, *((name, "published", "-", text(seconds), "-") for name, seconds in experiment.published.items())]
    return Grid(columns, tuple(rows))
