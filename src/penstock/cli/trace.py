# SPDX-License-Identifier: Apache-2.0
"""`penstock trace`: describes a trace file, cuts it, converts it, or draws one from a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_trace
from penstock.cli.progress import progress_bar
from penstock.cli.trace_options import KINDS, UNITS, in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.arrivals import Arrivals

_FILE = click.Path(path_type=Path)


def _output_options(command: Any) -> Any:
    options = (
        click.option("--to", "to_kind", type=click.Choice(KINDS), default="arrivals", show_default=True,
                     help="What to write: times, times between arrivals, or counts per period."),
        click.option("--to-unit", type=click.Choice(UNITS), default="s", show_default=True,
                     help="Unit of the output; for counts, the length of a period."),
        click.option("--to-period", help='Length of a period of the output counts, such as "5m".'),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group(short_help="Describe, cut, convert and draw trace files.")
def trace() -> None:
    """Describe trace files, cut them, convert them, or draw new ones from an arrival process.

    \b
    Examples:
      penstock trace info packets.txt.xz --unit us
      penstock trace cut packets.txt.xz part.npy --unit us --from 10m --until 20m
      penstock trace convert submits.csv iats.txt --to iats --to-unit ms
      penstock trace sample map.json trace.npy --count 1000000
    """


@trace.command(short_help="Describe a trace: how many arrivals, how long, how bursty.")
@click.argument("file", type=_FILE)
@trace_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed for counts spread at random.")
@json_option
@debug_option
def info(file: Path, seed: int, as_json: bool, **options: Any) -> None:
    """Describe FILE: what arrives in one sentence, then arrivals, span, rate, variability, correlation, time stamps.

    FILE has one number or ISO timestamp (2026-01-31T12:00:00.123Z) per line or in a column of a .csv file, or is a
    public trace in its own format. --json prints every fact; summary is the sentence.

    \b
    Examples:
      penstock trace info arrivals.txt
      penstock trace info task_events.csv.gz --json
      penstock trace info requests.csv --as counts --column count --unit m
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.trace_facts import facts_of, facts_table

    with in_command_words(), progress_bar(f"reading {file.name}") as progress:
        facts = facts_of(file, reading_of(options, seed), progress)
    console = words_console(as_json)
    console.print(f"{file.name}: {facts['summary']}.", markup=False, soft_wrap=True)
    console.print(facts_table(facts))
    for note in facts["notes"]:
        console.print(f"note: {note}", markup=False)
    if as_json:
        print_json(facts)


@trace.command(short_help="Write a part of a trace, by time or by number.")
@click.argument("file", type=_FILE)
@click.argument("output", type=_FILE)
@click.option("--from", "from_time", help='Leave out what comes up to this time, such as "90s".')
@click.option("--until", help='Leave out what comes after this time, such as "10m".')
@click.option("--first", type=click.IntRange(0), help="Number of the first record, from 0.")
@click.option("--count", type=click.IntRange(1), help="How many records.")
@trace_options
@_output_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed for counts spread at random.")
@json_option
@debug_option
def cut(  # noqa: PLR0917 - click passes them by name
    file: Path, output: Path, from_time: str | None, until: str | None, first: int | None, count: int | None,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Write a part of FILE to OUTPUT, whose name sets the format (.txt, .csv, .npy, .parquet; text also .gz, .xz).

    Cut by time (--from, --until; times then count from the start of the part) or by number (--first, --count; times
    then count from the first record).

    \b
    Examples:
      penstock trace cut packets.txt.xz part.txt --unit us --from 10m --until 20m --to-unit us
      penstock trace cut packets.txt.xz part.npy --unit us --first 100000 --count 50000
    """
    from penstock.arrivals import Cut
    from penstock.errors import ConfigurationError
    from penstock.units import parse_seconds

    by_time, by_number = from_time is not None or until is not None, first is not None or count is not None
    if by_time == by_number:
        raise ConfigurationError(
            "--from: give either times (--from, --until) or numbers (--first, --count) to cut at", field="--from"
        )
    start = 0.0 if from_time is None else parse_seconds(from_time, "--from")
    stop = None if until is None else parse_seconds(until, "--until")
    if stop is not None and stop <= start:
        begins = "the beginning" if from_time is None else f"--from {from_time}"
        raise ConfigurationError(
            f"--until: {until} is not after {begins}, so the part would be empty; give a later --until", field="--until"
        )

    def part(arrivals: Arrivals) -> Arrivals:
        if by_time:
            return Cut.by_time(arrivals, start, stop)
        return Cut.by_number(arrivals, first or 0, None if count is None else (first or 0) + count)

    _rewrite(file, output, part, as_json, options)


@trace.command(short_help="Write a trace in another format, kind or unit.")
@click.argument("file", type=_FILE)
@click.argument("output", type=_FILE)
@trace_options
@_output_options
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed for counts spread at random.")
@json_option
@debug_option
def convert(file: Path, output: Path, as_json: bool, **options: Any) -> None:
    """Write FILE to OUTPUT in another format, kind or unit.

    OUTPUT's name sets the format (.txt, .csv, .npy, .parquet; text also .gz and .xz). The first inter-arrival time
    counts from time zero, so that nothing is lost.

    \b
    Examples:
      penstock trace convert task_events.csv.gz submits.npy
      penstock trace convert packets.txt.xz iats.txt.gz --unit us --to iats --to-unit us
      penstock trace convert arrivals.txt per-minute.csv --to counts --to-unit m
    """
    _rewrite(file, output, lambda arrivals: arrivals, as_json, options)


@trace.command(short_help="Draw a trace from an arrival process.")
@click.argument("map_file", metavar="MAP", type=_FILE)
@click.argument("output", type=_FILE)
@click.option("--count", type=click.IntRange(1), help="How many records. Give this or --duration.")
@click.option("--duration", help='How long, such as "10m". Give this or --count.')
@click.option("--rate", help='Records per second, such as "500/s".  [default: the rate of MAP]')
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed gives the same trace."
)
@_output_options
@json_option
@debug_option
def sample(  # noqa: PLR0917 - click passes them by name
    map_file: Path, output: Path, count: int | None, duration: str | None, rate: str | None, seed: int,
    as_json: bool, **options: Any,
) -> None:  # fmt: skip
    """Draw a trace from the process in MAP, a JSON file with D0 and D1 (per second), and write it to OUTPUT.

    \b
    Examples:
      penstock fit arrivals.txt --map map.json
      penstock trace sample map.json trace.npy --count 1000000
      penstock trace sample map.json trace.txt --duration 10m --rate 500/s --seed 7
    """
    from penstock.arrivals import MapArrivals, load_map
    from penstock.errors import ConfigurationError
    from penstock.units import parse_rate, parse_seconds

    check_trace(output)
    with in_command_words():
        process = load_map(map_file)
        if rate is not None:
            wanted = parse_rate(rate, "--rate")
            if not wanted > 0:
                raise ConfigurationError("--rate: 0 is not a rate of arrivals; give one above 0", field="--rate")
            process = process.with_rate(wanted)
        seconds = None if duration is None else parse_seconds(duration, "--duration")
        arrivals = MapArrivals(process, seconds=seconds, count=count, seed=seed)
        _write(arrivals, output, as_json, options)


def _rewrite(
    file: Path, output: Path, part: Callable[[Arrivals], Arrivals], as_json: bool, options: dict[str, Any]
) -> None:
    from dataclasses import asdict

    from penstock.arrivals import load_trace
    from penstock.errors import ConfigurationError

    check_trace(output)
    if file.exists() and output.exists() and output.samefile(file):
        raise ConfigurationError(f"OUTPUT: {output} is the input trace; give another name", field="OUTPUT")
    reading = reading_of(options, options.pop("seed"))
    with in_command_words():
        with progress_bar(f"reading {file.name}") as progress:
            arrivals = part(load_trace(file, **asdict(reading), progress=progress))
        _write(arrivals, output, as_json, options)


def _write(arrivals: Arrivals, output: Path, as_json: bool, options: dict[str, Any]) -> None:
    from penstock.arrivals import write_trace
    from penstock.cli.output import print_json, words_console
    from penstock.units import format_seconds, parse_seconds

    period = options["to_period"]
    with progress_bar(f"writing {output.name}") as progress:
        written = write_trace(
            arrivals,
            output,
            kind=options["to_kind"],
            unit=options["to_unit"],
            period_seconds=None if period is None else parse_seconds(period, "--to-period"),
            progress=progress,
        )
    words_console(as_json).print(
        f"{output}: {arrivals.total} arrivals in {format_seconds(arrivals.duration_seconds)}, "
        f"written as {written} {options['to_kind']}",
        markup=False,
    )
    if as_json:
        print_json(
            {
                "output": str(output), "arrivals": arrivals.total, "seconds": arrivals.duration_seconds,
                "kind": options["to_kind"], "unit": options["to_unit"], "numbers": written,
            }
        )  # fmt: skip
