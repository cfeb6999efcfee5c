# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ server from the Debian package, for runs and tests: own ports, node name and epmd.

It ends with Penstock."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.adaptors.loopback import check_loopback, reserve_port
from penstock.adaptors.process.children import Child, Warden
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.errors import AdaptorError, ClusterError, ConfigurationError

# Debian's command on the PATH changes to the user `rabbitmq`. The program behind it runs as the caller.
_PROGRAMS = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)
_USER = "penstock"
_POLL_SECONDS = 0.1
_ATTEMPTS = 3
_PORT_IS_TAKEN = ("eaddrinuse", "address_already_in_use", "already in use")
_STOP_SECONDS = 20.0


def find_rabbitmq() -> tuple[Path, Path]:
    """Find the programs ``rabbitmq-server`` and ``epmd``.

    Raises
    ------
    ConfigurationError
        One of them is not installed. The message says how to install it.
    """
    server = next((Path(p) for p in _PROGRAMS if os.access(p, os.X_OK)), None)
    if server is None:
        found = shutil.which("rabbitmq-server")
        server = Path(found) if found else None
    epmd = shutil.which("epmd")
    if server is None or epmd is None:
        missing = "rabbitmq-server" if server is None else "epmd (of Erlang)"
        raise ConfigurationError(
            f"rabbitmq: {missing} is not installed; run: apt-get install rabbitmq-server, "
            "or give the address of a server that runs elsewhere",
            field="rabbitmq",
        )
    return server, Path(epmd)


class RabbitMQServer:
    """One RabbitMQ node on the loopback. `start` returns when it accepts connections.

    Use as a context manager, or call `start` and `stop`. Every process is a child of the warden. The folder keeps
    durable data: a server stopped and started again in it has its durable queues and persistent messages back.

    Parameters
    ----------
    warden
        Keeps the processes.
    folder
        Gets everything the server writes: data, log, configuration, password. Two servers cannot share it.
    host, port
        A loopback address, and the port for AMQP. None: a free one, kept across `stop` and `start`.
    settings
        Further lines of ``rabbitmq.conf``, such as ``{"vm_memory_high_watermark.absolute": "512MiB"}``.
    stop
        Ends the wait for its start.

    Raises
    ------
    ConfigurationError
        From the constructor: a value is wrong, or RabbitMQ is not installed. Nothing was started.
    ClusterError
        From `start`: the server did not come up; the message ends with its log. What was started is ended.
    """

    def __init__(
        self,
        warden: Warden,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_seconds: float = 90.0,
        stop: threading.Event | None = None,
    ) -> None:
        check_loopback(host)
        self._program, self._epmd_program = find_rabbitmq()
        if port is not None:
            reserve_port(host, port, "rabbitmq.port").close()
        self._warden = warden
        self.folder = folder.absolute()
        self._host = host
        self._fixed_port = port
        self._port = port
        self._settings = dict(settings or {})
        self._timeout_seconds = timeout_seconds
        self._stop_asked = stop
        self._epmd: Child | None = None
        self._server: Child | None = None

    @property
    def url(self) -> str:
        """The address for clients, with user and password."""
        if self._port is None:
            raise ClusterError("the RabbitMQ server was not started", target="RabbitMQ")
        return f"amqp://{_USER}:{self._password()}@{self._host}:{self._port}/"

    @property
    def port(self) -> int:
        """The port for AMQP."""
        if self._port is None:
            raise ClusterError("the RabbitMQ server was not started", target="RabbitMQ")
        return self._port

    @property
    def pids(self) -> list[int]:
        """The processes started here that still run: Erlang's name server and the node."""
        return [child.pid for child in (self._epmd, self._server) if child is not None and child.poll() is None]

    @property
    def is_running(self) -> bool:
        """Whether the node's process exists."""
        return self._server is not None and self._server.poll() is None

    def start(self) -> None:
        """Start the node and wait until it accepts connections."""
        if self.is_running:
            return
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._start_once()
                return
            except ClusterError as fault:
                self.stop()
                # Another process may take a free port between our check and the server's start: try another one then.
                is_taken = any(word in str(fault) for word in _PORT_IS_TAKEN)
                if not is_taken or attempt == _ATTEMPTS or self._fixed_port is not None:
                    raise
                self._port = None
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Shut the node down in order, then its name server. Durable data stays. May be called twice."""
        for child in (self._server, self._epmd):
            if child is not None:
                with contextlib.suppress(ClusterError):  # the warden is closed or gone, and its children with it
                    self._warden.stop(child, grace_seconds=_STOP_SECONDS)
        self._server = self._epmd = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- starting ----------------------------------------------------------------------------------------------

    def _start_once(self) -> None:
        ports = [reserve_port(self._host, n, "rabbitmq.port") for n in (self._port or 0, 0, 0)]
        self._port, epmd_port, distribution_port = (int(p.getsockname()[1]) for p in ports)
        environment = self._write_files(epmd_port, distribution_port)
        for reserved in ports:
            reserved.close()
        log = self.folder / "rabbitmq.log"
        log.unlink(missing_ok=True)  # an old end must not be mistaken for this start's
        self._epmd = self._warden.start(
            "epmd", [str(self._epmd_program), "-port", str(epmd_port), "-address", self._host],
            log=self.folder / "epmd.log", env=environment, cwd=self.folder,
        )  # fmt: skip
        self._server = self._warden.start(
            "RabbitMQ server", [str(self._program)], log=log, env=environment, cwd=self.folder
        )
        self._wait(self._epmd, self._server)

    def _wait(self, epmd: Child, server: Child) -> None:
        give_up_at = time.monotonic() + self._timeout_seconds
        connection = RabbitMQConnection(self.url, {"connection_attempts": 1, "socket_timeout": 2})
        while True:
            self._warden.check()
            if self._stop_asked is not None and self._stop_asked.is_set():
                raise ClusterError("stopped while RabbitMQ was starting", target="RabbitMQ")
            epmd.raise_if_ended()
            server.raise_if_ended()
            try:
                connection.check()
                return
            except AdaptorError as fault:
                if time.monotonic() > give_up_at:
                    raise ClusterError(
                        f"RabbitMQ did not accept connections within {self._timeout_seconds:g} s ({fault}); "
                        f"the end of {server.log}:\n{server.tail()}",
                        target="RabbitMQ",
                    ) from fault
            time.sleep(_POLL_SECONDS)

    def _password(self) -> str:
        return self._kept("password")

    def _kept(self, name: str) -> str:
        """Return a random word that stays with the folder."""
        path = self.folder / name
        if not path.exists():
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(16))
        return path.read_text()

    def _write_files(self, epmd_port: int, distribution_port: int) -> dict[str, str]:
        """Write the configuration and return the environment that points to it."""
        for name in ("data", "log", "conf", "home"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o700)  # it contains the cookie and the password
        lines = {
            "listeners.tcp.1": f"{self._host}:{self._port}",
            "default_user": _USER,
            "default_pass": self._password(),
            "log.console": "true",
            "log.console.level": "warning",
            "log.file": "false",
            **self._settings,
        }
        conf = self.folder / "conf"
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        (conf / "rabbitmq.conf").write_text(text)
        (conf / "enabled_plugins").write_text("[].\n")
        (conf / "rabbitmq-env.conf").write_text("")
        # The data belongs to the node's name. Two nodes of one name cannot share a name server, but each has its own.
        node = f"penstock-{self._kept('node')}@localhost"
        address = self._host.replace(".", ",")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("RABBITMQ_", "ERL_"))}
        return {
            **kept,
            "HOME": str(self.folder / "home"),  # Erlang's cookie
            "ERL_EPMD_PORT": str(epmd_port),
            "ERL_EPMD_ADDRESS": self._host,
            "RABBITMQ_NODENAME": node,
            "RABBITMQ_NODE_IP_ADDRESS": self._host,
            "RABBITMQ_NODE_PORT": str(self._port),
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_MNESIA_DIR": str(self.folder / "data" / "node"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder / "log"),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            "RABBITMQ_CONFIG_FILE": str(conf / "rabbitmq.conf"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "data" / "config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(conf / "enabled_plugins"),
            "RABBITMQ_CONF_ENV_FILE": str(conf / "rabbitmq-env.conf"),
            # Idle schedulers do not spin: the processor is for the pipeline.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                f"-kernel inet_dist_use_interface {{{address}}} +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }
