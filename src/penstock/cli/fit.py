# SPDX-License-Identifier: Apache-2.0
"""`penstock fit`: the arrival processes that describe a trace."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_folder, check_picture
from penstock.cli.progress import busy, calculate_in_one_thread, progress_bar
from penstock.cli.trace_options import in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.ports import FloatArray
    from penstock.workload import FitResult
    from penstock.workload.fit_map import Method

_SHOWN_LOADS = (0.2, 0.5, 0.8, 0.89)

_WHY_FIRST = "The best does not have the least loss: the trace may be a Poisson process, and what others fit is chance."


@click.command(short_help="Fit arrival processes (MAPs) to a trace.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--window", type=click.IntRange(1), default=50_000, show_default=True, help="Inter-arrival times to fit.")
@click.option("--skip", type=click.IntRange(0), default=0, show_default=True, help="Inter-arrival times to skip.")
@click.option(
    "--best", type=click.IntRange(1), default=5, show_default=True, help="How many distinct processes to show."
)
@click.option("--max-states", type=click.IntRange(1), default=96, show_default=True, help="Most states of a process.")
@click.option(
    "--method", type=click.Choice(["auto", "kpc"]), default="auto", show_default=True,
    help="auto: processes whose queue is right along the load; kpc: plain KPC compositions, to compare with.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same result."
)
@trace_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw trace and fits into this PNG file.")
@click.option("--map", "map_file", type=click.Path(path_type=Path), help="Write the best process to this JSON file.")
@json_option
@debug_option
def fit(  # noqa: PLR0917 - click passes them by name
    file: Path,
    window: int,
    skip: int,
    best: int,
    max_states: int,
    method: Method,
    seed: int,
    plot: Path | None,
    map_file: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit Markovian arrival processes to the inter-arrival times of FILE.

    FILE has one number or ISO timestamp per line (.txt, .csv with --column, .npy, .parquet; text also as .gz and .xz),
    or is a public trace in its own format. One sentence describes what arrives. The processes are listed best first.
    "response" is the mean response time of the trace in a queue with Erlang service at that load, "p95" its 95th
    percentile, each with the relative error of the processes in predicting it. "worst" is the largest such error of
    any load from 0.05 to 0.9, in units of its bar: 15 % for the mean, 25 % for the percentile. Matrices are per second.
    "loss" is that error plus a price per state, plus 1 if it is above its bar. The least comes first, unless the trace
    may be a Poisson process.
    With --method kpc, moments and autocorrelation are matched whatever the queue.

    --json prints one object: trace (n, mean, scv, skewness, acf from lag 1), maps (best first; each with D0, D1,
    states, loss, family, worst_error, mean, scv, skewness, acf), seconds and summary (the sentence). The file --map
    writes is an object with D0 and D1.

    \b
    Examples:
      penstock fit arrivals.txt
      penstock fit packets.txt.xz --unit us --plot fit.png
      penstock fit iats.csv --as iats --column gap --unit ms --best 1 --map map.json
      penstock fit requests.csv --as counts --column count --unit m
      penstock fit arrivals.txt --json | jq .maps[0].states
    """
    calculate_in_one_thread()
    from penstock.arrivals import read_window
    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError, NotReadyError
    from penstock.workload import fit_maps
    from penstock.workload.plain_words import LEGEND, words_of_iats

    check_picture(plot)
    check_folder(map_file, "--map")
    with in_command_words():
        with progress_bar(f"reading {file.name}") as progress:
            iats = read_window(file, reading_of(options, seed), skip=skip, size=window, progress=progress)
        try:
            with busy(f"fitting {len(iats)} inter-arrival times"):
                result = fit_maps(iats, best=best, max_states=max_states, seed=seed, method=method)
        except NotReadyError as fault:
            raise ConfigurationError(
                f"trace: {file}: {fault}; give a longer trace, a larger --window or a smaller --skip", field="trace"
            ) from fault
    console = words_console(as_json)
    heading = _heading(file, skip, window, result)
    summary = str(words_of_iats(iats, float(result.trace.idc[-1]) if result.trace.idc.size else None))
    console.print(f"{file.name}: {summary}.", markup=False, soft_wrap=True)
    console.print(heading, markup=False)
    console.print(fit_table(result))
    for name, meaning in LEGEND.items():
        console.print(f"{name}: {meaning}", markup=False, style="dim", soft_wrap=True)
    if result.maps[0].loss > min(fitted.loss for fitted in result.maps):
        console.print(_WHY_FIRST, markup=False)
    for note in result.notes:
        console.print(f"note: {note}", markup=False)
    if map_file is not None:
        _write_map(map_file, result)
        console.print(f"best process: {map_file}", markup=False)
    if plot is not None:
        _write_picture(plot, iats, result, heading)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json(fit_document(result) | {"summary": summary})


def fit_document(result: FitResult) -> dict[str, Any]:
    """Return what `--json` prints."""
    import numpy as np

    trace = result.trace
    lags = np.arange(1, trace.acf.size + 1)
    return {
        "trace": {
            "n": trace.n, "mean": trace.mean, "scv": trace.scv, "skewness": trace.skewness, "acf": trace.acf.tolist(),
        },
        "maps": [
            {
                **fitted.map.to_json(),
                "states": fitted.states,
                "loss": fitted.loss,
                "family": fitted.family,
                "worst_error": fitted.worst_error,
                "mean": fitted.map.mean,
                "scv": fitted.map.scv,
                "skewness": fitted.map.skewness,
                "acf": fitted.map.autocorrelation(lags).tolist(),
            }
            for fitted in result.maps
        ],
        "seconds": result.seconds,
    }  # fmt: skip


def fit_table(result: FitResult) -> Table:
    """Show the descriptors of the trace, with twice their standard errors, beside those of each process."""
    from rich.table import Table

    trace, maps = result.trace, [fitted.map for fitted in result.maps]
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for heading in ("", "trace", "\u00b1"):
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for number in range(1, len(maps) + 1):
        table.add_column("best" if number == 1 else f"no. {number}", justify="right", no_wrap=True)
    factor, unit = _unit_of(trace.mean)
    table.add_row(
        f"mean, {unit}", *_with_error(trace.mean, trace.mean_error, factor), *_shown(m.mean * factor for m in maps)
    )
    table.add_row("SCV", *_with_error(trace.scv, trace.scv_error), *_shown(m.scv for m in maps))
    table.add_row("skewness", *_with_error(trace.skewness, trace.skewness_error), *_shown(m.skewness for m in maps))
    for lag in (1, 10, 100, 1000):
        if lag <= trace.acf.size:
            at = trace.lags.tolist().index(lag) if lag in trace.lags else None
            error = "" if at is None else f"{2 * trace.acf_errors[at]:.1g}"
            row = [f"{float(m.autocorrelation(lag)):.3f}" for m in maps]
            table.add_row(f"rho, lag {lag}", f"{trace.acf[lag - 1]:.3f}", error, *row)
    for place in sorted({trace.idc.size // 2, trace.idc.size - 1}):
        width = float(trace.idc_widths[place])
        times, of = _unit_of(width)
        measured = _with_error(float(trace.idc[place]), float(trace.idc_errors[place]))
        table.add_row(f"IDC, {width * times:.3g} {of}", *measured, *_shown(float(m.idc(width)) for m in maps))
    queue = result.queue
    for utilisation in _SHOWN_LOADS:
        at = queue.utilisations.tolist().index(utilisation)
        pairs = (("response", queue.responses, "queue_errors"), ("p95", queue.percentiles, "percentile_errors"))
        for name, times_of, errors_of in pairs:
            seconds = float(times_of[at]) * trace.mean
            times, of = _unit_of(seconds)
            errors = [f"{100 * getattr(fitted, errors_of)[utilisation]:+.1f}%" for fitted in result.maps]
            table.add_row(f"{name}, load {utilisation:g}", f"{seconds * times:.4g} {of}", "", *errors)
    table.add_row("worst", "", "", *_shown(fitted.worst_error for fitted in result.maps))
    table.add_row("states", "", "", *(str(fitted.states) for fitted in result.maps))
    table.add_row("loss", "", "", *_shown(fitted.loss for fitted in result.maps))
    return table


def _unit_of(seconds: float) -> tuple[float, str]:
    """Return the factor and the unit that make a time a number from 1 on."""
    return next(((f, u) for f, u in ((1.0, "s"), (1e3, "ms"), (1e6, "us")) if seconds * f >= 1.0), (1e9, "ns"))


def _with_error(value: float | None, error: float | None, factor: float = 1.0) -> tuple[str, str]:
    shown = "-" if value is None else _short(value * factor)
    spread = None if error is None else 2 * error * factor
    return shown, "" if spread is None else f"{spread:.1g}" if spread < 10 else _short(round(spread))


def _shown(values: Iterable[float]) -> list[str]:
    return [_short(value) for value in values]


def _short(value: float) -> str:
    """Format a number in at most seven characters, so that five processes fit beside the trace."""
    from penstock.units import format_count

    return format_count(value) if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"


def _heading(file: Path, skip: int, window: int, result: FitResult) -> str:
    trace = result.trace
    after = f" after the first {skip}" if skip else ""
    which = "the first " if trace.n == window else ""
    found = "1 process" if len(result.maps) == 1 else f"{len(result.maps)} processes"
    return (
        f"{file.name}: {which}{trace.n} inter-arrival times{after}, {1 / trace.mean:.6g} arrivals per second; "
        f"{result.kind}; {found} in {result.seconds:.2f} s"
    )


def _write_map(path: Path, result: FitResult) -> None:
    import json

    from penstock.errors import ConfigurationError

    try:
        path.write_text(json.dumps(result.maps[0].map.to_json()) + "\n", encoding="utf-8")
    except OSError as fault:
        raise ConfigurationError(f"--map: {path} is not writable: {fault.strerror}", field="--map") from fault


def _write_picture(path: Path, iats: FloatArray, result: FitResult, title: str) -> None:
    from penstock.errors import ConfigurationError
    from penstock.evaluation.fit_pictures import fit_picture

    try:
        path.write_bytes(fit_picture(iats, result, title))
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} is not writable: {fault.strerror}", field="--plot") from fault
