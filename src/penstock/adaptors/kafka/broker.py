# SPDX-License-Identifier: Apache-2.0
"""A real Kafka broker on the loopback, or on a node of a geo network. It starts and stops like the embedded cluster."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.adaptors.kafka.broker_home import BrokerHome
from penstock.adaptors.kafka.broker_place import BrokerPlace
from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.kafka.distribution import fetch_kafka
from penstock.adaptors.loopback import reserve_port
from penstock.adaptors.process.children import Child, LoggedProcess, Warden
from penstock.adaptors.spark.java import find_java
from penstock.errors import ClusterError, ConfigurationError

_ATTEMPTS = 3
_PORT_SECONDS = 20.0
_PORT_IS_TAKEN = ("BindException", "Address already in use", "Address in use")


class KafkaBroker:
    """One broker in KRaft mode. `start` returns when it answers.

    Use as a context manager, or call `start` and `stop`. A broker started again after a stop has the same port,
    topics and records. `outage` does both, to simulate a broker that goes away for a while.

    Parameters
    ----------
    warden
        Keeps the process.
    folder
        Gets the settings, the data and kafka.log.
    port
        A fixed port; None: a free one.
    heap, host, users, settings, place
        See `BrokerHome`. Who is elsewhere than `place` makes clients of the broker inside `entered`.
    tell
        Receives messages about what is fetched at the first start on a machine.
    stop
        Set it to end the wait for the broker; what was started is ended.

    Raises
    ------
    ConfigurationError
        From the constructor: a value, Java, or the package confluent-kafka is wrong or missing.
    ClusterError
        From `start`: the jars cannot be fetched, or the broker did not come up; the message ends with its log. What
        was started is ended.
    """

    def __init__(
        self,
        warden: Warden,
        folder: Path,
        *,
        port: int | None = None,
        heap: str = "320m",
        host: str = "127.0.0.1",
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        place: BrokerPlace | None = None,
        timeout_seconds: float = 90.0,
        tell: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> None:
        java = find_java()
        self._warden = warden
        self._home = BrokerHome(
            folder,
            fetch_kafka(tell, stop=stop),
            java,
            host=host,
            heap=heap,
            users=users,
            settings=settings,
            place=place,
        )
        self._fixed_port = port
        self._ports: tuple[int, int] | None = None
        self._timeout_seconds = timeout_seconds
        self._stop_asked = stop
        self._process: Child | None = None
        if port is not None:
            with self.entered():
                reserve_port(self._home.host, port, "kafka.port").close()

    # --- what it is --------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path:
        """The broker's folder."""
        return self._home.folder

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, ``host:port``. Known from the first start on, also while the broker is stopped."""
        if self._ports is None:
            raise ClusterError("the Kafka broker was never started; call start() first", target="Kafka")
        return _address(self._home.host, self._ports[0])

    @property
    def connection(self) -> KafkaConnection:
        """How to reach the broker, with a login if it requires one."""
        return KafkaConnection(self.bootstrap_servers, self._home.client_options())

    def entered(self) -> AbstractContextManager[None]:
        """Have this thread where the broker is: clients that are made meanwhile reach it, also later."""
        return self._home.place.entered()

    @property
    def pid(self) -> int:
        """The process id."""
        if self._process is None:
            raise ClusterError("the Kafka broker is not running; call start() first", target="Kafka")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists."""
        return self._process is not None and self._process.returncode is None

    # --- its life ----------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the broker and wait until it answers. Does nothing if it is running."""
        if self.is_running:
            return self
        for attempt in range(1, _ATTEMPTS + 1):
            ports_before = self._ports
            try:
                with self.entered():
                    self._bring_up()
                break
            except ClusterError:
                taken = self._process is not None and any(sign in self._process.tail(80) for sign in _PORT_IS_TAKEN)
                self.stop()
                if attempt == _ATTEMPTS or not taken or self._fixed_port is not None or ports_before is not None:
                    raise
                self._ports = None  # another process took the port between choice and use: try again
            except BaseException:
                self.stop()
                raise
        return self

    def check(self) -> None:
        """Raise ClusterError, with the end of the log, if the broker has ended by itself."""
        self._warden.check()
        if self._process is not None:
            self._process.raise_if_ended()

    def stop(self, *, grace_seconds: float = 20.0) -> None:
        """Shut the broker down in order and keep its data. May be called twice."""
        if self._process is not None:
            self._warden.stop(self._process, grace_seconds=grace_seconds)
            self._process = None

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Stop the broker for the length of the block, keep its port reserved, then start it again."""
        if self._ports is None:
            raise ClusterError("the Kafka broker was never started; call start() first", target="Kafka")
        self.stop()
        with ExitStack() as held:
            with self.entered():
                for number in self._ports:
                    held.enter_context(reserve_again(self._home.host, number, "kafka.port"))
            try:
                yield
            finally:
                self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _bring_up(self) -> None:
        host = self._home.host
        wanted = self._ports or (self._fixed_port or 0, 0)
        # The reservations keep others off the ports until the broker listens. On Linux, a second socket can bind a
        # port whose holder does not listen when both allow reuse, as Java's do.
        with (
            reserve_again(host, wanted[0], "kafka.port") as first,
            reserve_again(host, wanted[1], "kafka.port") as other,
        ):
            self._ports = (first.getsockname()[1], other.getsockname()[1])
            self._home.prepare(*self._ports)
            self._process = self._warden.start(
                "Kafka broker", self._home.command(), log=self._home.log, cwd=self._home.folder
            )
            wait_until_ready(self.connection, self._process, self._timeout_seconds, self._stop_asked)


def one_login() -> dict[str, str]:
    """Return a user with a random password, for a broker that no other user of the machine may use."""
    return {"penstock": secrets.token_hex(32)}


def reserve_again(host: str, port: int, field: str) -> socket.socket:
    """Reserve a port that a broker had a moment ago: the connections of a killed one hold it a little longer."""
    deadline = time.monotonic() + _PORT_SECONDS
    while True:
        try:
            return reserve_port(host, port, field)
        except ConfigurationError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def wait_until_ready(
    connection: KafkaConnection, process: LoggedProcess, timeout_seconds: float, stop: threading.Event | None = None
) -> None:
    """Wait until a broker that was just started answers a client, or `stop` is set.

    Raises
    ------
    ClusterError
        Its process ended, it does not answer in time, or the wait was stopped.
    """
    from confluent_kafka import KafkaException

    faults = ClientFaults()
    client = connection.admin(faults)
    deadline = time.monotonic() + timeout_seconds
    while True:
        process.raise_if_ended()
        if stop is not None and stop.is_set():
            raise ClusterError("stopped while the Kafka broker was starting", target="Kafka")
        try:
            if client.list_topics(timeout=0.5).brokers:
                return
        except KafkaException:
            client.poll(0)  # hear why
        if time.monotonic() > deadline:
            raise ClusterError(
                f"Kafka broker: no answer at {connection.bootstrap_servers} after {timeout_seconds:g} s "
                f"({faults.last or 'no reason was given'}); {process.log} ends with\n{process.tail()}",
                target="Kafka",
            )
        time.sleep(0.05)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
