# SPDX-License-Identifier: Apache-2.0
"""`penstock kubernetes`: a real Kubernetes of one node on this machine, in one command."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import FAILED, PlainErrorsGroup, debug_option, json_option

if TYPE_CHECKING:
    from penstock.adaptors.kubernetes_server.local_cluster import ClusterStatus, LocalCluster

_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path),
    help="Folder of the cluster, removed with it.  [default: penstock/kubernetes in the user's state folder]",
)  # fmt: skip


@click.group(cls=PlainErrorsGroup, short_help="A real Kubernetes on this machine: start, stop, status, run.")
def kubernetes() -> None:
    """Run a real Kubernetes of one node on this machine, for trying out, developing and testing.

    It has an API server, scheduler, controller manager, kubelet, etcd and containerd, and runs in mount, PID, network
    and control-group namespaces of its own: nothing outside reaches it, and when it ends nothing is left. Programs
    that are to talk to it are started with `penstock kubernetes run`. It needs root, Go 1.24 or newer, and Debian or
    Ubuntu: at the first start it is built from source, which takes a quarter of an hour of CPU, into the cache folder
    (change it with PENSTOCK_CACHE). If you have a cluster of your own, you need none of this.

    \b
    Examples:
      penstock kubernetes start
      penstock kubernetes run -- kubectl get nodes
      penstock kubernetes status
      penstock kubernetes stop
    """


@kubernetes.command(short_help="Start the cluster and leave it running.")
@_folder_option
@json_option
@debug_option
def start(folder: Path | None, as_json: bool) -> None:
    """Start the cluster, wait until its node is ready, and leave it running.

    If it is running, nothing happens. It runs until `penstock kubernetes stop`, even after this shell ends, and it
    forgets everything then.

    \b
    Examples:
      penstock kubernetes start
      penstock kubernetes start --folder /tmp/cluster
    """
    from penstock.cli.output import print_json, words_console

    console = words_console(as_json)
    cluster = _cluster(folder)
    status = cluster.start(tell=lambda text: console.print(text, soft_wrap=True))
    console.print(f"Kubernetes {status.version} is ready (pid {status.pid}), in a network of its own.")
    console.print(f"Its kubeconfig, for programs inside: {status.kubeconfig}", soft_wrap=True)
    named = "" if folder is None else f" --folder {cluster.folder}"
    console.print(f"Run a program inside: penstock kubernetes run{named} -- COMMAND", soft_wrap=True)
    console.print(f"Stop it with: penstock kubernetes stop{named}", soft_wrap=True)
    if as_json:
        print_json(_plain(status))


@kubernetes.command(short_help="Stop the cluster and remove everything of it.")
@_folder_option
@json_option
@debug_option
@click.pass_context
def stop(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Stop the cluster that `penstock kubernetes start` started, with all pods, and remove everything of it.

    Exit code 1: the cluster of the folder that was named is not running.

    \b
    Examples:
      penstock kubernetes stop
    """
    from penstock.cli.output import print_json, words_console

    cluster = _cluster(folder)
    pid = cluster.stop()
    console = words_console(as_json)
    if pid is None:
        console.print(f"No cluster of {cluster.folder} is running.", soft_wrap=True)
    else:
        console.print(f"Kubernetes (pid {pid}) has stopped, and nothing of it is left.")
    if as_json:
        print_json({"stopped": pid is not None, "pid": pid, "folder": str(cluster.folder)})
    ctx.exit(FAILED if pid is None and folder is not None else 0)


@kubernetes.command(short_help="Show whether the cluster runs and its node is ready.")
@_folder_option
@json_option
@debug_option
@click.pass_context
def status(ctx: click.Context, folder: Path | None, as_json: bool) -> None:
    """Show whether the cluster runs and its node is ready. Exit code 0: it is; 1: it is not.

    \b
    Examples:
      penstock kubernetes status
      penstock kubernetes status --json | jq -r .kubeconfig
    """
    from penstock.cli.output import print_json, words_console

    found = _cluster(folder).status()
    console = words_console(as_json)
    if not found.is_running:
        console.print("Penstock's Kubernetes is not running. Start it with: penstock kubernetes start")
    elif not found.is_ready:
        console.print(f"Kubernetes runs (pid {found.pid}) and is not ready: {found.fault}", style="red", soft_wrap=True)
    else:
        console.print(f"Kubernetes {found.version} is ready (pid {found.pid}).")
        console.print(f"Its kubeconfig, for programs inside: {found.kubeconfig}", soft_wrap=True)
    if as_json:
        print_json(_plain(found))
    ctx.exit(0 if found.is_ready else FAILED)


@kubernetes.command(
    short_help="Run a program inside the cluster's network.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@_folder_option
@debug_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(folder: Path | None, command: tuple[str, ...]) -> None:
    """Run a program inside the cluster's network, with KUBECONFIG set. Its exit code is the program's.

    The program sees the machine's files and processes as before, and no network but the cluster's.

    \b
    Examples:
      penstock kubernetes run -- kubectl get pods
      penstock kubernetes run -- python my_job.py
    """
    cluster = _cluster(folder)
    argv = cluster.command(command)
    os.execvpe(argv[0], argv, {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)})


def _cluster(folder: Path | None) -> LocalCluster:
    from penstock.adaptors.kubernetes_server.local_cluster import LocalCluster
    from penstock.adaptors.process.state_folder import state_folder

    return LocalCluster(folder or state_folder("kubernetes"))


def _plain(status: ClusterStatus) -> dict[str, Any]:
    return {
        "running": status.is_running,
        "ready": status.is_ready,
        "pid": status.pid,
        "version": status.version,
        "folder": str(status.folder),
        "kubeconfig": None if status.kubeconfig is None else str(status.kubeconfig),
        "fault": status.fault,
    }
