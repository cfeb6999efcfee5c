# SPDX-License-Identifier: Apache-2.0
"""The options of the source ``penstock_rabbitmq``, read and checked before anything is connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.errors import ConfigurationError
from penstock.units import parse_bytes, parse_whole_number

MOST_PREFETCH = 65_535  # AMQP has 16 bits for it
_PASSED_ON = "amqp."


@dataclass(frozen=True, slots=True)
class RabbitMQOptions:
    """What is read, and how much of it is held.

    Parameters
    ----------
    url
        The server, ``amqp://user:password@host:port/virtual-host``.
    queue
        The queue; it must be there.
    spool_dir
        Folder for messages received and not yet acknowledged; every query needs one of its own that lives as long
        as its checkpoint and is at the same path on all executors. A folder in the checkpoint's is a good choice.
    prefetch
        Most messages held unacknowledged, and so in the running batch and the next together; at most 65,535.
    max_spool_bytes
        Bytes of message bodies held beyond which no more are taken.
    max_rows_per_batch
        The most rows one batch takes; None: all that are there.
    partitions
        Into how many tasks a batch is split.
    connection_options
        Options ``amqp.NAME`` without the prefix, given to pika as they are.
    """

    url: str
    queue: str
    spool_dir: str
    prefetch: int = 50_000
    max_spool_bytes: int = 256 << 20
    max_rows_per_batch: int | None = None
    partitions: int = 2
    connection_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> RabbitMQOptions:
        """Read the options of ``spark.readStream``, whose names may be written in any case.

        Raises
        ------
        ConfigurationError
            Every unknown option, wrong and missing value at once.
        """
        known = {name.lower(): (name, *rest) for name, rest in _OPTIONS.items()}
        values: dict[str, Any] = {}
        passed_on: dict[str, str] = {}
        faults = []
        for option, value in options.items():
            if option.lower().startswith(_PASSED_ON):
                passed_on[option.lower().removeprefix(_PASSED_ON)] = str(value)
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
            for name, what in _NEEDED.items()
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
        """Where to connect."""
        return RabbitMQConnection(self.url, self.connection_options)


def _text(value: Any, name: str) -> str:
    if not str(value).strip():
        raise ConfigurationError(f"{name}: is empty; give a value", field=name)
    return str(value).strip()


def _folder(value: Any, name: str) -> str:
    text = _text(value, name).removeprefix("file://")
    if "://" in text:
        raise ConfigurationError(f"{name}: {text!r} is not a folder of a mounted file system", field=name)
    return str(Path(text).absolute())


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
}
_NEEDED = {
    "url": "the server's address, amqp://user:password@host:5672/",
    "queue": "the queue's name",
    "spoolDir": "a folder of this query's own, such as CHECKPOINT/spool",
}
