# SPDX-License-Identifier: Apache-2.0
"""`penstock predict subset`: which sizes are worth measuring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.progress import progress_bar

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.performance.sample_sizes import SubsetSearch


@click.command(short_help="Which sizes are worth measuring, from samples of other applications.")
@click.option("--samples", "file", type=click.Path(path_type=Path), help="CSV file of samples of several applications.")
@click.option("--sizes", default="3,4,5", show_default=True, help="How many sizes to measure, with commas.")
@click.option("--max-train", type=int, help="Largest size that may be measured.  [default: the largest sampled]")
@click.option(
    "--method",
    type=click.Choice(("auto", "exhaustive", "random", "d-optimal")),
    default="auto",
    show_default=True,
    help="auto: exhaustive where that takes seconds, otherwise random.",
)
@click.option("--draws", type=click.IntRange(1), default=20_000, show_default=True, help="Sets that random draws.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of random.")
@json_option
@debug_option
def subset(  # noqa: PLR0917 - click passes them by name
    file: Path | None, sizes: str, max_train: int | None, method: str, draws: int, seed: int, as_json: bool
) -> None:
    """Find the few sizes whose measurements predict all others best.

    --samples has measurements of some representative applications at many sizes (column application). Every set of
    --sizes sizes is tried: two models are trained on it and graded at all other sizes, for all applications. The error
    is the root mean square, in parts of an application's largest throughput. Measure new applications at the best set.

    random draws sets and improves the best by exchanging sizes; for many sizes. d-optimal needs no samples, only
    --max-train: it takes the sizes that determine the models' weights best.

    --json prints one object: summary, method, best (sizes, error), by_max (each with max_train, sizes, error),
    sets_tried, sets_possible, applications. error is null for d-optimal.

    \b
    Examples:
      penstock predict subset --samples benchmarks.csv --max-train 24
      penstock predict subset --samples benchmarks.csv --method random --draws 5000 --json
      penstock predict subset --method d-optimal --max-train 24 --sizes 5
    """
    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError
    from penstock.evaluation.throughput_samples import MOST_EXECUTORS, load_samples
    from penstock.performance.sample_sizes import (
        BenchmarkSamples,
        d_optimal_sizes,
        search_all,
        search_at_random,
        search_sizes,
    )

    numbers = _numbers(sizes)
    if max_train is not None and not 2 <= max_train <= MOST_EXECUTORS:
        fault = f"--max-train: {max_train} must be from 2 to {MOST_EXECUTORS:,} executors"
        raise ConfigurationError(fault, field="--max-train")
    console = words_console(as_json)
    samples = None if file is None else BenchmarkSamples.of(load_samples(file, "--samples"))
    if method == "d-optimal":
        if samples is None and max_train is None:
            raise ConfigurationError("--max-train: without --samples, say up to which size", field="--max-train")
        known = range(1, (max_train or 0) + 1) if samples is None else samples.sizes.tolist()
        allowed = [size for size in known if max_train is None or size <= max_train]
        found = d_optimal_sizes(allowed, max(numbers), max(known))
        summary = f"Measure with {_words(found)} executors: these determine the models' weights best."
        console.print(summary, markup=False, soft_wrap=True)
        if as_json:
            print_json(
                {"summary": summary, "method": method, "best": {"sizes": list(found), "error": None}, "by_max": [],
                 "sets_tried": None, "sets_possible": None, "applications": []}
            )  # fmt: skip
        return
    if samples is None:
        raise ConfigurationError("--samples: give a CSV file; d-optimal alone needs none", field="--samples")
    there = len(samples.sizes)
    if there <= max(numbers):
        fewer = f", or choose fewer (--sizes {there - 1})" if there > 2 else ""
        sampled = "1 size" if there == 1 else f"{there} sizes"
        raise ConfigurationError(
            f"--samples: there are samples of {sampled}; to choose {max(numbers)} and to judge them by another, "
            f"{max(numbers) + 1} are needed; measure more sizes{fewer}",
            field="--samples",
        )
    with progress_bar("trying sets of sizes") as progress:
        if method == "exhaustive":
            search = search_all(samples, numbers, max_train, progress)
        elif method == "random":
            search = search_at_random(samples, numbers, max_train, draws=draws, seed=seed, progress=progress)
        else:
            search = search_sizes(samples, numbers, max_train, draws=draws, seed=seed, progress=progress)
    best = search.best[0]
    tried = "all" if search.is_exhaustive else f"{search.tried:,} of"
    summary = (
        f"Measure with {_words(best.sizes)} executors: of {tried} {search.possible:,} sets they predict the other "
        f"sizes of {_applications(len(samples.applications))} best, with an error of {best.error:.4f} of the largest "
        "throughput."
    )
    console.print(summary, markup=False, soft_wrap=True)
    rows = _by_max(search)
    console.print(_table(rows))
    if as_json:
        print_json(
            {"summary": summary, "method": "exhaustive" if search.is_exhaustive else "random",
             "best": {"sizes": list(best.sizes), "error": best.error}, "by_max": rows,
             "sets_tried": search.tried, "sets_possible": search.possible, "applications": list(samples.applications)}
        )  # fmt: skip


def _numbers(text: str) -> tuple[int, ...]:
    from penstock.errors import ConfigurationError

    parts = [part.strip() for part in text.split(",") if part.strip()]
    known = {str(number): number for number in range(2, 13)}
    if not parts or not all(part in known for part in parts):
        raise ConfigurationError(
            f"--sizes: {text!r} are not whole numbers from 2 to 12 with commas, such as 3,4,5", field="--sizes"
        )
    return tuple(dict.fromkeys(known[part] for part in parts))


def _applications(number: int) -> str:
    return "1 application" if number == 1 else f"{number} applications"


def _by_max(search: SubsetSearch) -> list[dict[str, Any]]:
    """The best set for each largest size at which it changes."""
    rows: list[dict[str, Any]] = []
    for largest in sorted({one.sizes[-1] for one in search.best}):
        best = search.within(largest)
        if best is not None and (not rows or rows[-1]["sizes"] != list(best.sizes)):
            rows.append({"max_train": largest, "sizes": list(best.sizes), "error": best.error})
    return rows


def _table(rows: list[dict[str, Any]]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading, side in (("largest size", "right"), ("best set", "left"), ("error", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]
    for row in rows:
        table.add_row(str(row["max_train"]), ", ".join(map(str, row["sizes"])), f"{row['error']:.4f}")
    return table


def _words(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes[:-1])) + f" and {sizes[-1]}"
