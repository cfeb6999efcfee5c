# SPDX-License-Identifier: Apache-2.0
"""Operators joined by topics, on a real broker with a real Spark: everything comes over, once, or it is told."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StructField, StructType
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.arrival_times import KafkaArrivals
from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.json_records import from_json_value
from penstock.adaptors.kafka.operator_stream import read_topic, write_topic
from penstock.adaptors.kafka.operator_topics import delete_topics, ensure_topics, records_in
from penstock.adaptors.kafka.query_failures import explain_failure
from penstock.adaptors.kafka.topic_lineage import TopicLineage
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.adaptors.kafka.topics import Topics
from penstock.adaptors.spark.progress import is_batch, to_batch_progress
from penstock.errors import ConfigurationError, MetricSourceError
from penstock.records import BatchProgress

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

SECONDS = 120.0  # ends a failing test only
OUTAGE_SECONDS = 8.0
"""How long the broker stays away: not a wait for something, but what the query has to bridge."""
NUMBERS = StructType([StructField("id", LongType(), nullable=False), StructField("part", LongType())])

EVERY_TYPE = """select timestamp'2024-10-27 02:30:00.123456' at, timestamp'1890-03-01 12:00:00.000001' long_ago,
    timestamp_ntz'2024-10-27 02:30:00.123456' local, date'2024-02-29' day, cast(null as int) missing, 127Y tiny,
    32767S small, -2147483648 middle, 9223372036854775807L large, float(0.1) single, 0.1d double, double('NaN') odd,
    double('-Infinity') low, float('Infinity') high, 5e-324d least, 1.7976931348623157e308d most,
    cast('12345678901234567890123456789.123456789' as decimal(38, 9)) exact, true yes, '' empty, X'00ff10' bytes,
    'a"\\n\\u00e9\\u0000' text, array(1, null, 3) list, array(array(1.5d), null) lists,
    map('k', 1, 'a b', null) map, cast(null as struct<q: int>) nothing,
    named_struct('x', timestamp'2024-01-01 00:00:00.000007', 'y', array(named_struct('z', X'01'))) nested,
    first as `with.dot`, second as `quo'te` from values (1, 2) as t(first, second)"""


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, kafka_connector: dict[str, str]) -> Iterator[SparkSession]:
    """A local session with the connector, in a time zone that is not UTC."""
    with spark_driver.local({"spark.sql.session.timeZone": "America/St_Johns"}) as session:
        yield session


def run_to_end(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    """Do all there is to do now, from the checkpoint on."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(int(SECONDS)), "the query does not come to its end"
    return query


def keep(frame: DataFrame, folder: Path) -> list[Row]:
    """Take in what a stream has now, on from last time; give all rows so far."""
    run_to_end(frame.writeStream.format("parquet").option("path", str(folder / "kept")), folder / "checkpoint")
    return frame.sparkSession.read.parquet(str(folder / "kept")).collect()


def numbers(spark: SparkSession, folder: Path, parts: Sequence[range], **options: str) -> DataFrame:
    """A stream of the numbers of each part, part by part."""
    for part, ids in enumerate(parts):
        at = str(folder / f"part={part:03}")
        spark.createDataFrame([(i, part) for i in ids], NUMBERS).coalesce(1).write.parquet(at, mode="overwrite")
    # Explicit globbing: the parts' names are not to become a column.
    return spark.readStream.schema(NUMBERS).options(**options).parquet(str(folder / "part=*"))


def send(connection: KafkaConnection, topic: str, values: Sequence[str | None], at_ms: int = 0) -> None:
    """Write records as a foreign producer does; at 0: now."""
    producer = connection.producer()
    for value in values:
        producer.produce(topic, None if value is None else value.encode(), partition=0, timestamp=at_ms)
    assert producer.flush(SECONDS) == 0


def test_every_type_comes_back_as_it_was(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Microseconds, nulls, infinities, bytes, decimals and nested values are the same below as above."""
    topic = new_topic(1)
    spark.sql(EVERY_TYPE).write.parquet(str(tmp_path / "in"))
    written = spark.read.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(written.schema).parquet(str(tmp_path / "in"))
    run_to_end(write_topic(stream, kafka_broker.connection, topic), tmp_path / "writer")
    back = read_topic(spark, kafka_broker.connection, topic, schema=written.schema)
    assert back.schema == written.schema
    (row,) = keep(back, tmp_path)
    (expected,) = written.collect()
    for name in expected.asDict():
        assert repr(row[name]) == repr(expected[name]), name
    assert row["at"].microsecond == 123456


@pytest.mark.core
def test_copies_are_dropped_and_late_records_are_not(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """A batch that is written twice is read once, and a record with an old timestamp is not taken for late."""
    topic, connection = new_topic(2), kafka_broker.connection
    stream = numbers(spark, tmp_path / "in", [range(200)])
    read = read_topic(spark, connection, topic, schema=NUMBERS, unique=["id"], unique_within_seconds=60.0)
    run_to_end(write_topic(stream, connection, topic), tmp_path / "writer")
    assert sorted(row["id"] for row in keep(read, tmp_path)) == list(range(200))
    run_to_end(write_topic(stream, connection, topic), tmp_path / "writer-again")
    assert records_in(connection, [topic]) == {topic: 400}
    send(connection, topic, ['{"id": 200, "part": null}'])
    assert sorted(row["id"] for row in keep(read, tmp_path)) == list(range(201))
    # Hours older than the newest: by the records' own times it would be behind any watermark.
    send(connection, topic, ['{"id": 201, "part": null}', '{"id": 7, "part": 0}'], at_ms=1_700_000_000_000)
    assert sorted(row["id"] for row in keep(read, tmp_path)) == list(range(202))


def test_a_stream_from_outside_has_its_records_numbered(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Index, arrival, value, key and place of every record, a value that is missing among them."""
    topic, connection = new_topic(2), kafka_broker.connection
    producer = connection.producer()
    producer.produce(topic, b"one", b"k", partition=0, timestamp=1_700_000_000_123)
    producer.produce(topic, None, partition=1, timestamp=1_700_000_000_456)
    producer.produce(topic, "zwölf".encode(), partition=1, timestamp=1_700_000_000_789)
    assert producer.flush(SECONDS) == 0
    found = sorted(keep(read_topic(spark, connection, topic), tmp_path), key=lambda row: row["index"])
    assert [row["index"] for row in found] == [0, 1 << 40, (1 << 40) + 1]
    assert [row["value"] for row in found] == ["one", None, "zwölf"]
    assert [row["key"] for row in found] == ["k", None, None]
    assert [(row["partition"], row["offset"]) for row in found] == [(0, 0), (1, 0), (1, 1)]
    assert [round(row["arrival"].timestamp() * 1e3) % 1000 for row in found] == [123, 456, 789]


BAD = {
    None: "has no value",
    "": "is not a JSON object",
    "no json": "is not a JSON object",
    '[{"id": 1, "part": 1}]': "is not a JSON object",
    '{"id": 1}': r"lacks the field\(s\) part",
    '{"ID": 1, "PART": 1}': r"lacks the field\(s\) id, part",
    '{"id": "1", "part": 2}': r"has another type in id \(bigint\): 1;",
    '{"id": 1.5, "part": 2}': r"has another type in id \(bigint\): 1.5;",
    '{"id": 1, "part": {"x": [1]}}': r'has another type in part \(bigint\): \{"x":\[1\]\};',
    '{"id": 99999999999999999999, "part": 2}': "has another type in id",
    '{"id": null, "part": 2}': "has null in id, which may not be null",
}


@pytest.mark.parametrize(("value", "match"), BAD.items())
def test_a_record_that_does_not_fit_is_named(spark: SparkSession, value: str | None, match: str) -> None:
    """What is missing, null or of another type is told with its place, never made null."""
    raw = spark.createDataFrame([(value, 3, 17)], "value string, partition int, offset bigint")
    with pytest.raises(PySparkException, match=rf"topic 't', partition 3, offset 17: the record {match}"):
        from_json_value(raw, "t", NUMBERS).select("part").collect()


def test_what_does_not_fit_inside_a_column_is_told(spark: SparkSession) -> None:
    """A wrong type within a struct or an array is a fault too; a field that is not asked for is none."""
    shape = spark.sql("select named_struct('q', 1) s, array(1) a").schema
    raw = "value string, partition int, offset bigint"
    good = spark.createDataFrame([('{"s": {"q": null, "more": 1}, "a": [2, null], "more": 1}', 0, 0)], raw)
    assert from_json_value(good, "t", shape).collect() == [Row(s=Row(q=None), a=[2, None])]
    for value in ('{"s": {"q": "x"}, "a": null}', '{"s": null, "a": [1, "x"]}'):
        with pytest.raises(PySparkException, match="the record has a"):
            from_json_value(spark.createDataFrame([(value, 0, 0)], raw), "t", shape).collect()


def test_a_bad_record_ends_the_query_and_is_explained(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """The query fails at it and nothing is written of its batch; the explanation names topic, offset and field."""
    topic = new_topic(1)
    send(kafka_broker.connection, topic, ['{"id": 1, "part": 1}', '{"id": 2}'])
    with pytest.raises(PySparkException) as caught:
        keep(read_topic(spark, kafka_broker.connection, topic, schema=NUMBERS), tmp_path)
    told = explain_failure(str(caught.value))
    assert told is not None
    assert told.startswith(f"topic '{topic}', partition 0, offset 1: the record lacks the field(s) part; it begins: ")
    assert not list((tmp_path / "kept").glob("*.parquet"))


def test_a_record_without_identity_is_told(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Records whose unique columns are all null are not taken for copies of one another: the query fails."""
    topic = new_topic(1)
    send(kafka_broker.connection, topic, ["a", "b"])
    with pytest.raises(PySparkException) as caught:
        keep(read_topic(spark, kafka_broker.connection, topic, unique=["key"]), tmp_path)
    assert "a record has null in key" in (explain_failure(str(caught.value)) or "")


def test_what_is_missing_is_told_before_anything_runs(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """A topic or unique column that is not there, and a column JSON cannot carry, are refused with what there is."""
    topic, connection = new_topic(1), kafka_broker.connection
    stream = numbers(spark, tmp_path, [range(1)])
    with pytest.raises(ConfigurationError, match="topic 'nowhere' is not on the broker"):
        read_topic(spark, connection, "nowhere")
    with pytest.raises(ConfigurationError, match="topic 'nowhere' is not on the broker"):
        write_topic(stream, connection, "nowhere")
    with pytest.raises(ConfigurationError, match=f"'{topic}' has no column 'ident'; there: id, part"):
        read_topic(spark, connection, topic, schema=NUMBERS, unique=["id", "ident"])
    with pytest.raises(ConfigurationError, match="'m' is a map, which cannot be compared"):
        read_topic(spark, connection, topic, schema=spark.sql("select map('a', 1) m").schema, unique=["m"])
    with pytest.raises(ConfigurationError, match="unique_within_seconds"):
        read_topic(spark, connection, topic, unique=["index"], unique_within_seconds=0.0)
    with pytest.raises(ConfigurationError, match="keys of type bigint"):
        write_topic(stream.selectExpr("map(id, part) as m"), connection, topic)


def tap_from_the_beginning(connection: KafkaConnection, topic: str) -> TopicTap:
    """A tap; the broker may be too busy to tell a topic's offsets in the time that a tap gives it."""
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            return TopicTap(connection, [topic], begin="beginning")
        except MetricSourceError:
            if time.monotonic() > deadline:
                raise


def batches_of(query: StreamingQuery) -> list[BatchProgress]:
    """The batches a query has done."""
    every = [json.loads(progress.json) for progress in query.recentProgress]
    return [to_batch_progress("op", progress) for progress in every if is_batch(progress)]


def test_the_batches_above_are_told_by_the_records_times(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """For every batch below, lineage names exactly the batches above whose records it carried."""
    topic, connection = new_topic(2), kafka_broker.connection
    parts = [range(30 * n, 30 * n + 30) for n in range(4)]
    stream = numbers(spark, tmp_path / "in", parts, maxFilesPerTrigger="1")
    with tap_from_the_beginning(connection, topic) as tap:
        writing = run_to_end(write_topic(stream, connection, topic), tmp_path / "writer")
        above = batches_of(writing)
        assert [batch.rows for batch in above] == [30] * 4
        read = read_topic(spark, connection, topic, schema=NUMBERS, options={"maxOffsetsPerTrigger": "20"})
        carried: dict[int, list[int]] = {}

        def note(frame: DataFrame, batch: int) -> None:
            carried[batch] = sorted({row["part"] for row in frame.collect()})

        reading = run_to_end(read.writeStream.foreachBatch(note), tmp_path / "reader")
        below = batches_of(reading)
        assert len(below) >= 6

        def batches_between(first: float, last: float) -> list[int] | None:
            return [b.batch_id for b in above if b.ended_at >= first and b.started_at <= last]

        lineage = TopicLineage(KafkaArrivals(tap, wait_seconds=SECONDS), batches_between)
        told = [lineage.upstream_batches(batch.sources[0]) for batch in below]
        part_of = part_by_batch(above, topic, spark, connection)
        assert [sorted(part_of[b] for b in batches or []) for batches in told] == [carried[b.batch_id] for b in below]


def part_by_batch(
    above: Sequence[BatchProgress], topic: str, spark: SparkSession, connection: KafkaConnection
) -> dict[int, int]:
    """Which part each batch above took, as the topic's records say."""
    rows = (
        spark.read.format("kafka").options(**connection.spark_options()).option("subscribe", topic).load()
        .selectExpr("timestamp", "cast(get_json_object(string(value), '$.part') as int) as part").collect()
    )  # fmt: skip
    found: dict[int, set[int]] = {batch.batch_id: set() for batch in above}
    for row in rows:
        at = row["timestamp"].timestamp()
        holder = [b.batch_id for b in above if b.started_at <= at <= b.ended_at]
        found[holder[0]].add(row["part"])
    return {batch: parts.pop() for batch, parts in found.items() if len(parts) == 1}


def test_an_outage_is_bridged(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """A query that reads one topic and writes another waits for a broker that goes away, and loses nothing."""
    above, below, connection = new_topic(2), new_topic(2), kafka_broker.connection
    send(connection, above, [json.dumps({"id": n, "part": 0}) for n in range(100)])
    read = read_topic(spark, connection, above, schema=NUMBERS, unique=["id"])
    writer = write_topic(read, connection, below).option("checkpointLocation", str(tmp_path / "running"))
    query = writer.start()
    try:
        wait_for_records(connection, below, 100, query)
        with kafka_broker.outage():
            time.sleep(OUTAGE_SECONDS)
        send(connection, above, [json.dumps({"id": n, "part": 0}) for n in range(100, 200)])
        wait_for_records(connection, below, 200, query)
    finally:
        query.stop()
    found = keep(read_topic(spark, connection, below, schema=NUMBERS), tmp_path)
    assert sorted(row["id"] for row in found) == list(range(200))


def wait_for_records(connection: KafkaConnection, topic: str, count: int, query: StreamingQuery) -> None:
    """Wait until a topic has so many."""
    deadline = time.monotonic() + SECONDS
    while (there := records_in(connection, [topic])[topic]) < count:
        assert query.exception() is None
        assert time.monotonic() < deadline, f"{there} of {count} records came"
        time.sleep(0.2)


def test_a_topic_made_anew_under_a_checkpoint_is_explained(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Offsets that a checkpoint has and the topic has not fail the query, which tells what to do."""
    topic, connection = new_topic(1), kafka_broker.connection
    send(connection, topic, ['{"id": 1, "part": 1}'] * 5)
    read = read_topic(spark, connection, topic, schema=NUMBERS)
    keep(read, tmp_path)
    delete_topics(connection, [topic])
    ensure_topics(connection, [topic], 1)
    send(connection, topic, ['{"id": 1, "part": 1}'])
    with pytest.raises(PySparkException) as caught:
        keep(read, tmp_path)
    assert "deleted and created again" in (explain_failure(str(caught.value)) or str(caught.value))


def test_a_login_is_passed_on_and_not_shown(login_broker: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """Reading and writing log in; the password is in no plan and no checkpoint."""
    secret = "cGFzc3dvcmQ-unseen"
    login = {**login_broker.connection.options, "sasl.username": "bob", "sasl.password": secret}
    connection = KafkaConnection(login_broker.bootstrap_servers, login)
    ensure_topics(connection, ["private"], 1)
    stream = numbers(spark, tmp_path / "in", [range(10)])
    writing = run_to_end(write_topic(stream, connection, "private"), tmp_path / "checkpoint" / "writer")
    read = read_topic(spark, connection, "private", schema=NUMBERS)
    assert len(keep(read, tmp_path)) == 10
    plans = [writing._jsq.explainInternal(True), read._jdf.queryExecution().toString()]
    # The message of a query that fails holds its plan.
    failing = write_topic(stream.selectExpr("bigint(raise_error('told')) as id"), connection, "private")
    with pytest.raises(PySparkException, match="told") as caught:
        run_to_end(failing, tmp_path / "checkpoint" / "failing")
    plans.append(str(caught.value))
    assert not [place for plan in plans if (place := plan.find(secret)) >= 0]
    files = [file for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert files
    assert [file for file in files if secret.encode() in file.read_bytes()] == []


def test_topics_between_operators_are_made_once_and_removed(kafka_broker: KafkaBroker) -> None:
    """What is missing is made with the producers' times; what is there stays as it is, unless it is compacted."""
    connection, topics = kafka_broker.connection, Topics(kafka_broker.connection)
    topics.create("there-before", partitions=3)
    topics.create("compacted", settings={"cleanup.policy": "compact"})
    found = ensure_topics(connection, ["there-before", "new-one", "new-one"], 2, retention_hours=1.5)
    assert found.made == ("new-one",)
    assert [(topic.name, topic.partitions) for topic in found.topics] == [("there-before", 3), ("new-one", 2)]
    assert ensure_topics(connection, ["new-one"], 2).made == ()
    with pytest.raises(ConfigurationError, match="'compacted' exists and is compacted"):
        ensure_topics(connection, ["compacted", "never-made"], 1)
    assert "never-made" not in topics.names()
    send(connection, "new-one", ["a", "b"])
    assert records_in(connection, ["new-one", "there-before"]) == {"new-one": 2, "there-before": 0}
    delete_topics(connection, ["there-before", "new-one", "compacted", "never-made"])
    assert not {"there-before", "new-one", "compacted"} & set(topics.names())
