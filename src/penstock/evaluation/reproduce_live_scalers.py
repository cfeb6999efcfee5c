# SPDX-License-Identifier: Apache-2.0
"""Auto-scalers compared on a real geo cluster, in accelerated time: the shipped policies place real executors.

A first run is overloaded all the time, and shows what each number of executors does at its maximum. The load of the
others, and what the ideal auto-scaler would have, follow from it. Each run is kept when it ends, so the comparison may
be interrupted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from penstock.errors import ClusterError, ConfigurationError
from penstock.evaluation.elasticity import Elasticity, Step, changes_seen, elasticity
from penstock.evaluation.history import RunHistory
from penstock.evaluation.live_run import LiveRun, geo_working_folder, run_live
from penstock.evaluation.live_scalers_experiment import OPERATOR, LiveScalersExperiment
from penstock.evaluation.reproduce_scalers import ScalerRun, figure_text
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.runs_at_maximum import samples_at_maximum
from penstock.evaluation.scaler_experiment import FIGURES
from penstock.performance.throughput.curve_model import CurveModel
from penstock.records import Allocation, ThroughputSample

MEASURED = "measured"
"""The row of the run that shows what each number of executors does."""


def reproduce_live_scalers(experiment: LiveScalersExperiment, call: Call) -> Reproduction:
    """Run what is missing, then compare."""
    from penstock.evaluation.scaler_pictures import scalers_picture

    path = call.folder / experiment.kept
    law = run_missing(experiment, call, path)
    rows = read_rows(path)
    measured = _by_size(row for row in rows if row["scaler"] == MEASURED)
    seen = _by_size(row for row in rows if row["scaler"] in experiment.scalers)
    demand = experiment.demand(law)
    kept = [row for row in rows if row["scaler"] in experiment.scalers]
    runs = [run_of(row, demand, experiment.duration) for row in kept]
    runs.sort(key=lambda run: (list(experiment.scalers).index(run.scaler), run.seed))
    published = {scaler: row.model_dump() for scaler, row in experiment.published.items()}
    ideal = elasticity(demand, demand, experiment.duration)
    document = {
        "experiment": call.name, "paper": experiment.paper, "machine": experiment.machine, "published": published,
        "sustained": [experiment.sustained(law, n + 1) for n in range(experiment.executors[1])],
        "measured": measured, "seen_in_runs": seen,
        "rows": [
            {"scaler": run.scaler, "seed": run.seed, **run.figures.to_json(), "published": published.get(run.scaler)}
            for run in runs
        ],
        "ideal": ideal.to_json(),
    }  # fmt: skip
    words = (
        f"{experiment.paper}: {experiment.title}",
        f"on Spark: {experiment.machine}; minutes {experiment.minutes[0]:g} to {experiment.minutes[1]:g} of the replay "
        f"in {experiment.duration / 60.0:g}; {len(runs)} runs",
    )
    first = [next(run for run in runs if run.scaler == scaler) for scaler in dict.fromkeys(r.scaler for r in runs)]
    return Reproduction(
        document, words, (_grid(runs, ideal, published),), lambda: scalers_picture(first, experiment.duration),
        ("the paper's figures are of 288 minutes on Flink, where every change stands still for 120 s",),
    )  # fmt: skip


def run_missing(experiment: LiveScalersExperiment, call: Call, path: Path) -> CurveModel:
    """Run what the file lacks, and keep what was seen of it at once; returns what was measured before all others.

    Raises
    ------
    ClusterError
        A run failed, or the first did not show each number of executors at its maximum.
    """
    rows = read_rows(path)
    known = {(row["scaler"], row["repeat"]) for row in rows}
    turns = [(scaler, repeat) for repeat in range(1, experiment.repeats + 1) for scaler in experiment.scalers]
    missing = [turn for turn in turns if turn not in known]
    measured = [row for row in rows if row["scaler"] == MEASURED]
    of_all = len(missing) + (not measured)
    folder = geo_working_folder(call.name) if of_all else path.parent

    def run(number: int, scaler: str, settings: Mapping[str, Any]) -> tuple[LiveRun, dict[str, Any]]:
        if call.say is not None:
            call.say(f"run {number} of {of_all}: {scaler}")
        done = run_live(settings, folder / f"{number}")
        lead = 0.0 if scaler == MEASURED else experiment.lead
        return done, as_row(done.history, lead, experiment.application.rows_per_batch)

    def keep(number: int, row: dict[str, Any]) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if call.progress is not None:
            call.progress(number / of_all)

    if not measured:
        done, seen = run(1, MEASURED, experiment.measuring_settings())
        least, most = experiment.executors
        seen["at_maximum"] = [one for one in seen["at_maximum"] if least <= len(one[0]) <= most]
        lacking = sorted(set(range(least, most + 1)) - {len(nodes) for nodes, _ in seen["at_maximum"]})
        if lacking:
            raise ClusterError(
                f"the first run showed no maximum of {' and '.join(map(str, lacking))} executors; make "
                "measuring.duration longer, or measuring.rate higher",
                target=str(done.folder),
            )
        measured = [
            {"scaler": MEASURED, "repeat": 0, "load_average": done.load_average, "at_maximum": seen["at_maximum"]}
        ]
        keep(1, measured[0])
    law = experiment.law([sample for row in measured for sample in _samples_of(row)])
    for number, (scaler, repeat) in enumerate(missing, start=1 + of_all - len(missing)):
        done, seen = run(number, scaler, experiment.settings(scaler, law))
        keep(number, {"scaler": scaler, "repeat": repeat, "load_average": done.load_average, **seen})
    return law


def as_row(history: RunHistory, lead: float, cap: int) -> dict[str, Any]:
    """What a comparison needs of a run: executors and rates over time, what changed into what, and the end.

    Parameters
    ----------
    history
        The run.
    lead
        Seconds from its start to the two days, whose start is time 0.
    cap
        Most records of a batch.
    """
    seen = [o for o in history.observations[OPERATOR] if o.cluster.observed is not None]
    start = seen[0].at + lead
    late = [one.at - start for one in seen if one.backlog_records]
    changes = [(at, became) for at, became in changes_seen(seen) if at >= start]
    moments = [
        [round(o.at - start, 1), _rounded(o.arrival_rate_rows_per_second), _rounded(o.processed_rows_per_second)]
        for o in seen
        if o.at >= start
    ]
    had = [[round(o.at - start, 1), o.cluster.observed.executors] for o in seen if o.cluster.observed is not None]
    return {
        "executors": [one for place, one in enumerate(had) if place == 0 or one[1] != had[place - 1][1]],
        "moments": moments,
        "ended_at": round(max(late, default=0.0), 1),
        "changes": [[round(at - start, 1), became.executors, [n for n, _ in became.nodes]] for at, became in changes],
        "at_maximum": [
            [[n for n, _ in one.allocation.nodes], round(one.records_per_second, 1)]
            for one in samples_at_maximum(seen, cap)
            if one.allocation.nodes
        ],
    }


def _by_size(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """What was seen of each number of executors at its maximum: the median, and how many samples there are."""
    found: dict[int, list[float]] = {}
    for row in rows:
        for nodes, rate in row["at_maximum"]:
            found.setdefault(len(nodes), []).append(rate)
    return [
        {"executors": size, "records_per_second": median(rates), "samples": len(rates)}
        for size, rates in sorted(found.items())
    ]


def _samples_of(row: Mapping[str, Any]) -> list[ThroughputSample]:
    return [
        ThroughputSample(Allocation(len(nodes), nodes=tuple((node, 1) for node in nodes)), rate)
        for nodes, rate in row["at_maximum"]
    ]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The runs that were kept; empty where there is no file."""
    if not path.is_file():
        return []
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except ValueError as fault:
        raise ConfigurationError(f"{path}: cannot be read: {fault}", field="kept") from fault


def run_of(row: Mapping[str, Any], demand: Sequence[Step], seconds: float) -> ScalerRun:
    """A kept run with its figures. On Spark nothing stands still for a change, so what was there was supplied."""
    had = [(float(at), float(n)) for at, n in row["executors"]]
    first = next((n for at, n in reversed(had) if at <= 0.0), had[0][1])
    supply = [(0.0, first), *((at, n) for at, n in had if at > 0.0)]
    figures: Elasticity = elasticity(
        supply, demand, seconds, ended_at=row["ended_at"], reconfigurations=len(row["changes"])
    )
    moments = tuple((at, came, done) for at, came, done in row["moments"])
    return ScalerRun(row["scaler"], row["repeat"], figures, figures, tuple(supply), tuple(demand), moments)


def _grid(runs: Sequence[ScalerRun], ideal: Elasticity, published: Mapping[str, Mapping[str, float]]) -> Grid:
    headings = ("over", "under", "% over", "% under", "excess", "changes", "cost")
    columns = (Column("scaler", is_number=False), *(Column(heading) for heading in headings))

    def row(name: str, figures: Mapping[str, float]) -> tuple[str, ...]:
        return (name, *(figure_text(figure, float(figures[figure])) for figure in FIGURES))

    rows: list[tuple[str, ...] | None] = []
    for scaler in dict.fromkeys(run.scaler for run in runs):
        mine = [run for run in runs if run.scaler == scaler]
        rows += [row(scaler if len(mine) == 1 else f"{scaler}, run {run.seed}", run.figures.to_json()) for run in mine]
        if len(mine) > 1:
            middle = {f: median(float(getattr(run.figures, f)) for run in mine) for f in FIGURES}
            rows.append(row("  median", middle))
        if scaler in published:
            rows.append(row("  the paper", published[scaler]))
    return Grid(columns, (*rows, None, row("ideal", ideal.to_json())))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
