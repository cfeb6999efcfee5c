# SPDX-License-Identifier: Apache-2.0
"""The broker of a settings file: Kafka, whose topics join operators, or RabbitMQ, which feeds the first ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field, FieldSerializationInfo, field_serializer, field_validator, model_validator

from penstock.secrets import without_secrets
from penstock.settings.fields import Part, Seconds, TextOptions
from penstock.settings.parts import ArrivalsSettings, OperatorSettings
from penstock.settings.reader_options import queue_option_faults
from penstock.settings.secret_values import WITH_SECRETS, address_from_environment, from_environment, written
from penstock.topology import ARRIVALS

EMBEDDED = "embedded"
"""In place of an address: a broker is started for the run."""
_RETENTION_SECONDS = 86_400.0


class BrokerSettings(Part):
    """Kafka, for streams that are topics, or RabbitMQ, for what arrives; operators that no topic joins read folders."""

    servers: str | None = Field(
        default=None,
        description="Kafka: `embedded` starts a broker for the run, which is the default without `rabbitmq`; else "
        "`host:port`, several with commas",
    )
    rabbitmq: str | None = Field(
        default=None,
        description="RabbitMQ in place of Kafka: `embedded` starts a server for the run; else "
        "`amqp://user:${NAME}@host:5672/` (`amqps://` for TLS); `${NAME}` stands for a variable of the environment",
    )
    options: TextOptions = Field(
        default_factory=dict,
        description="of the connection, such as `security.protocol`, `sasl.mechanism`, `sasl.username` (Kafka), "
        "`heartbeat`, `ssl_options` (RabbitMQ); `${NAME}` stands for a variable of the environment",
    )
    partitions: int = Field(
        default=2, ge=1, le=10_000,
        description="of the topics that are made: as many tasks read one at a time; RabbitMQ: tasks that read a batch",
    )  # fmt: skip
    retention: Seconds = Field(
        default=_RETENTION_SECONDS,
        gt=0,
        description="Kafka: how long topics that are made keep records, longer than an outage",
    )

    @model_validator(mode="before")
    @classmethod
    def _kafka_if_not_said(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("servers") is None and value.get("rabbitmq") is None:
            return {**value, "servers": EMBEDDED}
        return value

    @field_validator("servers")
    @classmethod
    def _of_kafka(cls, servers: str | None) -> str | None:
        if servers is not None and servers.startswith(("amqp:", "amqps:")):
            raise ValueError("this is an address of RabbitMQ; write it as `rabbitmq`")
        return servers

    @field_validator("rabbitmq")
    @classmethod
    def _address(cls, address: str | None) -> str | None:
        return None if address is None else address_from_environment(address)

    @field_validator("options")
    @classmethod
    def _from_environment(cls, options: dict[str, str]) -> dict[str, str]:
        return {name: from_environment(value) for name, value in options.items()}

    @model_validator(mode="after")
    def _one_of_them(self) -> BrokerSettings:
        if self.servers is not None and self.rabbitmq is not None:
            raise ValueError("give either `servers` (Kafka) or `rabbitmq`; a run has one broker")
        if self.rabbitmq is not None and self.retention != _RETENTION_SECONDS:
            raise ValueError("`retention` is that of topics; RabbitMQ keeps messages until they are done: leave it out")
        return self

    @property
    def is_embedded(self) -> bool:
        """Whether it is started for the run, and ends with it."""
        return EMBEDDED in (self.servers, self.rabbitmq)

    @field_serializer("options")
    def _without_secrets(self, options: dict[str, str], info: FieldSerializationInfo) -> dict[str, str]:
        return written(options, info)

    @field_serializer("rabbitmq")
    def _without_password(self, address: str | None, info: FieldSerializationInfo) -> str | None:
        return address if address is None or info.context == WITH_SECRETS else without_secrets(address)


def broker_fault(
    name: str, broker: BrokerSettings | None, arrivals: ArrivalsSettings | None, operators: Sequence[OperatorSettings]
) -> str | None:
    """What does not fit together in arrivals, operators and broker, with what to do; None: all does."""
    return _arrivals_fault(name, broker, arrivals, operators) or _reader_fault(broker, operators)


def _arrivals_fault(
    name: str, broker: BrokerSettings | None, arrivals: ArrivalsSettings | None, operators: Sequence[OperatorSettings]
) -> str | None:
    if arrivals is None or arrivals.is_replayed:
        return None
    return _topic_fault(name, broker, arrivals.topic, operators) if arrivals.topic else _exchange_fault(broker)


def _exchange_fault(broker: BrokerSettings | None) -> str | None:
    if broker is None or broker.rabbitmq is None:
        return "arrivals.exchange: needs RabbitMQ; say where it is, such as broker: {rabbitmq: amqp://host/}"
    if broker.is_embedded:
        return "arrivals.exchange: nobody else publishes to an embedded RabbitMQ; give the address of yours, or `shape`"
    return None


def _topic_fault(
    name: str, broker: BrokerSettings | None, topic: str, operators: Sequence[OperatorSettings]
) -> str | None:
    if broker is None:
        return "arrivals.topic: needs `broker`; say where the topic is, such as {servers: host:9092}"
    if broker.rabbitmq is not None:
        return "arrivals.topic: RabbitMQ has no topics; name an `exchange`, or use Kafka (`broker.servers`)"
    if broker.is_embedded:
        return "arrivals.topic: nobody else writes to an embedded broker; give the `servers` of yours, or `shape`"
    if topic in [f"{name}.{operator.name}" for operator in operators]:
        return f"arrivals.topic: {topic!r} is what an operator writes to; its records would go round"
    return None


def _reader_fault(broker: BrokerSettings | None, operators: Sequence[OperatorSettings]) -> str | None:
    if broker is not None and broker.rabbitmq is None:
        return None
    for i, operator in enumerate(operators):
        if operator.unique:
            why = "give a broker of Kafka" if broker is None else "copies of numbered messages are dropped already"
            return f"operators.{i}: `unique` is for topics; {why}, or leave it out"
        if operator.input_options and (
            broker is None or not any(entry.source == ARRIVALS for entry in operator.inputs)
        ):
            return f"operators.{i}: `input_options` are for topics and queues; give `broker`, or leave them out"
        faults = queue_option_faults(operator.input_options)
        if faults:
            return f"operators.{i}.input_options: {'; '.join(faults)}"
    return None
