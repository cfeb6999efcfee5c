# SPDX-License-Identifier: Apache-2.0
"""`penstock simulate`: what a policy would do on a trace, and what it would cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import calculate_in_one_thread, progress_bar
from penstock.cli.runs import RunPlace
from penstock.cli.trace_options import check_no_reading, in_command_words, reading_of, trace_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from penstock.arrivals import Reading
    from penstock.evaluation.learnt_demand import LearntDemand
    from penstock.evaluation.policy_text import PolicyChoice
    from penstock.evaluation.simulation_result import SimulationResult
    from penstock.ports import FloatArray
    from penstock.records import LatencySummary, Limits, Objective
    from penstock.simulator import Pipeline
    from penstock.stores import StorePlace

_FOLDERS = re.compile(r"(?<==)[^\s,=]*/")
"""The folders of a path that is an option's value; a policy itself may be called m/g/1."""


@click.command(short_help="Try a policy on a trace, without Spark.")
@click.argument("given", metavar="[SETTINGS.yaml]", required=False, type=click.Path(path_type=Path))
@click.option("--pipeline", type=click.Path(path_type=Path), help="The settings file, by name instead of by place.")
@click.option(
    "--trace", "file", type=click.Path(path_type=Path), help="When records arrive.  [default: the file's arrivals]"
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="What decides: static (the top allocation throughout), or a policy that `penstock policies` lists, with "
    "options; several are compared.  [default: the file's, else the one that plans for its objective]",
)
@click.option(
    "--objective",
    metavar="STATISTIC=SECONDS",
    help="Bound on the latency of every path, such as p95=0.5 or mean=200ms.  [default: the file's]",
)
@click.option(
    "--from",
    "--from-run",
    "from_run",
    type=RunPlace(),
    metavar="RUN|STORE",
    help="Take the demand that this run has learnt, for operators that declare none or have `demand: learnt`; its "
    "folder, or its SQLite file. Both names mean the same.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same result.")
@click.option("--records", type=click.IntRange(1), help="Take only so many records of the trace.")
@click.option("--interval", help="How often the loop looks.  [default: the file's, 1s]")
@click.option(
    "--analysis",
    default="5s",
    show_default=True,
    help="How long an analysis takes before its plan is in force; the MEAD paper reports 25 to 40 s.",
)
@trace_options
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the runs into this PNG file.")
@json_option
@debug_option
def simulate(  # noqa: PLR0917 - click passes them by name
    given: Path | None,
    pipeline: Path | None,
    file: Path | None,
    policies: tuple[str, ...],
    objective: str | None,
    from_run: StorePlace | None,
    seed: int,
    records: int | None,
    interval: str | None,
    analysis: str,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Simulate the pipeline in SETTINGS.yaml: the loop of a real run, with simulated operators behind it.

    It is the file that `penstock run` runs. Its operators need no `app` here; what their records cost is declared with
    `service` or `micro_batch`, or taken from an earlier run with --from. The policy is the object that runs on
    Spark, and has to learn what is not declared. Every operator starts at the top of its limits. One that sets no
    `cpu_shares` has the policy's own levels (all CPU where it has none), and 0.4, 0.55, 0.7, 0.85, 1.0 where several
    policies are compared.

    Latency is from a record's arrival to its end at the path's last operator, over all records of the run; "latency" is
    that of the path nearest to its bound. A window of 10 s breaks the objective when its own statistic is above the
    bound; "broken" is the part of the time in such windows. Without a bound the objective is to keep up: a window is
    broken when a record in it is older than the objective's `catch_up` (60 s), so that a backlog which is worked off in
    time breaks nothing. "cost" is executors times CPU share over time, as a part of
    what the top allocation throughout costs.

    --json prints one object: policy, latency (mean, p50, p95, p99), paths (the same for each), cpu_share_mean,
    cpu_share (of each operator), violation_time_share, decisions (changes), seed, and a few more; of several
    policies a list of them.

    \b
    Examples:
      penstock simulate pipeline.yaml
      penstock simulate pipeline.yaml --from runs/logs-20250102-030405
      penstock simulate pipeline.yaml --trace arrivals.txt --policy threshold --objective p95=0.5
      penstock simulate pipeline.yaml --trace packets.txt.xz --unit us --policy static --policy threshold \\
        --policy threshold:upper=0.5,lower=0.3 --objective mean=200ms --plot runs.png
      penstock simulate pipeline.yaml --trace arrivals.txt --policy mead --policy mead:rescue=false
      penstock simulate pipeline.yaml --trace iats.csv --as iats --policy static --json
    """
    calculate_in_one_thread()
    import dataclasses

    from penstock.cli.output import print_json, prints_to_stderr, words_console
    from penstock.errors import ConfigurationError
    from penstock.evaluation.path_objectives import path_objectives
    from penstock.evaluation.pipeline_file import load_pipeline
    from penstock.evaluation.policy_text import STATIC, policy_in
    from penstock.evaluation.simulation import simulate as run
    from penstock.ports import AnalysisMemo
    from penstock.running.modules_beside import modules_beside
    from penstock.units import parse_seconds

    check_picture(plot)
    settings_file = _settings_file(given, pipeline)
    click.get_current_context().with_resource(modules_beside(settings_file))  # rules may stand in one: my_rules:calm
    spec = load_pipeline(settings_file, learnt=_learnt(from_run))
    wanted = spec.objectives if objective is None else objective_in(objective)
    bounds = list(wanted.values()) if isinstance(wanted, dict) else [wanted]
    chosen = named_policies(policies) or [policy_in(spec.settings, bounds)]
    names = policies or tuple(str(policy or STATIC) for policy in chosen)
    looks = spec.settings.interval if interval is None else parse_seconds(interval, "--interval")
    if looks == 0.0:
        raise ConfigurationError(
            f"--interval: {interval!r} is not above 0; give a time such as 1s",
            field="--interval",
        )
    delay = parse_seconds(analysis, "--analysis")
    simulated = spec.pipeline_with(cpu_shares_for(chosen))
    # What is impossible, and what no policy can be built with, needs no reading.
    with prints_to_stderr():
        _check_policies(names, chosen, simulated, path_objectives(simulated, wanted))
    if file is None:
        check_no_reading(options, "--trace")
        name, times = spec.arrival_times(records)
    else:
        with in_command_words(), progress_bar(f"reading {file.name}") as progress:
            name, times = file.name, arrival_times(file, reading_of(options, seed), records, progress)
    console = words_console(as_json)
    for note in dict.fromkeys((spec.demand_text, *_notes(chosen, bounds, simulated))):
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    results: list[SimulationResult] = []
    memo = AnalysisMemo()
    for text, policy in zip(names, chosen, strict=True):
        with progress_bar(f"simulating {text}") as progress:
            result = run(
                times, simulated, policy, wanted, seed,
                guards=spec.guards, interval_seconds=looks, monitor_seconds=spec.settings.window,
                progress=progress, memo=memo, analysis_seconds=delay,
            )  # fmt: skip
        results.append(dataclasses.replace(result, policy=text))
    heading = _heading(name, simulated.name, float(times[-1] - times[0]), results[0])
    console.print(heading, markup=False)
    console.print(results_table(results))
    if plot is not None:
        write_runs(plot, times, results, heading)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        documents = [result.to_json() for result in results]
        print_json(cast("Any", documents if len(documents) > 1 else documents[0]))


def _settings_file(given: Path | None, pipeline: Path | None) -> Path:
    if (given is None) == (pipeline is None):
        raise click.UsageError(
            "Name the settings file once, as in: penstock simulate pipeline.yaml"
            if given is not None
            else "Name the settings file, as in: penstock simulate pipeline.yaml"
        )
    found = given or pipeline
    assert found is not None
    return found


def named_policies(texts: Sequence[str]) -> list[PolicyChoice | None]:
    """The policies that the command names; every mistake in any of them is reported at once."""
    from penstock.errors import ConfigurationError
    from penstock.evaluation.policy_text import parse_policy

    found: list[PolicyChoice | None] = []
    faults: list[str] = []
    for text in texts:
        try:
            found.append(parse_policy(text))
        except ConfigurationError as fault:
            faults += [f"{text}: {line.removeprefix('policy: ')}" for line in fault.faults]
    if faults:
        raise ConfigurationError.of_all("policy", faults)
    return found


def _check_policies(
    names: Sequence[str],
    policies: Sequence[PolicyChoice | None],
    pipeline: Pipeline,
    objectives: Mapping[tuple[str, ...], Objective],
) -> None:
    """Build every policy before anything is read or run: nobody wants to wait for one to hear that another is wrong."""
    from penstock.errors import ConfigurationError
    from penstock.evaluation.simulation import simulated_context
    from penstock.ports import AnalysisPlace

    context = simulated_context(pipeline, objectives, AnalysisPlace("here"))
    faults: list[str] = []
    for text, policy in zip(names, policies, strict=True):
        try:
            if policy is not None:
                policy.build(context)
        except ConfigurationError as fault:
            faults += [f"{text}: {line}" for line in fault.faults]
    if faults:
        raise ConfigurationError.of_all("policy", list(dict.fromkeys(faults)))


def _learnt(from_run: StorePlace | None) -> LearntDemand | None:
    from penstock.cli.runs import find_run, opened
    from penstock.errors import ConfigurationError
    from penstock.evaluation.learnt_demand import learnt_demand

    if from_run is None:
        return None
    try:
        with opened(found := find_run(from_run)) as store:
            return learnt_demand(store, found.shown)
    except ConfigurationError as fault:
        raise ConfigurationError(str(fault).replace("RUN:", "--from:", 1), field="--from") from fault


def cpu_shares_for(policies: Sequence[PolicyChoice | None]) -> tuple[float, ...]:
    """The CPU shares of operators that set none: those of the one policy, or the same for all that are compared."""
    from penstock.evaluation.pipeline_file import DEFAULT_CPU_SHARES

    if len(policies) > 1:
        return DEFAULT_CPU_SHARES
    return (1.0,) if policies[0] is None else policies[0].cpu_shares


def _notes(
    policies: Sequence[PolicyChoice | None], objectives: Sequence[Objective], pipeline: Pipeline
) -> Iterator[str]:
    """What the user may not expect, a line each."""
    from penstock._wiring import objective_not_read

    for policy in policies:
        line = None if policy is None or policy.reads_objective else objective_not_read(policy.name, objectives)
        if line is not None:
            yield line
    if any(policies) and all(_is_fixed(o.limits) for o in pipeline.operators):
        yield "nothing can be scaled: every operator has one allocation; give `cpu_shares` or more `executors`"


def _is_fixed(limits: Limits) -> bool:
    return limits.min_executors == limits.max_executors and len(limits.cpu_shares) == 1


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


def objective_in(text: str) -> Objective:
    """The objective that ``--objective`` names."""
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
    labels = _labels([result.policy for result in results])
    for heading in ("mean", "p95", "p99", "met", "broken", "cost", "changes"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, result in zip(labels, results, strict=True):
        paid = (f"{result.cost_against_static:.1%}", str(len(result.changes)))
        broken = f"{result.violation_time_share:.1%}"
        if len(result.paths) == 1:
            table.add_row(label, *latency_cells(result.paths[0].latency), met_text(result.is_met), broken, *paid)
            continue
        table.add_row(label, "", "", "", met_text(result.is_met), broken, *paid)
        for path in result.paths:
            cells = (*latency_cells(path.latency), met_text(path.is_met), f"{path.violation_time_share:.1%}")
            table.add_row(f"  {path_text(path.path)}", *cells, "", "")
    return table


def _labels(policies: Sequence[str]) -> list[str]:
    """The policies as the table shows them: of paths the last part alone, unless two would look the same."""
    short = [_FOLDERS.sub("", policy) for policy in policies]
    return short if len(set(short)) == len(set(policies)) else list(policies)


def latency_cells(latency: LatencySummary | None) -> list[str]:
    """Mean, p95 and p99 for a table."""
    from penstock.units import format_seconds

    return [format_seconds(None if latency is None else latency.statistic(name)) for name in ("mean", "p95", "p99")]


def met_text(is_met: bool | None) -> str:
    """Whether an objective is met, for a table."""
    return "-" if is_met is None else "yes" if is_met else "NO"


def _heading(trace: str, name: str, span: float, result: SimulationResult) -> str:
    from penstock.units import format_seconds

    objectives = ", ".join(dict.fromkeys(str(path.objective) for path in result.paths))
    what = f"{trace} on {name}: {result.records} records in {format_seconds(span)}, seed {result.seed}"
    return f"{what}; objective {objectives}"


def write_runs(path: Path, times: FloatArray, results: Sequence[SimulationResult], title: str) -> None:
    """Draw runs on the same arrivals into the file that ``--plot`` names."""
    from penstock.errors import ConfigurationError
    from penstock.evaluation.simulation_pictures import simulation_picture

    try:
        path.write_bytes(simulation_picture(times, results, title))
    except OSError as fault:
        raise ConfigurationError(f"--plot: {path} cannot be written: {fault.strerror}", field="--plot") from fault
