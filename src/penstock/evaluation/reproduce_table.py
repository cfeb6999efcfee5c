# SPDX-License-Identifier: Apache-2.0
"""A table done again, as words: the paper's figures beside ours."""

from __future__ import annotations

from penstock.evaluation.experiment_file import TableExperiment
from penstock.evaluation.reproduce import CellResult, TableRun
from penstock.evaluation.reproduction import Call, Column, Grid, Reproduction


def reproduce_table(experiment: TableExperiment, call: Call) -> Reproduction:
    """Run every row of every cell."""
    from penstock.evaluation.reproduce_pictures import table_picture

    seeds = experiment.seeds
    results = TableRun(experiment, experiment.arrivals(), seeds, call.workers).results(call.progress)
    document = {
        "experiment": call.name, "paper": experiment.paper, "seeds": seeds, "statistic": experiment.statistic,
        "cells": [{**cell.to_json(), "published": _published(experiment, cell)} for cell in results],
    }  # fmt: skip
    return Reproduction(
        document,
        (f"{experiment.paper}: {experiment.title}, {seeds} seeds",),
        (results_grid(experiment, results),),
        lambda: table_picture(experiment, results),
    )


def _published(experiment: TableExperiment, cell: CellResult) -> dict[str, float] | None:
    for trace in experiment.traces:
        for declared in trace.cells:
            if trace.name == cell.trace and declared.bound == cell.bound and cell.row in declared.published:
                return declared.published[cell.row].model_dump()
    return None


def results_grid(experiment: TableExperiment, results: tuple[CellResult, ...]) -> Grid:
    """A line for each trace, bound and row: the paper's figures and ours."""
    columns = (
        Column("trace", is_number=False), Column("bound"), Column("row", is_number=False, may_fold=True),
        *(Column(heading) for heading in ("paper", "ours", "paper CPU", "ours CPU", "met")),
    )  # fmt: skip
    rows: list[tuple[str, ...] | None] = []
    last = None
    for cell in results:
        at = (cell.trace, cell.bound)
        if last is not None and at != last:
            rows.append(None)
        published = _published(experiment, cell)
        rows.append(
            (
                *((cell.trace, f"{cell.bound:g} s") if at != last else ("", "")),
                cell.row,
                "-" if published is None else f"{published['seconds']:.3f} s",
                f"{cell.seconds:.3f} s",
                "-" if published is None else f"{published['cpu']:.1f} %",
                f"{cell.cpu:.1%}".replace("%", " %"),
                f"{cell.met}/{len(cell.runs)}",
            )
        )
        last = at
    return Grid(columns, tuple(rows))
