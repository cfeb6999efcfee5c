# SPDX-License-Identifier: Apache-2.0
"""`penstock reproduce`: an experiment of a paper done again, with the published figures beside ours."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.evaluation.reproduction import Grid


@click.command(short_help="Do an experiment of a paper again.")
@click.argument("name", required=False)
@click.option("--list", "is_list", is_flag=True, help="List the experiments.")
@click.option("--seeds", type=click.IntRange(1), help="How many seeds of what is drawn.  [default: the file's]")
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
    message says where to get it, and mead-frontier goes on without it. --seeds 2 and --trace are for a quick look.
    Experiments on Spark run for minutes; gesscale-law and gesscale-table-3-spark keep what they have measured, and go
    on where they were interrupted. So does mead-frontier, as long as code and config stay the same.

    \b
    Examples:
      penstock reproduce --list
      penstock reproduce mead-table-1 --workers 2 --plot table-1.png
      penstock reproduce mead-table-2 --trace SYNT --seeds 2 --json
    """
    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError
    from penstock.evaluation.experiment_file import experiment_names, experiments_folder
    from penstock.evaluation.experiment_kinds import load_experiment, run_experiment
    from penstock.evaluation.reproduction import Call

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
    experiment = load_experiment(folder / name).narrowed(traces, seeds)
    with progress_bar(name) as progress:
        say = partial(console.print, markup=False, soft_wrap=True)
        result = run_experiment(experiment, Call(name, folder / name, workers, progress, say))
    for line in result.words:
        console.print(line, markup=False)
    for grid in result.grids:
        console.print(printed(grid))
    for line in result.remarks:
        console.print(line, markup=False)
    if plot is not None:
        _write(plot, result.picture())
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        from penstock.evaluation.source_version import source_version

        print_json({**result.document, **source_version()} if result.runs is None else result.runs)


def printed(grid: Grid) -> Table:
    """A table for the terminal."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", caption=grid.caption, caption_justify="left")
    for column in grid.columns:
        table.add_column(
            column.heading,
            justify="right" if column.is_number else "left",
            no_wrap=not column.may_fold,
            overflow="fold" if column.may_fold else "ellipsis",
        )
    for row in grid.rows:
        if row is None:
            table.add_section()
        else:
            table.add_row(*row)
    return table


def _write(path: Path, picture: bytes) -> None:
    from penstock.errors import ConfigurationError

    try:
        path.write_bytes(picture)
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} cannot be written: {fault.strerror}", field="--plot") from fault
