# SPDX-License-Identifier: Apache-2.0
"""`penstock agent`: reports the load of this host to a master, and holds executors on it to their CPU shares."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.failures import debug_option

if TYPE_CHECKING:
    from penstock.adaptors.cgroups.host_shares import HostShares


@click.command(short_help="Measure this host for a master, and hold executors to CPU shares.")
@click.option("--master", required=True, metavar="HOST:PORT", help="The master, or several joined by commas.")
@click.option("--name", metavar="NAME", help="How the master calls this host.  [default: its name]")
@click.option("--measure-only", is_flag=True, help="Hold no executors, whatever a master asks for.")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="File with the agents' token.  [default: the environment]"
)
@click.option("--tls-ca", type=click.Path(path_type=Path), help="PEM file to check the master's certificate with.")
@click.option("--without-tls", is_flag=True, help="Connect to another machine although all can be read on the way.")
@debug_option
def agent(  # noqa: PLR0917 - click gives them by name
    master: str, name: str | None, measure_only: bool, token_file: Path | None, tls_ca: Path | None, without_tls: bool
) -> None:
    """Send a master what it subscribes to of this host's CPU, memory and control groups, and hold executors here.

    Executors of queries that the master scales are held to their CPU share, by control groups: that needs root, or a
    cgroup of the executors' user. Nothing else is changed. All caps are lifted when the master is silent for five
    seconds, and all is put back when the agent ends or is killed. One agent for each worker host is enough. The agents
    inside queries come by themselves with attach(..., master=...).

    \b
    Examples:
      sudo penstock agent --master 127.0.0.1:7071 --token-file /var/lib/penstock/agent-token
      penstock agent --master m1:7071,m2:7071 --token-file agent-token --tls-ca masters.pem --measure-only
    """
    from penstock.adaptors.agent.host_agent import HostAgent
    from penstock.adaptors.agent.link import MasterLink
    from penstock.adaptors.agent.master_address import master_address
    from penstock.adaptors.agent.meter_agent import MeterAgent
    from penstock.adaptors.host_meters import host_meters
    from penstock.cli.output import words_console
    from penstock.cli.signals import stopping_on_signals

    address = master_address(master, token_file=token_file, ca=tls_ca, without_tls=without_tls)
    stop, console = threading.Event(), words_console(as_json=False)

    def say(text: str) -> None:
        with suppress(OSError):  # the disk under its output is full, or the terminal gone: it goes on
            console.print(text, markup=False, soft_wrap=True)

    with ExitStack() as ends:
        shares, words = (None, "it was started with --measure-only") if measure_only else _open_shares()
        say(words if shares is not None else f"only measures: {words}")
        if shares is not None:
            ends.callback(shares.close)
            shares.start()
        serving = MeterAgent(host_meters()) if shares is None else HostAgent(host_meters(), shares)
        ends.callback(serving.close)
        link = MasterLink(
            serving,
            address,
            name or f"host {socket.gethostname()}",
            holds_at="" if shares is None else shares.place,
            why_not=words if shares is None else "",
        ).start()
        ends.callback(link.close, "the agent of the host ends")
        said: str | None = None
        with stopping_on_signals(stop, lambda _: None):
            while not stop.wait(0.2):
                state = link.connected_to or link.fault
                if state is not None and state != said:
                    said = state
                    say(f"{'reports to' if link.connected_to else 'no master:'} {state}")


def _open_shares() -> tuple[HostShares | None, str]:
    """What holds executors here, or None, with what is to be said about it."""
    from penstock.adaptors.cgroups import CgroupsUnavailableError, find_hierarchy, sweep_stale
    from penstock.adaptors.cgroups.host_shares import HostShares

    try:
        hierarchy = find_hierarchy()
    except CgroupsUnavailableError as fault:
        return None, fault.reason
    removed = sweep_stale(hierarchy)
    swept = f", and has removed {len(removed)} CPU groups that a dead one left behind" if removed else ""
    whose = "executors of this host" if os.geteuid() == 0 else "this user's executors on this host"
    return HostShares(hierarchy), f"holds {whose} to CPU shares when the master asks{swept}"
