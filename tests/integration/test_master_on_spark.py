# SPDX-License-Identifier: Apache-2.0
"""A real query under two masters, followed in a browser: its policy is replaced while it runs, and the leader is
killed meanwhile."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.page.followed_master import FollowedQuery
from tests.integration.spark_driver import SparkDriver

import penstock as ps
from penstock.adaptors.spark.cluster import EmbeddedCluster
from penstock.adaptors.spark.query_probe import executors_of_this_driver
from penstock.errors import MetricSourceError
from penstock.service.address_file import ADDRESS_FILE, read_address
from penstock.service.master_stores import TOKEN_FILE, StoreFolder

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [pytest.mark.spark, pytest.mark.kill, pytest.mark.browser, pytest.mark.long]
PATIENCE_SECONDS = 180.0
RULES = 'rule "always":\n  scale-out counts by 1 never above 2\n  when heap_used above 1 for 2 seconds\n'


@pytest.fixture(scope="module")
def spark(spark_driver: SparkDriver, standalone_cluster: EmbeddedCluster) -> Iterator[SparkSession]:
    """An application with two executors of one core."""
    settings = {
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.cores.max": "2",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.replicationReattemptInterval": "2s",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    with spark_driver.on_cluster(standalone_cluster, settings) as session:
        yield session


@pytest.fixture
def query(spark: SparkSession) -> Iterator[StreamingQuery]:
    """A query that hardly needs CPU."""
    rows = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    counts = rows.groupBy((col("value") % 5).alias("key")).count()
    started = counts.writeStream.outputMode("update").format("noop").queryName("counts").start()
    yield started
    started.stop()


class Masters:
    """Two masters that share a folder."""

    def __init__(self, folder: Path) -> None:
        self.store = StoreFolder(folder / "masters")
        self.store.token()
        self._logs = folder
        self.processes = {port: self.start(port) for port in (free_port(), free_port())}

    @property
    def places(self) -> str:
        """Where agents find them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.processes)

    def start(self, port: int) -> subprocess.Popen[bytes]:
        """One more."""
        command = [sys.executable, "-m", "penstock", "serve", "--store", f"sqlite:{self.store.folder}"]
        with (self._logs / f"{port}.log").open("ab") as log:
            return subprocess.Popen([*command, "--agent-port", str(port)], stdout=log, stderr=log)

    def ask(self, path: str, body: dict[str, Any] | None = None, method: str = "GET") -> dict[str, Any]:
        """Ask whoever leads; nothing where it does not answer just now."""
        try:
            known = read_address(self.store.folder / ADDRESS_FILE)
            request = urllib.request.Request(
                f"{known.address}/api/v1/{path}",
                method=method,
                data=None if body is None else json.dumps(body).encode(),
                headers={"Authorization": f"Bearer {known.operate_token}", "Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=20) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except (ps.ConfigurationError, OSError) as fault:
            if isinstance(fault, urllib.error.HTTPError) and fault.code == 422:
                raise AssertionError(fault.read().decode()) from fault
            return {}

    def decisions(self) -> list[dict[str, Any]]:
        """The newest decisions, newest first."""
        found: list[dict[str, Any]] = self.ask("pipelines/counts/decisions").get("decisions", [])
        return found

    def close(self) -> None:
        """End them."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait(30)


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return int(reserved.getsockname()[1])


def until(is_so: Callable[[], bool], what: str) -> None:
    """Wait; the bound only ends a failing test."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"{what} did not come about"
        time.sleep(0.2)


class Batches:
    """The batches of a query as they are seen to end."""

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self.started: dict[int, float] = {}

    def look(self) -> int:
        """Take in the new ones, and give the newest; -1: there is none."""
        for progress in self._query.recentProgress:
            at = datetime.fromisoformat(progress["timestamp"].replace("Z", "+00:00")).timestamp()
            self.started[int(progress["batchId"])] = at
        return max(self.started, default=-1)

    def longest_gap(self, since: float) -> float:
        """The longest time between the starts of two batches that began after an instant, in seconds."""
        starts = [at for number in sorted(self.started) if (at := self.started[number]) >= since]
        return max(after - before for before, after in pairwise(starts))


def test_policies_are_replaced_live_and_a_killed_leader_is_followed_by_another(
    query: StreamingQuery, chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`threshold` takes an executor away, the leader dies, rules give it back by what the driver's agent reports, and
    `mead` decides; the page shows all of it, and leads to the other master. The query is one run all the while, and no
    batch is left out."""
    masters = Masters(tmp_path)
    monkeypatch.setenv("PENSTOCK_AGENT_TOKEN_FILE", str(masters.store.folder / TOKEN_FILE))
    executors, batches, run = executors_of_this_driver(), Batches(query), query.runId
    followed: FollowedQuery | None = None

    def active() -> int:
        batches.look()
        try:
            return sum(one.is_active for one in executors())
        except MetricSourceError:  # seen on a busy machine: Spark's web page does not answer in time
            return -1

    try:
        until(lambda: active() == 2, "two executors")
        with ps.attach(
            query,
            objective=ps.latency(p95="60s"),
            executors=(1, 2),
            mode="act",
            policy="threshold",
            policy_options={"every_seconds": "2s", "lower": 0.9, "upper": 0.99},
            warm_up_seconds=2.0,
            window_seconds=5.0,
            guards={"cooldown_down": "2s", "cooldown_up": "2s", "opposite": "2s", "drain": "60s"},
            master=masters.places,
        ) as attached:
            until(lambda: attached.connected_to is not None and bool(masters.ask("pipelines/counts")), "a master")
            followed = FollowedQuery(
                chromium, read_address(masters.store.folder / ADDRESS_FILE).link, "counts", tmp_path
            )
            followed.shows_policy("threshold")
            until(lambda: active() == 1, "an executor that is taken away")
            followed.shows_size(1)
            assert "utilisation" in followed.shows_change("scale in")
            followed.picture("threshold")
            followed.hears_of_another_master()
            first = attached.connected_to
            assert first is not None
            leader = masters.processes[int(first.rpartition(":")[2])]
            leader.send_signal(signal.SIGKILL)
            leader.wait()
            followed.lose_master()
            followed.picture("leader-killed")
            until(lambda: attached.connected_to not in (None, first), "another master")
            until(lambda: any(d["policy"] == "threshold" for d in masters.decisions()), "its first decision")
            followed.go_on(read_address(masters.store.folder / ADDRESS_FILE).address)
            followed.shows_policy("threshold")
            assert followed.why()
            followed.picture("other-leader")
            replaced_from = time.time()
            followed.replace_policy("rules", RULES)
            until(lambda: active() == 2, "the executor that the rule asks for")
            followed.shows_size(2)
            assert "heap_used" in followed.shows_change("scale out")
            followed.picture("rules")
            (agent,) = masters.ask("agents")["agents"]
            assert "heap_used" in agent["subscribed"]
            followed.replace_policy("mead")
            until(lambda: any(d["policy"] == "mead" for d in masters.decisions()[:3]), "a decision of mead")
            assert followed.why()
            followed.picture("mead")
            after = batches.look()
            until(lambda: batches.look() > after, "more batches")
        assert attached.connected_to is None
        assert (query.isActive, query.runId) == (True, run)
        assert sorted(batches.started) == list(range(len(batches.started)))
        words = f"{batches.longest_gap(replaced_from):.2f} s between two of {len(batches.started)} batches, at most\n"
        (tmp_path / "longest-gap.txt").write_text(words)
        store = masters.store.open_readonly("counts")
        decided = store.decisions("counts", limit=100_000)
        assert [p for p in dict.fromkeys(d.policy for d in decided) if p != "steering"] == [
            "threshold",
            "rules",
            "mead",
        ]
        assert {d.verb for d in decided if d.is_change} >= {"scale in", "scale out"}
        store.close()
    finally:
        if followed is not None:
            followed.close()
        masters.close()
