# SPDX-License-Identifier: Apache-2.0
"""`penstock simulate`: what a policy would do on a trace, and what it would cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from penstock.cli.errors import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.trace_options import in_command_words, progress_bar, reading_of, trace_options

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from penstock.arrivals import Reading
    from penstock.evaluation.simulation_result import SimulationResult
    from penstock.ports import FloatArray
    from penstock.records import LatencySummary, Objective


@click.command(short_help="Try a policy on a trace, without Spark.")
@click.option("--trace", "file", type=click.Path(path_type=Path), required=True, help="When records arrive.")
@click.option("--pipeline", type=click.Path(path_type=Path), required=True, help="What they flow through (YAML).")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    required=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="What decides: static (the top allocation throughout), fixed, threshold, mead, or mead's planning with a "
    "simpler queue, m/g/1 or gi/g/1; several are compared.",
)
@click.option(
    "--objective",
    metavar="STATISTIC=SECONDS",
    help="Bound on the latency of every path, such as p95=0.5 or mean=200ms.  [default: the pipeline file's]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same result.")
@click.option("--records", type=click.IntRange(1), help="Take only so many records of the trace.")
@click.option("--interval", help='How often the loop looks, such as "1s".  [default: when the policy wants]')
@trace_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the runs into this PNG file.")
@json_option
@debug_option
def simulate(  # noqa: PLR0917 - click passes them by name
    file: Path,
    pipeline: Path,
    policies: tuple[str, ...],
    objective: str | None,
    seed: int,
    records: int | None,
    interval: str | None,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a policy on a trace in the simulator: the loop of a real run, with simulated operators behind it.

    Every operator starts at the top of its limits. Latency is from a record's arrival to its end at the path's last
    operator, over all records of the run; "latency" is that of the path nearest to its bound. A window of 10 s breaks
    the objective when its own statistic is above the bound; "broken" is the part of the time in such windows. "cost"
    is executors times CPU share over time, as a part of what the top allocation throughout costs.

    --json prints one object: policy, latency (mean, p50, p95, p99), paths (the same for each), cpu_share_mean,
    cpu_share (of each operator), violation_time_share, decisions (changes), seed, and a few more; of several
    policies a list of them.

    \b
    Examples:
      penstock simulate --trace arrivals.txt --pipeline pipeline.yaml --policy threshold --objective p95=0.5
      penstock simulate --trace packets.txt.xz --unit us --pipeline pipeline.yaml --policy static \\
        --policy threshold --policy threshold:upper=0.5,lower=0.3 --objective mean=200ms --plot runs.png
      penstock simulate --trace arrivals.txt --pipeline pipeline.yaml --policy mead --policy m/g/1 --policy static
      penstock simulate --trace iats.csv --as iats --pipeline pipeline.yaml --policy static --json
    """
    import dataclasses

    from penstock.cli.output import print_json, words_console
    from penstock.errors import ConfigurationError
    from penstock.evaluation.path_objectives import path_objectives
    from penstock.evaluation.pipeline_file import load_pipeline
    from penstock.evaluation.simulated_policies import simulated_policy
    from penstock.evaluation.simulation import simulate as run
    from penstock.units import parse_seconds

    check_picture(plot)
    spec = load_pipeline(pipeline)
    wanted = spec.objectives if objective is None else _objective(objective)
    chosen = [simulated_policy(text) for text in policies]
    looks = None if interval is None else parse_seconds(interval, "--interval")
    if looks == 0.0:
        raise ConfigurationError(
            f"--interval: {interval!r} is no time between two looks; give one above 0, such as 1s", field="--interval"
        )
    path_objectives(spec.pipeline, wanted)  # what is impossible needs no reading
    with in_command_words(), progress_bar(f"reading {file.name}") as progress:
        times = arrival_times(file, reading_of(options, seed), records, progress)
    results: list[SimulationResult] = []
    for text, policy in zip(policies, chosen, strict=True):
        with progress_bar(f"simulating {text}") as progress:
            result = run(
                times, spec.pipeline, policy, wanted, seed,
                guards=spec.guards, interval_seconds=looks, progress=progress,
            )  # fmt: skip
        results.append(dataclasses.replace(result, policy=text))
    console = words_console(as_json)
    heading = _heading(file, spec.pipeline.name, float(times[-1]), results[0])
    console.print(heading, markup=False)
    console.print(results_table(results))
    if plot is not None:
        _write_picture(plot, times, results, heading)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        documents = [result.to_json() for result in results]
        print_json(cast("Any", documents if len(documents) > 1 else documents[0]))


def arrival_times(
    file: Path, reading: Reading, records: int | None, progress: Callable[[float], None] | None
) -> FloatArray:
    """Give the arrival times in a trace file, counted from the first; from its gaps, so that no digit is lost."""
    import numpy as np

    from penstock.arrivals import read_window

    # Inter-arrival times begin with the one from time zero to the first arrival, all others between two arrivals.
    first = 1 if reading.of(file).kind == "iats" else 0
    size = None if records is None else max(1, records - 1 + first)
    gaps = read_window(file, reading, size=size, progress=progress)
    times = np.zeros(len(gaps) + 1 - first)
    np.cumsum(gaps[first:], out=times[1:])
    return times if records is None else times[:records]


def _objective(text: str) -> Objective:
    from penstock.errors import ConfigurationError
    from penstock.settings import make_objective

    statistic, equals, bound = text.partition("=")
    if not equals:
        raise ConfigurationError(
            f"--objective: cannot read {text!r}; write it as p95=0.5 or mean=200ms", field="--objective"
        )
    return make_objective({statistic.strip(): bound.strip()})


def results_table(results: Sequence[SimulationResult]) -> Table:
    """What each policy cost, and the latency of each path under it."""
    from rich.table import Table

    from penstock.topology import path_text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("policy", overflow="fold")
    for heading in ("mean", "p95", "p99", "met", "broken", "cost", "changes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        paid = (f"{result.cost_against_static:.1%}", str(len(result.changes)))
        broken = f"{result.violation_time_share:.1%}"
        if len(result.paths) == 1:
            table.add_row(result.policy, *_cells(result.paths[0].latency), _met(result.is_met), broken, *paid)
            continue
        table.add_row(result.policy, "", "", "", _met(result.is_met), broken, *paid)
        for path in result.paths:
            cells = (*_cells(path.latency), _met(path.is_met), f"{path.violation_time_share:.1%}")
            table.add_row(f"  {path_text(path.path)}", *cells, "", "")
    return table


def _cells(latency: LatencySummary | None) -> list[str]:
    from penstock.units import format_seconds

    return [format_seconds(None if latency is None else latency.statistic(name)) for name in ("mean", "p95", "p99")]


def _met(is_met: bool | None) -> str:
    return "-" if is_met is None else "yes" if is_met else "NO"


def _heading(file: Path, name: str, span: float, result: SimulationResult) -> str:
    from penstock.units import format_seconds

    objectives = ", ".join(dict.fromkeys(str(path.objective) for path in result.paths))
    told = f"{file.name} on {name}: {result.records} records in {format_seconds(span)}, seed {result.seed}"
    return f"{told}; objective {objectives}"


def _write_picture(path: Path, times: FloatArray, results: Sequence[SimulationResult], title: str) -> None:
    from penstock.errors import ConfigurationError
    from penstock.evaluation.simulation_pictures import simulation_picture

    try:
        path.write_bytes(simulation_picture(times, results, title))
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} cannot be written: {fault.strerror}", field="--plot") from fault
