# SPDX-License-Identifier: Apache-2.0
"""A network between clients and a broker that can be cut: a proxy on the loopback.

While it is cut nothing passes, in either direction, and nothing is refused: packets are lost, as far as either side can
see. Connections are accepted and stay silent. Once it is mended, connections from before are reset, as routers do that
have forgotten them.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Self

_CHUNK = 1 << 16
_LOOK_SECONDS = 0.2


class CutNetwork:
    """Passes connections on to a server on the loopback. Use as a context manager.

    Parameters
    ----------
    server_port
        Gives the port that is passed on to; it is asked at every connection.
    """

    def __init__(self, server_port: Callable[[], int]) -> None:
        self._server_port = server_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(_LOOK_SECONDS)
        self.port: int = self._listening.getsockname()[1]
        self._is_open = threading.Event()
        self._is_open.set()
        self._is_closing = threading.Event()
        self._lock = threading.Lock()
        self._pairs: list[tuple[socket.socket, socket.socket | None]] = []
        self._accepting = threading.Thread(target=self._accept, name="cut-network", daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_closing.set()
        self._accepting.join()
        self._listening.close()
        self._reset()

    @contextlib.contextmanager
    def cut(self) -> Iterator[None]:
        """Let nothing pass for the length of the block."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._reset()
            self._is_open.set()

    @property
    def connections(self) -> int:
        """How many there are now."""
        with self._lock:
            return len(self._pairs)

    def _accept(self) -> None:
        while not self._is_closing.is_set():
            try:
                client, _ = self._listening.accept()
            except TimeoutError:
                continue
            if not self._is_open.is_set():
                with self._lock:
                    self._pairs.append((client, None))  # silent until it is reset
                continue
            try:
                server = socket.create_connection(("127.0.0.1", self._server_port()), timeout=5.0)
                server.settimeout(None)
            except OSError:  # nobody listens there now
                client.close()
                continue
            client.settimeout(None)
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._pass_on, args=(client, server), name="cut-network-pair", daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with contextlib.suppress(OSError, ValueError):  # reset, or closed by either side
            while True:
                ready, _, _ = select.select([client, server], [], [], _LOOK_SECONDS)
                if not self._is_open.is_set():
                    if self._is_closing.wait(_LOOK_SECONDS):
                        break
                    continue
                chunks = [(end, end.recv(_CHUNK)) for end in ready]
                for end, chunk in chunks:
                    other[end].sendall(chunk)
                if any(not chunk for _, chunk in chunks) or self._is_closing.is_set():
                    break
        with self._lock, contextlib.suppress(ValueError):  # a reset has taken it out already
            self._pairs.remove((client, server))
        client.close()
        server.close()

    def _reset(self) -> None:
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for client, server in pairs:
            if server is None:
                client.close()
                continue
            for end in (client, server):
                with contextlib.suppress(OSError):  # it is gone already
                    end.shutdown(socket.SHUT_RDWR)  # its thread wakes up and closes it
