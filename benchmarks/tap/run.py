# SPDX-License-Identifier: Apache-2.0
"""What a tap costs the broker: its processor time under a steady load, without a tap and with one, by turns.

A producer and a reader (the pipeline) are there all the time. By turns, for some seconds each, there is nothing else;
a tap of record timestamps; a tap that samples; or one offsets-for-times query a second. The broker's own processor
time is read from the kernel, and each phase is set beside the quiet ones before and after it in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from penstock.adaptors.kafka.broker import KafkaBroker
from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.adaptors.kafka.topic_tap import TopicTap
from penstock.adaptors.kafka.topics import Topics
from penstock.adaptors.process.children import Warden

TOPIC = "load"
WAYS = ("tap", "sampling tap", "offsets for times")


def produce(connection: KafkaConnection, rate: int, size: int, stop: threading.Event) -> None:
    """Send `rate` records a second in steps of 10 ms until told to stop."""
    producer = connection.producer({"linger.ms": 5, "queue.buffering.max.messages": 1_000_000})
    payload, sent, begun = b"x" * size, 0, time.monotonic()
    while not stop.is_set():
        due = int((time.monotonic() - begun) * rate)
        for _ in range(due - sent):
            producer.produce(TOPIC, payload)
        sent = max(sent, due)
        producer.poll(0)
        time.sleep(0.01)
    producer.flush(30)


def consume(connection: KafkaConnection, partitions: int, stop: threading.Event) -> None:
    """Read everything, as the pipeline does."""
    from confluent_kafka import OFFSET_END, TopicPartition

    consumer = connection.consumer()
    consumer.assign([TopicPartition(TOPIC, n, OFFSET_END) for n in range(partitions)])
    while not stop.is_set():
        consumer.consume(5000, timeout=0.1)
    consumer.close()


def query_offsets(connection: KafkaConnection, stop: threading.Event) -> None:
    """Ask once a second for the offsets of one second ago, as a monitor that only counts would."""
    from confluent_kafka import TopicPartition

    consumer = connection.consumer()
    partitions = range(Topics(connection).check([TOPIC])[0].partitions)
    while not stop.wait(1.0):
        at_ms = int((time.time() - 1.0) * 1e3)
        consumer.offsets_for_times([TopicPartition(TOPIC, n, at_ms) for n in partitions], timeout=5.0)
    consumer.close()


@contextmanager
def watching(way: str | None, connection: KafkaConnection, rate: int) -> Iterator[None]:
    """One way of watching the topic, or none."""
    if way is None:
        yield
    elif way == "offsets for times":
        stop = threading.Event()
        thread = threading.Thread(target=query_offsets, args=(connection, stop))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
    else:
        with TopicTap(connection, [TOPIC], max_rate=rate / 5 if way == "sampling tap" else 10.0 * rate):
            yield


def cpu_of(broker: psutil.Process, seconds: float) -> float:
    """The broker's processor time over the next seconds, as a share of one core."""
    before, begun = broker.cpu_times(), time.monotonic()
    time.sleep(seconds)
    after, took = broker.cpu_times(), time.monotonic() - begun
    return (after.user + after.system - before.user - before.system) / took


def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All ways by turns, each between two quiet phases."""
    rows: list[dict[str, Any]] = []
    with Warden() as warden, tempfile.TemporaryDirectory() as folder, KafkaBroker(warden, Path(folder)) as broker:
        Topics(broker.connection).create(TOPIC, partitions=arguments.partitions)
        stop = threading.Event()
        load = [
            threading.Thread(target=produce, args=(broker.connection, arguments.rate, arguments.size, stop)),
            threading.Thread(target=consume, args=(broker.connection, arguments.partitions, stop)),
        ]
        for thread in load:
            thread.start()
        try:
            process = psutil.Process(broker.pid)
            time.sleep(arguments.warm_up)  # the JVM compiles what it runs most
            quiet = cpu_of(process, arguments.seconds)
            taken: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for _ in range(arguments.turns):
                for way in WAYS:
                    with watching(way, broker.connection, arguments.rate):
                        time.sleep(1.0)
                        watched = cpu_of(process, arguments.seconds)
                    after = cpu_of(process, arguments.seconds)
                    taken[way].append(((quiet + after) / 2, watched))
                    quiet = after
        finally:
            stop.set()
            for thread in load:
                thread.join()
    for way, pairs in taken.items():
        rows.append(
            {
                "way": way,
                "broker_cpu_without": statistics.median(pair[0] for pair in pairs),
                "broker_cpu_with": statistics.median(pair[1] for pair in pairs),
                "added": statistics.median(pair[1] - pair[0] for pair in pairs),
                "added_least": min(pair[1] - pair[0] for pair in pairs),
                "added_most": max(pair[1] - pair[0] for pair in pairs),
                "turns": len(pairs),
            }
        )
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=5_000, help="records a second")
    parser.add_argument("--size", type=int, default=200, help="bytes of a record")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each phase")
    parser.add_argument("--turns", type=int, default=3, help="how often each way has its turn")
    parser.add_argument("--warm-up", type=float, default=15.0)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    arguments = parser.parse_args()
    rows = measure(arguments)
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    if arguments.json:
        print(json.dumps({"rate": arguments.rate, "cores": cores, "load_average": load, "rows": rows}))
        return 0
    print(
        f"{arguments.rate:,} records/s of {arguments.size} bytes; broker CPU in % of one core; load average {load:.1f}"
    )
    print(f"{'way':<20}{'without':>10}{'with':>10}{'added':>10}{'least':>10}{'most':>10}")
    for row in rows:
        shown = [
            100 * row[name] for name in ("broker_cpu_without", "broker_cpu_with", "added", "added_least", "added_most")
        ]
        print(f"{row['way']:<20}" + "".join(f"{value:>10.1f}" for value in shown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
