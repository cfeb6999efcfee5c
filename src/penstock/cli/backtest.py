# SPDX-License-Identifier: Apache-2.0
"""`penstock backtest`: what other policies would have done in a recorded run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import busy, calculate_in_one_thread, progress_bar
from penstock.cli.queue_options import parse_executors, parse_shares
from penstock.cli.runs import RunPlace
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.table import Table

    from penstock.evaluation.backtest import Backtest
    from penstock.records import Limits
    from penstock.stores import StorePlace

_FAR = 0.25
"""How far simulated and measured latency may be apart before a warning."""


@click.command(short_help="What other policies would have done in a recorded run.")
@click.argument("run", metavar="[RUN|STORE]", required=False, type=RunPlace())
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="What is tried: static (the top allocation throughout), or a policy that `penstock policies` lists, with "
    "options. May be given several times.  [default: static and the one that plans for the objective]",
)
@click.option("--operator", help="Which operator.  [default: the only one]")
@click.option("--objective", metavar="STATISTIC=SECONDS", help="Such as p95=2s.  [default: the run's]")
@click.option("--executors", help='How many it may have: "1-4".  [default: as in the run]')
@click.option("--cpu-shares", help="Levels of CPU share per executor.  [default: as in the run]")
@click.option("--analysis", default="5s", show_default=True, help="How long an analysis takes before it is in force.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same result.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the runs into this PNG file.")
@json_option
@debug_option
def backtest(  # noqa: PLR0917 - click passes them by name
    run: StorePlace | None,
    policies: tuple[str, ...],
    operator: str | None,
    objective: str | None,
    executors: str | None,
    cpu_shares: str | None,
    analysis: str,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Try policies on a recorded run: its arrivals and its demand, in the simulator, beside what happened.

    RUN is a run's folder, its knowledge.sqlite, or the store of an attached query. Default: the newest under runs/. Use
    it before you switch a policy on: attach with mode="recommend" for a while, then try the policy on what was
    recorded.

    \b
    The rows:
      measured       what happened, as the store says
      as recorded    the run's own allocations in the simulator: the nearer it is to the row above, the better the
                     simulator knows this operator, and the more the other rows can be trusted
      the policies   the objects that run on Spark, from the allocation that the run began with

    Arrivals and demand are found as by `penstock what-if --from`, and the lines above the table say how. New executors
    take as long to start as they did in the run. "broken" is the part of the time in which the objective was broken,
    "cost" executors times CPU share, as a part of the top allocation throughout.

    An objective that no allocation could keep is not refused: every row says that it is broken, and a line below why.

    --json prints one object: run, operator, objective (why_impossible: null where it may be kept), arrivals, demand,
    start_up_seconds (of a new executor; null: none was started), simulator_error (relative, of the objective's
    statistic; null: not known), measured, and results (as `penstock simulate --json`, the first "as recorded").

    \b
    Examples:
      penstock backtest
      penstock backtest scaler.sqlite --policy mead --policy threshold --objective p95=2s
      penstock backtest runs/logs-20250102-030405 --policy rules:rules=calm.rules --plot backtest.png
    """
    calculate_in_one_thread()
    from penstock.cli.output import print_json, words_console
    from penstock.cli.runs import find_run, opened
    from penstock.cli.simulate import named_policies, objective_in, write_runs
    from penstock.evaluation.backtest import backtest as try_policies
    from penstock.evaluation.recorded_load import recorded_load
    from penstock.evaluation.run_reading import read_history
    from penstock.policies import default_policy
    from penstock.units import parse_seconds

    check_picture(plot)
    wanted = None if objective is None else objective_in(objective)
    chosen = named_policies(policies)
    delay = parse_seconds(analysis, "--analysis")
    found = find_run(run)
    with busy(f"reading {found.shown}"), opened(found) as store:
        load = recorded_load(store, found.shown, operator, seed=seed)
        history = read_history(store)
    names = policies
    if not policies:
        names = ("static", default_policy([wanted or load.objective]))
        chosen = named_policies(names)
    limits = _limits(executors, cpu_shares, load.limits)
    console = words_console(as_json)
    for line in (
        f"arrivals at {load.operator}: {len(load.arrivals)}, {load.arrivals_text}",
        f"demand: {load.demand_text}" if load.demand is not None else "",
    ):
        if line:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    with progress_bar(f"trying {len(names)} policies") as progress:
        result = try_policies(
            history,
            load,
            list(zip(names, chosen, strict=True)),
            objective=wanted,
            limits=limits,
            seed=seed,
            analysis_seconds=delay,
            progress=progress,
        )
    shares = ", ".join(f"{share:.0%}" for share in result.limits.cpu_shares)
    allowed = f"{result.limits.min_executors} to {result.limits.max_executors} executors with CPU shares of {shares}"
    console.print(f"objective {result.objective}; {allowed}", markup=False, highlight=False, soft_wrap=True)
    console.print(_table(result))
    for line in _remarks(result):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if plot is not None:
        write_runs(plot, load.arrivals, result.results, f"{load.run}, {load.operator}: {result.objective}")
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json(_document(result))


def _limits(executors: str | None, cpu_shares: str | None, recorded: Limits | None) -> Limits | None:
    """What the operator may have: as given, and as recorded for the rest."""
    from penstock.records import Limits

    if executors is None and cpu_shares is None:
        return recorded
    if executors is not None:
        counts = parse_executors(executors)
        fewest, most = counts[0], counts[-1]
    elif recorded is not None:
        fewest, most = recorded.min_executors, recorded.max_executors
    else:
        raise ConfigurationError("--executors: is missing; the run has recorded none", field="--executors")
    if cpu_shares is not None:
        return Limits(fewest, most, parse_shares(cpu_shares))
    return Limits(fewest, most, recorded.cpu_shares if recorded is not None else (1.0,))


def _table(result: Backtest) -> Table:
    from rich.table import Table

    from penstock.cli.simulate import latency_cells, met_text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", overflow="fold")
    for heading in ("mean", "p95", "p99", "met", "broken", "cost", "changes"):
        table.add_column(heading, justify="right", no_wrap=True)
    happened = result.measured
    is_met = result.objective.is_met_by(happened.latency)
    table.add_row(
        "measured", *latency_cells(happened.latency), met_text(is_met), _percent(happened.violation_time_share),
        _percent(happened.cost_against_static), str(happened.changes), end_section=True,
    )  # fmt: skip
    for one in result.results:
        table.add_row(
            one.policy, *latency_cells(one.paths[0].latency), met_text(one.is_met), _percent(one.violation_time_share),
            _percent(one.cost_against_static), str(len(one.changes)),
        )  # fmt: skip
    return table


def _remarks(result: Backtest) -> list[str]:
    error, lines = result.simulator_error, []
    if result.why_impossible is not None:
        lines.append(f"No policy keeps the objective: {result.why_impossible}. Try a larger bound: --objective p95=2s")
    statistic = result.objective.statistic or "p95"
    if error is None:
        lines.append("The run did not measure latency, so nothing shows how near the simulator is to it.")
    else:
        far = "; do not rely on the other rows" if abs(error) > _FAR else ""
        lines.append(
            f"The simulator's {statistic} is {error:+.0%} off the measured one under the same allocations{far}."
        )
    if result.start_up_seconds is None:
        lines.append("The run started no executor after its first ones: here new ones take no time to start.")
    if not result.load.are_exact:
        lines.append("The instants of arrivals are not exact: bursts shorter than a look are smoothed.")
    return lines


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def _document(result: Backtest) -> dict[str, Any]:
    from dataclasses import asdict

    objective, happened = result.objective, result.measured
    return {
        "run": result.load.run,
        "operator": result.load.operator,
        "objective": {"statistic": objective.statistic, "seconds": objective.seconds,
                      "why_impossible": result.why_impossible},
        "arrivals": {"records": len(result.load.arrivals), "how": result.load.arrivals_text,
                     "is_exact": result.load.are_exact},
        "demand": result.load.demand_text,
        "start_up_seconds": result.start_up_seconds,
        "simulator_error": result.simulator_error,
        "measured": {**asdict(happened), "cost_against_static": happened.cost_against_static},
        "results": [one.to_json() for one in result.results],
    }  # fmt: skip
