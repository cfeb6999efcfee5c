# SPDX-License-Identifier: Apache-2.0
"""The options of commands that serve the HTTP API, and the service beside a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console

    from penstock.running.pipeline_run import StartedRun
    from penstock.running.run_listener import RunListener
    from penstock.service.server import Site

F = TypeVar("F", bound=Callable[..., Any])
_PORT = click.IntRange(0, 65535)


@dataclass(frozen=True, slots=True)
class Watched:
    """A run as it is watched: who listens to it, and who is to know when its operators are there."""

    listener: RunListener
    on_started: Callable[[StartedRun], None] | None = None


def page_option(command: F) -> F:
    """Add `--page` to a command that runs a pipeline."""
    return click.option(
        "--page", "page_port", is_flag=False, flag_value=0, default=None, type=_PORT, metavar="[PORT]",
        help="Serve the HTTP API of the run on the loopback, to watch and steer it; without PORT on a free one.",
    )(command)  # fmt: skip


def site_options(command: F) -> F:
    """Add the options that say where a service listens."""
    for option in reversed(
        (
            click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
            click.option("--port", type=_PORT, default=0, help="Port; 0 takes a free one.  [default: 0]"),
            click.option(
                "--name",
                help="How other machines call this one, such as scaling.example.org.  [default: as it listens, or this "
                "machine's name]",
            ),
            click.option(
                "--tls-certificate", type=click.Path(path_type=Path), help="PEM file; needed beyond this machine."
            ),
            click.option("--tls-key", type=click.Path(path_type=Path), help="PEM file with the certificate's key."),
            click.option(
                "--without-tls", is_flag=True, help="Listen beyond this machine although tokens can be read on the way."
            ),
        )
    ):
        command = option(command)
    return command


def site(
    host: str,
    port: int,
    *,
    name: str | None,
    tls_certificate: Path | None,
    tls_key: Path | None,
    without_tls: bool,
) -> Site:
    """Where to listen, as the options say."""
    need_service()
    from penstock.service.server import Site

    return Site(host, port, tls_certificate, tls_key, may_be_plain=without_tls, name=name)


def need_service() -> None:
    """Refuse where the packages of the service are missing."""
    missing = [name for name in ("fastapi", "uvicorn", "prometheus_client") if find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"--page: the Python package {missing[0]!r} is missing; install Penstock with the extra `service`, "
            "such as pip install 'penstock[service]'",
            field="--page",
        )


@contextmanager
def watched(port: int | None, folder: Path, view: RunListener, console: Console) -> Iterator[Watched]:
    """Watch a run through its view and, where a port is given, over HTTP too."""
    if port is None:
        yield Watched(view)
        return
    need_service()
    from penstock.service.page_files import page_router
    from penstock.service.run_page import RunPage
    from penstock.service.server import Site

    with RunPage(Site(port=port), folder, view, routers=[page_router()]) as page:
        assert page.known is not None
        console.print(f"watch and steer: {page.known.link}", markup=False, soft_wrap=True)
        yield Watched(page, page.started)
