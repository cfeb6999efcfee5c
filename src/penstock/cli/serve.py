# SPDX-License-Identifier: Apache-2.0
"""`penstock serve`: a master for attached queries, or stored runs over HTTP for looking back."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failures import debug_option
from penstock.cli.page import site, site_options
from penstock.cli.runs import KNOWLEDGE, Run, RunPlace

if TYPE_CHECKING:
    from penstock.service.server import Site
    from penstock.stores import StorePlace

AGENT_PORT = 7071
_WATCHED = (
    "cpu_used", "cpu_throttled", "arrival_rate", "processed_rate", "queue_length", "latency_p95", "busy", "heap_used",
    "gc_time", "state_rows", "state_memory", "task_skew", "host_busy", "groups_throttled",
)  # fmt: skip


@click.command(short_help="A master for attached queries; or stored runs, for looking back.")
@click.option(
    "--store", "stores", multiple=True, metavar="URL|RUN",
    help="sqlite:FOLDER makes this a master that keeps its history there; or a run's folder, its knowledge.sqlite or "
    "the address of its store in PostgreSQL, to look back, also several times.  [default: the newest under runs/]",
)  # fmt: skip
@click.option(
    "--agent-port", type=click.IntRange(0, 65535),
    help="Where agents connect; makes this a master also where its store is in PostgreSQL. 0 takes a free one.  "
    f"[default: {AGENT_PORT}]",
)  # fmt: skip
@click.option(
    "--watch", "watched", multiple=True, metavar="METRIC",
    help=f"A metric that agents report for those who look; several times.  [default: {', '.join(_WATCHED)}]",
)  # fmt: skip
@click.option(
    "--watch-every", default=5.0, show_default=True, type=click.FloatRange(0.5, 3600.0), help="How often, in seconds."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write address and token there too, as JSON, for this user alone.",
)
@site_options
@debug_option
def serve(
    stores: tuple[str, ...],
    agent_port: int | None,
    watched: tuple[str, ...],
    watch_every: float,
    token_file: Path | None,
    **where: Any,
) -> None:
    """Serve a master: queries attached with attach(..., master="HOST:PORT") are watched and scaled from here.

    With the folder of a run in place of sqlite:FOLDER, show stored runs; nothing can be changed then.

    \b
    Examples:
      penstock serve --store sqlite:/var/lib/penstock --port 7070
      penstock serve --store sqlite:/var/lib/penstock --port 7073 --agent-port 7072     a second one, to take over
      penstock serve --store runs/demo-20260101-120000 --store runs/logs --port 7073
      penstock serve --store sqlite:masters --host 0.0.0.0 --tls-certificate host.pem --tls-key host-key.pem

    It prints its address with a token behind the #. Ctrl-C ends it; queries go on. docs/how-to/run-a-master.md says
    what agents need.
    """
    place = site(**where)
    from penstock.errors import ConfigurationError
    from penstock.service.master_stores import SCHEME

    masters = list(stores) if agent_port is not None else [store for store in stores if store.startswith(SCHEME)]
    if agent_port is not None or masters:
        if len(stores) != 1:
            raise ConfigurationError("--store: a master has one store; give sqlite:FOLDER", field="--store")
        _serve_master(
            place,
            masters[0],
            agent_port=AGENT_PORT if agent_port is None else agent_port,
            watched=watched or _WATCHED,
            watch_every=watch_every,
            token_file=token_file,
        )
    else:
        _serve_stored(place, tuple(RunPlace().convert(store, None, None) for store in stores), token_file)


def _serve_master(
    place: Site, url: str, *, agent_port: int, watched: tuple[str, ...], watch_every: float, token_file: Path | None
) -> None:
    from dataclasses import replace

    from penstock.cli.output import words_console
    from penstock.cli.signals import stopping_on_signals, wait_for
    from penstock.metrics import metric_named
    from penstock.service.address_file import ADDRESS_FILE, write_address
    from penstock.service.application import make_application
    from penstock.service.asking import Service
    from penstock.service.events import EventFeed
    from penstock.service.master import Master
    from penstock.service.master_stores import StoreFolder, stores_at
    from penstock.service.page_files import page_router
    from penstock.service.server import Server

    _allow_many_connections()
    console, stop = words_console(as_json=False), threading.Event()
    metrics = [metric_named(name).name for name in watched]
    kept, feed = stores_at(url), EventFeed()
    with ExitStack() as ends:
        ends.callback(kept.close)
        access = kept.access()
        service = Service((), access, feed)
        ends.callback(service.close)
        app = make_application(service, hosts=place.names, routers=[page_router()])
        server = ends.enter_context(Server(app, place, feed))
        files = [] if token_file is None else [token_file]

        def write_addresses() -> None:
            """Whoever leads is found in the folder."""
            shared = [kept.folder / ADDRESS_FILE] if isinstance(kept, StoreFolder) else []
            for file in (*files, *shared):
                write_address(file, server.address, access)

        for file in files:
            write_address(file, server.address, access)
            ends.callback(file.unlink, missing_ok=True)
        master = Master(
            replace(place, port=agent_port), kept, service, watch=metrics, every_seconds=watch_every,
            page=server.address, on_lead=write_addresses,
        )  # fmt: skip
        service.master = master
        ends.enter_context(master)
        link = f"{server.address}/#token={access.operate_token}"
        console.print(f"watch and steer: {link}", markup=False, soft_wrap=True)
        console.print(f"agents: {master.address}", markup=False, soft_wrap=True)
        with stopping_on_signals(stop, lambda _: None):
            wait_for(stop)


def _allow_many_connections() -> None:
    """Each agent takes a file number; the usual limit of 1,024 is far below what the kernel allows."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _serve_stored(place: Site, stores: tuple[StorePlace, ...], token_file: Path | None) -> None:
    from penstock.cli.output import words_console
    from penstock.cli.runs import opened
    from penstock.cli.signals import stopping_on_signals, wait_for
    from penstock.clock import SystemClock
    from penstock.service.access import Access
    from penstock.service.address_file import ServiceAddress, write_address
    from penstock.service.application import make_application
    from penstock.service.asking import Service
    from penstock.service.events import EventFeed
    from penstock.service.follower import Follower
    from penstock.service.page_files import page_router
    from penstock.service.server import Server
    from penstock.service.stored_desk import StoredDesk

    console, stop = words_console(as_json=False), threading.Event()
    access, feed = Access(operate_token=None), EventFeed()
    service = Service((), access, feed)
    with ExitStack() as ends:
        ends.callback(service.close)
        for found in map(_found, stores or (None,)):
            store = ends.enter_context(opened(found))
            # Runs of one pipeline differ by their folders.
            name = _name_of(found) if len(stores) > 1 else None
            service.add(StoredDesk(store, SystemClock(), name=name, feed=feed))
        app = make_application(service, hosts=place.names, routers=[page_router()])
        server = ends.enter_context(Server(app, place, feed))
        known = ServiceAddress(server.address, access.read_token)
        if token_file is not None:
            write_address(token_file, server.address, access)
            ends.callback(token_file.unlink, missing_ok=True)
        console.print(f"{', '.join(service.desks)}: {known.link}", markup=False, soft_wrap=True)
        ends.enter_context(Follower(tuple(service.desks.values())))
        with stopping_on_signals(stop, lambda _: None):
            wait_for(stop)


def _found(store: StorePlace | None) -> Run:
    """The stored run; where there is none, a master may have been meant, which begins with an empty folder."""
    from penstock.cli.runs import find_run
    from penstock.errors import ConfigurationError

    try:
        return find_run(store)
    except ConfigurationError as fault:
        meant = "FOLDER" if store is None else store
        raise ConfigurationError(f"{fault}; for a master, give --store sqlite:{meant}", field="--store") from fault


def _name_of(run: Run) -> str:
    """What a run is called beside others: by its folder, its file where that has a name of its own, or its schema."""
    if not isinstance(run.knowledge, Path):
        return run.knowledge.schema
    return run.folder.name if run.knowledge.name == KNOWLEDGE else run.knowledge.stem
