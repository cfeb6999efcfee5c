# SPDX-License-Identifier: Apache-2.0
"""Operators of every kind behind topics that hold copies: results are exact, whatever watermark they define."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.integration.kafka import matrix_apps
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.records import Limits, Mode
from penstock.running.operator_job import JobInput, JobOutput, OperatorJob, TopicEnd
from penstock.running.operator_process import query_writer

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECONDS = 120  # ends a failing test only
START = datetime(2024, 5, 1, tzinfo=UTC).timestamp()
CLOSING = 10_000
"""The number of a record an hour later, which moves the watermark past all others."""


class Record(NamedTuple):
    """One record of the topic."""

    id: int
    at: float
    kind: str
    value: int

    @property
    def window(self) -> float:
        """When its window begins."""
        return self.at - self.at % matrix_apps.WINDOW_SECONDS


def record(number: int) -> Record:
    """The record of that number: ten a second, kinds by turns, values that come again."""
    at = START + (3600.0 if number == CLOSING else number / 10.0)
    return Record(number, at, "ab"[number % 2], number % 150)


FIRST = [record(n) for n in range(300)]
THEN = [record(n) for n in [*range(200, 450), CLOSING]]
"""What comes after a restart of the query: a hundred copies, then new ones."""
EVERY_TIME = [*FIRST, *THEN]
ONCE = [record(n) for n in [*range(450), CLOSING]]

Rows = list[tuple[Any, ...]]


def plain(records: Sequence[Record]) -> Rows:
    """Each record's number and twice its value."""
    return sorted((r.id, 2 * r.value) for r in records)


def windows(records: Sequence[Record]) -> Rows:
    """Of every window and kind: how many, and their sum."""
    groups = sorted({(r.window, r.kind) for r in records})
    found = {group: [r.value for r in records if (r.window, r.kind) == group] for group in groups}
    return [(*group, len(values), sum(values)) for group, values in found.items()]


def closed_windows(records: Sequence[Record]) -> Rows:
    """Those that the closing record closes."""
    return windows([r for r in records if r.id != CLOSING])


def pairs(records: Sequence[Record]) -> Rows:
    """Every `a` with every `b` of the next number."""
    times = Counter(r.id for r in records)
    return sorted((n, n + 1) for n in times if n % 2 == 0 for _ in range(times[n] * times[n + 1]))


def values(records: Sequence[Record]) -> Rows:
    """Every value once."""
    return sorted({(r.value,) for r in records})


MATRIX: dict[str, Callable[[Sequence[Record]], Rows]] = {
    "plain": plain,
    "windowed": closed_windows,
    "windowed_update": windows,
    "joined": pairs,
    "deduplicated": values,
}


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, kafka_connector: dict[str, str]) -> Iterator[SparkSession]:
    """A local session with the connector."""
    with spark_driver.local({"spark.sql.session.timeZone": "UTC"}) as session:
        yield session


@pytest.fixture
def two_topics(new_topic: Callable[..., str]) -> tuple[str, str]:
    """One to read from, in two partitions, and one to write to."""
    return new_topic(2), new_topic(1)


def send(connection: KafkaConnection, topic: str, records: Sequence[Record]) -> None:
    """Write records as an operator above does; a copy may come into another partition than its record."""
    producer = connection.producer()
    for place, one in enumerate(records):
        at = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="microseconds")
        value = {"id": one.id, "at": at, "kind": one.kind, "value": one.value}
        producer.produce(topic, json.dumps(value).encode(), partition=(place // 3) % 2)
    assert producer.flush(SECONDS) == 0


def run_to_end(spark: SparkSession, job: OperatorJob) -> None:
    """Do all there is to do now, from the checkpoint on."""
    query = query_writer(spark, job).trigger(availableNow=True).start()
    assert query.awaitTermination(SECONDS), "the query does not come to its end"


def written(spark: SparkSession, connection: KafkaConnection, topic: str) -> Rows:
    """What is in a topic, one tuple for each record, in the order of the record's fields."""
    raw = spark.read.format("kafka").options(**connection.spark_options()).option("subscribe", topic).load()
    rows = [json.loads(row["value"]) for row in raw.selectExpr("string(value) as value").collect()]
    return sorted(tuple(in_seconds(value) for value in row.values()) for row in rows)


def changed_last(folder: Path) -> Rows:
    """Of windows that batches wrote one after another, the newest state of each."""
    newest: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for path in sorted(folder.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            start, kind, *counts = row.values()
            newest[in_seconds(start), kind] = (*counts,)
    return sorted((*window, *counts) for window, counts in newest.items())


def in_seconds(value: Any) -> Any:
    """A time as seconds since 1970, anything else as it is."""
    if not (isinstance(value, str) and len(value) > 1):
        return value
    at = datetime.fromisoformat(value)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


@pytest.mark.parametrize(
    ("kind", "unique"), [pytest.param(kind, unique, id=f"{kind}-{'unique' if unique else 'with-copies'}")
                         for kind in MATRIX for unique in (("id",), ())]
)  # fmt: skip
def test_an_operator_behind_a_topic_is_exact(
    kafka_broker: KafkaBroker, two_topics: tuple[str, str], spark: SparkSession, tmp_path: Path,
    *, kind: str, unique: tuple[str, ...],
) -> None:  # fmt: skip
    """Over a restart with copies the result is that of the records once each, or of every copy without `unique`."""
    connection = kafka_broker.connection
    above, below = two_topics
    (tmp_path / "above").mkdir()
    schema = spark.sql("select 1L id, current_timestamp() at, 'a' kind, 1L value").schema
    (tmp_path / "above" / "schema.json").write_text(schema.json(), encoding="utf-8")
    (tmp_path / "own").mkdir()
    ends = [TopicEnd(connection.bootstrap_servers, connection.options, topic) for topic in (above, below)]
    job = OperatorJob(
        "matrix", f"tests.integration.kafka.matrix_apps:{kind}", "local", Limits(1, 1), Mode.ACT,
        str(tmp_path / "own"), "none",
        JobInput(above=str(tmp_path / "above"), topic=ends[0], unique=unique),
        JobOutput(topic=ends[1]),
    )  # fmt: skip
    for records in (FIRST, THEN):
        send(connection, above, records)
        run_to_end(spark, job)
    found = changed_last(Path(job.output_folder)) if kind.endswith("update") else written(spark, connection, below)
    assert found == MATRIX[kind](ONCE if unique else EVERY_TIME)
