# SPDX-License-Identifier: Apache-2.0
"""An operator's end of a topic: reads a topic as a stream, or writes a stream to a topic.

A batch that is repeated after a crash writes its records again: Spark's Kafka sink delivers at least once. The reader
drops such copies by the columns that identify a record (`copies`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.adaptors.kafka.arrival_header import arrival_headers
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.copies import without_copies
from penstock.adaptors.kafka.json_records import from_json_value, to_json_value
from penstock.adaptors.kafka.topics import Topics
from penstock.errors import ConfigurationError
from penstock.settings.reader_options import reader_option_faults

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

_OFFSET_BITS = 40


def read_topic(
    spark: SparkSession,
    connection: KafkaConnection,
    topic: str,
    *,
    schema: StructType | None = None,
    unique: Sequence[str] = (),
    unique_within_seconds: float | None = 600.0,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Read a topic as a stream, from its beginning if the query has no checkpoint yet.

    Parameters
    ----------
    connection, topic
        What is read.
    schema
        The columns of the stream that wrote the topic as JSON records. A record that does not fit
        fails the query, with a message that names topic, partition, offset and what does not fit: see
        `json_records`. None: a topic fed from outside, with the columns `index` (a number of each record's own:
        partition * 2**40 + offset), `arrival` (its timestamp), `value` and `key` (texts), `partition` and `offset`.
    unique
        Columns that together identify a record. Copies are dropped. They may not all be null.
    unique_within_seconds
        How long a record is remembered at least, from when this query read it: longer than the upstream operator
        may be away. It counts on this query's clock, not on the records' times: a record then never counts as late,
        for which Spark would drop it, however far one partition lags behind another. None: as long as the checkpoint
        exists, for a query that defines a watermark of its own, which Spark does not allow after another one.
    options
        Further options of the connector, such as maxOffsetsPerTrigger.

    Raises
    ------
    ConfigurationError
        The topic or a unique column is missing, an option is wrong, or the broker refuses the credentials.
    ClusterError
        No broker answers; retryable.
    """
    more = dict(options or {})
    faults = reader_option_faults(more)
    if faults:
        raise ConfigurationError.of_all("kafka.options", faults)
    Topics(connection).check([topic])
    raw = (
        spark.readStream.format("kafka")
        .options(**connection.spark_options())
        .options(**{"startingOffsets": "earliest", "failOnDataLoss": "true", **more})
        .option("subscribe", topic)
        .load()
    )
    frame = _records(raw) if schema is None else from_json_value(raw, topic, schema)
    return without_copies(frame, topic, unique, unique_within_seconds) if unique else frame


def write_topic(
    frame: DataFrame, connection: KafkaConnection, topic: str, *, with_arrival: bool = False
) -> DataStreamWriter:
    """Write a stream to a topic, each row as a JSON object that `read_topic` reads back with the frame's schema.

    The caller adds query name, checkpoint, trigger and output mode. Records have no key. Their timestamp is when they
    were sent, within the batch that sent them.

    Parameters
    ----------
    with_arrival
        Whether each record also carries its column `arrival` in a header, from which `RecordLatency` computes latency.

    Raises
    ------
    ConfigurationError
        The topic is missing, the broker refuses the credentials, JSON cannot restore a column, or the
        timestamp `arrival` is wanted and missing.
    ClusterError
        No broker answers; retryable.
    """
    if with_arrival:
        _check_arrival(frame)
    rows = to_json_value(frame, *([arrival_headers()] if with_arrival else []))
    Topics(connection).check([topic])
    return rows.writeStream.format("kafka").options(**connection.spark_options()).option("topic", topic)


def _check_arrival(frame: DataFrame) -> None:
    kinds = {field.name: field.dataType.typeName() for field in frame.schema.fields}
    if kinds.get("arrival") != "timestamp":
        has = f"its column arrival is a {kinds['arrival']}" if "arrival" in kinds else f"it has {', '.join(kinds)}"
        raise ConfigurationError(
            f"app: its result needs a timestamp `arrival` to compute the latency, but {has}; pass the "
            "input's column arrival on (the last one of a group: max(arrival) as arrival)",
            field="app",
        )


def _records(raw: DataFrame) -> DataFrame:
    """Return the columns of a topic fed from outside."""
    from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

    return raw.select(
        (F.shiftleft(F.col("partition").cast("long"), _OFFSET_BITS) + F.col("offset")).alias("index"),
        F.col("timestamp").alias("arrival"),
        F.col("value").cast("string").alias("value"),
        F.col("key").cast("string").alias("key"),
        "partition",
        "offset",
    )
