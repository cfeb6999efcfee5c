# SPDX-License-Identifier: Apache-2.0
"""Creates, describes and checks topics, and explains why a broker does not answer."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.errors import ClusterError, ConfigurationError

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

TIMEOUT_SECONDS = 10.0
_INTERNAL_PREFIX = "__"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its number of partitions, and of copies of each."""

    name: str
    partitions: int
    replicas: int


class Topics:
    """The topics of a broker.

    Every method raises ClusterError (retryable) if no broker answers within `timeout_seconds`, and
    ConfigurationError if the broker answers but refuses credentials, rights or names.
    """

    def __init__(self, connection: KafkaConnection, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.connection = connection
        self._timeout_seconds = timeout_seconds
        self._faults = ClientFaults()
        self._client: AdminClient | None = None

    def names(self) -> list[str]:
        """The names of all topics, sorted, without the broker's internal ones."""
        return [topic.name for topic in self.all()]

    def all(self) -> list[Topic]:
        """All topics, sorted by name, without the broker's internal ones."""
        found = self._metadata().topics.values()
        return sorted(
            (
                Topic(t.topic, len(t.partitions), min((len(p.replicas) for p in t.partitions.values()), default=0))
                for t in found
                if t.topic is not None and not t.topic.startswith(_INTERNAL_PREFIX)
            ),
            key=lambda topic: topic.name,
        )

    def check(self, wanted: Iterable[str]) -> list[Topic]:
        """Return the wanted topics. Raise ConfigurationError with every missing one and similar names."""
        known = {topic.name: topic for topic in self.all()}
        names = list(wanted)
        faults = []
        for name in names:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=3)
                there = f"did you mean {_listed(near)}?" if near else f"there: {_listed(sorted(known)) or 'none'}"
                faults.append(
                    f"topic {name!r} is not on the broker at {self.connection.bootstrap_servers}; {there} "
                    "(create it first: topics are not created automatically)"
                )
        if faults:
            raise ConfigurationError.of_all("kafka.topic", faults)
        return [known[name] for name in names]

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        stamped_by_broker: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> Topic:
        """Create a topic, or keep it if it exists with as many partitions.

        Parameters
        ----------
        stamped_by_broker
            Records get the time the broker took them, one for all that came in one request, instead of the one
            their producer gave each.
        settings
            The topic's settings, under Kafka's names.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.cimpl import NewTopic

        if partitions < 1:
            raise ConfigurationError(f"partitions: {partitions} is too few; give at least 1", field="partitions")
        self._metadata()  # let an unreachable broker be reported in our words
        config = {**({"message.timestamp.type": "LogAppendTime"} if stamped_by_broker else {}), **(settings or {})}
        new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=config)
        try:
            self._admin().create_topics([new], request_timeout=self._timeout_seconds)[name].result()
        except KafkaException as fault:
            error = fault.args[0]
            if error.name() != "TOPIC_ALREADY_EXISTS":
                raise self._refused(f"topic {name!r} cannot be created", error.str()) from fault
            there = self.check([name])[0]
            if there.partitions != partitions:
                raise ConfigurationError(
                    f"kafka.topic: {name!r} exists with {there.partitions} partitions, not {partitions}; give that "
                    "number, or another name",
                    field="kafka.topic",
                ) from fault
            return there
        self._wait_for(name)
        return Topic(name, partitions, replicas)

    def delete(self, name: str) -> None:
        """Delete a topic with all its records, if it exists."""
        from confluent_kafka import KafkaException

        self._metadata()
        try:
            self._admin().delete_topics([name], request_timeout=self._timeout_seconds)[name].result()
        except KafkaException as fault:
            error = fault.args[0]
            if error.name() != "UNKNOWN_TOPIC_OR_PART":
                raise self._refused(f"topic {name!r} cannot be deleted", error.str()) from fault

    def _wait_for(self, name: str) -> None:
        """Wait until the broker shows a topic that was just created."""
        deadline = time.monotonic() + self._timeout_seconds
        while name not in self.names():
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"Kafka: topic {name!r} was created but does not show", target="Kafka", retryable=True
                )
            time.sleep(0.02)

    def _refused(self, what: str, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"kafka.topic: {what} on {self.connection.bootstrap_servers}: {why}", field="kafka.topic"
        )

    def _admin(self) -> AdminClient:
        if self._client is None:
            self._client = self.connection.admin(self._faults)
        return self._client

    def _metadata(self) -> ClusterMetadata:
        client = self._admin()  # first: where the package is missing, it says how to get it
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + self._timeout_seconds
        while True:
            left = deadline - time.monotonic()
            try:
                return client.list_topics(timeout=min(1.0, max(left, 0.1)))
            except KafkaException as fault:
                client.poll(0)  # receive the reason
                error = fault.args[0]
                refused = self._faults.refused or (error.str() if error.name() == "_AUTHENTICATION" else None)
                if refused is not None:
                    raise ConfigurationError(
                        f"kafka.options: the broker at {self.connection.bootstrap_servers} refuses the connection: "
                        f"{refused}; check security.protocol, sasl.mechanism, sasl.username, sasl.password and the "
                        "ssl files",
                        field="kafka.options",
                    ) from fault
                if left <= 0:
                    raise ClusterError(
                        f"Kafka: no broker answers at {self.connection.bootstrap_servers} "
                        f"({self._faults.last or error.str()}). Is it running, and does it speak "
                        f"{self.connection.options.get('security.protocol', 'PLAINTEXT')}? "
                        "To start your own: penstock kafka start",
                        target="Kafka",
                        retryable=True,
                    ) from fault


def _listed(names: Iterable[str], most: int = 12) -> str:
    every = [repr(name) for name in names]
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
