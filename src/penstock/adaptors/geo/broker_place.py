# SPDX-License-Identifier: Apache-2.0
"""A node of a geo network as the place of a Kafka broker: all nodes reach it, each as late as it is far away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from penstock.adaptors.geo.network import GeoNetwork
from penstock.settings.geo import HOME


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node of a running geo network; ``home`` unless another is named."""

    network: GeoNetwork
    node: str = HOME

    @property
    def address(self) -> str:
        """The node's."""
        return self.network.address(self.node)

    @property
    def java_properties(self) -> Mapping[str, str]:
        """Where Java finds the nodes' names: inside, nobody else answers."""
        return {"jdk.net.hosts.file": str(self.network.hosts_file)}

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` on the node."""
        return self.network.command(self.node, argv)

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread on the node."""
        return self.network.entered(self.node)
