# SPDX-License-Identifier: Apache-2.0
"""`penstock kafka`: a real Kafka broker on this machine, in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, PlainErrorsGroup, debug_option, json_option

if TYPE_CHECKING:
    from penstock.adaptors.kafka.detached_broker import BrokerStatus

_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Folder for the broker's data and log.  [default: penstock/kafka in the user's state folder]",
)  # fmt: skip


@click.group(cls=PlainErrorsGroup, short_help="A real Kafka broker on this machine: start, stop, status.")
def kafka() -> None:
    """Run a real Kafka broker on this machine, for pipelines whose streams are topics.

    It is one node in KRaft mode, on the loopback only, without login: for trying out, developing and testing. Its jars
    (some 45 MB) are fetched once from Maven Central and kept in the cache folder (change it with PENSTOCK_CACHE). If
    you have your own broker, you need none of this: give its bootstrap servers.

    \b
    Examples:
      penstock kafka start
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
    """
    from penstock.adaptors.kafka.detached_broker import DetachedBroker, state_folder
    from penstock.cli.output import print_json, words_console

    console = words_console(as_json)
    status = DetachedBroker(folder or state_folder()).start(port=port, heap=heap, tell=console.print)
    console.print(f"Kafka answers at {status.bootstrap_servers} (pid {status.pid}).")
    console.print(f"Its log: {status.folder / 'kafka.log'}. Stop it with: penstock kafka stop")
    if as_json:
        print_json(_plain(status))


@kafka.command(short_help="Stop the broker and keep its topics and records.")
@_folder_option
@json_option
@debug_option
def stop(folder: Path | None, as_json: bool) -> None:
    """Stop the broker that `penstock kafka start` started, and no other. Topics and records stay.

    \b
    Examples:
      penstock kafka stop
      penstock kafka stop --folder /srv/kafka
    """
    from penstock.adaptors.kafka.detached_broker import DetachedBroker, state_folder
    from penstock.cli.output import print_json, words_console

    broker = DetachedBroker(folder or state_folder())
    pid = broker.stop()
    console = words_console(as_json)
    console.print("Penstock's broker was not running." if pid is None else f"Kafka (pid {pid}) has stopped.")
    if as_json:
        print_json({"stopped": pid is not None, "pid": pid, "folder": str(broker.folder)})


@kafka.command(short_help="Show whether the broker runs and answers, and its topics.")
@_folder_option
@json_option
@debug_option
@click.pass_context
def status(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show whether the broker runs and answers, its bootstrap servers, and its topics.

    Exit code 0: it answers; 1: it does not, or does not run.

    \b
    Examples:
      penstock kafka status
      penstock kafka status --json | jq '.topics[].name'
    """
    from rich.table import Table

    from penstock.adaptors.kafka.detached_broker import DetachedBroker, state_folder
    from penstock.cli.output import print_json, words_console

    found = DetachedBroker(folder or state_folder()).status()
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
    }
