# SPDX-License-Identifier: Apache-2.0
"""The RabbitMQ source on a real Spark and a real broker: nothing lost, copies marked, failures in words."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from tests.integration.spark_driver import SparkDriver

pytest.importorskip("pyspark", reason="needs the extra [spark]")

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.rabbitmq import crashing_driver
from tests.integration.rabbitmq.crashing_driver import start_copying

from penstock.adaptors.produce.pacing import Produced, produce
from penstock.adaptors.rabbitmq.connection import RabbitMQConnection
from penstock.adaptors.rabbitmq.fanout import Fanout
from penstock.adaptors.rabbitmq.publisher import RabbitMQSink
from penstock.adaptors.rabbitmq.queue_arrivals import QueueArrivals
from penstock.adaptors.rabbitmq.server import RabbitMQServer
from penstock.adaptors.rabbitmq.source import RabbitMQSource
from penstock.adaptors.rabbitmq.spool_arrivals import SpoolArrivals
from penstock.adaptors.replay.payloads import LinesPayload
from penstock.arrivals import Trace
from penstock.arrivals.log_lines import LogLines
from penstock.records import SourceProgress

pytestmark = [pytest.mark.spark, pytest.mark.rabbitmq, pytest.mark.core]


def _send(connection: RabbitMQConnection, fanout: Fanout, count: int, producer: str = "tester") -> Produced:
    sink = RabbitMQSink(connection, fanout.exchange, "", producer)
    try:
        result = produce(Trace(np.linspace(0.0, 0.5, count)), LinesPayload(LogLines(0, 0.0)), sink)
    finally:
        sink.close()
    assert result.unconfirmed == 0
    return result


def _wait(is_so: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not after {seconds:g} s"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver) -> Iterator[SparkSession]:
    """A session with the source registered."""
    with spark_driver.local({"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}) as session:
        session.dataSource.register(RabbitMQSource)
        yield session


def _stream(spark: SparkSession, url: str, queue: str, folder: Path, **options: Any) -> DataFrame:
    spool = str(folder / "checkpoint" / "spool")
    given = {"url": url, "queue": queue, "spoolDir": spool, **options}
    return spark.readStream.format("penstock_rabbitmq").options(**given).load()


def _all_there(frame: DataFrame, folder: Path) -> StreamingQuery:
    """Read what is in the queue now, and end."""
    query = (
        frame.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "rows"))
    )
    assert query.awaitTermination(120)
    return query


def test_messages_become_rows_and_are_acknowledged(
    spark: SparkSession, rabbitmq: RabbitMQServer, connection: RabbitMQConnection, fanout: Fanout, tmp_path: Path
) -> None:
    """All messages are read once over several batches and runs, with exact arrival times; the queue is empty after."""
    sent = _send(connection, fanout, 1500)
    queue = fanout.pipeline_queue_name
    before = QueueArrivals(tmp_path / "checkpoint" / "spool", connection, queue)
    assert before.arrived_by(time.time()) == 1500, "what waits in the broker has arrived"
    before.close()
    stream = _stream(spark, rabbitmq.url, queue, tmp_path, maxRowsPerBatch=600, partitions=3)
    query = _all_there(stream, tmp_path)
    assert connection.check_queue(queue) == 0, "nothing came back: all was acknowledged"

    batches = [p for p in query.recentProgress if p["numInputRows"] > 0]
    assert [p["numInputRows"] for p in batches] == [600, 600, 300]
    times = SpoolArrivals(tmp_path / "checkpoint" / "spool")
    known = []
    for progress in batches:
        source = progress["sources"][0]
        start, end = (v if v is None or isinstance(v, str) else json.dumps(v) for v in
                      (source["startOffset"], source["endOffset"]))  # fmt: skip
        part = times.of(SourceProgress("", start, end, None, source["numInputRows"]))
        assert part is not None
        known.append(part)
    due = sent.epoch + np.linspace(0.0, 0.5, 1500)
    assert np.abs(np.concatenate(known) - due).max() < 2e-6

    _send(connection, fanout, 100, "another")
    _all_there(stream, tmp_path)
    assert connection.check_queue(queue) == 0
    rows = spark.read.parquet(str(tmp_path / "rows")).orderBy("number").collect()
    assert [row["number"] for row in rows] == list(range(1600))
    assert [row["sequence"] for row in rows] == [*range(1500), *range(100)]
    assert {row["duplicate_of"] for row in rows} == {None}
    assert all(row["body"] and row["published"] and row["arrival"] for row in rows)


def test_what_is_wrong_is_said(
    spark: SparkSession, rabbitmq: RabbitMQServer, connection: RabbitMQConnection, tmp_path: Path
) -> None:
    """A server that is not there, a wrong password and a missing queue end the query with words, nothing more."""
    for number, (url, words) in enumerate((
        ("amqp://u:p@127.0.0.1:1/", "cannot be reached"),
        (f"amqp://penstock:wrong@127.0.0.1:{rabbitmq.port}/", "wrong user or password"),
        (rabbitmq.url, "has no queue 'nowhere'"),
    )):  # fmt: skip
        folder = tmp_path / f"{number}"
        query = _stream(spark, url, "nowhere", folder).writeStream.format("noop").option(
            "checkpointLocation", str(folder / "checkpoint")
        ).start()  # fmt: skip
        with pytest.raises(StreamingQueryException, match=words):
            query.awaitTermination(60)
    assert spark.streams.active == []


@pytest.mark.kill
def test_a_driver_killed_in_a_batch_loses_nothing(
    spark: SparkSession, rabbitmq: RabbitMQServer, connection: RabbitMQConnection, fanout: Fanout, tmp_path: Path
) -> None:
    """After kill -9 in a batch and a restart every message arrived, copies are marked, and the count is exact."""
    count, queue = 1600, fanout.pipeline_queue_name
    _send(connection, fanout, count)
    _run_driver_and_kill_it(rabbitmq.url, queue, tmp_path)
    in_hand = _rows(tmp_path / "rows" / "1")
    assert not (tmp_path / "checkpoint" / "commits" / "1").exists(), "it was killed in the batch"
    _wait(lambda: connection.check_queue(queue) >= count - 700, "unacknowledged messages back in the queue", 30)

    def is_done() -> bool:
        assert query.exception() is None, query.exception()
        found = {row["sequence"] for folder in (tmp_path / "rows").iterdir() for row in _rows(folder)}
        return len(found) == count and not query.status["isTriggerActive"]

    query = start_copying(spark, rabbitmq.url, queue, tmp_path, hangs_in=None)
    try:
        _wait(is_done, "the rest of the messages")
    finally:
        query.stop()
    rows = [row for folder in (tmp_path / "rows").iterdir() for row in _rows(folder)]
    assert _rows(tmp_path / "rows" / "1") == in_hand, "the batch that was run again had the same rows"
    assert {row["sequence"] for row in rows} == set(range(count)), "every number arrived"
    copies = [row for row in rows if row["duplicate_of"] is not None]
    assert len(rows) - len(copies) == count, "without the marked copies each arrived once"
    assert len(copies) >= 700, "the batch in hand came again"
    first = {row["number"]: row["sequence"] for row in rows}
    assert all(row["redelivered"] and first[row["duplicate_of"]] == row["sequence"] for row in copies)


def _rows(folder: Path) -> list[dict[str, Any]]:
    if not (folder / "_SUCCESS").exists():
        return []
    columns = ["number", "sequence", "redelivered", "duplicate_of", "body"]
    rows: list[dict[str, Any]] = pq.read_table(folder, columns=columns).to_pylist()
    return sorted(rows, key=lambda row: int(row["number"]))


def _run_driver_and_kill_it(url: str, queue: str, folder: Path) -> None:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "driver.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, crashing_driver.__file__, url, queue, str(folder)], env=environment,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def is_hanging() -> bool:
        assert driver.poll() is None, (folder / "driver.log").read_text()[-3000:]
        return (folder / "hanging").exists()

    try:
        _wait(is_hanging, "the driver's second batch")
        family = psutil.Process(driver.pid).children(recursive=True)
        for pid in (driver.pid, *(p.pid for p in family if p.name() == "java")):
            os.kill(pid, signal.SIGKILL)
        # The Python processes beside the driver notice by themselves.
        _, left = psutil.wait_procs(family, timeout=30)
        assert not left, left
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
