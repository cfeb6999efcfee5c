# SPDX-License-Identifier: Apache-2.0
"""Auto-scalers compared again (Gesscale, Table III and Fig. 7): the shipped policies in the simulator, over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from math import inf
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np

from penstock.evaluation.elasticity import Elasticity, Step, elasticity, instants_of_changes, interrupted, supply_of
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction
from penstock.evaluation.scaler_experiment import FIGURES, IDEAL, OF_SUPPLY, ScalersExperiment, operator_name
from penstock.evaluation.simulation import simulate
from penstock.loop import CycleReport
from penstock.records import Objective

PUBLISHED_SCALER, BETTER_SCALER = "Gesscale", "gesscale+"
FEWER_CHANGES, LOWER_COST = 52.0, 17.0
"""Percent below the baseline that the paper reports."""


@dataclass(frozen=True, slots=True)
class ScalerRun:
    """One scaler on one seed.

    Attributes
    ----------
    scaler, seed
        Which.
    figures
        How it did.
    chosen
        The same by the executors it chose, as if no change had stopped it.
    supply, demand
        Executors that worked, none during a standstill, and those of the ideal one.
    moments
        Seconds, arrivals a second and records done a second, look by look.
    """

    scaler: str
    seed: int
    figures: Elasticity
    chosen: Elasticity
    supply: tuple[Step, ...]
    demand: tuple[Step, ...]
    moments: tuple[tuple[float, float | None, float | None], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data: the row of the table."""
        chosen = {figure: getattr(self.chosen, figure) for figure in OF_SUPPLY}
        return {"scaler": self.scaler, "seed": self.seed, **self.figures.to_json(), "chosen": chosen}


def run_scaler(experiment: ScalersExperiment, scaler: str, seed: int) -> ScalerRun:
    """Simulate one scaler on the load, the nodes and the service times of one seed."""
    times = experiment.arrivals(seed)
    demand = experiment.demand(seed, times)
    if scaler == IDEAL:
        figures = elasticity(demand, demand, experiment.duration)
        return ScalerRun(scaler, seed, figures, figures, tuple(demand), tuple(demand))
    moments: list[tuple[float, float | None, float | None]] = []

    def take(report: CycleReport) -> None:
        seen = report.observation
        moments.append((seen.at, seen.arrival_rate_rows_per_second, seen.processed_rows_per_second))

    result = simulate(
        times,
        experiment.pipeline(seed),
        experiment.choice(scaler, seed),
        Objective(),
        seed,
        start=experiment.start(seed),
        guards=experiment.guards,
        interval_seconds=experiment.interval,
        monitor_seconds=experiment.window,
        on_report=take,
    )
    allocations = result.allocations[operator_name()]
    paid, changes = supply_of(allocations), instants_of_changes(allocations)
    supply = interrupted(paid, changes, experiment.operator.standstill)
    figures, chosen = (
        elasticity(had, demand, experiment.duration, ended_at=result.seconds, reconfigurations=len(changes), paid=paid)
        for had in (supply, paid)
    )
    kept = tuple(moments) if seed == experiment.first_seed else ()
    return ScalerRun(scaler, seed, figures, chosen, tuple(supply), tuple(demand), kept)


def run_scalers(experiment: ScalersExperiment, call: Call) -> list[ScalerRun]:
    """Every scaler on every seed, in the order of the file; of each seed the ideal one too."""
    seeds = range(experiment.first_seed, experiment.first_seed + experiment.seeds)
    jobs = [(scaler, seed) for seed in seeds for scaler in (*experiment.scalers, IDEAL)]
    found: dict[tuple[str, int], ScalerRun] = {}

    def note(run: ScalerRun) -> None:
        found[run.scaler, run.seed] = run
        if call.progress is not None:
            call.progress(len(found) / len(jobs))

    with ExitStack() as stack:
        if call.workers > 1:
            pool = stack.enter_context(ProcessPoolExecutor(call.workers, mp_context=get_context("spawn")))
            for done in as_completed([pool.submit(run_scaler, experiment, *job) for job in jobs]):
                note(done.result())
        else:
            for job in jobs:
                note(run_scaler(experiment, *job))
    order = [*experiment.scalers, IDEAL]
    return sorted(found.values(), key=lambda run: (order.index(run.scaler), run.seed))


def reproduce_scalers(experiment: ScalersExperiment, call: Call) -> Reproduction:
    """Compare them again."""
    return as_reproduction(experiment, call.name, run_scalers(experiment, call))


def as_reproduction(experiment: ScalersExperiment, name: str, runs: Sequence[ScalerRun]) -> Reproduction:
    """The runs as a table, a picture and plain data."""
    from penstock.evaluation.scaler_pictures import scalers_picture

    by_scaler = {scaler: [run for run in runs if run.scaler == scaler] for scaler in (*experiment.scalers, IDEAL)}
    published = {scaler: row.model_dump() for scaler, row in experiment.published.items()}
    bars = bars_of(experiment, by_scaler)
    document = {
        "experiment": name, "paper": experiment.paper, "published": published,
        "rows": [{**run.to_json(), "published": published.get(run.scaler)} for run in runs],
        "median": {scaler: middle(found) for scaler, found in by_scaler.items()},
        "median_chosen": {scaler: middle_chosen(found) for scaler, found in by_scaler.items()}, "bars": bars,
    }  # fmt: skip
    shown = [run for run in runs if run.seed == experiment.first_seed]
    return Reproduction(
        document,
        (
            f"{experiment.paper}: {experiment.title}",
            f"Each scaler on {experiment.seeds} seeds of load, service times and delays: the median, and the middle "
            "half. Lower is better.",
        ),
        (_grid(by_scaler, published),),
        lambda: scalers_picture(shown, experiment.duration),
        tuple(f"{'met' if bar['is_met'] else 'MISSED'}: {bar['says']}" for bar in bars),
    )


def middle(runs: Sequence[ScalerRun]) -> dict[str, float]:
    """The median of each figure over seeds."""
    return {figure: float(median(getattr(run.figures, figure) for run in runs)) for figure in FIGURES}


def middle_chosen(runs: Sequence[ScalerRun]) -> dict[str, float]:
    """The same of the figures that a standstill changes, by the executors that were chosen."""
    return {figure: float(median(getattr(run.chosen, figure) for run in runs)) for figure in OF_SUPPLY}


def bars_of(experiment: ScalersExperiment, by_scaler: Mapping[str, Sequence[ScalerRun]]) -> list[dict[str, Any]]:
    """What is wanted of both Gesscales against the baseline, and of `gesscale+` against Gesscale.

    "In the median over seeds" can be read in two ways: of each scaler's figures, or of the differences on the same
    seed. Both are given, and a bar is met where both are better.
    """
    bars: list[dict[str, Any]] = []

    def compare(ours: str, theirs: str, figure: str, least_percent: float) -> None:
        pairs = list(zip(by_scaler.get(ours, ()), by_scaler.get(theirs, ()), strict=True))
        if not pairs:
            return
        values = [(_of(a, figure), _of(b, figure)) for a, b in pairs]
        low, mid, high = _less_percent(values)
        better = sum(a < b for a, b in values)
        ours_median, theirs_median = (float(median(column)) for column in zip(*values, strict=True))
        of_medians = _less_percent([(ours_median, theirs_median)])[1]
        is_met = all(less >= least_percent if least_percent > 0.0 else less > 0.0 for less in (mid, of_medians))
        bars.append(
            {
                "scaler": ours, "against": theirs, "figure": figure, "less_percent": mid, "less_percent_low": low,
                "less_percent_high": high, "wanted_percent": least_percent, "less_on": better, "seeds": len(values),
                "median": ours_median, "median_against": theirs_median, "medians_less_percent": of_medians,
                "is_met": is_met,
                "says": f"{ours} has {_less_text(mid)} {figure} than {theirs} on the same seed "
                f"(half of the seeds: {_less_text(low)} to {_less_text(high)}; less on {better} of {len(values)}), and "
                f"{_less_text(of_medians)} in the medians of each ({ours_median:.4g} and {theirs_median:.4g}), "
                f"wanted {'at least ' + format(least_percent, '.0f') + ' %' if least_percent else 'less'}",
            }
        )  # fmt: skip

    for scaler in (PUBLISHED_SCALER, BETTER_SCALER):
        if scaler in by_scaler and experiment.baseline in by_scaler:
            compare(scaler, experiment.baseline, "reconfigurations", FEWER_CHANGES)
            compare(scaler, experiment.baseline, "cost", LOWER_COST)
            compare(scaler, experiment.baseline, "accuracy_under", 0.0)
    if PUBLISHED_SCALER in by_scaler and BETTER_SCALER in by_scaler:
        for figure in ("accuracy_under", "timeshare_under", "excess_time", "cost"):
            compare(BETTER_SCALER, PUBLISHED_SCALER, figure, 0.0)
    return bars


def _of(run: ScalerRun, figure: str) -> float:
    return float(getattr(run.figures, figure))


def _less_percent(pairs: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """By how many percent the first is less than the second: the quartiles over pairs.

    The median, and those of the lower and the upper half (Tukey's hinges); of an even number, the middle two's mean.
    """
    found = sorted(0.0 if a == b else 100.0 * (1.0 - a / b) if b else -inf for a, b in pairs)
    half = (len(found) + 1) // 2
    return median(found[:half]), median(found), median(found[-half:])


def _less_text(percent: float) -> str:
    """So much less or more, in words; more than nothing has no percentage.

    Examples
    --------
    >>> _less_text(18.83), _less_text(-4.2), _less_text(0.02), _less_text(-inf)
    ('18.8 % less', '4.20 % more', '0.02 % less', 'more')
    """
    if percent == -inf:
        return "more"
    digits = 1 if abs(percent) >= 10.0 else 2  # less than a percent is not nothing
    return f"{abs(percent):.{digits}f} % {'less' if percent >= 0.0 else 'more'}"


def _grid(by_scaler: Mapping[str, Sequence[ScalerRun]], published: Mapping[str, Mapping[str, float]]) -> Grid:
    headings = ("over", "under", "% over", "% under", "excess", "changes", "cost")
    columns = (Column("scaler", is_number=False), *(Column(heading) for heading in headings))
    rows: list[tuple[str, ...] | None] = []
    for scaler, runs in by_scaler.items():
        middles = [np.percentile([_of(run, figure) for run in runs], [25, 50, 75]) for figure in FIGURES]
        rows.append((scaler, *(figure_text(figure, float(m[1])) for figure, m in zip(FIGURES, middles, strict=True))))
        spread = (
            f"{figure_text(figure, float(m[0]))}-{figure_text(figure, float(m[2]))}"
            for figure, m in zip(FIGURES, middles, strict=True)
        )
        rows.append(("  middle half", *spread))
        if scaler in published:
            rows.append(("  the paper", *(figure_text(figure, published[scaler][figure]) for figure in FIGURES)))
    return Grid(columns, tuple(rows))


def figure_text(name: str, value: float) -> str:
    """A figure of the table, with as many digits as it has use for."""
    digits = {"reconfigurations": 0, "cost": 0, "timeshare_over": 0, "timeshare_under": 0, "excess_time": 6}
    return f"{value:.{digits.get(name, 2)}f}"
