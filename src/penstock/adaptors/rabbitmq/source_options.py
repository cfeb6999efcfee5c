# SPDX-License-Identifier: Apache-2.0
"""The options of the source ``penstock_rabbitmq``, checked before anything connects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.errors import ConfigurationError
from penstock.units import parse_bytes, parse_whole_number

MOST_PREFETCH = 65_535  # AMQP stores it in 16 bits
_PIKA_PREFIX = "amqp."


@dataclass(frozen=True, slots=True)
class RabbitMQOptions:
    """What to read, and how much of it to hold.

    Parameters
    ----------
    url
        The server, ``amqp://user:password@host:port/virtual-host``.
    queue
        The queue, which must exist.
    spool_dir
        Folder for messages received and not yet acknowledged. Every query needs its own, which lives as long as its
        checkpoint and has the same path on all executors. A folder inside the checkpoint's is a good choice.
    prefetch
        Most messages held unacknowledged: the running batch and the next together. At most 65,535.
    max_spool_bytes
        Bytes of message bodies above which no more are taken.
    max_rows_per_batch
        The most rows in a batch. None: all that are there.
    partitions
        The number of tasks in a batch.
    mark_resent
        Whether messages with the producer and sequence of an earlier one are its copies, even if the broker delivers
        them for the first time. Only for producers that never use a number twice.
    connection_options
        Options ``amqp.NAME`` without the prefix, passed to pika unchanged.
    """

    url: str
    queue: str
    spool_dir: str
    prefetch: int = 50_000
    max_spool_bytes: int = 256 << 20
    max_rows_per_batch: int | None = None
    partitions: int = 2
    mark_resent: bool = False
    connection_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> RabbitMQOptions:
        """Read the options of ``spark.readStream``. Their names are not case-sensitive.

        Raises
        ------
        ConfigurationError
            Lists every unknown option and every wrong or missing value at once.
        """
        known = {name.lower(): (name, *rest) for name, rest in _OPTIONS.items()}
        values: dict[str, Any] = {}
        passed_on: dict[str, str] = {}
        faults = []
        for option, value in options.items():
            if option.lower().startswith(_PIKA_PREFIX):
                passed_on[option.lower().removeprefix(_PIKA_PREFIX)] = str(value)
                continue
            if option.lower() not in known:
                faults.append(f"unknown option {option!r}; known options: {', '.join(_OPTIONS)}, amqp.*")
                continue
            name, place, read = known[option.lower()]
            try:
                values[place] = read(value, name)
            except ConfigurationError as fault:
                faults.append(str(fault))
        faults += [
            f"{name}: is missing; give {what}"
            for name, what in _REQUIRED.items()
            if _OPTIONS[name][0] not in values and not any(f.startswith(f"{name}:") for f in faults)
        ]
        if "url" in values:
            try:
                RabbitMQConnection(values["url"], passed_on)
            except ConfigurationError as fault:
                faults.append(str(fault))
        if faults:
            raise ConfigurationError.of_all("rabbitmq options", faults)
        return cls(**values, connection_options=passed_on)

    def connection(self) -> RabbitMQConnection:
        """Return the connection that the options describe."""
        return RabbitMQConnection(self.url, self.connection_options)


def _text(value: Any, name: str) -> str:
    if not str(value).strip():
        raise ConfigurationError(f"{name}: is empty; give a value", field=name)
    return str(value).strip()


def _folder(value: Any, name: str) -> str:
    text = _text(value, name).removeprefix("file://")
    if "://" in text:
        raise ConfigurationError(f"{name}: {text!r} is not a folder; give a path on a mounted file system", field=name)
    return str(Path(text).absolute())


def _switch(value: Any, name: str) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigurationError(f"{name}: {value!r} is neither true nor false; write one of them", field=name)
    return text == "true"


def _whole_number(*, most: int) -> Callable[[Any, str], int]:
    return lambda value, name: parse_whole_number(name, value, least=1, most=most)


_OPTIONS: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "url": ("url", _text),
    "queue": ("queue", _text),
    "spoolDir": ("spool_dir", _folder),
    "prefetch": ("prefetch", _whole_number(most=MOST_PREFETCH)),
    "maxSpoolBytes": ("max_spool_bytes", lambda value, name: parse_bytes(str(value), name)),
    "maxRowsPerBatch": ("max_rows_per_batch", _whole_number(most=(1 << 63) - 1)),
    "partitions": ("partitions", _whole_number(most=1 << 20)),
    "markResent": ("mark_resent", _switch),
}
_REQUIRED = {
    "url": "the server's address, amqp://user:password@host:5672/",
    "queue": "the queue's name",
    "spoolDir": "a folder of this query's own, such as CHECKPOINT/spool",
}
