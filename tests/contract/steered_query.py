# SPDX-License-Identifier: Apache-2.0
"""A query on a real cluster with Penstock attached, whose size a test decides: what the tests of clusters share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import penstock as ps
from penstock.adaptors.clusters import RunningApplication, SparkCluster, cluster_of
from penstock.adaptors.spark.executors_of_driver import ExecutorsOfDriver
from penstock.adaptors.spark.query_probe import executors_of_this_driver
from penstock.adaptors.spark.scaling import ExecutorScaler
from penstock.records import Allocation, Decision, Limits, Outcome, OutcomeStatus, PlanRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_SECONDS = 300.0
ENDED = (OutcomeStatus.DONE, OutcomeStatus.DRAINING, OutcomeStatus.FAILED)


class ObedientPolicy:
    """Decides what the test says, and keeps what it was asked."""

    name = "obedient"
    every_seconds = 1.0

    def __init__(self) -> None:
        self.target = Allocation(1, 1.0)
        self.request: PlanRequest | None = None

    def plan(self, request: PlanRequest) -> Decision:
        """The test's word."""
        self.request = request
        return Decision(request.operator, request.at, self.name, request.current, self.target, "the test says so")


@dataclass
class SteeredQuery:
    """The running application, and Penstock attached to it."""

    spark: SparkSession
    query: StreamingQuery
    scaler: ps.Scaler
    policy: ObedientPolicy
    port: SparkCluster

    @property
    def application(self) -> str:
        """Its id."""
        return str(self.spark.sparkContext.applicationId)

    def hosts(self) -> dict[str, str]:
        """The nodes of the executors that take tasks, by executor."""
        active = set(self.port.census().active)
        found = ExecutorsOfDriver(self.spark.sparkContext)()
        return {e.executor_id: e.host for e in found if e.executor_id in active}

    def until(self, is_so: Callable[[], object], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait; the bound only ends a failing test."""
        deadline = time.monotonic() + seconds
        while not is_so():
            census, total = self.port.census(), self.port.asked()
            assert time.monotonic() < deadline, (census, total, self.hosts(), self.outcomes()[-3:], self.missing())
            time.sleep(0.3)

    def decide(self, executors: int, share: float) -> None:
        """Have the policy decide, and wait until that is so."""
        before = len(self.outcomes())
        self.policy.target = Allocation(executors, share)
        self.until(lambda: any(outcome.status in ENDED for outcome in self.outcomes()[before:]))
        (ended, *_) = [outcome for outcome in self.outcomes()[before:] if outcome.status in ENDED]
        assert ended.status is not OutcomeStatus.FAILED, ended.detail

    def settle(self, executors: int) -> None:
        """Wait until so many executors take tasks, and no other is there."""
        self.until(lambda: len(self.hosts()) == executors and not self.port.census().leaving)

    def outcomes(self) -> list[Outcome]:
        """What became of actions so far."""
        return self.scaler._store.outcomes(self.query.name)

    def missing(self) -> tuple[str, ...]:
        """What the newest look could not find out, and why."""
        return () if self.scaler.observation is None else self.scaler.observation.missing

    def next_batches(self, count: int) -> None:
        """Wait for so many more batches: the query runs."""
        now = self.query.lastProgress
        first = -1 if now is None else int(now["batchId"])
        self.until(lambda: self.query.lastProgress is not None and self.query.lastProgress["batchId"] >= first + count)


@contextmanager
def alone(query: SteeredQuery) -> Iterator[SparkCluster]:
    """Detach Penstock, and hold the cluster of one executor as it does: nobody else scales the application then."""
    query.scaler.detach()
    cluster = cluster_of(RunningApplication(query.spark.sparkContext, executors_of_this_driver(), 1))
    before = cluster.asked()
    assert before is not None
    scaler = ExecutorScaler(cluster)

    def has_one() -> bool:
        scaler.reconcile(1)
        return len(query.hosts()) == 1 and not cluster.census().leaving

    query.until(has_one)
    cluster.hold(str(query.query.name), Limits(1, 8, (0.5, 1.0)))
    try:
        cluster.watch_room()
        yield cluster
    finally:
        cluster.close()
        cluster.ask(before)


@contextmanager
def steered(
    spark: SparkSession, query: StreamingQuery, *, most: int, cpu_shares: tuple[float, ...] = (0.5, 1.0)
) -> Iterator[SteeredQuery]:
    """Attach to a query, and have it come to one executor. In the end it has as many as before it was attached."""
    port = cluster_of(RunningApplication(spark.sparkContext))
    before = port.asked()
    assert before is not None, "set how many executors the application has at its start"
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(port.census().active) < before:
        assert time.monotonic() < deadline, f"of {before} executors these came: {port.census()}"
        time.sleep(0.3)
    policy = ObedientPolicy()
    with ps.attach(
        query,
        executors=(1, most),
        cpu_shares=cpu_shares,
        mode="act",
        policy=policy,
        guards="none",
        warm_up_seconds=0.0,
    ) as scaler:
        made = SteeredQuery(spark, query, scaler, policy, port)
        made.settle(1)
        yield made
        made.next_batches(2)
    assert query.isActive, query.exception()
    made.settle(before)
