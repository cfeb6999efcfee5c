# SPDX-License-Identifier: Apache-2.0
"""`penstock forecast`: how well the load of a trace can be forecast, and by which method."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import progress_bar
from penstock.cli.trace_options import in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.evaluation.forecast_backtest import Backtest

_DURATIONS = ((86_400.0, "days"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"))
_HARDLY = 0.98
"""An error of more than this part of another is no gain worth a sentence."""
_WORDS = {
    "as now": "what it is now",
    "signature": "what is usual at this phase",
    "autoregression": "a sum of earlier readings",
    "markov chain": "where levels like these led",
    "answer": "the best of these just then",
}


@click.command(short_help="Forecast the load of a trace, and grade the forecasts.")
@click.argument("file", metavar="TRACE", type=click.Path(path_type=Path))
@click.option("--horizon", default="2m", show_default=True, help="How far ahead to forecast.")
@click.option("--every", help="Length of a reading.  [default: 10s; of counts, their period]")
@click.option(
    "--history", type=click.IntRange(64), default=8192, show_default=True, help="How many readings to learn from."
)
@trace_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw trace, forecasts and errors into this PNG file.")
@json_option
@debug_option
def forecast(  # noqa: PLR0917 - click passes them by name
    file: Path, horizon: str, every: str | None, history: int, plot: Path | None, as_json: bool, **options: Any
) -> None:
    """Feed TRACE to a forecaster, reading by reading, and report how far off its forecasts were.

    A reading is the arrival rate over --every. After each reading the forecaster predicts the rate --horizon later.
    The forecast is compared when its time comes, before anything learns from that reading. Rules that look ahead use
    the same forecaster (penstock.workload.forecast), with one reading per look of the loop.

    \b
    Methods:
      as now          the last reading: what a rule without a forecast uses
      signature       if the load repeats itself: its mean at the same point of the last cycles
      autoregression  a weighted sum of earlier readings
      markov chain    the level that usually followed levels like the last two

    The answer is that of the method with the least recent error, as long as this error is clearly less than that of
    "as now"; otherwise it is "as now". Errors are mean absolute errors, relative to the mean rate. "of as now" compares
    a method with "as now" over the readings for which the method made a forecast: below 100 % it is better. The
    padding is what to add to a forecast so that only one in ten is too low; rules compare the plain forecast.

    --json prints one object: summary (the sentence), file, readings, every_seconds, horizon_seconds, mean,
    repeats_after_seconds (null: no period is known), methods (each with method, error, error_as_now, answered_share),
    answer (the same of what was answered, and too_low_share, padded_too_low_share, mean_padding) and last (the forecast
    after the last reading). Rates and errors are per second.

    \b
    Examples:
      penstock forecast arrivals.txt
      penstock forecast packets.txt.xz --unit us --every 1s --horizon 10s --plot forecast.png
      penstock forecast requests.csv --as counts --column count --unit m --horizon 1h
      penstock forecast arrivals.txt --json | jq .answer.error
    """
    from penstock.arrivals import CountSeries, load_trace
    from penstock.cli.output import print_json, words_console
    from penstock.evaluation.forecast_backtest import backtest, rates_of
    from penstock.units import positive_seconds

    check_picture(plot)
    ahead = positive_seconds("--horizon", horizon)
    spacing = None if every is None else positive_seconds("--every", every)
    with in_command_words():
        with progress_bar(f"reading {file.name}") as progress:
            arrivals = load_trace(file, **asdict(reading_of(options)), progress=progress)
        if spacing is None:
            spacing = arrivals.period_seconds if isinstance(arrivals, CountSeries) else 10.0
        rates = rates_of(arrivals, spacing)
    _check_horizon(ahead, spacing, len(rates))
    with progress_bar("forecasting") as progress:
        result = backtest(rates.tolist(), spacing, ahead, history=history, least=0.0, progress=progress)
    console = words_console(as_json)
    summary = sentence_of(result)
    console.print(f"{file.name}: {summary}", markup=False, soft_wrap=True)
    count, of = len(rates), _words(spacing)
    console.print(f"{count} readings of {of} each, {result.mean:.4g} arrivals per second on average", markup=False)
    console.print(methods_table(result))
    for line in _notes(result):
        console.print(line, markup=False, soft_wrap=True)
    if plot is not None:
        _write_picture(plot, result, f"{file.name}: {summary}")
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json({"summary": summary, "file": str(file)} | document_of(result))


def sentence_of(result: Backtest) -> str:
    """Return the finding as one sentence."""
    answer = result.graded("answer")
    if answer.error is None or answer.error_as_now is None:
        raise AssertionError("there are more readings than the horizon has")
    repeats = result.repeats_after_seconds
    load = "The load does not repeat itself" if repeats is None else f"The load repeats every {_words(repeats)}"
    ahead, as_now = _words(result.horizon_seconds), _percent(answer.error_as_now / result.mean)
    if answer.error >= _HARDLY * answer.error_as_now:
        return f'{load}; {ahead} ahead no method is better for long than "as now", which is off by {as_now}.'
    found = _percent(answer.error / result.mean)
    return f'{load}; {ahead} ahead the forecast is off by {found} where "as now" is off by {as_now}.'


def methods_table(result: Backtest) -> Table:
    """Show each method's error beside that of "as now", and how often it answered."""
    from rich.table import Table

    from penstock.workload.forecast import METHODS

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading, justify in (("method", "left"), ("off by", "right"), ("of as now", "right"), ("answered", "right"),
                             ("forecasts", "left")):  # fmt: skip
        table.add_column(heading, justify=justify, no_wrap=heading != "forecasts")  # type: ignore[arg-type]
    for method in (*METHODS, "answer"):
        graded = result.graded(method)
        error, as_now = graded.error, graded.error_as_now
        off = "-" if error is None else _percent(error / result.mean)
        part = "-" if error is None or not as_now else _percent(error / as_now)
        share = "" if method == "answer" else _percent(graded.answered_share)
        table.add_row(method, off, part, share, _WORDS[method], style="bold" if method == "answer" else "")
    return table


def document_of(result: Backtest) -> dict[str, Any]:
    """Return what `--json` prints."""
    from penstock.workload.forecast import METHODS

    return {
        "readings": len(result.readings),
        "every_seconds": result.period_seconds,
        "horizon_seconds": result.horizon_seconds,
        "mean": result.mean,
        "repeats_after_seconds": result.repeats_after_seconds,
        "methods": [asdict(result.graded(method)) for method in METHODS],
        "answer": asdict(result.graded("answer"))
        | {
            "too_low_share": result.too_low_share(result.each["answer"]),
            "padded_too_low_share": result.too_low_share(result.padded),
            "mean_padding": result.mean_padding,
        },
        "last": None if result.last is None else asdict(result.last),
    }


def _notes(result: Backtest) -> list[str]:
    notes = []
    plain, padded = result.too_low_share(result.each["answer"]), result.too_low_share(result.padded)
    if plain is not None and padded is not None and result.mean_padding is not None:
        notes.append(
            f"Too low: {_percent(plain)} of the forecasts; {_percent(padded)} with padding, which adds "
            f"{_percent(result.mean_padding / result.mean)} of the mean rate."
        )
    if result.last is not None:
        notes.append(f"After the last reading: {result.last.explain()}.")
    return notes


def _check_horizon(horizon: float, spacing: float, readings: int) -> None:
    from penstock.errors import ConfigurationError

    most = readings // 4
    if horizon > most * spacing:
        raise ConfigurationError(
            f"--horizon: {_words(horizon)} is more than a quarter of the trace ({readings} readings of "
            f"{_words(spacing)}); give at most {_words(most * spacing)}, or a longer trace",
            field="--horizon",
        )


def _words(seconds: float) -> str:
    size, unit = next(
        (pair for pair in _DURATIONS if seconds >= (2.0 if pair[0] > 1.0 else 1.0) * pair[0]), _DURATIONS[-1]
    )
    return f"{seconds / size:.3g} {unit}"


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %" if part >= 0.1 else f"{100 * part:.2g} %"


def _write_picture(path: Path, result: Backtest, title: str) -> None:
    from penstock.errors import ConfigurationError
    from penstock.evaluation.forecast_pictures import forecast_picture

    try:
        path.write_bytes(forecast_picture(result, title))
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} is not writable: {fault.strerror}", field="--plot") from fault
