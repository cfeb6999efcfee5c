# SPDX-License-Identifier: Apache-2.0
"""A broker's folder: its settings, its data, and the commands that format and run it.

One node in KRaft mode is broker and controller at once. It listens on the loopback only, or inside a network that only
its nodes see, on two ports of its own.
"""

from __future__ import annotations

import base64
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from penstock.adaptors.kafka.broker_place import BrokerPlace, LoopbackPlace
from penstock.adaptors.private_file import make_private_folder, write_private
from penstock.adaptors.spark.java import Java
from penstock.errors import ClusterError, ConfigurationError
from penstock.units import parse_bytes

_FORMAT_TIMEOUT_SECONDS = 120.0
_SMALLEST_HEAP_BYTES = 192 << 20
_QUIET_LOGGING = {
    "defaultLogLevel": "warn",
    "showDateTime": "true",
    "dateTimeFormat": "yyyy-MM-dd HH:mm:ss.SSS",
    "log.kafka.server.KafkaRaftServer": "info",
}


class BrokerHome:
    """What one broker keeps on disk.

    Parameters
    ----------
    folder
        Gets server.properties, data and kafka.log.
    jars, java
        What it runs.
    host
        A loopback address.
    heap
        The most memory the JVM's heap takes.
    users
        Passwords by user name: clients must log in (SASL, PLAIN). None: no login.
    settings
        Further lines of server.properties. They override Penstock's own.
    place
        Where it runs; None: here, at `host`.
    """

    def __init__(
        self,
        folder: Path,
        jars: Path,
        java: Java,
        *,
        host: str = "127.0.0.1",
        heap: str = "320m",
        users: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        place: BrokerPlace | None = None,
    ) -> None:
        self.place = LoopbackPlace(host) if place is None else place
        heap_bytes = parse_bytes(heap, "kafka.heap")
        if heap_bytes < _SMALLEST_HEAP_BYTES:
            raise ConfigurationError(f"kafka.heap: {heap!r} is too small; give at least 256m", field="kafka.heap")
        if users is not None and not users:
            raise ConfigurationError("kafka.users: is empty; name a user, or leave it out", field="kafka.users")
        self.folder = folder.absolute()
        self.log = self.folder / "kafka.log"
        self.host = self.place.address
        self.users = None if users is None else dict(users)
        self._jars = jars
        self._java = java
        self._heap_mib = heap_bytes >> 20
        self._settings = dict(settings or {})

    @property
    def _properties(self) -> Path:
        return self.folder / "server.properties"

    def prepare(self, port: int, controller_port: int) -> None:
        """Write the settings, and format the data folder if it is not formatted yet.

        Raises
        ------
        ClusterError
            The folder cannot be written to, or Kafka's tool fails; the message ends with its last words.
        """
        data = self.folder / "data"
        try:
            make_private_folder(self.folder)  # the data are the user's
            (self.folder / "tmp").mkdir(exist_ok=True)
            # The settings may contain passwords.
            write_private(self._properties, self._render(port, controller_port))
        except OSError as fault:
            raise ClusterError(f"Kafka: {self.folder} cannot be used: {fault.strerror}", target="Kafka") from fault
        if (data / "meta.properties").is_file():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=": the tool would read an id that begins with a dash as an option.
        arguments = ["format", f"--cluster-id={cluster}", f"--config={self._properties}"]
        command = [*self._java_command("kafka.tools.StorageTool", 128), *arguments]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=_FORMAT_TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired as fault:
            raise ClusterError(
                f"Kafka: formatting {data} took over {_FORMAT_TIMEOUT_SECONDS:g} s", target="Kafka", retryable=True
            ) from fault
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).splitlines()[-10:])
            raise ClusterError(f"Kafka: {data} cannot be formatted:\n{said}", target="Kafka")

    def command(self) -> list[str]:
        """Return the command that runs the broker in the foreground."""
        return self.place.command([*self._java_command("kafka.Kafka", self._heap_mib), str(self._properties)])

    def client_options(self) -> dict[str, str]:
        """Return the login of the first user as client options. Empty if no login is needed."""
        if self.users is None:
            return {}
        return login_options(*next(iter(self.users.items())))

    def _java_command(self, main_class: str, heap_mib: int) -> list[str]:
        options = [
            "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xms64m", f"-Xmx{heap_mib}m",
            f"-Djava.io.tmpdir={self.folder / 'tmp'}",
        ]  # fmt: skip
        options += [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in _QUIET_LOGGING.items()]
        options += [f"-D{name}={value}" for name, value in self.place.java_properties.items()]
        return [str(self._java.program), *options, "-cp", f"{self._jars}/*", main_class]

    def _render(self, port: int, controller_port: int) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        protocol = "PLAINTEXT" if self.users is None else "SASL_PLAINTEXT"
        lines = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{shown}:{controller_port}",
            "listeners": f"CLIENT://{shown}:{port},CONTROLLER://{shown}:{controller_port}",
            "advertised.listeners": f"CLIENT://{shown}:{port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            # Topics can be made and removed through the controller's port as well, so it asks for the same login.
            "listener.security.protocol.map": f"CLIENT:{protocol},CONTROLLER:{protocol}",
            "log.dirs": str(self.folder / "data"),
            # A single node has nobody to replicate to, and nobody to wait for when a group forms.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A misspelt topic is an error, not a new topic.
            "auto.create.topics.enable": "false",
            "num.network.threads": "2",
            "num.io.threads": "2",
            # A killed broker is let in again only after its former session has timed out (9 s by default).
            "broker.heartbeat.interval.ms": "500",
            "broker.session.timeout.ms": "3000",
        }
        if self.users is not None:
            name, password = next(iter(self.users.items()))
            known = " ".join(f"user_{user}={_jaas(secret)}" for user, secret in self.users.items())
            login = (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                f"username={_jaas(name)} password={_jaas(password)} {known};"
            )
            lines |= {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.client.plain.sasl.jaas.config": login,
                "listener.name.controller.plain.sasl.jaas.config": login,
            }
        lines |= self._settings
        return "".join(f"{name}={_escaped(value)}\n" for name, value in lines.items())


def login_options(name: str, password: str) -> dict[str, str]:
    """Return the client options of a user of a broker that asks for a login."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": name,
        "sasl.password": password,
    }


def _jaas(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escaped(value: str) -> str:
    """Escape a value for a Java properties file, where the backslash escapes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
