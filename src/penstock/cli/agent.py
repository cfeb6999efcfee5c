# SPDX-License-Identifier: Apache-2.0
"""`penstock agent`: reports the load of this host, and of the control groups on it, to a master."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

import click

from penstock.cli.failures import debug_option


@click.command(short_help="Report this host's load to a master.")
@click.option("--master", required=True, metavar="HOST:PORT", help="The master, or several joined by commas.")
@click.option("--name", metavar="NAME", help="How the master calls this host.  [default: its name]")
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="File with the agents' token.  [default: the environment]"
)
@click.option("--tls-ca", type=click.Path(path_type=Path), help="PEM file to check the master's certificate with.")
@click.option("--without-tls", is_flag=True, help="Connect to another machine although all can be read on the way.")
@debug_option
def agent(master: str, name: str | None, token_file: Path | None, tls_ca: Path | None, without_tls: bool) -> None:
    """Measure this host's CPU, memory and control groups, and send a master what it subscribes to. Nothing is changed.

    One agent for each worker host is enough. The agents inside queries come by themselves with attach(..., master=...).

    \b
    Examples:
      penstock agent --master 127.0.0.1:7071 --token-file /var/lib/penstock/agent-token
      penstock agent --master m1:7071,m2:7071 --token-file agent-token --tls-ca masters.pem
    """
    from penstock.adaptors.agent.link import MasterLink
    from penstock.adaptors.agent.master_address import master_address
    from penstock.adaptors.agent.meter_agent import MeterAgent
    from penstock.adaptors.host_meters import host_meters
    from penstock.cli.output import words_console
    from penstock.cli.signals import stopping_on_signals

    address = master_address(master, token_file=token_file, ca=tls_ca, without_tls=without_tls)
    stop, console = threading.Event(), words_console(as_json=False)
    measuring = MeterAgent(host_meters())
    link = MasterLink(measuring, address, name or f"host {socket.gethostname()}").start()
    said: str | None = None
    try:
        with stopping_on_signals(stop, lambda _: None):
            while not stop.wait(0.2):
                state = link.connected_to or link.fault
                if state is not None and state != said:
                    said = state
                    words = "reports to" if link.connected_to else "no master:"
                    with suppress(OSError):  # the disk under its output is full, or the terminal gone: it measures on
                        console.print(f"{words} {state}", markup=False, soft_wrap=True)
    finally:
        link.close("the agent of the host ends")
        measuring.close()
