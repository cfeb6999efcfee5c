# SPDX-License-Identifier: Apache-2.0
"""What `penstock what-if` predicts with: the demand, the arrivals and the processes fitted to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.progress import busy, progress_bar
from penstock.cli.queue_options import SERVICE_FORMS, apply_options, optional_seconds, parse_service, read_maps
from penstock.cli.runs import RunPlace
from penstock.cli.trace_options import check_no_reading, in_command_words, reading_of
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.evaluation.recorded_load import RecordedLoad
    from penstock.markov import MAP
    from penstock.performance.demand import Demand
    from penstock.ports import FloatArray
    from penstock.stores import StorePlace

_BATCH_OPTIONS = ("fixed", "per_record", "fixed_cpu", "fixed_scv", "per_record_scv", "cap", "trigger")
_HOW_TO_GIVE = "give --fixed and --per-record (micro-batches) or --service (records one by one)"


def demand_options(command: Any) -> Any:
    """Add the options that say what records cost."""
    return apply_options(command, (
        click.option("--from", "from_run", type=RunPlace(), metavar="RUN|STORE",
                     help="Take demand, trigger, cap and arrivals from a recorded run: its folder or its SQLite file. "
                          "What else is given takes their place."),
        click.option("--operator", help="Which operator of --from.  [default: the only one]"),
        click.option("--fixed", help="Micro-batches: time of a batch without records, such as 400ms. It is that of "
                                     "`fixed` and `driver` of a settings file together."),
        click.option("--per-record", help="Micro-batches: time each record adds on one executor at full share."),
        click.option("--fixed-cpu", help="The part of --fixed that runs under the executors' CPU share: `fixed` of a "
                                         "settings file.  [default: 0]"),
        click.option("--fixed-scv", type=click.FloatRange(0), help="SCV of the fixed time.  [default: 0]"),
        click.option("--per-record-scv", type=click.FloatRange(0), help="SCV of one record's time.  [default: 0]"),
        click.option("--cap", type=click.IntRange(1), help="Most records in a batch.  [default: no cap]"),
        click.option("--trigger", help="Trigger interval.  [default: a batch starts when the last has ended]"),
        click.option("--service", help=f"Instead: records one by one, on one executor at full share: {SERVICE_FORMS}."),
        click.option("--error", type=click.FloatRange(0), default=0.0, show_default=True,
                     help="Standard error of these times, relative to them; widens the bounds by twice as much."),
    ))  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Load:
    """What is predicted with.

    `arrivals` is None where processes fitted before stand for them; `notes` are lines for people.
    """

    maps: list[MAP]
    described: str
    arrivals: FloatArray | None
    arrivals_text: str
    are_exact: bool
    notes: tuple[str, ...] = ()


def recorded(from_run: StorePlace | None, operator: str | None, seed: int) -> RecordedLoad | None:
    """The run that `--from` names; None without."""
    if from_run is None:
        if operator is not None:
            raise ConfigurationError(
                "--operator: says which operator of --from, and that is not given", field="--operator"
            )
        return None
    from penstock.cli.runs import find_run, opened
    from penstock.evaluation.recorded_load import recorded_load

    try:
        found = find_run(from_run)
        name = from_run.name if isinstance(from_run, Path) else found.shown
        with busy(f"reading {name}"), opened(found) as store:
            return recorded_load(store, name, operator, seed=seed)
    except ConfigurationError as fault:
        raise ConfigurationError(str(fault).replace("RUN:", "--from:", 1), field="--from") from fault


def demand_of(options: dict[str, Any], run: RecordedLoad | None) -> tuple[Demand, tuple[str, ...]]:
    """What the options and the run say about the demand, with notes; takes the options out of `options`."""
    from penstock.performance.demand import RecordDemand

    service, error = options.pop("service"), options.pop("error")
    batch = {name: options.pop(name) for name in _BATCH_OPTIONS}
    if service is not None:
        given = [f"--{name.replace('_', '-')}" for name, value in batch.items() if value is not None]
        if given:
            raise ConfigurationError(
                f"--service: does not go with {', '.join(given)}; leave one out", field="--service"
            )
        return RecordDemand(parse_service(service), spread=error), ()
    if run is not None and batch["fixed"] is None and batch["per_record"] is None:
        return _recorded_demand(batch, error, run)
    return _batch_demand(batch, error), ()


def _batch_demand(batch: Mapping[str, Any], error: float) -> Demand:
    from penstock.performance.demand import BatchDemand

    for name in ("fixed", "per_record"):
        if batch[name] is None:
            field = f"--{name.replace('_', '-')}"
            raise ConfigurationError(f"{field}: is missing; {_HOW_TO_GIVE}, or --from RUN", field=field)
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


def _recorded_demand(batch: Mapping[str, Any], error: float, run: RecordedLoad) -> tuple[Demand, tuple[str, ...]]:
    from penstock.performance.demand import BatchDemand

    further = [name for name in ("fixed_cpu", "fixed_scv", "per_record_scv") if batch[name] is not None]
    if further:
        field = f"--{further[0].replace('_', '-')}"
        raise ConfigurationError(
            f"{field}: says more about --fixed and --per-record, which --from takes from the run; give those too",
            field=field,
        )
    demand = run.demand
    if demand is None:
        raise ConfigurationError(
            f"--from: what a record costs at {run.operator} is not known from {run.run}: {run.why_no_demand}; "
            f"{_HOW_TO_GIVE}",
            field="--from",
        )
    note = f"demand of {run.operator} in {run.run}: {run.demand_text}"
    if not isinstance(demand, BatchDemand):
        given = [f"--{name}" for name in ("cap", "trigger") if batch[name] is not None]
        if given:
            raise ConfigurationError(f"{given[0]}: {run.operator} takes records one by one", field=given[0])
        return replace(demand, spread=error or demand.spread), (note,)
    if batch["trigger"] is not None:
        demand = replace(demand, trigger_seconds=optional_seconds(batch["trigger"], "--trigger"))
    if batch["cap"] is not None:
        demand = replace(demand, cap=batch["cap"])
    if error:
        demand = replace(
            demand,
            fixed_error_seconds=error * demand.fixed_seconds,
            per_record_error_seconds=error * demand.per_record_seconds,
        )
    starts = (
        "a batch starts when the last has ended"
        if demand.trigger_seconds is None
        else f"a trigger every {demand.trigger_seconds:g} s"
    )
    notes: tuple[str, ...] = (
        f"{note}; {starts}; {'no cap' if demand.cap is None else f'at most {demand.cap} records a batch'}",
    )
    if not run.is_trigger_known and batch["trigger"] is None:
        notes += ("the run has not recorded its trigger: give --trigger if it has one",)
    return demand, notes


def load_of(file: Path | None, speed: float, options: dict[str, Any], run: RecordedLoad | None) -> Load:
    """The arrivals, and the processes fitted to them."""
    map_file = options.pop("map_file")
    if (file is not None and map_file is not None) or (file is None and map_file is None and run is None):
        raise ConfigurationError(
            "FILE: give either a trace, or --map with processes fitted before, or --from with a recorded run",
            field="FILE",
        )
    if not 0.0 < speed < float("inf"):
        raise ConfigurationError(f"--speed: {speed:g} must be positive; 2 is twice as fast", field="--speed")
    notes: tuple[str, ...] = ()
    if map_file is not None:
        maps, kind, arrivals, how, are_exact, name = (
            read_maps(map_file),
            "fitted before",
            None,
            "",
            False,
            map_file.name,
        )
    else:
        if file is not None:
            arrivals, name, how, are_exact = _read(file, options), file.name, f"of {file.name}", True
        else:
            assert run is not None
            check_no_reading(options, "FILE")
            arrivals, name = _window_of(run.arrivals, options), f"{run.operator} in {run.run}"
            how, are_exact = run.arrivals_text, run.are_exact
            notes = (f"arrivals at {run.operator}: {len(arrivals)}, {how}",)
        maps, kind = _fitted(arrivals, name, options)
    if speed != 1.0:
        maps = [one.time_scaled(1.0 / speed) for one in maps]
        arrivals = None if arrivals is None else arrivals / speed
    faster = "" if speed == 1.0 else f" at {speed:g} times the speed"
    found = "1 process" if len(maps) == 1 else f"{len(maps)} processes"
    described = f"{name}{faster}: {maps[0].rate:.4g} arrivals per second; {kind}; {found}"
    return Load(maps, described, arrivals, how, are_exact, notes)


def _read(file: Path, options: dict[str, Any]) -> FloatArray:
    import numpy as np

    from penstock.arrivals import read_window

    with in_command_words(), progress_bar(f"reading {file.name}") as progress:
        reading = reading_of(options, options["seed"])
        gaps = read_window(file, reading, skip=options["skip"], size=options["window"], progress=progress)
        # Inter-arrival times begin with the one from time zero to the first arrival, all others between two arrivals.
        first = 1 if reading.of(file).kind == "iats" and not options["skip"] else 0
    return np.concatenate([[0.0], np.cumsum(gaps[first:])])


def _window_of(arrivals: FloatArray, options: Mapping[str, Any]) -> FloatArray:
    """The newest window of a run's arrivals, from its first one."""
    kept = arrivals[options["skip"] :][-options["window"] - 1 :]
    if len(kept) < 2:
        raise ConfigurationError(
            f"--skip: {options['skip']} leaves nothing of the run's {len(arrivals)} arrivals; skip fewer",
            field="--skip",
        )
    since: FloatArray = kept - kept[0]
    return since


def _fitted(arrivals: FloatArray, name: str, options: Mapping[str, Any]) -> tuple[list[MAP], str]:
    import numpy as np

    from penstock.errors import NotReadyError
    from penstock.workload import fit_maps

    iats = np.diff(arrivals)
    with in_command_words():
        try:
            with busy(f"fitting {len(iats)} inter-arrival times"):
                result = fit_maps(iats, best=options["best"], max_states=options["max_states"], seed=options["seed"])
        except NotReadyError as fault:
            raise ConfigurationError(
                f"trace: {name}: {fault}; give a longer trace, a larger --window or a smaller --skip", field="trace"
            ) from fault
    return [fitted.map for fitted in result.maps], f"{result.kind}, fitted in {result.seconds:.2f} s"
