# SPDX-License-Identifier: Apache-2.0
"""The options of trace files, shared by every command that reads one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.arrivals import Reading
    from penstock.arrivals.trace_files import Progress

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("arrivals", "iats", "counts")
UNITS = ("s", "ms", "us", "ns", "m", "h", "d")
FORMATS = (
    "auto", "plain",
    "bc-paug89", "cloudphysics-io", "google-2011", "google-task-events", "nyc-taxi", "debs-2015",
    "worldcup98", "ms-livemaps",
)  # fmt: skip
_OPTION_NAMES = (
    (re.compile(r"\bkind=(\w+)"), r"--as \1"),
    (re.compile(r"\b(format|unit|column|origin|period|spread)=(\S+)"), r"--\1 \2"),
    (re.compile(r"^kind:"), "--as:"),
    (re.compile(r"^(format|unit|column|origin|period|spread|seed|best):"), r"--\1:"),
    (re.compile(r"^max_states:"), "--max-states:"),
)


def trace_options(command: F) -> F:
    """Add the options for reading a trace file to a command."""
    options = (
        click.option("--as", "kind", type=click.Choice(KINDS), help="What the numbers are.  [default: arrivals]"),
        click.option(
            "--unit",
            type=click.Choice(UNITS),
            help="Unit of the numbers; for counts, the length of a period.  [default: s]",
        ),
        click.option(
            "--format",
            "format_name",
            type=click.Choice(FORMATS),
            default="auto",
            show_default=True,
            metavar="NAME",
            help=f"Format of a published trace ({', '.join(FORMATS[2:])}), which sets all of the rest; "
            "auto: by its header or first row; plain: numbers.",
        ),
        click.option("--column", help="Name or number (from 0) of the column, in csv and parquet."),
        click.option(
            "--origin",
            type=click.Choice(("zero", "first")),
            help="What arrival times count from: 0, or the first of them.  [default: zero]",
        ),
        click.option("--period", help='Length of a period of counts, such as "5m".  [default: one unit]'),
        click.option(
            "--spread",
            type=click.Choice(("random", "even")),
            default="random",
            show_default=True,
            help="Where in its period a counted record arrives.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def reading_of(options: dict[str, Any], seed: int = 0) -> Reading:
    """Return what the options of `trace_options` say, and remove them from `options`."""
    from penstock.arrivals import Reading
    from penstock.units import parse_seconds

    period = options.pop("period")
    return Reading(
        column=options.pop("column"),
        unit=options.pop("unit"),
        kind=options.pop("kind"),
        origin=options.pop("origin"),
        format=options.pop("format_name"),
        period_seconds=None if period is None else parse_seconds(period, "--period"),
        spread=options.pop("spread"),
        seed=seed,
    )


@contextmanager
def in_command_words() -> Iterator[None]:
    """Report what is wrong with a file in the words of the command line: `--as iats` for kind=iats."""
    try:
        yield
    except ConfigurationError as fault:
        text = str(fault)
        for pattern, words in _OPTION_NAMES:
            text = pattern.sub(words, text)
        raise ConfigurationError(text, field=fault.field) from fault


@contextmanager
def progress_bar(text: str) -> Iterator[Progress | None]:
    """Show a progress bar on stderr while a file is read, if stderr is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=1.0)
        yield lambda done: bar.update(task, completed=done)
