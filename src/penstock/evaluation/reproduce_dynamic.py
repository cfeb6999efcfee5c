# SPDX-License-Identifier: Apache-2.0
"""Dynamic scaling done again: one run in accelerated time, its load, its CPU and its size over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.apps.google_cluster.check import differences, expected_results
from penstock.apps.google_cluster.results import read_results
from penstock.evaluation.live_experiment import DynamicExperiment
from penstock.evaluation.live_run import LiveRun, Watcher, run_live, working_folder
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.records import Observation


@dataclass(frozen=True, slots=True)
class Moment:
    """The scaled operator at one time."""

    seconds: float
    arrivals_per_second: float | None
    done_per_second: float | None
    waiting: int | None
    utilisation: float | None
    executors: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {name: getattr(self, name) for name in self.__slots__}


def reproduce_dynamic(experiment: DynamicExperiment, call: Call) -> Reproduction:
    """Run it; a file of rules that the policy names is looked for beside the experiment's own."""
    folder = working_folder(call.name)
    trace = experiment.trace.path(folder)
    settings = experiment.settings(experiment.trace.arrivals(trace))
    watcher = None
    if call.progress is not None:
        watcher = Watcher(experiment.scaled, experiment.trace.rows(trace), call.progress)
    run = run_live({**settings, "policy": with_files(settings.get("policy"), call.folder)}, folder, watcher)
    wrong = differences(read_results(run.output_of(experiment.results_of)), expected_results(trace))
    return as_reproduction(experiment, call.name, run, wrong)


def with_files(policy: Any, folder: Path) -> Any:
    """The policy with its file of rules as a whole path, for the run's settings stand elsewhere."""
    if isinstance(policy, dict):
        options = policy.get("options", {})
        rules = options.get("rules")
        if isinstance(rules, str) and (folder / rules).is_file():
            return {**policy, "options": {**options, "rules": str((folder / rules).resolve())}}
    return policy


def moments(observations: Sequence[Observation]) -> list[Moment]:
    """What was seen, from the first look on."""
    return [
        Moment(
            seen.at - observations[0].at,
            seen.arrival_rate_rows_per_second,
            seen.processed_rows_per_second,
            seen.backlog_records,
            seen.utilisation,
            None if seen.cluster.observed is None else seen.cluster.observed.executors,
        )
        for seen in observations
    ]


def as_reproduction(experiment: DynamicExperiment, name: str, run: LiveRun, wrong: Sequence[str]) -> Reproduction:
    """The run as a table, a picture and plain data."""
    from penstock.evaluation.scaling_pictures import dynamic_picture

    seen = moments(run.history.observations.get(experiment.scaled, ()))
    start = run.history.observations[experiment.scaled][0].at if seen else 0.0
    changes: list[dict[str, Any]] = [
        {
            "seconds": decision.at - start, "from": str(decision.current), "to": str(decision.target),
            "reason": decision.reason,
        }
        for decision in run.history.changes
        if decision.operator == experiment.scaled
    ]  # fmt: skip
    document = {
        "experiment": name, "paper": experiment.paper, "published": experiment.published, "changes": changes,
        "moments": [moment.to_json() for moment in seen], "load_average": run.load_average,
        "wrong_results": list(wrong),
    }  # fmt: skip
    remarks = [f"at {change['seconds']:.0f} s {change['to']}: {change['reason']}" for change in changes]
    remarks.append(
        f"{len(wrong)} differences from pandas, the first: {wrong[0]}"
        if wrong
        else "the results are those of pandas, to the last digit"
    )
    remarks.append(f"load average of the machine at the end of the run: {run.load_average:.1f}")
    return Reproduction(
        document,
        (f"{experiment.paper}: {experiment.title}", f"The paper: {experiment.published}"),
        (_grid(seen, experiment.step),),
        lambda: dynamic_picture(seen, [change["seconds"] for change in changes]),
        tuple(remarks),
    )


def _grid(seen: Sequence[Moment], step: float) -> Grid:
    columns = tuple(Column(heading) for heading in ("s", "arrive/s", "done/s", "waiting", "CPU used", "executors"))
    rows: list[tuple[str, ...] | None] = []
    due = 0.0
    for moment in seen:
        if moment.seconds < due:
            continue
        due = moment.seconds + step
        figures = (moment.arrivals_per_second, moment.done_per_second, moment.waiting)
        used = "-" if moment.utilisation is None else f"{moment.utilisation:.0%}".replace("%", " %")
        shown = ("-" if figure is None else f"{figure:,.0f}" for figure in figures)
        rows.append((f"{moment.seconds:.0f}", *shown, used, "-" if moment.executors is None else str(moment.executors)))
    return Grid(columns, tuple(rows))
