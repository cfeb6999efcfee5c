# SPDX-License-Identifier: Apache-2.0
"""What an operator's process is asked to do: written by the run, read by the process (`operator_process`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.records import Limits, Mode

if TYPE_CHECKING:
    from penstock.adaptors.kafka.connection import KafkaConnection
    from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

ENDED_AT_BORDER, ENDED_IN_BATCH = 10, 11
"""Exit codes of a process that was asked to end its query after the running batch."""

ROUND_TRIPS_FILE = "round-trips.json"
"""In the operator's folder: what its executors last measured, as triples of from, to and seconds."""
FAILURE_FILE = "failure.txt"
"""In the operator's folder: why its process failed, in a line."""


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """A topic, as `KafkaConnection` reaches it."""

    servers: str
    options: Mapping[str, str]
    topic: str

    def connection(self) -> KafkaConnection:
        """How to reach it."""
        from penstock.adaptors.kafka.connection import KafkaConnection

        return KafkaConnection(self.servers, self.options)


@dataclass(frozen=True, slots=True)
class ExchangeEnd:
    """An exchange of RabbitMQ, as `RabbitMQConnection` reaches its server."""

    url: str
    options: Mapping[str, str]
    exchange: str

    def connection(self) -> RabbitMQConnection:
        """How to reach it."""
        from penstock.adaptors.rabbitmq.connection import RabbitMQConnection

        return RabbitMQConnection(self.url, self.options)


@dataclass(frozen=True, slots=True)
class QueueEnd:
    """A queue of RabbitMQ: the options of the `penstock_rabbitmq` source."""

    options: Mapping[str, str]
    is_numbered: bool
    """Whether the run's producer alone fills it, and numbers its messages."""


@dataclass(frozen=True, slots=True)
class JobInput:
    """Where an operator's records come from: a replay, a topic, a queue, or the folder of the operator above."""

    replay: Mapping[str, str] | None = None
    """Options of the `penstock_replay` source."""
    above: str | None = None
    """The folder of the operator it reads."""
    topic: TopicEnd | None = None
    """The topic it reads, which the operator above, or somebody outside, writes."""
    queue: QueueEnd | None = None
    """The queue it reads."""
    partitions: int | None = None
    """Of that topic, or of a batch of that queue."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Of the topic's reader."""
    unique: tuple[str, ...] = ()
    """Columns that identify a record: copies are dropped."""
    unique_within_seconds: float | None = 600.0
    """How long a record is remembered for that; None: always."""

    @property
    def tasks(self) -> int | None:
        """How many tasks read a batch; None: it depends on the batch."""
        if self.replay is not None:
            from penstock.adaptors.replay.options import ReplayOptions

            return ReplayOptions.parse(self.replay).partitions
        return None if self.partitions is None else max(self.partitions, int(self.options.get("minPartitions", 0)))


@dataclass(frozen=True, slots=True)
class JobOutput:
    """Where an operator's records go: a topic, nowhere, or else a folder of its own.

    A function that returns a writer writes where it likes.
    """

    topic: TopicEnd | None = None
    is_dropped: bool = False
    """Whether every record is made and then dropped, so that no disk is measured."""


@dataclass(frozen=True, slots=True)
class OperatorJob:
    """One operator to run."""

    name: str
    app: str
    master: str
    limits: Limits
    mode: Mode
    folder: str
    """Its own folder: output and checkpoint."""
    socket_path: str
    """Where its agent listens; short, for the kernel allows about 100 bytes."""
    reads: JobInput
    writes: JobOutput = field(default_factory=JobOutput)
    options: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, str] = field(default_factory=dict)
    trigger_seconds: float | None = None
    checkpoint_seconds: float | None = None
    """Between two checkpoints of a query in real-time mode; None: it runs in micro-batches."""
    lease_seconds: float = 5.0
    measure_to: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """By node, where something listens: its executors measure how far that is. Empty: they measure nothing."""

    @property
    def output_folder(self) -> str:
        """Where its result goes."""
        return str(output_folder(Path(self.folder)))

    @property
    def checkpoint_folder(self) -> str:
        """Where Spark keeps its progress."""
        return str(Path(self.folder) / "checkpoint")


def output_folder(operator_folder: Path) -> Path:
    """Where an operator's result goes, in its own folder."""
    return operator_folder / "output"
