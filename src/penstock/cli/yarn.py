# SPDX-License-Identifier: Apache-2.0
"""`penstock yarn`: a real YARN on this machine, in one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, PlainErrorsGroup, debug_option, json_option
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.adaptors.yarn_server.local_cluster import LocalYarn, YarnStatus

_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Folder of the cluster, removed with it.  [default: penstock/yarn in the user's state folder]",
)  # fmt: skip


@click.group(cls=PlainErrorsGroup, short_help="A real YARN on this machine: start, stop, status, run.")
def yarn() -> None:
    """Run a real YARN on this machine, for trying out, developing and testing.

    It has a ResourceManager and some NodeManagers, each with a loopback address of its own, and runs in a network
    namespace: nothing outside reaches it, and when it ends nothing is left. Programs that are to talk to it are started
    with `penstock yarn run`. It needs root. Hadoop's jars (some 65 MB) are fetched once from Maven Central, in the
    version of the installed PySpark, and kept in the cache folder (change it with PENSTOCK_CACHE). If you have a
    cluster of your own, you need none of this.

    \b
    Examples:
      penstock yarn start
      penstock yarn run -- python my_job.py
      penstock yarn status
      penstock yarn stop
    """


@yarn.command(short_help="Start the cluster and leave it running.")
@_folder_option
@click.option("--nodes", type=int, default=2, show_default=True, help="How many NodeManagers.")
@click.option("--cores", type=int, default=8, show_default=True, help="Cores that each node offers.")
@click.option("--memory", default="4g", show_default=True, help="Memory that each node offers.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="NODE=LABEL",
    help="Give a node a label, such as 127.0.0.3=fast; may be repeated. It takes only containers that ask for it.",
)
@json_option
@debug_option
def start(  # noqa: PLR0917 - click hands over an argument for each option
    folder: Path | None, nodes: int, cores: int, memory: str, labels: tuple[str, ...], as_json: bool
) -> None:
    """Start the cluster, wait until its nodes are registered, and leave it running.

    Nodes may offer more than the machine has. If the cluster is running, nothing happens. It runs until `penstock yarn
    stop`, even after this shell ends, and it forgets everything then.

    \b
    Examples:
      penstock yarn start
      penstock yarn start --nodes 3 --memory 2g
      penstock yarn start --label 127.0.0.3=fast
    """
    from penstock.adaptors.yarn_server.site_files import YarnPlan
    from penstock.cli.output import print_json, words_console
    from penstock.units import parse_bytes

    console = words_console(as_json)
    cluster = _cluster(folder)
    plan = YarnPlan(nodes, cores, parse_bytes(memory, "--memory") >> 20, labels=dict(map(_label, labels)))
    status = cluster.start(plan, tell=lambda text: console.print(text, soft_wrap=True))
    _print_status(console, status)
    named = "" if folder is None else f" --folder {cluster.folder}"
    console.print(f"Run a program inside: penstock yarn run{named} -- COMMAND", soft_wrap=True)
    console.print(f"Stop it with: penstock yarn stop{named}", soft_wrap=True)
    if as_json:
        print_json(_plain(cluster, status))


@yarn.command(short_help="Stop the cluster and remove everything of it.")
@_folder_option
@json_option
@debug_option
@click.pass_context
def stop(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Stop the cluster that `penstock yarn start` started, with all containers, and remove everything of it.

    Exit code 1: the cluster of the folder that was named is not running.

    \b
    Examples:
      penstock yarn stop
    """
    from penstock.cli.output import print_json, words_console

    cluster = _cluster(folder)
    pid = cluster.stop()
    console = words_console(as_json)
    if pid is None:
        console.print(f"No cluster of {cluster.folder} is running.", soft_wrap=True)
    else:
        console.print(f"YARN (pid {pid}) has stopped, and nothing of it is left.")
    if as_json:
        print_json({"stopped": pid is not None, "pid": pid, "folder": str(cluster.folder)})
    ctx.exit(FAILED if pid is None and folder is not None else 0)


@yarn.command(short_help="Show whether the cluster runs, and its nodes.")
@_folder_option
@json_option
@debug_option
@click.pass_context
def status(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show whether the cluster runs, and the state of its nodes. Exit code 0: a node takes containers; 1: none does.

    \b
    Examples:
      penstock yarn status
      penstock yarn status --json | jq -r .hadoop_conf_dir
    """
    from penstock.cli.output import print_json, words_console

    cluster = _cluster(folder)
    found = cluster.status()
    _print_status(words_console(as_json), found)
    if as_json:
        print_json(_plain(cluster, found))
    ctx.exit(0 if found.is_ready else FAILED)


@yarn.command(
    short_help="Run a program inside the cluster's network.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_folder_option
@debug_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: Path | None, command: tuple[str, ...]) -> None:
    """Run a program inside the cluster's network, with HADOOP_CONF_DIR set. Its exit code is the program's.

    The program sees the machine's files and processes as before, and no network but the cluster's.

    \b
    Examples:
      penstock yarn run -- python my_job.py
      penstock yarn run -- curl -s 127.0.0.1:8088/ws/v1/cluster/nodes
    """
    cluster = _cluster(folder)
    argv = cluster.command(command)
    os.execvpe(argv[0], argv, {**os.environ, **cluster.environment()})


def _label(text: str) -> tuple[str, str]:
    node, equals, label = text.partition("=")
    if not equals:
        raise ConfigurationError(f"--label: {text!r} is not NODE=LABEL, such as 127.0.0.3=fast", field="--label")
    return node, label


def _cluster(folder: Path | None) -> LocalYarn:
    from penstock.adaptors.process.state_folder import state_folder
    from penstock.adaptors.yarn_server.local_cluster import LocalYarn

    return LocalYarn(folder or state_folder("yarn"))


def _print_status(console: Any, found: YarnStatus) -> None:
    if not found.is_running:
        console.print("Penstock's YARN is not running. Start it with: penstock yarn start")
    elif found.nodes is None:
        console.print(f"YARN runs (pid {found.pid}) and is not ready: {found.fault}", style="red", soft_wrap=True)
    else:
        states = ", ".join(f"{node} {state}" for node, state in sorted(found.nodes.items()))
        console.print(f"YARN {found.version} runs (pid {found.pid}), in a network of its own.")
        console.print(f"Its nodes: {states}.", soft_wrap=True)


def _plain(cluster: LocalYarn, found: YarnStatus) -> dict[str, Any]:
    return {
        "running": found.is_running,
        "ready": found.is_ready,
        "pid": found.pid,
        "version": found.version,
        "folder": str(found.folder),
        "hadoop_conf_dir": str(cluster.conf) if found.is_running else None,
        "nodes": None if found.nodes is None else dict(found.nodes),
        "fault": found.fault,
    }
