# SPDX-License-Identifier: Apache-2.0
"""The topics between operators: creates missing ones, checks existing ones, and deletes them again."""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.adaptors.kafka.connection import ClientFaults, KafkaConnection
from penstock.adaptors.kafka.ends import PartitionEnds
from penstock.adaptors.kafka.topics import TIMEOUT_SECONDS, Topic, Topics
from penstock.errors import ConfigurationError

_LOG = logging.getLogger(__name__)
_BROKERS_CHOICE = -1
"""As many copies of a partition as the broker creates by default."""


@dataclass(frozen=True, slots=True)
class EnsuredTopics:
    """The requested topics as they are now, and the names of those that did not exist before."""

    topics: tuple[Topic, ...]
    made: tuple[str, ...]


def ensure_topics(
    connection: KafkaConnection,
    names: Iterable[str],
    partitions: int,
    *,
    retention_hours: float = 24.0,
    stamped_by_broker: Collection[str] = (),
) -> EnsuredTopics:
    """Create the topics that are missing.

    An existing topic keeps its number of partitions: records have no key, so any number carries them all. A compacted
    topic is refused, because it does not accept records without a key.

    Parameters
    ----------
    partitions
        Of a new topic: as many tasks read it.
    retention_hours
        How long a new topic keeps its records: longer than an operator may be away.
    stamped_by_broker
        Topics whose records, if the topic is new, get the time at which the broker took them.

    Raises
    ------
    ConfigurationError
        A name or number is wrong, an existing topic is compacted, or the broker refuses the connection.
    ClusterError
        No broker answers; retryable.
    """
    if not (math.isfinite(retention_hours) and retention_hours > 0):
        raise ConfigurationError(
            f"retention_hours: {retention_hours} is not a positive number; give the hours to keep records",
            field="retention_hours",
        )
    wanted = list(dict.fromkeys(names))
    topics = Topics(connection)
    there = {topic.name: topic for topic in topics.all()}
    _refuse_compacted(connection, [name for name in wanted if name in there])
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": str(round(retention_hours * 3_600_000)),
        "retention.bytes": "-1",
    }
    made = []
    for name in wanted:
        if name not in there:
            stamp = "LogAppendTime" if name in stamped_by_broker else "CreateTime"
            own = {**settings, "message.timestamp.type": stamp}
            topics.create(name, partitions=partitions, replicas=_BROKERS_CHOICE, settings=own)
            made.append(name)
        elif there[name].partitions != partitions:
            _LOG.info("topic %s keeps its %d partitions", name, there[name].partitions)
    return EnsuredTopics(tuple(topics.check(wanted)), tuple(made))


def delete_topics(connection: KafkaConnection, names: Iterable[str]) -> None:
    """Delete topics with all their records. Those that do not exist are ignored."""
    topics = Topics(connection)
    for name in names:
        topics.delete(name)


def records_in(connection: KafkaConnection, names: Sequence[str]) -> dict[str, int]:
    """Count the records that each topic still has: where a query without a checkpoint would begin.

    Raises
    ------
    ConfigurationError
        A topic is missing, or the broker refuses the connection.
    AdaptorError
        No broker answers; retryable.
    """
    partitions = [(topic.name, n) for topic in Topics(connection).check(names) for n in range(topic.partitions)]
    ends = PartitionEnds(connection, timeout_seconds=TIMEOUT_SECONDS)
    first, following = ends.first(partitions), ends.next(partitions)
    counts = dict.fromkeys(names, 0)
    for partition in partitions:
        counts[partition[0]] += following[partition] - first[partition]
    return counts


def _refuse_compacted(connection: KafkaConnection, names: Sequence[str]) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin._config import ConfigResource

    if not names:
        return
    faults = []
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    client = connection.admin(ClientFaults())
    for resource, answer in client.describe_configs(resources, request_timeout=TIMEOUT_SECONDS).items():
        try:
            policy = answer.result()["cleanup.policy"].value or ""
        except KafkaException as fault:
            # A user with rights to read and write may lack the right to see the settings. A compacted topic then fails
            # at its first record.
            _LOG.warning("the settings of topic %s cannot be read: %s", resource.name, fault.args[0].str())
            continue
        if "compact" in policy:
            faults.append(
                f"{resource.name!r} exists and is compacted (cleanup.policy {policy}): it does not accept records "
                "without a key; give another name, or set cleanup.policy to delete"
            )
    if faults:
        raise ConfigurationError.of_all("kafka.topic", faults)
