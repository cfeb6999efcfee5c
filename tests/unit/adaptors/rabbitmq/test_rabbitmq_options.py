# SPDX-License-Identifier: Apache-2.0
"""Options of the RabbitMQ source: every mistake at once, before anything is connected."""

from __future__ import annotations

import pytest

pytest.importorskip("pika", reason="needs the extra [rabbitmq]")

from penstock.adaptors.rabbitmq.source_options import RabbitMQOptions
from penstock.errors import ConfigurationError

GOOD = {"url": "amqp://127.0.0.1", "queue": "q", "spoolDir": "/tmp/spool"}


def test_options_in_any_case_and_those_of_pika() -> None:
    """Names may be written in any case; amqp.* goes to pika without the prefix."""
    options = RabbitMQOptions.parse(
        {"URL": "amqp://127.0.0.1", "queue": "q", "spooldir": "file:///tmp/s", "PREFETCH": "9", "amqp.heartbeat": 5,
         "maxSpoolBytes": "1m"}
    )  # fmt: skip
    assert (options.prefetch, options.spool_dir, options.max_spool_bytes) == (9, "/tmp/s", 1 << 20)
    assert options.connection().parameters().heartbeat == 5


def test_every_mistake_is_told_at_once() -> None:
    """Unknown, missing and wrong options are listed together."""
    with pytest.raises(ConfigurationError) as told:
        RabbitMQOptions.parse({"url": "http://x", "prefetch": "70000", "qeue": "q"})
    text = str(told.value)
    for part in ("write it like amqp://", "prefetch: '70000'", "'qeue'", "queue: is missing", "spoolDir: is missing"):
        assert part in text


@pytest.mark.parametrize(
    ("name", "value"),
    [("queue", " "), ("partitions", 0), ("maxRowsPerBatch", "many"), ("maxSpoolBytes", "x"), ("spoolDir", "s3://b/k")],
)
def test_a_wrong_value_names_its_option(name: str, value: object) -> None:
    """A value that cannot be is refused with the option's name."""
    with pytest.raises(ConfigurationError, match=name):
        RabbitMQOptions.parse(GOOD | {name: value})
