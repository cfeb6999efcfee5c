# SPDX-License-Identifier: Apache-2.0
"""How to reach a Kafka broker: the user's options, once, for both confluent-kafka and Spark's connector.

Options have librdkafka's names. Java's client, inside Spark, has other names for the same things, and `spark_options`
translates: a username and password become a JAAS line, PEM files become PEM stores. Options that only one side knows
pass through unchanged under a prefix: ``librdkafka.NAME`` for the one, ``kafka.NAME`` for Spark.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import ConfigurationError
from penstock.secrets import shown

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

INSTALL_COMMAND = "pip install 'penstock[kafka]'"
FIELD = "kafka.options"
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_PASSWORD_MECHANISMS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
MECHANISMS = (*_PASSWORD_MECHANISMS, "GSSAPI", "OAUTHBEARER")
# Both clients use the same name and meaning for these.
_SHARED_OPTIONS = (
    "client.id", "connections.max.idle.ms", "metadata.max.age.ms", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "sasl.kerberos.service.name", "sasl.mechanism", "security.protocol", "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
)  # fmt: skip
_FILE_OPTIONS = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
KNOWN_OPTIONS = tuple(sorted((*_SHARED_OPTIONS, *_FILE_OPTIONS, "sasl.username", "sasl.password")))
_CLIENT_ONLY, _SPARK_ONLY = "librdkafka.", "kafka."


@dataclass(frozen=True, slots=True)
class KafkaConnection:
    """Where a broker is and how to log in.

    Parameters
    ----------
    bootstrap_servers
        ``host:port``; separate several with commas.
    options
        `KNOWN_OPTIONS`, and any other under the prefix ``librdkafka.`` or ``kafka.``.

    Raises
    ------
    ConfigurationError
        An address or option is wrong, options do not go together, a file is missing. No broker was asked.
    """

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        faults = [*_address_faults(self.bootstrap_servers), *_option_faults(self.options)]
        if faults:
            raise ConfigurationError.of_all("kafka", faults)

    def client_options(self) -> dict[str, str]:
        """Return the options of a confluent-kafka client."""
        mine = {name: value for name, value in self.options.items() if not name.startswith(_SPARK_ONLY)}
        plain = {name.removeprefix(_CLIENT_ONLY): str(value) for name, value in mine.items()}
        return {"bootstrap.servers": self.bootstrap_servers, **plain}

    def spark_options(self) -> dict[str, str]:
        """Return the options of ``format("kafka")``, for reading and writing. The caller adds the topic."""
        options = {name: str(value) for name, value in self.options.items()}
        java = {name: options[name] for name in _SHARED_OPTIONS if name in options}
        if "sasl.username" in options:
            module = _PASSWORD_MECHANISMS[options["sasl.mechanism"]]
            java["sasl.jaas.config"] = (
                f"{module} required username={_quoted(options['sasl.username'])} "
                f"password={_quoted(options['sasl.password'])};"
            )
        if "ssl.ca.location" in options:
            java |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": options["ssl.ca.location"]}
        if "ssl.certificate.location" in options:
            # Java's PEM store wants both in one file. As text they may come from two.
            java |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": Path(options["ssl.certificate.location"]).read_text(),
                "ssl.keystore.key": Path(options["ssl.key.location"]).read_text(),
            }
        if java.get("ssl.endpoint.identification.algorithm") == "none":
            java["ssl.endpoint.identification.algorithm"] = ""  # Java's word for "none"
        given = {name: value for name, value in options.items() if name.startswith(_SPARK_ONLY)}
        return {
            "kafka.bootstrap.servers": self.bootstrap_servers,
            **{f"kafka.{name}": value for name, value in java.items()},
            **given,
        }

    def admin(self, faults: ClientFaults | None = None) -> AdminClient:
        """Return a client for topics. It reports what goes wrong beneath it to `faults`."""
        check_installed()
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._configured({}, faults))

    def producer(
        self, extra: Mapping[str, str | int | float | bool] | None = None, faults: ClientFaults | None = None
    ) -> Producer:
        """Return a client that writes records. `extra` uses librdkafka's names; the user's options override it."""
        check_installed()
        from confluent_kafka import Producer

        return Producer(self._configured(extra or {}, faults))

    def consumer(
        self, extra: Mapping[str, str | int | float | bool] | None = None, faults: ClientFaults | None = None
    ) -> Consumer:
        """Return a client that reads records. It joins no group and commits nothing, unless `extra` says otherwise."""
        check_installed()
        from confluent_kafka import Consumer

        # librdkafka wants a group name even where no group is joined.
        alone: dict[str, str | int | float | bool] = {
            "group.id": "penstock",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
        }
        return Consumer(self._configured({**alone, **(extra or {})}, faults))

    def _configured(self, extra: Mapping[str, str | int | float | bool], faults: ClientFaults | None) -> dict[str, Any]:
        heard = ClientFaults() if faults is None else faults
        return {
            "reconnect.backoff.max.ms": 1000,
            **self.client_options(),
            **extra,
            "error_cb": heard.add,
            # A broker that is away would print "connection refused" on the user's terminal every second.
            "logger": _LOGGER,
        }

    def __repr__(self) -> str:
        options = {name: shown(name, value) for name, value in self.options.items()}
        return f"KafkaConnection({self.bootstrap_servers!r}, {options!r})"


class ClientFaults:
    """Errors that librdkafka reports beside its answers: a broker that is not reached, refused credentials."""

    def __init__(self) -> None:
        self.last: str | None = None
        self.refused: str | None = None
        """Why the broker refuses us. It will until the options change."""

    def add(self, fault: KafkaError) -> None:
        """Record one error. The client's `poll` calls this."""
        if self.last is None or fault.name() != "_ALL_BROKERS_DOWN":  # the reason says more
            self.last = fault.str()
        if fault.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL"):
            self.refused = self.last


_LOGGER = logging.getLogger("penstock.kafka.client")
_LOGGER.addHandler(logging.NullHandler())
_LOGGER.propagate = False


def check_installed() -> None:
    """Raise a ConfigurationError that says what to run, if the Kafka client is missing."""
    try:
        import confluent_kafka  # noqa: F401
    except ModuleNotFoundError as fault:
        raise ConfigurationError(
            f"kafka: the package confluent-kafka is not installed; run: {INSTALL_COMMAND}", field="kafka"
        ) from fault


def _address_faults(servers: str) -> list[str]:
    faults = []
    for server in str(servers).split(","):
        host, colon, port = server.strip().rpartition(":")
        if "@" in server or "://" in server:  # not shown: it may contain a password
            faults.append(
                "bootstrap_servers: write host:port only; give a login as the options sasl.username and sasl.password"
            )
        elif not (host and colon and port.isdigit() and 0 < int(port) < 65536):
            faults.append(
                f'bootstrap_servers: {server.strip()!r} is not host:port; write it like "broker-1:9092,broker-2:9092"'
            )
    return faults


def _option_faults(options: Mapping[str, str]) -> list[str]:
    faults = []
    for name in options:
        if name in ("bootstrap.servers", "kafka.bootstrap.servers"):
            faults.append(f"options.{name}: belongs in bootstrap_servers; leave it out here")
        elif name not in KNOWN_OPTIONS and not name.startswith((_CLIENT_ONLY, _SPARK_ONLY)):
            near = difflib.get_close_matches(name, KNOWN_OPTIONS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(KNOWN_OPTIONS)}"
            faults.append(
                f"options.{name}: unknown; {hint} "
                f"(to pass it on unchecked, write librdkafka.{name} or, for Spark, kafka.{name})"
            )
    protocol = options.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        faults.append(f"options.security.protocol: unknown {protocol!r}; known: {', '.join(PROTOCOLS)}")
    faults += _login_faults(options, protocol) + _file_faults(options, protocol)
    return faults


def _login_faults(options: Mapping[str, str], protocol: str) -> list[str]:
    mechanism = options.get("sasl.mechanism")
    has_login = any(name.startswith("sasl.") for name in options)
    if has_login and not protocol.startswith("SASL"):
        return [f"options.security.protocol: {protocol} has no login; use SASL_SSL or SASL_PLAINTEXT"]
    if not has_login:
        return []
    if mechanism not in MECHANISMS:
        said = "is missing" if mechanism is None else f"unknown {mechanism!r}"
        return [f"options.sasl.mechanism: {said}; known: {', '.join(MECHANISMS)}"]
    given = [name for name in ("sasl.username", "sasl.password") if name in options]
    if mechanism in _PASSWORD_MECHANISMS and len(given) < 2:
        return [f"options: {mechanism} needs both sasl.username and sasl.password"]
    if mechanism not in _PASSWORD_MECHANISMS and given:
        return [f"options.{given[0]}: {mechanism} does not use a password; leave it out"]
    return []


def _file_faults(options: Mapping[str, str], protocol: str) -> list[str]:
    faults = [
        f"options.{name}: {options[name]} does not exist; give the path of a PEM file"
        for name in _FILE_OPTIONS
        if name in options and not Path(options[name]).is_file()
    ]
    if any(name in options for name in _FILE_OPTIONS) and not protocol.endswith("SSL"):
        faults.append(f"options.security.protocol: {protocol} is not encrypted; use SSL or SASL_SSL")
    if ("ssl.certificate.location" in options) != ("ssl.key.location" in options):
        faults.append("options: ssl.certificate.location and ssl.key.location belong together; give both")
    return faults


def _quoted(text: str) -> str:
    """Quote a value for a JAAS line."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
