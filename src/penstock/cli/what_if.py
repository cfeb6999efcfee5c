# SPDX-License-Identifier: Apache-2.0
"""`penstock what-if`: the latency a trace would have under each of many allocations, and the cheapest that will do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.queue_options import (
    SERVICE_FORMS,
    apply_options,
    optional_seconds,
    parse_executors,
    parse_percentiles,
    parse_service,
    parse_shares,
    percentiles_option,
    plot_option,
    read_maps,
    write_picture,
)
from penstock.cli.trace_options import in_command_words, progress_bar, reading_of, trace_options
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.markov import MAP
    from penstock.performance.demand import Demand
    from penstock.records import Objective

_MODELS = ("map", "m/g/1", "gi/g/1")


def _demand_options(command: Any) -> Any:
    return apply_options(command, (
        click.option("--fixed", help="Micro-batches: time of a batch without records, such as 400ms."),
        click.option("--per-record", help="Micro-batches: time each record adds on one executor at full share."),
        click.option("--fixed-cpu", help="The part of --fixed that runs under the executors' CPU share.  [default: 0]"),
        click.option("--fixed-scv", type=click.FloatRange(0), help="SCV of the fixed time.  [default: 0]"),
        click.option("--per-record-scv", type=click.FloatRange(0), help="SCV of one record's time.  [default: 0]"),
        click.option("--cap", type=click.IntRange(1), help="Most records in a batch.  [default: no cap]"),
        click.option("--trigger", help="Trigger interval.  [default: a batch starts when the last has ended]"),
        click.option("--service", help=f"Instead: records one by one, on one executor at full share: {SERVICE_FORMS}."),
        click.option("--error", type=click.FloatRange(0), default=0.0, show_default=True,
                     help="Standard error of these times, relative to them; widens the bounds by twice as much."),
    ))  # fmt: skip


@click.command("what-if", short_help="Latency of a trace under many allocations, and the cheapest that will do.")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@_demand_options
@click.option("--executors", default="1-4", show_default=True, help='How many: "1-4", "2" or "1,2,8".')
@click.option(
    "--cpu-shares", default="0.4,0.55,0.7,0.85,1.0", show_default=True, help="Levels of CPU share per executor."
)
@click.option("--objective", help="Such as p95=2s (mean, p50, p95, p99).  [default: keep up]")
@click.option("--speed", type=float, default=1.0, show_default=True, help="Arrivals come this many times as fast.")
@click.option("--model", type=click.Choice(_MODELS), default="map", show_default=True, help="m/g/1 sees no bursts.")
@percentiles_option()
@click.option(
    "--map", "map_file", type=click.Path(path_type=Path), help="Instead of FILE: processes fitted before (D0, D1)."
)
@click.option("--window", type=click.IntRange(1), default=50_000, show_default=True, help="Inter-arrival times to fit.")
@click.option("--skip", type=click.IntRange(0), default=0, show_default=True, help="Inter-arrival times to leave out.")
@click.option("--best", type=click.IntRange(1), default=5, show_default=True, help="How many distinct processes.")
@click.option("--max-states", type=click.IntRange(1), default=16, show_default=True, help="Most states of a process.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same result.")
@trace_options
@plot_option("latency over the allocations")
@json_option
@debug_option
def what_if(  # noqa: PLR0917 - click passes them by name
    file: Path | None,
    executors: str,
    cpu_shares: str,
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
    Streaming's default), or --service for records one by one (real-time mode). The value shown is the worst over the
    fitted processes; the bounds span all of them and twice the standard error of the demand. Cost is executors times
    CPU share. An allocation that cannot keep up is saturated: its latency grows without end.
    Exit code 1: an --objective is given and no allocation meets it; all else is printed all the same.

    --json prints one object: objective, model, arrival_rate, allocations (by cost; each with executors, cpu_share,
    cost, stable, utilisation, mean, percentiles, bounds, meets), chosen (null: none) and reason. Infinite is null.

    \b
    Examples:
      penstock what-if arrivals.txt --fixed 400ms --per-record 8ms --objective p95=2s
      penstock what-if arrivals.txt --service erlang:2:10ms --objective p99=500ms --plot what-if.png
      penstock what-if packets.txt.xz --unit us --fixed 0.3 --per-record 1ms --speed 2 --json
    """
    from penstock.cli.output import print_json, words_console
    from penstock.cli.what_if_view import choose, document_of, table_of
    from penstock.performance.operator_latency import predict
    from penstock.records import Allocation

    check_picture(plot)
    demand, goal = _demand(options), _objective(objective, model)
    wanted = parse_percentiles(percentiles or "0.5,0.95,0.99")
    asked = sorted({*wanted.values(), *_probability_of(goal)})
    shares, counts = parse_shares(cpu_shares), parse_executors(executors)
    allocations = sorted((Allocation(n, s) for n in counts for s in shares), key=lambda a: (a.capacity, a.executors))
    console = words_console(as_json)
    maps, described = _workload(file, speed, options)
    console.print(described, markup=False)
    started = time.perf_counter()
    with progress_bar("predicting") as progress:
        predictions = predict(maps, demand, allocations, percentiles=asked, model=model, progress=progress)
    choice = choose(predictions, goal, len(maps))
    console.print(
        f"{predictions[0].model}: {len(predictions)} allocations in {time.perf_counter() - started:.2f} s", markup=False
    )
    console.print(table_of(predictions, goal, choice))
    console.print(choice.reason, markup=False)
    if plot is not None:
        from penstock.evaluation.queue_pictures import allocations_picture

        statistic = goal.statistic or ("mean" if model == "gi/g/1" else "p95")
        title = f"{described.split(';', maxsplit=1)[0]}\n{predictions[0].model}"
        drawn = allocations_picture(predictions, statistic, objective=goal, chosen=choice.chosen, title=title)
        write_picture(plot, drawn)
        console.print(f"picture: {plot}", markup=False)
    if as_json:
        print_json(document_of(predictions, goal, choice, [one.rate for one in maps]))
    if objective is not None and choice.chosen is None:
        click.get_current_context().exit(FAILED)


def _objective(text: str | None, model: str) -> Objective:
    from penstock.records import Objective
    from penstock.settings import make_objective

    if text is None:
        return Objective()
    statistic, equals, bound = (part.strip() for part in text.partition("="))
    if not equals:
        raise ConfigurationError(f"--objective: cannot read {text!r}; write it like p95=2s", field="--objective")
    try:
        objective = make_objective({statistic: bound})
    except ConfigurationError as fault:
        raise ConfigurationError(f"--{fault}", field="--objective") from fault
    if model == "gi/g/1" and statistic != "mean":
        raise ConfigurationError(
            "--objective: gi/g/1 (Kingman) gives the mean alone; ask for mean=..., or use --model map",
            field="--objective",
        )
    return objective


def _probability_of(objective: Objective) -> list[float]:
    if objective.statistic in (None, "mean"):
        return []
    return [float(str(objective.statistic).removeprefix("p")) / 100]


def _demand(options: dict[str, Any]) -> Demand:
    """What the options of `_demand_options` say; takes them out of `options`."""
    from penstock.performance.demand import BatchDemand, RecordDemand

    service, error = options.pop("service"), options.pop("error")
    names = ("fixed", "per_record", "fixed_cpu", "fixed_scv", "per_record_scv", "cap", "trigger")
    batch = {name: options.pop(name) for name in names}
    if service is not None:
        given = [f"--{name.replace('_', '-')}" for name, value in batch.items() if value is not None]
        if given:
            raise ConfigurationError(
                f"--service: does not go with {', '.join(given)}; leave one out", field="--service"
            )
        return RecordDemand(parse_service(service), spread=error)
    for name in ("fixed", "per_record"):
        if batch[name] is None:
            field = f"--{name.replace('_', '-')}"
            raise ConfigurationError(
                f"{field}: is missing; give --fixed and --per-record (micro-batches) or --service (records one by one)",
                field=field,
            )
    fixed = optional_seconds(batch["fixed"], "--fixed") or 0.0
    per_record = optional_seconds(batch["per_record"], "--per-record") or 0.0
    fixed_cpu = optional_seconds(batch["fixed_cpu"], "--fixed-cpu") or 0.0
    if fixed_cpu > fixed:
        raise ConfigurationError("--fixed-cpu: is a part of --fixed and cannot be longer", field="--fixed-cpu")
    return BatchDemand(
        fixed_seconds=fixed,
        per_record_seconds=per_record,
        fixed_scv=batch["fixed_scv"] or 0.0,
        per_record_scv=batch["per_record_scv"] or 0.0,
        fixed_cpu_seconds=fixed_cpu,
        fixed_error_seconds=error * fixed,
        per_record_error_seconds=error * per_record,
        cap=batch["cap"],
        trigger_seconds=optional_seconds(batch["trigger"], "--trigger"),
    )


def _workload(file: Path | None, speed: float, options: dict[str, Any]) -> tuple[list[MAP], str]:
    """The processes to predict with, and a sentence about them."""
    map_file = options.pop("map_file")
    if (file is None) == (map_file is None):
        raise ConfigurationError("FILE: give either a trace, or --map with processes fitted before", field="FILE")
    if not 0.0 < speed < float("inf"):
        raise ConfigurationError(f"--speed: {speed:g} must be positive; 2 is twice as fast", field="--speed")
    if map_file is not None:
        maps, kind = read_maps(map_file), "fitted before"
        name = map_file.name
    else:
        assert file is not None
        maps, kind = _fitted(file, options)
        name = file.name
    maps = [one.time_scaled(1.0 / speed) for one in maps] if speed != 1.0 else maps
    faster = "" if speed == 1.0 else f" at {speed:g} times the speed"
    found = "1 process" if len(maps) == 1 else f"{len(maps)} processes"
    return maps, f"{name}{faster}: {maps[0].rate:.4g} arrivals per second; {kind}; {found}"


def _fitted(file: Path, options: dict[str, Any]) -> tuple[list[MAP], str]:
    from penstock.arrivals import read_window
    from penstock.errors import NotReadyError
    from penstock.workload import fit_maps

    seed = options.pop("seed")
    with in_command_words():
        with progress_bar(f"reading {file.name}") as progress:
            iats = read_window(
                file, reading_of(options, seed), skip=options["skip"], size=options["window"], progress=progress
            )
        try:
            with _busy(f"fitting {len(iats)} inter-arrival times"):
                result = fit_maps(iats, best=options["best"], max_states=options["max_states"], seed=seed)
        except NotReadyError as fault:
            raise ConfigurationError(
                f"trace: {file}: {fault}; give a longer trace, a larger --window or a smaller --skip", field="trace"
            ) from fault
    return [fitted.map for fitted in result.maps], f"{result.kind}, fitted in {result.seconds:.2f} s"


@contextmanager
def _busy(text: str) -> Iterator[None]:
    """A sign of life on stderr for work whose end is not known; nothing where stderr is not a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield
