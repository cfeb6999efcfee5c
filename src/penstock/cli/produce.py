# SPDX-License-Identifier: Apache-2.0
"""`penstock produce`: sends a trace or shape to Kafka or RabbitMQ at its own times."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, INTERRUPTED, debug_option, json_option
from penstock.cli.trace_options import FORMATS, KINDS, UNITS, in_command_words
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from penstock.adaptors.produce.pacing import Produced, Progress
    from penstock.adaptors.produce.sink import Sink
    from penstock.adaptors.replay.options import ReplayOptions


@click.command(short_help="Send a trace or shape to Kafka or RabbitMQ at its own times.")
@click.argument("target", metavar="TARGET")
@click.option("--shape", metavar="SHAPE", help="The load, such as constant:rate=500,duration=1m")
@click.option("--trace", type=click.Path(path_type=Path), help="Replay the arrival times in a file instead.")
@click.option("--speed", metavar="X", help="How many times faster than real time.  [default: 1]")
@click.option("--as", "kind", type=click.Choice(KINDS), help="What a trace's numbers are.  [default: arrivals]")
@click.option("--unit", type=click.Choice(UNITS), help="Unit of a trace's numbers.  [default: s]")
@click.option(
    "--format", "format_name", type=click.Choice(FORMATS), metavar="NAME", help="Format of a published trace."
)
@click.option("--column", help="Name or number (from 0) of a trace's column, in csv and parquet.")
@click.option("--origin", type=click.Choice(("zero", "first")), help="What a trace's times count from.")
@click.option(
    "--payload", default="log", show_default=True,
    help="Text of the records: none, log, text, web-log, features, taxi-ride or file:PATH",
)  # fmt: skip
@click.option("--malformed", metavar="F", help="Fraction of malformed log lines.  [default: 0.01]")
@click.option("--seed", metavar="N", help="Seed of generated lines and random shapes.  [default: 0]")
@click.option("--records", type=click.IntRange(min=1), metavar="N", help="Send only the first N records.")
@click.option("--exchange", help="RabbitMQ: where to publish.  [default: the default exchange]")
@click.option("--routing-key", default="", help="RabbitMQ: with --exchange, the routing key; without, the queue.")
@click.option("--declare", is_flag=True, help="RabbitMQ: create exchange, pipeline queue and monitor queue first.")
@click.option("--transient", is_flag=True, help="RabbitMQ: messages need not survive a restart of the server.")
@click.option(
    "--option", "options", multiple=True, metavar="NAME=VALUE", help="Option for the client; can be repeated."
)
@click.option("--name", help="Identifies this producer's records.  [default: HOST-PID-TIME]")
@click.option(
    "--confirm-within", default="60s", show_default=True, metavar="TIME",
    help="How long to wait for confirmations after the last record.",
)  # fmt: skip
@json_option
@debug_option
@click.pass_context
def produce(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Send records to a broker at the times of a trace or shape, whether or not anybody keeps up.

    TARGET is kafka://HOST:PORT[,HOST:PORT...]/TOPIC or amqp[s]://USER:PASSWORD@HOST[:PORT][/VHOST]. The load is
    open: a record goes out when it is due. Each carries its number (Kafka: key and header, RabbitMQ: header
    penstock-sequence) and the instant it was due (Kafka: timestamp; both: header penstock-due-us). How late records
    went out is measured and reported. With a p99 above 5 ms the producer itself distorts the load, and says so.

    \b
    Examples:
      penstock produce kafka://127.0.0.1:9092/lines --shape constant:rate=2000,duration=1m
      penstock produce kafka://127.0.0.1:9092/lines --trace arrivals.csv --speed 10
      penstock produce amqp://guest:guest@127.0.0.1/ --exchange lines --declare \\
        --shape steps:60s@2000,60s@9000 --json

    Ctrl-C stops it after the confirmations of what was sent. Exit codes: 0 all records confirmed, 1 some not, 2 wrong
    input, 130 stopped by Ctrl-C with all sent records confirmed.
    """
    from penstock.cli.output import print_json, words_console

    console = words_console(as_json)
    result = carry_out(console, **options)
    if as_json:
        print_json(as_dict(result))
    else:
        report(console, result)
    if result.unconfirmed:
        ctx.exit(FAILED)
    ctx.exit(INTERRUPTED if result.is_stopped else 0)


def carry_out(
    console: Console,
    *,
    target: str,
    records: int | None,
    exchange: str | None,
    routing_key: str,
    declare: bool,
    transient: bool,
    options: tuple[str, ...],
    name: str | None,
    confirm_within: str,
    **load: Any,
) -> Produced:
    """Send the load that the options describe."""
    from penstock.adaptors.produce.pacing import produce as send
    from penstock.adaptors.replay.options import open_arrivals
    from penstock.adaptors.replay.payloads import open_payload
    from penstock.cli.signals import stopping_on_signals
    from penstock.units import parse_seconds

    replay = replay_options(**load)
    confirm_seconds = parse_seconds(confirm_within, "--confirm-within")
    with in_command_words():
        arrivals, payload = open_arrivals(replay), open_payload(replay)
    producer = name or f"{socket.gethostname()}-{os.getpid()}-{int(time.time())}"
    sink = open_sink(
        target, producer, read_options(options), exchange=exchange, routing_key=routing_key, declare=declare,
        is_persistent=not transient,
    )  # fmt: skip
    stop = threading.Event()
    total = arrivals.total if records is None else min(records, arrivals.total)
    try:
        with (
            stopping_on_signals(stop, lambda again: _on_signal(console, again)),
            _progress_bar(console, total) as show,
        ):
            return send(
                arrivals, payload, sink, speed=replay.speed, records=records, confirm_seconds=confirm_seconds,
                stop=stop, tell=show,
            )  # fmt: skip
    finally:
        sink.close()


def replay_options(**load: Any) -> ReplayOptions:
    """Return what to send and when. Every mistake is reported at once, in the words of the command line."""
    from penstock.adaptors.replay.options import ReplayOptions

    load["format"] = load.pop("format_name")
    trace = load.pop("trace")
    given = {key: value for key, value in load.items() if value is not None}
    if trace is not None:
        given["trace"] = str(trace)
    if trace is None and "shape" not in given:
        raise ConfigurationError(
            "--shape: give a load, such as --shape constant:rate=500,duration=1m, or --trace FILE", field="--shape"
        )
    try:
        return ReplayOptions.parse(given)
    except ConfigurationError as fault:
        faults = [f"--{'as' + text[4:] if text.startswith('kind:') else text}" for text in fault.faults]
        raise ConfigurationError.of_all("produce", faults) from fault


def read_options(texts: tuple[str, ...], field: str = "--option") -> dict[str, str]:
    """Parse ``NAME=VALUE`` texts."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"{field}: one of them has no '='; write NAME=VALUE", field=field)
        pairs[name.strip()] = value.strip()
    return pairs


def open_sink(
    target: str,
    producer: str,
    options: dict[str, str],
    *,
    exchange: str | None = None,
    routing_key: str = "",
    declare: bool = False,
    is_persistent: bool = True,
) -> Sink:
    """Connect to TARGET."""
    scheme = target.partition("://")[0]
    if scheme == "kafka":
        if exchange is not None or routing_key or declare:
            raise ConfigurationError(
                "--exchange, --routing-key and --declare are for RabbitMQ; leave them out for kafka://",
                field="--exchange",
            )
        servers, _, topic = target.removeprefix("kafka://").partition("/")
        if not servers or not topic:
            raise ConfigurationError(f"TARGET: cannot read {target!r}; write kafka://HOST:PORT/TOPIC", field="TARGET")
        from penstock.adaptors.kafka.known_brokers import connection_to
        from penstock.adaptors.produce.kafka_sink import KafkaSink

        return KafkaSink(connection_to(servers, options), topic, producer)
    if scheme in ("amqp", "amqps"):
        from penstock.adaptors.rabbitmq import fanout
        from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
        from penstock.adaptors.rabbitmq.publisher import RabbitMQSink

        connection = RabbitMQConnection(target, options)
        if not exchange and not routing_key:
            raise ConfigurationError(
                "--exchange: give the exchange to publish to, or --routing-key QUEUE for one queue", field="--exchange"
            )
        if declare:
            if not exchange:
                raise ConfigurationError("--declare: needs --exchange NAME", field="--declare")
            fanout.declare(connection, fanout.Fanout(exchange))
        return RabbitMQSink(connection, exchange or "", routing_key, producer, is_persistent=is_persistent)
    raise ConfigurationError(
        f"TARGET: unknown address {scheme + '://' if '://' in target else target!r}; write "
        "kafka://HOST:PORT/TOPIC or amqp://USER:PASSWORD@HOST/",
        field="TARGET",
    )


def as_dict(result: Produced) -> dict[str, Any]:
    """Return the result as `--json` prints it."""
    late = result.lateness
    return {
        "records_due": result.due,
        "records_sent": result.sent,
        "records_confirmed": result.delivery.confirmed,
        "records_failed": result.delivery.failed,
        "records_resent": result.delivery.resent,
        "records_unconfirmed": result.unconfirmed,
        "faults": list(result.delivery.faults),
        "epoch": result.epoch,
        "seconds": result.seconds,
        "records_per_second": result.records_per_second,
        "lateness": None
        if late is None
        else {
            "mean_seconds": late.mean_seconds,
            "p50_seconds": late.p50_seconds,
            "p99_seconds": late.p99_seconds,
            "max_seconds": late.max_seconds,
            "is_on_time": late.is_on_time,
        },
        "is_stopped": result.is_stopped,
    }


def report(console: Console, result: Produced) -> None:
    """Describe the outcome for people."""
    rate = result.records_per_second
    console.print(
        f"{'stopped: ' if result.is_stopped else ''}{result.sent:,} of {result.due:,} records due were sent"
        + (f" in {result.seconds:.1f} s ({rate:,.0f} a second)" if rate is not None else "")
        + f", {result.delivery.confirmed:,} confirmed"
        + (f", {result.delivery.resent:,} sent twice after a lost connection" if result.delivery.resent else "")
    )
    late = result.lateness
    if late is not None:
        console.print(
            f"lateness: mean {1e3 * late.mean_seconds:.2f} ms, p99 {1e3 * late.p99_seconds:.2f} ms, "
            f"max {1e3 * late.max_seconds:.1f} ms"
        )
        if not late.is_on_time:
            console.print(
                "[yellow]More than 1 of 100 records went out over 5 ms late: this producer, not only the load, shapes "
                "what arrives. Use a lower rate or a less busy machine.[/yellow]"
            )
    if result.unconfirmed:
        console.print(f"[red]{result.unconfirmed:,} records were not confirmed[/red]")
        for reason in result.delivery.faults:
            console.print(f"  {reason}", markup=False)


def _on_signal(console: Console, again: bool) -> None:
    if again:
        raise KeyboardInterrupt  # the user does not want to wait for confirmations
    console.print("stopping: waiting for confirmations of what was sent; Ctrl-C again ends at once")


@contextmanager
def _progress_bar(console: Console, total: int) -> Iterator[Callable[[Progress], None] | None]:
    """Show a progress bar on a terminal, and nothing elsewhere."""
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    # Not refreshed by a background thread: that would take the interpreter away from the pacing.
    columns = (TextColumn("sent"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, TimeRemainingColumn(), console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=total)

        def show(progress: Progress) -> None:
            words = f"{progress.delivery.confirmed:,} confirmed"
            if progress.delivery.failed:
                words += f", [red]{progress.delivery.failed:,} failed[/red]"
            bar.update(task, completed=progress.sent, description=words)
            bar.refresh()

        yield show
