# SPDX-License-Identifier: Apache-2.0
"""`penstock predict`: capacity planning from measured throughputs. The group, and its commands `fit` and `size`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.predict_schedule import schedule
from penstock.cli.predict_subset import subset
from penstock.cli.progress import busy

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.evaluation.capacity_plan import CapacityFit, SizeAnswer

F = TypeVar("F", bound=Callable[..., Any])
_WORDS = {
    "validation": "the validation samples",
    "leave-one-size-out": "each size when it is trained on the others",
    "training": "its own samples",
}


@click.group(short_help="Plan capacity: what each number of executors sustains, and how many a rate needs.")
def predict() -> None:
    """Plan capacity from a few measured throughputs.

    A sample is the throughput that a job sustained with a number of executors while it had more to do than it could. A
    few sizes with a few samples each are enough: models predict the others, with intervals.

    \b
    Steps:
      penstock predict subset    which sizes are worth measuring, from samples of other applications
      penstock predict fit       train models on samples, choose one, and print its curve
      penstock predict size      how many executors sustain a rate
      penstock predict schedule  what elastic scheduling by the model would cost on a load

    A file of samples is CSV with the columns executors and throughput, optionally cpu_share and application; one line
    for each measurement. Units are yours: rates are in the unit of the throughput.
    """


def sample_options(command: F) -> F:
    """Add the options that say which samples are read and how models are trained."""
    options = (
        click.option("--samples", "file", type=click.Path(path_type=Path), required=True, help="CSV file of samples."),
        click.option(
            "--validation", type=click.Path(path_type=Path), help="CSV file of further samples, to judge models by."
        ),
        click.option("--application", help="Which application, where the file has several."),
        click.option(
            "--models",
            help="Models to choose from, with commas: inverse-time, polynomial, power-law, batch-time, usl, monotone, "
            "ensemble.  [default: all]",
        ),
        click.option(
            "--max", "most", type=int, help="Most executors to plan with.  [default: 5 x the largest sampled]"
        ),
        click.option("--cpu-share", type=float, help="CPU share to plan with.  [default: the largest sampled]"),
        click.option("--coverage", type=float, default=0.9, show_default=True, help="Probability of intervals."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@predict.command(short_help="Train models on samples, choose one, and print its curve.")
@sample_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw samples, curves and intervals into this PNG file.")
@json_option
@debug_option
def fit(plot: Path | None, as_json: bool, **options: Any) -> None:
    """Train every model on the samples, and choose the one that predicts best what it has not seen.

    Without --validation, each size is predicted by the model trained on the others. With it, the samples of that file
    decide, and the chosen model is then trained on both. validation_sizes says at which sizes a measurement would tell
    the models apart: measure there, and give the result as --validation.

    --json prints one object: summary, models (each with name, parameters, training_error, validation_error), chosen,
    judged_by, validation_sizes, curve (each with executors, throughput, low, high), cpu_share, coverage and notes.
    Errors are root mean squares in the unit of the throughput; null where there is none.

    \b
    Examples:
      penstock predict fit --samples samples.csv
      penstock predict fit --samples samples.csv --max 128 --plot curve.png
      penstock predict fit --samples samples.csv --validation more.csv --json | jq .chosen
    """
    from penstock.cli.output import print_json, words_console

    check_picture(plot)
    name, found = fit_of(**options)
    console, summary = words_console(as_json), fit_sentence(found, name)
    console.print(summary, markup=False, soft_wrap=True)
    console.print(models_table(found))
    console.print(curve_table(found))
    _print_notes(console, found)
    if plot is not None:
        _draw(plot, found, summary)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json({"summary": summary} | fit_document(found))


@predict.command(short_help="How many executors sustain a rate.")
@sample_options
@click.option("--rate", type=float, required=True, help="What is to be sustained, in the unit of the samples.")
@click.option(
    "--by",
    type=click.Choice(("interval", "expected")),
    default="interval",
    show_default=True,
    help="What has to reach the rate: the lower end of the interval, or the expected throughput.",
)
@click.option("--cost-per-hour", type=float, help="Of one executor.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw samples, curves and the answer into this PNG file.")
@json_option
@debug_option
def size(rate: float, by: str, cost_per_hour: float | None, plot: Path | None, as_json: bool, **options: Any) -> None:
    """Find the fewest executors that sustain a rate.

    The lower end of the model's interval has to reach the rate, so that a new measurement would fall below it one time
    in twenty (with the default --coverage of 0.9). --by expected goes by the expected throughput alone, as the paper
    does. Where even --max executors are too few, is_enough is false, and the answer is for --max.

    --json prints one object: summary, rate, executors, cpu_share, throughput, interval (low, high), coverage,
    is_enough, model, reason, expected_executors (the fewest by expectation; null: none), next_smaller (executors,
    throughput, low, short_by_percent; null for one executor), cost_per_hour (null without --cost-per-hour) and notes.

    \b
    Examples:
      penstock predict size --samples samples.csv --rate 25
      penstock predict size --samples samples.csv --rate 25 --max 64 --cost-per-hour 0.1 --json
    """
    import math

    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError, Mistakes
    from penstock.evaluation.capacity_plan import size_for
    from penstock.evaluation.throughput_samples import MOST_COST_PER_HOUR
    from penstock.units import number

    check_picture(plot)
    mistakes = Mistakes()
    if not (math.isfinite(rate) and rate > 0.0):
        fault = f"--rate: {rate} is not a finite number above 0"
        mistakes.found.append(ConfigurationError(fault, field="--rate"))
    if cost_per_hour is not None:
        cost = cost_per_hour
        mistakes.of(lambda: number("--cost-per-hour", cost, least=0, most=MOST_COST_PER_HOUR))
    fitted = mistakes.of(lambda: fit_of(**options))
    mistakes.raise_all("predict size")
    assert fitted is not None
    _, found = fitted
    with busy("looking for the size"):
        answer = size_for(found, rate, by_interval=by == "interval")
    console, summary = words_console(as_json), size_sentence(found, answer, cost_per_hour)
    console.print(summary, markup=False, soft_wrap=True)
    console.print(size_table(found, answer, cost_per_hour))
    _print_notes(console, found)
    if plot is not None:
        _draw(plot, found, summary, answer)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json({"summary": summary} | size_document(found, answer, cost_per_hour))


def fit_of(  # noqa: PLR0917 - click passes them by name
    file: Path,
    validation: Path | None,
    application: str | None,
    models: str | None,
    most: int | None,
    cpu_share: float | None,
    coverage: float,
) -> tuple[str, CapacityFit]:
    """Read the samples and train; all mistakes of both files at once."""
    from dataclasses import replace

    from penstock.errors import ConfigurationError, Mistakes
    from penstock.evaluation.capacity_plan import fit_capacity
    from penstock.evaluation.throughput_samples import load_samples, mark_notes, of_one_application

    mistakes = Mistakes()
    samples = mistakes.of(lambda: of_one_application(load_samples(file, "--samples"), application))
    further = None if validation is None else mistakes.of(
        lambda: of_one_application(load_samples(validation, "--validation"), application)
    )  # fmt: skip
    names = [] if models is None else [name.strip() for name in models.split(",") if name.strip()]
    if models is not None and not names:
        fault = f"--models: {models!r} names no model; leave the option out for all of them"
        mistakes.found.append(ConfigurationError(fault, field="--models"))
    if not 0.0 < coverage < 1.0:
        fault = f"--coverage: {coverage} is not between 0 and 1; write 0.9 for 90 %"
        mistakes.found.append(ConfigurationError(fault, field="--coverage"))
    if most is not None and most < 1:
        mistakes.found.append(ConfigurationError(f"--max: {most} must be at least 1 executor", field="--max"))
    if cpu_share is not None and not 0.0 < cpu_share <= 1.0:
        fault = f"--cpu-share: {cpu_share} is not above 0 and at most 1; write 0.5 for half a core of each"
        mistakes.found.append(ConfigurationError(fault, field="--cpu-share"))
    mistakes.raise_all("predict")
    assert samples is not None
    name, of = samples
    with busy("training models"):
        found = fit_capacity(
            of, () if further is None else further[1],
            models=names, most=most, cpu_share=cpu_share, coverage=coverage,
        )  # fmt: skip
    marks = mark_notes(file, name, "--samples")
    if validation is not None and further is not None:
        marks += mark_notes(validation, further[0], "--validation")
    return name, replace(found, notes=(*found.notes, *marks))


def fit_sentence(found: CapacityFit, name: str) -> str:
    """The finding as one sentence."""
    best = found.selection.scores[0]
    error = _error(best, found.selection.judged_by)
    sizes = sorted({sample.allocation.executors for sample in found.samples})
    of = f"{name}: of" if name else "Of"
    off = "" if error is None else f", off by {figure(error)} at {_WORDS[found.selection.judged_by]}"
    wants = found.wanted_sizes
    if wants:
        more = f"; a measurement with {' or '.join(map(str, wants))} executors would tell the models apart"
    elif found.selection.validation_sizes:
        more = "; it was measured where the models come apart"
    else:
        more = "; the models agree everywhere"
    return (
        f"{of} {len(found.selection.scores)} models trained on {len(found.samples)} samples of {_sizes(len(sizes))}, "
        f"{found.selection.chosen} predicts best{off}{more}."
    )


def _sizes(number: int) -> str:
    return "1 size" if number == 1 else f"{number} sizes"


def size_sentence(found: CapacityFit, answer: SizeAnswer, cost: float | None) -> str:
    """The answer as one sentence."""
    prediction = answer.prediction
    paid = "" if cost is None else f", at {answer.executors * cost:.4g} per hour"
    if not answer.is_enough:
        most = executors_text(found.most, found.cpu_share)
        return (
            f"No size up to {most} is sure to sustain {figure(answer.rate)}: {most} should sustain "
            f"{figure(prediction.records_per_second)} "
            f"(between {figure(prediction.low)} and {figure(prediction.high)}){paid}.{_by_expectation(found, answer)}"
        )
    size = executors_text(answer.executors, found.cpu_share)
    return f"{size} for {figure(answer.rate)}{paid}: {reason_of(found, answer)}."


def _by_expectation(found: CapacityFit, answer: SizeAnswer) -> str:
    """What would do if the model were sure; nothing where that is no size either, or was what was asked."""
    if answer.expected_executors is None or not answer.is_by_interval:
        return ""
    return f" Its expected throughput reaches that with {executors_text(answer.expected_executors, found.cpu_share)}."


def executors_text(number: int, cpu_share: float = 1.0) -> str:
    """The number with its noun, and the CPU share where that is not a whole core of each."""
    text = f"{number} executor" if number == 1 else f"{number} executors"
    return text if cpu_share == 1.0 else f"{text} x {100.0 * cpu_share:g}% CPU"


def figure(value: float) -> str:
    """A throughput for people: four digits, or all that are before the point.

    Examples
    --------
    >>> figure(22.4712), figure(32285.6)
    ('22.47', '32,286')
    """
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def reason_of(found: CapacityFit, answer: SizeAnswer) -> str:
    """Why this size."""
    prediction, chosen = answer.prediction, found.selection.chosen
    by = "the lower end of its interval" if answer.is_by_interval else "its expected throughput"
    reached = prediction.low if answer.is_by_interval else prediction.records_per_second
    if not answer.is_enough:
        most = executors_text(found.most, found.cpu_share)
        return f"{chosen} puts {by} for {most}, the most allowed, at {figure(reached)}, below {figure(answer.rate)}"
    value, low, high = map(figure, (prediction.records_per_second, prediction.low, prediction.high))
    text = f"{chosen} expects {value} ({low} to {high})"
    short = answer.smaller_falls_short_by
    if answer.smaller is not None and short is not None:
        text += f"; with {answer.executors - 1} {by} falls short by {100.0 * short:.2g} %"
    return text


def fit_document(found: CapacityFit) -> dict[str, Any]:
    """The plain data of `fit`."""
    return {
        "models": [
            {
                "name": score.name, "parameters": dict(score.parameters), "training_error": score.training_error,
                "validation_error": _error(score, "validation") if found.validation else score.held_out_error,
            }
            for score in found.selection.scores
        ],
        "chosen": found.selection.chosen, "judged_by": found.selection.judged_by,
        "validation_sizes": list(found.wanted_sizes), "curve": found.curve(),
        "cpu_share": found.cpu_share, "coverage": found.coverage, "notes": list(found.notes),
    }  # fmt: skip


def size_document(found: CapacityFit, answer: SizeAnswer, cost: float | None) -> dict[str, Any]:
    """The plain data of `size`."""
    prediction, smaller, short = answer.prediction, answer.smaller, answer.smaller_falls_short_by
    return {
        "rate": answer.rate, "executors": answer.executors, "cpu_share": found.cpu_share,
        "throughput": prediction.records_per_second,
        "interval": {"low": prediction.low, "high": prediction.high}, "coverage": found.coverage,
        "is_enough": answer.is_enough, "model": found.selection.chosen, "reason": reason_of(found, answer),
        "expected_executors": answer.expected_executors,
        "next_smaller": None if smaller is None or short is None else {
            "executors": answer.executors - 1, "throughput": smaller.records_per_second, "low": smaller.low,
            "short_by_percent": 100.0 * short,
        },
        "cost_per_hour": None if cost is None else answer.executors * cost, "notes": list(found.notes),
    }  # fmt: skip


def _error(score: Any, judged_by: str) -> float | None:
    found: float | None = {
        "validation": score.validation_error,
        "leave-one-size-out": score.held_out_error,
        "training": score.training_error,
    }[judged_by]
    return found


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", overflow="fold")
    return table


def models_table(found: CapacityFit) -> Table:
    """A line for each model, the best first."""
    judged_by = "validation error" if found.validation else "unseen sizes"
    table = _table("model", "training error", judged_by, "parameters")
    for score in found.selection.scores:
        unseen = score.validation_error if found.validation else score.held_out_error
        parameters = ", ".join(f"{name} {value:.4g}" for name, value in score.parameters.items()) or "-"
        shown = "-" if unseen is None else figure(unseen)
        table.add_row(score.name, figure(score.training_error), shown, parameters)
    return table


def curve_table(found: CapacityFit) -> Table:
    """The chosen model at a few sizes."""
    sizes = {1, found.most, *(sample.allocation.executors for sample in found.samples)}
    size = 2
    while size < found.most:
        sizes.add(size)
        size *= 2
    table = _table("executors", "throughput", "low", "high")
    for size in sorted(size for size in sizes if size <= found.most):
        prediction = found.predict(size)
        table.add_row(
            str(size), *(figure(value) for value in (prediction.records_per_second, prediction.low, prediction.high))
        )
    return table


def size_table(found: CapacityFit, answer: SizeAnswer, cost: float | None) -> Table:
    """The answer and its neighbours."""
    table = _table("executors", "throughput", "low", "high", *(() if cost is None else ("cost per hour",)))
    for size in range(max(1, answer.executors - 2), min(found.most, answer.executors + 1) + 1):
        prediction = found.predict(size)
        cells = [figure(value) for value in (prediction.records_per_second, prediction.low, prediction.high)]
        paid: Sequence[str] = () if cost is None else (f"{size * cost:.4g}",)
        table.add_row(f"{size} <" if size == answer.executors else str(size), *cells, *paid)
    return table


def _print_notes(console: Any, found: CapacityFit) -> None:
    for note in found.notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)


def _draw(path: Path, found: CapacityFit, title: str, answer: SizeAnswer | None = None) -> None:
    from penstock.cli.queue_options import write_picture
    from penstock.evaluation.throughput_pictures import capacity_picture

    write_picture(path, capacity_picture(found, title, answer))


predict.add_command(subset)
predict.add_command(schedule)
