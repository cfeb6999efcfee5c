# SPDX-License-Identifier: Apache-2.0
"""A frontier as words and tables: every row over all traces, and the distance to the best in hindsight on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from penstock.errors import ConfigurationError
from penstock.evaluation.frontier_experiment import FrontierExperiment
from penstock.evaluation.frontier_judgement import Distance, Point, better_in_both, compared, distances, points
from penstock.evaluation.frontier_runs import FrontierRow, run_frontier
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction


def reproduce_frontier(experiment: FrontierExperiment, call: Call) -> Reproduction:
    """Run all there are data for; the document is the list of runs."""
    from penstock.evaluation.frontier_pictures import frontier_picture

    missing = {t.name: why for t in experiment.traces if (why := t.arrivals.why_not()) is not None}
    there = tuple(trace for trace in experiment.traces if trace.name not in missing)
    if not there:
        raise ConfigurationError.of_all("PENSTOCK_DATA", [f"{name}: {why}" for name, why in missing.items()])
    runs = run_frontier(experiment.model_copy(update={"traces": there}), call)
    same, said = compared(experiment, runs), verdict(experiment, runs)
    return Reproduction(
        {"experiment": call.name, "verdict": said},
        (
            f"{experiment.title}: {len(there)} traces, {experiment.seeds} seeds, {len(runs)} runs",
            *(f"{name} left out: {why}" for name, why in missing.items()),
        ),
        (
            together_grid(experiment, points(experiment, same), "over all traces, each with the same weight"),
            *(
                together_grid(experiment, points(experiment, found), f"demand: {name}")
                for name in experiment.demands
                if (found := [run for run in runs if run.demand == name])
            ),
            distance_grid(distances(experiment, runs, experiment.main)),
        ),
        lambda: frontier_picture(experiment, runs),
        (said,),
        [asdict(run) for run in runs],
    )


def verdict(experiment: FrontierExperiment, runs: Sequence[FrontierRow]) -> str:
    """Whether a setting or constant, chosen once for all traces, beats the judged row in both."""
    better = better_in_both(experiment, runs, experiment.main)
    if not better:
        return f"no setting and no constant, chosen once for all, beats {experiment.main} in both violations and CPU"
    named = "; ".join(f"{p.row} ({_percent(p.violation)} violations, {_percent(p.cpu)} CPU)" for p in better)
    return f"better than {experiment.main} in both violations and CPU: {named}"


def together_grid(experiment: FrontierExperiment, found: dict[str, Point], caption: str) -> Grid:
    """A line for each row."""
    columns = (Column("row", is_number=False), *(Column(h) for h in ("violations", "CPU", "p95 / bound")))
    rows: list[tuple[str, ...] | None] = []
    kinds = [0 if name in experiment.policies else 1 if name in experiment.grid else 2 for name in found]
    for number, (name, point) in enumerate(found.items()):
        if number and kinds[number] != kinds[number - 1]:
            rows.append(None)
        rows.append((name, _percent(point.violation), _percent(point.cpu), f"{point.late:.2f}"))
    return Grid(columns, tuple(rows), caption)


def distance_grid(found: Sequence[Distance]) -> Grid:
    """A line for each trace."""
    columns = (
        Column("trace", is_number=False), Column("violations"), Column("CPU"),
        Column("best in hindsight", is_number=False), Column("CPU"), Column("best constant", is_number=False),
        Column("CPU"),
    )  # fmt: skip
    rows = [
        (one.trace, _percent(one.main.violation), _percent(one.main.cpu), *_named(one.best), *_named(one.constant))
        for one in found
    ]
    return Grid(columns, tuple(rows), "cheapest with at most as many violations, chosen for each trace afterwards")


def _named(point: Point | None) -> tuple[str, str]:
    return ("none", "-") if point is None else (point.row, _percent(point.cpu))


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")
