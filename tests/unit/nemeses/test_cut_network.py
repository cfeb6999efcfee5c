# SPDX-License-Identifier: Apache-2.0
"""The network of nemesis runs: it passes everything on, and while it is cut nothing at all."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from tests.e2e.nemeses.cut_network import CutNetwork


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that sends back what it gets."""
    listening = socket.create_server(("127.0.0.1", 0))
    is_over = threading.Event()

    def echo(connection: socket.socket) -> None:
        with connection:
            while chunk := connection.recv(1 << 16):
                connection.sendall(chunk)

    def serve() -> None:
        while not is_over.is_set():
            connection, _ = listening.accept()
            threading.Thread(target=echo, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    is_over.set()
    socket.create_connection(listening.getsockname()).close()
    thread.join()
    listening.close()


def connect(network: CutNetwork) -> socket.socket:
    """A client's connection through the network."""
    return socket.create_connection(("127.0.0.1", network.port), timeout=20.0)


def received(client: socket.socket, size: int) -> bytes:
    """So many bytes from the other side, or fewer if it hangs up."""
    found = b""
    while len(found) < size and (chunk := client.recv(size - len(found))):
        found += chunk
    return found


def test_what_is_sent_passes_whole(echo_port: int) -> None:
    """Also more than fits into one packet, on several connections."""
    with CutNetwork(lambda: echo_port) as network, connect(network) as one, connect(network) as other:
        big = bytes(range(256)) * 4000
        sender = threading.Thread(target=one.sendall, args=(big,))
        sender.start()
        other.sendall(b"short")
        assert received(other, 5) == b"short"
        assert received(one, len(big)) == big
        sender.join()


def test_nothing_passes_while_it_is_cut_and_old_connections_are_reset(echo_port: int) -> None:
    """A message waits in vain; a connection made meanwhile is silent; afterwards new ones work."""
    with CutNetwork(lambda: echo_port) as network, connect(network) as old:
        old.sendall(b"before")
        assert received(old, 6) == b"before"
        with network.cut():
            old.sendall(b"lost")
            with connect(network) as young:
                young.sendall(b"hello")
                for client in (old, young):
                    client.settimeout(0.5)
                    with pytest.raises(TimeoutError):
                        client.recv(1)
        old.settimeout(20.0)
        with contextlib.suppress(ConnectionResetError):
            assert old.recv(1) == b""
        with connect(network) as new:
            new.sendall(b"again")
            assert received(new, 5) == b"again"


def test_a_server_that_is_away_refuses(echo_port: int) -> None:
    """The client's connection is closed at once, as by a machine on which nobody listens."""
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    with CutNetwork(lambda: port) as network, connect(network) as client:
        assert received(client, 1) == b""
