# SPDX-License-Identifier: Apache-2.0
"""A network of nodes on this machine, with a chosen delay from each to each, that ends with Penstock."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.adaptors.geo import relay as relay_program
from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.geo.namespaces import check_can_be_made, command_inside, entered
from penstock.adaptors.process.children import Child, Warden
from penstock.errors import ClusterError, ConfigurationError

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MOST_NODES = 200
_START_SECONDS = 30.0


class GeoNetwork:
    """Nodes in network namespaces of their own, joined by a relay that delays what they send each other.

    The nodes see each other alone: no node reaches the machine's own network or is reached from it. Processes get into
    a node by `command`. Use as a context manager, or call `start` and `stop`.

    Parameters
    ----------
    warden
        Keeps the relay, and ends it with Penstock.
    folder
        Gets the relay's files, and the nodes' names for Java.
    nodes
        Their names, as hosts may have them.
    delays
        Between them; none where it says nothing.

    Raises
    ------
    ConfigurationError
        From the constructor, in one line: not root, no TUN device, a wrong name or delay. Nothing was started.
    ClusterError
        From `start`: the kernel refused.
    """

    def __init__(self, warden: Warden, folder: Path, nodes: Sequence[str], delays: OneWayDelays | None = None) -> None:
        self.delays = delays or OneWayDelays()
        check_names(nodes)
        self.delays.check_nodes(nodes)
        check_can_be_made()
        self.nodes = tuple(nodes)
        self._warden = warden
        self._folder = folder.absolute()
        # Nobody else is in these namespaces, so any addresses will do.
        self._addresses = {name: f"10.83.0.{number}" for number, name in enumerate(nodes, start=1)}
        self._relay: Child | None = None
        self._namespaces: dict[str, str] = {}
        self.is_real_time = False
        """Whether the relay runs before all ordinary processes. Otherwise delays grow by the machine's load."""

    def address(self, node: str) -> str:
        """Return a node's IPv4 address."""
        return self._addresses[self._known(node)]

    def namespace(self, node: str) -> str:
        """Return the path under which a node's network namespace can be opened."""
        if self._relay is None:
            raise ClusterError("the geo network is not running; call start() first", target="geo network")
        return self._namespaces[self._known(node)]

    @property
    def hosts_file(self) -> Path:
        """A file with all names and addresses, for Java's ``jdk.net.hosts.file``."""
        return self._folder / "hosts"

    def command(self, node: str, argv: Sequence[str]) -> list[str]:
        """Return the command that runs `argv` on a node."""
        return command_inside(self.namespace(node), argv)

    def entered(self, node: str) -> AbstractContextManager[None]:
        """Have this thread on a node: sockets made meanwhile belong there."""
        return entered(self.namespace(node))

    def start(self) -> Self:
        """Make the nodes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        here = socket.gethostname()  # Java asks for the machine's own name
        names = [f"127.0.0.1 localhost {here}", *(f"{address} {name}" for name, address in self._addresses.items())]
        self.hosts_file.write_text("\n".join(names) + "\n")
        (self._folder / "ready.json").unlink(missing_ok=True)
        self._write_network()
        # Isolated and by path, as the warden: nothing of the caller's is loaded.
        argv = [sys.executable, "-I", "-S", str(Path(relay_program.__file__)), str(self._folder)]
        self._relay = self._warden.start("geo network", argv, log=self._folder / "relay.log")
        answer = self._await_answer(self._relay)
        if "fault" in answer:
            self.stop()
            raise ClusterError(
                f"geo: {answer['fault']}; run it as root, in a container with --privileged", target="geo network"
            )
        self._namespaces, self.is_real_time = answer["namespaces"], answer["is_real_time"]
        return self

    def set_delays(self, delays: OneWayDelays) -> None:
        """Change the delays of what is sent from now on."""
        delays.check_nodes(self.nodes)
        relay = self._relay
        if relay is None:
            raise ClusterError("the geo network is not running; call start() first", target="geo network")
        self.delays = delays
        self._write_network()
        os.kill(relay.pid, signal.SIGHUP)

    def check(self) -> None:
        """Raise ClusterError if the relay has ended, and with it all traffic between nodes."""
        if self._relay is not None:
            self._relay.raise_if_ended()

    def stop(self) -> None:
        """End the network. A namespace is gone when no process is in it any more. May be called twice."""
        if self._relay is not None:
            self._warden.stop(self._relay)
        self._relay, self._namespaces = None, {}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_network(self) -> None:
        delays = [[*pair, seconds] for pair, seconds in self.delays.seconds.items()]
        new = self._folder / "network.new"
        new.write_text(json.dumps({"nodes": self._addresses, "delays": delays}))
        new.rename(self._folder / "network.json")

    def _await_answer(self, relay: Child) -> dict[str, Any]:
        ready, deadline = self._folder / "ready.json", time.monotonic() + _START_SECONDS
        while not ready.exists():
            relay.raise_if_ended()
            if time.monotonic() > deadline:
                raise ClusterError(f"the geo network is not up after {_START_SECONDS:g} s", target="geo network")
            time.sleep(0.02)
        answer: dict[str, Any] = json.loads(ready.read_text())
        return answer

    def _known(self, node: str) -> str:
        if node not in self._addresses:
            raise ConfigurationError(f"node: there is no {node!r}; the nodes are {', '.join(self.nodes)}", field="node")
        return node


def check_names(nodes: Sequence[str]) -> None:
    """Raise ConfigurationError for names that hosts cannot have, or that are there twice."""
    faults = [
        f"{name!r} cannot be a host's name; use small letters, digits and hyphens"
        for name in nodes
        if _NAME.fullmatch(name) is None
    ]
    faults += [f"{name!r} is there twice" for name in sorted({name for name in nodes if list(nodes).count(name) > 1})]
    if not 1 <= len(nodes) <= _MOST_NODES:
        faults.append(f"{len(nodes)} nodes; give 1 to {_MOST_NODES}")
    if faults:
        raise ConfigurationError.of_all("nodes", faults)
