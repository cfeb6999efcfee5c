# SPDX-License-Identifier: Apache-2.0
"""What is refused of a stream before a broker or Spark is asked."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import types as t

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.json_records import check_columns
from penstock.adaptors.kafka.operator_stream import read_topic, write_topic
from penstock.adaptors.kafka.operator_topics import ensure_topics
from penstock.errors import ConfigurationError
from penstock.records import decode, encode

NOWHERE = KafkaConnection("127.0.0.1:9")


def test_columns_that_json_brings_back_are_let_through() -> None:
    """Plain types go through, in structs, arrays and maps with string keys too."""
    plain = [
        t.LongType(), t.BinaryType(), t.TimestampType(), t.TimestampNTZType(), t.DecimalType(38, 9), t.DateType(),
        t.BooleanType(), t.FloatType(), t.StringType(),
        t.ArrayType(t.StructType([t.StructField("x", t.MapType(t.StringType(), t.ArrayType(t.DoubleType())))])),
    ]  # fmt: skip
    check_columns(columns(*plain))


def columns(*kinds: t.DataType) -> t.StructType:
    """Columns c0, c1, ... of these types."""
    return t.StructType([t.StructField(f"c{n}", kind) for n, kind in enumerate(kinds)])


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        (t.MapType(t.IntegerType(), t.StringType()), "'c0' has a map with keys of type int"),
        (t.ArrayType(columns(t.MapType(t.DateType(), t.StringType()))), "keys of type date"),
        (t.DayTimeIntervalType(0, 0), "type interval day"),
        (t.VariantType(), "type variant"),
        (t.NullType(), "type void"),
        (t.StructType([t.StructField("x", t.LongType())] * 2), "the field 'x' more than once"),
    ],
)
def test_columns_that_json_does_not_bring_back_are_refused(kind: t.DataType, match: str) -> None:
    """A type that would come back as another, or not at all, is named with its column."""
    with pytest.raises(ConfigurationError, match=match):
        check_columns(columns(kind))


def test_every_fault_of_the_columns_is_told() -> None:
    """A name that is there twice and a type that does not fit are told in one error; so is no column at all."""
    twice = [t.StructField("a", t.LongType()), t.StructField("a", t.LongType()), t.StructField("n", t.NullType())]
    with pytest.raises(ConfigurationError) as caught:
        check_columns(t.StructType(twice))
    assert len(caught.value.faults) == 2
    with pytest.raises(ConfigurationError, match="no column"):
        check_columns(t.StructType([]))


def test_options_that_are_said_elsewhere_are_refused() -> None:
    """Neither the topic nor what belongs to the connection may come as an option of the reader."""
    with pytest.raises(ConfigurationError) as caught:
        read_topic(cast(Any, None), NOWHERE, "t", options={"Subscribe": "u", "kafka.x": "1", "minPartitions": "3"})
    assert [fault.split(":")[0] for fault in caught.value.faults] == ["Subscribe", "kafka.x"]


def test_records_are_kept_for_some_time() -> None:
    """A retention that is no time is refused before the broker is asked."""
    with pytest.raises(ConfigurationError, match="retention_hours"):
        ensure_topics(NOWHERE, ["t"], 1, retention_hours=0.0)


def test_a_connection_goes_through_a_file_and_keeps_its_secret_from_logs() -> None:
    """Written as JSON and read back it is the same; shown, its password is not."""
    connection = KafkaConnection(
        "a:1",
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "ada",
            "sasl.password": "hidden!",
        },
    )
    text = encode(cast(Any, connection))
    assert decode(KafkaConnection, text) == connection
    assert "hidden!" not in repr(connection)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ({"index": t.LongType(), "pattern": t.StringType()}, "but it has index, pattern; pass the input's column"),
        ({"arrival": t.LongType()}, "but its column arrival is a long"),
    ],
)
def test_a_latency_needs_an_arrival(kinds: dict[str, t.DataType], said: str) -> None:
    """Where each record shall carry its arrival, a result without one is refused with the fix."""

    class Rows:
        schema = t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])

    with pytest.raises(ConfigurationError, match=said):
        write_topic(cast(Any, Rows()), NOWHERE, "matches", with_arrival=True)
