# SPDX-License-Identifier: Apache-2.0
"""`penstock reproduce`: an experiment of a paper done again, with the published figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from penstock.evaluation.experiment_file import CurveExperiment, TableExperiment
    from penstock.evaluation.reproduce import CellResult
    from penstock.evaluation.reproduce_curve import CurveResult


@click.command(short_help="Do an experiment of a paper again.")
@click.argument("name", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the experiments.")
@click.option("--seeds", type=click.IntRange(1), help="How many seeds of the service times.  [default: the file's]")
@click.option("--trace", "traces", multiple=True, metavar="TRACE", help="Only this trace; may be given several times.")
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes at once.")
@click.option(
    "--experiments", type=click.Path(path_type=Path), help="Folder of the experiments.  [default: experiments]"
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the result into this PNG file.")
@json_option
@debug_option
def reproduce(  # noqa: PLR0917 - click passes them by name
    name: str | None,
    is_list: bool,
    seeds: int | None,
    traces: tuple[str, ...],
    workers: int,
    experiments: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Run an experiment and print the figures of the paper beside ours.

    An experiment is a folder with a config.yaml, which says all that is run; its README says what it showed. Public
    traces are looked for in the folder named by PENSTOCK_DATA, then in ../shared/data; where one is missing, the
    message says where to get it. --seeds 2 and --trace are for a quick look.

    \b
    Examples:
      penstock reproduce --list
      penstock reproduce mead-table-1 --workers 2 --plot table-1.png
      penstock reproduce mead-table-2 --trace SYNT --seeds 2 --json
    """
    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError
    from penstock.evaluation.experiment_file import (
        TableExperiment,
        experiment_names,
        experiments_folder,
        load_experiment,
    )

    folder = experiments or experiments_folder()
    known = experiment_names(folder)
    console = words_console(as_json)
    if is_list or name is None:
        found = {one: load_experiment(folder / one) for one in known}
        for one, experiment in found.items():
            console.print(f"{one:<16} {experiment.paper}: {experiment.title}", markup=False)
        if as_json:
            print_json({one: {"paper": e.paper, "title": e.title} for one, e in found.items()})
        return
    if name not in known:
        there = ", ".join(known) or f"none in {folder}; run it in the source tree, or give --experiments"
        raise ConfigurationError(f"NAME: no experiment is called {name!r}; there are {there}", field="NAME")
    check_picture(plot)
    experiment = load_experiment(folder / name)
    strange = sorted(set(traces) - {trace.name for trace in experiment.traces})
    if strange:
        has = ", ".join(trace.name for trace in experiment.traces)
        raise ConfigurationError(f"--trace: {name} has no {', '.join(strange)}; it has {has}", field="--trace")
    if traces:
        kept = tuple(trace for trace in experiment.traces if trace.name in traces)
        experiment = experiment.model_copy(update={"traces": kept})
    number = seeds or experiment.seeds
    if isinstance(experiment, TableExperiment):
        document, picture = _table(experiment, name, number, workers, console)
    else:
        document, picture = _curve(experiment, name, number, console)
    if plot is not None:
        _write(plot, picture())
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        from penstock.evaluation.source_version import source_version

        print_json({**document, **source_version()})


def _table(
    experiment: TableExperiment, name: str, seeds: int, workers: int, console: Console
) -> tuple[dict[str, Any], Any]:
    from penstock.evaluation.reproduce import TableRun
    from penstock.evaluation.reproduce_pictures import table_picture

    # All traces are read before anything long is begun: a missing one is reported at once.
    arrivals = {trace.name: trace.arrivals.times() for trace in experiment.traces}
    run = TableRun(experiment, arrivals, seeds, workers)
    with progress_bar(name) as progress:
        results = run.results(progress)
    console.print(f"{experiment.paper}: {experiment.title}, {seeds} seeds", markup=False)
    console.print(results_table(experiment, results))
    document = {
        "experiment": name, "paper": experiment.paper, "seeds": seeds, "statistic": experiment.statistic,
        "cells": [{**cell.to_json(), "published": _published(experiment, cell)} for cell in results],
    }  # fmt: skip
    return document, lambda: table_picture(experiment, results)


def _published(experiment: TableExperiment, cell: CellResult) -> dict[str, float] | None:
    for trace in experiment.traces:
        for declared in trace.cells:
            if trace.name == cell.trace and declared.bound == cell.bound and cell.row in declared.published:
                return declared.published[cell.row].model_dump()
    return None


def results_table(experiment: TableExperiment, results: tuple[CellResult, ...]) -> Table:
    """A line for each trace, bound and row: the paper's figures and ours."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("trace", no_wrap=True)
    table.add_column("bound", justify="right", no_wrap=True)
    table.add_column("row", overflow="fold")
    for heading in ("paper", "ours", "paper CPU", "ours CPU", "met"):
        table.add_column(heading, justify="right", no_wrap=True)
    last = None
    for cell in results:
        at = (cell.trace, cell.bound)
        if last is not None and at != last:
            table.add_section()
        published = _published(experiment, cell)
        table.add_row(
            *((cell.trace, f"{cell.bound:g} s") if at != last else ("", "")),
            cell.row,
            "-" if published is None else f"{published['seconds']:.3f} s",
            f"{cell.seconds:.3f} s",
            "-" if published is None else f"{published['cpu']:.1f} %",
            f"{cell.cpu:.1%}".replace("%", " %"),
            f"{cell.met}/{len(cell.runs)}",
        )
        last = at
    return table


def _curve(experiment: CurveExperiment, name: str, seeds: int, console: Console) -> tuple[dict[str, Any], Any]:
    from penstock.evaluation.reproduce_curve import curve
    from penstock.evaluation.reproduce_pictures import curve_picture

    arrivals = {trace.name: trace.arrivals.times() for trace in experiment.traces}
    with progress_bar(name) as progress:
        results = curve(experiment, arrivals, seeds, progress)
    console.print(f"{experiment.paper}: {experiment.title}, {seeds} seeds", markup=False)
    console.print(f"The paper: {experiment.published}", markup=False)
    console.print(curve_table(results))
    document = {
        "experiment": name, "paper": experiment.paper, "seeds": seeds, "published": experiment.published,
        "traces": [result.to_json() for result in results],
    }  # fmt: skip
    return document, lambda: curve_picture(results)


def curve_table(results: tuple[CurveResult, ...]) -> Table:
    """A line for each trace and utilisation: simulated, and as three models predict it."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", caption="seconds", caption_justify="left")
    table.add_column("trace", no_wrap=True)
    for heading in ("load", "simulated", "M/PH/1", "Kingman", "MAP/PH/1", "best fits"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        for i, point in enumerate(result.points):
            spread = f"{min(point.of_fits):.3g} to {max(point.of_fits):.3g}"
            shown = (f"{v:.3g}" for v in (point.simulated, point.m_ph_1, point.kingman, point.of_fits[0]))
            table.add_row(result.trace if i == 0 else "", f"{point.utilisation:.2f}", *shown, spread)
    return table


def _write(path: Path, picture: bytes) -> None:
    from penstock.errors import ConfigurationError

    try:
        path.write_bytes(picture)
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} cannot be written: {fault.strerror}", field="--plot") from fault
