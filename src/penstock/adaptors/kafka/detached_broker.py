# SPDX-License-Identifier: Apache-2.0
"""A Kafka broker that outlives the command that started it: `penstock kafka start`, `stop` and `status`.

Its folder records the process, port and log. Only the process recorded there, identified by pid and start time, is
ever ended. Clients must log in: the password is random, made at the first start, and stands in files of that folder
which nobody else may read.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.adaptors.kafka.broker import one_login, reserve_again, wait_until_ready
from penstock.adaptors.kafka.broker_home import BrokerHome, login_options
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.distribution import fetch_kafka
from penstock.adaptors.kafka.topics import Topic, Topics
from penstock.adaptors.loopback import reserve_port
from penstock.adaptors.private_file import make_private_folder, write_private
from penstock.adaptors.process.detached import DetachedProcess
from penstock.adaptors.process.log_rotation import rotate_logs
from penstock.adaptors.process.warden import MARK
from penstock.adaptors.spark.java import find_java
from penstock.errors import AdaptorError, ConfigurationError

_HOST = "127.0.0.1"
_NAME = "Kafka broker"
_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_ASK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The state of a broker. If it does not answer, `topics` is None and `fault` says why."""

    folder: Path
    pid: int | None
    bootstrap_servers: str | None
    topics: tuple[Topic, ...] | None
    fault: str | None = None

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self.pid is not None

    @property
    def answers(self) -> bool:
        """Whether it answers a client."""
        return self.topics is not None


class DetachedBroker:
    """The broker of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.log = self.folder / "kafka.log"
        self._identity = self.folder / "broker.json"
        self._ports_file = self.folder / "ports.json"
        self._login_file = self.folder / "login.json"
        self.client_properties = self.folder / "client.properties"
        """The login as Kafka's own tools read it."""

    @property
    def is_running(self) -> bool:
        """Whether its process exists."""
        return self._process() is not None

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was started in another container, where it may run and cannot be seen from here."""
        return DetachedProcess.is_elsewhere(self._identity)

    @property
    def bootstrap_servers(self) -> str | None:
        """Where it listens, or None if it is not running."""
        ports = self._ports() if self.is_running else None
        return None if ports is None else f"{_HOST}:{ports[0]}"

    @property
    def connection(self) -> KafkaConnection | None:
        """How it is reached, with the login that it asks for; None if it is not running."""
        servers = self.bootstrap_servers
        return None if servers is None else KafkaConnection(servers, self._client_options())

    def start(
        self, *, port: int | None = None, heap: str = "320m", tell: Callable[[str], None] | None = None
    ) -> BrokerStatus:
        """Start the broker if it is not running, on the given port or its last one, and wait until it answers.

        Raises
        ------
        ConfigurationError
            A value is wrong, Java is missing, or it runs already on another port.
        ClusterError
            The jars cannot be fetched or it did not come up; then it does not run.
        """
        with self._alone():
            running = self._process()
            before = self._ports()
            if running is not None:
                if port is not None and before is not None and before[0] != port:
                    raise ConfigurationError(
                        f"--port: the broker of {self.folder} runs already, on port {before[0]}; stop it first: "
                        f"penstock kafka stop --folder {self.folder}",
                        field="--port",
                    )
                return self.status()
            home = BrokerHome(
                self.folder, fetch_kafka(tell), find_java(), host=_HOST, heap=heap, users=self._keep_login()
            )
            rotate_logs([self.folder])  # nobody is there to do it while the broker runs, which logs warnings alone
            self._bring_up(home, port, before)
        return self.status()

    def stop(self) -> int | None:
        """Shut the broker down in order and keep its data. Return its pid, or None if it was not running."""
        process = self._process()
        if process is None:
            return None
        process.stop(grace_seconds=_STOP_SECONDS)
        self._identity.unlink(missing_ok=True)
        return process.pid

    def status(self) -> BrokerStatus:
        """The broker's present state."""
        process, connection = self._process(), self.connection
        if process is None or connection is None:
            return BrokerStatus(self.folder, None, None, None)
        servers = connection.bootstrap_servers
        try:
            topics = tuple(Topics(connection, timeout_seconds=_ASK_SECONDS).all())
        except AdaptorError as fault:
            return BrokerStatus(self.folder, process.pid, servers, None, str(fault))
        return BrokerStatus(self.folder, process.pid, servers, topics)

    def _keep_login(self) -> dict[str, str]:
        """The login of this folder's broker: that of its first start, or a new one."""
        users = self._login() or one_login()
        try:
            write_private(self._login_file, json.dumps(users))
            java = KafkaConnection(f"{_HOST}:1", _options_of(users)).spark_options()
            lines = [f"{name.removeprefix('kafka.')}={value}\n" for name, value in java.items()]
            text = "".join(line for line in lines if not line.startswith("bootstrap.servers="))
            write_private(self.client_properties, text)
        except OSError as fault:
            raise ConfigurationError(
                f"--folder: the login cannot be kept in {self.folder}: {fault.strerror}; give another folder",
                field="--folder",
            ) from fault
        return users

    def _login(self) -> dict[str, str] | None:
        try:
            found = json.loads(self._login_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        is_login = isinstance(found, dict) and found and all(isinstance(word, str) for word in found.values())
        return found if is_login else None

    def _client_options(self) -> dict[str, str]:
        """Empty for a broker that an earlier version started, which has no login until it is started again."""
        return _options_of(self._login())

    def _bring_up(self, home: BrokerHome, port: int | None, before: tuple[int, int] | None) -> None:
        wanted = port or (before[0] if before is not None else 0)
        had_it = before is not None and wanted == before[0]
        reserve = reserve_again if had_it else reserve_port
        with reserve(_HOST, wanted, "--port") as first, reserve_port(_HOST, 0, "--port") as other:
            ports = (first.getsockname()[1], other.getsockname()[1])
            home.prepare(*ports)
            self._ports_file.write_text(json.dumps(ports), encoding="utf-8")
            # A warden's mark would let that warden end it.
            env = {name: value for name, value in os.environ.items() if name != MARK}
            process = DetachedProcess.start(
                _NAME, home.command(), log=home.log, env=env, cwd=self.folder, identity=self._identity
            )
            try:
                connection = KafkaConnection(f"{_HOST}:{ports[0]}", home.client_options())
                wait_until_ready(connection, process, _START_SECONDS)
            except BaseException:  # Ctrl-C too: do not leave a broker behind that did not come up
                process.stop()
                self._identity.unlink(missing_ok=True)
                raise

    def _process(self) -> DetachedProcess | None:
        return DetachedProcess.adopt(_NAME, log=self.log, identity=self._identity)

    def _ports(self) -> tuple[int, int] | None:
        try:
            first, other = json.loads(self._ports_file.read_text(encoding="utf-8"))
        except (OSError, ValueError, TypeError):
            return None
        return (first, other) if isinstance(first, int) and isinstance(other, int) else None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let two starts at once give one broker."""
        try:
            make_private_folder(self.folder)  # before anything is in it: what the broker keeps is the user's
            lock = (self.folder / ".lock").open("w")
        except OSError as fault:
            raise ConfigurationError(
                f"--folder: {self.folder} cannot be used: {fault.strerror}; give a folder that may be written to",
                field="--folder",
            ) from fault
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _options_of(users: Mapping[str, str] | None) -> dict[str, str]:
    return {} if users is None else login_options(*next(iter(users.items())))
