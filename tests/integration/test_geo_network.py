# SPDX-License-Identifier: Apache-2.0
"""Nodes in real network namespaces: reached after their delay, out of the machine's network, gone after a kill -9."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.geo_root import needs_namespaces

from penstock.adaptors.geo.delays import OneWayDelays
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.process.children import Warden
from penstock.adaptors.round_trips import connect_seconds

pytestmark = [pytest.mark.namespaces, pytest.mark.core, needs_namespaces]

PORT = 5000
ASKED = {("home", "near"): 0.02, ("home", "far"): 0.2, ("near", "far"): 0.1}
OWNER = """
import json, sys, time
from pathlib import Path
from penstock.adaptors.geo.network import GeoNetwork
from penstock.adaptors.process.children import Warden

warden = Warden(grace_seconds=2.0)
folder = warden.temporary_folder(Path(sys.argv[1]))
network = GeoNetwork(warden, folder, ("home", "far")).start()
warden.start("guest", network.command("far", ["sleep", "600"]), log=folder / "guest.log")
print(json.dumps({"folder": str(folder), "namespaces": [network.namespace(n) for n in network.nodes]}), flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GeoNetwork]:
    """Three nodes, with something that listens on each."""
    with (
        Warden() as warden,
        GeoNetwork(
            warden, tmp_path_factory.mktemp("geo"), ("home", "near", "far"), OneWayDelays.of_round_trips(ASKED)
        ) as made,
    ):
        listening = []
        for node in made.nodes:
            with made.entered(node):
                listening.append(socket.create_server((made.address(node), PORT)))
        yield made
        for server in listening:
            server.close()


def round_trip(network: GeoNetwork, one: str, other: str, attempts: int = 5) -> float:
    """The shortest of some attempts: load makes them longer, nothing makes them shorter."""
    with network.entered(one):
        taken = connect_seconds((network.address(other), PORT), attempts=attempts)
    assert taken is not None
    return taken


def test_a_round_trip_takes_as_long_as_was_asked_for(network: GeoNetwork) -> None:
    """Between every two nodes, in both directions: never shorter than asked for, and nearly that at best."""
    for (one, other), asked in ASKED.items():
        for taken in (round_trip(network, one, other), round_trip(network, other, one)):
            assert asked <= taken < asked + 0.05, f"{one} {other}"


def test_ways_may_differ_and_change_while_it_runs(network: GeoNetwork) -> None:
    """A delay on one way alone counts once in a round trip, and takes effect without a restart."""
    try:
        network.set_delays(OneWayDelays({("home", "far"): 0.3}))
        deadline = time.monotonic() + 30
        while not 0.3 <= round_trip(network, "home", "far", attempts=1) < 0.4:
            assert time.monotonic() < deadline, "the new delay is not in force"
        assert round_trip(network, "near", "far") < 0.1
    finally:
        network.set_delays(OneWayDelays.of_round_trips(ASKED))


def test_nodes_are_out_of_the_machines_network(network: GeoNetwork) -> None:
    """A node has its loopback and the way to the other nodes, and the machine has nothing of them."""
    with socket.create_server(("127.0.0.1", 0)) as here:
        with network.entered("near"):
            assert connect_seconds(here.getsockname(), attempts=1) is None
            assert {name for _, name in socket.if_nameindex()} == {"lo", "geo0"}
        assert "geo0" not in {name for _, name in socket.if_nameindex()}
        assert connect_seconds(here.getsockname(), attempts=1) is not None, "this thread is back"


def test_much_data_goes_through_whole(network: GeoNetwork) -> None:
    """Large segments, which cross in one piece, arrive complete and in order."""
    sent = os.urandom(1 << 20) * 8
    with network.entered("far"):
        server = socket.create_server((network.address("far"), PORT + 1))
    received = bytearray()

    def take() -> None:
        connection, _ = server.accept()
        with connection:
            while chunk := connection.recv(1 << 20):
                received.extend(chunk)

    taker = threading.Thread(target=take)
    taker.start()
    with network.entered("near"), socket.create_connection((network.address("far"), PORT + 1)) as connection:
        connection.sendall(sent)
    taker.join(60)
    server.close()
    assert received == sent


@pytest.mark.kill
def test_kill_9_of_the_owner_leaves_no_namespace_process_or_folder(tmp_path: Path) -> None:
    """Namespaces have no name that could stay behind: they go with the processes, which the warden ends."""

    def members() -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/ns/net"):
            try:
                if entry.stat().st_ino in inodes:
                    found.append(str(entry))
            except OSError:
                continue
        return found

    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        said = json.loads(owner.stdout.readline())
        inodes = {Path(path).stat().st_ino for path in said["namespaces"]}
        assert len(inodes) == 2
        assert members(), "the guest is on a node"
        os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while members() or Path(said["folder"]).exists():
        assert time.monotonic() < deadline, members()
        time.sleep(0.1)
