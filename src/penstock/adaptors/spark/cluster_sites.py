# SPDX-License-Identifier: Apache-2.0
"""Where the processes of an embedded cluster run: the machine's own loopback, or nodes of a network of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Site:
    """A place for processes.

    Attributes
    ----------
    name
        In log files and messages.
    host
        What Spark calls it: executors report this host.
    address
        Where its processes listen.
    """

    name: str
    host: str
    address: str


class ClusterSites(Protocol):
    """The places of a cluster's processes."""

    @property
    def home(self) -> Site:
        """The master's place, and that of drivers."""
        ...

    @property
    def workers(self) -> tuple[Site, ...]:
        """A place for each worker."""
        ...

    @property
    def java_properties(self) -> Mapping[str, str]:
        """What every JVM there needs."""
        ...

    def command(self, site: Site, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` there."""
        ...

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread at home: sockets made meanwhile belong there."""
        ...

    def settle(self, site: Site, pid: int) -> None:
        """Called with a worker's process right after its start, before it has children."""
        ...


class LoopbackSites:
    """All on the loopback of this machine.

    Parameters
    ----------
    host
        A loopback address.
    workers
        How many.
    """

    def __init__(self, host: str, workers: int) -> None:
        self.home = Site("master", host, host)
        self.workers = tuple(Site(f"worker {number + 1}", host, host) for number in range(workers))
        self.java_properties: Mapping[str, str] = {}

    def command(self, site: Site, argv: Sequence[str]) -> list[str]:  # noqa: ARG002 - it is here, wherever
        """Return the command as it is."""
        return list(argv)

    def entered(self) -> AbstractContextManager[None]:
        """Stay."""
        return contextlib.nullcontext()

    def settle(self, site: Site, pid: int) -> None:
        """Leave the process as it is."""
