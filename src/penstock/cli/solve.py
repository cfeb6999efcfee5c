# SPDX-License-Identifier: Apache-2.0
"""`penstock solve`: one queue, from options and files, with the distribution of its response time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option, json_option
from penstock.cli.output_files import check_picture
from penstock.cli.queue_options import (
    SERVICE_FORMS,
    apply_options,
    arrivals_of,
    format_time,
    optional_seconds,
    parse_percentiles,
    parse_service,
    percentiles_option,
    plot_option,
    read_maps,
    write_picture,
)

if TYPE_CHECKING:
    from penstock.markov import MAP, PH
    from penstock.performance.queueing.response import Response

_DEFAULT_PERCENTILES = "0.5,0.95,0.99"


def _arrival_options(command: Any) -> Any:
    return apply_options(command, (
        click.option("--map", "map_file", type=click.Path(path_type=Path),
                     help="Arrivals: a JSON file with D0 and D1 per second, or what `penstock fit --json` printed."),
        click.option("--rate", help='Instead of --map: arrivals per second, or "120/min"; Poisson without --scv.'),
        click.option("--scv", type=float, help="With --rate: squared coefficient of variation of independent gaps."),
    ))  # fmt: skip


def _service_option(command: Any) -> Any:
    return click.option(
        "--service",
        required=True,
        help=f'Service time: {SERVICE_FORMS} (alpha, T); in seconds, or with a unit such as "10ms".',
    )(command)


def _answer_options(command: Any) -> Any:
    return apply_options(
        command, (percentiles_option(_DEFAULT_PERCENTILES), plot_option("the distribution"), json_option, debug_option)
    )


@click.group(short_help="Solve a queue: mean, percentiles and distribution of its response time.")
def solve() -> None:
    """Solve a queue: whether it is stable, how busy it is, and how long a record spends in it.

    For a queue that cannot keep up, stable is false and times are infinite (null in JSON). --json prints one object
    with stable, utilisation, mean, percentiles (by the probability as written) and more. Times are in seconds.

    \b
    Examples:
      penstock solve map-ph-1 --map map.json --service erlang:2:10ms
      penstock solve micro-batch --map map.json --fixed 400ms --per-record 2ms --plot batches.png
      penstock solve m-g-1 --rate 80/s --service hyper2:10ms:4 --percentiles 0.99,0.999
    """


@solve.command("map-ph-1", short_help="Bursty arrivals (MAP), phase-type service, one server.")
@_arrival_options
@_service_option
@_answer_options
def map_ph_1(map_file: Path | None, rate: str | None, scv: float | None, service: str, **answer: Any) -> None:
    """Records are served one by one in order of arrival. The time is from arrival to end of service.

    \b
    Examples:
      penstock solve map-ph-1 --map map.json --service erlang:2:10ms --percentiles 0.5,0.95,0.99 --json
      penstock solve map-ph-1 --rate 80 --scv 6 --service exp:0.01 --plot times.png
    """
    from penstock.performance.queueing.single_server import solve_map_ph_1

    asked = _Asked("MAP/PH/1", **answer)
    arrivals, notes = arrivals_of(map_file, rate, scv)
    served = parse_service(service)
    asked.report(solve_map_ph_1(arrivals, served), arrivals, _service_text(served), notes, fastest=served.mean)


@solve.command("map-map-1", short_help="Bursty arrivals and correlated service times, one server.")
@_arrival_options
@click.option(
    "--service-map",
    type=click.Path(path_type=Path),
    required=True,
    help="Service times: a JSON file with D0 and D1 per second. Its events are the ends of service while busy.",
)
@_answer_options
def map_map_1(map_file: Path | None, rate: str | None, scv: float | None, service_map: Path, **answer: Any) -> None:
    """Like map-ph-1, with service times that depend on those before them.

    \b
    Examples:
      penstock solve map-map-1 --map map.json --service-map service.json
    """
    from penstock.performance.queueing.single_server import solve_map_map_1

    asked = _Asked("MAP/MAP/1", **answer)
    arrivals, notes = arrivals_of(map_file, rate, scv)
    served, *others = read_maps(service_map, "--service-map")
    if others:
        notes.append(f"{service_map} has {1 + len(others)} processes; the first (best) is used")
    text = f"service mean {format_time(served.mean)}, SCV {served.scv:.3g}, {_states(served.order)}"
    asked.report(solve_map_map_1(arrivals, served), arrivals, text, notes, fastest=served.mean)


@solve.command("m-g-1", short_help="Poisson arrivals, one server (Pollaczek-Khinchine).")
@_arrival_options
@_service_option
@_answer_options
def m_g_1(map_file: Path | None, rate: str | None, scv: float | None, service: str, **answer: Any) -> None:
    """Arrivals are Poisson. Only the rate of a --map is used, so bursts are ignored.

    \b
    Examples:
      penstock solve m-g-1 --rate 80 --service erlang:2:10ms
    """
    from penstock.errors import ConfigurationError
    from penstock.markov import MAP
    from penstock.performance.queueing.general import solve_m_g_1

    if scv is not None:
        raise ConfigurationError("--scv: Poisson arrivals have an SCV of 1; use map-ph-1 or gi-g-1", field="--scv")
    asked = _Asked("M/G/1", **answer)
    arrivals, notes = arrivals_of(map_file, rate, scv)
    if arrivals.order > 1:
        notes.append("only the rate of the arrival process is used: bursts are ignored")
    arrivals, served = MAP.poisson(arrivals.rate), parse_service(service)
    asked.report(solve_m_g_1(arrivals.rate, served), arrivals, _service_text(served), notes, fastest=served.mean)


@solve.command("gi-g-1", short_help="Independent gaps, one server (Kingman): the mean only.")
@_arrival_options
@_service_option
@_answer_options
def gi_g_1(map_file: Path | None, rate: str | None, scv: float | None, service: str, **answer: Any) -> None:
    """Kingman's approximation of the mean from rates and variabilities. It has no percentiles.

    \b
    Examples:
      penstock solve gi-g-1 --rate 80 --scv 4 --service erlang:2:10ms
    """
    from penstock.performance.queueing.general import solve_gi_g_1

    asked = _Asked("GI/G/1", has_distribution=False, **answer)
    arrivals, notes = arrivals_of(map_file, rate, scv)
    if arrivals.order > 1 and map_file is not None:
        notes.append("only rate and SCV of the arrival process are used: correlation is ignored")
    served = parse_service(service)
    solved = solve_gi_g_1(arrivals.rate, arrivals.scv, served.mean, served.scv)
    asked.report(solved, arrivals, _service_text(served), notes, fastest=served.mean)


@solve.command("micro-batch", short_help="Micro-batches: records wait for the running batch and are in the next.")
@_arrival_options
@click.option("--fixed", required=True, help="Time of a batch without records, such as 400ms.")
@click.option("--per-record", required=True, help="Time each record adds to its batch, such as 2ms.")
@click.option("--cap", type=click.IntRange(1), help="Most records in a batch.  [default: no cap]")
@click.option("--trigger", help="Trigger interval.  [default: a batch starts when the last has ended]")
@click.option("--fixed-scv", type=click.FloatRange(0), default=0.0, show_default=True, help="SCV of the fixed time.")
@click.option(
    "--per-record-scv", type=click.FloatRange(0), default=0.0, show_default=True, help="SCV of one record's time."
)
@_answer_options
def micro_batch(  # noqa: PLR0917 - click passes them by name
    map_file: Path | None,
    rate: str | None,
    scv: float | None,
    fixed: str,
    per_record: str,
    cap: int | None,
    trigger: str | None,
    fixed_scv: float,
    per_record_scv: float,
    **answer: Any,
) -> None:
    """Structured Streaming's default. The time is from a record's arrival to the end of its batch.

    \b
    Examples:
      penstock solve micro-batch --map map.json --fixed 400ms --per-record 2ms
      penstock solve micro-batch --rate 300 --fixed 0.4 --per-record 2ms --cap 1000 --trigger 1s
    """
    from penstock.performance.queueing.micro_batch import MicroBatch, solve_micro_batch
    from penstock.units import parse_seconds

    asked = _Asked("micro-batch queue", **answer)
    arrivals, notes = arrivals_of(map_file, rate, scv)
    server = MicroBatch(
        fixed=parse_seconds(fixed, "--fixed"),
        per_record=parse_seconds(per_record, "--per-record"),
        cap=cap,
        trigger=optional_seconds(trigger, "--trigger"),
        fixed_scv=fixed_scv,
        per_record_scv=per_record_scv,
    )
    text = f"batches of {format_time(server.fixed)} + {format_time(server.per_record)} per record"
    text += "" if cap is None else f", at most {cap} records"
    text += "" if server.trigger is None else f", triggered every {format_time(server.trigger)}"
    fastest = server.per_record if cap is None else server.full_cycle().mean / cap
    asked.report(solve_micro_batch(arrivals, server), arrivals, text, notes, fastest=fastest)


class _Asked:
    """The options for a queue, checked before it is solved."""

    def __init__(
        self,
        queue: str,
        *,
        percentiles: str | None,
        plot: Path | None,
        as_json: bool,
        has_distribution: bool = True,
    ) -> None:
        from penstock.errors import ConfigurationError

        check_picture(plot)
        for field, value in (("--percentiles", percentiles), ("--plot", plot)):
            if value is not None and not has_distribution:
                raise ConfigurationError(
                    f"{field}: Kingman's formula gives only the mean, no distribution; leave {field} out, or use "
                    "map-ph-1 or m-g-1",
                    field=field,
                )
        self._queue = queue
        self._percentiles = (
            parse_percentiles(_DEFAULT_PERCENTILES if percentiles is None else percentiles)
            if has_distribution
            else None
        )
        self._plot = plot
        self._as_json = as_json

    def report(self, answer: Response, arrivals: MAP, service: str, notes: list[str], *, fastest: float) -> None:
        """Print, draw and write the answer. `fastest` is the server's time per record when it is busiest."""
        from rich.table import Table

        from penstock.cli.output import print_json, words_console

        wanted = self._percentiles or {}
        times = [float(t) for t in answer.percentiles(list(wanted.values()))] if wanted else []
        facts = _further_facts(answer) if answer.is_stable else {}
        console = words_console(self._as_json)
        text = f"arrivals {arrivals.rate:.4g} per second, SCV {arrivals.scv:.3g}, {_states(arrivals.order)}"
        console.print(f"{self._queue}: {text}; {service}", markup=False)
        if self._percentiles is None:
            notes = [*notes, "no percentiles: Kingman's formula gives only the mean; map-ph-1 and m-g-1 have them"]
        if not answer.is_stable:
            notes = [
                *notes,
                f"saturated: waiting grows without end; to keep up, a record may take less than "
                f"{format_time(1.0 / arrivals.rate)}, but it takes {format_time(fastest)}",
            ]
        for note in notes:
            console.print(f"note: {note}", markup=False)
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        table.add_column()
        table.add_column(justify="right")
        table.add_row("utilisation", f"{answer.utilisation:.4g}")
        if answer.is_stable:
            table.add_row("latency, mean", format_time(answer.mean))
            for p, time in zip(wanted.values(), times, strict=True):
                table.add_row(f"latency, p{100 * p:.10g}", format_time(time))
            for name, value in facts.items():
                table.add_row(name.removesuffix("_seconds").replace("_", " "),
                              format_time(value) if name.endswith("_seconds") else f"{value:.4g}")  # fmt: skip
        console.print(table)
        if self._plot is not None:
            from penstock.evaluation.queue_pictures import distribution_picture

            file = click.get_current_context().params.get("map_file")
            named = self._queue if file is None else f"{self._queue}, {file.name}"
            title = f"{named}: {text}\n{service}; utilisation {answer.utilisation:.3g}"
            write_picture(self._plot, distribution_picture(answer, list(wanted.values()), title))
            console.print(f"picture: {self._plot}", markup=False)
        if self._as_json:
            document = {
                "stable": answer.is_stable,
                "utilisation": answer.utilisation,
                "mean": answer.mean,
                "percentiles": dict(zip(wanted, times, strict=True)) if self._percentiles is not None else None,
                **facts,
                "queue": self._queue,
                "arrival_rate": arrivals.rate,
                "notes": notes,
            }
            print_json(document)


def _further_facts(answer: Response) -> Mapping[str, float]:
    """Return what some queues know beyond the response time."""
    from penstock.performance.queueing.micro_batch import MicroBatchAnswer
    from penstock.performance.queueing.single_server import SingleServer

    if isinstance(answer, MicroBatchAnswer):
        return {"batch_mean_seconds": answer.batch_seconds_mean, "batch_size_mean": answer.batch_size_mean}
    if isinstance(answer, SingleServer):
        return {"waiting_mean_seconds": answer.waiting.mean, "queue_length_mean": answer.queue_length_mean}
    return {}


def _service_text(service: PH) -> str:
    return f"service mean {format_time(service.mean)}, SCV {service.scv:.3g}"


def _states(order: int) -> str:
    return "1 state" if order == 1 else f"{order} states"
