# SPDX-License-Identifier: Apache-2.0
"""`penstock serve`: stored runs over HTTP, for looking back."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from penstock.stores import StorePlace

from penstock.cli.failures import debug_option
from penstock.cli.page import site, site_options
from penstock.cli.runs import Run, RunPlace


@click.command(short_help="Show stored runs over HTTP, for looking back.")
@click.option(
    "--store", "stores", multiple=True, type=RunPlace(), metavar="RUN|STORE",
    help="A run's folder, its knowledge.sqlite, or the address of a store in PostgreSQL; may be given several times.  "
    "[default: the newest under runs/]",
)  # fmt: skip
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write address and token there too, as JSON, for this user alone.",
)
@site_options
@debug_option
def serve(stores: tuple[StorePlace, ...], token_file: Path | None, **where: Any) -> None:
    """Serve the HTTP API of stored runs: their operators, decisions, audit and series. Nothing can be changed.

    A run that goes on in another process is shown as far as it has come. To steer a run, start it with --page.

    \b
    Examples:
      penstock serve
      penstock serve --store runs/demo-20260101-120000 --store runs/logs --port 7078
      penstock serve --host 0.0.0.0 --tls-certificate host.pem --tls-key host-key.pem

    It prints its address with a token behind the #. Ctrl-C ends it. docs/reference/http-api.md describes the API.
    """
    place = site(**where)

    from penstock.cli.output import words_console
    from penstock.cli.runs import find_run, opened
    from penstock.cli.signals import stopping_on_signals
    from penstock.clock import SystemClock
    from penstock.service.access import Access
    from penstock.service.address_file import ServiceAddress, write_address
    from penstock.service.application import LOOPBACK_NAMES, make_application
    from penstock.service.asking import Service
    from penstock.service.events import EventFeed
    from penstock.service.page_files import page_router
    from penstock.service.server import Server
    from penstock.service.stored_desk import StoredDesk

    console, stop = words_console(as_json=False), threading.Event()
    access, feed = Access(operate_token=None), EventFeed()
    service = Service((), access, feed)
    with ExitStack() as ends:
        for found in map(find_run, stores or (None,)):
            store = ends.enter_context(opened(found))
            desk = StoredDesk(store, SystemClock())
            if stores and len(stores) > 1:  # runs of one pipeline differ by their folders
                desk = StoredDesk(store, SystemClock(), name=_name_of(found))
            service.add(desk)
        app = make_application(service, hosts={*LOOPBACK_NAMES, place.host}, routers=[page_router()])
        server = ends.enter_context(Server(app, place, feed))
        known = ServiceAddress(server.address, access.read_token)
        if token_file is not None:
            write_address(token_file, server.address, access)
            ends.callback(token_file.unlink, missing_ok=True)
        console.print(f"{', '.join(service.desks)}: {known.link}", markup=False, soft_wrap=True)
        with stopping_on_signals(stop, lambda _: None):
            stop.wait()


def _name_of(run: Run) -> str:
    """What a run is called beside others: by its folder, or by its schema."""
    return run.folder.name if isinstance(run.knowledge, Path) else run.knowledge.schema
