# SPDX-License-Identifier: Apache-2.0
"""`penstock what-if`: the latency a trace would have under each of many allocations, and the cheapest that will do."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.progress import calculate_in_one_thread, progress_bar
from penstock.cli.queue_options import (
    parse_executors,
    parse_percentiles,
    parse_shares,
    percentiles_option,
    plot_option,
    write_picture,
)
from penstock.cli.trace_options import trace_options
from penstock.cli.what_if_input import demand_of, demand_options, load_of, recorded
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.evaluation.recorded_load import RecordedLoad
    from penstock.records import Allocation, Objective
    from penstock.stores import StorePlace

_MODELS = ("map", "m/g/1", "gi/g/1")
_EXECUTORS, _CPU_SHARES = "1-4", "0.4,0.55,0.7,0.85,1.0"


@click.command("what-if", short_help="Latency of a trace under many allocations, and the cheapest that will do.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@demand_options
@click.option(
    "--executors", help=f'How many: "1-4", "2" or "1,2,8".  [default: {_EXECUTORS}, or what the run may have]'
)
@click.option(
    "--cpu-shares", help=f"Levels of CPU share per executor.  [default: {_CPU_SHARES}, or what the run may have]"
)
@click.option("--objective", help="Such as p95=2s (mean, p50, p95, p99).  [default: the run's, or to keep up]")
@click.option("--speed", type=float, default=1.0, show_default=True, help="Arrivals come this many times as fast.")
@click.option("--model", type=click.Choice(_MODELS), default="map", show_default=True, help="m/g/1 sees no bursts.")
@percentiles_option()
@click.option(
    "--map", "map_file", type=click.Path(path_type=Path), help="Instead of FILE: processes fitted before (D0, D1)."
)
@click.option("--window", type=click.IntRange(1), default=50_000, show_default=True, help="Inter-arrival times to fit.")
@click.option("--skip", type=click.IntRange(0), default=0, show_default=True, help="Inter-arrival times to leave out.")
@click.option("--best", type=click.IntRange(1), default=5, show_default=True, help="How many distinct processes.")
@click.option(
    "--max-states",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="Most states of a process. With 16 a queue of micro-batches takes seconds.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same result.")
@trace_options
@plot_option("latency over the allocations")
@json_option
@debug_option
def what_if(  # noqa: PLR0917 - click passes them by name
    file: Path | None,
    from_run: StorePlace | None,
    operator: str | None,
    executors: str | None,
    cpu_shares: str | None,
    objective: str | None,
    speed: float,
    model: Any,
    percentiles: str | None,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Fit the trace in FILE, predict record latency under every allocation, and find the cheapest that will do.

    Say what the records ask of one executor at full share: --fixed and --per-record for micro-batches (Structured
    Streaming's default), or --service for records one by one (real-time mode). Or name a recorded run with --from: its
    demand, trigger, cap and arrivals are taken. Cost is executors times CPU share. An allocation that cannot keep up is
    saturated: its latency grows without end.

    Each allocation has two figures. The model's is the worst over the processes fitted to the trace; its bounds span
    all of them and twice the standard error of the demand. "replayed" is what the trace itself would have met, as
    `penstock simulate` finds. The verdict rests on the replay; the model tells what may come if bursts come otherwise.
    The plans of the policy mead rest on replays too, but the worse counts of its newest window and of that window's
    newer half, and with micro-batches of the last two minutes (look_back). what-if replays one window, once.
    With --map there is nothing to replay, and with another --model than map that
    one is asked about: then the model judges.
    An allocation whose queue cannot be solved is "not solved", with the reason.
    Exit code 1: an objective is given and no allocation meets it; all else is printed all the same.

    --json prints one object: objective, model, arrival_rate, demand, replay (how the arrivals were had; null: none),
    judged_by ("replay" or "model"), allocations (by cost; each with executors, cpu_share, cost, stable, utilisation,
    mean, percentiles, bounds of the model, unsolved (why it has no answer; null: it has), replayed with the same,
    meets, meets_by_model, meets_replayed),
    chosen (null: none) and reason. Infinite is null.

    \b
    Examples:
      penstock what-if arrivals.txt --fixed 400ms --per-record 8ms --objective p95=2s
      penstock what-if --from runs/logs-20250102-030405 --objective p95=2s
      penstock what-if arrivals.txt --service erlang:2:10ms --objective p99=500ms --plot what-if.png
      penstock what-if packets.txt.xz --unit us --fixed 0.3 --per-record 1ms --speed 2 --json
    """
    calculate_in_one_thread()
    from penstock.cli.output import print_json, words_console
    from penstock.cli.what_if_view import choose, document_of, far_apart, table_of, unsolved_text
    from penstock.performance.candidate_replay import judged_candidates, replay_candidates
    from penstock.performance.operator_latency import predict

    check_picture(plot)
    run = recorded(from_run, operator, options["seed"])
    (demand, notes), goal = demand_of(options, run), _objective(objective, model, run)
    wanted = parse_percentiles(percentiles or "0.5,0.95,0.99")
    asked = sorted({*wanted.values(), *_probability_of(goal)})
    allocations = _allocations(executors, cpu_shares, run)
    console = words_console(as_json)
    load = load_of(file, speed, options, run)
    for note in (*notes, *load.notes):
        console.print(note, markup=False, highlight=False, soft_wrap=True)
    console.print(load.described, markup=False)
    started = time.perf_counter()
    with progress_bar("predicting") as progress:
        predictions = predict(load.maps, demand, allocations, percentiles=asked, model=model, progress=progress)
    replayed = None
    if load.arrivals is not None:
        with progress_bar("replaying") as progress:
            replayed = replay_candidates(
                load.arrivals, demand, allocations, percentiles=asked, seed=options["seed"], progress=progress
            )
    judged = judged_candidates(predictions, replayed, by_replay=model == "map")
    choice = choose(judged, goal, len(load.maps))
    console.print(
        f"{predictions[0].model}: {len(predictions)} allocations in {time.perf_counter() - started:.2f} s", markup=False
    )
    console.print(table_of(judged, goal, choice))
    for line in (unsolved_text(judged), choice.reason, far_apart(judged, goal)):
        if line is not None:
            console.print(line, markup=False, soft_wrap=True)
    if plot is not None:
        from penstock.evaluation.queue_pictures import allocations_picture

        statistic = goal.statistic or ("mean" if model == "gi/g/1" else "p95")
        title = f"{load.described.split(';', maxsplit=1)[0]}\n{predictions[0].model}"
        chosen = None if choice.chosen is None else choice.chosen.counted
        drawn = allocations_picture(
            predictions, statistic, objective=goal, chosen=chosen, title=title, replayed=replayed
        )
        write_picture(plot, drawn)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json(document_of(judged, goal, choice, demand=demand, load=load))
    if goal.statistic is not None and choice.chosen is None:
        click.get_current_context().exit(FAILED)


def _allocations(executors: str | None, cpu_shares: str | None, run: RecordedLoad | None) -> list[Allocation]:
    """All that are asked about, by cost: those named, else those of the run, else the usual."""
    from penstock.records import Allocation

    limits = None if run is None else run.limits
    if executors is None and limits is not None:
        counts: tuple[int, ...] = tuple(range(limits.min_executors, limits.max_executors + 1))
    else:
        counts = parse_executors(executors or _EXECUTORS)
    shares = parse_shares(cpu_shares or _CPU_SHARES)
    if cpu_shares is None and limits is not None:
        shares = limits.cpu_shares
    return sorted((Allocation(n, s) for n in counts for s in shares), key=lambda a: (a.capacity, a.executors))


def _objective(text: str | None, model: str, run: RecordedLoad | None) -> Objective:
    from penstock.records import Objective
    from penstock.settings import make_objective

    if text is None:
        objective = Objective() if run is None else run.objective
    else:
        statistic, equals, bound = (part.strip() for part in text.partition("="))
        if not equals:
            raise ConfigurationError(f"--objective: cannot read {text!r}; write it like p95=2s", field="--objective")
        try:
            objective = make_objective({statistic: bound})
        except ConfigurationError as fault:
            raise ConfigurationError(f"--{fault}", field="--objective") from fault
    if model == "gi/g/1" and objective.statistic not in (None, "mean"):
        raise ConfigurationError(
            "--objective: gi/g/1 (Kingman) gives the mean alone; ask for mean=..., or use --model map",
            field="--objective",
        )
    return objective


def _probability_of(objective: Objective) -> list[float]:
    if objective.statistic in (None, "mean"):
        return []
    return [float(str(objective.statistic).removeprefix("p")) / 100]
