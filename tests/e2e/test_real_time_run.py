# SPDX-License-Identifier: Apache-2.0
"""A pipeline in Spark's real-time mode, run and scaled by `penstock run`."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pytest
from tests.e2e.live_run import LiveRun, is_gone

from penstock.adaptors.kafka.connection import KafkaConnection
from penstock.apps.log_analysis.patterns import DEFAULT_PATTERNS
from penstock.records import Quality

pytestmark = [pytest.mark.long, pytest.mark.e2e, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(900)]

RATE, SECONDS, CHECKPOINT_SECONDS, PARTITIONS = 150, 100, 10.0, 2
SPEC: dict[str, Any] = {
    "name": "quick",
    "broker": {"partitions": PARTITIONS},
    "arrivals": {"shape": f"constant:rate={RATE},duration={SECONDS}s", "options": {"payload": "log"}},
    "operators": [
        {
            "name": "matcher", "app": "penstock.apps.log_analysis:match_lines", "trigger": "realtime",
            "checkpoint_every": f"{CHECKPOINT_SECONDS}s", "executors": [PARTITIONS, PARTITIONS],
            "executor_memory": "600m", "driver_memory": "600m",
        }
    ],
    "objective": {"p95": "5s"},
    "policy": {"name": "mead", "options": {"window": 20000, "every_seconds": "5s", "rescue_every": "1s",
                                           "max_states": 4, "best": 1}},
    "guards": {"cooldown_down": "4s", "opposite": "8s"},
    # Records are late while executors compile the query, and a level at which they were is not gone below for minutes.
    "warm_up": "15s",
    "window": "5s",
}  # fmt: skip


class Reading:
    """All records of some topics of a run, read while they are there: the run removes them at its end."""

    def __init__(self, servers: str, login: dict[str, str], topics: list[str]) -> None:
        self.records: dict[str, list[tuple[int, int, str]]] = {topic: [] for topic in topics}
        self._connection = KafkaConnection(servers, login)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(60.0)

    def _read(self) -> None:
        from confluent_kafka import TopicPartition

        consumer = self._connection.consumer({"auto.offset.reset": "earliest"})
        consumer.assign([TopicPartition(topic, n, 0) for topic in self.records for n in range(PARTITIONS)])
        while not self._stop.is_set():
            for message in consumer.consume(1000, timeout=0.5):
                if message.error() is None:
                    topic, partition, offset, value = (
                        message.topic(), message.partition(), message.offset(), message.value()
                    )  # fmt: skip
                    assert topic is not None
                    assert partition is not None
                    assert offset is not None
                    assert value is not None
                    self.records[topic].append((partition, offset, value.decode()))
        consumer.close()


def finds_in(lines: list[tuple[int, int, str]]) -> set[tuple[int, str]]:
    """Index and pattern of every find, without Spark."""
    finds: set[tuple[int, str]] = set()
    for partition, offset, line in lines:
        parts = line.split(" ", 3)
        if len(parts) == 4 and parts[1].isupper() and parts[2].endswith(":"):
            index = (partition << 40) + offset
            finds |= {(index, p.name) for p in DEFAULT_PATTERNS if re.search(p.regex, parts[3], re.ASCII)}
    return finds


def test_every_find_comes_out_soon_and_cpu_is_chosen_by_the_per_record_model(tmp_path: Path) -> None:
    """Nothing is missing, latency is that of records and not of batches, and decisions say what they rest on."""
    with LiveRun(tmp_path / "run", SPEC) as run:
        job = run.folder / "operators" / "matcher" / "job.json"
        run.wait_for("the operator's job", job.exists)
        topic = json.loads(job.read_text())["reads"]["topic"]
        with Reading(topic["servers"], topic["options"], ["quick.arrivals", "quick.matcher"]) as reading:
            result = run.result()
        observations, decisions = run.observations(), run.decisions(changes_only=False)

    lines, rows = reading.records["quick.arrivals"], [json.loads(v) for *_, v in reading.records["quick.matcher"]]
    finds = Counter((row["index"], row["pattern"]) for row in rows)
    assert len(lines) == result["records_due"] == result["records_done"] == RATE * SECONDS
    assert set(finds) == finds_in(lines), "finds are missing, or there are strange ones"
    assert max(finds.values()) == 1, "without a restart nothing is written twice"

    latency = result["latency"]
    assert latency == result["paths"]["matcher"]["latency"]
    assert latency["records"] == len(rows)
    assert latency["p95"] is not None
    assert result["operators"]["matcher"]["path_latency_p95"] == latency["p95"]

    good = [o for o in observations if o.quality is Quality.GOOD]
    settled = [o.latency.p95_seconds for o in good if o.latency is not None and o.cpu_used_cores is not None]
    # Over the run there are also the records that came while executors compiled the query.
    assert np.median(settled) < CHECKPOINT_SECONDS, "records wait for the end of a batch"
    assert {o.batch_seconds for o in observations} == {None}
    assert min(o.cluster.observed.executors for o in good if o.cluster.observed is not None) == PARTITIONS

    assert decisions
    by_model = [d for d in decisions if d.prediction is not None]
    changes = [f"{d['from']} -> {d['to']}: {d['reason']}" for d in result["decisions"]]
    print(json.dumps({"latency": latency, "settled_p95": float(np.median(settled)), "changes": changes,
                      "by_model": len(by_model)}))  # fmt: skip
    assert by_model, f"no plan in {SECONDS} s of load"
    assert all(d.evidence["cpu_seconds_per_record"] for d in by_model)
    # 150 records a second need a small part of two cores: a plan that leaves all of them has chosen nothing.
    lower = [d for d in decisions if d.is_change and d.target.cpu_share < d.current.cpu_share]
    assert lower, f"no plan took any CPU away: {changes}"
    assert result["capacity_seconds"] < result["static_capacity_seconds"]
    # In real-time mode a start-up is not counted apart: the bound holds for all records.
    assert result["objective"]["met"], "the bound was broken"
    run.wait_for("nothing is left", lambda: is_gone(run), while_running=False)
