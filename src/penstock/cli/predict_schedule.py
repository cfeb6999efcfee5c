# SPDX-License-Identifier: Apache-2.0
"""`penstock predict schedule`: what elastic scheduling by predicted throughput would cost on a recorded load."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import busy, progress_bar
from penstock.cli.trace_options import check_no_reading, in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.evaluation.capacity_plan import CapacityFit
    from penstock.evaluation.elastic_schedule import ScheduledPolicy
    from penstock.ports import FloatArray
    from penstock.records import ThroughputSample


@click.command(short_help="What elastic scheduling by the model would cost on a load.")
@click.argument("trace", type=click.Path(path_type=Path))
@click.option("--samples", "file", type=click.Path(path_type=Path), required=True, help="CSV file of samples.")
@click.option("--truth", type=click.Path(path_type=Path), help="CSV file of samples to judge by.  [default: the model]")
@click.option("--application", help="Which application, where the file has several.")
@click.option("--max", "most", type=int, help="Most executors.  [default: 5 x the largest sampled]")
@click.option("--coverage", type=float, default=0.9, show_default=True, help="Of the interval that gives the margin.")
@click.option("--rate-column", help="TRACE is CSV with the rate of each period in this column.")
@click.option("--every", default="1h", show_default=True, help="How often executors may be changed.")
@click.option("--delay", default="1m", show_default=True, help="From a decision until it is in force.")
@click.option("--peak", type=float, help="Scale the load so that this is its highest rate.  [default: as it is]")
@click.option("--cost-per-hour", type=float, default=1.0, show_default=True, help="Of one executor.")
@trace_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw load and executors into this PNG file.")
@json_option
@debug_option
def schedule(  # noqa: PLR0917 - click passes them by name
    trace: Path,
    file: Path,
    truth: Path | None,
    application: str | None,
    most: int | None,
    coverage: float,
    rate_column: str | None,
    every: str,
    delay: str,
    peak: float | None,
    cost_per_hour: float,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate elastic scheduling on TRACE, by the model that the samples choose.

    At the start of each period (--every) a scheduler knows its rate and asks for executors, which come after --delay.
    Policies: static for the peak and for the average; elastic with the truth known and no delay; elastic by the
    expected throughput with 0, 5, 10 and 20 % more, and with the least that keeps violations within 1 %; elastic by the
    lower end of the interval; and the same, asking ahead for as much as the load usually rises.

    TRACE has arrivals or counts, read as by `penstock fit`, or the rates themselves (--rate-column), one for each
    period of --every.

    A violation is time in which the rate is above what the executors sustain. The second account carries over what was
    not processed: how much of the time something waits, and for how long at most.

    Without --truth, the model itself says what executors sustain, so that its own errors do not show. --truth is a CSV
    file of measurements at many sizes, at least two; between them lines are straight, beyond them the nearest counts.

    --json prints one object: summary, periods, every_seconds, delay_seconds, rate_mean, rate_max, model, judged_by,
    policies (each with policy, cost_per_hour, violation_percent, waiting_percent, longest_wait_seconds,
    left_over_seconds, machines_mean, machines_max, changes, over_provisioning_percent) and notes. left_over_seconds is
    what waits at the end, in seconds of the last rate (null: that rate is 0).

    \b
    Examples:
      penstock predict schedule requests.csv --as counts --column count --unit m --samples samples.csv
      penstock predict schedule worldcup.csv.xz --samples samples.csv --peak 32 --max 128 --cost-per-hour 0.1
    """
    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError, Mistakes
    from penstock.evaluation.capacity_plan import fit_capacity
    from penstock.evaluation.elastic_schedule import Workload, schedule_all
    from penstock.evaluation.throughput_samples import (
        MOST_COST_PER_HOUR,
        load_samples,
        mark_notes,
        of_one_application,
    )
    from penstock.records import MOST_THROUGHPUT
    from penstock.units import number, parse_seconds, positive_seconds

    check_picture(plot)
    mistakes = Mistakes()
    period = mistakes.of(lambda: positive_seconds("--every", every))
    wait = mistakes.of(lambda: parse_seconds(delay, "--delay"))
    samples = mistakes.of(lambda: of_one_application(load_samples(file, "--samples"), application))
    real = (
        None if truth is None else mistakes.of(lambda: of_one_application(load_samples(truth, "--truth"), application))
    )
    if peak is not None and not 0.0 < peak <= MOST_THROUGHPUT:
        text = f"--peak: {peak} is not a number above 0 and at most {MOST_THROUGHPUT:g}"
        mistakes.found.append(ConfigurationError(text, field="--peak"))
    mistakes.of(lambda: number("--cost-per-hour", cost_per_hour, least=0, most=MOST_COST_PER_HOUR))
    mistakes.raise_all("predict schedule")
    assert period is not None
    assert wait is not None
    assert samples is not None
    rates = _rates(trace, rate_column, period, options)
    if peak is not None:
        rates = rates * (peak / rates.max())
    workload = Workload(rates, period, wait, cost_per_hour)
    with busy("training models"):
        found = fit_capacity(samples[1], most=most, coverage=coverage)
        table = found.table
    judged = table.expected if real is None else _measured(real[1], found.most, found.cpu_share)
    policies = schedule_all(workload, judged, table.expected, table.low)
    by = "the model itself" if truth is None else str(truth)
    summary = _sentence(policies, by)
    console = words_console(as_json)
    console.print(f"{trace.name}: {summary}", markup=False, soft_wrap=True)
    console.print(_table(policies))
    notes = [
        *_notes(found, rates, judged, policies, None if real is None else real[1]),
        *mark_notes(file, samples[0], "--samples"),
        *(() if truth is None or real is None else mark_notes(truth, real[0], "--truth")),
    ]
    for note in notes:
        console.print(f"note: {note}", markup=False, soft_wrap=True)
    if plot is not None:
        from penstock.cli.queue_options import write_picture
        from penstock.evaluation.schedule_pictures import policies_picture

        write_picture(plot, policies_picture(workload, policies, f"{trace.name}: {summary}"))
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json(
            {
                "summary": summary, "periods": len(rates), "every_seconds": period, "delay_seconds": wait,
                "rate_mean": float(rates.mean()), "rate_max": float(rates.max()), "model": found.selection.chosen,
                "judged_by": by, "notes": notes,
                "policies": [
                    {
                        "policy": one.name, **one.account.to_json(),
                        "over_provisioning_percent": one.over_provisioning_percent,
                    }
                    for one in policies
                ],
            }
        )  # fmt: skip


def _rates(trace: Path, rate_column: str | None, period: float, options: dict[str, Any]) -> FloatArray:
    """The rate of each period."""
    from penstock.arrivals import load_trace
    from penstock.errors import ConfigurationError
    from penstock.evaluation.period_rates import period_rates, read_rates

    if rate_column is not None:
        check_no_reading(options, "a trace without --rate-column")
        rates = read_rates(trace, rate_column)
    else:
        try:
            with in_command_words(), progress_bar(f"reading {trace.name}") as progress:
                arrivals = load_trace(trace, **asdict(reading_of(options)), progress=progress)
        except ConfigurationError as fault:
            # A table of rates, read as times, is said to be unsorted or to lack a column: neither names the remedy.
            hint = "if TRACE has the rate of each period in a column, name that column with --rate-column"
            raise ConfigurationError(f"{fault}\n{hint}", field=fault.field) from fault
        rates = period_rates(arrivals, period)
    if not rates.max() > 0.0:
        raise ConfigurationError(f"TRACE: {trace} has no load at all; give one with arrivals", field="TRACE")
    return rates


def _notes(
    found: CapacityFit,
    rates: FloatArray,
    judged: FloatArray,
    policies: tuple[ScheduledPolicy, ...],
    real: list[ThroughputSample] | None,
) -> list[str]:
    """What a reader of the table should know; `real` are the samples to judge by, None: the model."""
    from penstock.evaluation.elastic_schedule import LEAST_OVER, MOST_OVER_PROVISIONING

    notes = list(found.notes)
    if found.selection.validation_sizes and real is None:
        sizes = " or ".join(map(str, found.selection.validation_sizes))
        notes.append(f"the models differ for larger sizes: a measurement with {sizes} executors would decide")
    if rates.max() > judged.max():
        notes.append(f"the highest rate, {rates.max():.4g}, is above what {found.most} executors sustain")
    if LEAST_OVER not in {policy.name for policy in policies}:
        notes.append(f"no over-provisioning up to {MOST_OVER_PROVISIONING} % keeps violations within 1 %")
    if real is not None:
        measured = _sizes(real, found.cpu_share)
        taken = [int(size) for policy in policies for size in (policy.machines.min(), policy.account.machines_max)]
        if min(taken) < measured[0] or max(taken) > measured[-1]:
            notes.append(
                f"the truth is measured from {measured[0]} to {measured[-1]} executors, and policies take "
                f"{min(taken)} to {max(taken)}: those beyond are judged by the nearest that was measured"
            )
    return notes


def _wait(seconds: float) -> str:
    from penstock.units import clock

    return f"{seconds:.3g} s" if seconds < 100.0 else clock(seconds)


def _has_share(sample: ThroughputSample, cpu_share: float) -> bool:
    return abs(sample.allocation.cpu_share - cpu_share) < 1e-9


def _sizes(samples: list[ThroughputSample], cpu_share: float) -> list[int]:
    """Executors of the samples with this share, rising."""
    return sorted({sample.allocation.executors for sample in samples if _has_share(sample, cpu_share)})


def _measured(samples: list[ThroughputSample], most: int, cpu_share: float) -> FloatArray:
    """The mean of the samples of each size with this share, on straight lines between."""
    import numpy as np

    from penstock.errors import ConfigurationError

    shares = sorted({sample.allocation.cpu_share for sample in samples})
    samples = [sample for sample in samples if _has_share(sample, cpu_share)]
    if not samples:
        raise ConfigurationError(
            f"--truth: it has samples with a cpu_share of {', '.join(f'{share:g}' for share in shares)}, and --samples "
            f"plan with {cpu_share:g}; give measurements with that share",
            field="--truth",
        )
    sizes = _sizes(samples, cpu_share)
    if len(sizes) == 1:
        raise ConfigurationError(
            f"--truth: all samples are of {sizes[0]} executors, which says nothing of others; give measurements at the "
            "sizes that may be taken",
            field="--truth",
        )
    means = [
        np.mean([sample.records_per_second for sample in samples if sample.allocation.executors == size])
        for size in sizes
    ]
    found: FloatArray = np.interp(np.arange(1.0, most + 1.0), sizes, means)
    return found


def _sentence(policies: tuple[ScheduledPolicy, ...], by: str) -> str:
    from penstock.evaluation.elastic_schedule import AHEAD, STATIC_PEAK

    named = {policy.name: policy.account for policy in policies}
    peak, ours = named[STATIC_PEAK], named[AHEAD]
    less = 100.0 * (1.0 - ours.cost_per_hour / peak.cost_per_hour) if peak.cost_per_hour else 0.0
    compared = f"{less:.0f} % less" if less >= 0.0 else f"{-less:.0f} % more"
    return (
        f"Scheduled by the interval and ahead of rises it costs {ours.cost_per_hour:.4g} per hour, {compared} than "
        f"static for the peak, with {ours.violation_percent:.3f} % violations (judged by {by})."
    )


def _table(policies: tuple[ScheduledPolicy, ...]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("policy", no_wrap=True)
    # With these headings the table fits a terminal of 80 columns.
    for heading in ("cost\nper h", "viola-\ntions %", "waiting\n%", "longest\nwait", "exec-\nutors", "changes"):
        table.add_column(heading, justify="right")
    for one in policies:
        account = one.account
        more = "" if one.over_provisioning_percent is None or "OP: 1%" not in one.name else (
            f", by {one.over_provisioning_percent} %"
        )  # fmt: skip
        table.add_row(
            one.name + more, f"{account.cost_per_hour:.4g}", f"{account.violation_percent:.3f}",
            f"{account.waiting_percent:.3f}", _wait(account.longest_wait_seconds), f"{account.machines_mean:.1f}",
            str(account.changes),
        )  # fmt: skip
    return table
