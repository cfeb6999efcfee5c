# SPDX-License-Identifier: Apache-2.0
"""The application of the Gesscale paper fed as in the paper: rides three times each, ten times faster, by Kafka."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession
from tests.integration.spark_driver import SparkDriver

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.produce.kafka_sink import KafkaSink
from penstock.adaptors.produce.pacing import Produced, produce
from penstock.adaptors.replay.options import ReplayOptions, open_arrivals
from penstock.adaptors.replay.payloads import open_payload
from penstock.apps.taxi_attractions.attractions import ATTRACTIONS
from penstock.apps.taxi_attractions.check import expected_rows
from penstock.apps.taxi_attractions.rides import SPEED_FACTOR, prepare_rides, replayed
from penstock.records import Limits, Mode
from penstock.running.operator_job import JobInput, JobOutput, OperatorJob, TopicEnd
from penstock.running.operator_process import query_writer

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

RIDES = 400
SECONDS_OF_RIDES = 60
COPIES = 3


class InTopic(NamedTuple):
    """A record of the topic that the producer filled."""

    number: int
    line: str
    due_ms: int


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, kafka_connector: dict[str, str]) -> Iterator[SparkSession]:
    """A local session with the connector."""
    with spark_driver.local({"spark.sql.session.timeZone": "UTC"}) as session:
        yield session


def published(path: Path) -> list[str]:
    """Write ride events as they are published; gives those that count: no ends, no copies, none without a position."""
    rng = random.Random(3)
    rides, events = list[str](), list[str]()
    for number in range(RIDES):
        second = number * SECONDS_OF_RIDES // RIDES
        place = f"{rng.gauss(-73.99, 0.03):.6f},{rng.gauss(40.73, 0.03):.6f}"
        ride = f"{number},START,2013-05-01 00:00:{second:02},1970-01-01 00:00:00,{place},-73.9,40.7,1,2013000001,1"
        rides.append(ride)
        events += [ride, ride] if number % 50 == 0 else [ride]
        if number % 7 == 0:
            events.append(ride.replace("START", "END"))
            events.append(f"{10_000 + number},{ride.split(',', 1)[1].replace(place, '0,0')}")
    path.write_text("\n".join(events) + "\n", encoding="utf-8")
    return rides


def in_topic(spark: SparkSession, options: dict[str, str], topic: str) -> dict[int, InTopic]:
    """What the producer sent, by the number that the application gives each record."""
    raw = spark.read.format("kafka").options(**options).option("subscribe", topic).load()
    rows = raw.selectExpr(
        "shiftleft(cast(partition as long), 40) + offset AS place", "string(key) AS key", "string(value) AS line",
        "unix_millis(timestamp) AS due_ms",
    ).collect()  # fmt: skip
    return {row["place"]: InTopic(int(row["key"]), row["line"], row["due_ms"]) for row in rows}


def test_rides_fed_by_kafka_come_out_with_their_nearest_attraction(
    kafka_broker: KafkaBroker, new_topic: Callable[..., str], spark: SparkSession, tmp_path: Path
) -> None:
    """Each ride comes out three times, once for each of its records, as the direct computation has it.

    The producer plays a minute of rides in six seconds while the query runs. Every record has its number as key, and
    the instant at which it was due as its time.
    """
    connection, above, below = kafka_broker.connection, new_topic(2), new_topic(1)
    rides = published(tmp_path / "rides.csv")
    prepared = tmp_path / "prepared.csv"
    kept, _ = prepare_rides(tmp_path / "rides.csv", prepared, COPIES)
    assert kept == RIDES
    load = replayed(prepared, SPEED_FACTOR)
    options = ReplayOptions.parse({"trace": load["trace"], **load["options"]})
    (tmp_path / "own").mkdir()
    ends = [TopicEnd(connection.bootstrap_servers, connection.options, topic) for topic in (above, below)]
    job = OperatorJob(
        "rides", "penstock.apps.taxi_attractions:taxi_attractions", "local", Limits(1, 1), Mode.ACT,
        str(tmp_path / "own"), "none", JobInput(topic=ends[0], partitions=2), JobOutput(topic=ends[1]),
    )  # fmt: skip
    query = query_writer(spark, job).start()
    try:
        sent = sent_by(KafkaSink(connection, above, "taxi"), options)
        assert sent.delivery.confirmed == COPIES * RIDES
        query.processAllAvailable()
        batches = [one for one in query.recentProgress if one["numInputRows"] > 0]
    finally:
        query.stop()
    assert len(batches) > 1, "rides came while the query ran"

    came = in_topic(spark, connection.spark_options(), above)
    by_number = sorted(came.values())
    assert [one.number for one in by_number] == list(range(COPIES * RIDES))
    lines = [one.line for one in by_number]
    assert lines == [ride for ride in rides for _ in range(COPIES)]
    for one in by_number:
        second = one.number // COPIES * SECONDS_OF_RIDES // RIDES
        assert one.due_ms - 1000.0 * sent.epoch == pytest.approx(1000.0 * second / SPEED_FACTOR, abs=2.0)

    raw = spark.read.format("kafka").options(**connection.spark_options()).option("subscribe", below).load()
    found = [json.loads(row["value"]) for row in raw.selectExpr("string(value) AS value").collect()]
    expected = expected_rows(lines)
    assert sorted(
        (came[row["index"]].number, row["value"], row["attraction"], row["distance"]) for row in found
    ) == expected  # fmt: skip
    assert len(expected) == COPIES * RIDES
    assert {attraction for _, _, attraction, _ in expected} == {attraction.name for attraction in ATTRACTIONS}


def sent_by(sink: KafkaSink, options: ReplayOptions) -> Produced:
    """Send the load at its own times, and wait until the broker has it."""
    try:
        return produce(open_arrivals(options), open_payload(options), sink, speed=options.speed, confirm_seconds=60.0)
    finally:
        sink.close()
