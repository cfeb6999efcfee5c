# SPDX-License-Identifier: Apache-2.0
"""`penstock kafka`: a real Kafka broker on this machine, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, Failure, PlainErrorsGroup, WrongInput, debug_option, json_option

if TYPE_CHECKING:
    from penstock.adaptors.kafka.detached_broker import BrokerStatus

_running_folder_option = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder the broker was started with.  [default: the one that runs]",
)
_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Folder for the broker's data and log.  [default: penstock/kafka in the user's state folder]",
)  # fmt: skip


@click.group(cls=PlainErrorsGroup, short_help="A real Kafka broker on this machine: start, stop, status, topic.")
def kafka() -> None:
    """Run a real Kafka broker on this machine, for pipelines whose streams are topics.

    It is one node in KRaft mode, on the loopback only, for trying out, developing and testing. It asks for a login, so
    that other users of the machine cannot use it. Penstock's commands log in by themselves; other programs of yours
    find the login in client.properties in the broker's folder. Its jars (some 45 MB) are fetched once from Maven
    Central and kept in the cache folder (change it with PENSTOCK_CACHE). If you have your own broker, you need none of
    this: give its bootstrap servers.

    \b
    Examples:
      penstock kafka start
      penstock kafka topic lines --partitions 2
      penstock kafka status
      penstock kafka stop
    """


@kafka.command(short_help="Start the broker and leave it running.")
@_folder_option
@click.option("--port", type=click.IntRange(1, 65535), help="Port.  [default: the last one, else a free one]")
@click.option("--heap", default="320m", show_default=True, help="Largest size of the JVM's heap.")
@json_option
@debug_option
def start(folder: Path | None, port: int | None, heap: str, as_json: bool) -> None:
    """Start the broker, wait until it answers, and leave it running.

    A broker that is started again has the same port, topics and records. If it is running, nothing happens. It runs
    until `penstock kafka stop`, even after this shell ends.

    \b
    Examples:
      penstock kafka start
      penstock kafka start --port 9092
      servers=$(penstock kafka start --json | jq -r .bootstrap_servers)
      kafka-console-consumer.sh --bootstrap-server $servers --topic lines \
        --consumer.config $(penstock kafka status --json | jq -r .client_properties)
    """
    from penstock.adaptors.kafka.detached_broker import DetachedBroker
    from penstock.adaptors.kafka.known_brokers import KnownBrokers
    from penstock.cli.output import print_json, words_console

    console = words_console(as_json)
    known = KnownBrokers()
    broker = DetachedBroker(folder or known.default)
    status = broker.start(port=port, heap=heap, tell=console.print)
    known.remember(broker.folder)
    named = f" --folder {broker.folder}" if broker.folder != known.default else ""
    console.print(f"Kafka answers at {status.bootstrap_servers} (pid {status.pid}).")
    if broker.client_properties.exists():
        console.print(f"Its login, for programs other than Penstock: {broker.client_properties}", soft_wrap=True)
    console.print(f"Its log: {status.folder / 'kafka.log'}. Stop it with: penstock kafka stop{named}", soft_wrap=True)
    if as_json:
        print_json(_plain(status))


@kafka.command(short_help="Stop the broker and keep its topics and records.")
@_running_folder_option
@json_option
@debug_option
@click.pass_context
def stop(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Stop the broker that `penstock kafka start` started, and no other. Topics and records stay.

    Without --folder it stops the one that runs. If several run, name the folder of one. Exit code 1: the broker of the
    folder that was named is not running.

    \b
    Examples:
      penstock kafka stop
      penstock kafka stop --folder /srv/kafka
    """
    from penstock.adaptors.kafka.known_brokers import KnownBrokers
    from penstock.cli.output import print_json, words_console

    known = KnownBrokers()
    broker = known.find(folder)
    pid = None if broker is None else broker.stop()
    console = words_console(as_json)
    if pid is not None and broker is not None:
        console.print(f"Kafka (pid {pid}) of {broker.folder} has stopped.", soft_wrap=True)
    elif folder is None:
        console.print("No broker of Penstock is running.")
    else:
        message = f"--folder: no broker of {folder.absolute()} is running"
        others = ", ".join(str(other.folder) for other in known.running())
        console.print(f"{message}; running: {others}" if others else message, style="red", soft_wrap=True)
    if as_json:
        of_folder = broker.folder if broker is not None else known.default
        print_json({"stopped": pid is not None, "pid": pid, "folder": str(of_folder)})
    ctx.exit(FAILED if pid is None and folder is not None else 0)


@kafka.command(short_help="Show whether the broker runs and answers, and its topics.")
@_running_folder_option
@json_option
@debug_option
@click.pass_context
def status(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show whether the broker runs and answers, its bootstrap servers, and its topics.

    Without --folder it is the broker that runs. If several run, name the folder of one. Exit code 0: it answers; 1: it
    does not, or does not run.

    \b
    Examples:
      penstock kafka status
      penstock kafka status --json | jq '.topics[].name'
    """
    from rich.table import Table

    from penstock.adaptors.kafka.detached_broker import DetachedBroker
    from penstock.adaptors.kafka.known_brokers import KnownBrokers
    from penstock.cli.output import print_json, words_console

    known = KnownBrokers()
    found = (known.find(folder) or DetachedBroker(known.default)).status()
    console = words_console(as_json)
    if not found.is_running:
        console.print("Penstock's broker is not running. Start it with: penstock kafka start")
    elif found.topics is None:
        console.print(f"Kafka runs (pid {found.pid}) but does not answer: {found.fault}", style="red")
    else:
        console.print(f"Kafka answers at {found.bootstrap_servers} (pid {found.pid}).", style="green")
        table = Table("topic", "partitions", box=None, padding=(0, 2, 0, 0))
        for topic in found.topics:
            table.add_row(topic.name, str(topic.partitions))
        console.print(table if found.topics else "It has no topics yet.")
    if as_json:
        print_json(_plain(found))
    ctx.exit(0 if found.answers else FAILED)


@kafka.command(short_help="Create a topic.")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="Number of partitions.")
@click.option("--servers", metavar="HOST:PORT", help="Bootstrap servers.  [default: those of the broker that runs]")
@_running_folder_option
@json_option
@debug_option
def topic(name: str, partitions: int, servers: str | None, folder: Path | None, as_json: bool) -> None:
    """Create the topic NAME, or keep it if it exists with as many partitions.

    \b
    Examples:
      penstock kafka topic lines
      penstock kafka topic lines --partitions 4
      penstock kafka topic lines --servers broker-1:9092
    """
    from penstock.adaptors.kafka.known_brokers import connection_to
    from penstock.adaptors.kafka.topics import Topics
    from penstock.cli.output import print_json, words_console

    at = servers or _servers_of(folder)
    made = Topics(connection_to(at)).create(name, partitions=partitions)
    words_console(as_json).print(f"Topic {made.name} is there, with {made.partitions} partition(s), at {at}.")
    if as_json:
        print_json({"name": made.name, "partitions": made.partitions, "bootstrap_servers": at})


def _servers_of(folder: Path | None) -> str:
    from penstock.adaptors.kafka.known_brokers import KnownBrokers

    broker = KnownBrokers().find(folder)
    if broker is None:
        raise WrongInput(
            "--servers: no broker of Penstock is running; start one with penstock kafka start, or give the servers of "
            "your own, such as --servers localhost:9092"
        )
    if broker.bootstrap_servers is None:
        raise Failure(f"--folder: no broker of {broker.folder} is running; start it: penstock kafka start --folder ...")
    return broker.bootstrap_servers


def _plain(found: BrokerStatus) -> dict[str, Any]:
    topics = None if found.topics is None else [{"name": t.name, "partitions": t.partitions} for t in found.topics]
    return {
        "running": found.is_running,
        "answers": found.answers,
        "pid": found.pid,
        "bootstrap_servers": found.bootstrap_servers,
        "topics": topics,
        "fault": found.fault,
        "folder": str(found.folder),
        "log": str(found.folder / "kafka.log"),
        "client_properties": str(properties) if (properties := found.folder / "client.properties").exists() else None,
    }
