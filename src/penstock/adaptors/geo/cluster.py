# SPDX-License-Identifier: Apache-2.0
"""A Spark standalone cluster over a geo network: the master at home, a worker on each node. It ends with Penstock."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.geo.node_quotas import NodeQuotas
from penstock.adaptors.process.children import Warden
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.cluster_sites import Site
from penstock.adaptors.spark.master_page import alive_workers
from penstock.errors import ConfigurationError
from penstock.settings.geo import HOME


@dataclass(frozen=True, slots=True)
class GeoSites:
    """The nodes of a geo network as places for a cluster's processes."""

    network: GeoNetwork
    quotas: NodeQuotas

    @property
    def home(self) -> Site:
        """The master's node, and that of drivers."""
        return Site("master", HOME, self.network.address(HOME))

    @property
    def workers(self) -> tuple[Site, ...]:
        """All other nodes."""
        return tuple(
            Site(f"worker {node}", node, self.network.address(node)) for node in self.network.nodes if node != HOME
        )

    @property
    def java_properties(self) -> Mapping[str, str]:
        """Where Java finds the nodes' addresses: the machine itself does not know their names."""
        return {"jdk.net.hosts.file": str(self.network.hosts_file)}

    def command(self, site: Site, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` on a node."""
        return self.network.command(site.host, argv)

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread at home."""
        return self.network.entered(HOME)

    def settle(self, site: Site, pid: int) -> None:
        """Put a worker under its node's CPU cap, and with it the executors that it will start."""
        self.quotas.hold(site.host, pid)


class GeoCluster(EmbeddedCluster):
    """A master and drivers on the node ``home``, a worker on each other node, delays between all of them.

    Executors report their node's name as their host. Everything ends as an embedded cluster does, also after a kill -9.

    Parameters
    ----------
    warden, folder
        Keeps the processes; gets the files.
    nodes
        The workers' nodes, each with the cores of CPU that its processes get together. None: no cap.
    delays
        Between nodes, ``home`` included.
    slots
        How many executor cores each worker offers.
    memory_per_worker, timeout_seconds, stop
        As of `EmbeddedCluster`.

    Raises
    ------
    ConfigurationError
        In one line: not root, no TUN device, a wrong name or delay. Nothing was started.
    """

    def __init__(
        self,
        warden: Warden,
        folder: Path,
        nodes: Mapping[str, float | None],
        delays: OneWayDelays | None = None,
        *,
        slots: int = 1,
        memory_per_worker: str = "2g",
        timeout_seconds: float = 180.0,
        stop: threading.Event | None = None,
    ) -> None:
        if not nodes or HOME in nodes:
            raise ConfigurationError(
                f"nodes: give at least one node for a worker, and none called {HOME}, the master's", field="nodes"
            )
        for node, cores in nodes.items():
            if cores is not None and not cores > 0:
                raise ConfigurationError(f"nodes: {node} has {cores!r} cores; give more than 0", field="nodes")
        self.network = GeoNetwork(warden, folder / "network", (HOME, *nodes), delays)
        self.quotas = NodeQuotas({node: cores for node, cores in nodes.items() if cores is not None})
        super().__init__(
            warden,
            folder,
            cores_per_worker=slots,
            memory_per_worker=memory_per_worker,
            timeout_seconds=timeout_seconds,
            stop=stop,
            sites=GeoSites(self.network, self.quotas),
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The workers' nodes."""
        return tuple(node for node in self.network.nodes if node != HOME)

    def start(self) -> Self:
        """Start network, master and workers, and wait until all workers are registered."""
        self.quotas.start()
        try:
            self.network.start()
            super().start()
            self.quotas.cap()  # a worker's own start is not what a node's CPU is for
        except BaseException:
            self.stop()
            raise
        return self

    def check(self) -> None:
        """Raise ClusterError if a part of the cluster or its network has ended."""
        self.network.check()
        super().check()

    def listening(self) -> dict[str, tuple[str, int]]:
        """Return an address and port of every node on which something listens: to measure round trips to."""
        found = {HOME: (self.network.address(HOME), int(self.master_url.rpartition(":")[2]))}
        return found | {host: (self.network.address(host), port) for host, port in alive_workers(self.state()).items()}

    def stop(self) -> None:
        """End workers, master and network, and lift the caps. The folder stays. May be called twice."""
        super().stop()
        self.network.stop()
        self.release()

    def release(self) -> None:
        """Lift the nodes' CPU caps and remove their groups."""
        self.quotas.release()
