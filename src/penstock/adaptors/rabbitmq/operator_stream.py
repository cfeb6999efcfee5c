# SPDX-License-Identifier: Apache-2.0
"""An operator's end of a queue: reads it as a stream, each message once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.adaptors.rabbitmq.source import NAME, RabbitMQSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_queue(spark: SparkSession, options: Mapping[str, str], *, is_numbered: bool) -> DataFrame:
    """Read a queue as a stream with the columns of other inputs: `index`, `arrival`, `value`, then the message's own.

    Messages that are known to repeat others are dropped.

    Parameters
    ----------
    options
        Of the source (`RabbitMQOptions`).
    is_numbered
        Whether one producer numbers all messages. Its number is the `index` then, otherwise the row's in this query.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    spark.dataSource.register(RabbitMQSource)
    raw = spark.readStream.format(NAME).options(**options).load()
    return raw.where(F.col("duplicate_of").isNull()).select(
        F.col("sequence" if is_numbered else "number").alias("index"),
        F.coalesce("published", "arrival").alias("arrival"),
        F.col("body").cast("string").alias("value"),
        "routing_key",
        "message_id",
        "producer",
        "sequence",
    )
