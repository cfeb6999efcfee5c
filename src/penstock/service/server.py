# SPDX-License-Identifier: Apache-2.0
"""Runs the web application in a thread of its own, and leaves a private file that says where it is."""

from __future__ import annotations

import ipaddress
import logging
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from penstock.adaptors.loopback import reserve_port
from penstock.errors import ConfigurationError
from penstock.service.events import EventFeed

if TYPE_CHECKING:
    from fastapi import FastAPI

_LOG = logging.getLogger(__name__)
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_MOST_CONNECTIONS = 512
"""One costs little until it has said what it wants; requests are counted by the gate."""
_START_SECONDS = 30.0
_END_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Site:
    """Where a service listens.

    Attributes
    ----------
    host, port
        The address; port 0 takes a free one.
    certificate, key
        Files for TLS; None: it is not encrypted.
    may_be_plain
        Whether it may be reached from other machines without TLS.
    name
        How other machines call it; None: as `host` or, where it listens at all addresses, by the name of this machine.
    """

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    may_be_plain: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ConfigurationError("tls: a certificate and its key go together; give both", field="tls")
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise ConfigurationError(f"tls: {file} is not a file; give a PEM file", field="tls")
        if not (self.is_loopback or self.is_encrypted or self.may_be_plain):
            raise ConfigurationError(
                f"host: {self.host} can be reached from other machines, and the token would be readable on its way; "
                "give a certificate and a key (--tls-certificate, --tls-key), or allow it to be plain (--without-tls)",
                field="host",
            )

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks TLS."""
        return self.certificate is not None

    @property
    def is_everywhere(self) -> bool:
        """Whether it listens at all addresses of this machine."""
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_unspecified
        except ValueError:
            return False

    @property
    def called(self) -> str:
        """How it is called in an address."""
        host = self.name or (socket.gethostname() if self.is_everywhere else self.host)
        return f"[{host}]" if ":" in host and not host.startswith("[") else host

    @property
    def names(self) -> frozenset[str]:
        """All that it is called by those who reach it."""
        known = {*LOOPBACK_NAMES, self.host, self.called}
        if self.is_everywhere:
            known |= {socket.gethostname(), *_own_addresses()}
        return frozenset(known)

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def _own_addresses() -> set[str]:
    """The addresses of this machine, as they stand in the address of a page."""
    found = {one.address.partition("%")[0] for of_card in psutil.net_if_addrs().values() for one in of_card}
    return {f"[{one}]" if ":" in one else one for one in found}


class Server:
    """A web application that listens in a thread of its own; leaving the context ends it.

    Parameters
    ----------
    app
        The application.
    site
        Where it listens.
    feed
        Whose streams end with it.
    """

    def __init__(self, app: FastAPI, site: Site, feed: EventFeed) -> None:
        import uvicorn

        from penstock.service.patient_protocol import PatientProtocol, Seldom

        log = logging.getLogger("uvicorn.error")
        if not any(isinstance(one, Seldom) for one in log.filters):
            log.addFilter(Seldom())
        self._site, self._feed = site, feed
        self._socket = reserve_port(site.host.strip("[]"), site.port, "port")
        self.port = int(self._socket.getsockname()[1])
        config = uvicorn.Config(
            app,
            http=PatientProtocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            proxy_headers=False,
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=10,
            timeout_graceful_shutdown=2,
            ssl_certfile=site.certificate,
            ssl_keyfile=site.key,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="penstock-service", daemon=True)

    @property
    def address(self) -> str:
        """Where it is."""
        return f"{'https' if self._site.is_encrypted else 'http'}://{self._site.called}:{self.port}"

    def __enter__(self) -> Server:
        self._socket.listen(64)
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                self._socket.close()
                raise ConfigurationError(
                    f"port: the service did not start on {self.address}; see the log", field="port"
                )
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._feed.close()
        self._server.should_exit = True
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(_END_SECONDS)
        self._socket.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except (Exception, SystemExit):  # the run goes on without its service
            _LOG.exception("the service has ended")
