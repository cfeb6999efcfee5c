# SPDX-License-Identifier: Apache-2.0
"""`penstock characterize`: how bursty traces are, window by window, computed on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_folder, check_picture
from penstock.cli.trace_options import in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.table import Table

_MOST_ROWS_SHOWN = 24


@click.command(short_help="How bursty traces are over time, computed on Spark.")
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--window", type=click.IntRange(1), default=50_000, show_default=True, help="Inter-arrival times each.")
@click.option("--step", type=click.IntRange(1), help="From one window's start to the next.  [default: the window]")
@click.option("--fit/--no-fit", default=True, show_default=True, help="Whether to fit processes too.")
@click.option("--max-states", type=click.IntRange(1), default=96, show_default=True, help="Most states of a process.")
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same numbers."
)
@trace_options
@click.option("--output", type=click.Path(path_type=Path), help="Write the table here, .parquet or .csv.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw burstiness over time into this PNG file.")
@click.option("--master", default="embedded", show_default=True, help="embedded, local[n], spark://host:port, ...")
@click.option("--executors", type=click.IntRange(1), help="How many, of one core each.  [default: 2]")
@json_option
@debug_option
def characterize(  # noqa: PLR0917 - click passes them by name
    traces: tuple[Path, ...],
    window: int,
    step: int | None,
    fit: bool,
    max_states: int,
    seed: int,
    output: Path | None,
    plot: Path | None,
    master: str,
    executors: int | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Split each TRACE into windows and measure how bursty each is, on Spark: one row per stream and window.

    A row has rate, variability, correlation and dispersion of the window, and (with --fit) the process fitted to it:
    the same numbers as from `penstock fit`. Executors open the files themselves, by the same path.

    \b
    Examples:
      penstock characterize packets.txt.xz --unit us --plot burstiness.png
      penstock characterize day1.npy day2.npy --no-fit --window 10000 --output table.parquet
      penstock characterize packets.txt.xz --unit us --master spark://host:7077 --executors 8
    """
    from penstock._characterize import characterize_traces
    from penstock.apps.characterize import WindowSettings
    from penstock.cli.output import print_json, words_console

    _check_outputs(output, plot)
    with in_command_words(), _phases() as on_phase:
        result = characterize_traces(
            _streams(traces),
            reading_of(options, seed),
            WindowSettings(window, step, fit, max_states, seed),
            master=master,
            executors=executors,
            on_phase=on_phase,
        )
    console = words_console(as_json)
    console.print(rows_table(result.rows))
    if len(result.rows) > _MOST_ROWS_SHOWN:
        console.print(f"... {len(result.rows) - _MOST_ROWS_SHOWN} more windows; --output writes all of them")
    of = f"{len(traces)} streams" if len(traces) > 1 else traces[0].name
    console.print(f"{len(result.rows)} windows of {of} in {result.seconds:.1f} s on {result.slots} cores", markup=False)
    for name, path in (("table", output), ("picture", plot)):
        if path is not None:
            (_write_table if name == "table" else _write_picture)(path, result.rows)
            console.print(f"{name}: {path}", markup=False)
    if as_json:
        print_json(
            {
                "streams": len(traces), "windows": len(result.rows), "seconds": result.seconds, "cores": result.slots,
                "output": None if output is None else str(output), "rows": list(result.rows),
            }
        )  # fmt: skip


def _streams(traces: Sequence[Path]) -> dict[str, Path]:
    """Return each file under its name, or under its path if names repeat."""
    from penstock.errors import ConfigurationError

    names = [path.name for path in traces]
    streams = {path.name if names.count(path.name) == 1 else str(path): path for path in traces}
    if len(streams) < len(traces):
        raise ConfigurationError("TRACE: a file is given twice; give each once", field="TRACE")
    return streams


def _check_outputs(output: Path | None, plot: Path | None) -> None:
    from penstock.errors import ConfigurationError

    check_picture(plot)
    check_folder(output, "--output")
    if output is not None and output.suffix not in (".parquet", ".csv"):
        raise ConfigurationError(
            f"--output: {output} is neither .parquet nor .csv; change its suffix", field="--output"
        )


@contextmanager
def _phases() -> Iterator[Callable[[str, float | None], None]]:
    """Show the current phase in a line on stderr, if stderr is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _text, _done: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda text, done: bar.update(
            task, description=text, completed=done or 0.0, total=None if done is None else 1.0
        )


def rows_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return the first rows as a table for people."""
    from rich.table import Table

    several = len({row["stream"] for row in rows}) > 1
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    if several:
        table.add_column("stream", overflow="ellipsis", no_wrap=True, max_width=20)
    formats = {
        "window": "d", "start": ".5g", "n": "d", "rate": ".4g", "scv": ".3g", "rho1": ".3f", "rho10": ".3f",
        "idc": ".3g", "states": "d", "loss": ".2g",
    }  # fmt: skip
    for name in formats:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows[:_MOST_ROWS_SHOWN]:
        stream = [row["stream"]] if several else []
        table.add_row(*stream, *("-" if row[n] is None else format(row[n], f) for n, f in formats.items()))
    return table


def _write_table(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from penstock.apps.characterize import COLUMNS
    from penstock.errors import ConfigurationError

    types = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
    table = pa.Table.from_pylist(list(rows), schema=pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()]))
    write = pyarrow.parquet.write_table if path.suffix == ".parquet" else pyarrow.csv.write_csv
    try:
        write(table, path)
    except OSError as fault:
        raise ConfigurationError(f"--output: {path} is not writable: {fault}", field="--output") from fault


def _write_picture(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    from penstock.errors import ConfigurationError
    from penstock.evaluation.fit_pictures import burstiness_picture

    try:
        path.write_bytes(burstiness_picture(rows))
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} is not writable: {fault.strerror}", field="--plot") from fault
